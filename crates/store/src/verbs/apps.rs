//! Apps and their executors: what registered, and what people set.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::model::Text;
use punctual_core::registry::Secret;
use punctual_node::ports::{AppRow, Beat, Paused, Registered, StoreError};

use super::session::SqlSession;
use super::statement::{Statement, delete, insert, keep, replace, sql, update};
use super::{Access, ColdVerb};
use crate::code::{paused_code, retention_code};
use crate::rows::{self, Cells};

/// An app that was not created yet gets a row, so that people find it.
pub(crate) fn ensure_app(name: &str) -> Statement {
    keep("apps").key("name", name).set("title", "").set("version", 1_i64)
}

fn one_app(name: &str) -> Statement {
    sql("select name, title, addresses, access_token, version, apps.retention, apps.paused
         from apps
         where same(name, ?1)")
    .with(name)
}

/// Everything that is kept about apps, in one snapshot. Rows that cannot be read are left out: the others are still sent to.
pub(crate) struct AllApps;

impl ColdVerb for AllApps {
    type Answer = Registered;

    fn access(&self) -> Access {
        Access::Look
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Registered, S::Trouble> {
        let apps =
            "select name, title, addresses, access_token, version, apps.retention, apps.paused from apps";
        let executors = "select app, address, dialect, beat_at, joined_at from executors";
        let [apps, executors] = session.commit([sql(apps), sql(executors)]).await?;
        let mut registered = Registered::default();
        for row in &apps.rows {
            registered.apps.extend(rows::app(row)?);
        }
        for row in &executors.rows {
            registered.executors.extend(rows::executor(row)?);
        }
        // Here and not by the database, whose order of texts is its own.
        registered.apps.sort_by(|one, other| one.name.cmp(&other.name));
        registered
            .executors
            .sort_by(|one, other| (&one.app, &one.address).cmp(&(&other.app, &other.address)));
        Ok(registered)
    }
}

/// One app.
pub(crate) struct OneApp(pub(crate) String);

impl ColdVerb for OneApp {
    type Answer = Option<AppRow>;

    fn access(&self) -> Access {
        Access::Look
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Option<AppRow>, S::Trouble> {
        let [app] = session.commit([one_app(&self.0)]).await?;
        Ok(app.first().map(rows::app).transpose()?.flatten())
    }
}

/// Executors that say that they are there.
pub(crate) struct BeatAll(pub(crate) Vec<Beat>);

impl ColdVerb for BeatAll {
    type Answer = ();

    fn access(&self) -> Access {
        Access::Write(self.0.len())
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<(), S::Trouble> {
        if self.0.is_empty() {
            return Ok(());
        }
        // The last beat of each, in one order, so that nodes that beat together do not wait for each other crosswise.
        let last: BTreeMap<(&Text, &Text), &Beat> =
            self.0.iter().map(|beat| ((&beat.app, &beat.address), beat)).collect();
        let now = session.now().await?;
        let mut apps: Vec<&Text> = last.keys().map(|(app, _)| *app).collect();
        apps.dedup();
        let executor = |beat: &&Beat| {
            replace("executors")
                .key("app", &*beat.app)
                .key("address", &*beat.address)
                .set("dialect", beat.dialect.name())
                .set("beat_at", now)
                .once("joined_at", now)
        };
        let apps = apps.into_iter().map(|app| ensure_app(app));
        session.send(apps.chain(last.values().map(executor)).collect(), true).await?;
        Ok(())
    }
}

/// Forgets an executor; whether it was known.
pub(crate) struct Leave {
    pub(crate) app: String,
    pub(crate) address: String,
}

impl ColdVerb for Leave {
    type Answer = bool;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<bool, S::Trouble> {
        let gone = delete("executors").key("app", &*self.app).key("address", &*self.address);
        let [gone] = session.commit([gone]).await?;
        Ok(gone.affected == 1)
    }
}

/// Forgets executors that were not heard of for longer than this.
pub(crate) struct Bury(pub(crate) Duration);

impl ColdVerb for Bury {
    type Answer = Vec<(Text, Text)>;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Vec<(Text, Text)>, S::Trouble> {
        let now = session.now().await?;
        let last = now.saturating_sub(i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX));
        // A beat from before the clock was set back is not waited for until the clock has caught up.
        let early = sql("update executors set beat_at = ?1 where beat_at > ?1").with(now);
        let dead = sql("select app, address from executors where beat_at < ?1 for update").with(last);
        let [_, dead] = session.ask([early, dead]).await?;
        let mut buried: Vec<(Text, Text)> = dead
            .rows
            .iter()
            .map(|row| Ok((row.text(0)?, row.text(1)?)))
            .collect::<Result<_, StoreError>>()?;
        buried.sort_unstable();
        let forget =
            |(app, address): &(Text, Text)| delete("executors").key("app", &**app).key("address", &**address);
        session.send(buried.iter().map(forget).collect(), true).await?;
        Ok(buried)
    }
}

/// Creates or replaces an app.
pub(crate) struct PutApp {
    pub(crate) app: AppRow,
    pub(crate) expected: Option<u64>,
}

impl ColdVerb for PutApp {
    type Answer = u64;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<u64, S::Trouble> {
        let AppRow { name, title, addresses, access_token, retention, .. } = &self.app;
        let version = sql("select version from apps where same(name, ?1) for update").with(&**name);
        let [version] = session.ask([version]).await?;
        let there = version.number()?.unwrap_or_default() as u64;
        if let Some(expected) = self.expected.filter(|expected| *expected != there) {
            let said = format!("app {name} has version {there}, not {expected}");
            return Err(StoreError::Conflict(said.into()).into());
        }
        let addresses = addresses.as_ref();
        let addresses = addresses.map(|list| serde_json::to_string(list).expect("texts always serialize"));
        // A row that was not there is inserted and no other: of two nodes that come together, one is asked again.
        let written = if there == 0 { insert("apps") } else { update("apps") };
        let written = written
            .key("name", &**name)
            .set("title", &**title)
            .set("addresses", addresses)
            .set("access_token", access_token.as_ref().map(Secret::expose))
            .set("version", there as i64 + 1)
            .set("retention", retention.map(retention_code));
        session.commit([written]).await?;
        Ok(there + 1)
    }
}

/// Pauses an app, or goes on with it.
pub(crate) struct PauseApp {
    pub(crate) name: String,
    pub(crate) paused: Option<Paused>,
}

impl ColdVerb for PauseApp {
    type Answer = Option<AppRow>;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Option<AppRow>, S::Trouble> {
        // Callers that come together wait at the app's own row, and then see what the one before has left.
        let lock = sql("select 1 from apps where same(name, ?1) for update").with(&*self.name);
        let [_, before] = session.ask([lock, one_app(&self.name)]).await?;
        let Some(before) = before.first() else { return Ok(None) };
        let (version, is_paused) = (before.number(4)?, before.maybe_string(6)?.is_some());
        let mut statements = Vec::new();
        if is_paused != self.paused.is_some() {
            statements.push(
                update("apps")
                    .key("name", &*self.name)
                    .set("version", version + 1)
                    .set("paused", self.paused.as_ref().map(paused_code)),
            );
        }
        statements.push(one_app(&self.name));
        let replies = session.send(statements, true).await?;
        let after = replies.last().and_then(|reply| reply.first());
        Ok(after.map(rows::app).transpose()?.flatten())
    }
}

/// Forgets an app with its executors; whether it was there.
pub(crate) struct RemoveApp(pub(crate) String);

impl ColdVerb for RemoveApp {
    type Answer = bool;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<bool, S::Trouble> {
        let name = &*self.0;
        let there = sql("select 1 from apps where same(name, ?1) for update").with(name);
        let job =
            sql("select id from jobs where same(app, ?1) and state <> 2 order by id limit 1").with(name);
        let [there, job] = session.ask([there, job]).await?;
        if let Some(job) = job.number()? {
            return Err(StoreError::Conflict(format!("app {name} has jobs, such as job {job}").into()).into());
        }
        let executors = sql("delete from executors where same(app, ?1)").with(name);
        session.commit([executors, delete("apps").key("name", name)]).await?;
        Ok(there.first().is_some())
    }
}

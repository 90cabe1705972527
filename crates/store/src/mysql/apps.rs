//! Apps and their executors: who registered, and what people set.

use std::time::Duration;

use punctual_core::model::Text;
use punctual_node::ports::{AppRow, Beat, ExecutorRow, Paused, Registered, StoreError};

use super::ask::{Moment, Verb};
use super::link::Line;
use super::text::{Maybe, Quoted, Script, Sum};
use super::trouble::Trouble;
use crate::code::{DELETED, paused_code, retention_code};
use crate::rows::{app, executor};

/// Everything that is kept about apps.
pub(super) struct AllApps;

impl Verb for AllApps {
    type Answer = Registered;

    /// Rows that cannot be read are left out: the others are still sent to.
    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Registered, Trouble> {
        let mut script = Script::snapshot();
        let apps = script.push(APPS);
        let executors = script.push("select app, address, dialect, beat_at, joined_at from executors");
        script.push("commit");
        let said = line.ask(script).await?;
        let mut registered = Registered::default();
        for row in &said[apps].rows {
            registered.apps.extend(app(row)?);
        }
        for row in &said[executors].rows {
            registered.executors.extend(executor(row)?);
        }
        // The keys are sums, so the order is made here.
        registered.apps.sort_by(|one, other| one.name.cmp(&other.name));
        let key = |row: &ExecutorRow| (row.app.clone(), row.address.clone());
        registered.executors.sort_by_cached_key(key);
        Ok(registered)
    }
}

/// Apps with what stands beside their table.
const APPS: &str = "select name, title, addresses, access_token, version, kept, paused
     from apps
     left join retentions on retentions.app_key = name_key
     left join pauses on pauses.app_key = name_key";

/// One app.
pub(super) struct OneApp<'a>(pub(super) &'a str);

impl Verb for OneApp<'_> {
    type Answer = Option<AppRow>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Option<AppRow>, Trouble> {
        let said = line.say(format!("{APPS} where name_key = {}", Sum(self.0))).await?;
        said.rows.first().map(app).transpose().map(Option::flatten)
    }
}

/// Pauses an app, or goes on with it.
pub(super) struct PauseApp<'a> {
    pub(super) name: &'a str,
    pub(super) paused: Option<&'a Paused>,
}

impl Verb for PauseApp<'_> {
    type Answer = Option<AppRow>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Option<AppRow>, Trouble> {
        let key = Sum(self.name);
        let mut script = Script::transaction();
        // Who comes together with another waits at the app's own row.
        script.push(format!("select version from apps where name_key = {key} for update"));
        let before = script.push(format!("{APPS} where name_key = {key}"));
        let said = line.ask(script).await?;
        let before = said[before].rows.first().map(app).transpose()?.flatten();
        let mut script = Script::new();
        if before.as_ref().is_some_and(|app| app.paused.is_some() != self.paused.is_some()) {
            script.push(format!("update apps set version = version + 1 where name_key = {key}"));
            script.push(match self.paused.map(paused_code) {
                None => format!("delete from pauses where app_key = {key}"),
                Some(paused) => {
                    format!("insert into pauses (app_key, paused) values ({key}, {})", Quoted(&paused))
                }
            });
        }
        let after = script.push(format!("{APPS} where name_key = {key}"));
        script.push("commit");
        let said = line.ask(script).await?;
        said[after].rows.first().map(app).transpose().map(Option::flatten)
    }
}

/// Executors that say that they are there.
pub(super) struct BeatAll<'a>(pub(super) &'a [Beat]);

impl Verb for BeatAll<'_> {
    type Answer = ();

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<(), Trouble> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut beats: Vec<&Beat> = self.0.iter().collect();
        // The last word about an executor counts; in one order, whoever comes together.
        beats.sort_by(|one, other| (&one.app, &one.address).cmp(&(&other.app, &other.address)));
        let mut script = Script::transaction();
        let mut apps: Vec<&Text> = beats.iter().map(|beat| &beat.app).collect();
        apps.dedup();
        for app in apps {
            ensure_app(&mut script, app);
        }
        let row = |beat: &Beat| {
            format!(
                "({}, {}, {}, {}, {}, @now, @now)",
                Sum(&beat.app),
                Sum(&beat.address),
                Quoted(&beat.app),
                Quoted(&beat.address),
                Quoted(beat.dialect.name())
            )
        };
        script.push(format!("set @now = {}", at.now()));
        script.push_rows(
            "insert into executors (app_key, address_key, app, address, dialect, beat_at, joined_at) values ",
            beats.into_iter().map(row),
            " on duplicate key update dialect = values(dialect), beat_at = values(beat_at)",
        );
        script.push("commit");
        line.ask(script).await?;
        Ok(())
    }
}

/// An app that nobody has made gets a row, so that people find it.
pub(super) fn ensure_app(script: &mut Script, name: &str) {
    script.push(format!(
        "insert into apps (name_key, name, title, version)
         values ({}, {}, '', 1)
         on duplicate key update version = version",
        Sum(name),
        Quoted(name)
    ));
}

/// Forgets an executor.
pub(super) struct Leave<'a> {
    pub(super) app: &'a str,
    pub(super) address: &'a str,
}

impl Verb for Leave<'_> {
    type Answer = bool;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<bool, Trouble> {
        let said = line
            .say(format!(
                "delete from executors where app_key = {} and address_key = {}",
                Sum(self.app),
                Sum(self.address)
            ))
            .await?;
        Ok(said.affected == 1)
    }
}

/// Forgets executors that were not heard of.
pub(super) struct Bury(pub(super) Duration);

impl Verb for Bury {
    type Answer = Vec<(Text, Text)>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<(Text, Text)>, Trouble> {
        let dead = i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        let mut script = Script::transaction();
        script.push(format!("set @now = {}", at.now()));
        // A beat from before the clock was set back is not waited for until the clock has caught up.
        script.push("update executors set beat_at = @now where beat_at > @now");
        let found = script.push(format!(
            "select app, address, hex(app_key), hex(address_key)
             from executors
             where beat_at < @now - {dead}
             order by app_key, address_key
             for update"
        ));
        let said = line.ask(script).await?;
        let mut script = Script::new();
        let mut buried: Vec<(Text, Text)> = Vec::new();
        for row in &said[found].rows {
            buried.push((row.text(0)?, row.text(1)?));
            script.push(format!(
                "delete from executors where app_key = x'{}' and address_key = x'{}'",
                row.string(2)?,
                row.string(3)?
            ));
        }
        script.push("commit");
        line.ask(script).await?;
        buried.sort_unstable();
        Ok(buried)
    }
}

/// Creates or replaces an app.
pub(super) struct PutApp<'a> {
    pub(super) app: &'a AppRow,
    pub(super) expected: Option<u64>,
}

impl Verb for PutApp<'_> {
    type Answer = u64;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<u64, Trouble> {
        let app = self.app;
        let key = Sum(&app.name);
        let mut script = Script::transaction();
        let version = script.push(format!("select version from apps where name_key = {key} for update"));
        let there = line.ask(script).await?[version].number()?.unwrap_or_default() as u64;
        if let Some(expected) = self.expected.filter(|expected| *expected != there) {
            let said = format!("app {} has version {there}, not {expected}", app.name);
            return Err(StoreError::Conflict(said.into()).into());
        }
        let addresses =
            app.addresses.as_ref().map(|list| serde_json::to_string(list).expect("texts always serialize"));
        let (title, addresses) = (Quoted(&app.title), Maybe(addresses.as_deref().map(Quoted)));
        let token = Maybe(app.access_token.as_ref().map(|token| Quoted(token.expose())));
        let next = there + 1;
        // A row that was not there is inserted and no other, so that of two who come together one is asked again.
        let mut script = Script::of(match there {
            0 => format!(
                "insert into apps (name_key, name, title, addresses, access_token, version)
                 values ({key}, {}, {title}, {addresses}, {token}, {next})",
                Quoted(&app.name)
            ),
            _ => format!(
                "update apps
                 set title = {title}, addresses = {addresses}, access_token = {token}, version = {next}
                 where name_key = {key}"
            ),
        });
        script.push(match app.retention.map(retention_code) {
            None => format!("delete from retentions where app_key = {key}"),
            Some(kept) => format!(
                "insert into retentions (app_key, kept)
                 values ({key}, {kept})
                 on duplicate key update kept = values(kept)"
            ),
        });
        script.push("commit");
        line.ask(script).await?;
        Ok(next)
    }
}

/// Forgets an app with its executors.
pub(super) struct RemoveApp<'a>(pub(super) &'a str);

impl Verb for RemoveApp<'_> {
    type Answer = bool;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<bool, Trouble> {
        let key = Sum(self.0);
        let mut script = Script::transaction();
        let there = script.push(format!("select 1 from apps where name_key = {key} for update"));
        let jobs = script.push(format!(
            "select id from jobs where app_key = {key} and state <> {DELETED} order by id limit 1"
        ));
        let said = line.ask(script).await?;
        if let Some(job) = said[jobs].number()? {
            return Err(
                StoreError::Conflict(format!("app {} has jobs, such as job {job}", self.0).into()).into()
            );
        }
        let mut script = Script::of(format!("delete from executors where app_key = {key}"));
        script.push(format!("delete from retentions where app_key = {key}"));
        script.push(format!("delete from pauses where app_key = {key}"));
        script.push(format!("delete from apps where name_key = {key}"));
        script.push("commit");
        line.ask(script).await?;
        Ok(said[there].first().is_some())
    }
}

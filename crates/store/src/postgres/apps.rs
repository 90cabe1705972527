//! Apps and their executors: who registered, and what people set.

use std::time::Duration;

use punctual_core::model::Text;
use punctual_node::ports::{AppRow, Beat, Paused, Registered, StoreError};
use tokio_postgres::Row;

use super::Postgres;
use super::ask::{Ask, Columns, Flight, text_code};
use super::line::Line;
use super::trouble::Trouble;
use crate::code::{paused_code, retention_code};
use crate::rows::{app, executor};

/// Apps that nobody has made get a row, so that people find them.
pub(super) fn ensure_apps(mut names: Vec<String>) -> Ask {
    names.sort_unstable();
    names.dedup();
    Ask::new(
        "insert into apps (name, title, version)
         select name, '', 1 from unnest($1) as name
         on conflict (md5(name)) do nothing",
    )
    .with(names)
}

impl Postgres {
    /// Rows that cannot be read are left out: the others are still sent to.
    pub(super) async fn try_registered(&self, line: &Line<'_>) -> Result<Registered, Trouble> {
        let mut flight = Flight::snapshot();
        let apps = "select name, title, addresses, access_token, version, retention, paused from apps";
        let apps = flight.add(Ask::new(apps));
        let executors =
            flight.add(Ask::new("select app, address, dialect, beat_at, joined_at from executors"));
        flight.commit();
        let mut landed = line.fly(flight).await?;
        let mut registered = Registered::default();
        for row in landed.take(apps) {
            registered.apps.extend(app(&row)?);
        }
        for row in landed.take(executors) {
            registered.executors.extend(executor(&row)?);
        }
        // Here and not by the server, whose order of texts is not ours.
        registered.apps.sort_by(|one, other| one.name.cmp(&other.name));
        registered
            .executors
            .sort_by(|one, other| (&one.app, &one.address).cmp(&(&other.app, &other.address)));
        Ok(registered)
    }

    pub(super) async fn try_beat(&self, line: &Line<'_>, beats: &[Beat]) -> Result<(), Trouble> {
        // The last word of each, in an order that is the same for all who beat.
        let mut rows: std::collections::BTreeMap<(&Text, &Text), &Beat> = std::collections::BTreeMap::new();
        for beat in beats {
            rows.insert((&beat.app, &beat.address), beat);
        }
        if rows.is_empty() {
            return Ok(());
        }
        let texts =
            |of: &dyn Fn(&Beat) -> String| rows.values().map(|beat| of(beat)).collect::<Vec<String>>();
        let mut flight = Flight::begin();
        flight.add(ensure_apps(texts(&|beat| text_code(&beat.app))));
        flight.add(
            Ask::new(
                "with now as materialized (
                     select coalesce($4, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as ms
                 )
                 insert into executors (app, address, dialect, beat_at, joined_at)
                 select app, address, dialect, now.ms, now.ms
                 from now, unnest($1, $2, $3) as b (app, address, dialect)
                 on conflict (md5(app), md5(address)) do update
                 set dialect = excluded.dialect, beat_at = excluded.beat_at",
            )
            .with(texts(&|beat| text_code(&beat.app)))
            .with(texts(&|beat| text_code(&beat.address)))
            .with(texts(&|beat| beat.dialect.name().to_owned()))
            .with(self.told_now()),
        );
        flight.commit();
        line.fly(flight).await.map(drop)
    }

    pub(super) async fn try_leave(&self, line: &Line<'_>, app: &str, address: &str) -> Result<bool, Trouble> {
        let ask = Ask::new(
            "delete from executors
             where md5(app) = md5($1) and md5(address) = md5($2) and app = $1 and address = $2
             returning 1",
        );
        Ok(!line.ask(ask.with(text_code(app)).with(text_code(address))).await?.is_empty())
    }

    pub(super) async fn try_bury(
        &self,
        line: &Line<'_>,
        dead: Duration,
    ) -> Result<Vec<(Text, Text)>, Trouble> {
        let mut flight = Flight::begin();
        // A beat from before the clock was set back is not waited for until the clock has caught up.
        flight.add(
            Ask::new(
                "with now as materialized (
                     select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as ms
                 )
                 update executors set beat_at = now.ms from now where beat_at > now.ms",
            )
            .with(self.told_now()),
        );
        let buried = flight.add(
            Ask::new(
                "delete from executors
                 where beat_at < coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $2
                 returning app, address",
            )
            .with(self.told_now())
            .with(i64::try_from(dead.as_millis()).unwrap_or(i64::MAX).min(1 << 50)),
        );
        flight.commit();
        let mut landed = line.fly(flight).await?;
        let texts = |row: &Row| Ok((row.text(0)?, row.text(1)?));
        let mut buried: Vec<(Text, Text)> =
            landed.take(buried).iter().map(texts).collect::<Result<_, Trouble>>()?;
        buried.sort_unstable();
        Ok(buried)
    }

    pub(super) async fn try_put_app(
        &self,
        line: &Line<'_>,
        app: &AppRow,
        expected: Option<u64>,
    ) -> Result<u64, Trouble> {
        let addresses = app.addresses.as_ref();
        let ask = Ask::new(
            "insert into apps as a (name, title, addresses, access_token, version, retention)
             select $1, $2, $3, $4, 1, $6
             where coalesce($5, 0) = 0 or exists (select from apps where md5(name) = md5($1))
             on conflict (md5(name)) do update
             set title = excluded.title, addresses = excluded.addresses, access_token = excluded.access_token,
                 version = a.version + 1, retention = excluded.retention
             where $5::bigint is null or a.version = $5
             returning version",
        )
        .with(text_code(&app.name))
        .with(text_code(&app.title))
        .with(addresses.map(|list| text_code(&serde_json::to_string(list).expect("texts always serialize"))))
        .with(app.access_token.as_ref().map(|token| text_code(token.expose())))
        .with(expected.map(|expected| i64::try_from(expected).unwrap_or(i64::MAX)))
        .with(app.retention.map(retention_code));
        if let Some(row) = line.ask(ask).await?.first() {
            return row.bits(0);
        }
        let ask = Ask::new("select version from apps where md5(name) = md5($1)").with(text_code(&app.name));
        let there = line.ask(ask).await?.first().map(|row| row.bits(0)).transpose()?.unwrap_or(0);
        let expected = expected.unwrap_or(0);
        let said = format!("app {} has version {there}, not {expected}", app.name);
        Err(StoreError::Conflict(said.into()).into())
    }

    pub(super) async fn try_app(&self, line: &Line<'_>, name: &str) -> Result<Option<AppRow>, Trouble> {
        let ask = Ask::new(
            "select name, title, addresses, access_token, version, retention, paused
             from apps
             where md5(name) = md5($1) and name = $1",
        );
        let rows = line.ask(ask.with(text_code(name))).await?;
        rows.first().map(app).transpose().map(Option::flatten)
    }

    pub(super) async fn try_pause_app(
        &self,
        line: &Line<'_>,
        name: &str,
        paused: Option<&Paused>,
    ) -> Result<Option<AppRow>, Trouble> {
        let ask = Ask::new(
            "update apps
             set paused = $2, version = version + 1
             where md5(name) = md5($1) and name = $1 and (paused is null) <> ($2::text is null)
             returning name, title, addresses, access_token, version, retention, paused",
        )
        .with(text_code(name))
        .with(paused.map(|paused| text_code(&paused_code(paused))));
        match line.ask(ask).await?.first() {
            Some(row) => app(row),
            None => self.try_app(line, name).await,
        }
    }

    pub(super) async fn try_remove_app(&self, line: &Line<'_>, name: &str) -> Result<bool, Trouble> {
        let mut flight = Flight::begin();
        let job =
            "select id from jobs where md5(app) = md5($1) and app = $1 and state <> 2 order by id limit 1";
        let job = flight.add(Ask::new(job).with(text_code(name)));
        let nobody = "not exists (select from jobs where md5(app) = md5($1) and app = $1 and state <> 2)";
        let executors = format!("delete from executors where md5(app) = md5($1) and app = $1 and {nobody}");
        flight.add(Ask::new(executors).with(text_code(name)));
        let apps =
            format!("delete from apps where md5(name) = md5($1) and name = $1 and {nobody} returning 1");
        let gone = flight.add(Ask::new(apps).with(text_code(name)));
        flight.commit();
        let mut landed = line.fly(flight).await?;
        if let Some(row) = landed.take(job).first() {
            let said = format!("app {name} has jobs, such as job {}", row.job(0)?);
            return Err(StoreError::Conflict(said.into()).into());
        }
        Ok(!landed.take(gone).is_empty())
    }
}

//! `punctual migrate` and `punctual doctor`: prepare and check a database before nodes use it.

use std::path::PathBuf;

use clap::Args;
use punctual_cli::{Outcome, environment};
use punctual_node::ports::StoreError;
use punctual_store::mysql::MySql;
use punctual_store::postgres::Postgres;
use punctual_store::redis::Redis;
use punctual_store::{Inspection, Migrated, Options};
use toml::Value;

use crate::clock;
use crate::config::{self, Config, Flags};
use crate::keep::{self, Engine};

/// A clock that differs from the database's by more than this is worth a word.
const SKEW_MS: i64 = 500;

/// A clock that differs by more than this makes every time that people read wrong.
const SKEW_MAX_MS: i64 = 60_000;

/// Which database.
#[derive(Args)]
pub(crate) struct Database {
    /// The database: postgres://… or mysql://… [default: as the configuration says]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The configuration file (TOML)
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
}

impl Database {
    fn configured(&self) -> Result<Config, String> {
        let mut flags = Flags::new();
        flags.extend(self.database.clone().map(|url| ("database", "url", Value::String(url))));
        let read = config::read(self.config.as_deref(), &environment::variables(), &flags);
        read.map(|read| read.config).map_err(|error| error.to_string())
    }
}

/// Brings the schema up to what this program knows.
pub(super) fn migrate(asked: &Database) -> Outcome {
    let config = match asked.configured() {
        Ok(config) => config,
        Err(error) => return Outcome::usage_error(error),
    };
    let Some(url) = config.database.as_ref().map(|url| url.expose().to_owned()) else {
        let said = "the file in the data folder is brought up to date when it is opened; name a database with --database";
        return Outcome::usage_error(said);
    };
    match block_on(migrated(&url, &keep::options(&config))) {
        Ok(migrated) => Outcome::data(told(&migrated)),
        Err(error) => failed(&error),
    }
}

async fn migrated(url: &str, options: &Options) -> Result<Migrated, StoreError> {
    match Engine::of(url) {
        Ok(Engine::Postgres) => Postgres::migrate(url, options).await,
        Ok(Engine::MySql) => MySql::migrate(url, options).await,
        Err(error) => Err(StoreError::Conflict(error.into())),
    }
}

fn told(migrated: &Migrated) -> String {
    if migrated.applied.is_empty() {
        return format!("the schema is at version {} already; nothing was to be done\n", migrated.to);
    }
    let applied: String = migrated.applied.iter().map(|name| format!("applied {name}\n")).collect();
    format!("{applied}the schema is at version {} now (it was at {})\n", migrated.to, migrated.from)
}

/// Looks at what a node needs, and says what to do where something is wrong.
pub(super) fn doctor(asked: &Database) -> Outcome {
    let config = match asked.configured() {
        Ok(config) => config,
        Err(error) => return Outcome::usage_error(error),
    };
    let mut report = Report::default();
    report.say(Verdict::Fine, format!("punctual {}", super::version()));
    match config.database.as_ref().map(|url| url.expose().to_owned()) {
        None => embedded(&config, &mut report),
        Some(url) => match block_on(inspected(&url, &keep::options(&config))) {
            Ok(found) => judge(&found, &config, clock::now().as_millis(), &mut report),
            Err(error) => report.say(Verdict::Wrong, format!("the database cannot be used: {error}")),
        },
    }
    if let Some(url) = config.redis.as_ref().map(|url| url.expose().to_owned()) {
        coordination(block_on(look_at_redis(&url)), &mut report);
    }
    report.outcome()
}

/// Leases in Redis without an expiry. Only the database knows whose they are.
async fn look_at_redis(url: &str) -> Result<Vec<String>, StoreError> {
    let redis = Redis::new(url, "", Box::new(|_| ()))?;
    redis.ping().await?;
    redis.endless_leases().await
}

fn coordination(found: Result<Vec<String>, StoreError>, report: &mut Report) {
    match found {
        Ok(endless) if endless.is_empty() => report.say(Verdict::Fine, "Redis answers".into()),
        Ok(endless) => {
            let said = format!(
                "Redis has leases that never end, which no node wrote: delete {} there, or nodes wait a term for the shard",
                endless.join(", ")
            );
            report.say(Verdict::Odd, said);
        }
        // Nodes work without it.
        Err(error) => {
            let said =
                format!("Redis cannot be used, so nodes coordinate through the database alone: {error}");
            report.say(Verdict::Odd, said);
        }
    }
}

async fn inspected(url: &str, options: &Options) -> Result<Inspection, StoreError> {
    match Engine::of(url) {
        Ok(Engine::Postgres) => Postgres::inspect(url, options).await,
        Ok(Engine::MySql) => MySql::inspect(url, options).await,
        Err(error) => Err(StoreError::Conflict(error.into())),
    }
}

fn embedded(config: &Config, report: &mut Report) {
    let (shown, file) = (config.data.display(), config.data.join("punctual.db"));
    report.say(Verdict::Fine, "one node, with the embedded store".into());
    match std::fs::metadata(&file) {
        Ok(found) => report.say(Verdict::Fine, format!("{} has {} bytes", file.display(), found.len())),
        Err(_) if !config.data.exists() => {
            report.say(Verdict::Fine, format!("the data folder {shown} is made at the first start"));
        }
        Err(error) => report.say(Verdict::Odd, format!("{}: {error}", file.display())),
    }
}

fn judge(found: &Inspection, config: &Config, here: i64, report: &mut Report) {
    report.say(Verdict::Fine, format!("the database answers: {}", found.server));
    if let Some(refusal) = &found.refusal {
        let said = format!("nodes refuse to use it: {refusal}");
        report.say(Verdict::Wrong, said);
    }
    if found.is_read_only {
        report.say(Verdict::Odd, "a replica is for database.read_url".into());
    }
    let skew = here - found.now;
    let verdict = match skew.abs() {
        0..=SKEW_MS => Verdict::Fine,
        ..=SKEW_MAX_MS => Verdict::Odd,
        _ => Verdict::Wrong,
    };
    let advice = if verdict == Verdict::Fine { "" } else { "; let both machines follow a time server" };
    report.say(verdict, format!("this machine's clock differs by {skew} ms from the database's{advice}"));
    match (found.schema_version, found.shards) {
        (Some(version), Some(shards)) => {
            report.say(Verdict::Fine, format!("the schema is at version {version}, with {shards} shards"));
            if shards != config.shards {
                let said = format!("store.shards is {} here: set it to {shards}", config.shards);
                report.say(Verdict::Wrong, said);
            }
        }
        (Some(version), None) => {
            let said = format!("the schema is at version {version}; no node has used it yet");
            report.say(Verdict::Fine, said);
        }
        _ if config.auto_migrate => {
            report.say(Verdict::Fine, "there is no schema yet; the first start makes it".into());
        }
        _ => report.say(Verdict::Wrong, "there is no schema: run `punctual migrate`".into()),
    }
    for setting in &found.settings {
        let (name, value) = (&setting.name, &setting.value);
        match &setting.advice {
            None => report.say(Verdict::Fine, format!("{name} = {value}")),
            Some(advice) => report.say(Verdict::Odd, format!("{name} = {value}: {advice}")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Fine,
    Odd,
    Wrong,
}

#[derive(Default)]
struct Report {
    lines: Vec<(Verdict, String)>,
}

impl Report {
    fn say(&mut self, verdict: Verdict, said: String) {
        self.lines.push((verdict, said));
    }

    fn outcome(self) -> Outcome {
        let word = |verdict: Verdict| match verdict {
            Verdict::Fine => "ok   ",
            Verdict::Odd => "warn ",
            Verdict::Wrong => "FAIL ",
        };
        let data = self.lines.iter().map(|(verdict, said)| format!("{}{said}\n", word(*verdict))).collect();
        let worst = self.lines.iter().map(|(verdict, _)| *verdict).max();
        Outcome { data, code: u8::from(worst == Some(Verdict::Wrong)), ..Outcome::default() }
    }
}

fn failed(error: &StoreError) -> Outcome {
    Outcome { messages: format!("error: {error}\n"), code: 1, ..Outcome::default() }
}

fn block_on<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StoreError::Unknown(format!("cannot start: {error}").into()))?;
    runtime.block_on(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Inspection {
        Inspection {
            server: "PostgreSQL 15".into(),
            now: 1_000_000,
            schema_version: Some(1),
            shards: Some(64),
            is_read_only: false,
            refusal: None,
            settings: Vec::new(),
        }
    }

    fn said(found: &Inspection, here: i64) -> Outcome {
        let config = Database { database: None, config: None }.configured().unwrap();
        let mut report = Report::default();
        judge(found, &config, here, &mut report);
        report.outcome()
    }

    #[test]
    fn a_clock_that_is_off_is_told_and_one_that_is_far_off_is_wrong() {
        for (here, word, code) in
            [(1_000_400, "ok   this", 0), (1_002_000, "warn this", 0), (0, "FAIL this", 1)]
        {
            let outcome = said(&found(), here);
            assert!(outcome.data.contains(word), "{}", outcome.data);
            assert_eq!(outcome.code, code);
        }
    }

    #[test]
    fn a_server_that_nodes_refuse_and_another_number_of_shards_are_wrong() {
        let refusal = Some("PostgreSQL 12.22 is too old".into());
        for wrong in [Inspection { refusal, ..found() }, Inspection { shards: Some(7), ..found() }] {
            assert_eq!(said(&wrong, 1_000_000).code, 1);
        }
    }
}

//! A whole node with a native executor and a job for it, as most scenarios of one-shots need it.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::JobId;
use punctual_node::ports::Store;
use serde_json::{Value, json};

use super::BenchSetup;
use super::cron::next_instant;
use crate::BenchError;
use crate::clock::{self, Watch, store_clock};
use crate::database::{Database, DatabaseKind, Home};
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::rows::{OneShots, submit};
use crate::served::{Arrived, LOOK_OFTEN, Launch, Native, Served};

/// How long what is late may still come.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// Runs in one request.
const BATCH: usize = 10_000;

/// Runs in one batch when a store is filled.
const FILL_BATCH: u64 = 2_000;

/// The interval between samples of a node's memory.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// A node, its executor, and a job.
pub(super) struct NativeStage {
    pub(super) watch: Arc<Watch>,
    pub(super) node: Served,
    pub(super) native: Native,
    pub(super) job: Value,
    pub(super) launch: Launch,
}

/// The settings of a scenario's node, and the address of its database for filling it without the node.
pub(super) fn launch(setup: &BenchSetup, database: &Database, home: &mut Home) -> Result<Launch, BenchError> {
    let punctual = setup.punctual.as_deref().ok_or("the path of the program `punctual` is not known")?;
    let mut launch = Launch::new(punctual, database.place().file("data"));
    match home.kind {
        DatabaseKind::Sqlite => home.file = launch.folder.join("punctual.db"),
        DatabaseKind::Postgres | DatabaseKind::MariaDb => launch.database = Some(home.address.clone()),
    }
    Ok(launch)
}

impl NativeStage {
    /// Starts a node on an empty database, and its executor.
    pub(super) async fn open(setup: &BenchSetup, database: &Database) -> Result<NativeStage, BenchError> {
        let mut home = database.empty("node").await?;
        let launch = launch(setup, database, &mut home)?;
        let mut node = Served::start(&launch).await?;
        let job = create_job(&mut node, "bench").await?;
        NativeStage::with(launch, node, job).await
    }

    /// Fills a store with one-shots, then starts a node on it.
    pub(super) async fn filled(
        setup: &BenchSetup,
        database: &Database,
        shots: impl Fn(Timestamp) -> Vec<OneShots>,
    ) -> Result<NativeStage, BenchError> {
        let mut home = database.empty("node").await?;
        let launch = launch(setup, database, &mut home)?;
        let mut node = Served::start(&launch).await?;
        let job = create_job(&mut node, "bench").await?;
        drop(node);
        fill(&home, &job, shots).await?;
        let node = Served::start(&launch).await?;
        NativeStage::with(launch, node, job).await
    }

    async fn with(launch: Launch, node: Served, job: Value) -> Result<NativeStage, BenchError> {
        let watch = Arc::new(Watch::start());
        let native = Native::start(&watch, node.authority(), node.token(), "bench", LOOK_OFTEN).await?;
        Ok(NativeStage { watch, node, native, job, launch })
    }

    /// The next whole second after `lead`.
    pub(super) fn second(&self, lead: Duration) -> Timestamp {
        next_instant(self.watch.now().saturating_add(lead), Duration::from_secs(1))
    }

    /// Submits runs, each due at one of these milliseconds.
    pub(super) async fn submit(&mut self, dues: impl Iterator<Item = i64>) -> Result<Vec<u64>, BenchError> {
        hand_over(&mut self.node, &self.job, dues).await
    }

    /// Waits until `count` results are stored. Returns when that was, since 1970, and the node's memory meanwhile.
    pub(super) async fn wait(&self, count: u64, due_in: Duration) -> Result<(Duration, Memory), BenchError> {
        let deadline = self.watch.elapsed() + due_in + PATIENCE;
        let mut memory = Memory::default();
        let mut sampled = Duration::ZERO;
        while self.native.counts().1 < count {
            if self.watch.elapsed() > deadline {
                let (arrived, kept) = self.native.counts();
                let said = format!("of {count} runs {arrived} arrived and the results of {kept} are kept");
                return Err(said.into());
            }
            if self.watch.elapsed() >= sampled {
                sampled = self.watch.elapsed() + SAMPLE_EVERY;
                memory.note(resident_bytes_of(self.node.id()));
            }
            clock::sleep(Duration::from_millis(2)).await;
        }
        memory.note(resident_bytes_of(self.node.id()));
        Ok((self.watch.date(), memory))
    }

    /// CPU seconds of the node.
    pub(super) fn cpu(&self) -> f64 {
        cpu_seconds_of(self.node.id())
    }
}

/// The resident memory of a node over a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) max: u64,
}

impl Memory {
    fn note(&mut self, bytes: u64) {
        if self.first == 0 {
            self.first = bytes;
        }
        (self.last, self.max) = (bytes, self.max.max(bytes));
    }
}

/// A job for native executors.
pub(super) async fn create_job(node: &mut Served, name: &str) -> Result<Value, BenchError> {
    create_job_of(node, "bench", name).await
}

/// The same in an app of its own.
pub(super) async fn create_job_of(node: &mut Served, app: &str, name: &str) -> Result<Value, BenchError> {
    let target = json!({"kind": "executor", "handler": "bench", "route": "round"});
    let job = json!({"app": app, "name": name, "schedule": {"kind": "manual"}, "target": target});
    Ok(node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone())
}

/// Submits runs in large requests, and returns their ids.
pub(super) async fn hand_over(
    node: &mut Served,
    job: &Value,
    dues: impl Iterator<Item = i64>,
) -> Result<Vec<u64>, BenchError> {
    let one = |at: i64| {
        let due = Timestamp::from_millis(at).to_string();
        json!({"job": job, "at": due, "payload": at.to_string()})
    };
    let (mut ids, mut dues) = (Vec::new(), dues.peekable());
    while dues.peek().is_some() {
        let batch: Vec<Value> = dues.by_ref().take(BATCH).map(one).collect();
        let answer = node.ask("POST", "/api/v1/runs", &json!({"runs": batch})).await?;
        ids.extend(answer["ids"].as_array().into_iter().flatten().filter_map(Value::as_u64));
    }
    Ok(ids)
}

/// Writes one-shots of a job into a store that no node has open.
async fn fill(
    home: &Home,
    job: &Value,
    shots: impl Fn(Timestamp) -> Vec<OneShots>,
) -> Result<(), BenchError> {
    let job = job.as_u64().and_then(|job| u32::try_from(job).ok()).ok_or("the job has no number")?;
    let watch = Arc::new(Watch::start());
    let store: Arc<dyn Store> = home.open(store_clock(&watch), false).await?;
    for shots in shots(watch.now()) {
        let shots = OneShots { job: JobId(job), ..shots };
        let submitted = submit(&store, &shots, FILL_BATCH, 4, &watch).await?;
        if submitted.accepted != shots.count {
            return Err(format!("of {} one-shots {} were stored", shots.count, submitted.accepted).into());
        }
    }
    Ok(())
}

/// Number of missing runs, and number that arrived more than once.
pub(super) fn whole(arrived: &[Arrived], count: u64) -> (u64, u64) {
    let mut runs: Vec<u64> = arrived.iter().map(|one| one.run).collect();
    runs.sort_unstable();
    runs.dedup();
    (count.saturating_sub(runs.len() as u64), arrived.len() as u64 - runs.len() as u64)
}

/// The lateness of each run.
pub(super) fn lags(arrived: &[Arrived]) -> Vec<Duration> {
    arrived.iter().map(|one| one.at.saturating_sub(since_1970(one.due))).collect()
}

pub(super) fn since_1970(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

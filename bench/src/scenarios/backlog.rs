//! A backlog over many jobs: one-shots that are due at one second, to an agent, spread evenly over 1 to 20,000 jobs. The
//! number of jobs should not matter. The agent answers at once unless it is told to take its time: with an agent that takes
//! 100 ms the rate is that of the places of a pool, 150 a tenth of a second for one job and 175 for one app.
//!
//! The last figure is of runs that have to be parked: of a few jobs that run a few at a time, so that more runs of each wait
//! than a node keeps in memory.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use serde_json::{Value, json};

use super::BenchSetup;
use super::cron::next_instant;
use super::herd::{count_runs, since_1970, wait_for, wait_until_settled};
use super::stage::launch;
use crate::clock::{Watch, lag};
use crate::database::DatabaseKind;
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::served::{Agent, Manner, Served};
use crate::{BenchError, Figure, Figures};

/// How long to wait for late runs.
const PATIENCE: Duration = Duration::from_secs(400);

/// How many runs of a job whose runs are parked run at a time.
const SIDE_BY_SIDE: u64 = 20;

/// The rate over many jobs is at least this share of the rate over one.
const RATIO_MIN: f64 = 0.7;

/// Runs in one request.
const BATCH: usize = 10_000;

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures: Vec<Figure> = Vec::new();
    for jobs in &setup.sizes.backlog_jobs {
        let backlog = Backlog { jobs: *jobs, count: setup.sizes.backlog, is_parked: false };
        let figure = runtime.block_on(drain(setup, &backlog))?;
        let first = figures.first().and_then(|first| first.rate).filter(|_| setup.sizes.backlog_jobs[0] == 1);
        let ratio = first.zip(figure.rate).map(|(first, rate)| rate / first.max(1e-9));
        figures.push(match ratio {
            Some(ratio) => {
                let is_slow = f64::from(u8::from(ratio < RATIO_MIN));
                figure.with("ratio_to_one_job", ratio).with("past_bounds", is_slow)
            }
            None => figure,
        });
    }
    let (jobs, count) = setup.sizes.parked;
    if count > 0 {
        let backlog = Backlog { jobs, count, is_parked: true };
        figures.push(runtime.block_on(drain(setup, &backlog))?);
    }
    Ok(figures)
}

/// So many runs of so many jobs.
struct Backlog {
    jobs: u64,
    count: u64,
    /// Whether the jobs run a few at a time, so that most of their runs are parked.
    is_parked: bool,
}

impl Backlog {
    fn target(&self, url: &str) -> Value {
        let mut target = json!({"kind": "http", "url": url, "body": {"hello": "agent"}});
        if self.is_parked {
            target["concurrency"] = SIDE_BY_SIDE.into();
        }
        target
    }

    fn name(&self, takes: Duration) -> String {
        let pace = match takes.as_millis() {
            0 => String::new(),
            takes => format!(", {takes} ms a call"),
        };
        let parked = if self.is_parked { ", most parked" } else { "" };
        format!("over {} jobs{parked}{pace}", self.jobs)
    }
}

async fn drain(setup: &BenchSetup, backlog: &Backlog) -> Result<Figure, BenchError> {
    let database = setup.start("backlog")?;
    let watch = Arc::new(Watch::start());
    let takes = setup.sizes.backlog_takes;
    let manner = if takes.is_zero() { Manner::Quick } else { Manner::Slow(takes) };
    let agent = Agent::with(&watch, manner).await?;
    let mut home = database.empty("node").await?;
    let mut node = Served::start(&launch(setup, &database, &mut home)?).await?;
    let url = format!("http://{}/", agent.address);
    let mut ids = Vec::new();
    for number in 0..backlog.jobs {
        let target = backlog.target(&url);
        let schedule = json!({"kind": "manual"});
        let job =
            json!({"app": "bench", "name": format!("job-{number}"), "schedule": schedule, "target": target});
        ids.push(node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone());
    }
    let count = backlog.count;
    let per_second = if database.kind == DatabaseKind::Sqlite { 50_000 } else { 15_000 };
    let lead = Duration::from_secs(3 + count / per_second);
    let due = next_instant(watch.now().saturating_add(lead), Duration::from_secs(1));
    hand_over(&mut node, &ids, count, due).await?;
    let is_in_time = watch.now() < due;
    let cpu = cpu_seconds_of(node.id());
    let arrived = wait_for(&watch, &agent, count, watch.until(due) + PATIENCE).await;
    let (cpu, rss) = (cpu_seconds_of(node.id()) - cpu, resident_bytes_of(node.id()));
    if arrived.len() as u64 >= count {
        wait_until_settled(&watch, &mut node, count).await?;
    }
    let (lost, doubled) = count_runs(&arrived, count);
    let last = arrived.iter().map(|one| one.at).max().unwrap_or_default();
    let lags = arrived.iter().map(|one| lag(one.at, due)).collect();
    Ok(Figure::new("backlog", backlog.name(takes), count)
        .took("calls", last.saturating_sub(since_1970(due)))
        .steps(lags)
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .on(database.kind)
        .with("handed_in_before", f64::from(u8::from(is_in_time))))
}

/// Submits runs to each job in turn.
async fn hand_over(node: &mut Served, jobs: &[Value], count: u64, due: Timestamp) -> Result<(), BenchError> {
    let due = due.to_string();
    let runs: Vec<Value> = jobs.iter().cycle().take(count as usize).cloned().collect();
    for batch in runs.chunks(BATCH) {
        let batch: Vec<Value> = batch.iter().map(|job| json!({"job": job, "at": due})).collect();
        node.ask("POST", "/api/v1/runs", &json!({"runs": batch})).await?;
    }
    Ok(())
}

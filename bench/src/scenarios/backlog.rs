//! A backlog over many jobs: one-shots that are due at one second, to an agent that takes a tenth of a second, spread
//! evenly over 1 to 20,000 jobs. The number of jobs should not matter.

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

/// The agent's time for a call, long enough for the backlog to last some seconds.
const TAKES: Duration = Duration::from_millis(100);

/// The rate over many jobs is at least this share of the rate over one.
const RATIO_MIN: f64 = 0.7;

/// Runs in one request.
const BATCH: usize = 10_000;

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures: Vec<Figure> = Vec::new();
    for jobs in &setup.sizes.backlog_jobs {
        let figure = runtime.block_on(drain(setup, *jobs))?;
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
    Ok(figures)
}

async fn drain(setup: &BenchSetup, jobs: u64) -> Result<Figure, BenchError> {
    let database = setup.start("backlog")?;
    let watch = Arc::new(Watch::start());
    let agent = Agent::with(&watch, Manner::Slow(TAKES)).await?;
    let mut home = database.empty("node").await?;
    let mut node = Served::start(&launch(setup, &database, &mut home)?).await?;
    let url = format!("http://{}/", agent.address);
    let mut ids = Vec::new();
    for number in 0..jobs {
        let target = json!({"kind": "http", "url": url, "body": {"hello": "agent"}});
        let schedule = json!({"kind": "manual"});
        let job =
            json!({"app": "bench", "name": format!("job-{number}"), "schedule": schedule, "target": target});
        ids.push(node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone());
    }
    let count = setup.sizes.backlog;
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
    Ok(Figure::new("backlog", format!("over {jobs} jobs"), count)
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

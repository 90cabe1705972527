//! A whole node and an executor that speaks XXL-JOB's protocol: how many runs a second are triggered, called back and
//! written down, and how late they arrive at a tenth, a half and nine tenths of that rate. Both share the machine's
//! cores.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Setup;
use super::cron::next_instant;
use crate::clock::Watch;
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::place::Place;
use crate::served::{Arrived, Executor, Served, call_in_a_loop};
use crate::{Failure, Figure, Figures};

/// How long what is late may still come.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many are handed over in one request.
const BATCH: usize = 10_000;

/// Connections of the bare loop, as many as a node has to one executor.
const CONNECTIONS: usize = 32;

/// How long each of the steady loads lasts.
const STEADY: Duration = Duration::from_secs(10);

pub(super) fn run(setup: &Setup) -> Figures {
    let punctual = setup.punctual.as_deref().ok_or("where is the program punctual?")?;
    let place = Place::make(&setup.dir, "xxl")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(punctual, &place, setup.sizes.triggered))
}

async fn measure(punctual: &Path, place: &Place, count: u64) -> Figures {
    let watch = Arc::new(Watch::start());
    let mut node = Served::start(punctual, &place.file("data")).await?;
    let executor = Executor::start(&watch, node.authority(), "bench").await?;
    let target = json!({"kind": "executor", "handler": "bench", "route": "round"});
    let job = json!({"app": "bench", "name": "xxl", "schedule": {"kind": "manual"}, "target": target});
    let job = node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone();

    let full = saturated(&watch, &mut node, &executor, &job, count).await?;
    let rate = full.rate.unwrap_or(0.0);
    let mut figures = vec![full];
    for share in [10, 50, 90] {
        let rate = (rate * f64::from(share) / 100.0) as u64;
        figures.push(steady(&watch, &mut node, &executor, &job, rate, share).await?);
    }
    Ok(figures)
}

/// Everything is due at once: the rate from the first arrival to the last result that is kept.
async fn saturated(
    watch: &Watch,
    node: &mut Served,
    executor: &Executor,
    job: &Value,
    count: u64,
) -> Result<Figure, Failure> {
    let bare = call_in_a_loop(watch, executor.address, CONNECTIONS, count).await?;
    executor.take();
    let due = next_instant(watch.now().saturating_add(Duration::from_secs(4)), Duration::from_secs(1));
    let at = due.as_millis();
    submit(node, job, (0..count).map(|_| at)).await?;
    let cpu = cpu_seconds_of(node.id());
    let took = wait(watch, executor, count, watch.until(due)).await?.saturating_sub(since_1970(at));
    let (cpu, rss) = (cpu_seconds_of(node.id()) - cpu, resident_bytes_of(node.id()));
    let arrived = executor.take();
    let cores = cpu / took.as_secs_f64();
    let (lost, doubled) = whole(&arrived, count);
    Ok(Figure::new("xxl", "triggered, called back, kept", count)
        .took("runs", took)
        .beside(bare)
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .with("cores", cores)
        .with("runs_per_core_second", count as f64 / cpu.max(1e-9)))
}

/// A load that never fills the node: how late each arrives.
async fn steady(
    watch: &Watch,
    node: &mut Served,
    executor: &Executor,
    job: &Value,
    rate: u64,
    share: u32,
) -> Result<Figure, Failure> {
    let count = rate * STEADY.as_secs();
    let lead = Duration::from_secs(5 + count / 50_000);
    let due = next_instant(watch.now().saturating_add(lead), Duration::from_secs(1));
    let start = due.as_millis();
    let spread = STEADY.as_millis() as u64;
    submit(node, job, (0..count).map(|number| start + (number * spread / count.max(1)) as i64)).await?;
    let is_in_time = watch.now() < due;
    let cpu = cpu_seconds_of(node.id());
    wait(watch, executor, count, watch.until(due) + STEADY).await?;
    let (cpu, rss) = (cpu_seconds_of(node.id()) - cpu, resident_bytes_of(node.id()));
    let arrived = executor.take();
    let lags = arrived.iter().map(|one| one.at.saturating_sub(since_1970(one.run as i64))).collect();
    let (lost, doubled) = whole(&arrived, count);
    Ok(Figure::new("xxl", format!("at {share} % of that"), count)
        .took("runs", STEADY)
        .steps(lags)
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .with("handed_in_before", f64::from(u8::from(is_in_time))))
}

/// Each run brings the millisecond at which it is due.
async fn submit(node: &mut Served, job: &Value, dues: impl Iterator<Item = i64>) -> Result<(), Failure> {
    let one = |at: i64| {
        let due = calendar::Timestamp::from_millis(at).to_string();
        json!({"job": job, "at": due, "payload": at.to_string()})
    };
    let runs: Vec<Value> = dues.map(one).collect();
    for batch in runs.chunks(BATCH) {
        node.ask("POST", "/api/v1/runs", &json!({"runs": batch})).await?;
    }
    Ok(())
}

/// When the last result was kept, since 1970.
async fn wait(watch: &Watch, executor: &Executor, count: u64, due_in: Duration) -> Result<Duration, Failure> {
    let deadline = watch.elapsed() + due_in + PATIENCE;
    while executor.counts().1 < count {
        if watch.elapsed() > deadline {
            let (arrived, kept) = executor.counts();
            return Err(
                format!("of {count} runs {arrived} arrived and the results of {kept} are kept").into()
            );
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(watch.date())
}

/// How many are missing or too many. Runs of one millisecond cannot be told apart, so they are counted.
fn whole(arrived: &[Arrived], count: u64) -> (u64, u64) {
    let arrived = arrived.len() as u64;
    (count.saturating_sub(arrived), arrived.saturating_sub(count))
}

fn since_1970(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

//! A whole node that calls an agent: its lateness when ten thousand runs are due at one second, and its rate when it never
//! runs out of work. The agent is on the same machine, so both share its cores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use serde_json::{Value, json};

use super::BenchSetup;
use super::cron::next_instant;
use super::stage::launch;
use crate::clock::{self, Watch, lag};
use crate::database::Database;
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::served::{Agent, Arrived, HELLO, Served, call_in_a_loop};
use crate::{BenchError, Figure, Figures};

/// How long to wait for late runs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connections of the bare loop: as many as a node has sends in flight.
const CONNECTIONS: usize = 200;

/// Runs in one request.
const BATCH: u64 = 10_000;

/// Ten thousand one-shots, all due at one second.
pub(super) fn herd(setup: &BenchSetup) -> Figures {
    measure(setup, "herd", setup.sizes.called, true)
}

/// Enough one-shots to measure the rate, all due at once.
pub(super) fn execute(setup: &BenchSetup) -> Figures {
    let mut figures = measure(setup, "execute", setup.sizes.executed, false)?;
    figures.extend(super::executors::execute(setup)?);
    Ok(figures)
}

fn measure(setup: &BenchSetup, name: &'static str, count: u64, is_later: bool) -> Figures {
    let database = setup.start(name)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figure = runtime.block_on(call(setup, &database, name, count, is_later))?;
    Ok(vec![figure])
}

async fn call(
    setup: &BenchSetup,
    database: &Database,
    name: &'static str,
    count: u64,
    is_later: bool,
) -> Result<Figure, BenchError> {
    let watch = Arc::new(Watch::start());
    let agent = Agent::start(&watch).await?;
    let bare = call_in_a_loop(&watch, agent.address, CONNECTIONS, count, HELLO).await?;
    agent.take();

    let mut home = database.empty("node").await?;
    let mut node = Served::start(&launch(setup, database, &mut home)?).await?;
    let target =
        json!({"kind": "http", "url": format!("http://{}/", agent.address), "body": {"hello": "agent"}});
    let job = json!({"app": "bench", "name": name, "schedule": {"kind": "manual"}, "target": target});
    let job = node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone();
    let lead = if is_later { Duration::from_secs(5) } else { Duration::ZERO };
    let due = next_instant(watch.now().saturating_add(lead), Duration::from_secs(1));
    let cpu = cpu_seconds_of(node.id());
    submit(&mut node, &job, count, is_later.then_some(due)).await?;
    let is_in_time = !is_later || watch.now() < due;
    let arrived = wait_for(&watch, &agent, count, watch.until(due) + PATIENCE).await;
    let (cpu, rss) = (cpu_seconds_of(node.id()) - cpu, resident_bytes_of(node.id()));
    wait_until_settled(&watch, &mut node, count).await?;

    let (lost, doubled) = count_runs(&arrived, count);
    let first =
        if is_later { since_1970(due) } else { arrived.iter().map(|one| one.at).min().unwrap_or_default() };
    let last = arrived.iter().map(|one| one.at).max().unwrap_or_default();
    let lags = arrived.iter().map(|one| lag(one.at, due)).collect();
    let case = if is_later { "due at one second" } else { "one request a run" };
    let figure = Figure::new(name, case, count)
        .took("calls", last.saturating_sub(first))
        .beside(bare)
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .on(database.kind)
        .with("handed_in_before", f64::from(u8::from(is_in_time)));
    Ok(if is_later { figure.steps(lags) } else { figure })
}

async fn submit(
    node: &mut Served,
    job: &Value,
    count: u64,
    due: Option<Timestamp>,
) -> Result<(), BenchError> {
    let one = match due {
        Some(due) => json!({"job": job, "at": due.to_string()}),
        None => json!({"job": job}),
    };
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        node.ask("POST", "/api/v1/runs", &json!({"runs": vec![one.clone(); batch as usize]})).await?;
        left -= batch;
    }
    Ok(())
}

/// The arrivals, once all have arrived or the time is up.
pub(super) async fn wait_for(watch: &Watch, agent: &Agent, count: u64, within: Duration) -> Vec<Arrived> {
    let deadline = watch.elapsed() + within;
    while (agent.count() as u64) < count && watch.elapsed() < deadline {
        clock::sleep(Duration::from_millis(10)).await;
    }
    agent.take()
}

/// Waits until every run is settled; one that was called and not settled would be called again.
pub(super) async fn wait_until_settled(
    watch: &Watch,
    node: &mut Served,
    count: u64,
) -> Result<(), BenchError> {
    let deadline = watch.elapsed() + PATIENCE;
    loop {
        let stats = node.ask("GET", "/api/v1/stats", &Value::Null).await?;
        if stats["succeeded"].as_u64() == Some(count) {
            return Ok(());
        }
        if watch.elapsed() > deadline {
            return Err(format!("not every run was written down as done: {stats}").into());
        }
        clock::sleep(Duration::from_millis(20)).await;
    }
}

/// Number of runs that did not arrive, and number that arrived more than once.
pub(super) fn count_runs(arrived: &[Arrived], count: u64) -> (u64, u64) {
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    for one in arrived {
        *times.entry(one.run).or_default() += 1;
    }
    let doubled = times.values().filter(|times| **times > 1).count() as u64;
    (count.saturating_sub(times.len() as u64), doubled)
}

pub(super) fn since_1970(at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0))
}

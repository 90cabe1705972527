//! One job whose calls hang, beside other apps: how late those are meanwhile, and how many are not called at all.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use serde_json::{Value, json};

use super::Setup;
use super::cron::next_instant;
use super::herd::{count_runs, wait_for};
use super::stage::{lags, launch};
use crate::clock::Watch;
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::served::{Agent, Manner, Served};
use crate::{Failure, Figure, Figures};

/// Apps beside the one that hangs.
const APPS: u64 = 8;

/// How often each of them has a run due.
const EVERY: Duration = Duration::from_millis(50);

/// How long what is late may still come.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the hanging calls may last: longer than anything here.
const TIMEOUT: &str = "2h";

pub(super) fn run(setup: &Setup) -> Figures {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(vec![runtime.block_on(starve(setup))?])
}

async fn starve(setup: &Setup) -> Result<Figure, Failure> {
    let database = setup.start("starve")?;
    let watch = Arc::new(Watch::start());
    let hanging = Agent::with(&watch, Manner::Hanging).await?;
    let agent = Agent::with(&watch, Manner::Timed).await?;
    let mut home = database.empty("node").await?;
    let mut node = Served::start(&launch(setup, &database, &mut home)?).await?;
    let bad = create(&mut node, "hanging", &hanging).await?;
    let mut good = Vec::new();
    for number in 0..APPS {
        good.push(create(&mut node, &format!("app-{number}"), &agent).await?);
    }
    let due = next_instant(watch.now().saturating_add(Duration::from_secs(3)), Duration::from_secs(1));
    let hung = (0..setup.sizes.hanging).map(|_| (&bad, due));
    submit(&mut node, hung).await?;
    let ticks = (setup.sizes.starved.as_millis() / EVERY.as_millis()) as u32;
    let at = |tick: u32| due.saturating_add(EVERY * (tick + 2));
    let others: Vec<(&Value, Timestamp)> =
        (0..ticks).flat_map(|tick| good.iter().map(move |job| (job, at(tick)))).collect();
    let count = others.len() as u64;
    submit(&mut node, others.into_iter()).await?;
    let is_in_time = watch.now() < due;
    let cpu = cpu_seconds_of(node.id());
    let until = watch.until(due) + setup.sizes.starved + PATIENCE;
    let arrived = wait_for(&watch, &agent, count, until).await;
    let (cpu, rss) = (cpu_seconds_of(node.id()) - cpu, resident_bytes_of(node.id()));
    let (lost, doubled) = count_runs(&arrived, count);
    Ok(Figure::new("starve", format!("beside {} hanging calls", setup.sizes.hanging), count)
        .took("calls", setup.sizes.starved)
        .steps(lags(&arrived))
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .on(database.kind)
        .with("hanging_calls", hanging.count() as f64)
        .with("handed_in_before", f64::from(u8::from(is_in_time))))
}

async fn create(node: &mut Served, app: &str, agent: &Agent) -> Result<Value, Failure> {
    let target = json!({"kind": "http", "url": format!("http://{}/", agent.address)});
    let schedule = json!({"kind": "manual"});
    let job = json!({"app": app, "name": "job", "schedule": schedule, "target": target, "timeout": TIMEOUT});
    Ok(node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone())
}

async fn submit<'a>(
    node: &mut Served,
    runs: impl Iterator<Item = (&'a Value, Timestamp)>,
) -> Result<(), Failure> {
    let runs: Vec<Value> = runs.map(|(job, at)| json!({"job": job, "at": at.to_string()})).collect();
    node.ask("POST", "/api/v1/runs", &json!({"runs": runs})).await.map(drop)
}

//! A node that is killed with many one-shots stored: the time until it is ready again, and until it sends the first due
//! run. An agent receives the run, because an executor would have to connect first.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::BenchSetup;
use super::insert::SPAN;
use super::stage::{NativeStage, PATIENCE, hand_over};
use crate::clock::{self, Watch};
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::rows::{OneShots, Order};
use crate::served::{Agent, Served};
use crate::{BenchError, Figure, Figures};

/// The stored runs are due after this time, when the scenario is over.
const QUIET: Duration = Duration::from_secs(1_800);

/// Runs that are due while the node is away.
const DUE: u64 = 1_000;

/// The least time that the node is away.
const DEAD: Duration = Duration::from_millis(500);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("restart")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stored = setup.sizes.stored;
        let shots = |now: calendar::Timestamp| {
            vec![OneShots::new(stored, Order::Random, now.saturating_add(QUIET), SPAN)]
        };
        let begun = Watch::start();
        let mut stage = NativeStage::filled(setup, &database, shots).await?;
        let filled = begun.elapsed();
        let agent = Agent::start(&stage.watch).await?;
        let target = json!({"kind": "http", "url": format!("http://{}/", agent.address), "body": {}});
        let job = json!({"app": "bench", "name": "called", "schedule": {"kind": "manual"}, "target": target});
        let job = stage.node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone();
        let due = stage.second(Duration::from_secs(1));
        hand_over(&mut stage.node, &job, (0..DUE).map(|_| due.as_millis())).await?;
        stage.node.kill();
        clock::sleep(stage.watch.until(due) + DEAD).await;
        let arrived_before = agent.take().len() as u64;

        let watch: Arc<Watch> = Arc::clone(&stage.watch);
        let (begun, date) = (watch.elapsed(), watch.date());
        let mut node = Served::begin(&stage.launch, None)?;
        node.wait().await?;
        let ready = watch.elapsed() - begun;
        let deadline = watch.elapsed() + PATIENCE;
        while (agent.count() as u64) + arrived_before < DUE && watch.elapsed() < deadline {
            clock::sleep(Duration::from_millis(2)).await;
        }
        let arrived = agent.take();
        let first = arrived.iter().map(|one| one.at).min().unwrap_or_default().saturating_sub(date);
        let last = arrived.iter().map(|one| one.at).max().unwrap_or_default().saturating_sub(date);
        let (lost, doubled) = super::stage::whole(&arrived, DUE - arrived_before.min(DUE));
        let figure = Figure::new("restart", format!("{stored} stored, killed"), stored)
            .took("runs", ready)
            .cpu(cpu_seconds_of(node.id()))
            .resident(resident_bytes_of(node.id()))
            .whole(lost, doubled)
            .on(database.kind)
            .with("ready_ms", ready.as_secs_f64() * 1_000.0)
            .with("first_due_ms", first.as_secs_f64() * 1_000.0)
            .with("last_due_ms", last.as_secs_f64() * 1_000.0)
            .with("filled_s", filled.as_secs_f64());
        Ok::<_, BenchError>(vec![figure])
    })
}

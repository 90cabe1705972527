//! A million one-shots due at one second, to a native executor. They are sent in order of due time, the node's memory does
//! not grow, and work of another app that is submitted meanwhile is not starved.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::BenchSetup;
use super::stage::{NativeStage, create_job_of, since_1970, whole};
use crate::clock::{self, Watch};
use crate::rows::{OneShots, Order};
use crate::served::{Arrived, LOOK_SELDOM, Native, Served};
use crate::{BenchError, Figure, Figures};

/// The app of the fresh work.
const FRESH_APP: &str = "fresh";

/// The interval between submissions of fresh work.
const FRESH_EVERY: Duration = Duration::from_millis(100);

/// Runs in one of these submissions.
const FRESH: u64 = 10;

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("flood")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let count = setup.sizes.flood;
        let lead = 2 * setup.sizes.lead + setup.filling(count);
        let due = std::cell::Cell::new(0_i64);
        let shots = |now: calendar::Timestamp| {
            let from = super::cron::next_instant(now.saturating_add(lead), Duration::from_secs(1));
            due.set(from.as_millis());
            vec![OneShots::new(count, Order::Rows, from, Duration::from_millis(1))]
        };
        let mut stage = NativeStage::filled(setup, &database, shots).await?;
        let due = since_1970(due.get());
        let fresh_job = create_job_of(&mut stage.node, FRESH_APP, "fresh").await?;
        let crew =
            Native::start(&stage.watch, stage.node.authority(), stage.node.token(), FRESH_APP, LOOK_SELDOM);
        let crew = crew.await?;
        let due_in = due.saturating_sub(stage.watch.date());
        let is_in_time = f64::from(u8::from(!due_in.is_zero()));
        clock::sleep(due_in).await;
        let cpu = stage.cpu();
        let fresh = hand_over_fresh(stage.node.another(), fresh_job, &stage.watch);
        let (_, memory) = stage.wait(count, Duration::ZERO).await?;
        fresh.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let fresh = fresh.task.await??;
        stage.wait(count + fresh.len() as u64, Duration::ZERO).await?;
        let cpu = stage.cpu() - cpu;
        let (herd, late): (Vec<Arrived>, Vec<Arrived>) = (stage.native.take(), crew.take());
        let is_fresh = |one: &Arrived| fresh.binary_search_by_key(&one.run, |(run, _)| *run);
        let (lost, doubled) = whole(&herd, count);
        let drained = herd.iter().map(|one| one.at).max().unwrap_or_default().saturating_sub(due);
        let lags = herd.iter().map(|one| one.at.saturating_sub(due)).collect();
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let flood = Figure::new("flood", format!("{count} due at one second"), count)
            .took("runs", drained)
            .steps(lags)
            .cpu(cpu)
            .resident(memory.last)
            .whole(lost, doubled)
            .on(database.kind)
            .with("ready_before", is_in_time)
            .with("furthest_behind_its_place", furthest_behind(&herd) as f64)
            .with("rss_first_mb", megabytes(memory.first))
            .with("rss_max_mb", megabytes(memory.max));
        let waits: Vec<Duration> =
            late.iter().filter_map(|one| Some(one.at.saturating_sub(fresh[is_fresh(one).ok()?].1))).collect();
        let (lost, doubled) = whole(&late, fresh.len() as u64);
        let beside = Figure::new("flood", "fresh work meanwhile", fresh.len() as u64)
            .took("runs", drained)
            .steps(waits)
            .whole(lost, doubled)
            .on(database.kind);
        Ok::<_, BenchError>(vec![flood, beside])
    })
}

/// The greatest number of runs that overtook one run.
fn furthest_behind(herd: &[Arrived]) -> u64 {
    let mut order: Vec<u64> = herd.iter().map(|one| one.run).collect();
    order.sort_unstable();
    let place = |run: u64| order.binary_search(&run).unwrap_or(0);
    let behind = herd.iter().enumerate().map(|(arrived, one)| arrived.saturating_sub(place(one.run)));
    behind.max().unwrap_or(0) as u64
}

struct Fresh {
    stop: Arc<std::sync::atomic::AtomicBool>,
    task: JoinHandle<Result<Vec<(u64, Duration)>, BenchError>>,
}

/// Submits a little work again and again, due at once. Returns the ids with the times of submission.
fn hand_over_fresh(mut node: Served, job: Value, watch: &Arc<Watch>) -> Fresh {
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (is_over, watch) = (Arc::clone(&stop), Arc::clone(watch));
    let task = tokio::spawn(async move {
        let mut given = Vec::new();
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            let at = watch.date();
            let runs = vec![json!({"job": job}); FRESH as usize];
            let answer = node.ask("POST", "/api/v1/runs", &json!({"runs": runs})).await?;
            let ids = answer["ids"].as_array().into_iter().flatten().filter_map(Value::as_u64);
            given.extend(ids.map(|id| (id, at)));
            clock::sleep(FRESH_EVERY).await;
        }
        given.sort_unstable();
        Ok(given)
    });
    Fresh { stop, task }
}

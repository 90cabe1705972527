//! Latency of every page of the API with many jobs and runs stored.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Epoch, JobId, NodeId};
use punctual_core::wheel::Mark;
use punctual_node::ports::Store;
use serde_json::Value;

use super::BenchSetup;
use super::load_close::end;
use super::stage::{create_job, launch};
use crate::clock::{Hands, Watch};
use crate::database::Home;
use crate::filler;
use crate::machine::resident_bytes_of;
use crate::rows::{OneShots, Order, hold_all, submit};
use crate::served::Served;
use crate::{BenchError, Figure, Figures};

/// How far back the runs reach.
const PAST: Duration = Duration::from_secs(20 * 86_400);

/// Number of jobs that the runs belong to.
const OWNERS: u64 = 100;

/// Requests for each page.
const TIMES: usize = 40;

/// Every list and figure; `{job}` and `{run}` stand for existing ones.
const PAGES: &[&str] = &[
    "/jobs",
    "/jobs?limit=1000",
    "/jobs?app=bench",
    "/jobs?q=filler-10999",
    "/jobs?tag=bench",
    "/jobs?enabled=false",
    "/jobs?failing=true",
    "/jobs?stopped=true",
    "/jobs?sort=next_fire_time",
    "/jobs?count=true",
    "/jobs/{job}",
    "/jobs/{job}/runs",
    "/jobs/{job}/stats",
    "/runs",
    "/runs?limit=1000",
    "/runs?app=bench",
    "/runs?state=succeeded",
    "/runs?state=failed",
    "/runs/{run}",
    "/runs/{run}/why",
    "/stats",
    "/stats/history",
    "/forecast",
    "/storage",
    "/apps",
    "/nodes",
];

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("browse")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (jobs, runs) = (setup.sizes.browsed_jobs, setup.sizes.browsed_runs);
        let watch = Arc::new(Watch::start());
        let mut home = database.empty("node").await?;
        let launch = launch(setup, &database, &mut home)?;
        let mut node = Served::start(&launch).await?;
        create_job(&mut node, "one of many").await?;
        drop(node);
        filler::fill(&home, jobs, watch.now().saturating_add(Duration::from_secs(86_400))).await?;
        live_through(&home, runs, jobs.min(OWNERS), &watch).await?;
        let filled = watch.elapsed();
        let mut node = Served::start(&launch).await?;
        let places = places(&mut node).await?;
        let mut figures = Vec::new();
        for page in PAGES {
            let path = places.iter().fold((*page).to_owned(), |path, (name, at)| path.replace(name, at));
            // The first request fills the caches: names, the forecast.
            node.ask("GET", &format!("/api/v1{path}"), &Value::Null).await?;
            let mut took = Vec::with_capacity(TIMES);
            for _ in 0..TIMES {
                let begun = watch.elapsed();
                node.ask("GET", &format!("/api/v1{path}"), &Value::Null).await?;
                took.push(watch.elapsed() - begun);
            }
            let whole = took.iter().sum();
            let figure = Figure::new("browse", *page, TIMES as u64).took("pages", whole).steps(took);
            figures.push(figure.on(database.kind));
        }
        let last = figures.pop().map(|figure| {
            figure
                .resident(resident_bytes_of(node.id()))
                .with("jobs", jobs as f64)
                .with("runs", runs as f64)
                .with("filled_s", filled.as_secs_f64())
        });
        figures.extend(last);
        Ok::<_, BenchError>(figures)
    })
}

/// An existing job and an existing run.
async fn places(node: &mut Served) -> Result<[(&'static str, String); 2], BenchError> {
    let run = node.ask("GET", "/api/v1/runs?limit=1", &Value::Null).await?["items"][0].clone();
    Ok([("{job}", run["job"].to_string()), ("{run}", run["id"].to_string())])
}

/// Writes finished runs of the last weeks through the store, on a clock of its own.
async fn live_through(home: &Home, runs: u64, owners: u64, watch: &Arc<Watch>) -> Result<(), BenchError> {
    let from = Timestamp::from_millis(watch.now().as_millis() - PAST.as_millis() as i64);
    let hands = Hands::at(from);
    let store: Arc<dyn Store> = home.open(hands.store_clock(), true).await?;
    for owner in 0..owners {
        let job = JobId(u32::try_from(filler::FIRST + owner)?);
        let shots = OneShots { job, ..OneShots::new(runs / owners, Order::Rows, from, PAST) };
        submit(&store, &shots, 2_000, 4, watch).await?;
    }
    let leases = hold_all(&*store, NodeId(1), from).await?;
    let mut epochs = vec![Epoch(0); leases.len()];
    for lease in &leases {
        epochs[usize::from(lease.shard.0)] = lease.epoch;
    }
    let mut next = Some(Mark { due: Timestamp::MIN, id: 0 });
    while let Some(mark) = next {
        let loaded = store.load(&leases, mark, Timestamp::MAX, 10_000).await?;
        next = loaded.rest;
        for batch in loaded.runs.chunks(2_000) {
            let ends = batch.iter().map(|run| end(run, epochs[usize::from(run.shard.0)])).collect();
            store.settle(ends).await?;
        }
    }
    Ok(())
}

//! A second of planning with many jobs stored of which hardly any are due: the cost must depend on the due jobs only, so it
//! is measured with a hundredth of the jobs as well.

use std::sync::Arc;
use std::time::Duration;

use punctual_node::Settings;
use punctual_node::ports::Store;

use super::BenchSetup;
use super::plan::{load, plan_all, whole_day};
use crate::clock::{Hands, Watch};
use crate::database::Database;
use crate::filler::fill;
use crate::machine::{cpu_seconds, resident_bytes};
use crate::outside::{Closed, node};
use crate::rows::create_jobs;
use crate::{BenchError, Figure, Figures};

/// Jobs due in each second.
const DUE: u64 = 20;

/// Seconds between two fire times of such a job.
const SLOTS: u64 = 30;

/// The other jobs are due after this time.
const IDLE_FOR: Duration = Duration::from_secs(30 * 86_400);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("tick")?;
    let stored = setup.sizes.idle_jobs;
    setup.block_on(async {
        let mut figures = Vec::new();
        for stored in [stored / 100, stored] {
            figures.push(tick(&database, stored, setup.sizes.ticks).await?.on(database.kind));
            database.drop("store").await?;
        }
        Ok(figures)
    })
}

async fn tick(database: &Database, stored: u64, ticks: u64) -> Result<Figure, BenchError> {
    let watch = Arc::new(Watch::start());
    let home = database.empty("store").await?;
    // Noon, so that all seconds lie on one day.
    let start = whole_day(watch.now()).saturating_add(Duration::from_secs(43_200));
    let hands = Hands::at(start);
    let store: Arc<dyn Store> = home.open(hands.store_clock(), true).await?;
    let rate = move |index: u64| {
        let first = start.saturating_add(Duration::from_secs(index % SLOTS + 1));
        (Duration::from_secs(SLOTS), first)
    };
    create_jobs(&store, DUE * SLOTS, start, rate).await?;
    drop(store);
    fill(&home, stored.saturating_sub(DUE * SLOTS), start.saturating_add(IDLE_FOR)).await?;

    let store: Arc<dyn Store> = home.open(hands.store_clock(), true).await?;
    let settings = Settings::default();
    let horizon = settings.horizon.as_secs();
    let clock: Arc<Hands> = Arc::clone(&hands);
    let node = node(clock, store, Arc::new(Closed), settings);
    for _ in 0..3 {
        node.renew().await;
        load(&node, &hands).await;
    }
    plan_all(&node, &hands).await;
    let before = home.counts().await?;
    let (mut took, mut cpu, servers) = (Vec::new(), 0.0, database.cpu_seconds());
    for _ in 0..ticks {
        hands.pass(Duration::from_secs(1));
        node.renew().await;
        let (begun, cpu_begun) = (watch.elapsed(), cpu_seconds());
        load(&node, &hands).await;
        plan_all(&node, &hands).await;
        took.push(watch.elapsed() - begun);
        cpu += cpu_seconds() - cpu_begun;
        drop(node.take_events());
    }
    let servers = database.cpu_seconds().zip(servers);
    let counts = home.counts().await?.since(before, ticks as f64);
    let (planned, found) = ((horizon + ticks) * DUE, node.load_figures().0 as u64);
    let all: Duration = took.iter().sum();
    let mut figure = Figure::new("tick", format!("{stored} stored, {DUE} due a second"), ticks)
        .took("ticks", all)
        .steps(took)
        .resident(resident_bytes())
        .whole(planned.saturating_sub(found), found.saturating_sub(planned))
        .with("cpu_ms_per_tick", cpu * 1_000.0 / ticks as f64);
    if let Some((after, before)) = servers {
        figure = figure.with("server_cpu_ms_per_tick", (after - before) * 1_000.0 / ticks as f64);
    }
    // Including the renewal of leases, which happens once a second too.
    for (name, count) in
        [("statements_per_tick", counts.statements), ("rows_read_per_tick", counts.rows_read)]
    {
        figure = count.into_iter().fold(figure, |figure, count| figure.with(name, count));
    }
    Ok(figure)
}

//! A second of planning with many recurring jobs stored, of which always the same number is due: the cost must depend on
//! the due jobs only.
//!
//! The jobs that are due in one second are scattered over all jobs, because jobs are not created in the order in which
//! they fire. A job that was planned before is in the node's cache; one that is planned for the first time is read and
//! compiled first. Both are reported.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_node::ports::{Clock, Store};
use punctual_node::{Node, Settings};

use super::BenchSetup;
use crate::clock::{Hands, Watch};
use crate::database::{Database, DatabaseKind};
use crate::machine::{cpu_seconds, resident_bytes};
use crate::outside::{Closed, node};
use crate::rows::create_jobs;
use crate::{BenchError, Figure, Figures};

/// The most jobs that are stored on a server, where they are created one by one. `tick` stores more.
const STORED_ON_SERVERS: u64 = 20_000;

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("plan")?;
    setup.block_on(async {
        let watch = Arc::new(Watch::start());
        let (due, ticks) = (setup.sizes.jobs_due, setup.sizes.ticks);
        let is_few = |stored: &&u64| database.kind == DatabaseKind::Sqlite || **stored <= STORED_ON_SERVERS;
        let mut figures = Vec::new();
        for stored in setup.sizes.jobs_stored.iter().filter(is_few) {
            let mut bare = database.empty("bare").await?.bare().await?;
            let bare_took = middle(bare.plan(*stored, due, ticks, &watch).await?);
            drop(bare);
            database.drop("bare").await?;
            let measured = plan(&database, *stored, due, ticks, &watch).await?;
            database.drop("store").await?;
            figures.extend(measured.into_iter().map(|(figure, took)| match took {
                Some(took) => figure.took("runs", took).beside(bare_took).on(database.kind),
                None => figure.on(database.kind),
            }));
        }
        Ok(figures)
    })
}

/// Plans second after second, and reports the median beside the bare limit.
async fn plan(
    database: &Database,
    stored: u64,
    due: u64,
    ticks: u64,
    watch: &Arc<Watch>,
) -> Result<Vec<(Figure, Option<Duration>)>, BenchError> {
    // Noon, so that all seconds lie on one day.
    let start = whole_day(watch.now()).saturating_add(Duration::from_secs(43_200));
    let slots = stored / due;
    let hands = Hands::at(start);
    let store: Arc<dyn Store> = database.empty("store").await?.open(hands.store_clock(), true).await?;
    let rate = move |index: u64| {
        let first = start.saturating_add(Duration::from_secs(index % slots + 1));
        (Duration::from_secs(slots), first)
    };
    let (begun, cpu) = (watch.elapsed(), cpu_seconds());
    create_jobs(&store, stored, start, rate).await?;
    let created = Figure::new("plan", format!("create {stored}"), stored)
        .took("jobs", watch.elapsed() - begun)
        .cpu(cpu_seconds() - cpu);

    let settings = Settings::default();
    let horizon = settings.horizon.as_secs();
    let clock: Arc<Hands> = Arc::clone(&hands);
    let node = node(clock, store, Arc::new(Closed), settings);
    for _ in 0..3 {
        node.renew().await;
        load(&node, &hands).await;
    }
    plan_all(&node, &hands).await;
    let (mut fresh, mut known) = (Spent::default(), Spent::default());
    for tick in 1..=ticks {
        hands.pass(Duration::from_secs(1));
        node.renew().await;
        load(&node, &hands).await;
        let before = node.load_figures().0;
        let (begun, cpu) = (watch.elapsed(), cpu_seconds());
        plan_all(&node, &hands).await;
        let spent = if tick + horizon <= slots { &mut fresh } else { &mut known };
        spent.took.push(watch.elapsed() - begun);
        spent.cpu += cpu_seconds() - cpu;
        spent.planned += (node.load_figures().0 - before) as u64;
        drop(node.take_events());
    }
    let planned = (horizon + ticks) * due;
    let found = node.load_figures().0 as u64;
    let mut figures = vec![(created, None)];
    for (name, Spent { took, cpu, planned: runs }) in [("new", fresh), ("known", known)] {
        if took.is_empty() {
            continue;
        }
        let seconds = took.len() as u64;
        let figure = Figure::new("plan", format!("{stored} stored, {name}"), due)
            .steps(took.clone())
            .resident(resident_bytes())
            .whole(planned.saturating_sub(found), found.saturating_sub(planned))
            .with("ticks", seconds as f64)
            .with("planned", runs as f64)
            .with("cpu_ms_per_tick", cpu * 1_000.0 / seconds as f64);
        figures.push((figure, Some(middle(took))));
    }
    Ok(figures)
}

/// The durations of the seconds of one kind.
#[derive(Default)]
struct Spent {
    took: Vec<Duration>,
    cpu: f64,
    planned: u64,
}

/// Calls a step until it wants to wait.
pub(super) async fn plan_all(node: &Node, hands: &Hands) {
    while node.plan().await <= hands.boot() {}
}

pub(super) async fn load(node: &Node, hands: &Hands) {
    while node.load().await <= hands.boot() {}
}

fn middle(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}

pub(super) fn whole_day(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(86_400_000) * 86_400_000)
}

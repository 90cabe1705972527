//! One-shots that are all due at the same instant: lateness of the first and the last, and whether they keep their order.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{JobId, Overrides};
use punctual_node::ports::Store;
use punctual_node::{Node, Settings, Submission};

use super::cron::next_instant;
use super::{BenchSetup, block_on};
use crate::clock::{self, Watch, lag, store_clock};
use crate::driver::Driver;
use crate::machine::{cpu_seconds, resident_bytes};
use crate::outside::{Handed, InstantExecutors, node};
use crate::place::{DatabaseFolder, open};
use crate::rows::{OneShots, Order, create_manual};
use crate::{BenchError, Figure, Figures};

/// How long to wait for late runs.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let place = DatabaseFolder::make(&setup.dir, "engine")?;
    // A busy machine may not submit all of them before they are due; then more time is tried.
    for lead in [1, 4, 16].map(|times| setup.sizes.lead * times) {
        let figure = block_on(stampede(setup, &place, lead))?;
        place.delete("store.db");
        if let Some(figure) = figure {
            return Ok(vec![figure]);
        }
    }
    Err("the one-shots could not be handed in before they were due".into())
}

/// None if they were due before all of them were submitted.
async fn stampede(
    setup: &BenchSetup,
    place: &DatabaseFolder,
    lead: Duration,
) -> Result<Option<Figure>, BenchError> {
    let count = setup.sizes.herd;
    let watch = Arc::new(Watch::start());
    let store: Arc<dyn Store> = open(&place.file("store.db"), store_clock(&watch))?;
    let job = create_manual(&*store, watch.now()).await?;
    let ledger = InstantExecutors::open(&watch, usize::try_from(count)?);
    let dispatch: Arc<InstantExecutors> = Arc::clone(&ledger);
    let clock: Arc<Watch> = Arc::clone(&watch);
    let node = node(clock, store, dispatch, Settings::default());
    let driver = Driver::start(&node, &watch, &ledger);
    while node.shards_held() == 0 {
        clock::sleep(Duration::from_millis(1)).await;
    }

    let due = next_instant(watch.now().saturating_add(lead), setup.sizes.interval);
    submit_all(setup, &node, &driver, job, due).await?;
    if watch.now() >= due {
        driver.stop().await;
        return Ok(None);
    }
    let cpu = cpu_seconds();
    let deadline = watch.elapsed() + watch.until(due) + PATIENCE;
    let pause = Duration::from_millis(20);
    while ledger.counts().0 < count && watch.elapsed() < deadline {
        clock::sleep(pause).await;
    }
    while ledger.counts().1 < count && watch.elapsed() < deadline {
        clock::sleep(pause).await;
    }
    let settled = lag(watch.date(), due).saturating_sub(pause / 2);
    let (cpu, rss, failures) = (cpu_seconds() - cpu, resident_bytes(), driver.failures());
    driver.stop().await;

    let figure = figure_of(count, &ledger.take())
        .cpu(cpu)
        .resident(rss)
        .with("all_settled_ms", settled.as_secs_f64() * 1_000.0)
        .with("store_failures", failures as f64);
    Ok(Some(figure))
}

/// Submits one-shots of a job that are all due at the same instant.
async fn submit_all(
    setup: &BenchSetup,
    node: &Node,
    driver: &Driver,
    job: JobId,
    due: Timestamp,
) -> Result<(), BenchError> {
    let payload = OneShots::new(1, Order::Rows, due, Duration::from_secs(1)).payload;
    let overrides = Overrides::default();
    let shot = Submission { job, at: Some(due), payload, key: None, priority: None, overrides };
    let mut left = usize::try_from(setup.sizes.herd)?;
    while left > 0 {
        let batch = left.min(usize::try_from(setup.sizes.batch)?);
        node.submit(vec![shot.clone(); batch]).await?;
        driver.ring();
        left -= batch;
    }
    Ok(())
}

/// How late the sends were, and whether each was made once and in order.
fn figure_of(count: u64, handed: &[Handed]) -> Figure {
    let is_behind = |pair: &&[Handed]| pair[0].sequence > pair[1].sequence;
    let out_of_order = handed.windows(2).filter(is_behind).count();
    let mut sequences: Vec<u32> = handed.iter().map(|it| it.sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    let doubled = handed.len() as u64 - sequences.len() as u64;
    let lags: Vec<Duration> = handed.iter().map(|it| it.lag.duration()).collect();
    let last = lags.iter().max().copied().unwrap_or_default();
    Figure::new("engine", format!("{count} at one instant"), sequences.len() as u64)
        .took("sends", last)
        .steps(lags)
        .whole(count - sequences.len() as u64, doubled)
        .with("out_of_order", out_of_order as f64)
}

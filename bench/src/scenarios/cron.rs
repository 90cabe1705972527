//! Many jobs that all fire at the same instants, second after second, on a real clock: lateness and cost.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_node::Settings;
use punctual_node::ports::Store;

use super::{BenchSetup, block_on};
use crate::clock::{self, Watch, store_clock};
use crate::driver::Driver;
use crate::machine::{cpu_seconds, resident_bytes};
use crate::outside::{Handed, InstantExecutors, node};
use crate::place::{DatabaseFolder, open};
use crate::rows::create_jobs;
use crate::{BenchError, Figure, Figures};

/// How long to wait for late runs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let place = DatabaseFolder::make(&setup.dir, "cron")?;
    Ok(vec![block_on(fire(setup, &place))?])
}

async fn fire(setup: &BenchSetup, place: &DatabaseFolder) -> Result<Figure, BenchError> {
    let (count, interval) = (setup.sizes.firing, setup.sizes.interval);
    let watch = Arc::new(Watch::start());
    let store: Arc<dyn Store> = open(&place.file("store.db"), store_clock(&watch))?;
    let first = next_instant(watch.now(), interval);
    create_jobs(&store, count, watch.now(), move |_| (interval, first)).await?;

    let instants = setup.sizes.duration.as_millis() / interval.as_millis();
    let expected = usize::try_from(instants)? * usize::try_from(count)?;
    let ledger = InstantExecutors::open(&watch, expected * 2);
    let dispatch: Arc<InstantExecutors> = Arc::clone(&ledger);
    let clock: Arc<Watch> = Arc::clone(&watch);
    let node = node(clock, store, dispatch, Settings::default());
    let driver = Driver::start(&node, &watch, &ledger);

    let from = next_instant(watch.now().saturating_add(setup.sizes.warm_up), interval);
    let until = from.saturating_add(setup.sizes.duration);
    clock::sleep(watch.until(from).saturating_sub(interval / 2)).await;
    let (cpu, begun) = (cpu_seconds(), watch.elapsed());
    clock::sleep(watch.until(until).saturating_sub(interval / 2)).await;
    let (cpu, took, rss) = (cpu_seconds() - cpu, watch.elapsed() - begun, resident_bytes());
    // Half an interval after the last instant: what is not settled by now is lagging.
    let (handed_over, acknowledged) = ledger.counts();

    let window = Window { from: ledger.millis(from), until: ledger.millis(until) };
    let mut handed = ledger.take();
    let deadline = watch.elapsed() + PATIENCE;
    while handed.iter().filter(|it| window.holds(it)).count() < expected && watch.elapsed() < deadline {
        clock::sleep(interval / 10).await;
        handed.extend(ledger.take());
    }
    let failures = driver.failures();
    driver.stop().await;

    let doubled = doubled(&handed);
    handed.retain(|it| window.holds(it));
    let lost = (expected as u64 + doubled).saturating_sub(handed.len() as u64);
    let lags = handed.iter().map(|it| it.lag.duration()).collect();
    Ok(Figure::new("cron", format!("{count} jobs every {} ms", interval.as_millis()), handed.len() as u64)
        .took("runs", setup.sizes.duration)
        .steps(lags)
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .with("expected", expected as f64)
        .with("cores", cpu / took.as_secs_f64())
        .with("unsettled", handed_over.saturating_sub(acknowledged) as f64)
        .with("store_failures", failures as f64))
}

/// The instants that are measured.
struct Window {
    from: u32,
    until: u32,
}

impl Window {
    fn holds(&self, handed: &Handed) -> bool {
        self.from <= handed.fire_time && handed.fire_time < self.until
    }
}

/// Number of runs that were sent more than once.
fn doubled(handed: &[Handed]) -> u64 {
    let mut keys: Vec<(u32, u32)> = handed.iter().map(|it| (it.job, it.fire_time)).collect();
    keys.sort_unstable();
    keys.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64
}

/// The first whole interval after an instant.
pub(super) fn next_instant(at: Timestamp, interval: Duration) -> Timestamp {
    let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
    Timestamp::from_millis((at.as_millis().div_euclid(interval) + 1) * interval)
}

//! The memory of a node with many one-shots loaded, all of them within its window.
//!
//! The database is filled by another process, and everything is read once without a node first: that memory belongs to
//! SQLite and the allocator, and what is added afterwards to the node.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::NodeId;
use punctual_core::wheel::Mark;
use punctual_node::Settings;
use punctual_node::ports::{Clock, Store};

use super::{BenchSetup, block_on};
use crate::clock::{Hands, Watch};
use crate::machine::{resident_bytes, resident_bytes_max};
use crate::outside::{Closed, node};
use crate::place::{DatabaseFolder, open};
use crate::rows::{OneShots, Order, TERM, create_manual, hold_all, submit};
use crate::{BenchError, Figure, Figures};

/// Fixed, so that the process that fills and the one that loads agree.
const START: &str = "2026-06-01T12:00:00Z";

/// The one-shots are due within an hour that begins an hour ahead.
const AHEAD: Duration = Duration::from_secs(3_600);
const SPAN: Duration = Duration::from_secs(3_600);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let place = DatabaseFolder::make(&setup.dir, "timers")?;
    let path = place.file("store.db");
    let count = setup.sizes.loaded;
    match &setup.program {
        None => fill(&path, count)?,
        Some(program) => {
            let status = Command::new(program).arg("fill").arg(&path).arg(count.to_string()).status()?;
            if !status.success() {
                return Err(format!("the process that fills the database ended with {status}").into());
            }
        }
    }
    Ok(vec![block_on(load(&path, count))?])
}

/// Fills a database with one-shots.
pub fn fill(path: &Path, count: u64) -> Result<(), BenchError> {
    let watch = Arc::new(Watch::start());
    let start: Timestamp = START.parse()?;
    block_on(async {
        let store: Arc<dyn Store> = open(path, Hands::at(start).store_clock())?;
        create_manual(&*store, start).await?;
        let shots = OneShots::new(count, Order::Random, start.saturating_add(AHEAD), SPAN);
        submit(&store, &shots, 1_000, 4, &watch).await?;
        Ok(())
    })
}

async fn load(path: &Path, count: u64) -> Result<Figure, BenchError> {
    let watch = Watch::start();
    let before = resident_bytes();
    let hands = Hands::at(START.parse()?);
    let store: Arc<dyn Store> = open(path, hands.store_clock())?;
    let opened = resident_bytes();
    let settings =
        Settings { load_ahead: 4 * AHEAD, wheel_capacity: usize::try_from(count)?, ..Settings::default() };
    let read = read_through(&*store, hands.now(), settings.load_max).await?;
    let after_reading = resident_bytes();
    hands.pass(TERM);

    let clock: Arc<Hands> = Arc::clone(&hands);
    let node = node(clock, store, Arc::new(Closed), settings);
    for _ in 0..2 {
        node.renew().await;
    }
    let begun = watch.elapsed();
    while node.load().await <= hands.boot() {}
    let took = watch.elapsed() - begun;
    let loaded = node.load_figures().0 as u64;
    let rss = resident_bytes();
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let of_node = rss.saturating_sub(after_reading);
    Ok(Figure::new("timers", "loaded", loaded)
        .took("timers", took)
        .resident(rss)
        .whole(count.saturating_sub(loaded), loaded.saturating_sub(count) + read.saturating_sub(count))
        .with("rss_start_mb", megabytes(before))
        .with("rss_open_mb", megabytes(opened))
        .with("rss_read_mb", megabytes(after_reading))
        .with("rss_max_mb", megabytes(resident_bytes_max()))
        .with("node_bytes_per_timer", of_node as f64 / loaded.max(1) as f64))
}

/// Reads everything as a node does, and keeps nothing.
async fn read_through(store: &dyn Store, now: Timestamp, page: usize) -> Result<u64, BenchError> {
    let leases = hold_all(store, NodeId(1), now).await?;
    let (mut count, mut from) = (0, Some(Mark { due: Timestamp::MIN, id: 0 }));
    while let Some(mark) = from {
        let loaded = store.load(&leases, mark, now.saturating_add(4 * AHEAD), page).await?;
        count += loaded.runs.len() as u64;
        from = loaded.rest;
    }
    Ok(count)
}

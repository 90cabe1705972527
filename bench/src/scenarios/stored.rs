//! Many one-shots stored and a steady rate of due ones, to a native executor: lateness, and whether the node's memory stays
//! constant. `sustained` stores nothing else, and runs for long at a rate that saturates the machine.

use std::time::Duration;

use calendar::Timestamp;

use super::BenchSetup;
use super::insert::SPAN;
use super::stage::{NativeStage, lags, since_1970, whole};
use crate::clock;
use crate::rows::{OneShots, Order};
use crate::{Figure, Figures};

/// The stored runs are due after this time, when the scenario is over.
const QUIET: Duration = Duration::from_secs(3_600);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    measure(setup, "stored")
}

/// Only due runs, at the rate that a node should sustain, for long.
pub(super) fn sustained(setup: &BenchSetup) -> Figures {
    let (due_rate, steady) = (setup.sizes.sustained_rate, setup.sizes.sustained);
    let sizes = crate::Sizes { stored: 0, due_rate, steady, ..setup.sizes.clone() };
    measure(&BenchSetup { sizes, ..setup.clone() }, "sustained")
}

fn measure(setup: &BenchSetup, name: &'static str) -> Figures {
    let database = setup.start(name)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (stored, rate, lasts) = (setup.sizes.stored, setup.sizes.due_rate, setup.sizes.steady);
        let count = rate * lasts.as_secs();
        // Late enough that everything is stored and the node has started.
        let lead = 4 * setup.sizes.lead + setup.filling(stored + count);
        let start = std::cell::Cell::new(0_i64);
        let shots = |now: Timestamp| {
            let from = now.saturating_add(lead);
            start.set(from.as_millis());
            let quiet = OneShots::new(stored, Order::Random, now.saturating_add(QUIET), SPAN);
            let due = OneShots::new(count, Order::Rows, from, lasts);
            if stored == 0 { vec![due] } else { vec![quiet, due] }
        };
        let stage = NativeStage::filled(setup, &database, shots).await?;
        let due_in = since_1970(start.get()).saturating_sub(stage.watch.date());
        let is_in_time = f64::from(u8::from(!due_in.is_zero()));
        clock::sleep(due_in).await;
        let (cpu, servers) = (stage.cpu(), database.cpu_seconds());
        let (ended, memory) = stage.wait(count, lasts).await?;
        let (cpu, servers) = (stage.cpu() - cpu, database.cpu_seconds().zip(servers));
        let arrived = stage.native.take();
        let (lost, doubled) = whole(&arrived, count);
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let figure = Figure::new(name, format!("{stored} stored, {rate} due a second"), count)
            .took("runs", ended.saturating_sub(since_1970(start.get())))
            .steps(lags(&arrived))
            .cpu(cpu)
            .resident(memory.last)
            .whole(lost, doubled)
            .on(database.kind)
            .with("ready_before_the_first", is_in_time)
            .with("rss_first_mb", megabytes(memory.first))
            .with("rss_max_mb", megabytes(memory.max));
        Ok(vec![match servers {
            Some((after, before)) => figure.with("server_cpu_s", after - before),
            None => figure,
        }])
    })
}

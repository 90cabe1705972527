//! What a million timers cost: `cargo bench -p punctual-core`.
//!
//! Each figure is a million of them, armed or handed out; beside it the same with an ordered map and an index by
//! id, which is what one would write first.

use std::collections::BTreeMap;
use std::hint::black_box;

use calendar::Timestamp;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use punctual_core::wheel::{Armed, Timer, Wheel};
use rustc_hash::FxHashMap;

const TIMERS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000;

/// A million runs due within an hour, in the order of their ids or scattered.
fn timers(is_scattered: bool) -> Vec<Timer> {
    let due = |id: u64| match is_scattered {
        true => id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11,
        false => id * HOUR / TIMERS,
    };
    let timer = |id| Timer { due: Timestamp::from_millis((due(id) % HOUR) as i64), priority: 5, id };
    (0..TIMERS).map(timer).collect()
}

fn wheel_of(timers: &[Timer]) -> Wheel {
    let mut wheel = Wheel::new(TIMERS as usize, Timestamp::from_millis(-1));
    for timer in timers {
        wheel.arm(*timer);
    }
    wheel
}

/// An ordered map, and an index by id so that a run can be cancelled.
#[derive(Default)]
struct Ordered {
    by_due: BTreeMap<(Timestamp, u8, u64), ()>,
    by_id: FxHashMap<u64, Timestamp>,
}

fn map_of(timers: &[Timer]) -> Ordered {
    let mut map = Ordered::default();
    for timer in timers {
        map.by_id.insert(timer.id, timer.due);
        map.by_due.insert((timer.due, timer.priority, timer.id), ());
    }
    map
}

/// Hands out an hour, millisecond by millisecond.
fn drain(mut wheel: Wheel) -> u64 {
    let (mut out, mut handed_out) = (Vec::new(), 0);
    for now in 0..HOUR as i64 {
        out.clear();
        wheel.advance(Timestamp::from_millis(now), usize::MAX, &mut out);
        handed_out += out.len() as u64;
    }
    handed_out
}

fn drain_map(mut map: Ordered) -> u64 {
    let mut handed_out = 0;
    for now in 0..HOUR as i64 {
        while let Some(first) = map.by_due.first_entry()
            && first.key().0 <= Timestamp::from_millis(now)
        {
            let ((_, _, id), ()) = first.remove_entry();
            handed_out += u64::from(map.by_id.remove(&id).is_some());
        }
    }
    handed_out
}

fn wheel(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a million timers");
    group.throughput(Throughput::Elements(TIMERS)).sample_size(10);
    for (order, is_scattered) in [("in order", false), ("scattered", true)] {
        let timers = timers(is_scattered);
        group.bench_function(format!("arm, {order}"), |bencher| {
            bencher.iter_with_large_drop(|| wheel_of(black_box(&timers)));
        });
        group.bench_function(format!("arm, {order}: ordered map"), |bencher| {
            bencher.iter_with_large_drop(|| map_of(black_box(&timers)));
        });
        group.bench_function(format!("hand out, armed {order}"), |bencher| {
            bencher.iter_batched(|| wheel_of(&timers), drain, BatchSize::PerIteration);
        });
        group.bench_function(format!("hand out, armed {order}: ordered map"), |bencher| {
            bencher.iter_batched(|| map_of(&timers), drain_map, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// What the process holds more with a million timers loaded.
#[expect(clippy::print_stdout, reason = "a figure that criterion does not know how to print")]
fn memory(_: &mut Criterion) {
    let before = resident_bytes();
    let timers = timers(true).into_iter();
    let mut wheel = Wheel::new(TIMERS as usize, Timestamp::from_millis(-1));
    timers.for_each(|timer| assert_eq!(wheel.arm(timer), Armed::Kept));
    let after = resident_bytes();
    let megabytes = after.saturating_sub(before) / 1_000_000;
    println!("a million timers: {megabytes} MB resident, {} loaded\n", black_box(&wheel).len());
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1_024
}

criterion_group! { name = benches; config = Criterion::default(); targets = memory, wheel }
criterion_main!(benches);

//! The wheel beside an ordered map with an index by id, which is the obvious alternative. `cargo bench -p punctual-core`
//! measures the same with more repetitions.

use std::collections::BTreeMap;
use std::hint::black_box;

use calendar::Timestamp;
use punctual_core::wheel::{Timer, Wheel};
use rustc_hash::FxHashMap;

use super::BenchSetup;
use crate::clock::Watch;
use crate::rows::{Order, scatter};
use crate::{Figure, Figures};

const HOUR: u64 = 3_600_000;

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let watch = Watch::start();
    let count = setup.sizes.timers;
    let mut figures = Vec::new();
    for order in Order::ALL {
        let timers = timers(count, order);
        let begun = watch.elapsed();
        let mut map = Ordered::default();
        timers.iter().for_each(|timer| map.arm(timer));
        let map_armed = watch.elapsed() - begun;
        let begun = watch.elapsed();
        let out_of_map = drain_map(map);
        let map_drained = watch.elapsed() - begun;

        let begun = watch.elapsed();
        let mut wheel = Wheel::new(usize::try_from(count)?, Timestamp::from_millis(-1));
        for timer in &timers {
            wheel.arm(*timer);
        }
        let armed = watch.elapsed() - begun;
        let begun = watch.elapsed();
        let out = drain(black_box(wheel));
        let drained = watch.elapsed() - begun;

        let whole =
            |figure: Figure| figure.whole(out_of_map.saturating_sub(out), out.saturating_sub(out_of_map));
        let case = |what: &str| format!("{what}, {}", order.name());
        figures.push(whole(Figure::new("wheel", case("arm"), count).took("timers", armed).beside(map_armed)));
        figures.push(whole(
            Figure::new("wheel", case("hand out"), out).took("timers", drained).beside(map_drained),
        ));
    }
    Ok(figures)
}

/// Runs due within an hour.
fn timers(count: u64, order: Order) -> Vec<Timer> {
    let due = |id: u64| match order {
        Order::Rows => id * HOUR / count,
        Order::Random => scatter(id) % HOUR,
    };
    (0..count)
        .map(|id| Timer { due: Timestamp::from_millis(due(id) as i64), priority: 5, group: 0, id })
        .collect()
}

/// An ordered map, and an index by id so that a run can be cancelled.
#[derive(Default)]
struct Ordered {
    by_due: BTreeMap<(Timestamp, u8, u64), ()>,
    by_id: FxHashMap<u64, Timestamp>,
}

impl Ordered {
    fn arm(&mut self, timer: &Timer) {
        self.by_id.insert(timer.id, timer.due);
        self.by_due.insert((timer.due, timer.priority, timer.id), ());
    }
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

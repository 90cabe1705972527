//! Runs many worlds on two threads, adds up their counters, and lists failures by seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::Violation;
use crate::counters::Counters;
use crate::link::Micros;
use crate::setup::WorldSetup;
use crate::world::{World, WorldOutcome};

/// The result of many worlds.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Number of worlds.
    pub worlds: u64,
    /// Their virtual time in all.
    pub simulated: Micros,
    /// CPU seconds; 0 if the system does not tell.
    pub cpu_s: f64,
    /// Number of events.
    pub events: u64,
    /// The counters.
    pub counters: Counters,
    /// Worlds that broke a promise, by seed.
    pub failures: Vec<(u64, Violation)>,
}

impl Swept {
    /// Simulated hours for each second of processor time.
    pub fn speed(&self) -> f64 {
        self.simulated as f64 / 3.6e9 / self.cpu_s.max(1e-9)
    }

    fn add(&mut self, seed: u64, outcome: WorldOutcome, cpu_s: f64) {
        self.worlds += 1;
        self.simulated += outcome.lasted;
        self.cpu_s += cpu_s;
        self.events += outcome.events;
        self.counters.add(&outcome.counters);
        self.failures.extend(outcome.violation.map(|(_, violation)| (seed, violation)));
    }
}

/// Runs one world. A panic is a broken promise like any other.
pub fn run(setup: WorldSetup) -> WorldOutcome {
    run_world(World::new(setup))
}

/// Runs one world and records its trace.
pub fn run_traced(setup: WorldSetup, only: Option<String>) -> WorldOutcome {
    run_world(World::new(setup).traced(only))
}

fn run_world(world: World) -> WorldOutcome {
    catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let said = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let violation = Violation { rule: "I27", what: format!("a panic: {said}") };
        WorldOutcome {
            violation: Some((0, violation)),
            hash: 0,
            events: 0,
            lasted: 0,
            counters: Counters::default(),
            trace: Vec::new(),
        }
    })
}

/// Runs worlds from a seed on, on two threads, until `is_enough` returns true; it is called after every world.
pub fn sweep(
    from: u64,
    make: &(dyn Fn(u64) -> WorldSetup + Sync),
    is_enough: &(dyn Fn(u64, &Swept) -> bool + Sync),
) -> Swept {
    let (next, swept) = (AtomicU64::new(from), Mutex::new(Swept::default()));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let before = cpu_s();
                    let outcome = run(make(seed));
                    let took = cpu_s() - before;
                    let mut swept = swept.lock().expect("nobody panics while holding it");
                    swept.add(seed, outcome, took);
                    if is_enough(seed, &swept) {
                        is_over.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut swept = swept.into_inner().expect("nobody panics while holding it");
    swept.failures.sort_by_key(|(seed, _)| *seed);
    swept
}

/// Runs exactly these worlds.
pub fn sweep_range(from: u64, count: u64, make: &(dyn Fn(u64) -> WorldSetup + Sync)) -> Swept {
    // The other thread may be a world ahead when the last of ours is done, so the limit is in the making.
    let end = from + count;
    let (next, swept) = (AtomicU64::new(from), Mutex::new(Swept::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let before = cpu_s();
                    let outcome = run(make(seed));
                    let took = cpu_s() - before;
                    swept.lock().expect("nobody panics while holding it").add(seed, outcome, took);
                }
            });
        }
    });
    let mut swept = swept.into_inner().expect("nobody panics while holding it");
    swept.failures.sort_by_key(|(seed, _)| *seed);
    swept
}

/// CPU seconds of this thread; 0 if the system does not tell.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: u64 = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    nanos as f64 / 1e9
}

//! The simulation as it runs with every push: 150 worlds of six hours each, and the seeds that once failed.
#![expect(clippy::print_stderr, reason = "what was simulated is told")]

use punctual_sim::setup::{SIX_HOURS, Shape, WorldSetup};
use punctual_sim::shrink;
use punctual_sim::sweep::{Swept, run, sweep_range};

/// Each costs about four thirds of what it did before there were executors to be found and asked.
const WORLDS: u64 = 150;

/// How many worlds of each other shape.
const SHAPED: u64 = 12;

fn world(seed: u64) -> WorldSetup {
    WorldSetup::new(seed, SIX_HOURS)
}

/// Fails with the seed, the promise and the smallest world that breaks it.
fn expect_clean(swept: &Swept, world: &dyn Fn(u64) -> WorldSetup) {
    let Some((seed, violation)) = swept.failures.first() else { return };
    let all: Vec<u64> = swept.failures.iter().map(|(seed, _)| *seed).collect();
    let small = shrink::shrink(&|| world(*seed));
    let options = small.map_or(String::new(), |small| shrink::options(&small.cut));
    panic!("seeds {all:?} failed; {seed}: {violation}\ncargo xtask sim --seed {seed} {options}");
}

#[test]
fn many_worlds_keep_every_promise_and_see_everything_happen() {
    let swept = sweep_range(0, WORLDS, &world);
    let hours = swept.simulated as f64 / 3.6e9;
    let (events, cpu, speed) = (swept.events, swept.cpu_s, swept.speed());
    eprintln!(
        "{WORLDS} worlds, {hours:.0} simulated hours, {events} events, {cpu:.0} s CPU, {speed:.1} h a CPU second"
    );
    expect_clean(&swept, &world);
    let never: Vec<&str> =
        swept.counters.all().into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect();
    assert!(never.is_empty(), "never came about: {never:?}");
}

/// In these shapes planted bugs are found; without a bug nothing is.
#[test]
fn worlds_with_an_app_that_hangs_keep_every_promise() {
    for shape in [Shape::Hung, Shape::Crowded] {
        let shaped = |seed| WorldSetup::new(seed, SIX_HOURS / 6).shaped(shape);
        expect_clean(&sweep_range(0, SHAPED, &shaped), &shaped);
    }
}

#[test]
fn seeds_that_once_failed_do_not_fail_again() {
    let lines = include_str!("../regressions.txt").lines().filter(|line| !line.starts_with('#'));
    for name in lines.map(|line| line.split_whitespace().next().unwrap_or(line)) {
        let Some(setup) = remembered(name) else { continue };
        let violation = run(setup).violation;
        assert!(violation.is_none(), "seed {name}: {violation:?}");
    }
}

/// A world by its seed or by `seed:shape:hours`; none if it is among those that are run anyway.
fn remembered(name: &str) -> Option<WorldSetup> {
    let mut parts = name.split(':');
    let seed: u64 = parts.next().and_then(|seed| seed.parse().ok()).expect("a seed");
    let Some((shape, hours)) = parts.next().zip(parts.next()) else {
        return (seed >= WORLDS).then(|| world(seed));
    };
    let length = hours.parse::<f64>().expect("hours") * SIX_HOURS as f64 / 6.0;
    Some(WorldSetup::new(seed, length as u64).shaped(Shape::named(shape).expect("a shape")))
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in [3, 17, 29] {
        let (first, second) = (run(world(seed)), run(world(seed)));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
        assert_eq!(first.counters, second.counters, "seed {seed}");
    }
}

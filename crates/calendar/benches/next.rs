//! What the next instant costs: `cargo bench -p punctual-calendar`.
//!
//! Each figure is one `next_after`, walked from answer to answer as a scheduler does, in one thread.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use punctual_calendar::{Cron, Dialect, Rule, Timestamp, Zones};

/// Rules that people write.
const COMMON: &[(&str, Dialect, &str, &str)] = &[
    ("every 15 minutes, UTC", Dialect::Unix, "*/15 * * * *", "UTC"),
    ("every 15 minutes, New York", Dialect::Unix, "*/15 * * * *", "America/New_York"),
    ("daily, New York", Dialect::Unix, "30 2 * * *", "America/New_York"),
    ("weekdays, London", Dialect::Unix, "0 9 * * 1-5", "Europe/London"),
    ("every 5 seconds, Shanghai", Dialect::Quartz, "0/5 * * * * ?", "Asia/Shanghai"),
    ("last working day, Berlin", Dialect::Quartz, "0 0 18 LW * ?", "Europe/Berlin"),
];

/// Rules whose next instant is far, or not there.
const WORST: &[(&str, Dialect, &str, &str)] = &[
    ("29 February, New York", Dialect::Unix, "0 0 29 2 *", "America/New_York"),
    ("fifth Monday of February, Casablanca", Dialect::Unix, "0 0 * 2 1#5", "Africa/Casablanca"),
    ("only in 2199, Casablanca", Dialect::Quartz, "0 0 0 29 12 ? 2199", "Africa/Casablanca"),
    ("never: only in gaps", Dialect::Quartz, "0 */30 2 ? 3 1#2", "America/New_York"),
    ("never: day 31 of the short months", Dialect::Unix, "0 0 31W 2,4,6,9,11 *", "Africa/Casablanca"),
];

fn next(criterion: &mut Criterion) {
    for (group, rules) in [("common", COMMON), ("worst", WORST)] {
        let mut group = criterion.benchmark_group(group);
        for (name, dialect, expression, zone) in rules {
            let rule = rule(expression, *dialect, zone);
            let start = start();
            let mut at = start;
            group.bench_function(*name, |bencher| {
                bencher.iter(|| at = black_box(&rule).next_after(black_box(at)).unwrap_or(start));
            });
        }
    }
}

fn other(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("other");
    group.bench_function("parse a common expression", |bencher| {
        bencher.iter(|| Cron::parse(black_box("*/15 9-17 * * 1-5"), Dialect::Unix, ""));
    });
    let long = vec!["L-3W"; 13_000].join(",");
    let long = format!("0 0 0 {long} * ?");
    group.bench_function("parse 64 KiB", |bencher| {
        bencher.iter(|| Cron::parse(black_box(&long), Dialect::Quartz, ""));
    });
    let every_second = rule("* * * * * *", Dialect::Unix, "America/New_York");
    let far = start().saturating_add(Duration::from_secs(100 * 31_557_600));
    group.bench_function("count every second of a century", |bencher| {
        bencher.iter(|| black_box(&every_second).count(start(), far));
    });
    group.bench_function("cut a zone into its stretches", |bencher| {
        bencher.iter(|| Zones::bundled().get("Africa/Casablanca").unwrap());
    });
}

fn rule(expression: &str, dialect: Dialect, zone: &str) -> Rule {
    Rule::cron(Cron::parse(expression, dialect, "").unwrap(), Zones::bundled().get(zone).unwrap())
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = next, other
}
criterion_main!(benches);

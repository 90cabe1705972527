//! Every scenario in a tiny size: they run, and nothing is lost or doubled. How fast, nobody asks here.

use std::path::Path;

use punctual_bench::scenarios::{ALL, BenchSetup};
use punctual_bench::{DatabaseChoice, Figure, Order};

fn setup() -> BenchSetup {
    BenchSetup::tiny(Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned())
}

fn run(name: &str) -> Vec<Figure> {
    run_with(name, &setup())
}

fn run_with(name: &str, setup: &BenchSetup) -> Vec<Figure> {
    let (_, scenario) = ALL.iter().find(|(known, _)| *known == name).expect("a scenario");
    let figures = scenario(setup).expect("it ends well");
    for figure in &figures {
        assert!(figure.is_right(), "{figure}");
        let json: serde_json::Value = serde_json::from_str(&figure.to_json()).expect("JSON");
        assert_eq!(json["scenario"], name);
        assert!(json["rate"].as_f64().is_some_and(|rate| rate > 0.0), "{json}");
    }
    figures
}

fn counts(figures: &[Figure]) -> Vec<u64> {
    figures.iter().map(|figure| figure.count).collect()
}

#[test]
fn every_row_that_was_accepted_is_there() {
    assert_eq!(counts(&run("insert")), [20, 500, 2_000, 2_000, 20, 500, 2_000, 2_000]);
}

#[test]
fn every_run_is_loaded_and_closed_once() {
    assert_eq!(counts(&run("load_close")), [1_000; 2]);
}

#[test]
fn every_second_plans_what_is_due_in_it() {
    let figures = run("plan");
    let planned = figures.iter().filter_map(|figure| figure.more.get("planned")).sum::<f64>();
    assert_eq!(planned, 2.0 * 12.0 * 20.0);
}

#[test]
fn the_wheel_hands_out_what_was_armed() {
    assert_eq!(counts(&run("wheel")), [5_000; 4]);
}

#[test]
fn everything_within_the_window_is_loaded() {
    assert_eq!(counts(&run("timers")), [3_000]);
}

#[test]
fn every_job_fires_once_at_every_instant() {
    assert_eq!(counts(&run("cron")), [50 * 5]);
}

#[test]
fn a_herd_is_handed_over_whole_and_in_order() {
    assert_eq!(counts(&run("engine")), [500]);
}

#[test]
fn a_tick_plans_what_is_due_among_many_that_are_not() {
    assert_eq!(counts(&run("tick")), [12; 2]);
}

#[test]
fn the_scenarios_of_the_store_run_on_postgresql() {
    on_a_server(DatabaseChoice::ScratchPostgres);
}

#[test]
fn the_scenarios_of_the_store_run_on_mariadb() {
    on_a_server(DatabaseChoice::ScratchMariaDb);
}

fn on_a_server(database: DatabaseChoice) {
    let mut setup = BenchSetup { database, orders: vec![Order::Random], ..setup() };
    (setup.sizes.inserts, setup.sizes.jobs_stored) = (vec![(100, 500)], vec![100]);
    for (name, expected) in [("insert", 500), ("load_close", 1_000), ("plan", 100), ("tick", 12)] {
        assert_eq!(run_with(name, &setup)[0].count, expected, "{name}");
    }
}

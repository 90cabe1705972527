//! Clusters of the real binary with everything breaking around them: the short sets. `cargo xtask faults` is the long one.
//!
//! Histories, logs and figures of each are in the `faults` folder of the build's temporary one.
#![expect(clippy::disallowed_methods, clippy::print_stderr, reason = "real programs live in real time")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_faults::campaign::{CampaignSetup as Setup, Database};
use punctual_faults::report::CampaignReport as Report;
use punctual_faults::sets;

const BINARY: &str = env!("CARGO_BIN_EXE_punctual");

/// What is promised is five seconds and half a second. A machine that builds and tests other things meanwhile gets more.
const TAKEOVER: Duration = Duration::from_secs(8);
const HAND_OVER: Duration = Duration::from_secs(1);

/// How late work may be while shards move to a node that returns. What is promised is a tenth of it.
const RETURN: Duration = Duration::from_secs(1);

/// How late the latest of all runs may be at a planned move, those of serial jobs included. What is promised is a tenth of a
/// second. On a busy machine a single run says little, so this only finds a run that waited for a lease to end, which takes 4 s.
const LATEST_AT_A_MOVE: Duration = Duration::from_secs(3);

/// What says of a server that it was left out of the test command.
const POSTGRES: &str = "PUNCTUAL_TEST_POSTGRES";
const MARIADB: &str = "PUNCTUAL_TEST_MARIADB";
const REDIS: &str = "PUNCTUAL_TEST_REDIS";

fn evidence(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults").join(name)
}

fn is_left_out(variable: &str) -> bool {
    let is_left_out = std::env::var(variable).is_ok_and(|value| value == "without");
    if is_left_out {
        eprintln!("left out: {variable} says so");
    }
    is_left_out
}

/// Says what was found, so that a failure shows it and a success with `--nocapture` does.
fn told(name: &str, outcome: Result<Report, String>) -> Report {
    let report = outcome.unwrap_or_else(|reason| panic!("{name}: {reason}"));
    eprintln!("{name}: {}", report.text);
    assert!(report.covered.fires > 500 && report.covered.one_shots > 50, "{name}: too little was tried");
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_that_is_killed_and_held_loses_nothing() {
    let setup = Setup::embedded(BINARY, evidence("alone"));
    told("alone", sets::alone(&setup).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_postgresql_are_killed_twenty_times_and_nothing_is_lost_or_decided_twice() {
    if is_left_out(POSTGRES) {
        return;
    }
    let setup = Setup { seed: 2, ..Setup::cluster(Database::Postgres, BINARY, evidence("deaths")) };
    let report = told("deaths", sets::deaths(&setup, 20, 5).await);
    let (takeover, hand_over) = (&report.samples["takeover"], &report.samples["hand-over"]);
    assert_eq!(takeover.count(), 20);
    assert!(takeover.percentile(99) < TAKEOVER, "{takeover}");
    assert!(hand_over.percentile(50) < HAND_OVER, "{hand_over}");
    let returns = &report.samples["lateness while a node returns"];
    assert!(returns.count() > 500 && returns.percentile(99) < RETURN, "{returns}");
    let serial = &report.samples["lateness of serial jobs at planned moves"];
    assert!(serial.count() > 20 && serial.max() < LATEST_AT_A_MOVE, "{serial}");
    let stops = &report.samples["lateness at a clean stop"];
    assert!(stops.max() < LATEST_AT_A_MOVE, "{stops}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_postgresql_are_held_for_long_and_their_clocks_go_wrong() {
    if is_left_out(POSTGRES) {
        return;
    }
    let setup = Setup::cluster(Database::Postgres, BINARY, evidence("times"));
    let setup = Setup { seed: 3, has_movable_clock: true, ..setup };
    told("times", sets::times(&setup).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_cut_off_from_postgresql_and_postgresql_and_redis_go_away() {
    if is_left_out(POSTGRES) {
        return;
    }
    let setup = Setup::cluster(Database::Postgres, BINARY, evidence("absences"));
    let setup = Setup { seed: 4, has_redis: !is_left_out(REDIS), ..setup };
    let report = told("absences", sets::absences(&setup).await);
    assert!(report.covered.skipped > 0, "nothing was late enough for a policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_little_of_everything_happens_to_nodes_on_mariadb() {
    if is_left_out(MARIADB) {
        return;
    }
    let setup = Setup { seed: 5, ..Setup::cluster(Database::MariaDb, BINARY, evidence("mariadb")) };
    told("mariadb", sets::some(&setup).await);
}

/// The database is killed for ten seconds, and stands still for eight, with every connection open.
async fn outages(name: &str, database: Database, seed: u64) {
    let setup = Setup { seed, ..Setup::cluster(database, BINARY, evidence(name)) };
    let report = told(name, sets::outages(&setup, 1).await);
    assert_eq!(report.covered.known_again, 0, "results that were known were thrown away");
    assert!(report.covered.skipped > 0, "nothing was late enough for a policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_outlives_a_postgresql_that_is_killed_for_long_and_one_that_stands_still() {
    if !is_left_out(POSTGRES) {
        outages("outages", Database::Postgres, 8).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_outlives_a_mariadb_that_is_killed_for_long_and_one_that_stands_still() {
    if !is_left_out(MARIADB) {
        outages("outages-mariadb", Database::MariaDb, 9).await;
    }
}

/// A planned switch-over: the old primary lives on, read-only, and only new connections reach the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_postgresql_takes_over_and_nodes_leave_the_old_one_by_themselves() {
    if is_left_out(POSTGRES) {
        return;
    }
    let setup = Setup::cluster(Database::Postgres, BINARY, evidence("switch-overs"));
    let report = told("switch-overs", sets::switch_overs(&Setup { seed: 6, ..setup }).await);
    let went_on = &report.samples["work goes on after a switch-over"];
    assert!(went_on.percentile(100) < Duration::from_secs(15), "{went_on}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_mariadb_takes_over_and_nodes_leave_the_old_one_by_themselves() {
    if is_left_out(MARIADB) {
        return;
    }
    let setup = Setup::cluster(Database::MariaDb, BINARY, evidence("switch-overs-mariadb"));
    let report = told("switch-overs", sets::switch_overs(&Setup { seed: 7, ..setup }).await);
    let went_on = &report.samples["work goes on after a switch-over"];
    assert!(went_on.percentile(100) < Duration::from_secs(15), "{went_on}");
}

//! `punctual bench` with whole nodes, in a tiny size: the scenarios run, and nothing is lost or doubled. How fast, nobody asks here.

use std::process::Command;

use serde_json::Value;

/// What a scenario prints, without the machine.
fn bench(words: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .arg("bench")
        .args(words)
        .args(["--tiny", "--json", "--part", "--dir", env!("CARGO_TARGET_TMPDIR")])
        .output()
        .expect("it starts");
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{words:?}: {said}{complaint}");
    said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn check(words: &[&str], counts: &[u64]) {
    let figures = bench(words);
    let found: Vec<u64> = figures.iter().filter_map(|figure| figure["count"].as_u64()).collect();
    assert_eq!(found, counts, "{figures:#?}");
}

#[test]
fn what_is_handed_over_is_stored() {
    check(&["submit"], &[100, 1_000, 10_000]);
}

#[test]
fn what_is_due_is_executed_by_agents_and_native_executors() {
    check(&["execute"], &[500, 500]);
    check(&["lag"], &[400]);
}

#[test]
fn what_is_cancelled_is_not_run() {
    check(&["cancel"], &[300, 300]);
}

#[test]
fn what_is_stored_outlives_a_kill() {
    check(&["restart"], &[2_000]);
}

#[test]
fn what_is_due_among_much_that_is_stored_is_executed() {
    check(&["stored"], &[200]);
}

#[test]
fn a_flood_is_drained_and_fresh_work_comes_through() {
    let figures = bench(&["flood"]);
    assert_eq!((figures.len(), &figures[0]["count"]), (2, &Value::from(2_000)));
}

#[test]
fn a_backlog_over_many_jobs_is_drained() {
    check(&["backlog"], &[500, 500, 1_200]);
    check(&["backlog", "--jobs", "50", "--runs", "100", "--takes", "20"], &[100]);
}

#[test]
fn other_apps_are_called_beside_calls_that_hang() {
    let figures = bench(&["starve"]);
    assert_eq!(
        figures.len(),
        3,
        "one job, four jobs over two hosts, and a host that others call: {figures:#?}"
    );
    for figure in figures {
        assert_eq!((&figure["count"], &figure["lost"]), (&320.into(), &0.into()), "{figure:#}");
    }
}

#[test]
fn a_node_under_every_abuse_fires_in_time_and_lets_token_holders_in() {
    let figures = bench(&["abuse"]);
    assert_eq!(figures.len(), 2, "{figures:#?}");
    for figure in figures {
        assert!(figure["asked"].as_f64() > Some(20.0) && figure["shut_out"] == 0.0, "{figure:#}");
        assert!(figure["sent_away"].as_f64() > Some(0.0), "{figure:#}");
    }
}

#[test]
fn every_page_is_answered_among_many_jobs_and_runs() {
    assert_eq!(bench(&["browse"]).len(), 26);
}

#[test]
fn nodes_share_the_work_on_database_servers() {
    for database in ["scratch-postgres", "scratch-mariadb"] {
        check(&["scaling", "--database", database], &[300, 600, 900]);
    }
}

#[test]
fn a_scenario_that_does_not_exist_is_refused_with_the_list() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_punctual")).args(["bench", "speed"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: punctual bench"));
}

//! `punctual cron` as a person or a script meets it: the real binary, its output and its exit codes.

use std::io::Read;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn punctual(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual")).args(arguments).output().expect("the binary starts")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

/// The answer is data on stdout, exit code 0 and silence on stderr.
fn answer(arguments: &[&str]) -> Value {
    let output = punctual(arguments);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    json(&output)
}

/// The refusal is exit code 2, nothing on stdout, and these words on stderr.
fn refusal(arguments: &[&str], words: &[&str]) {
    let output = punctual(arguments);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{arguments:?}");
    for word in words {
        assert!(stderr(&output).contains(word), "{arguments:?}: {word:?} not in {}", stderr(&output));
    }
}

#[test]
fn nine_in_toronto_is_thirteen_utc_before_the_clocks_change() {
    let after = ["--zone", "America/Toronto", "--after", "2024-10-30T14:30:00Z"];
    let times = answer(&[&["cron", "next", "0 9 * * *", "--json"], &after[..]].concat());
    let expected = json!([
        "2024-10-31T13:00:00Z",
        "2024-11-01T13:00:00Z",
        "2024-11-02T13:00:00Z",
        "2024-11-03T14:00:00Z",
        "2024-11-04T14:00:00Z",
    ]);
    assert_eq!(times, expected);
}

#[test]
fn the_defaults_are_unix_utc_and_five_from_now() {
    let output = punctual(&["cron", "next", "0 0 * * 1"]);
    assert_eq!(output.status.code(), Some(0));
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().all(|line| line.ends_with("T00:00:00Z")), "{lines:?}");
}

#[test]
fn options_may_stand_before_or_behind_the_expression() {
    let before = ["cron", "next", "--json", "--count", "1", "--after", "2026-01-01T00:00:00Z", "0 9 * * *"];
    let behind = ["cron", "next", "0 9 * * *", "--json", "--count", "1", "--after", "2026-01-01T00:00:00Z"];
    let after_dashes =
        ["cron", "next", "--json", "--count", "1", "--after", "2026-01-01T00:00:00Z", "--", "0 9 * * *"];
    for arguments in [&before[..], &behind, &after_dashes] {
        assert_eq!(answer(arguments), json!(["2026-01-01T09:00:00Z"]), "{arguments:?}");
    }
}

#[test]
fn the_dialect_decides_what_one_means() {
    let sunday = ["cron", "next", "0 0 12 ? * 1", "--dialect", "quartz", "--after", "2026-01-01T00:00:00Z"];
    let times = answer(&[&sunday[..], &["--count", "1", "--json"]].concat());
    assert_eq!(times, json!(["2026-01-04T12:00:00Z"]));
    let monday =
        ["cron", "next", "0 0 12 ? * 1", "--after", "2026-01-01T00:00:00Z", "--count", "1", "--json"];
    assert_eq!(answer(&monday), json!(["2026-01-05T12:00:00Z"]));
}

#[test]
fn a_rule_that_never_fires_answers_an_empty_list_and_warns() {
    let output = punctual(&["cron", "next", "0 0 30 2 *", "--json"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "[]\n"));
    assert!(stderr(&output).starts_with("warning: never fires"), "{}", stderr(&output));
}

#[test]
fn a_refused_expression_is_shown_with_its_place_underlined() {
    refusal(
        &["cron", "next", "0 25 * * *", "--json"],
        &["position 3, hour: 25 is out of range: expected 0 to 23", "  0 25 * * *\n    ^^"],
    );
    refusal(&["cron", "next", ""], &["position 1, empty expression"]);
    refusal(&["cron", "next", "-5 * * * *"], &["position 1, minute: a number has no sign"]);
    refusal(&["cron", "explain", "0 0 12 * * *", "--dialect", "quartz"], &["position 12", "write `?` here"]);
    refusal(&["cron", "check", "* * * * MONDAY"], &["position 9", "write MON"]);
}

#[test]
fn misuse_exits_2_and_says_what_was_expected() {
    refusal(&["cron", "next", "0 9 * * *", "--zone", "Europe/Berln"], &["did you mean Europe/Berlin"]);
    refusal(&["cron", "next", "0 9 * * *", "--zone", &"x".repeat(65_536)], &["expected an IANA name"]);
    refusal(
        &["cron", "next", "0 9 * * *", "--after", "soon"],
        &["--after: \"soon\" is no instant", "on the wall of the zone"],
    );
    refusal(&["cron", "next", "0 9 * * *", "--count", "0"], &["--count"]);
    refusal(&["cron", "next", "0 9 * * *", "--dialect", "spring"], &["expected unix, quartz"]);
    refusal(&["cron", "next"], &["EXPR"]);
    refusal(&["cron", "next", "--jsn", "0 9 * * *"], &["there is no option \"--jsn\""]);
    refusal(&["cron", "next", "0", "9", "*", "*", "*"], &["5 words", "put it in quotes"]);
    refusal(&["jobs"], &["jobs"]);
}

#[test]
fn a_huge_expression_is_answered_or_refused_in_few_words() {
    let valid = format!("{}5 * * * *", "5,".repeat(32_000));
    let output = punctual(&["cron", "check", &valid]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let nonsense = format!("0 9 * * {}", "z".repeat(65_000));
    let output = punctual(&["cron", "check", &nonsense]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).len() < 500, "{}", stderr(&output));
}

#[test]
fn an_instant_without_offset_is_on_the_wall_of_the_zone() {
    let question = ["cron", "next", "* * * * *", "--zone", "Asia/Tokyo", "--count", "1", "--json"];
    let times = answer(&[&question[..], &["--after", "2026-01-01T09:00:00"]].concat());
    assert_eq!(times, json!(["2026-01-01T00:01:00Z"]));
    // 02:15 is lost in the gap; what it shifts to its end still lies ahead.
    let question = ["cron", "next", "30 2 * * *", "--zone", "America/New_York", "--count", "1", "--json"];
    let times = answer(&[&question[..], &["--after", "2026-03-08T02:15"]].concat());
    assert_eq!(times, json!(["2026-03-08T07:00:00Z"]));
}

#[test]
fn gap_and_overlap_can_be_overridden() {
    let next = |after, policy: &[&str]| {
        let question =
            ["cron", "next", "30 1,2 * * *", "--zone", "America/New_York", "--count", "2", "--json"];
        answer(&[&question[..], &["--after", after], policy].concat())
    };
    let spring = "2026-03-08T06:30:00Z";
    assert_eq!(next(spring, &[]), json!(["2026-03-08T07:00:00Z", "2026-03-09T05:30:00Z"]));
    assert_eq!(next(spring, &["--gap", "skip"]), json!(["2026-03-09T05:30:00Z", "2026-03-09T06:30:00Z"]));
    let autumn = "2026-11-01T05:00:00Z";
    assert_eq!(next(autumn, &[]), json!(["2026-11-01T05:30:00Z", "2026-11-01T07:30:00Z"]));
    assert_eq!(next(autumn, &["--overlap", "last"]), json!(["2026-11-01T06:30:00Z", "2026-11-01T07:30:00Z"]));
    assert_eq!(next(autumn, &["--overlap", "both"]), json!(["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]));
}

#[test]
fn explain_says_it_in_words_and_warns() {
    let question = ["cron", "explain", "0 0 9 ? * 1", "--zone", "Europe/Berlin", "--json"];
    let explained = answer(&question);
    assert_eq!(explained["in_words"], "at 09:00 on Monday, Europe/Berlin time");
    assert_eq!(explained["kind"], "fixed");
    let changes = "a time that is jumped over fires when the gap ends, one that happens twice the first time";
    assert_eq!(explained["clock_changes"], changes);
    assert_eq!(explained["fire_times"].as_array().unwrap().len(), 5);
    assert_eq!(explained["warnings"], json!(["in the quartz dialect this text means: at 09:00 on Sunday"]));
    let output = punctual(&["cron", "explain", "*/15 9-17 * * 1-5"]);
    assert!(stdout(&output).contains("means       every 15 minutes from 09:00 to 17:59 on Monday to Friday"));
    assert!(stdout(&output).contains("zone data   20"), "{}", stdout(&output));
}

#[test]
fn check_answers_in_one_line_or_in_json() {
    let output = punctual(&["cron", "check", "5/10 * * * *"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), "ok: at minutes 5, 15, 25, 35, 45 and 55 of every hour, UTC time\n");
    assert!(stderr(&output).contains("crontab refuses it"), "{}", stderr(&output));
    let output = punctual(&["cron", "check", "0 25 * * *", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let expected = json!({
        "valid": false,
        "position": 3,
        "length": 2,
        "field": "hour",
        "reason": "25 is out of range: expected 0 to 23",
    });
    assert_eq!(json(&output), expected);
}

#[test]
fn a_spread_expression_without_a_seed_warns() {
    let output = punctual(&["cron", "next", "H * * * *", "--json"]);
    assert!(stderr(&output).contains("--seed"), "{}", stderr(&output));
    let output = punctual(&["cron", "check", "H * * * *", "--json"]);
    assert!(json(&output)["warnings"][0].as_str().unwrap().contains("--seed"));
    answer(&["cron", "next", "H * * * *", "--json", "--seed", "reports/nightly"]);
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["cron", "next", "* * * * * *", "--count", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut first = [0; 20];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("a line");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[test]
fn the_version_names_the_zone_data() {
    for arguments in [["version"], ["--version"]] {
        let output = punctual(&arguments);
        assert!(stdout(&output).contains("(zone data 20"), "{}", stdout(&output));
    }
}

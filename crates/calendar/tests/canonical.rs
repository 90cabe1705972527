//! The nineteen canonical cases of the daylight-saving policy: the crate must give them, and so must the oracle
//! that the brute-force tests measure it by.

mod oracle;

use punctual_calendar::{Cron, Dialect, Gap, Overlap, Rule, Timestamp, Zones};

use oracle::expression::Expression;
use oracle::fires::{Policies, fires};
use oracle::offsets::{survey, zone};

/// Asks for the fires strictly after `asked` until the last one named, ahead, back and by the oracle.
fn check(zone_name: &str, expression: &str, asked: &str, expected: &[&str]) {
    let asked: Timestamp = asked.parse().expect("an instant");
    let expected: Vec<Timestamp> = expected.iter().map(|fire| fire.parse().expect("an instant")).collect();
    let end = Timestamp::from_millis(expected.last().expect("at least one").as_millis() + 1);

    let cron = Cron::parse(expression, Dialect::Unix, "no seed").expect("a valid expression");
    let rule = Rule::cron(cron, Zones::bundled().get(zone_name).expect("a bundled zone"));
    let ahead = std::iter::successors(rule.next_after(asked), |fire| rule.next_after(*fire));
    assert_eq!(ahead.take(expected.len()).collect::<Vec<_>>(), expected, "by next_after");
    let back = std::iter::successors(rule.last_before(end), |fire| rule.last_before(*fire));
    let mut back: Vec<Timestamp> = back.take(expected.len()).collect();
    back.reverse();
    assert_eq!(back, expected, "by last_before");

    assert_eq!(by_the_oracle(zone_name, expression, asked, end), expected, "by the oracle");
}

fn by_the_oracle(zone_name: &str, expression: &str, asked: Timestamp, end: Timestamp) -> Vec<Timestamp> {
    let (from, to) = (asked.as_millis() / 1000 + 1, end.as_millis() / 1000 + 1);
    let policies = Policies { gap: Gap::Default, overlap: Overlap::Default };
    let expression = Expression::read(expression, Dialect::Unix);
    let stretches = survey(&zone(zone_name), from, to);
    let instants = fires(&expression, policies, &stretches, from, to);
    instants.into_iter().map(|second| Timestamp::from_millis(second * 1000)).collect()
}

#[test]
fn case_1_a_daily_time_in_the_gap_fires_when_the_gap_ends() {
    let fires = ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"];
    check("America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", &fires);
}

#[test]
fn case_2_two_times_lost_in_one_gap_fire_once() {
    let fires = ["2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z", "2026-03-09T06:30:00Z"];
    check("America/New_York", "0,30 2 * * *", "2026-03-07T12:00:00Z", &fires);
}

#[test]
fn case_3_an_interval_runs_on_through_the_gap_in_real_time() {
    let fires = ["2026-03-08T06:45:00Z", "2026-03-08T07:00:00Z", "2026-03-08T07:15:00Z"];
    check("America/New_York", "*/15 * * * *", "2026-03-08T06:30:00Z", &fires);
}

#[test]
fn case_4_an_interval_within_the_lost_hour_is_silent_that_day() {
    let fires =
        ["2026-03-09T06:00:00Z", "2026-03-09T06:15:00Z", "2026-03-09T06:30:00Z", "2026-03-09T06:45:00Z"];
    check("America/New_York", "*/15 2 * * *", "2026-03-07T12:00:00Z", &fires);
}

#[test]
fn case_5_a_lost_time_merges_with_the_fire_at_the_end_of_the_gap() {
    let fires = ["2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z", "2026-03-09T07:00:00Z"];
    check("America/New_York", "0 2,3 * * *", "2026-03-07T12:00:00Z", &fires);
}

#[test]
fn case_6_a_daily_time_in_the_overlap_fires_on_the_first_pass_only() {
    let fires = ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"];
    check("America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", &fires);
}

#[test]
fn case_7_asked_in_the_second_pass_the_next_fire_is_tomorrow() {
    check("America/New_York", "30 1 * * *", "2026-11-01T06:10:00Z", &["2026-11-02T06:30:00Z"]);
}

#[test]
fn case_8_an_interval_fires_in_both_passes_of_the_overlap() {
    let fires = [
        "2026-11-01T05:45:00Z",
        "2026-11-01T06:00:00Z",
        "2026-11-01T06:15:00Z",
        "2026-11-01T06:30:00Z",
        "2026-11-01T06:45:00Z",
    ];
    check("America/New_York", "*/15 * * * *", "2026-11-01T05:35:00Z", &fires);
}

#[test]
fn case_9_an_hourly_rule_fires_at_both_ones_of_the_overlap() {
    let fires = ["2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"];
    check("America/New_York", "0 * * * *", "2026-11-01T04:30:00Z", &fires);
}

#[test]
fn case_10_a_gap_of_half_an_hour_ends_at_half_past() {
    let fires = ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"];
    check("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00Z", &fires);
}

#[test]
fn case_11_an_overlap_of_half_an_hour_fires_on_the_first_pass_only() {
    let fires = ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"];
    check("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00:00Z", &fires);
}

#[test]
fn case_12_an_interval_fires_in_both_passes_of_half_an_hour() {
    let fires = [
        "2026-04-04T14:50:00Z",
        "2026-04-04T15:00:00Z",
        "2026-04-04T15:10:00Z",
        "2026-04-04T15:20:00Z",
        "2026-04-04T15:30:00Z",
    ];
    check("Australia/Lord_Howe", "*/10 * * * *", "2026-04-04T14:45:00Z", &fires);
}

#[test]
fn case_13_a_day_that_never_was_has_no_fire() {
    let fires = ["2011-12-29T19:00:00Z", "2011-12-30T19:00:00Z"];
    check("Pacific/Apia", "0 9 * * *", "2011-12-29T12:00:00Z", &fires);
}

#[test]
fn case_14_a_lost_midnight_fires_at_one() {
    let fires = ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"];
    check("America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00:00Z", &fires);
}

#[test]
fn case_15_a_quarter_past_a_lost_midnight_fires_at_one() {
    let fires = ["2024-04-25T22:00:00Z", "2024-04-26T21:15:00Z"];
    check("Africa/Cairo", "15 0 * * *", "2024-04-25T12:00:00Z", &fires);
}

#[test]
fn case_16_a_lost_midnight_belongs_to_the_day_it_begins() {
    let fires = ["2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"];
    check("Asia/Beirut", "0 0 * * *", "2026-03-28T12:00:00Z", &fires);
}

#[test]
fn case_17_daylight_saving_that_is_flagged_the_other_way_round_changes_nothing() {
    check("Europe/Dublin", "30 1 * * *", "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z"]);
    let fires = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    check("Europe/Dublin", "30 1 * * *", "2026-10-24T12:00:00Z", &fires);
}

#[test]
fn case_18_a_gap_of_two_hours_is_caught_up_too() {
    let fires = ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    check("Antarctica/Troll", "30 2 * * *", "2026-03-28T12:00:00Z", &fires);
}

#[test]
fn case_19_a_gap_over_midnight_moves_the_fire_to_the_next_day() {
    let fires = ["2018-05-04T15:00:00Z", "2018-05-05T14:45:00Z"];
    check("Asia/Pyongyang", "45 23 * * *", "2018-05-04T12:00:00Z", &fires);
}

#[test]
fn a_daily_nine_o_clock_in_toronto_is_one_in_the_afternoon_in_utc_before_the_clocks_go_back() {
    let fires = ["2024-10-31T13:00:00Z"];
    check("America/Toronto", "0 9 * * *", "2024-10-30T14:30:00Z", &fires);
}

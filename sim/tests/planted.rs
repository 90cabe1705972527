//! Planted bugs: each must be found within so many seeds, else the simulator would not find ours either.

use punctual_node::Planted;
use punctual_sim::planted::Bug;
use punctual_sim::setup::{Plant, SIX_HOURS, WorldSetup};
use punctual_sim::sweep::{Swept, sweep};

/// Runs worlds with a bug until one breaks the promise that the bug is about, or any promise where none is named; fails
/// itself if none of the first `within` does.
fn expect_found(bug: Bug, within: u64, by: Option<&str>) {
    let is_it = |seed: u64, rule: &str| seed < within && by.is_none_or(|by| rule == by);
    let has_it = |swept: &Swept| swept.failures.iter().any(|(seed, broken)| is_it(*seed, broken.rule));
    let is_enough = |_: u64, swept: &Swept| has_it(swept) || swept.worlds >= within;
    let swept = sweep(0, &|seed| bug.plant(WorldSetup::new(seed, SIX_HOURS / 2)), &is_enough);
    let others: Vec<_> = swept.failures.iter().take(5).collect();
    assert!(has_it(&swept), "{} was not found by {by:?} within {within} seeds: {others:?}", bug.name());
}

macro_rules! found {
    ($($name:ident: $bug:expr, within $seeds:literal $(, by $rule:literal)?;)+) => {
        $(
            #[test]
            fn $name() {
                let rules: &[&str] = &[$($rule)?];
                expect_found($bug, $seeds, rules.first().copied());
            }
        )+
    };
}

// The limits are those of the catalogue of mutants; where it names none, 200.
found! {
    a_clock_advanced_apart_from_its_runs: Bug::Seam(Plant::PlanInTwo), within 50;
    a_send_before_its_commit: Bug::Node(Planted::SendBeforeGate), within 50;
    a_gate_without_its_key: Bug::Seam(Plant::GateWithoutKey), within 500;
    at_most_once_sent_again_after_silence: Bug::Node(Planted::ResendAtMostOnce), within 50;
    expiry_judged_by_the_askers_clock: Bug::Seam(Plant::ExpiryByAskersClock), within 100;
    a_wheel_kept_on_loss_of_its_shard: Bug::Node(Planted::WheelKeptOnLoss), within 100;
    a_wheel_that_looks_back_one_slot: Bug::Node(Planted::LooksBackOneSlot), within 50;
    a_misfire_off_by_one: Bug::Node(Planted::MisfireOffByOne), within 500;
    a_late_result_that_overwrites: Bug::Seam(Plant::LateResultWins), within 200;
    an_unknown_commit_told_as_failure: Bug::Seam(Plant::UnknownToldAsFailure), within 50;
    numbers_reused_after_a_failover: Bug::Seam(Plant::NumbersReused), within 500;
    a_store_that_answers_before_it_writes: Bug::Seam(Plant::SettledEarly), within 50;
    a_report_acknowledged_early: Bug::Node(Planted::AcknowledgedEarly), within 50;
    no_second_look_after_the_gate: Bug::Node(Planted::NoSecondLook), within 200;
    a_mark_behind_the_sends: Bug::Node(Planted::MarkBehind), within 200;
    a_change_said_to_be_seen_unread: Bug::Node(Planted::ChangeSeenUnread), within 200;
    a_retry_that_does_not_ask_the_job: Bug::Node(Planted::RetryUnasked), within 200;
    a_clock_of_ones_own: Bug::Node(Planted::OwnClock), within 200;
    a_whole_closed_while_a_part_is_open: Bug::Seam(Plant::JoinedEarly), within 50;
    an_idle_executor_believed_at_once: Bug::Node(Planted::IdleBelieved), within 200;
    overrides_forgotten_by_nodes_that_did_not_send_the_run: Bug::Node(Planted::OverridesForgotten), within 200;
    hanging_calls_that_keep_the_fast_pool: Bug::Node(Planted::SlowCallsStay), within 200, by "I32";
    an_app_that_takes_every_place: Bug::Node(Planted::SharesIgnored), within 200, by "I32";
    parked_runs_called_back_job_by_job: Bug::Seam(Plant::CalledJobByJob), within 200, by "I31";
    exclusive_keys_that_are_given_to_every_run: Bug::Seam(Plant::KeysUnheld), within 50, by "E1";
    clocks_that_are_due_and_not_found: Bug::Seam(Plant::ClocksOverlooked), within 20, by "I23 clock";
    a_supposed_attempt_recorded_as_sent: Bug::Node(Planted::SupposedAsSent), within 20, by "H1";
    a_gate_recorded_as_a_send: Bug::Node(Planted::GateAsSent), within 200, by "H1";
    results_forgotten_with_their_shard: Bug::Node(Planted::ResultsForgotten), within 200, by "H2";
    an_executor_believed_about_runs_of_another_app: Bug::Node(Planted::ClaimsBelieved), within 20, by "X5";
    an_executor_asked_without_the_token_of_its_app: Bug::Node(Planted::AdoptedUnasked), within 200, by "X6";
    a_mark_written_after_the_send: Bug::Node(Planted::MarkAfterSend), within 50, by "L8";
    silence_that_counts_while_nobody_was_there: Bug::Node(Planted::NoRepeatGrace), within 50, by "X7";
    an_instant_coalesced_into_none: Bug::Node(Planted::CoalescedAlone), within 200, by "I33";
}

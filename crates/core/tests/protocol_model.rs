//! The lease protocol, searched to the end: 3 nodes, 1 shard, 3 fire times, and any two disturbances at any moment.
//!
//! `docs/protocol/leases.md` says the protocol in words. Nothing here uses the product: the model is what the
//! product is held against. `cargo test -p punctual-core --test protocol_model -- --nocapture` prints the sizes
//! of the searches and, for each planted bug, the shortest way to harm.

mod protocol;

use std::cell::Cell;

use protocol::rules::{Delivery, Model, Mutation, Sight};
use protocol::search::{Found, explore};

/// Two disturbances, at any moments: faults, pauses, and a change of the job.
fn model(delivery: Delivery) -> Model {
    Model {
        delivery,
        faults: 2,
        changes: 1,
        epochs: 3,
        has_leaps: false,
        checks_tokens: true,
        mutation: None,
        sights: Cell::new(0),
    }
}

#[test]
fn at_most_once_holds() {
    use Sight::*;
    let sights = [
        RenewalRefused,
        PlanLostRace,
        PlannedAgain,
        GateRefused,
        OwnGateFound,
        GateTooLate,
        StaleGateCommitted,
        UnwantedAfterGate,
        TakenOverGated,
        LateReport,
        SkippedUnwanted,
        MissedRecorded,
        LostThoughSent,
    ];
    holds("at most once", &Model { faults: 3, changes: 2, ..model(Delivery::AtMostOnce) }, &sights);
}

#[test]
fn at_least_once_holds() {
    use Sight::*;
    let sights = [
        RenewalRefused,
        RenewalLearnedLate,
        PlanLostRace,
        PlannedAgain,
        SentTwice,
        SecondAccepted,
        RefusedByToken,
        SkippedUnwanted,
        MissedRecorded,
        LostThoughSent,
    ];
    holds("at least once", &model(Delivery::AtLeastOnce), &sights);
}

#[test]
fn at_least_once_with_a_gate_holds() {
    use Sight::*;
    let sights =
        [GateRefused, OwnGateFound, StaleGateCommitted, TakenOverGated, SecondAccepted, RefusedByToken];
    holds("at least once, gated", &model(Delivery::AtLeastOnceGated), &sights);
}

/// The lease is for speed and the keys are for safety: what must survive a store whose clock leaps ahead, so that two
/// nodes believe at the same time.
#[test]
fn a_leaping_clock_breaks_only_what_is_said_to_need_the_clock() {
    for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce, Delivery::AtLeastOnceGated] {
        let name = format!("{delivery:?}, leaping clock");
        let leaping = Model { has_leaps: true, changes: 0, epochs: epochs(delivery), ..model(delivery) };
        holds(&name, &leaping, &[Sight::LoadRefused]);
    }
}

/// An HTTP agent may know nothing of tokens.
#[test]
fn a_receiver_that_ignores_tokens_still_finds_the_newer_send_marked() {
    for delivery in [Delivery::AtLeastOnce, Delivery::AtLeastOnceGated] {
        let name = format!("{delivery:?}, tokens ignored");
        let blind = Model { checks_tokens: false, changes: 0, epochs: epochs(delivery), ..model(delivery) };
        holds(&name, &blind, &[Sight::SecondAccepted]);
    }
}

#[test]
fn planted_bugs_of_the_lease_are_found() {
    check(Mutation::RenewalMatchesShardOnly, Delivery::AtLeastOnce, "no two nodes believe");
    check(Mutation::FailedRenewalKeepsBelief, Delivery::AtLeastOnce, "no two nodes believe");
    check(Mutation::DeadlineFromAnswer, Delivery::AtLeastOnce, "no two nodes believe");
    check(Mutation::ExpiryByOwnClock, Delivery::AtLeastOnce, "no two nodes believe");
    check(Mutation::WheelKeptOnLoss, Delivery::AtLeastOnce, "a second receipt is marked");
}

/// With honest clocks the deadline alone keeps an old holder from loading; this one needs the leap to show itself.
#[test]
fn a_load_that_does_not_check_the_epoch_is_found() {
    let leaping = Model { has_leaps: true, ..model(Delivery::AtLeastOnce) };
    check_in(&leaping, Mutation::LoadWithoutEpoch, "a second receipt is marked");
}

#[test]
fn planted_bugs_of_planning_are_found() {
    check(Mutation::ClockAndRunApart, Delivery::AtLeastOnce, "the clock passes no fire time");
    check(Mutation::PlanOverwrites, Delivery::AtMostOnce, "a fire time is decided once");
    check(Mutation::EditForgetsMissed, Delivery::AtLeastOnce, "the clock passes no fire time");
}

#[test]
fn planted_bugs_of_the_gate_are_found() {
    check(Mutation::SendBeforeGate, Delivery::AtMostOnce, "sent at most once");
    check(Mutation::GateWithoutKey, Delivery::AtMostOnce, "no gate is committed");
    check(Mutation::UnknownGateNotApplied, Delivery::AtMostOnce, "gated at most once");
    check(Mutation::TimeoutIsFailure, Delivery::AtMostOnce, "sent at most once");
    check(Mutation::AdoptionResends, Delivery::AtMostOnce, "sent at most once");
    check(Mutation::SkipWithoutKey, Delivery::AtMostOnce, "no gate is committed for a closed run");
    check(Mutation::GateDroppedAtClose, Delivery::AtMostOnce, "no gate is committed for a closed run");
}

#[test]
fn planted_bugs_of_the_mark_and_the_token_are_found() {
    check(Mutation::MarkTrails, Delivery::AtLeastOnce, "a second receipt is marked");
    check(Mutation::TokenIgnored, Delivery::AtLeastOnce, "a second receipt is marked");
    check(Mutation::DoubtfulIsSkipped, Delivery::AtLeastOnce, "skipped was never sent");
}

#[test]
fn planted_bugs_of_reports_are_found() {
    check(Mutation::LateReportOverwrites, Delivery::AtMostOnce, "a settled run never changes");
    check(Mutation::AcknowledgedBeforeStored, Delivery::AtMostOnce, "acknowledged only once stored");
}

#[test]
fn planted_bugs_of_changes_are_found() {
    check(Mutation::NoSecondLook, Delivery::AtMostOnce, "after a change is answered");
    check(Mutation::RetryAsksNobody, Delivery::AtLeastOnce, "after a change is answered");
    check(Mutation::AnsweredOnRenewalCommit, Delivery::AtMostOnce, "after a change is answered");
}

/// Without a gate a third holder makes the search eight times as large. That, and a change of the job beside the
/// leaps and the ignored tokens, was searched once by hand, and held.
fn epochs(delivery: Delivery) -> u8 {
    if delivery == Delivery::AtLeastOnce { 2 } else { 3 }
}

fn holds(name: &str, model: &Model, sights: &[Sight]) {
    let found = explore(model);
    tell(name, &found);
    assert!(found.violation.is_none(), "{name} is broken, see above");
    let unseen: Vec<_> = sights.iter().filter(|sight| !model.has_seen(**sight)).collect();
    assert!(unseen.is_empty(), "{name}: the search never came across {unseen:?}");
}

/// The planted bug breaks an invariant whose words contain `broken`.
fn check(mutation: Mutation, delivery: Delivery, broken: &str) {
    check_in(&model(delivery), mutation, broken);
}

fn check_in(base: &Model, mutation: Mutation, broken: &str) {
    // The least disturbance that shows it makes the clearest story.
    let disturbed =
        |faults| explore(&Model { faults, mutation: Some(mutation), sights: Cell::new(0), ..*base });
    let found = (0..=2).map(disturbed).find(|found| found.violation.is_some());
    let found = found.unwrap_or_else(|| panic!("{mutation:?} was not found"));
    tell(&format!("{mutation:?} in {:?}", base.delivery), &found);
    let violation = found.violation.expect("it was looked for");
    assert!(violation.broken.contains(broken), "{mutation:?} was found as: {}", violation.broken);
}

#[expect(clippy::print_stderr, reason = "the size of a search is what one wants to know about it")]
fn tell(name: &str, found: &Found) {
    eprintln!("{name}: {} states, {} steps, {} deep", found.states, found.steps, found.depth);
    if let Some(violation) = &found.violation {
        eprintln!("{}", violation.story());
    }
}

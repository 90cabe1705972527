//! Gates: who has the key (run, attempt), and the places that a send needs.

use std::collections::BTreeSet;

use punctual_core::model::{Hold, LogId, Outcome, RunId, Text, Then};
use punctual_node::ports::{Gate, Gated, Keep, SentRow, Settled, Unpark};

use super::subject::{A, JOB, Subject, close, gate, park, second, sent, token, unsent, wait};

pub(super) async fn a_gate_asked_again_with_its_token_gives_the_same_number(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    let first = t.gated(run, 1, 5).await;
    assert!(matches!(first, Gated::Through(LogId(1..))), "{first:?}");
    assert_eq!(t.gated(run, 1, 5).await, first);
    t.reopen().await;
    assert_eq!(t.gated(run, 1, 5).await, first);
    assert_eq!(t.view(run).await.attempts.len(), 1);
}

pub(super) async fn of_two_tokens_for_one_key_the_first_has_it(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    assert!(matches!(t.gated(run, 1, 5).await, Gated::Through(_)));
    assert_eq!(t.gated(run, 1, 6).await, Gated::Taken(Some(token(1, 5))));
    assert_eq!(t.gated(run, 1, 4).await, Gated::Taken(Some(token(1, 5))));
}

pub(super) async fn the_epoch_of_a_gate_is_not_asked_because_the_key_is_the_fence(t: &mut Subject) {
    t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    assert!(matches!(t.gated(run, 1, 99).await, Gated::Through(_)));
}

pub(super) async fn every_gate_has_a_number_of_its_own_that_outlives_the_process(t: &mut Subject) {
    let mut logs = BTreeSet::new();
    for number in 1..=6 {
        let run = t.accepted(JOB, second(number)).await;
        let Gated::Through(log) = t.gated(run, 1, 5).await else { panic!("it is through") };
        assert!(logs.insert(log) && logs.last() == Some(&log), "{log} after {logs:?}");
        if number == 3 {
            t.reopen().await;
        }
    }
}

pub(super) async fn no_gate_is_written_for_a_closed_run(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    t.closed(run, Outcome::Succeeded).await;
    assert_eq!(t.gated(run, 1, 5).await, Gated::Closed);
    assert_eq!(t.gated(run, 2, 5).await, Gated::Closed);
    assert_eq!(t.gated(RunId(1), 1, 5).await, Gated::Closed, "nor for one that is not there");
}

pub(super) async fn a_gate_that_comes_after_a_skip_finds_the_key_taken(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    let skip = unsent(run, 1, Then::Close(close(Outcome::Skipped, second(2))));
    assert_eq!(t.settle(skip).await, Settled::Done { consecutive_failures: 0, is_over: false, joined: None });
    t.reopen().await;
    assert_eq!(t.gated(run, 1, 5).await, Gated::Taken(None));
    assert_eq!(t.view(run).await.attempts, []);
}

pub(super) async fn a_gate_asked_again_after_the_close_of_its_run_is_closed(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    t.gated(run, 1, 5).await;
    t.closed(run, Outcome::Lost).await;
    assert_eq!(t.gated(run, 1, 5).await, Gated::Closed, "or it would be sent again");
    assert_eq!(t.gated(run, 1, 6).await, Gated::Taken(Some(token(1, 5))), "the row outlives the close");
}

pub(super) async fn no_gate_is_written_below_a_later_attempt(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    t.settle(sent(run, 1, wait(5, 2))).await;
    assert_eq!(t.gated(run, 1, 5).await, Gated::Closed, "the second is waiting");
    assert!(matches!(t.gated(run, 2, 5).await, Gated::Through(_)));
    assert_eq!(t.gated(run, 1, 5).await, Gated::Closed, "the second is on its way");
    t.settle(sent(run, 2, wait(6, 3))).await;
    assert_eq!(t.gated(run, 2, 5).await, Gated::Closed, "it has ended");
}

pub(super) async fn what_is_put_off_keeps_its_key_and_ends_its_wait_with_the_gate(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    t.settle(unsent(run, 1, wait(9, 1))).await;
    t.settle(unsent(run, 1, wait(10, 1))).await;
    assert!(matches!(t.gated(run, 1, 5).await, Gated::Through(_)));
    assert_eq!(t.loaded(&leases).await, []);
    assert_eq!(t.adopted(&leases).await.sends[0].retry, None);
    assert_eq!(t.view(run).await.ready_at, None);
}

pub(super) async fn gates_of_a_batch_stand_alone_and_are_answered_in_order(t: &mut Subject) {
    let runs = [
        t.accepted(JOB, second(1)).await,
        t.accepted(JOB, second(2)).await,
        t.accepted(JOB, second(3)).await,
    ];
    t.closed(runs[1], Outcome::Succeeded).await;
    let batch = [
        gate(runs[0], 1, 5),
        gate(runs[1], 1, 5),
        gate(runs[2], 1, 5),
        gate(runs[0], 1, 6),
        gate(runs[2], 1, 5),
    ];
    let said = t.store().gate(batch.to_vec()).await.unwrap();
    assert!(matches!(said[0], Gated::Through(_)), "{said:?}");
    assert_eq!(said[1], Gated::Closed);
    assert_eq!(said[3], Gated::Taken(Some(token(1, 5))));
    assert_eq!(said[2], said[4]);
    assert_ne!(said[0], said[2]);
}

pub(super) async fn a_resource_has_so_many_places_and_no_more(t: &mut Subject) {
    let mut runs = Vec::new();
    for number in 1..=4 {
        runs.push(t.accepted(JOB, second(number)).await);
    }
    let hold = |run| holding(run, 1, &[("lane", 2)]);
    assert!(matches!(t.gate(hold(runs[0])).await, Gated::Through(_)));
    assert!(matches!(t.gate(hold(runs[1])).await, Gated::Through(_)));
    assert_eq!(t.gate(hold(runs[2])).await, Gated::Held("lane".into()));
    assert_eq!(t.view(runs[2]).await.attempts, [], "and no gate is left behind");
    t.reopen().await;
    assert_eq!(t.gate(hold(runs[2])).await, Gated::Held("lane".into()));
    assert!(matches!(t.gate(hold(runs[0])).await, Gated::Through(_)), "what is through is through");
    t.closed(runs[0], Outcome::Failed).await;
    assert!(matches!(t.gate(hold(runs[2])).await, Gated::Through(_)));
    assert_eq!(t.gate(hold(runs[3])).await, Gated::Held("lane".into()));
}

pub(super) async fn places_are_taken_all_or_none(t: &mut Subject) {
    let mut runs = Vec::new();
    for number in 1..=3 {
        runs.push(t.accepted(JOB, second(number)).await);
    }
    t.gate(holding(runs[0], 1, &[("key 定时", 1)])).await;
    let both = holding(runs[1], 1, &[("a lane", 1), ("key 定时", 1)]);
    assert_eq!(t.gate(both.clone()).await, Gated::Held("key 定时".into()));
    assert!(matches!(t.gate(holding(runs[2], 1, &[("a lane", 1)])).await, Gated::Through(_)), "it is free");
    t.closed(runs[0], Outcome::Succeeded).await;
    assert_eq!(t.gate(both.clone()).await, Gated::Held("a lane".into()));
    t.closed(runs[2], Outcome::Succeeded).await;
    assert!(matches!(t.gate(both).await, Gated::Through(_)));
}

pub(super) async fn a_resource_that_takes_turns_goes_to_the_run_that_asked_first(t: &mut Subject) {
    let mut runs = Vec::new();
    for number in 1..=4 {
        runs.push(t.accepted(JOB, second(number)).await);
    }
    let ask = |run| in_turn(run, 1, &["key a"]);
    let behind = |run| Gated::Behind("key a".into(), run);
    assert!(matches!(t.gate(ask(runs[0])).await, Gated::Through(_)));
    assert_eq!(t.gate(ask(runs[3])).await, behind(runs[0]));
    assert_eq!(t.gate(ask(runs[1])).await, behind(runs[3]), "it asked earlier");
    t.reopen().await;
    assert_eq!(t.gate(ask(runs[1])).await, behind(runs[3]), "asking again changes nothing");
    t.closed(runs[0], Outcome::Succeeded).await;
    assert_eq!(t.gate(ask(runs[1])).await, behind(runs[3]), "the key is free, and it is another's turn");
    assert_eq!(t.gate(ask(runs[2])).await, behind(runs[3]));
    assert!(matches!(t.gate(ask(runs[3])).await, Gated::Through(_)));
    assert_eq!(t.gate(ask(runs[2])).await, behind(runs[1]));
    t.closed(runs[3], Outcome::Succeeded).await;
    assert!(matches!(t.gate(ask(runs[1])).await, Gated::Through(_)));
    t.closed(runs[1], Outcome::Cancelled).await;
    assert!(matches!(t.gate(ask(runs[2])).await, Gated::Through(_)));
}

pub(super) async fn a_run_that_needs_several_resources_is_not_overtaken_at_any(t: &mut Subject) {
    let mut runs = Vec::new();
    for number in 1..=4 {
        runs.push(t.accepted(JOB, second(number)).await);
    }
    let [one, both, other, last] = [0, 1, 2, 3].map(|index| runs[index]);
    t.gate(in_turn(one, 1, &["key a"])).await;
    assert_eq!(t.gate(in_turn(both, 1, &["key a", "key b"])).await, Gated::Behind("key a".into(), one));
    assert_eq!(t.gate(in_turn(other, 1, &["key b"])).await, Gated::Behind("key b".into(), both));
    assert_eq!(t.gate(in_turn(last, 1, &["key b", "key a"])).await, Gated::Behind("key b".into(), both));
    t.closed(one, Outcome::Succeeded).await;
    assert!(matches!(t.gate(in_turn(both, 1, &["key a", "key b"])).await, Gated::Through(_)));
    // Between two attempts it keeps both.
    t.settle(sent(both, 1, wait(5, 2))).await;
    assert_eq!(t.gate(in_turn(other, 1, &["key b"])).await, Gated::Behind("key b".into(), both));
    t.settle(sent(both, 2, Then::Close(close(Outcome::Failed, second(6))))).await;
    assert_eq!(t.gate(in_turn(last, 1, &["key b", "key a"])).await, Gated::Behind("key b".into(), other));
    assert!(matches!(t.gate(in_turn(other, 1, &["key b"])).await, Gated::Through(_)));
    t.closed(other, Outcome::Succeeded).await;
    assert!(matches!(t.gate(in_turn(last, 1, &["key b", "key a"])).await, Gated::Through(_)));
}

pub(super) async fn a_run_that_is_put_off_before_its_first_send_gives_up_its_turn(t: &mut Subject) {
    let mut runs = Vec::new();
    for number in 1..=3 {
        runs.push(t.accepted(JOB, second(number)).await);
    }
    let ask = |run| in_turn(run, 1, &["key a"]);
    t.gate(ask(runs[0])).await;
    t.gate(ask(runs[1])).await;
    t.gate(ask(runs[2])).await;
    t.settle(unsent(runs[1], 1, wait(5_000, 1))).await;
    t.closed(runs[0], Outcome::Succeeded).await;
    assert!(matches!(t.gate(ask(runs[2])).await, Gated::Through(_)));
    assert_eq!(t.gate(ask(runs[1])).await, Gated::Behind("key a".into(), runs[2]));
}

pub(super) async fn a_run_keeps_its_place_until_it_is_closed_and_needs_no_second(t: &mut Subject) {
    let (run, other) = (t.accepted(JOB, second(1)).await, t.accepted(JOB, second(2)).await);
    t.gate(holding(run, 1, &[("lane", 1)])).await;
    t.settle(sent(run, 1, wait(5, 2))).await;
    assert_eq!(t.gate(holding(other, 1, &[("lane", 1)])).await, Gated::Held("lane".into()));
    assert!(matches!(t.gate(holding(run, 2, &[("lane", 1)])).await, Gated::Through(_)));
    t.settle(sent(run, 2, Then::Close(close(Outcome::Failed, second(6))))).await;
    assert!(matches!(t.gate(holding(other, 1, &[("lane", 1)])).await, Gated::Through(_)));
}

pub(super) async fn a_run_that_is_parked_gives_its_place_back_and_asks_again(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let (run, other) = (t.accepted(job, second(1)).await, t.accepted(job, second(2)).await);
    let hold = |run, attempt| holding(run, attempt, &[("lane", 1)]);
    t.gate(hold(run, 1)).await;
    t.settle(sent(run, 1, park(2, 1))).await;
    assert!(matches!(t.gate(hold(other, 1)).await, Gated::Through(_)));
    t.reopen().await;
    t.store().unpark(&Unpark::of(leases[0], job, 9, second(5))).await.unwrap();
    assert_eq!(t.gate(hold(run, 2)).await, Gated::Held("lane".into()));
    t.closed(other, Outcome::Succeeded).await;
    assert!(matches!(t.gate(hold(run, 2)).await, Gated::Through(_)));
}

pub(super) async fn a_resource_without_places_holds_everybody_back(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    assert_eq!(t.gate(holding(run, 1, &[("closed", 0)])).await, Gated::Held("closed".into()));
}

pub(super) async fn a_gate_is_found_by_its_number_until_its_day_is_dropped(t: &mut Subject) {
    let mut expected = Vec::new();
    // On three days, and not in the order of time.
    for seconds in [86_400, 1, 172_800, 2, 86_401] {
        let run = t.accepted(JOB, second(seconds)).await;
        expected.push(t.sent_row(run, 1).await);
        t.settle(sent(run, 1, wait(1, 2))).await;
        expected.push(t.sent_row(run, 2).await);
    }
    let logs: Vec<LogId> = expected.iter().map(|row| row.log).collect();
    assert_eq!(t.sent(&logs).await, expected);
    t.reopen().await;
    for row in &expected {
        assert_eq!(t.sent(&[row.log]).await, std::slice::from_ref(row));
    }
    for row in expected.iter().filter(|row| row.attempt.0 == 2) {
        t.settle(sent(row.run, 2, Then::Close(close(Outcome::Failed, second(9))))).await;
    }
    t.reopen().await;
    assert_eq!(t.sent(&logs).await, expected, "also when all are closed");
    let unknown = [LogId(0), LogId(logs[logs.len() - 1].0 + 1), LogId(u64::MAX)];
    assert_eq!(t.sent(&unknown).await, []);
    assert_eq!(t.sent(&[]).await, []);
    t.store().prune(&Keep::since(RunId::day_start(expected[0].run.day()))).await.unwrap();
    let day = expected[2].run.day();
    expected.retain(|row| row.run.day() != day);
    assert_eq!(t.sent(&logs).await, expected);
    t.prune_everything().await;
    assert_eq!(t.sent(&logs).await, []);
}

pub(super) async fn the_gates_of_a_run_are_listed_by_attempt(t: &mut Subject) {
    let (run, other) = (t.accepted(JOB, second(1)).await, t.accepted(JOB, second(2)).await);
    assert_eq!(t.store().sends(run).await.unwrap(), []);
    let mut expected = vec![t.sent_row(run, 1).await];
    t.sent_row(other, 1).await;
    t.settle(sent(run, 1, wait(5, 2))).await;
    expected.push(t.sent_row(run, 2).await);
    assert_eq!(t.store().sends(run).await.unwrap(), expected);
    t.settle(sent(run, 2, Then::Close(close(Outcome::Succeeded, second(9))))).await;
    t.reopen().await;
    assert_eq!(t.store().sends(run).await.unwrap(), expected, "also when it is closed");
    assert_eq!(t.store().sends(RunId(1)).await.unwrap(), []);
    t.settle(unsent(other, 2, Then::Close(close(Outcome::Skipped, second(9))))).await;
    assert_eq!(t.store().sends(other).await.unwrap().len(), 1, "a key that was taken as unsent is no gate");
}

impl Subject {
    /// Gates a run, and says how that is found.
    async fn sent_row(&self, run: RunId, attempt: u32) -> SentRow {
        let Gate { job, attempt, token, executor, sent_at, .. } = gate(run, attempt, 5);
        let Gated::Through(log) = self.gated(run, attempt.0, 5).await else { panic!("it is through") };
        SentRow { log, run, job, attempt, token, sent_at, executor }
    }

    /// Whose numbers these are, in the order of the numbers.
    async fn sent(&self, logs: &[LogId]) -> Vec<SentRow> {
        let mut rows = self.store().sent(logs).await.unwrap();
        rows.sort_by_key(|row| row.log);
        rows
    }
}

fn in_turn(run: RunId, attempt: u32, resources: &[&'static str]) -> Gate {
    let hold = |resource: &&'static str| Hold { resource: (*resource).into(), slots: 1, takes_turns: true };
    Gate { holds: resources.iter().map(hold).collect(), ..gate(run, attempt, 5) }
}

fn holding(run: RunId, attempt: u32, holds: &[(&'static str, u32)]) -> Gate {
    let hold = |(resource, slots): &(&'static str, u32)| Hold {
        resource: Text::Borrowed(resource),
        slots: *slots,
        takes_turns: false,
    };
    Gate { holds: holds.iter().map(hold).collect(), ..gate(run, attempt, 5) }
}

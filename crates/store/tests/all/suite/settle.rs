//! Settling: the end of an attempt or of a run, with all that follows.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Close, Definition, Fence, JobId, JobState, NewRun, Origin,
    Outcome, RunId, RunState, Schedule, ScheduleKind, Settlement, ShardId, StoppedReason, Then,
};
use punctual_node::ports::{ArrivalKind, AttemptRow, Change, Gated, Lease, Plan, Renewal, Settled};

use super::subject::{
    A, JOB, SHARD, Subject, absurd_instants, close, definition, odd_texts, park, record, second, sent, token,
    unsent, wait,
};

const DONE: Settled = Settled::Done { consecutive_failures: 0, is_over: false, joined: None };

pub(super) async fn the_first_end_stands_and_nothing_settled_moves_again(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    assert_eq!(t.closed(run, Outcome::Succeeded).await, DONE);
    let before = t.view(run).await;
    t.pass(Duration::from_secs(1));
    assert_eq!(t.closed(run, Outcome::Succeeded).await, Settled::Stale);
    assert_eq!(t.closed(run, Outcome::Failed).await, Settled::Stale);
    assert_eq!(
        t.settle(unsent(run, 1, Then::Close(close(Outcome::Skipped, second(9))))).await,
        Settled::Stale
    );
    assert_eq!(t.settle(unsent(run, 2, wait(9, 2))).await, Settled::Stale);
    assert_eq!(t.settle(sent(run, 2, wait(9, 3))).await, Settled::Stale);
    assert_eq!(t.view(run).await, before);
    assert_eq!(t.store().counts(Some(JOB)).await.unwrap().succeeded, 1);
    t.reopen().await;
    assert_eq!(t.view(run).await, before);
    assert_eq!(t.closed(run, Outcome::Failed).await, Settled::Stale);
}

pub(super) async fn the_end_of_a_run_that_is_not_there_is_stale(t: &mut Subject) {
    assert_eq!(t.closed(RunId(1), Outcome::Succeeded).await, Settled::Stale);
    assert_eq!(t.settle(unsent(RunId::new(3, 7), 1, wait(9, 1))).await, Settled::Stale);
}

pub(super) async fn what_a_gate_has_cannot_be_settled_as_unsent(t: &mut Subject) {
    let job = t.job("job", None).await;
    let run = t.accepted(job, second(1)).await;
    t.gated(run, 1, 5).await;
    for then in [Then::Close(close(Outcome::Skipped, second(2))), wait(9, 1), park(1, 1)] {
        assert_eq!(t.settle(unsent(run, 1, then)).await, Settled::Stale);
    }
    assert_eq!(t.view(run).await.state, RunState::Running);
}

pub(super) async fn what_is_put_off_can_still_be_skipped(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    assert_eq!(t.settle(unsent(run, 1, wait(9, 1))).await, DONE);
    assert_eq!(t.settle(unsent(run, 1, wait(9, 1))).await, DONE, "asked again it changes nothing more");
    assert_eq!(t.settle(unsent(run, 1, Then::Close(close(Outcome::Skipped, second(2))))).await, DONE);
    assert_eq!(t.loaded(&leases).await, []);
    assert_eq!((t.view(run).await.state, t.view(run).await.ready_at), (RunState::Skipped, None));
}

// Without this an old holder could skip the first attempt while the second of a later holder is on its way.
pub(super) async fn what_is_below_a_later_attempt_cannot_be_settled_as_unsent(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    t.settle(sent(run, 1, wait(9, 2))).await;
    let skip = unsent(run, 1, Then::Close(close(Outcome::Skipped, second(2))));
    assert_eq!(t.settle(skip.clone()).await, Settled::Stale, "the second is waiting");
    assert_eq!(t.settle(unsent(run, 1, wait(9, 1))).await, Settled::Stale);
    t.gated(run, 2, 5).await;
    assert_eq!(t.settle(skip).await, Settled::Stale, "the second is on its way");
    assert_eq!(t.view(run).await.state, RunState::Running);
}

pub(super) async fn a_report_of_an_attempt_is_stale_once_a_later_one_was_begun_or_waits(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    t.gated(run, 1, 5).await;
    assert_eq!(t.settle(sent(run, 1, wait(9, 2))).await, DONE);
    assert_eq!(t.settle(sent(run, 1, wait(9, 2))).await, Settled::Stale, "asked again");
    assert_eq!(t.closed(run, Outcome::Succeeded).await, Settled::Stale, "the second is waiting");
    t.gated(run, 2, 5).await;
    assert_eq!(t.closed(run, Outcome::Succeeded).await, Settled::Stale, "the second is on its way");
    let end = sent(run, 2, Then::Close(close(Outcome::Succeeded, second(9))));
    assert_eq!(t.settle(end).await, DONE);
}

pub(super) async fn a_report_of_a_run_that_no_gate_has_is_taken_from_anybody(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    assert_eq!(t.closed(run, Outcome::Succeeded).await, DONE);
    let run = t.accepted(JOB, second(1)).await;
    t.settle(unsent(run, 1, wait(9, 1))).await;
    assert_eq!(t.closed(run, Outcome::Succeeded).await, DONE, "put off by one, sent by another");
}

pub(super) async fn a_report_with_another_token_than_the_gate_is_stale(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    t.gated(run, 1, 5).await;
    let before = t.view(run).await;
    for then in [Then::Close(close(Outcome::Succeeded, second(9))), wait(9, 2)] {
        for epoch in [4, 6] {
            let fence = Fence::Sent(Attempt(1), token(1, epoch));
            let forged = Settlement { fence, ..sent(run, 1, then.clone()) };
            assert_eq!(t.settle(forged).await, Settled::Stale, "epoch {epoch}");
        }
    }
    assert_eq!(t.view(run).await, before);
    t.reopen().await;
    let other = Settlement {
        fence: Fence::Sent(Attempt(1), token(1, 6)),
        ..sent(run, 1, Then::Close(close(Outcome::Failed, second(9))))
    };
    assert_eq!(t.settle(other).await, Settled::Stale, "also when the gate was read again");
    assert_eq!(t.closed(run, Outcome::Succeeded).await, DONE);
}

// The end of an attempt that nobody has made would close the run beside the attempt that somebody makes.
pub(super) async fn a_report_of_an_attempt_that_the_run_does_not_wait_for_yet_is_stale(t: &mut Subject) {
    let end = |run, attempt| sent(run, attempt, Then::Close(close(Outcome::Succeeded, second(9))));
    let run = t.accepted(JOB, second(1)).await;
    assert_eq!(t.settle(end(run, 2)).await, Settled::Stale, "the first was not sent yet");
    t.gated(run, 1, 5).await;
    assert_eq!(t.settle(end(run, 2)).await, Settled::Stale, "the first is on its way");
    t.settle(sent(run, 1, wait(9, 2))).await;
    assert_eq!(t.settle(end(run, 3)).await, Settled::Stale, "the second is waiting");
    t.gated(run, 2, 5).await;
    assert_eq!(t.settle(end(run, 3)).await, Settled::Stale, "the second is on its way");
    assert_eq!(t.view(run).await.state, RunState::Running);
    assert_eq!(t.settle(end(run, 2)).await, DONE);
}

pub(super) async fn a_settlement_from_elsewhere_tells_the_holder(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = NewRun { shard: ShardId(2), ..t.run(JOB, second(1)).await };
    let id = run.id;
    t.accept(run).await;
    let shard = ShardId(2);
    let foreign = Settlement { is_foreign: true, shard, ..sent(id, 1, wait(9, 2)) };
    assert_eq!(t.settle(foreign.clone()).await, DONE);
    assert_eq!(t.settle(foreign).await, Settled::Stale);
    let arrivals = t.store().arrivals(&leases, 10).await.unwrap();
    assert_eq!(
        arrivals.iter().map(|left| (left.shard, left.kind)).collect::<Vec<_>>(),
        [(shard, ArrivalKind::Run(id))]
    );
}

pub(super) async fn attempts_are_kept_as_they_ended_and_the_open_one_comes_last(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    t.settle(sent(run, 1, wait(5, 2))).await;
    t.settle(sent(run, 2, wait(6, 3))).await;
    let Gated::Through(log) = t.gated(run, 3, 5).await else { panic!("it is through") };
    let ended = |number| AttemptRow::Ended(record(number, AttemptOutcome::Failed));
    let open = AttemptRow::Open {
        number: Attempt(3),
        token: token(3, 5),
        log,
        started_at: second(3),
        executor: "executor-5".into(),
    };
    assert_eq!(t.view(run).await.attempts, [ended(1), ended(2), open.clone()]);
    t.reopen().await;
    assert_eq!(t.view(run).await.attempts, [ended(1), ended(2), open]);
    t.settle(sent(run, 3, Then::Close(close(Outcome::Failed, second(9))))).await;
    assert_eq!(t.view(run).await.attempts, [ended(1), ended(2), ended(3)]);
}

pub(super) async fn every_outcome_is_kept(t: &mut Subject) {
    for outcome in Outcome::ALL {
        let run = t.accepted(JOB, second(1)).await;
        let closed_at = second(77);
        t.settle(sent(run, 1, Then::Close(close(*outcome, closed_at)))).await;
        let view = t.view(run).await;
        assert_eq!((view.state, view.closed_at), (RunState::from(*outcome), Some(closed_at)));
    }
}

pub(super) async fn every_outcome_of_an_attempt_is_kept(t: &mut Subject) {
    for outcome in AttemptOutcome::ALL {
        let run = t.accepted(JOB, second(1)).await;
        let ended =
            AttemptRecord { outcome: *outcome, possible_duplicate: true, ..record(Attempt::MAX.0, *outcome) };
        t.settle(unsent(run, 1, wait(5, Attempt::MAX.0))).await;
        let fence = Fence::Sent(Attempt::MAX, ended.token);
        let settlement = unsent(run, 1, Then::Close(close(Outcome::Failed, second(9))));
        t.settle(Settlement { fence, attempt: Some(ended.clone()), ..settlement }).await;
        assert_eq!(t.view(run).await.attempts, [AttemptRow::Ended(ended)]);
    }
}

pub(super) async fn odd_texts_and_instants_of_an_end_are_kept(t: &mut Subject) {
    for text in odd_texts() {
        let run = t.accepted(JOB, second(1)).await;
        let ended = AttemptRecord {
            message: text.clone().into(),
            executor: text.clone().into(),
            ..record(1, AttemptOutcome::Failed)
        };
        let end = Close { reason: text.clone().into(), ..close(Outcome::Failed, second(9)) };
        t.settle(Settlement { attempt: Some(ended.clone()), ..sent(run, 1, Then::Close(end)) }).await;
        let view = t.view(run).await;
        assert_eq!((view.reason.as_ref(), view.attempts), (text.as_str(), vec![AttemptRow::Ended(ended)]));
    }
    for at in absurd_instants() {
        let run = t.accepted(JOB, second(1)).await;
        let ended = AttemptRecord { started_at: at, ended_at: at, ..record(1, AttemptOutcome::Failed) };
        let end = Close { range: Some((at, 1 << 60)), ..close(Outcome::Failed, at) };
        t.settle(Settlement { attempt: Some(ended.clone()), ..sent(run, 1, Then::Close(end)) }).await;
        let view = t.view(run).await;
        assert_eq!((view.closed_at, view.range), (Some(at), Some((at, 1 << 60))));
        assert_eq!(view.attempts, [AttemptRow::Ended(ended)]);
    }
}

pub(super) async fn a_run_can_wait_for_any_instant(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    for ready_at in absurd_instants() {
        let then = Then::Wait { ready_at, attempt: Attempt::FIRST };
        assert_eq!(t.settle(unsent(run, 1, then)).await, DONE);
        assert_eq!(t.view(run).await.ready_at, Some(ready_at));
        assert_eq!(t.fetched(run).await.waiting.ready_at, ready_at);
    }
}

pub(super) async fn failures_in_a_row_are_counted_in_the_order_of_closing(t: &mut Subject) {
    let said = [
        (Outcome::Succeeded, 0),
        (Outcome::Failed, 1),
        (Outcome::Lost, 2),
        (Outcome::Skipped, 2),
        (Outcome::Cancelled, 2),
        (Outcome::Failed, 3),
        (Outcome::Succeeded, 0),
        (Outcome::Lost, 1),
    ];
    for (outcome, consecutive_failures) in said {
        let run = t.accepted(JOB, second(1)).await;
        assert_eq!(t.settle(sent(run, 1, wait(5, 2))).await, t.last(consecutive_failures, outcome).await);
        let end = sent(run, 2, Then::Close(close(outcome, second(9))));
        assert_eq!(t.settle(end).await, Settled::Done { consecutive_failures, is_over: false, joined: None });
        t.reopen().await;
    }
}

pub(super) async fn runs_of_another_job_do_not_count(t: &mut Subject) {
    let (job, other) = (t.job("job", None).await, t.job("other", None).await);
    for (job, consecutive_failures) in [(job, 1), (job, 2), (other, 1), (job, 3)] {
        let run = t.accepted(job, second(1)).await;
        let end = sent(run, 1, Then::Close(close(Outcome::Failed, second(9))));
        assert_eq!(
            t.settle(Settlement { job, ..end }).await,
            Settled::Done { consecutive_failures, is_over: false, joined: None }
        );
    }
}

pub(super) async fn children_are_written_with_the_end_and_left_for_their_holders(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    let children = vec![child(t, run, 2).await, child(t, run, 3).await];
    let ids = [children[0].id, children[1].id];
    let end = Then::Close(close(Outcome::Succeeded, second(9)));
    t.settle(Settlement { children, ..sent(run, 1, end) }).await;
    assert_eq!(t.loaded(&leases).await, ids);
    let view = t.view(ids[0]).await;
    assert_eq!((view.of, view.origin, view.shard), (Some(run), Origin::Parent, ShardId(2)));
    let arrivals = t.store().arrivals(&leases, 10).await.unwrap();
    let kinds: Vec<_> = arrivals.iter().map(|left| (left.shard, left.kind)).collect();
    assert_eq!(kinds, [(ShardId(2), ArrivalKind::Run(ids[0])), (ShardId(3), ArrivalKind::Run(ids[1]))]);
}

pub(super) async fn the_next_fire_time_of_a_delay_is_set_with_the_end(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (job, run, shard) = waiting_delay(t, &leases, "delay").await;
    let end = Then::Close(close(Outcome::Failed, second(70)));
    t.settle(Settlement { job, named: Some(second(60)), shard, ..sent(run, 1, end) }).await;
    let due = t.store().due(&leases, second(100), 10).await.unwrap();
    assert_eq!(due.iter().map(|row| (row.job, row.next_fire)).collect::<Vec<_>>(), [(job, second(100))]);
    assert_eq!(t.row(job).await.version, 1);
}

pub(super) async fn the_last_end_of_a_delay_stops_it(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (job, run, shard) = waiting_delay(t, &leases, "delay").await;
    let row = t.row(job).await;
    let schedule = Schedule { until: Some(second(99)), ..row.definition.schedule.clone() };
    let mut change = t.edit(job).await;
    change.definition = Some(Definition { schedule, ..row.definition });
    change.clock.next_fire = None;
    let seen = t.store().change(change).await.unwrap().change;
    let end = Then::Close(close(Outcome::Succeeded, second(70)));
    let settlement = Settlement { job, named: Some(second(60)), shard, ..sent(run, 1, end) };
    let over = Settled::Done { consecutive_failures: 0, is_over: true, joined: None };
    assert_eq!(t.settle(settlement.clone()).await, over);
    let row = t.row(job).await;
    let stopped = JobState::Stopped(StoppedReason::Finished);
    assert_eq!((row.state, row.next_fire, row.version), (stopped, None, 2));
    let told = t.store().renew(Renewal { seen, ..t.renewal(A) }).await.unwrap().changes;
    assert_eq!(told.iter().map(|(_, job)| *job).collect::<Vec<_>>(), [job], "every node hears of it");
    assert_eq!(t.settle(settlement).await, Settled::Stale);
}

pub(super) async fn the_delay_is_the_one_that_is_stored_whatever_the_writer_knew(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (job, run, shard) = waiting_delay(t, &leases, "delay").await;
    let kind = ScheduleKind::Delay { delay: Duration::from_secs(5) };
    let shorter = Definition { schedule: kind.into(), ..definition("delay") };
    let mut change = Change { definition: Some(shorter), ..t.edit(job).await };
    change.clock.next_fire = None;
    t.store().change(change).await.unwrap();
    let end = Then::Close(close(Outcome::Failed, second(70)));
    t.settle(Settlement { job, named: Some(second(60)), shard, ..sent(run, 1, end) }).await;
    assert_eq!(t.row(job).await.next_fire, Some(second(75)));
}

pub(super) async fn a_clock_that_was_stopped_or_set_or_waits_for_another_run_is_left_alone(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let end = || Then::Close(close(Outcome::Succeeded, second(70)));
    let (job, run, shard) = waiting_delay(t, &leases, "stopped").await;
    t.stop(job, JobState::Stopped(StoppedReason::Asked)).await;
    t.settle(Settlement { job, named: Some(second(60)), shard, ..sent(run, 1, end()) }).await;
    assert_eq!(t.row(job).await.next_fire, None, "stopped");
    let (job, run, shard) = waiting_delay(t, &leases, "set").await;
    let mut change = t.edit(job).await;
    change.clock.next_fire = Some(second(80));
    t.store().change(change).await.unwrap();
    t.settle(Settlement { job, named: Some(second(60)), shard, ..sent(run, 1, end()) }).await;
    assert_eq!(t.row(job).await.next_fire, Some(second(80)), "set already");
    let (job, run, shard) = waiting_delay(t, &leases, "another").await;
    t.settle(Settlement { job, named: Some(second(59)), shard, ..sent(run, 1, end()) }).await;
    assert_eq!(t.row(job).await.next_fire, None, "it waits for another run");
    let every = t.job("every", None).await;
    let run = t.accepted(every, second(1)).await;
    t.settle(Settlement { job: every, named: Some(second(1)), ..sent(run, 1, end()) }).await;
    assert_eq!(t.row(every).await.next_fire, None, "not a delay");
}

/// A fixed delay of 30 s whose clock waits for the run of second 60.
async fn waiting_delay(t: &Subject, leases: &[Lease], name: &str) -> (JobId, RunId, ShardId) {
    let kind = ScheduleKind::Delay { delay: Duration::from_secs(30) };
    let delay = Definition { schedule: kind.into(), ..definition(name) };
    let job = t.create(delay, JobState::Enabled, Some(second(60))).await.job;
    let plan = Plan { next: None, ..t.step(leases, job).await };
    let (run, shard) = (plan.runs[0].id, plan.clock.shard);
    t.plan(plan).await;
    (job, run, shard)
}

pub(super) async fn a_stale_settlement_leaves_nothing_behind(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("delay", None).await;
    let run = t.accepted(job, second(1)).await;
    t.gated(run, 1, 5).await;
    t.settle(sent(run, 1, wait(9, 2))).await;
    let before = t.view(run).await;
    let children = vec![child(t, run, 2).await];
    let settlement = Settlement {
        children,
        named: Some(second(1)),
        is_foreign: true,
        ..sent(run, 1, Then::Close(close(Outcome::Succeeded, second(9))))
    };
    assert_eq!(t.settle(settlement).await, Settled::Stale);
    assert_eq!(t.view(run).await, before);
    assert_eq!((t.loaded(&leases).await, t.row(job).await.next_fire), (vec![], None));
    assert_eq!(t.store().arrivals(&leases, 10).await.unwrap(), []);
    assert_eq!(t.store().counts(None).await.unwrap().succeeded, 0);
}

pub(super) async fn settlements_of_a_batch_stand_alone_and_the_first_wins(t: &mut Subject) {
    let (one, two) = (t.accepted(JOB, second(1)).await, t.accepted(JOB, second(2)).await);
    let end = |run, outcome| sent(run, 1, Then::Close(close(outcome, second(9))));
    let batch = vec![
        end(one, Outcome::Failed),
        end(one, Outcome::Succeeded),
        end(RunId(3), Outcome::Succeeded),
        end(two, Outcome::Failed),
    ];
    let done = |consecutive_failures| Settled::Done { consecutive_failures, is_over: false, joined: None };
    assert_eq!(t.store().settle(batch).await.unwrap(), [done(1), Settled::Stale, Settled::Stale, done(2)]);
    assert_eq!(t.view(one).await.state, RunState::Failed);
}

pub(super) async fn an_end_can_follow_in_the_batch_that_began_it(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    let batch = vec![
        sent(run, 1, wait(5, 2)),
        sent(run, 2, wait(6, 3)),
        unsent(run, 3, Then::Close(close(Outcome::Lost, second(9)))),
    ];
    let said = t.store().settle(batch).await.unwrap();
    assert_eq!(said, [DONE, DONE, Settled::Done { consecutive_failures: 1, is_over: false, joined: None }]);
    assert_eq!((t.loaded(&leases).await, t.view(run).await.attempts.len()), (vec![], 2));
}

pub(super) async fn a_child_can_end_in_the_batch_that_began_it(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    let child = child(t, run, 2).await;
    let id = child.id;
    let end = || Then::Close(close(Outcome::Failed, second(9)));
    let batch = vec![Settlement { children: vec![child], ..sent(run, 1, end()) }, unsent(id, 1, end())];
    let said = t.store().settle(batch).await.unwrap();
    let done = |consecutive_failures| Settled::Done { consecutive_failures, is_over: false, joined: None };
    assert_eq!(said, [done(1), done(2)]);
    assert_eq!((t.loaded(&leases).await, t.view(id).await.state), (vec![], RunState::Failed));
}

impl Subject {
    /// What an attempt that does not end its run is answered with before a run ends so and leaves so many failures.
    async fn last(&self, after: u32, outcome: Outcome) -> Settled {
        let is_failure = matches!(outcome, Outcome::Failed | Outcome::Lost);
        let before = self.store().counts(Some(JOB)).await.unwrap().consecutive_failures;
        assert!(!is_failure || before + 1 == after);
        Settled::Done { consecutive_failures: before, is_over: false, joined: None }
    }
}

async fn child(t: &Subject, of: RunId, shard: u16) -> NewRun {
    let due = Timestamp::from_millis(second(9).as_millis() + i64::from(shard));
    assert_ne!(ShardId(shard), SHARD);
    NewRun { origin: Origin::Parent, shard: ShardId(shard), of: Some(of), ..t.run(JOB, due).await }
}

//! Broadcast runs: the whole and its parts are written together, and the last part that ends tells of the whole.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Definition, Hold, JobState, Join, NewRun, Origin, Outcome, Part, RunId, RunState, Schedule, ScheduleKind,
    Settlement, Text, Then,
};
use punctual_node::ports::{Gate, Gated, Planned, RunFilter, Settled, Split};

use super::subject::{A, JOB, Subject, close, definition, gate, second, sent, token, unsent, wait};

const DAY: i64 = 86_400;

pub(super) async fn the_parts_are_written_with_the_gate_of_the_whole(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let whole = t.accepted(JOB, second(1)).await;
    let split = split_of(t, whole, 5, 3).await;
    let said = t.split(split.clone()).await;
    assert!(matches!(said, Gated::Through(_)), "{said:?}");
    for is_reopened in [false, true] {
        if is_reopened {
            t.reopen().await;
        }
        assert_eq!(t.loaded(&leases).await, ids(&split));
        let adopted = t.adopted(&leases).await.sends;
        assert_eq!((adopted[0].run.run, adopted[0].token, adopted.len()), (whole, token(1, 5), 1));
        assert_eq!((Gated::Through(adopted[0].log), adopted[0].join), (said.clone(), Some(joined(3, 3, 0))));
        assert_eq!((t.view(whole).await.state, t.view(whole).await.part), (RunState::Running, None));
        for (run, part) in &split.parts {
            let (row, view) = (t.fetched(run.id).await, t.view(run.id).await);
            assert_eq!((row.waiting.origin, row.part), (Origin::Part, Some((whole, part.clone()))));
            assert_eq!((view.of, view.part.as_ref()), (Some(whole), Some(part)));
        }
        assert_eq!(t.store().open_parts(whole).await.unwrap(), ids(&split));
    }
    assert_eq!(t.fetched(whole).await.part, None);
}

pub(super) async fn a_split_asked_again_adds_nothing(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let whole = t.accepted(JOB, second(1)).await;
    let split = split_of(t, whole, 5, 2).await;
    let said = t.split(split.clone()).await;
    assert_eq!(t.split(split.clone()).await, said);
    t.reopen().await;
    let fresh = split_of(t, whole, 5, 4).await;
    assert_eq!(t.split(fresh).await, said, "with other executors too");
    assert_eq!(t.loaded(&leases).await, ids(&split));
    assert_eq!(t.adopted(&leases).await.sends[0].join, Some(joined(2, 2, 0)));
    let [one, two] = ids(&split)[..] else { panic!("two parts") };
    t.settle(part_end(whole, one, Outcome::Succeeded)).await;
    assert_eq!(t.split(split).await, said);
    assert_eq!(t.store().open_parts(whole).await.unwrap(), [two], "what has ended stays ended");
}

pub(super) async fn what_cannot_be_gated_is_not_split(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let lane = vec![Hold { resource: Text::Borrowed("lane"), slots: 1, takes_turns: false }];
    let holder = t.accepted(JOB, second(1)).await;
    t.gate(Gate { holds: lane.clone(), ..gate(holder, 1, 5) }).await;
    let closed = t.accepted(JOB, second(1)).await;
    t.closed(closed, Outcome::Cancelled).await;
    let skipped = t.accepted(JOB, second(1)).await;
    t.settle(unsent(skipped, 1, Then::Close(close(Outcome::Skipped, second(2))))).await;
    let held = t.accepted(JOB, second(1)).await;
    let mut splits = Vec::new();
    for run in [holder, closed, skipped, held, RunId(1)] {
        // Born on another day, to see that not even that is begun.
        splits.push(moved(split_of(t, run, 6, 2).await, DAY));
    }
    splits[3].gate.holds = lane;
    let said = t.store().split(splits.clone()).await.unwrap();
    let taken = Gated::Taken(Some(token(1, 5)));
    let expected = [taken, Gated::Closed, Gated::Taken(None), Gated::Held("lane".into()), Gated::Closed];
    assert_eq!(said, expected, "in the order of the splits");
    assert_eq!(t.loaded(&leases).await, [held]);
    assert_eq!(t.store().storage().await.unwrap().len(), 1);
    for split in splits {
        assert_eq!(t.store().parts(split.gate.run).await.unwrap(), []);
        assert_eq!(t.store().open_parts(split.gate.run).await.unwrap(), []);
        assert_eq!(t.store().fetch(&ids(&split)).await.unwrap(), []);
    }
    assert_eq!(t.adopted(&leases).await.sends[0].join, None);
}

pub(super) async fn splits_of_a_batch_stand_alone(t: &mut Subject) {
    let (one, two) = (t.accepted(JOB, second(1)).await, t.accepted(JOB, second(1)).await);
    let (first, second) = (split_of(t, one, 5, 2).await, split_of(t, two, 5, 3).await);
    let late = split_of(t, one, 6, 1).await;
    let said = t.store().split(vec![first.clone(), late, second.clone()]).await.unwrap();
    assert!(matches!(said[..], [Gated::Through(_), Gated::Taken(Some(_)), Gated::Through(_)]), "{said:?}");
    assert_ne!(said[0], said[2]);
    assert_eq!(t.store().open_parts(one).await.unwrap(), ids(&first));
    assert_eq!(t.store().open_parts(two).await.unwrap(), ids(&second));
}

pub(super) async fn the_last_part_that_ends_tells_of_the_whole(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (whole, parts) = t.split_into(4).await;
    let outcomes = [Outcome::Failed, Outcome::Succeeded, Outcome::Cancelled, Outcome::Succeeded];
    let joins = [joined(4, 3, 0), joined(4, 2, 1), joined(4, 1, 1), joined(4, 0, 2)];
    // Not in their order.
    for (number, part) in [2, 0, 3, 1].into_iter().enumerate() {
        let told = (number == 3).then_some((whole, joins[number]));
        let said = t.settle(part_end(whole, parts[part], outcomes[number])).await;
        assert_eq!(said, Settled::Done { consecutive_failures: 0, is_over: false, joined: told });
        assert_eq!(t.adopted(&leases).await.sends[0].join, Some(joins[number]), "{number}");
        t.reopen().await;
    }
    assert_eq!(t.store().open_parts(whole).await.unwrap(), []);
    assert_eq!(t.view(whole).await.state, RunState::Running, "what becomes of it is not the store's to say");
    let said = t.settle(sent(whole, 1, Then::Close(close(Outcome::Failed, second(30))))).await;
    assert_eq!(said, Settled::Done { consecutive_failures: 1, is_over: false, joined: None });
}

pub(super) async fn the_end_of_a_part_counts_once(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (whole, parts) = t.split_into(2).await;
    let first = part_end(whole, parts[0], Outcome::Succeeded);
    let said = t.store().settle(vec![first.clone(), first.clone()]).await.unwrap();
    assert!(matches!(said[..], [Settled::Done { joined: None, .. }, Settled::Stale]), "{said:?}");
    t.reopen().await;
    assert_eq!(t.settle(first).await, Settled::Stale);
    assert_eq!(t.adopted(&leases).await.sends[0].join, Some(joined(2, 1, 1)));
    let said = t.settle(part_end(whole, parts[1], Outcome::Lost)).await;
    assert!(
        matches!(said, Settled::Done { joined: Some((_, join)), .. } if join == joined(2, 0, 1)),
        "{said:?}"
    );
}

pub(super) async fn a_part_that_waits_or_is_refused_has_not_ended(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (whole, parts) = t.split_into(1).await;
    let of_whole = |settlement| Settlement { part_of: Some(whole), ..settlement };
    t.gated(parts[0], 1, 5).await;
    t.settle(of_whole(sent(parts[0], 1, wait(20, 2)))).await;
    assert_eq!(t.adopted(&leases).await.sends[0].join, Some(joined(1, 1, 0)));
    let stale = of_whole(sent(parts[0], 1, Then::Close(close(Outcome::Failed, second(9)))));
    assert_eq!(t.settle(stale).await, Settled::Stale);
    assert_eq!(t.store().open_parts(whole).await.unwrap(), parts);
    let end = of_whole(sent(parts[0], 2, Then::Close(close(Outcome::Succeeded, second(30)))));
    let told = Some((whole, joined(1, 0, 1)));
    assert!(matches!(t.settle(end).await, Settled::Done { joined, .. } if joined == told));
}

pub(super) async fn the_end_of_a_part_counts_with_its_whole_alone(t: &mut Subject) {
    let failed = t.accepted(JOB, second(1)).await;
    t.closed(failed, Outcome::Failed).await;
    let before = t.store().counts(Some(JOB)).await.unwrap();
    let (whole, parts) = t.split_into(5).await;
    for (part, outcome) in parts.iter().zip(Outcome::ALL) {
        let said = t.settle(part_end(whole, *part, *outcome)).await;
        assert!(matches!(said, Settled::Done { consecutive_failures: 1, is_over: false, .. }), "{said:?}");
    }
    t.reopen().await;
    assert_eq!(t.store().counts(Some(JOB)).await.unwrap(), before);
}

pub(super) async fn the_clock_of_a_delay_waits_for_the_whole(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let schedule = Schedule::from(ScheduleKind::Delay { delay: Duration::from_secs(60) });
    let delayed = Definition { schedule, ..definition("delay") };
    let job = t.create(delayed, JobState::Enabled, Some(second(60))).await.job;
    let mut plan = t.step(&leases, job).await;
    plan.next = None;
    let (whole, shard) = (plan.runs[0].id, plan.runs[0].shard);
    assert_eq!(t.plan(plan).await, Planned::Moved(vec![whole]));
    let split = split_of(t, whole, 5, 1).await;
    t.split(split.clone()).await;
    let end = part_end(whole, ids(&split)[0], Outcome::Succeeded);
    t.settle(Settlement { job, shard, named: Some(second(60)), ..end }).await;
    assert_eq!(t.row(job).await.next_fire, None);
    let end = sent(whole, 1, Then::Close(close(Outcome::Succeeded, second(100))));
    t.settle(Settlement { job, shard, named: Some(second(60)), ..end }).await;
    assert_eq!(t.row(job).await.next_fire, Some(second(160)));
}

pub(super) async fn parts_are_seen_with_their_whole_and_in_no_list(t: &mut Subject) {
    let other = t.accepted(JOB, second(1)).await;
    let whole = t.accepted(JOB, second(1)).await;
    let mut split = split_of(t, whole, 5, 3).await;
    // The ids are not in the order of the parts.
    let parts: Vec<Part> = split.parts.iter().map(|(_, part)| part.clone()).rev().collect();
    split.parts.iter_mut().zip(parts).for_each(|((_, part), other)| *part = other);
    t.split(split.clone()).await;
    let by_index: Vec<RunId> = ids(&split).into_iter().rev().collect();
    t.settle(part_end(whole, by_index[1], Outcome::Lost)).await;
    for is_reopened in [false, true] {
        if is_reopened {
            t.reopen().await;
        }
        let seen = t.store().parts(whole).await.unwrap();
        assert_eq!(seen.iter().map(|part| part.id).collect::<Vec<_>>(), by_index);
        let states: Vec<RunState> = seen.iter().map(|part| part.state).collect();
        assert_eq!(states, [RunState::Pending, RunState::Lost, RunState::Pending]);
        let indexes: Vec<u32> = seen.iter().filter_map(|part| Some(part.part.as_ref()?.index)).collect();
        assert_eq!(indexes, [0, 1, 2]);
        assert_eq!(t.store().open_parts(whole).await.unwrap(), [by_index[0], by_index[2]]);
        for state in [None, Some(RunState::Lost)] {
            let filter = RunFilter { state, ..RunFilter::default() };
            let page = t.store().run_list(&filter, None, 1).await.unwrap();
            let listed: Vec<RunId> = page.items.iter().map(|run| run.id).collect();
            assert_eq!(listed, state.map_or(vec![whole], |_| vec![]));
        }
        let page = t.store().run_list(&RunFilter::default(), Some(whole), 9).await.unwrap();
        assert_eq!(page.items.iter().map(|run| run.id).collect::<Vec<_>>(), [other]);
    }
    assert_eq!(t.store().parts(other).await.unwrap(), []);
    assert_eq!(t.store().parts(RunId(1)).await.unwrap(), []);
}

pub(super) async fn parts_live_where_their_ids_say(t: &mut Subject) {
    let whole = t.accepted(JOB, second(1)).await;
    let mut split = split_of(t, whole, 5, 2).await;
    let late = moved(split_of(t, whole, 5, 1).await, 2 * DAY);
    split.parts.extend(late.parts.into_iter().map(|(run, part)| (run, Part { index: 2, ..part })));
    t.split(split.clone()).await;
    let parts = ids(&split);
    assert_ne!(parts[0].day(), parts[2].day());
    assert_eq!(t.store().open_parts(whole).await.unwrap(), parts);
    assert_eq!(t.store().parts(whole).await.unwrap().len(), 3);
    t.settle(part_end(whole, parts[2], Outcome::Succeeded)).await;
    assert_eq!(t.prune_everything().await.buckets, 1, "the day of the part that has ended");
    t.reopen().await;
    assert_eq!(t.store().parts(whole).await.unwrap().len(), 2);
    assert_eq!(t.store().open_parts(whole).await.unwrap(), parts[..2]);
    t.settle(part_end(whole, parts[0], Outcome::Succeeded)).await;
    let said = t.settle(part_end(whole, parts[1], Outcome::Succeeded)).await;
    assert!(
        matches!(said, Settled::Done { joined: Some((_, join)), .. } if join == joined(3, 0, 3)),
        "{said:?}"
    );
    assert_eq!(t.prune_everything().await.kept_open, 1, "the whole is open");
}

pub(super) async fn a_part_outlives_its_whole(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let whole = t.accepted(JOB, second(1)).await;
    let split = moved(split_of(t, whole, 5, 1).await, DAY);
    t.split(split.clone()).await;
    t.closed(whole, Outcome::Cancelled).await;
    assert_eq!((t.prune_everything().await.buckets, t.loaded(&leases).await), (1, ids(&split)));
    t.reopen().await;
    let part = ids(&split)[0];
    assert_eq!(t.fetched(part).await.part, Some((whole, split.parts[0].1.clone())));
    assert_eq!(t.store().open_parts(whole).await.unwrap(), []);
    let said = t.settle(part_end(whole, part, Outcome::Failed)).await;
    assert!(matches!(said, Settled::Done { joined: None, .. }), "there is nobody to tell of: {said:?}");
}

pub(super) async fn what_is_dropped_of_parts_is_gone(t: &mut Subject) {
    let (whole, parts) = t.split_into(2).await;
    for part in &parts {
        t.settle(part_end(whole, *part, Outcome::Succeeded)).await;
    }
    assert_eq!(t.prune_everything().await.kept_open, 1);
    t.closed(whole, Outcome::Succeeded).await;
    assert_eq!(t.prune_everything().await.buckets, 1);
    assert_eq!(t.store().parts(whole).await.unwrap(), []);
    assert_eq!(t.store().open_parts(whole).await.unwrap(), []);
    assert_eq!(t.store().fetch(&parts).await.unwrap(), []);
    t.reopen().await;
    let (again, parts) = t.split_into(1).await;
    assert_eq!(t.store().open_parts(again).await.unwrap(), parts, "the day can be begun anew");
}

pub(super) async fn a_second_split_counts_anew_with_what_is_open_of_the_first(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (whole, parts) = t.split_into(3).await;
    t.settle(part_end(whole, parts[0], Outcome::Succeeded)).await;
    t.settle(sent(whole, 1, wait(9, 2))).await;
    let again = split_of(t, whole, 6, 2).await;
    let again = Split { gate: gate(whole, 2, 6), ..again };
    assert!(matches!(t.split(again.clone()).await, Gated::Through(_)));
    t.reopen().await;
    assert_eq!(t.adopted(&leases).await.sends[0].join, Some(joined(4, 4, 0)));
    let fresh = ids(&again);
    let open = t.store().open_parts(whole).await.unwrap();
    assert_eq!(open, [fresh[0], parts[1], fresh[1], parts[2]], "by index, and then by id");
    for (number, part) in (1..).zip(open) {
        let said = t.settle(part_end(whole, part, Outcome::Succeeded)).await;
        let told = (number == 4).then_some((whole, joined(4, 0, 4)));
        assert!(matches!(said, Settled::Done { joined, .. } if joined == told), "{said:?}");
    }
}

pub(super) async fn the_end_of_a_part_of_a_run_that_was_not_split_tells_nothing(t: &mut Subject) {
    let (whole, run) = (t.accepted(JOB, second(1)).await, t.accepted(JOB, second(1)).await);
    let said = t.settle(part_end(whole, run, Outcome::Failed)).await;
    assert_eq!(said, Settled::Done { consecutive_failures: 0, is_over: false, joined: None });
}

impl Subject {
    async fn split(&self, split: Split) -> Gated {
        self.store().split(vec![split]).await.unwrap().remove(0)
    }

    /// A run that is split into so many parts.
    async fn split_into(&self, total: u32) -> (RunId, Vec<RunId>) {
        let whole = self.accepted(JOB, second(1)).await;
        let split = split_of(self, whole, 5, total).await;
        assert!(matches!(self.split(split.clone()).await, Gated::Through(_)));
        (whole, ids(&split))
    }
}

async fn split_of(t: &Subject, whole: RunId, epoch: u64, total: u32) -> Split {
    let mut parts = Vec::new();
    for index in 0..total {
        let run = NewRun { origin: Origin::Part, of: Some(whole), ..t.run(JOB, second(10)).await };
        let address = format!("http://10.0.0.{index}:9999/ 定时").into();
        parts.push((run, Part { index, total, address }));
    }
    Split { gate: gate(whole, 1, epoch), parts }
}

/// The same with parts that are due, and born, so many seconds later.
fn moved(mut split: Split, seconds: i64) -> Split {
    for (run, _) in &mut split.parts {
        run.due = Timestamp::from_millis(run.due.as_millis() + seconds * 1_000);
        run.id = RunId::new(RunId::day_of(run.due), run.id.sequence());
    }
    split
}

fn ids(split: &Split) -> Vec<RunId> {
    split.parts.iter().map(|(run, _)| run.id).collect()
}

fn part_end(whole: RunId, part: RunId, outcome: Outcome) -> Settlement {
    Settlement { part_of: Some(whole), ..sent(part, 1, Then::Close(close(outcome, second(20)))) }
}

fn joined(total: u32, open: u32, succeeded: u32) -> Join {
    Join { total, open, succeeded }
}

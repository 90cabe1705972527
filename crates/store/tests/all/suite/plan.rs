//! Planning: which clocks are due, and moving them with a record for every instant they pass.

use std::collections::BTreeSet;

use calendar::Timestamp;
use punctual_core::model::{
    ChangeId, Child, Close, Decided, Definition, JobId, JobState, NewRun, Origin, Outcome, RunId, RunState,
    ShardId, StoppedReason, Text, When,
};
use punctual_node::ports::{Accepted, Change, ClockRow, Lease, Plan, Planned, PlannedTo, Renewal};

use super::subject::{A, B, SHARDS, Subject, close, creation, definition, second};

pub(super) async fn enabled_clocks_that_are_due_are_listed_earliest_first(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let late = t.job("late", Some(second(30))).await;
    let early = t.job("early", Some(second(10))).await;
    t.job("after", Some(Timestamp::from_millis(second(30).as_millis() + 1))).await;
    t.job("never", None).await;
    t.create(definition("stopped"), JobState::Stopped(StoppedReason::Asked), Some(second(5))).await;
    t.create(definition("deleted"), JobState::Deleted, Some(second(5))).await;
    let due = t.store().due(&leases, second(30), 10).await.unwrap();
    let row = async |job| {
        let shard = t.row(job).await.shard;
        ClockRow { shard, ..t.clock(job).await }
    };
    assert_eq!(due, [row(early).await, row(late).await]);
}

pub(super) async fn when_more_is_due_than_asked_for_the_earliest_of_all_shards_come(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let mut expected = Vec::new();
    for number in (0..20).rev() {
        let job = t.job(&format!("job {number}"), Some(second(number))).await;
        expected.insert(0, job);
    }
    let shards: BTreeSet<ShardId> =
        t.store().due(&leases, second(20), 20).await.unwrap().iter().map(|row| row.shard).collect();
    assert_eq!(shards.len(), usize::from(SHARDS), "the jobs are spread");
    for max in [0, 1, 7, 20, 21] {
        let due = t.store().due(&leases, second(20), max).await.unwrap();
        let found: Vec<JobId> = due.iter().map(|row| row.job).collect();
        assert_eq!(found, expected[..max.min(20)]);
    }
}

pub(super) async fn only_the_shards_that_are_asked_for_are_listed(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    for number in 0..20 {
        t.job(&format!("job {number}"), Some(second(number))).await;
    }
    for lease in &leases {
        let due = t.store().due(&[*lease], second(20), 20).await.unwrap();
        assert!(!due.is_empty() && due.iter().all(|row| row.shard == lease.shard), "{due:?}");
    }
    assert_eq!(t.store().due(&[], second(20), 20).await.unwrap(), []);
}

pub(super) async fn a_plan_moves_the_clock_and_writes_its_runs(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let mut plan = t.step(&leases, job).await;
    plan.runs.push(NewRun {
        fire_time: second(90),
        due: second(90),
        ..t.step(&leases, job).await.runs.remove(0)
    });
    let written: Vec<RunId> = plan.runs.iter().map(|run| run.id).collect();
    assert_eq!(t.plan(plan).await, Planned::Moved(written.clone()));
    assert_eq!(t.row(job).await.next_fire, Some(second(120)));
    assert_eq!(t.row(job).await.version, 1, "planning is no change");
    assert_eq!(t.loaded(&leases).await, written);
    t.reopen().await;
    assert_eq!(t.row(job).await.next_fire, Some(second(120)));
    assert_eq!(t.loaded(&leases).await, written);
}

pub(super) async fn a_plan_asked_again_is_overtaken_by_itself(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let plan = t.step(&leases, job).await;
    let again = t.step(&leases, job).await;
    t.plan(plan.clone()).await;
    assert_eq!(t.plan(plan).await, Planned::Overtaken);
    assert_eq!(t.plan(again).await, Planned::Overtaken, "and so is one with other ids");
    assert_eq!(t.loaded(&leases).await.len(), 1);
}

pub(super) async fn a_plan_of_a_job_that_was_changed_or_stopped_is_overtaken(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    for (name, state) in [
        ("edited", JobState::Enabled),
        ("stopped", JobState::Stopped(StoppedReason::Asked)),
        ("deleted", JobState::Deleted),
    ] {
        let job = t.job(name, Some(second(60))).await;
        let plan = t.step(&leases, job).await;
        let changed = t.stop(job, state).await;
        assert_eq!(t.plan(plan.clone()).await, Planned::Overtaken, "{name}");
        if name != "edited" {
            let clock = ClockRow { version: changed.version, ..plan.clock };
            assert_eq!(t.plan(Plan { clock, ..plan }).await, Planned::Overtaken, "{name}, as it stands");
        }
    }
    assert_eq!(t.loaded(&leases).await, []);
}

pub(super) async fn a_plan_of_an_unknown_job_is_overtaken(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let plan = t.step(&leases, job).await;
    let clock = ClockRow { job: JobId(99), ..plan.clock };
    assert_eq!(t.plan(Plan { clock, ..plan }).await, Planned::Overtaken);
}

pub(super) async fn a_plan_under_a_stale_epoch_is_overtaken(t: &mut Subject) {
    let stale = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let plan = t.step(&stale, job).await;
    t.store().release(A, stale, second(0)).await.unwrap();
    let leases = t.hold_all(B).await;
    assert_eq!(t.plan(plan.clone()).await, Planned::Overtaken);
    let lease = leases[usize::from(plan.clock.shard.0)];
    assert!(matches!(t.plan(Plan { lease, ..plan }).await, Planned::Moved(_)));
}

pub(super) async fn plans_of_a_batch_stand_alone_and_are_answered_in_order(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let mut plans = Vec::new();
    for number in 0..3 {
        let job = t.job(&format!("job {number}"), Some(second(60 + number))).await;
        plans.push(t.step(&leases, job).await);
    }
    plans[1].clock.version = 7;
    let ids: Vec<RunId> = plans.iter().map(|plan| plan.runs[0].id).collect();
    let planned = t.store().plan(plans).await.unwrap();
    assert_eq!(planned, [Planned::Moved(vec![ids[0]]), Planned::Overtaken, Planned::Moved(vec![ids[2]])]);
    assert_eq!(t.loaded(&leases).await, [ids[0], ids[2]]);
}

pub(super) async fn a_reservation_that_is_there_stays_as_it_is(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let plan = t.step(&leases, job).await;
    let first = plan.runs[0].id;
    t.plan(plan).await;
    let mut edit = t.edit(job).await;
    edit.clock.next_fire = Some(second(60));
    t.store().change(edit).await.unwrap();
    let mut plan = t.step(&leases, job).await;
    plan.runs[0].priority = 1;
    let fresh =
        NewRun { fire_time: second(61), due: second(61), ..t.step(&leases, job).await.runs.remove(0) };
    let fresh_id = fresh.id;
    plan.runs.push(fresh);
    assert_eq!(t.plan(plan).await, Planned::Moved(vec![fresh_id]));
    assert_eq!(t.loaded(&leases).await, [first, fresh_id]);
    assert_eq!(t.view(first).await.priority, 5);
}

pub(super) async fn an_instant_that_was_backfilled_is_not_planned_again(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let backfill = NewRun { origin: Origin::Backfill, ..t.run(job, second(60)).await };
    let id = backfill.id;
    assert_eq!(t.accept(backfill).await, Accepted::New(id));
    assert_eq!(t.plan(t.step(&leases, job).await).await, Planned::Moved(Vec::new()));
    assert_eq!(t.loaded(&leases).await, [id]);
}

pub(super) async fn the_same_instant_of_another_job_is_another_run(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    for name in ["one", "two"] {
        let job = t.job(name, Some(second(60))).await;
        t.plan(t.step(&leases, job).await).await;
    }
    assert_eq!(t.loaded(&leases).await.len(), 2);
}

pub(super) async fn instants_that_are_not_run_are_one_closed_record_and_counted(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let plan = with_skipped(t, &leases, job).await;
    let (skipped, run) = (plan.skipped.clone().unwrap().0.id, plan.runs[0].id);
    assert_eq!(t.plan(plan).await, Planned::Moved(vec![run]), "what is closed needs no firing");
    let view = t.view(skipped).await;
    assert_eq!((view.state, view.reason), (RunState::Skipped, Text::from("misfire")));
    assert_eq!((view.range, view.closed_at), (Some((second(50), 41)), Some(second(60))));
    assert_eq!(t.loaded(&leases).await, [run]);
    let counts = t.store().counts(Some(job)).await.unwrap();
    assert_eq!((counts.not_run, counts.last_outcome), (41, Some(Outcome::Skipped)));
}

pub(super) async fn a_record_of_instants_passed_over_stands_beside_runs_of_those_instants(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let backfill = |run: NewRun| NewRun { origin: Origin::Backfill, ..run };
    let there = backfill(t.run(job, second(10)).await);
    assert_eq!(t.accept(there.clone()).await, Accepted::New(there.id));
    let plan = with_skipped(t, &leases, job).await;
    let skipped = plan.skipped.clone().unwrap().0.id;
    t.plan(plan).await;
    assert_eq!(t.view(skipped).await.state, RunState::Skipped);
    assert_eq!(t.view(there.id).await.state, RunState::Pending);
    let other = t.job("other", Some(second(60))).await;
    t.plan(with_skipped(t, &leases, other).await).await;
    t.reopen().await;
    let after = backfill(t.run(other, second(10)).await);
    assert_eq!(t.accept(after.clone()).await, Accepted::New(after.id), "the record keeps nobody out");
    t.prune_everything().await;
    assert_eq!(t.accept(backfill(t.run(other, second(10)).await)).await, Accepted::Duplicate(after.id));
}

pub(super) async fn what_planning_has_decided_and_reserved_never_falls(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let first = PlannedTo { decided: second(0), ..PlannedTo::default() };
    assert_eq!(t.row(job).await.planned, first, "what is before its creation is decided");
    let mut plan = Plan { decided_to: second(100), ..t.step(&leases, job).await };
    plan.runs.push(NewRun {
        fire_time: second(90),
        due: second(90),
        ..t.step(&leases, job).await.runs.remove(0)
    });
    let again = plan.clone();
    t.plan(plan).await;
    let planned = PlannedTo { decided: second(100), reserved: second(90) };
    assert_eq!(t.row(job).await.planned, planned);
    t.plan(Plan { decided_to: second(200), ..again }).await;
    assert_eq!(t.row(job).await.planned, planned, "what is overtaken decides nothing");
    let mut back = t.edit(job).await;
    back.clock.next_fire = Some(second(30));
    t.store().change(back).await.unwrap();
    let due = t.store().due(&leases, second(30), 9).await.unwrap();
    assert_eq!(due.iter().map(|row| row.planned).collect::<Vec<_>>(), [planned], "a clock set back");
    t.plan(Plan { decided_to: second(30), ..t.step(&leases, job).await }).await;
    t.plan(Plan { decided_to: second(110), runs: Vec::new(), ..t.step(&leases, job).await }).await;
    t.reopen().await;
    let planned = PlannedTo { decided: second(110), reserved: second(90) };
    assert_eq!(t.row(job).await.planned, planned, "each is the greatest so far");
    for run in t.loaded(&leases).await {
        t.closed(run, Outcome::Succeeded).await;
    }
    t.prune_everything().await;
    t.reopen().await;
    assert_eq!(t.row(job).await.planned, planned, "and outlives the runs");
    t.store().change(Change { at: second(150), ..t.edit(job).await }).await.unwrap();
    let planned = PlannedTo { decided: second(150), ..planned };
    assert_eq!(t.row(job).await.planned, planned, "what is before a change is decided too");
    t.store().change(Change { at: second(140), ..t.edit(job).await }).await.unwrap();
    assert_eq!(t.row(job).await.planned, planned);
}

pub(super) async fn a_job_that_stops_in_planning_keeps_its_version_and_every_node_hears_of_it(
    t: &mut Subject,
) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let seen = t.renew(B).await.latest;
    let reason = StoppedReason::Quarantined("it says \"定时\"".into());
    let plan = Plan { next: None, stop: Some(reason.clone()), ..t.step(&leases, job).await };
    assert!(matches!(t.plan(plan).await, Planned::Moved(_)));
    let row = t.row(job).await;
    assert_eq!((row.state, row.version, row.next_fire), (JobState::Stopped(reason), 1, None));
    let told = t.store().renew(Renewal { seen, ..t.renewal(B) }).await.unwrap();
    assert_eq!(told.changes, [(ChangeId(seen.0 + 1), job)]);
    assert_eq!(t.store().due(&leases, Timestamp::MAX, 10).await.unwrap(), []);
    assert_eq!(t.store().revisions(job, 0, 99).await.unwrap().len(), 1);
}

pub(super) async fn a_clock_without_a_next_fire_time_is_not_due(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("delay", Some(second(60))).await;
    t.plan(Plan { next: None, ..t.step(&leases, job).await }).await;
    assert_eq!(t.store().due(&leases, Timestamp::MAX, 10).await.unwrap(), []);
    assert_eq!((t.row(job).await.next_fire, t.row(job).await.state), (None, JobState::Enabled));
}

pub(super) async fn clocks_of_absurd_instants_are_due_in_order_and_can_be_planned(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let mut jobs = Vec::new();
    for at in super::subject::absurd_instants() {
        jobs.push(t.job(&at.to_string(), Some(at)).await);
    }
    let due = t.store().due(&leases, Timestamp::MAX, 10).await.unwrap();
    assert_eq!(due.iter().map(|row| row.job).collect::<Vec<JobId>>(), jobs);
    for row in due {
        let plan = t.step(&leases, row.job).await;
        let id = plan.runs[0].id;
        assert_eq!(t.plan(plan).await, Planned::Moved(vec![id]));
        assert_eq!(t.view(id).await.fire_time, row.next_fire);
    }
}

pub(super) async fn rows_of_deleted_jobs_are_read_and_unknown_ids_left_out(t: &mut Subject) {
    let job = t.job("job", Some(second(60))).await;
    let changed = t.stop(job, JobState::Deleted).await;
    let rows = t.store().jobs(&[JobId(99), job, JobId(0)]).await.unwrap();
    assert_eq!(rows.len(), 1);
    let row = rows[0].1.clone().unwrap();
    assert_eq!((rows[0].0, row.id, row.version), (job, job, changed.version));
    assert_eq!((row.state, row.definition), (JobState::Deleted, definition("job")));
    assert_eq!(t.store().jobs(&[]).await.unwrap(), []);
}

pub(super) async fn the_children_of_a_job_are_those_that_name_it_and_are_not_deleted(t: &mut Subject) {
    let parent = t.job("parent", None).await;
    let after = |name: &str, job, when| Definition { after: vec![Child { job, when }], ..definition(name) };
    let now = t.now();
    let mut ids = Vec::new();
    for (number, when) in When::ALL.iter().enumerate() {
        let child = creation(now, after(&format!("child {number}"), parent, *when), JobState::Enabled, None);
        ids.push(t.store().change(child).await.unwrap().job);
    }
    let stopped = JobState::Stopped(StoppedReason::Asked);
    t.stop(ids[0], stopped).await;
    t.stop(ids[1], JobState::Deleted).await;
    let other = creation(now, after("other", ids[0], When::Ended), JobState::Enabled, None);
    t.store().change(other).await.unwrap();
    let child = |number: usize| Child { job: ids[number], when: When::ALL[number] };
    let mut found = t.row(parent).await.children;
    found.sort_unstable();
    assert_eq!(found, [child(0), child(2)]);
    let mut edit = t.edit(ids[2]).await;
    edit.definition = Some(definition("child 2"));
    t.store().change(edit).await.unwrap();
    assert_eq!(t.row(parent).await.children, [child(0)]);
}

/// A plan with a record for the 41 instants before the one it reserves.
async fn with_skipped(t: &Subject, leases: &[Lease], job: JobId) -> Plan {
    let plan = t.step(leases, job).await;
    let first = NewRun {
        origin: Origin::Schedule,
        decided: Decided::PassedOver,
        shard: plan.clock.shard,
        ..t.run(job, second(10)).await
    };
    let missed = Close {
        reason: "misfire".into(),
        range: Some((second(50), 41)),
        ..close(Outcome::Skipped, second(60))
    };
    Plan { skipped: Some((first, missed)), ..plan }
}

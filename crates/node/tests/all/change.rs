//! Changing much at once: one-shots that are put off together, and apps that are paused.

use std::sync::atomic::{AtomicBool, Ordering};

use calendar::Timestamp;
use punctual_core::model::{
    AttemptOutcome, ChangeId, Definition, JobId, JobMove, JobState, Overrides, RunId, RunState, ScheduleKind,
    StoppedReason,
};
use punctual_core::policy::Misfire;
use punctual_core::policy::misfire::Policy;
use punctual_node::ports::{Accepted, AppRow, Apps, Browse, Hint};
use punctual_node::{Cancelled, DeskError, Node, Submission};

use crate::house::{House, at, definition, every, now_or_never};

fn submit(node: &Node, job: JobId, times: &[&str]) -> Vec<RunId> {
    let one_shot = |time: &&str| Submission {
        job,
        at: Some(at(time)),
        payload: None,
        key: None,
        priority: None,
        overrides: Overrides::default(),
    };
    let accepted = now_or_never(node.submit(times.iter().map(one_shot).collect())).unwrap();
    let id = |one: Accepted| match one {
        Accepted::New(id) | Accepted::Duplicate(id) => id,
    };
    accepted.into_iter().map(id).collect()
}

fn state(house: &House, job: JobId) -> JobState {
    now_or_never(house.store.job(job)).unwrap().unwrap().state
}

/// Pauses the app, and lets its jobs follow.
fn pause(house: &House, node: &Node) -> u64 {
    now_or_never(node.pause_app("app", "me".into(), "moving".into())).unwrap();
    follow(house, node, true)
}

fn resume(house: &House, node: &Node) -> u64 {
    now_or_never(node.resume_app("app")).unwrap();
    follow(house, node, false)
}

fn follow(house: &House, node: &Node, is_paused: bool) -> u64 {
    let followed = node.follow_app(&*house.store, "app", is_paused, "me".into(), &|_| true);
    now_or_never(followed).unwrap().jobs
}

fn edit(node: &Node, job: JobId, asked: JobMove) -> Result<(), DeskError> {
    now_or_never(node.edit(job, None, None, Some(asked), "me".into())).map(drop)
}

#[test]
fn many_are_put_off_at_once_whatever_has_become_of_each() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    let named = house.create(&node, definition("named", every(3_600)));
    let ids = submit(&node, job, &["10:00:01", "10:00:02", "10:00:09", "18:00:00"]);
    let by_hand = now_or_never(node.run_now(named, Default::default())).unwrap();
    house.until(&[&node], "10:00:03");
    let sends = house.take_sends();
    let first = sends.iter().find(|send| send.run == ids[0]).unwrap();
    house.report(&node, first, AttemptOutcome::Succeeded);
    let (soon, later) = (at("10:00:20"), at("10:00:30"));
    let wishes =
        [(ids[3], soon), (RunId(7), soon), (ids[0], soon), (ids[1], soon), (ids[2], later), (by_hand, soon)];
    let became = now_or_never(node.reschedule_all(&wishes)).unwrap();
    let (done, late) = (Cancelled::InTime, Cancelled::TooLate);
    assert_eq!(became, [done, late, late, late, done, late]);
    house.until(&[&node], "10:00:19");
    assert!(house.sent().is_empty(), "nothing of it is due");
    house.until(&[&node], "10:00:21");
    assert_eq!(house.sent(), ["18:00:00 #1"], "what was far away was brought forward");
    house.until(&[&node], "10:00:31");
    assert_eq!(house.sent(), ["10:00:09 #1"], "each has its own time");
}

#[test]
fn many_are_put_off_far_and_each_runs_once_when_its_time_has_come() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    let ids = submit(&node, job, &["10:00:10"; 150]);
    house.until(&[&node], "10:00:05");
    let wishes: Vec<(RunId, Timestamp)> = ids.iter().map(|id| (*id, at("10:05:00"))).collect();
    let became = now_or_never(node.reschedule_all(&wishes)).unwrap();
    assert!(became.iter().all(|became| *became == Cancelled::InTime));
    assert_eq!(now_or_never(node.reschedule_all(&wishes)).unwrap(), became, "repeating is safe");
    house.until(&[&node], "10:04:59");
    assert!(house.sent().is_empty());
    house.until(&[&node], "10:05:02");
    assert_eq!(house.sent().len(), 150);
}

fn state_of(house: &House, ids: &[RunId]) -> Vec<(String, String)> {
    ids.iter().map(|id| house.run(*id)).map(|run| (run.state.to_string(), run.reason.to_string())).collect()
}

fn said(state: &str, reason: &str) -> (String, String) {
    (state.to_owned(), reason.to_owned())
}

#[test]
fn what_a_deleted_job_left_is_cancelled_and_what_was_begun_ends_by_itself() {
    let house = House::new();
    let node = house.node();
    let (job, other) = (
        house.create(&node, definition("job", ScheduleKind::Manual)),
        house.create(&node, definition("other", ScheduleKind::Manual)),
    );
    let ids = submit(&node, job, &["10:00:01", "10:00:07", "11:00:00", "23:00:00"]);
    let others = submit(&node, other, &["23:00:00"]);
    house.until(&[&node], "10:00:02");
    let begun = house.take_sends().remove(0);
    now_or_never(node.delete(job, "me".into())).unwrap();
    house.until(&[&node], "10:00:04");
    let cancelled = said("cancelled", "job deleted");
    assert_eq!(
        state_of(&house, &ids[2..]),
        [cancelled.clone(), cancelled.clone()],
        "long before they are due"
    );
    house.report(&node, &begun, AttemptOutcome::Succeeded);
    house.until(&[&node], "10:00:09");
    assert_eq!(state_of(&house, &ids[..2]), [said("succeeded", ""), cancelled], "what is due is not sent");
    assert_eq!(state_of(&house, &others), [said("pending", "")], "and other jobs go on");
    assert!(house.sent().is_empty() && house.outside.kills.lock().unwrap().is_empty());
}

#[test]
fn a_delete_is_carried_out_by_whoever_holds_the_shard_next() {
    let house = House::new();
    let first = house.node();
    let job = house.create(&first, definition("job", ScheduleKind::Manual));
    let ids = submit(&first, job, &["22:00:00"; 2_500]);
    // It is deleted, and the node dies before it takes another step.
    now_or_never(first.delete(job, "me".into())).unwrap();
    drop(first);
    assert!(ids.iter().all(|id| house.run(*id).state == RunState::Pending));
    let second = house.node();
    house.until(&[&second], "10:00:30");
    let cancelled = |id: &&RunId| house.run(**id).state == RunState::Cancelled;
    assert_eq!(ids.iter().filter(cancelled).count(), 2_500);
}

#[test]
fn of_a_deleted_job_the_holders_of_other_shards_cancel_their_runs() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    let job = house.create(&first, definition("job", ScheduleKind::Manual));
    house.until(&[&first, &second], "10:00:02");
    let ids = submit(&first, job, &["22:00:00"; 40]);
    now_or_never(first.delete(job, "me".into())).unwrap();
    house.until(&[&first, &second], "10:00:12");
    let cancelled = said("cancelled", "job deleted");
    assert!(state_of(&house, &ids).iter().all(|state| *state == cancelled));
}

#[test]
fn of_many_that_are_put_off_the_holder_of_each_is_asked() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    let job = house.create(&first, definition("job", ScheduleKind::Manual));
    house.until(&[&first, &second], "10:00:02");
    let ids = submit(&first, job, &["10:00:30"; 40]);
    let wishes: Vec<(RunId, Timestamp)> = ids.iter().map(|id| (*id, at("10:00:50"))).collect();
    let became = now_or_never(first.reschedule_all(&wishes)).unwrap();
    assert!(became.contains(&Cancelled::InTime) && became.contains(&Cancelled::Asked), "{became:?}");
    let asked = became.iter().filter(|became| **became == Cancelled::Asked).count();
    let known = now_or_never(first.rescheduled(&wishes)).unwrap();
    assert_eq!(known.iter().filter(|known| known.is_none()).count(), asked, "not decided yet");
    house.until(&[&first, &second], "10:00:10");
    let known = now_or_never(first.rescheduled(&wishes)).unwrap();
    assert!(known.iter().all(|known| *known == Some(Cancelled::InTime)), "{known:?}");
    house.until(&[&first, &second], "10:00:49");
    assert!(house.sent().is_empty());
    house.until(&[&first, &second], "10:00:52");
    assert_eq!(house.sent().len(), 40);
}

#[test]
fn a_paused_app_fires_nothing_and_what_was_stored_follows_the_misfire_policy() {
    let house = House::new();
    let node = house.node();
    let of = |name: &str, policy: Policy| Definition {
        misfire: Misfire { policy, ..Misfire::default() },
        ..definition(name, ScheduleKind::Manual)
    };
    let ticking = house.create(&node, definition("ticking", every(10)));
    let kept = house.create(&node, of("kept", Policy::FireOnce));
    let skipped = house.create(&node, of("skipped", Policy::Skip));
    submit(&node, kept, &["10:00:05", "11:00:00"]);
    submit(&node, skipped, &["10:00:06"]);
    house.until(&[&node], "10:00:02");
    pause(&house, &node);
    house.until(&[&node], "10:01:00");
    assert!(house.sent().is_empty());
    let refused = now_or_never(node.submit(vec![Submission {
        job: kept,
        at: None,
        payload: None,
        key: None,
        priority: None,
        overrides: Overrides::default(),
    }]));
    assert!(matches!(&refused, Err(DeskError::Conflict(said)) if said.contains("paused")), "{refused:?}");
    resume(&house, &node);
    house.until(&[&node], "10:01:03");
    assert_eq!(house.sent(), ["10:00:05 #1"]);
    let history = house.history();
    assert!(history.iter().any(|run| run.starts_with("10:00:06 skipped")), "{history:?}");
    assert!(history.iter().any(|run| run.starts_with("11:00:00 pending")), "{history:?}");
    assert!(state(&house, ticking).is_enabled());
    house.until(&[&node], "10:01:11");
    assert_eq!(house.sent(), ["10:01:10 #1"], "and schedules go on");
}

#[test]
fn resuming_starts_exactly_what_the_pause_has_stopped() {
    let house = House::new();
    let node = house.node();
    let running = house.create(&node, definition("running", every(10)));
    let stopped = house.create(&node, definition("stopped", every(10)));
    let stopped_later = house.create(&node, definition("stopped later", every(10)));
    edit(&node, stopped, JobMove::Stop(StoppedReason::Asked)).unwrap();
    pause(&house, &node);
    pause(&house, &node);
    let shown = || node.app("app").unwrap().row.paused.map(|paused| paused.reason);
    assert_eq!(shown().as_deref(), Some("moving"), "who asks this node sees it at once");
    assert_eq!(state(&house, running), JobState::Stopped(StoppedReason::AppPaused));
    assert_eq!(state(&house, stopped), JobState::Stopped(StoppedReason::Asked));
    edit(&node, stopped_later, JobMove::Stop(StoppedReason::Asked)).unwrap();
    let refused = edit(&node, stopped, JobMove::Start);
    assert!(matches!(&refused, Err(DeskError::Conflict(said)) if said.contains("resume")), "{refused:?}");
    resume(&house, &node);
    resume(&house, &node);
    assert_eq!(shown(), None);
    assert!(state(&house, running).is_enabled());
    assert_eq!(state(&house, stopped), JobState::Stopped(StoppedReason::Asked));
    assert_eq!(
        state(&house, stopped_later),
        JobState::Stopped(StoppedReason::Asked),
        "a person's word stands"
    );
    edit(&node, stopped, JobMove::Start).unwrap();
}

#[test]
fn a_job_that_is_made_or_mended_while_its_app_is_paused_waits_for_it() {
    let house = House::new();
    let (node, other) = (house.node(), house.node());
    let done = house.create(&node, definition("done", ScheduleKind::Once { at: at("10:00:01") }));
    house.until(&[&node, &other], "10:00:05");
    assert_eq!(state(&house, done), JobState::Stopped(StoppedReason::Finished));
    house.sent();
    pause(&house, &node);
    // The other node has not heard of it.
    let there = house.create(&other, definition("there", every(10)));
    let here = house.create(&node, definition("here", every(10)));
    now_or_never(node.change(done, None, definition("done", every(10)), "me".into())).unwrap();
    for job in [there, here, done] {
        assert_eq!(state(&house, job), JobState::Stopped(StoppedReason::AppPaused));
    }
    house.until(&[&node, &other], "10:00:35");
    assert!(house.sent().is_empty());
    resume(&house, &other);
    for job in [there, here, done] {
        assert!(state(&house, job).is_enabled());
    }
    // This node still believes that it is paused.
    edit(&node, here, JobMove::Stop(StoppedReason::Asked)).unwrap();
    edit(&node, here, JobMove::Start).unwrap();
    assert!(state(&house, here).is_enabled());
}

#[test]
fn a_pause_and_a_start_that_meet_end_as_the_app_is() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", every(10)));
    // Resumed by who could not see that this job is being stopped for the pause.
    edit(&node, job, JobMove::Stop(StoppedReason::AppPaused)).unwrap();
    assert!(state(&house, job).is_enabled(), "the app is not paused");
    // Paused by who could not see that this job is being started.
    let paused = punctual_node::ports::Paused { since: house.now(), by: "me".into(), reason: "".into() };
    edit(&node, job, JobMove::Stop(StoppedReason::Asked)).unwrap();
    now_or_never(house.store.pause_app("app", Some(paused))).unwrap();
    edit(&node, job, JobMove::Start).unwrap();
    assert_eq!(state(&house, job), JobState::Stopped(StoppedReason::AppPaused));
}

#[test]
fn a_change_in_the_middle_of_a_hand_over_refuses_nobody() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    let shot = |_| Submission {
        job,
        at: Some(at("10:30:00")),
        payload: None,
        key: None,
        priority: None,
        overrides: Overrides::default(),
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                node.hear(Hint::Changed(ChangeId(0), job));
                std::thread::yield_now();
            }
        });
        let hand_over = |_| now_or_never(node.submit((0..100).map(shot).collect()));
        let refused = (0..500).map(hand_over).find_map(Result::err);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(refused, None);
    });
}

/// What a process that was killed in the middle has done: the app is written, and some of the jobs have followed.
fn cut_in_half(node: &Node, jobs: &[JobId], asked: JobMove) {
    match asked {
        JobMove::Resume => now_or_never(node.resume_app("app")).map(drop),
        _ => now_or_never(node.pause_app("app", "me".into(), "moving".into())).map(drop),
    }
    .unwrap();
    jobs.iter().for_each(|job| edit(node, *job, asked.clone()).unwrap());
}

fn app(name: &'static str) -> AppRow {
    AppRow {
        name: name.into(),
        title: "".into(),
        addresses: None,
        access_token: None,
        retention: None,
        paused: None,
        version: 0,
    }
}

fn finish(house: &House, node: &Node) {
    now_or_never(node.finish_pauses(&*house.store));
}

const PAUSED: JobState = JobState::Stopped(StoppedReason::AppPaused);
const ASKED: JobState = JobState::Stopped(StoppedReason::Asked);

#[test]
fn a_pause_that_a_crash_cut_in_half_is_finished_by_the_next_node() {
    let house = House::new();
    let node = house.node();
    now_or_never(house.store.put_app(app("app"), Some(0))).unwrap();
    now_or_never(house.store.put_app(app("other"), Some(0))).unwrap();
    let jobs: Vec<JobId> =
        (0..5).map(|number| house.create(&node, definition(&format!("job {number}"), every(10)))).collect();
    let other = Definition { app: "other".into(), ..definition("elsewhere", every(10)) };
    let other = house.create(&node, other);
    edit(&node, jobs[4], JobMove::Stop(StoppedReason::Asked)).unwrap();
    cut_in_half(&node, &jobs[..2], JobMove::Stop(StoppedReason::AppPaused));
    drop(node);

    let next = house.node();
    house.until(&[&next], "10:00:10");
    finish(&house, &next);
    let states: Vec<JobState> = jobs.iter().map(|job| state(&house, *job)).collect();
    assert_eq!(states, [PAUSED, PAUSED, PAUSED, PAUSED, ASKED]);
    assert_eq!(state(&house, other), JobState::Enabled);
    house.take_sends();
    house.until(&[&next], "10:01:00");
    let sent: Vec<JobId> = house.take_sends().iter().map(|send| send.job.id).collect();
    assert!(!sent.is_empty() && sent.iter().all(|job| *job == other), "{sent:?}");
}

#[test]
fn a_resumption_that_a_crash_cut_in_half_is_finished_by_the_next_node() {
    let house = House::new();
    let node = house.node();
    now_or_never(house.store.put_app(app("app"), Some(0))).unwrap();
    now_or_never(house.store.put_app(app("other"), Some(0))).unwrap();
    let jobs: Vec<JobId> =
        (0..4).map(|number| house.create(&node, definition(&format!("job {number}"), every(10)))).collect();
    let other = Definition { app: "other".into(), ..definition("elsewhere", every(10)) };
    let other = house.create(&node, other);
    now_or_never(node.pause_app("other", "me".into(), "".into())).unwrap();
    edit(&node, other, JobMove::Stop(StoppedReason::AppPaused)).unwrap();
    edit(&node, jobs[3], JobMove::Stop(StoppedReason::Asked)).unwrap();
    assert_eq!(pause(&house, &node), 3);
    cut_in_half(&node, &jobs[..1], JobMove::Resume);
    drop(node);

    let next = house.node();
    house.until(&[&next], "10:00:10");
    finish(&house, &next);
    let states: Vec<JobState> = jobs.iter().map(|job| state(&house, *job)).collect();
    assert_eq!(states, [JobState::Enabled, JobState::Enabled, JobState::Enabled, ASKED]);
    assert_eq!(state(&house, other), PAUSED, "its app is paused");
}

#[test]
fn a_node_that_goes_on_after_its_caller_has_gone_finishes_too_and_looks_no_more_when_nothing_is_left() {
    let house = House::new();
    let node = house.node();
    now_or_never(house.store.put_app(app("app"), Some(0))).unwrap();
    let job = house.create(&node, definition("job", every(10)));
    finish(&house, &node);
    now_or_never(node.pause_app("app", "me".into(), "".into())).unwrap();
    finish(&house, &node);
    assert_eq!(state(&house, job), JobState::Enabled, "a caller may be at it");
    // The caller is told that nothing is wanted any more after the first page.
    now_or_never(node.follow_app(&*house.store, "app", true, "me".into(), &|_| false)).unwrap();
    edit(&node, job, JobMove::Resume).unwrap();
    let version = |house: &House| now_or_never(house.store.job(job)).unwrap().unwrap().version;
    finish(&house, &node);
    assert_eq!(state(&house, job), PAUSED);
    let before = version(&house);
    finish(&house, &node);
    assert_eq!(version(&house), before, "nothing is left, so nothing is written");
}

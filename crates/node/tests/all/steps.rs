//! The steps, called by hand: what people were promised, one promise a test.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{
    AttemptOutcome, Child, Definition, Delivery, JobId, JobState, Outcome, RunId, RunState, Schedule,
    ScheduleKind, StoppedReason, When,
};
use punctual_core::policy::misfire::{Misfire, Policy};
use punctual_core::policy::{Block, Limits, Retry};
use punctual_node::ports::{Accepted, AppRow, AttemptRow, Browse, Report};
use punctual_node::{ByHand, Cancelled, DeskError, Settings, Submission};

use crate::house::{House, at, closed, definition, every, now_or_never};

pub(crate) fn one_shot(job: JobId, time: &str) -> Submission {
    Submission {
        job,
        at: Some(at(time)),
        payload: None,
        key: None,
        priority: None,
        overrides: punctual_core::model::Overrides::default(),
    }
}

pub(crate) fn id(accepted: &[Accepted]) -> RunId {
    match accepted[0] {
        Accepted::New(id) | Accepted::Duplicate(id) => id,
    }
}

#[test]
fn more_jobs_than_a_node_keeps_in_memory_fire_all_the_same() {
    let house = House::with(Settings { known_max: 4, ..Settings::default() });
    let node = house.node();
    for number in 0..10 {
        house.create(&node, definition(&format!("job {number}"), every(10)));
    }
    house.until(&[&node], "10:00:11");
    assert_eq!(house.sent(), ["10:00:10 #1"; 10]);
}

#[test]
fn no_randomness_is_drawn_while_reports_are_judged() {
    let house = House::new();
    let node = house.node();
    for number in 0..20 {
        house.create(&node, definition(&format!("job {number}"), every(10)));
    }
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 20);
    for send in &sends {
        node.report(house.said(send, AttemptOutcome::Failed));
    }
    let before = house.draws();
    now_or_never(node.settle());
    assert_eq!(house.draws(), before);
    let waits: BTreeSet<Timestamp> = house.runs().iter().filter_map(|run| run.ready_at).collect();
    assert!(waits.len() > 10, "the retries are spread all the same: {waits:?}");
}

#[test]
fn a_job_fires_at_each_instant_once_and_its_runs_end_as_reported() {
    let house = House::new();
    let node = house.node();
    house.create(&node, definition("job", every(10)));
    house.until(&[&node], "10:00:09.750");
    assert!(house.sent().is_empty(), "nothing goes early");
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1);
    let receipt = house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    assert!(house.is_acknowledged(receipt));
    house.until(&[&node], "10:00:24");
    assert_eq!(house.sent(), ["10:00:20 #1"]);
    assert_eq!(house.history(), ["10:00:10 succeeded", "10:00:20 running"]);
}

#[test]
fn what_fails_is_tried_again_and_then_given_up() {
    let house = House::new();
    let node = house.node();
    house.create(&node, definition("job", ScheduleKind::Once { at: at("10:00:10") }));
    house.until(&[&node], "10:00:10");
    for attempt in 1..=3 {
        let sends = house.take_sends();
        assert_eq!(sends.iter().map(|send| send.attempt.0).collect::<Vec<_>>(), [attempt]);
        assert!(!sends[0].possible_duplicate);
        house.report(&node, &sends[0], AttemptOutcome::Failed);
        house.until(&[&node], ["10:00:12", "10:00:16", "10:00:20"][attempt as usize - 1]);
    }
    assert_eq!(house.history(), ["10:00:10 failed (said so)"]);
    assert_eq!(house.runs()[0].attempts.len(), 3);
    assert!(house.sent().is_empty());
}

#[test]
fn a_job_without_a_further_instant_stops_with_its_reason_and_its_last_run_still_goes() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Once { at: at("10:00:10") }));
    house.until(&[&node], "10:00:11");
    assert_eq!(house.sent(), ["10:00:10 #1"]);
    let view = now_or_never(house.store.job(job)).unwrap().unwrap();
    assert_eq!(view.state, JobState::Stopped(StoppedReason::Finished));
    let told = |event: &Event| matches!(event, Event::JobStopped { reason: StoppedReason::Finished, .. });
    assert_eq!(node.take_events().iter().filter(|event| told(event)).count(), 1);
}

#[test]
fn a_stopped_job_fires_no_more_and_what_was_reserved_is_skipped() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", every(10)));
    house.until(&[&node], "10:00:08");
    let changed = now_or_never(node.stop(job, "me".into())).unwrap();
    house.step(&node);
    assert!(now_or_never(node.is_in_force(changed.change)).unwrap());
    house.until(&[&node], "10:00:30");
    assert!(house.sent().is_empty());
    assert_eq!(house.history(), ["10:00:10 skipped (job stopped)"]);
    now_or_never(node.start(job, "me".into())).unwrap();
    house.until(&[&node], "10:00:41");
    assert_eq!(house.sent(), ["10:00:40 #1"]);
}

#[test]
fn an_edit_inside_the_horizon_drops_what_is_no_longer_named_and_back_again_keeps_it() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", every(10)));
    house.until(&[&node], "10:00:08");
    now_or_never(node.change(job, None, definition("job", every(7)), "me".into())).unwrap();
    house.until(&[&node], "10:00:17");
    assert_eq!(house.sent(), ["10:00:15 #1"], "every 7 s from midnight: 8, 15, 22");
    now_or_never(node.change(job, None, definition("job", every(10)), "me".into())).unwrap();
    now_or_never(node.change(job, None, definition("job", every(5)), "me".into())).unwrap();
    now_or_never(node.change(job, None, definition("job", every(10)), "me".into())).unwrap();
    house.until(&[&node], "10:00:24");
    assert_eq!(house.sent(), ["10:00:20 #1"]);
    assert_eq!(
        house.history(),
        [
            "10:00:10 skipped (job edited)",
            "10:00:15 running",
            "10:00:20 running",
            "10:00:22 skipped (job edited)"
        ]
    );
}

#[test]
fn after_a_pause_the_misfire_policy_decides() {
    for (policy, expected) in [
        (Policy::Skip, vec!["10:10:00 #1"]),
        (Policy::FireOnce, vec!["10:09:00 #1", "10:10:00 #1"]),
        (
            Policy::FireAll,
            vec![
                "10:01:00 #1",
                "10:02:00 #1",
                "10:03:00 #1",
                "10:04:00 #1",
                "10:05:00 #1",
                "10:06:00 #1",
                "10:07:00 #1",
                "10:08:00 #1",
                "10:09:00 #1",
                "10:10:00 #1",
            ],
        ),
    ] {
        let house = House::new();
        let node = house.node();
        let misfire = Misfire { policy, ..Misfire::default() };
        let job = punctual_core::model::Definition { misfire, ..definition("job", every(60)) };
        house.create(&node, job);
        house.set("10:10:00.500");
        house.until(&[&node], "10:10:03");
        let mut sent = house.sent();
        sent.sort();
        assert_eq!(sent, expected, "{policy}");
    }
}

#[test]
fn one_shots_go_at_their_time_in_order_and_a_key_makes_a_duplicate() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    let submit = |list| now_or_never(node.submit(list)).unwrap();
    let keyed = Submission { key: Some("k".into()), ..one_shot(job, "10:00:05") };
    let first = submit(vec![keyed.clone(), one_shot(job, "10:00:03"), one_shot(job, "09:00:00")]);
    assert!(first.iter().all(|one| matches!(one, Accepted::New(_))));
    assert_eq!(submit(vec![keyed]), [Accepted::Duplicate(id(&first))]);
    house.step(&node);
    assert_eq!(house.sent(), ["10:00:00 #1"], "a time in the past is now");
    house.until(&[&node], "10:00:06");
    assert_eq!(house.sent(), ["10:00:03 #1", "10:00:05 #1"]);
}

#[test]
fn one_shots_of_a_stopped_job_are_refused_and_those_stored_wait_for_its_start() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    now_or_never(node.submit(vec![one_shot(job, "10:00:05")])).unwrap();
    now_or_never(node.stop(job, "me".into())).unwrap();
    let refused = now_or_never(node.submit(vec![one_shot(job, "10:00:06")]));
    assert!(matches!(refused, Err(DeskError::Conflict(_))), "{refused:?}");
    house.until(&[&node], "10:00:30");
    assert!(house.sent().is_empty());
    now_or_never(node.start(job, "me".into())).unwrap();
    house.until(&[&node], "10:00:32");
    assert_eq!(house.sent(), ["10:00:05 #1"]);
}

#[test]
fn a_serial_job_runs_one_after_the_other_also_between_attempts() {
    let house = House::new();
    let node = house.node();
    let serial = punctual_core::model::Definition { block: Block::Serial, ..definition("job", every(2)) };
    house.create(&node, serial);
    house.until(&[&node], "10:00:05");
    let first = house.take_sends();
    assert_eq!(first.len(), 1);
    house.report(&node, &first[0], AttemptOutcome::Failed);
    house.until(&[&node], "10:00:06.500");
    let again = house.take_sends();
    assert_eq!(again.iter().map(|send| (send.run, send.attempt.0)).collect::<Vec<_>>(), [(first[0].run, 2)]);
    house.report(&node, &again[0], AttemptOutcome::Succeeded);
    house.step(&node);
    assert_eq!(house.sent(), ["10:00:04 #1"]);
}

#[test]
fn discard_skips_cover_replaces_and_concurrent_counts() {
    let sent_with = |block| {
        let house = House::new();
        let node = house.node();
        let job = punctual_core::model::Definition { block, ..definition("job", every(2)) };
        house.create(&node, job);
        house.until(&[&node], "10:00:06.500");
        (house.sent(), house.history()[..2].to_vec(), house.outside.kills.lock().unwrap().len())
    };
    let (sent, history, _) = sent_with(Block::Discard);
    assert_eq!(sent, ["10:00:02 #1"]);
    assert_eq!(history, ["10:00:02 running", "10:00:04 skipped (blocked)"]);
    let (sent, history, kills) = sent_with(Block::Cover);
    assert_eq!(sent, ["10:00:02 #1", "10:00:04 #1", "10:00:06 #1"]);
    assert_eq!(
        history,
        [
            "10:00:02 cancelled (a newer run took its place)",
            "10:00:04 cancelled (a newer run took its place)"
        ]
    );
    assert_eq!(kills, 2);
    let (sent, ..) = sent_with(Block::Concurrent(NonZeroU32::new(2)));
    assert_eq!(sent, ["10:00:02 #1", "10:00:04 #1"]);
}

#[test]
fn silence_becomes_lost_at_least_once_goes_again_and_at_most_once_does_not() {
    for (delivery, expected) in [
        (Delivery::AtLeastOnce, vec!["10:00:10 #1", "10:00:10 #2"]),
        (Delivery::AtMostOnce, vec!["10:00:10 #1"]),
    ] {
        let house = House::new();
        let node = house.node();
        let once = definition("job", ScheduleKind::Once { at: at("10:00:10") });
        house.create(&node, punctual_core::model::Definition { delivery, ..once });
        house.until(&[&node], "10:01:00");
        let sends = house.take_sends();
        let shown: Vec<String> = sends
            .iter()
            .map(|send| format!("{} #{}", &send.fire_time.to_string()[11..19], send.attempt))
            .collect();
        assert_eq!(shown, expected);
        assert!(sends.iter().skip(1).all(|send| send.possible_duplicate));
        if delivery == Delivery::AtMostOnce {
            assert_eq!(house.history(), ["10:00:10 lost (nothing was heard of it in time)"]);
        }
    }
}

#[test]
fn a_late_report_is_acknowledged_and_changes_nothing() {
    let house = House::new();
    let node = house.node();
    house.create(&node, definition("job", ScheduleKind::Once { at: at("10:00:10") }));
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    let late = house.report(&node, &sends[0], AttemptOutcome::Failed);
    assert!(house.is_acknowledged(late));
    assert_eq!(house.history(), ["10:00:10 succeeded"]);
    let told = |event: &Event| matches!(event, Event::LateReport { .. });
    assert!(node.take_events().iter().any(told));
}

#[test]
fn late_reports_of_one_executor_are_one_event_however_often_it_repeats_them() {
    let house = House::new();
    let node = house.node();
    house.create(&node, definition("job", ScheduleKind::Once { at: at("10:00:10") }));
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    node.take_events();
    for executor in ["one", "one", "two", "one"] {
        let report = house.said(&sends[0], AttemptOutcome::Failed);
        node.report(Report { executor: executor.into(), ..report });
    }
    now_or_never(node.settle());
    let more = |event: Event| match event {
        Event::LateReport { run, more, .. } if run == sends[0].run => Some(more),
        _ => None,
    };
    assert_eq!(node.take_events().into_iter().filter_map(more).collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn the_next_holder_waits_for_what_has_a_gate_and_repeats_only_what_is_in_doubt() {
    let house = House::new();
    let first = house.node();
    let at_most = punctual_core::model::Definition {
        delivery: Delivery::AtMostOnce,
        ..definition("gated", ScheduleKind::Once { at: at("10:00:10") })
    };
    house.create(&first, at_most);
    house.create(&first, definition("ungated", ScheduleKind::Once { at: at("10:00:10") }));
    house.create(&first, definition("later", ScheduleKind::Once { at: at("10:00:20") }));
    house.until(&[&first], "10:00:10");
    assert_eq!(house.sent(), ["10:00:10 #1", "10:00:10 #1"]);
    drop(first);
    house.set("10:00:16");
    let second = house.node();
    house.until(&[&second], "10:00:17");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1, "only the ungated one is in doubt");
    assert_eq!((sends[0].attempt.0, sends[0].possible_duplicate), (2, true));
    house.until(&[&second], "10:00:21");
    let sends = house.take_sends();
    assert_eq!((sends[0].attempt.0, sends[0].possible_duplicate), (1, false), "surely never sent");
    house.until(&[&second], "10:01:00");
    assert_eq!(house.history()[0], "10:00:10 lost (nothing was heard of it in time)");
}

#[test]
fn a_repetition_is_recorded_as_one_though_its_shard_has_moved_before_the_report() {
    let house = House::new();
    let first = house.node();
    for number in 0..20 {
        let once = ScheduleKind::Once { at: at("10:00:10") };
        house.create(&first, definition(&format!("job {number}"), once));
    }
    house.until(&[&first], "10:00:10");
    assert_eq!(house.take_sends().len(), 20);
    drop(first);
    house.set("10:00:16");
    let second = house.node();
    house.until(&[&second], "10:00:17");
    let sends = house.take_sends();
    assert!(sends.len() == 20 && sends.iter().all(|send| send.possible_duplicate));
    let third = house.node();
    house.until(&[&second, &third], "10:00:19");
    assert!(third.shards_held() > 0, "some of them are the third node's now");
    for send in &sends {
        house.report(&second, send, AttemptOutcome::Succeeded);
    }
    house.until(&[&second, &third], "10:00:20");
    for run in house.runs() {
        let is_repeated = |one: &AttemptRow| matches!(one, AttemptRow::Ended(one) if one.possible_duplicate);
        let attempts: Vec<bool> = run.attempts.iter().map(is_repeated).collect();
        assert_eq!((attempts.as_slice(), run.state), (&[false, true][..], RunState::Succeeded), "{run:?}");
    }
}

#[test]
fn what_was_gated_ever_since_its_job_was_made_is_not_in_doubt_when_its_node_is_gone() {
    let house = House::new();
    let first = house.node();
    let at_most = |name| punctual_core::model::Definition {
        delivery: Delivery::AtMostOnce,
        ..definition(name, ScheduleKind::Once { at: at("10:00:10") })
    };
    house.create(&first, at_most("new"));
    house.until(&[&first], "10:00:08");
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:15");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1, "nobody can have sent it without a gate");
    assert_eq!((sends[0].attempt.0, sends[0].possible_duplicate), (1, false));
}

#[test]
fn a_node_that_pauses_beyond_its_lease_sends_nothing_when_it_wakes() {
    let house = House::new();
    let first = house.node();
    house.create(&first, definition("job", every(10)));
    house.until(&[&first], "10:00:08");
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:15");
    assert_eq!(house.sent(), ["10:00:10 #2"], "as far as the second knows, it may have been sent");
    now_or_never(first.fire());
    assert!(house.sent().is_empty());
    house.step(&first);
    house.until(&[&first, &second], "10:00:41");
    let mut sent = house.sent();
    sent.sort();
    assert_eq!(sent, ["10:00:20 #1", "10:00:30 #1", "10:00:40 #1"]);
}

#[test]
fn a_clean_stop_hands_over_at_once_and_nothing_is_in_doubt() {
    let house = House::new();
    let first = house.node();
    house.create(&first, definition("job", every(10)));
    house.until(&[&first], "10:00:10");
    let sends = house.take_sends();
    now_or_never(first.leave()).unwrap();
    drop(first);
    let second = house.node();
    house.until(&[&second], "10:00:10.500");
    assert!(house.sent().is_empty());
    house.report(&second, &sends[0], AttemptOutcome::Succeeded);
    assert_eq!(house.history()[0], "10:00:10 succeeded");
}

#[test]
fn two_nodes_share_the_shards_and_fire_everything_once() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    for number in 0..20 {
        house.create(&first, definition(&format!("job {number}"), every(10)));
    }
    house.until(&[&first, &second], "10:00:31");
    assert!(first.shards_held() > 0 && second.shards_held() > 0);
    assert_eq!(first.shards_held() + second.shards_held(), 16);
    let sent = house.sent();
    for time in ["10:00:10 #1", "10:00:20 #1", "10:00:30 #1"] {
        assert_eq!(sent.iter().filter(|send| *send == time).count(), 20, "{time}");
    }
}

#[test]
fn a_result_can_be_settled_by_a_node_that_does_not_hold_the_shard() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    let serial = punctual_core::model::Definition { block: Block::Serial, ..definition("job", every(2)) };
    house.create(&first, serial);
    house.until(&[&first, &second], "10:00:03");
    let sends = house.take_sends();
    for node in [&first, &second] {
        house.report(node, &sends[0], AttemptOutcome::Succeeded);
    }
    assert_eq!(house.history()[0], "10:00:02 succeeded");
    house.until(&[&first, &second], "10:00:06");
    assert_eq!(house.sent(), ["10:00:04 #1"], "the holder has learned that the place is free");
}

#[test]
fn a_cancel_in_time_closes_the_run_and_one_in_flight_is_told_to_end() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    let accepted =
        now_or_never(node.submit(vec![one_shot(job, "10:00:05"), one_shot(job, "10:00:06")])).unwrap();
    assert_eq!(now_or_never(node.cancel(id(&accepted))).unwrap(), Cancelled::InTime);
    assert_eq!(now_or_never(node.cancel(id(&accepted))).unwrap(), Cancelled::TooLate);
    house.until(&[&node], "10:00:07");
    assert_eq!(house.sent(), ["10:00:06 #1"]);
    assert_eq!(now_or_never(node.cancel(id(&accepted[1..]))).unwrap(), Cancelled::InTime);
    assert_eq!(house.outside.kills.lock().unwrap().len(), 1);
    assert_eq!(house.history(), ["10:00:05 cancelled (cancelled)", "10:00:06 cancelled (cancelled)"]);
}

#[test]
fn many_are_cancelled_at_once_whatever_has_become_of_each() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    let times = ["10:00:01", "10:00:02", "10:00:09", "18:00:00"];
    let accepted = now_or_never(node.submit(times.map(|time| one_shot(job, time)).to_vec())).unwrap();
    let ids: Vec<RunId> = (0..4).map(|place| id(&accepted[place..])).collect();
    house.until(&[&node], "10:00:03");
    let sends = house.take_sends();
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    let wanted = [ids[3], RunId(7), ids[0], ids[1], ids[2], ids[3]];
    let became = now_or_never(node.cancel_all(&wanted)).unwrap();
    let (done, late) = (Cancelled::InTime, Cancelled::TooLate);
    assert_eq!(became, [done, late, late, done, done, done]);
    assert_eq!(house.outside.kills.lock().unwrap().len(), 1, "what is on its way is told to end");
    house.until(&[&node], "10:00:12");
    assert!(house.sent().is_empty(), "nothing begins any more");
    let cancelled = |time: &str| format!("{time} cancelled (cancelled)");
    let expected = vec![
        "10:00:01 succeeded".to_owned(),
        cancelled("10:00:02"),
        cancelled("10:00:09"),
        cancelled("18:00:00"),
    ];
    assert_eq!(house.history(), expected);
}

#[test]
fn of_many_that_are_cancelled_the_holder_of_each_is_asked() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    let job = house.create(&first, definition("job", ScheduleKind::Manual));
    house.until(&[&first, &second], "10:00:02");
    let shots: Vec<_> = (0..40).map(|_| one_shot(job, "10:00:30")).collect();
    let accepted = now_or_never(first.submit(shots)).unwrap();
    let ids: Vec<RunId> = (0..40).map(|place| id(&accepted[place..])).collect();
    let became = now_or_never(first.cancel_all(&ids)).unwrap();
    assert!(became.contains(&Cancelled::InTime) && became.contains(&Cancelled::Asked), "{became:?}");
    house.until(&[&first, &second], "10:00:40");
    assert!(house.sent().is_empty());
    assert_eq!(house.history().len(), 40);
    assert!(
        house.history().iter().all(|run| run.ends_with("cancelled (cancelled)")),
        "{:?}",
        house.history()
    );
}

#[test]
fn a_one_shot_can_be_put_off_and_brought_forward() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    let accepted =
        now_or_never(node.submit(vec![one_shot(job, "10:00:05"), one_shot(job, "12:00:00")])).unwrap();
    now_or_never(node.reschedule(id(&accepted), at("10:00:20"))).unwrap();
    now_or_never(node.reschedule(id(&accepted[1..]), at("10:00:10"))).unwrap();
    house.until(&[&node], "10:00:19");
    assert_eq!(house.sent(), ["12:00:00 #1"]);
    house.until(&[&node], "10:00:21");
    assert_eq!(house.sent(), ["10:00:05 #1"]);
}

#[test]
fn a_backfill_fills_gaps_only_and_its_preview_writes_nothing() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", every(60)));
    house.until(&[&node], "10:02:30");
    house.sent();
    let preview = now_or_never(node.backfill(job, at("09:58:00"), at("10:02:30"), true)).unwrap();
    assert_eq!((preview.count, preview.created, house.runs().len()), (5, 0, 2));
    let filled = now_or_never(node.backfill(job, at("09:58:00"), at("10:02:30"), false)).unwrap();
    assert_eq!(filled.created, 3);
    house.until(&[&node], "10:02:32");
    let mut sent = house.sent();
    sent.sort();
    assert_eq!(sent, ["09:58:00 #1", "09:59:00 #1", "10:00:00 #1"]);
    assert_eq!(now_or_never(node.backfill(job, at("09:58:00"), at("10:02:30"), false)).unwrap().created, 0);
}

#[test]
fn an_app_keeps_its_finished_runs_for_its_own_time() {
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    let house = House::with(Settings { retention: hours(72), ..Settings::default() });
    let node = house.node();
    for (app, kept) in [("other", None), ("longer", Some(hours(240))), ("shorter", Some(hours(1)))] {
        let row = AppRow {
            name: app.into(),
            title: "".into(),
            addresses: None,
            access_token: None,
            retention: kept,
            paused: None,
            version: 0,
        };
        now_or_never(node.put_app(row, None)).unwrap();
        let definition = definition("job", ScheduleKind::Once { at: at("10:00:10") });
        house.create(&node, Definition { app: app.into(), ..definition });
    }
    let open = house.create(&node, definition("open", ScheduleKind::Manual));
    house.until(&[&node], "10:00:10");
    for send in house.take_sends() {
        house.report(&node, &send, AttemptOutcome::Succeeded);
    }
    now_or_never(node.submit(vec![one_shot(open, "10:00:11")])).unwrap();
    now_or_never(node.stop(open, "test".into())).unwrap();
    let apps = || {
        let app = |run: &punctual_node::ports::RunView| {
            now_or_never(house.store.job(run.job)).unwrap().unwrap().definition.app
        };
        let mut apps: Vec<String> = house.runs().iter().map(app).collect();
        apps.sort_unstable();
        apps
    };
    // The day ends 14 hours later.
    house.sleep(&node, hours(14));
    assert_eq!(apps(), ["app", "longer", "other", "shorter"]);
    house.sleep(&node, hours(1));
    assert_eq!(apps(), ["app", "longer", "other"]);
    house.sleep(&node, hours(72));
    assert_eq!(apps(), ["app", "longer"], "what is open is nobody's history yet");
    house.sleep(&node, hours(240));
    assert_eq!(
        apps(),
        ["app", "longer"],
        "with something open in it, a day that is over for all stays whole"
    );
    assert_eq!(now_or_never(house.store.storage()).unwrap()[0].runs, 2);
}

#[test]
fn a_day_that_only_a_short_lived_app_has_runs_in_is_dropped_whole() {
    let house = House::new();
    let node = house.node();
    let row = AppRow {
        name: "app".into(),
        title: "".into(),
        addresses: None,
        access_token: None,
        retention: Some(Duration::from_secs(3_600)),
        paused: None,
        version: 0,
    };
    now_or_never(node.put_app(row, None)).unwrap();
    house.create(&node, definition("job", ScheduleKind::Once { at: at("10:00:10") }));
    house.until(&[&node], "10:00:10");
    for send in house.take_sends() {
        house.report(&node, &send, AttemptOutcome::Succeeded);
    }
    assert_eq!(now_or_never(house.store.storage()).unwrap().len(), 1);
    house.sleep(&node, Duration::from_secs(16 * 3_600));
    assert_eq!(now_or_never(house.store.storage()).unwrap(), []);
}

#[test]
fn a_settled_run_can_be_asked_for_again_and_stays_as_it_is() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    let run =
        now_or_never(node.run_now(job, ByHand { payload: Some("{}".into()), ..ByHand::default() })).unwrap();
    house.step(&node);
    let sends = house.take_sends();
    assert_eq!(sends[0].payload.as_deref(), Some("{}"));
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    let again = now_or_never(node.retry(run)).unwrap();
    house.step(&node);
    let sends = house.take_sends();
    assert_eq!(
        (sends[0].run, sends[0].fire_time, sends[0].payload.as_deref()),
        (again, at("10:00:00"), Some("{}"))
    );
    assert_eq!(house.run(run).state, RunState::Succeeded);
    assert_eq!(house.run(again).of, Some(run));
}

#[test]
fn a_fixed_delay_counts_from_the_end() {
    let house = House::new();
    let node = house.node();
    let delay = ScheduleKind::Delay { delay: Duration::from_secs(10) };
    house.create(&node, definition("job", delay));
    house.until(&[&node], "10:00:14");
    let sends = house.take_sends();
    assert_eq!(sends[0].fire_time, at("10:00:10"));
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    house.until(&[&node], "10:00:25");
    assert_eq!(house.sent(), ["10:00:24 #1"]);
}

#[test]
fn a_child_runs_when_its_parent_ended_as_it_asked() {
    let house = House::new();
    let node = house.node();
    let parent = house.create(&node, definition("parent", ScheduleKind::Once { at: at("10:00:05") }));
    let after = vec![Child { job: parent, when: When::Succeeded }];
    let child = punctual_core::model::Definition { after, ..definition("child", ScheduleKind::Manual) };
    let child = house.create(&node, child);
    house.until(&[&node], "10:00:05");
    let sends = house.take_sends();
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    house.step(&node);
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1);
    assert_eq!(sends[0].job.id, child);
}

#[test]
fn a_poisoned_row_sets_its_job_aside_and_the_others_run_on() {
    let house = House::new();
    let node = house.node();
    let bad = house.create(&node, definition("bad", every(10)));
    let absurd = house.create(&node, definition("absurd", every(10)));
    house.create(&node, definition("good", every(10)));
    house.store.poison_job(bad, |definition| definition.schedule = Schedule::from(every(0)));
    house.store.poison_clock(absurd, Some(Timestamp::MIN));
    house.until(&[&node], "10:00:21");
    let view = now_or_never(house.store.job(bad)).unwrap().unwrap();
    assert!(matches!(view.state, JobState::Stopped(StoppedReason::Quarantined(_))), "{:?}", view.state);
    let told = |event: &Event| matches!(event, Event::JobStopped { reason: StoppedReason::Quarantined(_), job } if *job == bad);
    assert!(node.take_events().iter().any(told));
    let sent = house.sent();
    assert_eq!(sent.iter().filter(|send| *send == "10:00:20 #1").count(), 2, "{sent:?}");
    let mended = now_or_never(node.change(bad, None, definition("bad", every(10)), "me".into()));
    mended.unwrap();
    house.until(&[&node], "10:00:31");
    assert_eq!(house.sent().len(), 3);
}

#[test]
fn too_many_failures_in_a_row_stop_the_job() {
    let house = House::new();
    let node = house.node();
    let retry = Retry { max_attempts: 1, ..Retry::default() };
    let job = punctual_core::model::Definition { retry, failure_limit: 2, ..definition("job", every(10)) };
    let job = house.create(&node, job);
    for time in ["10:00:10", "10:00:20"] {
        house.until(&[&node], time);
        let sends = house.take_sends();
        house.report(&node, &sends[0], AttemptOutcome::Failed);
    }
    let view = now_or_never(house.store.job(job)).unwrap().unwrap();
    assert_eq!(view.state, JobState::Stopped(StoppedReason::FailureLimit));
    assert_eq!(closed(&node.take_events()), [Outcome::Failed, Outcome::Failed]);
}

#[test]
fn what_finds_no_free_place_waits_and_fresh_runs_go_before_caught_up_ones() {
    let limits = Limits { fast_open: 2, ..Limits::default() };
    let house = House::with(Settings { limits, ..Settings::default() });
    let node = house.node();
    let fire_all = Misfire { policy: Policy::FireAll, ..Misfire::default() };
    let behind = punctual_core::model::Definition { misfire: fire_all, ..definition("behind", every(60)) };
    house.create(&node, behind);
    let fresh = house.create(&node, definition("fresh", ScheduleKind::Manual));
    house.set("10:10:30");
    now_or_never(node.renew());
    now_or_never(node.renew());
    now_or_never(node.submit(vec![one_shot(fresh, "10:10:30")])).unwrap();
    house.step(&node);
    let sends = house.take_sends();
    assert_eq!(sends.len(), 2);
    assert_eq!(sends[0].job.id, fresh);
    for send in &sends {
        house.report(&node, send, AttemptOutcome::Succeeded);
    }
    house.until(&[&node], "10:10:30.400");
    assert_eq!(house.sent().len(), 2);
}

#[test]
fn a_wheel_too_small_for_the_herd_still_fires_all_of_it() {
    let house = House::with(Settings { wheel_capacity: 16, load_max: 7, ..Settings::default() });
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    now_or_never(node.submit(vec![one_shot(job, "10:00:05"); 100])).unwrap();
    house.until(&[&node], "10:00:10");
    assert_eq!(house.sent().len(), 100);
}

#[test]
fn what_is_on_its_way_is_written_down_after_a_second() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("slow", ScheduleKind::Manual));
    house.step(&node);
    let _ = node.take_wakes();
    let run = id(&now_or_never(node.submit(vec![one_shot(job, "10:00:00")])).unwrap());
    now_or_never(node.fire());
    assert!(node.take_wakes().tend, "else it sleeps until the next sweep");
    let again = now_or_never(node.tend());
    let boot = house.now().as_millis() - at("00:00:00").as_millis();
    assert_eq!(again.0.as_millis() as i64 - boot, 1_000);
    house.set("10:00:01");
    now_or_never(node.tend());
    assert_eq!(house.run(run).state.to_string(), "running");
}

//! Keeping house: days that are over are dropped, and nothing of them ever fires again.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{NewRun, Origin, Outcome, RunId, RunState};
use punctual_node::ports::{Accepted, Gated, Planned, Pruned, Settled, StoreError};

use super::subject::{A, JOB, KEY_TTL, Subject, second, sent, unsent, wait};

const DAY: Duration = Duration::from_secs(86_400);

pub(super) async fn closed_days_before_the_time_are_dropped_and_later_ones_stay(t: &mut Subject) {
    let mut ids = Vec::new();
    for day in 0..4 {
        let run = t.accepted(JOB, second(0).saturating_add(day * DAY)).await;
        t.closed(run, Outcome::Succeeded).await;
        ids.push(run);
    }
    let end_of_second = RunId::day_start(ids[1].day() + 1);
    let just_before = Timestamp::from_millis(end_of_second.as_millis() - 1);
    assert_eq!(t.store().prune(just_before).await.unwrap(), dropped(1, 0));
    assert_eq!(t.store().prune(end_of_second).await.unwrap(), dropped(1, 0));
    assert_eq!(t.store().prune(end_of_second).await.unwrap(), dropped(0, 0), "asked again");
    t.reopen().await;
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(t.store().run(*id).await.unwrap().is_some(), number > 1, "{number}");
    }
    let days: Vec<u32> = t.store().storage().await.unwrap().iter().map(|bucket| bucket.day).collect();
    assert_eq!(days, [ids[2].day(), ids[3].day()]);
}

pub(super) async fn a_day_in_which_something_is_open_stays_whole(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let mut open = Vec::new();
    for day in 0..4 {
        let due = second(0).saturating_add(day * DAY);
        let closed = t.accepted(job, due).await;
        t.closed(closed, Outcome::Succeeded).await;
        open.push(t.accepted(job, due).await);
    }
    t.gated(open[1], 1, 5).await;
    t.settle(sent(open[2], 1, wait(9_999_999, 2))).await;
    t.settle(unsent(open[3], 1, super::subject::park(1, 1))).await;
    assert_eq!(t.prune_everything().await, dropped(0, 4));
    assert_eq!(t.store().storage().await.unwrap().len(), 4);
    assert_eq!(t.loaded(&leases).await, [open[0], open[2]]);
    assert_eq!(t.adopted(&leases).await.sends.len(), 1);
    t.closed(open[1], Outcome::Lost).await;
    assert_eq!(t.prune_everything().await, dropped(1, 3));
}

pub(super) async fn what_is_pruned_is_gone_for_every_verb(t: &mut Subject) {
    let run = t.accepted(JOB, second(0)).await;
    t.gated(run, 1, 5).await;
    t.closed(run, Outcome::Succeeded).await;
    assert_eq!(t.prune_everything().await, dropped(1, 0));
    assert_eq!(t.gated(run, 1, 5).await, Gated::Closed);
    assert_eq!(t.gated(run, 2, 6).await, Gated::Closed);
    assert_eq!(t.closed(run, Outcome::Failed).await, Settled::Stale);
    assert_eq!(t.store().fetch(&[run]).await.unwrap(), []);
    assert_eq!(t.store().storage().await.unwrap(), []);
}

pub(super) async fn what_was_counted_stays_counted(t: &mut Subject) {
    let run = t.accepted(JOB, second(0)).await;
    t.closed(run, Outcome::Failed).await;
    let before = t.store().counts(Some(JOB)).await.unwrap();
    t.prune_everything().await;
    t.reopen().await;
    assert_eq!(t.store().counts(Some(JOB)).await.unwrap(), before);
}

pub(super) async fn no_instant_of_a_dropped_day_fires_again(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let (plan, again) = (t.step(&leases, job).await, t.step(&leases, job).await);
    let run = plan.runs[0].id;
    t.plan(plan).await;
    t.closed(run, Outcome::Succeeded).await;
    assert_eq!(t.prune_everything().await, dropped(1, 0));
    t.reopen().await;
    assert_eq!(t.plan(again).await, Planned::Overtaken);
    assert_eq!(t.store().due(&leases, second(60), 9).await.unwrap(), []);
    assert_eq!(t.clock(job).await.next_fire, second(120));
    assert_eq!(t.loaded(&leases).await, []);
}

pub(super) async fn no_instant_of_a_dropped_day_runs_again_when_the_clock_was_set_back(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let plan = t.step(&leases, job).await;
    let run = plan.runs[0].id;
    t.plan(plan).await;
    t.closed(run, Outcome::Succeeded).await;
    assert_eq!(t.prune_everything().await, dropped(1, 0));
    t.reopen().await;
    // An edit in a time that was there before names the same instant again.
    let mut change = t.edit(job).await;
    change.clock.next_fire = Some(second(60));
    t.store().change(change).await.unwrap();
    let again = t.step(&leases, job).await;
    assert_eq!(again.runs[0].fire_time, second(60));
    assert_eq!(t.plan(again).await, Planned::Moved(vec![]));
    let next = t.step(&leases, job).await;
    let id = next.runs[0].id;
    assert_eq!(t.plan(next).await, Planned::Moved(vec![id]), "what never had a run gets one");
    let backfill = NewRun { origin: Origin::Backfill, ..t.run(job, second(60)).await };
    let refused = t.store().accept(vec![backfill], vec![]).await;
    assert!(matches!(&refused, Err(StoreError::Conflict(said)) if said.contains("dropped")), "{refused:?}");
}

pub(super) async fn a_number_of_a_dropped_day_is_not_given_again(t: &mut Subject) {
    let run = t.run(JOB, second(0)).await;
    let id = run.id;
    t.accept(run).await;
    t.closed(id, Outcome::Succeeded).await;
    t.prune_everything().await;
    t.reopen().await;
    assert!(t.run(JOB, second(0)).await.id > id);
}

pub(super) async fn a_key_outlives_the_day_of_its_run_but_not_its_own_time(t: &mut Subject) {
    let keyed = |run: NewRun| NewRun { key: Some("key".into()), ..run };
    let first = keyed(t.run(JOB, second(0)).await);
    t.accept(first.clone()).await;
    t.closed(first.id, Outcome::Succeeded).await;
    t.prune_everything().await;
    let again = keyed(t.run(JOB, second(0)).await);
    assert_eq!(t.accept(again).await, Accepted::Duplicate(first.id));
    t.pass(KEY_TTL);
    t.prune_everything().await;
    let again = keyed(t.run(JOB, second(0)).await);
    assert_eq!(t.accept(again.clone()).await, Accepted::New(again.id));
    assert_eq!(t.view(again.id).await.state, RunState::Pending);
}

pub(super) async fn an_empty_store_has_nothing_to_drop(t: &mut Subject) {
    assert_eq!(t.prune_everything().await, dropped(0, 0));
    assert_eq!(t.store().prune(Timestamp::MIN).await.unwrap(), dropped(0, 0));
}

fn dropped(buckets: u32, kept_open: u32) -> Pruned {
    Pruned { buckets, kept_open }
}

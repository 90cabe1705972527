//! Keeping house: days that are over are dropped, and runs that are old go from days that stay; nothing of them ever fires
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, ChangeId, Definition, JobId, JobState, NewRun, Origin, Outcome, Part, RunId, RunState,
    Settlement, Then,
};
use punctual_node::ports::{
    Accepted, Gated, Keep, KeptLog, OldDay, Planned, Pruned, Renewal, RunFilter, Settled, Split, StoreError,
    Thinned,
};

use super::subject::{
    A, B, C, D, E, F, JOB, KEY_TTL, Subject, TERM, close, definition, gate, second, sent, unsent, wait,
};

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
    assert_eq!(t.store().prune(&Keep::since(just_before)).await.unwrap(), dropped(1, 0));
    assert_eq!(t.store().prune(&Keep::since(end_of_second)).await.unwrap(), dropped(1, 0));
    assert_eq!(t.store().prune(&Keep::since(end_of_second)).await.unwrap(), dropped(0, 0), "asked again");
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
    assert_eq!(t.store().prune(&Keep::since(Timestamp::MIN)).await.unwrap(), dropped(0, 0));
}

pub(super) async fn a_day_is_kept_for_the_app_that_keeps_it_longest(t: &mut Subject) {
    let (shop, mail) = (t.job("job", None).await, t.job_of("mail").await);
    let [old, kept] = [t.ended(shop, second(0)).await, t.ended(mail, second(1)).await];
    let longer = keep(Timestamp::MAX, "mail", Timestamp::MIN);
    assert_eq!(t.store().prune(&longer).await.unwrap(), stays(old.day(), 2, 2));
    assert_eq!(t.thin(&longer, old, 0).await, thinned(0, 1, None), "only looked at");
    assert_eq!(t.thin(&longer, old, 9).await, thinned(1, 1, None));
    assert_eq!(t.thin(&longer, old, 9).await, thinned(0, 1, None), "asked again");
    t.reopen().await;
    assert_eq!(t.store().run(old).await.unwrap(), None);
    assert_eq!(t.view(kept).await.state, RunState::Succeeded);
    assert_eq!(t.store().prune(&longer).await.unwrap(), stays(old.day(), 1, 1));
    assert_eq!(t.store().storage().await.unwrap()[0].runs, 1);
    assert_eq!(t.prune_everything().await, dropped(1, 0));
}

pub(super) async fn an_app_that_keeps_shorter_loses_its_runs_and_no_other_does(t: &mut Subject) {
    let (shop, mail) = (t.job("job", None).await, t.job_of("mail").await);
    let (kept, old) = (t.ended(shop, second(0)).await, t.ended(mail, second(1)).await);
    let unknown = t.ended(JobId(77), second(2)).await;
    let day_after = RunId::day_start(old.day() + 1);
    let just_before = Timestamp::from_millis(day_after.as_millis() - 1);
    let not_yet = keep(Timestamp::MIN, "mail", just_before);
    assert_eq!(t.store().prune(&not_yet).await.unwrap(), dropped(0, 0));
    assert_eq!(t.thin(&not_yet, kept, 9).await, thinned(0, 3, None));
    let shorter = keep(Timestamp::MIN, "mail", day_after);
    assert_eq!(t.store().prune(&shorter).await.unwrap(), stays(old.day(), 3, 3));
    assert_eq!(t.thin(&shorter, kept, 9).await, thinned(1, 2, None));
    t.reopen().await;
    assert_eq!(t.store().run(old).await.unwrap(), None);
    for run in [kept, unknown] {
        assert_eq!(t.view(run).await.state, RunState::Succeeded);
    }
}

pub(super) async fn what_is_open_is_not_removed(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(t.accepted(job, second(0)).await);
    }
    t.gated(open[1], 1, 5).await;
    t.settle(sent(open[2], 1, wait(9_999_999, 2))).await;
    t.settle(unsent(open[3], 1, super::subject::park(1, 1))).await;
    let closed = t.ended(job, second(0)).await;
    let all = Keep::since(Timestamp::MAX);
    assert_eq!(t.thin(&all, open[0], 9).await, thinned(1, 4, None));
    assert_eq!(t.store().run(closed).await.unwrap(), None);
    t.reopen().await;
    assert_eq!(t.loaded(&leases).await, [open[0], open[2]]);
    let adopted = t.adopted(&leases).await;
    assert_eq!((adopted.sends.len(), adopted.parked.len()), (1, 1));
    t.closed(open[1], Outcome::Lost).await;
    assert_eq!(t.thin(&all, open[0], 9).await, thinned(1, 3, None));
}

pub(super) async fn what_is_removed_is_gone_for_every_verb(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let (run, other) = (t.accepted(job, second(0)).await, t.accepted(job, second(0)).await);
    let Gated::Through(log) = t.gated(run, 1, 5).await else { panic!("the way is free") };
    t.settle(sent(run, 1, wait(1, 2))).await;
    let text = KeptLog { text: "line".into(), next_line: 2, is_complete: true };
    t.store().keep_log(run, Attempt(1), text).await.unwrap();
    t.settle(sent(run, 2, Then::Close(close(Outcome::Failed, second(2))))).await;
    let before = t.store().counts(Some(job)).await.unwrap();
    assert_eq!(t.thin(&Keep::since(Timestamp::MAX), run, 9).await, thinned(1, 1, None));
    for _ in 0..2 {
        assert_eq!(t.gated(run, 1, 5).await, Gated::Closed);
        assert_eq!(t.gated(run, 3, 6).await, Gated::Closed);
        assert_eq!(t.closed(run, Outcome::Failed).await, Settled::Stale);
        assert_eq!(t.store().fetch(&[run]).await.unwrap(), []);
        assert_eq!(t.store().sends(run).await.unwrap(), []);
        assert_eq!(t.store().sent(&[log]).await.unwrap(), []);
        assert_eq!(t.store().log(run, Attempt(1)).await.unwrap(), None);
        assert_eq!(t.store().run(run).await.unwrap(), None);
        let listed = t.store().run_list(&RunFilter::default(), None, 9).await.unwrap().items;
        assert_eq!(listed.iter().map(|run| run.id).collect::<Vec<RunId>>(), [other]);
        assert_eq!(t.loaded(&leases).await, [other]);
        assert_eq!(t.adopted(&leases).await.sends, []);
        assert_eq!(t.store().counts(Some(job)).await.unwrap(), before, "what was counted stays counted");
        t.reopen().await;
    }
}

pub(super) async fn a_key_outlives_its_run_that_was_removed(t: &mut Subject) {
    let job = t.job("job", None).await;
    let keyed = |run: NewRun| NewRun { key: Some("key".into()), ..run };
    let first = keyed(t.run(job, second(0)).await);
    t.accept(first.clone()).await;
    t.closed(first.id, Outcome::Succeeded).await;
    assert_eq!(t.thin(&Keep::since(Timestamp::MAX), first.id, 9).await, thinned(1, 0, None));
    let again = keyed(t.run(job, second(0)).await);
    assert_eq!(t.accept(again).await, Accepted::Duplicate(first.id));
    t.pass(KEY_TTL);
    let again = keyed(t.run(job, second(0)).await);
    assert_eq!(t.accept(again.clone()).await, Accepted::New(again.id));
}

pub(super) async fn runs_are_removed_in_portions_in_the_order_of_their_ids(t: &mut Subject) {
    let job = t.job("job", None).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(t.ended(job, second(0)).await);
    }
    let open = t.accepted(job, second(0)).await;
    let all = Keep::since(Timestamp::MAX);
    assert_eq!(t.thin(&all, ids[0], 2).await, thinned(2, 0, Some(ids[2])));
    assert_eq!(t.thin(&all, ids[3], 2).await, thinned(2, 1, None), "from a place on");
    assert_eq!(t.thin(&all, ids[0], 2).await, thinned(1, 1, None));
    assert_eq!(t.store().thin(&all, open.day() + 1, RunId(0), 2).await.unwrap(), thinned(0, 0, None));
    assert_eq!(t.view(open).await.state, RunState::Pending);
}

pub(super) async fn the_parts_of_a_broadcast_go_with_their_whole(t: &mut Subject) {
    let job = t.job("job", None).await;
    let whole = t.accepted(job, second(0)).await;
    let mut parts = Vec::new();
    // One of them on the next day.
    for due in [second(0), second(1), second(86_400)] {
        let part = NewRun { origin: Origin::Part, of: Some(whole), ..t.run(job, due).await };
        let index = parts.len() as u32;
        parts.push((part, Part { index, total: 3, address: "executor".into() }));
    }
    let ids: Vec<RunId> = parts.iter().map(|(part, _)| part.id).collect();
    t.store().split(vec![Split { gate: gate(whole, 1, 5), parts }]).await.unwrap();
    let end = |part: RunId| Settlement {
        part_of: Some(whole),
        ..sent(part, 1, Then::Close(close(Outcome::Succeeded, second(1))))
    };
    t.settle(end(ids[0])).await;
    t.settle(end(ids[2])).await;
    let all = Keep::since(Timestamp::MAX);
    assert_eq!(t.thin(&all, ids[2], 9).await, thinned(0, 1, None), "the whole is there");
    t.settle(sent(whole, 1, Then::Close(close(Outcome::Succeeded, second(2))))).await;
    assert_eq!(t.thin(&all, whole, 9).await, thinned(0, 2, None), "a part is open, so the whole stays");
    t.settle(end(ids[1])).await;
    assert_eq!(t.thin(&all, whole, 2).await, thinned(2, 0, Some(whole)), "parts first");
    assert_eq!(t.view(whole).await.state, RunState::Succeeded);
    assert_eq!(t.thin(&all, whole, 2).await, thinned(2, 0, None));
    t.reopen().await;
    for run in [whole, ids[0], ids[1], ids[2]] {
        assert_eq!(t.store().run(run).await.unwrap(), None);
    }
    let runs: Vec<u64> = t.store().storage().await.unwrap().iter().map(|bucket| bucket.runs).collect();
    assert_eq!(runs, [0, 0]);
    assert_eq!(t.prune_everything().await, dropped(2, 0));
}

pub(super) async fn no_instant_whose_run_was_removed_runs_again(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (job, other) = (t.job("job", Some(second(60))).await, t.job_of("mail").await);
    let plan = t.step(&leases, job).await;
    let run = plan.runs[0].id;
    t.plan(plan).await;
    t.closed(run, Outcome::Succeeded).await;
    assert_eq!(t.thin(&keep(Timestamp::MIN, "shop", Timestamp::MAX), run, 9).await, thinned(1, 0, None));
    t.reopen().await;
    // An edit in a time that was there before names the same instant again.
    let mut change = t.edit(job).await;
    change.clock.next_fire = Some(second(60));
    t.store().change(change).await.unwrap();
    let again = t.step(&leases, job).await;
    assert_eq!(again.runs[0].fire_time, second(60));
    assert_eq!(t.plan(again).await, Planned::Moved(vec![]));
    let backfill = NewRun { origin: Origin::Backfill, ..t.run(job, second(60)).await };
    let refused = t.store().accept(vec![backfill], vec![]).await;
    assert!(matches!(&refused, Err(StoreError::Conflict(said)) if said.contains("dropped")), "{refused:?}");
    // Of other apps nothing was removed.
    let backfill = NewRun { origin: Origin::Backfill, ..t.run(other, second(60)).await };
    assert_eq!(t.accept(backfill.clone()).await, Accepted::New(backfill.id));
}

pub(super) async fn a_day_in_which_nobody_keeps_anything_is_dropped_whole(t: &mut Subject) {
    let (shop, mail) = (t.job("job", None).await, t.job_of("mail").await);
    let run = t.ended(mail, second(0)).await;
    let shorter = keep(Timestamp::MIN, "mail", Timestamp::MAX);
    let needless = |runs| Keep { needless: BTreeMap::from([(run.day(), runs)]), ..shorter.clone() };
    assert_eq!(t.store().prune(&needless(2)).await.unwrap(), stays(run.day(), 1, 1), "it was another day");
    assert_eq!(t.store().prune(&needless(1)).await.unwrap(), dropped(1, 0));
    t.reopen().await;
    assert_eq!(t.store().run(run).await.unwrap(), None);
    let backfill = |run: NewRun| NewRun { origin: Origin::Backfill, ..run };
    let refused = t.store().accept(vec![backfill(t.run(mail, second(0)).await)], vec![]).await;
    assert!(matches!(&refused, Err(StoreError::Conflict(said)) if said.contains("dropped")), "{refused:?}");
    let kept = backfill(t.run(shop, second(0)).await);
    assert_eq!(t.accept(kept.clone()).await, Accepted::New(kept.id), "who keeps longer has lost nothing");
}

impl Subject {
    /// A job of an app.
    async fn job_of(&self, app: &str) -> JobId {
        let definition = Definition { app: app.into(), ..definition("job") };
        self.create(definition, JobState::Enabled, None).await.job
    }

    /// A one-shot that has succeeded.
    async fn ended(&self, job: JobId, due: Timestamp) -> RunId {
        let run = self.accepted(job, due).await;
        self.closed(run, Outcome::Succeeded).await;
        run
    }

    /// Thins the day of a run, from that run on.
    async fn thin(&self, keep: &Keep, from: RunId, max: usize) -> Thinned {
        self.store().thin(keep, from.day(), from, max).await.unwrap()
    }
}

pub(super) async fn a_node_that_expired_a_day_ago_is_forgotten_unless_it_owns_a_shard(t: &mut Subject) {
    t.renew(A).await;
    t.hold(B, &[0]).await;
    let is_fenced = async |node| {
        let renewed = t.store().renew(t.renewal(node)).await;
        matches!(renewed, Err(StoreError::Fenced(_)))
    };
    t.pass(TERM + DAY - Duration::from_secs(1));
    t.prune_everything().await;
    assert!(is_fenced(A).await && is_fenced(B).await, "a day is not over");
    t.pass(Duration::from_secs(1));
    t.prune_everything().await;
    assert!(is_fenced(B).await, "what it promised for its shard counts");
    assert!(!is_fenced(A).await, "its row is gone, and another may begin under its name");
}

pub(super) async fn changes_that_every_living_node_has_seen_are_forgotten_but_the_last_are_kept(
    t: &mut Subject,
) {
    for name in ["one", "two", "three", "four", "five", "six"] {
        t.job(name, None).await;
    }
    let told = async || {
        let renewed = t.renew(C).await;
        (renewed.changes.iter().map(|(id, _)| id.0).collect::<Vec<u64>>(), renewed.latest)
    };
    let prune = async |changes| {
        t.store().prune(&Keep { changes, ..Keep::since(Timestamp::MIN) }).await.unwrap();
    };
    t.store().renew(Renewal { seen: ChangeId(3), ..t.renewal(A) }).await.unwrap();
    t.store().renew(Renewal { seen: ChangeId(6), ..t.renewal(B) }).await.unwrap();
    prune(4).await;
    assert_eq!(told().await, (vec![3, 4, 5, 6], ChangeId(6)), "the last four");
    t.pass(2 * TERM);
    t.store().renew(Renewal { seen: ChangeId(4), ..t.renewal(D) }).await.unwrap();
    prune(0).await;
    assert_eq!(t.renew(E).await.changes.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [5, 6]);
    t.pass(2 * TERM);
    prune(0).await;
    let job = t.job("seven", None).await;
    let renewed = t.renew(F).await;
    assert_eq!(renewed.latest, ChangeId(7), "numbers go on");
    assert_eq!(renewed.changes.last(), Some(&(ChangeId(7), job)));
}

fn keep(before: Timestamp, app: &'static str, of_app: Timestamp) -> Keep {
    Keep { apps: BTreeMap::from([(app.into(), of_app)]), ..Keep::since(before) }
}

fn thinned(removed: u64, stays: u64, rest: Option<RunId>) -> Thinned {
    Thinned { removed, stays, rest }
}

fn stays(day: u32, runs: u64, closed: u64) -> Pruned {
    Pruned { old: vec![OldDay { day, runs, closed }], ..Pruned::default() }
}

fn dropped(buckets: u32, kept_open: u32) -> Pruned {
    Pruned { buckets, kept_open, old: vec![] }
}

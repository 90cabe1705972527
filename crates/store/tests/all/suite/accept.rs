//! Accepting: numbers for runs, runs that are handed over, and what is left for holders.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Decided, JobId, NewRun, Origin, Outcome, PAYLOAD_MAX, RunId, RunState, ShardId, Then,
};
use punctual_node::ports::{Accepted, ArrivalKind, Planned, RunView, StoreError, Waiting};

use super::subject::{
    A, JOB, KEY_TTL, SHARD, Subject, absurd_instants, close, odd_texts, second, some_overrides, unsent,
};

const MILLISECOND: Duration = Duration::from_millis(1);

pub(super) async fn a_run_is_kept_as_it_was_written(t: &mut Subject) {
    for origin in Origin::ALL {
        for decided in Decided::ALL {
            let number = *origin as i64 * 10 + *decided as i64;
            let run = NewRun {
                shard: ShardId(3),
                fire_time: second(-1 - number),
                origin: *origin,
                decided: *decided,
                priority: 9,
                payload: Some("a".into()),
                key: Some(format!("{origin} {decided}").into()),
                of: Some(RunId(7)),
                ..t.run(JOB, second(number)).await
            };
            assert_eq!(t.accept(run.clone()).await, Accepted::New(run.id));
            t.reopen().await;
            assert_eq!(t.view(run.id).await, as_written(&run));
            let row = t.fetched(run.id).await;
            assert_eq!((row.waiting.origin, row.waiting.decided), (*origin, *decided));
            assert_eq!(row.payload, run.payload);
        }
    }
}

pub(super) async fn a_run_handed_over_again_is_a_duplicate_of_itself(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = NewRun { key: Some("key".into()), ..t.run(JOB, second(1)).await };
    let left = vec![(SHARD, ArrivalKind::Run(run.id)), (SHARD, ArrivalKind::Cancel(run.id))];
    let first = t.store().accept(vec![run.clone()], left.clone()).await.unwrap();
    let again = t.store().accept(vec![run.clone()], left).await.unwrap();
    assert_eq!((first, again), (vec![Accepted::New(run.id)], vec![Accepted::Duplicate(run.id)]));
    assert_eq!(t.loaded(&leases).await, [run.id]);
    assert_eq!(t.store().arrivals(&leases, 10).await.unwrap().len(), 2, "nothing is left twice");
    t.closed(run.id, Outcome::Succeeded).await;
    assert_eq!(t.accept(run.clone()).await, Accepted::Duplicate(run.id), "closed or not");
}

pub(super) async fn a_key_lives_while_its_run_is_open(t: &mut Subject) {
    let first = keyed(t, JOB, "order 7").await;
    t.accept(first.clone()).await;
    t.pass(100 * KEY_TTL);
    t.prune_everything().await;
    t.reopen().await;
    assert_eq!(t.accept(keyed(t, JOB, "order 7").await).await, Accepted::Duplicate(first.id));
    let other = keyed(t, JobId(2), "order 7").await;
    let id = other.id;
    assert_eq!(t.accept(other).await, Accepted::New(id), "of another job");
    let other = keyed(t, JOB, "Order 7").await;
    let id = other.id;
    assert_eq!(t.accept(other).await, Accepted::New(id), "another key");
}

pub(super) async fn a_key_outlives_its_run_for_a_time_and_is_then_free(t: &mut Subject) {
    let first = keyed(t, JOB, "key").await;
    t.accept(first.clone()).await;
    t.pass(Duration::from_secs(5));
    t.closed(first.id, Outcome::Succeeded).await;
    t.pass(KEY_TTL - MILLISECOND);
    t.reopen().await;
    assert_eq!(t.accept(keyed(t, JOB, "key").await).await, Accepted::Duplicate(first.id));
    t.pass(MILLISECOND);
    let second_ = keyed(t, JOB, "key").await;
    assert_eq!(t.accept(second_.clone()).await, Accepted::New(second_.id));
    assert_eq!(t.accept(keyed(t, JOB, "key").await).await, Accepted::Duplicate(second_.id));
    assert_eq!(t.closed(first.id, Outcome::Failed).await, punctual_node::ports::Settled::Stale);
}

pub(super) async fn a_run_that_was_skipped_frees_its_key_like_any_other(t: &mut Subject) {
    let first = keyed(t, JOB, "key").await;
    t.accept(first.clone()).await;
    t.settle(unsent(first.id, 1, Then::Close(close(Outcome::Skipped, t.now())))).await;
    t.pass(KEY_TTL);
    let next = keyed(t, JOB, "key").await;
    assert_eq!(t.accept(next.clone()).await, Accepted::New(next.id));
}

pub(super) async fn an_instant_that_a_schedule_names_is_there_once(t: &mut Subject) {
    let named = |origin, run: NewRun| NewRun { origin, ..run };
    let first = named(Origin::Backfill, t.run(JOB, second(60)).await);
    assert_eq!(t.accept(first.clone()).await, Accepted::New(first.id));
    for origin in [Origin::Backfill, Origin::Schedule] {
        let again = NewRun { due: second(99), ..named(origin, t.run(JOB, second(60)).await) };
        assert_eq!(t.accept(again).await, Accepted::Duplicate(first.id), "{origin}");
    }
    for origin in [Origin::Manual, Origin::OneShot, Origin::Retry, Origin::Parent] {
        let free = named(origin, t.run(JOB, second(60)).await);
        let id = free.id;
        assert_eq!(t.accept(free).await, Accepted::New(id), "{origin}");
    }
    let other = named(Origin::Backfill, t.run(JobId(2), second(60)).await);
    let id = other.id;
    assert_eq!(t.accept(other).await, Accepted::New(id), "another job");
    t.closed(first.id, Outcome::Succeeded).await;
    t.reopen().await;
    let again = named(Origin::Backfill, t.run(JOB, second(60)).await);
    assert_eq!(t.accept(again).await, Accepted::Duplicate(first.id), "closed or not");
}

pub(super) async fn a_planned_instant_is_not_backfilled_again(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let Planned::Moved(planned) = t.plan(t.step(&leases, job).await).await else { panic!("it moves") };
    let backfill = NewRun { origin: Origin::Backfill, ..t.run(job, second(60)).await };
    assert_eq!(t.accept(backfill).await, Accepted::Duplicate(planned[0]));
}

pub(super) async fn an_open_run_is_found_by_the_key_of_its_job(t: &mut Subject) {
    let other = JobId(JOB.0 + 1);
    // A key is a name, and no book.
    for key in odd_texts().into_iter().filter(|text| text.len() < 1_000) {
        let (here, there) = (keyed(t, JOB, &key).await, keyed(t, other, &key).await);
        t.store().accept(vec![here.clone(), there.clone()], Vec::new()).await.unwrap();
        t.reopen().await;
        assert_eq!(t.store().run_keyed(JOB, &key).await.unwrap(), Some(here.id), "{key}");
        assert_eq!(t.store().run_keyed(other, &key).await.unwrap(), Some(there.id), "{key}");
    }
    assert_eq!(t.store().run_keyed(JOB, "nobody's").await.unwrap(), None);
    assert_eq!(t.store().run_keyed(JobId(JOB.0 + 2), &odd_texts()[0]).await.unwrap(), None);
    let (first, next) = (keyed(t, JOB, "again").await, keyed(t, JOB, "again").await);
    t.accept(first.clone()).await;
    t.closed(first.id, Outcome::Succeeded).await;
    t.pass(KEY_TTL + Duration::from_secs(1));
    t.accept(next.clone()).await;
    assert_eq!(t.store().run_keyed(JOB, "again").await.unwrap(), Some(next.id), "who has it now");
}

pub(super) async fn duplicates_within_a_batch_are_found_and_answered_in_order(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let keys = [keyed(t, JOB, "key").await, keyed(t, JOB, "key").await, keyed(t, JOB, "other").await];
    let named = NewRun { origin: Origin::Backfill, ..t.run(JOB, second(60)).await };
    let again = NewRun { id: t.run(JOB, second(60)).await.id, ..named.clone() };
    let batch = [keys[0].clone(), keys[1].clone(), keys[2].clone(), named.clone(), again, keys[2].clone()];
    let said = t.store().accept(batch.to_vec(), Vec::new()).await.unwrap();
    assert_eq!(
        said,
        [
            Accepted::New(keys[0].id),
            Accepted::Duplicate(keys[0].id),
            Accepted::New(keys[2].id),
            Accepted::New(named.id),
            Accepted::Duplicate(named.id),
            Accepted::Duplicate(keys[2].id),
        ]
    );
    assert_eq!(t.loaded(&leases).await, [keys[0].id, keys[2].id, named.id]);
    assert_eq!(t.store().storage().await.unwrap()[0].runs, 3);
}

pub(super) async fn a_duplicate_keeps_nobody_else_out(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (there, fresh) = (keyed(t, JOB, "key").await, t.run(JOB, second(2)).await);
    t.accept(there.clone()).await;
    let batch = vec![keyed(t, JOB, "key").await, fresh.clone()];
    let left = vec![(SHARD, ArrivalKind::Run(fresh.id))];
    let said = t.store().accept(batch, left).await.unwrap();
    assert_eq!(said, [Accepted::Duplicate(there.id), Accepted::New(fresh.id)]);
    assert_eq!(t.store().arrivals(&leases, 10).await.unwrap()[0].kind, ArrivalKind::Run(fresh.id));
}

pub(super) async fn a_duplicate_leaves_no_day_behind(t: &mut Subject) {
    let first = keyed(t, JOB, "key").await;
    t.accept(first.clone()).await;
    let tomorrow = second(0).saturating_add(Duration::from_secs(86_400));
    let again = NewRun { key: Some("key".into()), ..t.run(JOB, tomorrow).await };
    assert_eq!(t.accept(again).await, Accepted::Duplicate(first.id));
    let days: Vec<u32> = t.store().storage().await.unwrap().iter().map(|bucket| bucket.day).collect();
    assert_eq!(days, [first.id.day()]);
    let pruned = t.prune_everything().await;
    assert_eq!((pruned.buckets, pruned.kept_open), (0, 1));
}

pub(super) async fn an_empty_payload_is_not_the_same_as_none(t: &mut Subject) {
    for payload in [Some(""), None] {
        let run = NewRun { payload: payload.map(Into::into), ..t.run(JOB, second(1)).await };
        let id = run.id;
        t.accept(run).await;
        t.reopen().await;
        let row = t.fetched(id).await;
        assert_eq!((row.payload.as_deref(), row.waiting.has_payload), (payload, payload.is_some()));
        assert_eq!(t.view(id).await.payload.as_deref(), payload);
    }
}

pub(super) async fn what_a_run_has_in_place_of_its_jobs_is_kept_beside_its_payload(t: &mut Subject) {
    let longest = format!("\"{}\"", "x".repeat(PAYLOAD_MAX - 2));
    // What looks like the lines that earlier versions wrote is a payload like any other.
    for payload in [None, Some("{\"a\":1}"), Some("!timeout=7\n@e\n{}"), Some(longest.as_str())] {
        for overrides in some_overrides() {
            let run = NewRun {
                payload: payload.map(Into::into),
                overrides: overrides.kept(),
                ..t.run(JOB, second(1)).await
            };
            t.accept(run.clone()).await;
            t.reopen().await;
            let (row, view) = (t.fetched(run.id).await, t.view(run.id).await);
            assert_eq!(row.waiting, Waiting::from(&run));
            assert_eq!(view.overrides, run.overrides);
            assert!(row.payload == run.payload && view.payload == run.payload);
            let outline = t.store().outline(&[run.id]).await.unwrap().remove(0);
            assert_eq!((outline.waiting, outline.payload), (row.waiting, None));
        }
    }
}

pub(super) async fn odd_texts_of_a_run_are_kept(t: &mut Subject) {
    for text in odd_texts() {
        let key: String = text.chars().take(64).collect();
        let run = NewRun {
            payload: Some(text.as_str().into()),
            key: Some(key.clone().into()),
            ..t.run(JOB, second(1)).await
        };
        let id = run.id;
        assert_eq!(t.accept(run).await, Accepted::New(id), "{key:?}");
        assert_eq!(t.fetched(id).await.payload.as_deref(), Some(text.as_str()));
        assert_eq!(t.view(id).await.key.as_deref(), Some(key.as_str()));
        assert_eq!(t.accept(keyed(t, JOB, &key).await).await, Accepted::Duplicate(id), "{key:?}");
    }
}

pub(super) async fn the_longest_payload_is_kept(t: &mut Subject) {
    let payload = "x".repeat(PAYLOAD_MAX);
    let run = NewRun { payload: Some(payload.as_str().into()), ..t.run(JOB, second(1)).await };
    let id = run.id;
    t.accept(run).await;
    t.reopen().await;
    assert!(t.fetched(id).await.payload.as_deref() == Some(payload.as_str()));
}

pub(super) async fn named_instants_of_any_time_are_there_once(t: &mut Subject) {
    for at in absurd_instants() {
        let run = NewRun { origin: Origin::Schedule, ..t.run(JOB, at).await };
        let again = NewRun { id: t.run(JOB, at).await.id, ..run.clone() };
        assert_eq!(t.accept(run.clone()).await, Accepted::New(run.id));
        t.reopen().await;
        assert_eq!(t.accept(again).await, Accepted::Duplicate(run.id), "{at}");
    }
}

pub(super) async fn a_run_can_be_born_on_the_first_and_on_the_last_day(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let mut ids = Vec::new();
    for day in [0, RunId::DAY_MAX] {
        let id = t.accepted(JOB, RunId::day_start(day)).await;
        assert_eq!(id.day(), day);
        ids.push(id);
    }
    assert_eq!(t.loaded(&leases).await, ids);
}

pub(super) async fn numbers_are_given_away_once_ever(t: &mut Subject) {
    let mut given: Vec<(u32, u64, u64)> = Vec::new();
    for (number, count) in [1, 1_000, 7, 1 << 20, 1, 3].into_iter().enumerate() {
        for day in [0, 2_510, RunId::DAY_MAX] {
            let first = t.store().allot(day, count).await.unwrap();
            let is_new =
                |(other, from, to): &(u32, u64, u64)| *other != day || first + count <= *from || *to <= first;
            assert!(given.iter().all(is_new), "{day} {first} {count}: {given:?}");
            given.push((day, first, first + count));
        }
        if number % 2 == 1 {
            t.reopen().await;
        }
    }
}

pub(super) async fn a_day_has_so_many_numbers_and_no_more(t: &mut Subject) {
    let day = 2_510;
    let first = t.store().allot(day, RunId::PER_DAY - 10).await.unwrap();
    assert!(first < 10);
    let refused = t.store().allot(day, 10).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    let refused = t.store().allot(day, u64::MAX).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    let last = t.store().allot(day, 1).await.unwrap();
    assert!(RunId::new(day, last).0 > RunId::new(day, first).0, "the little that is left is still given");
}

pub(super) async fn what_is_left_is_listed_oldest_first_until_it_is_consumed(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = RunId::new(2_510, 1);
    let kinds = [
        ArrivalKind::Reschedule(run, second(7)),
        ArrivalKind::Run(run),
        ArrivalKind::Cancel(run),
        ArrivalKind::Reschedule(run, Timestamp::MIN),
    ];
    for (shard, kind) in [3, 1, 2, 1].into_iter().zip(kinds) {
        t.store().accept(Vec::new(), vec![(ShardId(shard), kind)]).await.unwrap();
    }
    t.reopen().await;
    let left = t.store().arrivals(&leases, 10).await.unwrap();
    assert!(left.windows(2).all(|pair| pair[0].id < pair[1].id), "{left:?}");
    assert_eq!(left.iter().map(|left| left.kind).collect::<Vec<_>>(), kinds);
    assert_eq!(left.iter().map(|left| left.shard.0).collect::<Vec<_>>(), [3, 1, 2, 1]);
    assert_eq!(t.store().arrivals(&leases, 2).await.unwrap(), left[..2]);
    assert_eq!(t.store().arrivals(&leases[..1], 10).await.unwrap(), []);
    assert_eq!(t.store().arrivals(&leases[1..2], 10).await.unwrap(), [left[1], left[3]]);
    for _ in 0..2 {
        t.store().consume(&[left[1].id, left[2].id]).await.unwrap();
        assert_eq!(t.store().arrivals(&leases, 10).await.unwrap(), [left[0], left[3]]);
    }
    t.store().accept(Vec::new(), vec![(ShardId(1), kinds[1])]).await.unwrap();
    let again = t.store().arrivals(&leases, 10).await.unwrap();
    assert_eq!(again.len(), 3, "what was seen to may come again");
    assert!(again[2].id > left[3].id, "with a number of its own");
}

pub(super) async fn a_large_batch_is_written_whole(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let first = t.run(JOB, second(0)).await;
    let (day, count) = (first.id.day(), 5_000);
    let sequence = t.store().allot(day, count).await.unwrap();
    // Backwards, so that the order of arrival is not the order of time.
    let run = |number: u64| NewRun {
        id: RunId::new(day, sequence + number),
        shard: ShardId((number % 4) as u16),
        due: second((count - number) as i64),
        ..first.clone()
    };
    let said = t.store().accept((0..count).map(run).collect(), Vec::new()).await.unwrap();
    assert!(said.iter().all(|said| matches!(said, Accepted::New(_))));
    let loaded = t.store().load(&leases, super::subject::START, Timestamp::MAX, 10_000).await.unwrap();
    let ids: Vec<u64> = loaded.runs.iter().map(|run| run.run.sequence() - sequence).collect();
    assert_eq!(ids, (0..count).rev().collect::<Vec<u64>>());
}

async fn keyed(t: &Subject, job: JobId, key: &str) -> NewRun {
    NewRun { key: Some(key.to_owned().into()), ..t.run(job, second(1)).await }
}

fn as_written(run: &NewRun) -> RunView {
    RunView {
        id: run.id,
        job: run.job,
        shard: run.shard,
        fire_time: run.fire_time,
        due: run.due,
        origin: run.origin,
        state: RunState::Pending,
        reason: "".into(),
        closed_at: None,
        range: None,
        priority: run.priority,
        payload: run.payload.clone(),
        key: run.key.clone(),
        of: run.of,
        ready_at: None,
        attempts: Vec::new(),
        part: None,
        overrides: None,
    }
}

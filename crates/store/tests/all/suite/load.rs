//! Loading: what a holder has to fire, what it has to adopt, what it calls back, and whole runs for sends.

use std::collections::BTreeMap;
use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, Decided, JobId, NewRun, Origin, Outcome, RunId, Settlement, ShardId, Then,
};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Gated, OpenRuns, OpenSend, RunRow, Settled, StoreError, Unpark, Waiting};

use super::subject::{
    A, B, JOB, SHARD, START, Subject, TERM, absurd_instants, close, park, second, sent, some_overrides,
    token, unsent, wait,
};

pub(super) async fn open_runs_come_in_the_order_of_time_and_then_id(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let late = t.accepted(JOB, second(9)).await;
    let first = t.accepted(JOB, second(3)).await;
    let second_ = t.accepted(JOB, second(3)).await;
    let early = t.accepted(JOB, second(1)).await;
    assert_eq!(t.loaded(&leases).await, [early, first, second_, late]);
}

pub(super) async fn the_open_runs_of_a_job_are_found_stretch_by_stretch(t: &mut Subject) {
    let (one, two) = (t.job("one", None).await, t.job("two", None).await);
    // Soon, in a month and in years: on days of all kinds.
    let mut ids = Vec::new();
    for day in [0, 1, 30, 400, 4_000] {
        ids.push(t.accepted(one, second(day * 86_400)).await);
        t.accepted(two, second(day * 86_400)).await;
    }
    t.closed(ids[1], Outcome::Cancelled).await;
    t.reopen().await;
    let open: Vec<RunId> = ids.iter().copied().filter(|id| *id != ids[1]).collect();
    for max in [1, 2, 3, 5, 6] {
        let (mut found, mut after) = (Vec::new(), RunId::default());
        loop {
            let stretch = t.store().open_runs(one, after, max).await.unwrap();
            found.extend(stretch.runs);
            let Some(rest) = stretch.rest else { break };
            assert!(after < rest, "a step forward");
            after = rest;
        }
        assert_eq!(found, open, "{max} at a time");
    }
    assert_eq!(t.store().open_runs(JobId(99), RunId::default(), 10).await.unwrap(), OpenRuns::default());
}

pub(super) async fn what_is_loaded_says_all_that_the_wheel_needs(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let bare = t.run(JOB, second(1)).await;
    let full = NewRun {
        shard: ShardId(3),
        fire_time: second(-7),
        origin: Origin::Retry,
        decided: Decided::CaughtUp,
        priority: 9,
        payload: Some("{}".into()),
        ..t.run(JOB, second(2)).await
    };
    t.store().accept(vec![bare.clone(), full.clone()], Vec::new()).await.unwrap();
    let of = |run: &NewRun, has_payload| Waiting {
        run: run.id,
        job: run.job,
        shard: run.shard,
        fire_time: run.fire_time,
        ready_at: run.due,
        attempt: Attempt::FIRST,
        priority: run.priority,
        origin: run.origin,
        decided: run.decided,
        has_payload,
        is_called_back: false,
        overrides: None,
    };
    assert_eq!(t.load(&leases).await.runs, [of(&bare, false), of(&full, true)]);
}

pub(super) async fn reading_begins_at_the_place_it_is_told_and_ends_before_until(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let mut ids = Vec::new();
    for due in [1, 2, 2, 2, 3, 4] {
        ids.push(t.accepted(JOB, second(due)).await);
    }
    let load = async |from, until| {
        let loaded = t.store().load(&leases, from, until, 10).await.unwrap();
        assert_eq!(loaded.rest, None);
        loaded.runs.iter().map(|run| run.run).collect::<Vec<RunId>>()
    };
    let from = |run: usize, due| Mark { due: second(due), id: ids[run].0 };
    assert_eq!(load(from(2, 2), second(4)).await, ids[2..5]);
    assert_eq!(load(Mark { id: ids[3].0 + 1, ..from(3, 2) }, second(4)).await, ids[4..5]);
    assert_eq!(load(Mark { due: second(2), id: 0 }, second(3)).await, ids[1..4]);
    assert_eq!(load(from(2, 2), second(2)).await, []);
    assert_eq!(load(from(2, 2), second(1)).await, []);
}

pub(super) async fn cut_short_the_rest_begins_exactly_where_reading_ended(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let mut runs = Vec::new();
    for number in 0..23_u16 {
        // Most share an instant, some wait for it instead of being born for it.
        let (shard, due) = (ShardId(number % 4), second(i64::from(number / 10)));
        runs.push(NewRun { shard, ..t.run(JOB, due).await });
    }
    t.store().accept(runs.clone(), Vec::new()).await.unwrap();
    for run in runs.iter().filter(|run| run.id.sequence() % 3 == 0) {
        let settlement = unsent(run.id, 1, wait(1, 1));
        t.store().settle(vec![Settlement { shard: run.shard, ..settlement }]).await.unwrap();
    }
    let whole = t.loaded(&leases).await;
    assert_eq!(whole.len(), runs.len());
    for max in [1, 2, 7, 22, 23] {
        let (mut found, mut from) = (Vec::new(), Some(START));
        while let Some(mark) = from {
            let loaded = t.store().load(&leases, mark, second(10), max).await.unwrap();
            assert!(loaded.runs.len() <= max);
            let next = whole.get(found.len() + loaded.runs.len());
            assert_eq!(loaded.rest.map(|rest| RunId(rest.id)), next.copied(), "the first that was not read");
            found.extend(loaded.runs.iter().map(|run| run.run));
            from = loaded.rest;
        }
        assert_eq!(found, whole, "{max} at a time");
    }
}

pub(super) async fn only_the_runs_of_the_shards_that_are_asked_for_come(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    for shard in [2, 1] {
        let run = NewRun { shard: ShardId(shard), ..t.run(JOB, second(1)).await };
        let id = run.id;
        t.accept(run).await;
        assert_eq!(t.loaded(&[leases[usize::from(shard)]]).await, [id]);
    }
    assert_eq!(t.loaded(&[leases[0], leases[3]]).await, []);
    assert_eq!(t.loaded(&[]).await, []);
}

pub(super) async fn nothing_is_loaded_or_adopted_under_a_lease_that_is_not_current(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let fenced = async |leases: &[_]| {
        let loaded = t.store().load(leases, START, second(9), 9).await;
        assert!(matches!(loaded, Err(StoreError::Fenced(_))), "{loaded:?}");
        let adopted = t.store().adopt(leases).await;
        assert!(matches!(adopted, Err(StoreError::Fenced(_))), "{adopted:?}");
    };
    t.store().release(A, vec![leases[0]], second(0)).await.unwrap();
    fenced(&leases[..1]).await;
    fenced(&leases).await;
    t.hold(B, &[0]).await;
    fenced(&leases[..1]).await;
    assert_eq!(t.loaded(&leases[1..]).await, [], "the others are still good");
    t.pass(TERM);
    fenced(&leases[1..]).await;
}

pub(super) async fn what_is_closed_is_not_loaded(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    let other = t.accepted(JOB, second(2)).await;
    t.closed(run, Outcome::Succeeded).await;
    assert_eq!(t.loaded(&leases).await, [other]);
    t.reopen().await;
    assert_eq!(t.loaded(&leases).await, [other]);
}

pub(super) async fn what_a_gate_has_is_adopted_and_not_loaded(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    let other = t.accepted(JOB, second(2)).await;
    t.gated(run, 1, 5).await;
    assert_eq!(t.loaded(&leases).await, [other]);
    let sends = t.adopted(&leases).await.sends;
    let Gated::Through(log) = t.gated(run, 1, 5).await else { panic!("it is through") };
    let expected = OpenSend {
        run: Waiting { ready_at: second(1), attempt: Attempt(1), ..t.fetched(run).await.waiting },
        token: token(1, 5),
        log,
        sent_at: second(1),
        executor: "executor-5".into(),
        retry: None,
        join: None,
    };
    assert_eq!(sends, [expected]);
    t.reopen().await;
    assert_eq!(t.adopted(&leases).await.sends, sends);
}

pub(super) async fn a_closed_run_is_not_adopted_though_its_gate_outlives_it(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    t.gated(run, 1, 5).await;
    t.closed(run, Outcome::Succeeded).await;
    assert_eq!(t.adopted(&leases).await.sends, []);
    assert_eq!(t.loaded(&leases).await, []);
}

pub(super) async fn a_run_that_waits_is_found_by_the_instant_it_waits_for(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    let other = t.accepted(JOB, second(5)).await;
    t.settle(unsent(run, 1, wait(9, 1))).await;
    assert_eq!(t.loaded(&leases).await, [other, run]);
    let waiting = t.load(&leases).await.runs.remove(1);
    assert_eq!((waiting.ready_at, waiting.attempt), (second(9), Attempt(1)), "put off, not tried");
    t.settle(unsent(run, 1, wait(-9, 1))).await;
    assert_eq!(t.loaded(&leases).await, [run, other]);
    let before = t.store().load(&leases, START, second(-9), 9).await.unwrap();
    assert_eq!(before.runs, []);
}

pub(super) async fn between_two_attempts_without_a_gate_a_run_is_loaded_with_the_next(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    t.settle(sent(run, 1, wait(30, 2))).await;
    t.reopen().await;
    let waiting = t.load(&leases).await.runs;
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].ready_at, waiting[0].attempt), (second(30), Attempt(2)));
    assert_eq!(t.adopted(&leases).await.sends, []);
}

pub(super) async fn between_two_attempts_with_a_gate_a_run_is_adopted_with_the_next(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let run = t.accepted(JOB, second(1)).await;
    t.gated(run, 1, 5).await;
    t.settle(sent(run, 1, wait(30, 2))).await;
    assert_eq!(t.loaded(&leases).await, []);
    let sends = t.adopted(&leases).await.sends;
    assert_eq!(sends.len(), 1);
    assert_eq!((sends[0].run.attempt, sends[0].token), (Attempt(1), token(1, 5)));
    assert_eq!(sends[0].retry, Some((second(30), Attempt(2))));
    t.gated(run, 2, 6).await;
    let sends = t.adopted(&leases).await.sends;
    assert_eq!((sends[0].run.attempt, sends[0].token), (Attempt(2), token(2, 6)));
    assert_eq!(sends[0].retry, None, "it is on its way");
}

pub(super) async fn a_parked_run_is_not_loaded_and_its_job_is_told_to_who_adopts(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let run = t.accepted(job, second(1)).await;
    let tried = t.accepted(job, second(2)).await;
    t.gated(tried, 1, 5).await;
    assert_eq!(
        t.settle(unsent(run, 1, park(1, 1))).await,
        Settled::Done { consecutive_failures: 0, is_over: false, joined: None }
    );
    assert_eq!(
        t.settle(sent(tried, 1, park(2, 1))).await,
        Settled::Done { consecutive_failures: 0, is_over: false, joined: None }
    );
    t.reopen().await;
    assert_eq!(t.loaded(&leases).await, []);
    let adopted = t.adopted(&leases).await;
    assert_eq!((adopted.sends, adopted.parked), (vec![], vec![(SHARD, job)]));
}

pub(super) async fn parking_is_refused_if_the_job_was_changed_meanwhile(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let run = t.accepted(job, second(1)).await;
    t.store().change(t.edit(job).await).await.unwrap();
    assert_eq!(t.settle(unsent(run, 1, park(1, 1))).await, Settled::Stale);
    assert_eq!(t.loaded(&leases).await, [run]);
    assert_eq!(
        t.settle(unsent(run, 1, park(1, 2))).await,
        Settled::Done { consecutive_failures: 0, is_over: false, joined: None }
    );
    assert_eq!(t.loaded(&leases).await, []);
}

pub(super) async fn the_earliest_parked_runs_are_called_back_first(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let mut ids = Vec::new();
    for due in [3, 1, 2, 1] {
        let run = t.accepted(job, second(due)).await;
        t.settle(unsent(run, 1, park(1, 1))).await;
        ids.push(run);
    }
    let elsewhere = NewRun { shard: ShardId(1), ..t.run(job, second(0)).await };
    let (id, settlement) = (elsewhere.id, unsent(elsewhere.id, 1, park(1, 1)));
    t.accept(elsewhere).await;
    t.settle(Settlement { shard: ShardId(1), ..settlement }).await;
    let unpark = async |max| {
        let called = t.store().unpark(&Unpark::of(leases[0], job, max, second(50))).await.unwrap();
        called.into_iter().map(|(_, run)| run).collect::<Vec<_>>()
    };
    assert_eq!(unpark(0).await, []);
    assert_eq!(unpark(2).await, [ids[1], ids[3]]);
    assert_eq!(t.loaded(&leases).await, [ids[1], ids[3]]);
    assert!(t.load(&leases).await.runs.iter().all(|run| run.ready_at == second(50)));
    assert!(t.fetched(ids[2]).await.is_parked);
    assert_eq!(unpark(9).await, [ids[2], ids[0]]);
    assert!(!t.fetched(ids[2]).await.is_parked);
    assert!(t.load(&leases).await.runs.iter().all(|run| run.is_called_back));
    assert_eq!(unpark(9).await, []);
    assert_eq!(t.adopted(&leases).await.parked, [(ShardId(1), job)]);
    assert!(!t.loaded(&leases).await.contains(&id));
}

pub(super) async fn parked_runs_of_many_jobs_are_called_back_by_due_time_in_one_call(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (one, other, left) =
        (t.job("one", None).await, t.job("other", None).await, t.job("left", None).await);
    let mut ids = Vec::new();
    for (job, due) in [(one, 4), (other, 3), (one, 1), (other, 2), (one, 5), (left, 0)] {
        let run = t.accepted(job, second(due)).await;
        t.settle(Settlement { job, ..unsent(run, 1, park(1, 1)) }).await;
        ids.push(run);
    }
    let unpark = async |jobs: &[(JobId, usize)], max| {
        let unpark = Unpark { lease: leases[0], jobs: jobs.to_vec(), max, at: second(50) };
        t.store().unpark(&unpark).await.unwrap()
    };
    assert_eq!(unpark(&[], 9).await, []);
    assert_eq!(unpark(&[(one, 9), (other, 9)], 3).await, [(one, ids[2]), (other, ids[3]), (other, ids[1])]);
    assert_eq!(unpark(&[(one, 1), (other, 9)], 9).await, [(one, ids[0])]);
    assert_eq!(unpark(&[(other, 9), (one, 9)], 9).await, [(one, ids[4])]);
    assert!(t.fetched(ids[5]).await.is_parked);
    assert_eq!(t.loaded(&leases).await.len(), 5);
}

pub(super) async fn nothing_is_called_back_under_a_lease_that_is_not_current(t: &mut Subject) {
    let stale = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let run = t.accepted(job, second(1)).await;
    t.settle(unsent(run, 1, park(1, 1))).await;
    let leases = t.hold_all(A).await;
    let refused = t.store().unpark(&Unpark::of(stale[0], job, 9, second(5))).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    assert_eq!(t.loaded(&leases).await, []);
}

pub(super) async fn a_parked_run_that_has_a_gate_is_adopted_once_it_is_called_back(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", None).await;
    let run = t.accepted(job, second(1)).await;
    t.gated(run, 1, 5).await;
    t.settle(sent(run, 1, park(2, 1))).await;
    let called = t.store().unpark(&Unpark::of(leases[0], job, 9, second(5))).await.unwrap();
    assert_eq!(called, [(job, run)]);
    assert_eq!(t.loaded(&leases).await, []);
    let adopted = t.adopted(&leases).await;
    assert_eq!(adopted.sends[0].retry, Some((second(5), Attempt(2))));
    assert_eq!(adopted.parked, []);
}

pub(super) async fn whole_runs_are_fetched_with_what_they_bring_and_what_they_wait_for(t: &mut Subject) {
    t.hold_all(A).await;
    let payload: Arc<str> = "{\"order\": 7}".into();
    let run = NewRun { payload: Some(Arc::clone(&payload)), ..t.run(JOB, second(1)).await };
    let id = run.id;
    t.accept(run).await;
    let row = t.fetched(id).await;
    let RunRow { waiting, payload: brought, is_gated, is_closed, is_parked, part } = row;
    assert_eq!((waiting.run, waiting.ready_at, waiting.attempt), (id, second(1), Attempt(1)));
    assert_eq!((brought, is_gated, is_closed, is_parked, part), (Some(payload), false, false, false, None));
    t.settle(sent(id, 1, wait(30, 2))).await;
    let waiting = t.fetched(id).await.waiting;
    assert_eq!((waiting.ready_at, waiting.attempt), (second(30), Attempt(2)));
    t.gated(id, 2, 5).await;
    assert!(t.fetched(id).await.is_gated);
    t.settle(sent(id, 2, Then::Close(close(Outcome::Failed, second(31))))).await;
    let row = t.fetched(id).await;
    assert!(row.is_closed && row.is_gated);
    assert_eq!(t.store().fetch(&[RunId(1), id, RunId(u64::MAX >> 11)]).await.unwrap().len(), 1);
    assert_eq!(t.store().fetch(&[]).await.unwrap(), []);
}

pub(super) async fn a_run_keeps_what_it_has_in_place_of_its_jobs_wherever_it_waits(t: &mut Subject) {
    t.hold_all(A).await;
    let job = t.job("job", None).await;
    let mut runs = Vec::new();
    for day in [0, 1, 30, 400] {
        for overrides in some_overrides() {
            // One that was born, one that was put off, one that is called back, one on its way, one between two attempts.
            for _ in 0..5 {
                let overrides = overrides.clone().kept();
                let run = NewRun { overrides, ..t.run(job, second(day * 86_400)).await };
                t.accept(run.clone()).await;
                runs.push(run);
            }
        }
    }
    for ids in runs.iter().map(|run| run.id).collect::<Vec<RunId>>().chunks(5) {
        t.settle(unsent(ids[1], 1, wait(30, 1))).await;
        t.settle(unsent(ids[2], 1, park(1, 1))).await;
        t.gated(ids[3], 1, 5).await;
        t.settle(sent(ids[4], 1, wait(40, 2))).await;
    }
    t.reopen().await;
    let leases = t.hold_all(A).await;
    let all = Unpark { lease: leases[0], jobs: vec![(job, 999)], max: 999, at: second(9) };
    assert_eq!(t.store().unpark(&all).await.unwrap().len(), runs.len() / 5);
    let mut found: BTreeMap<RunId, Waiting> = BTreeMap::new();
    found.extend(t.load(&leases).await.runs.into_iter().map(|run| (run.run, run)));
    found.extend(t.adopted(&leases).await.sends.into_iter().map(|open| (open.run.run, open.run)));
    let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    let fetched = t.store().fetch(&ids).await.unwrap();
    let fetched: BTreeMap<RunId, RunRow> = fetched.into_iter().map(|row| (row.waiting.run, row)).collect();
    for (place, run) in runs.iter().enumerate() {
        let id = run.id;
        assert_eq!(found.get(&id).map(|run| &run.overrides), Some(&run.overrides), "{} of five", place % 5);
        assert_eq!(fetched[&id].waiting.overrides, run.overrides, "{} of five", place % 5);
        t.closed(id, Outcome::Cancelled).await;
        assert_eq!(t.view(id).await.overrides, run.overrides);
    }
}

pub(super) async fn an_outline_says_all_but_what_a_run_brings(t: &mut Subject) {
    let job = t.job("job", None).await;
    let bare = t.accepted(job, second(1)).await;
    let laden = NewRun { payload: Some("p".repeat(100_000).into()), ..t.run(job, second(2)).await };
    let laden_id = laden.id;
    t.accept(laden).await;
    t.gated(bare, 1, 5).await;
    t.settle(sent(bare, 1, wait(9, 2))).await;
    let closed = t.accepted(job, second(3)).await;
    t.closed(closed, Outcome::Succeeded).await;
    let ids = [bare, laden_id, closed, RunId(1)];
    let mut outlines = t.store().outline(&ids).await.unwrap();
    let mut whole = t.store().fetch(&ids).await.unwrap();
    assert!(whole.iter().any(|row| row.payload.is_some()));
    whole.iter_mut().for_each(|row| row.payload = None);
    outlines.sort_by_key(|row| row.waiting.run);
    whole.sort_by_key(|row| row.waiting.run);
    assert_eq!(outlines, whole);
    assert_eq!(outlines.len(), 3, "and nothing of one that is not there");
}

pub(super) async fn runs_of_absurd_instants_are_loaded_in_order(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let instants = absurd_instants();
    let mut ids = Vec::new();
    for due in &instants {
        ids.push(t.accepted(JOB, *due).await);
    }
    let before_the_last = ids.len() - 1;
    assert_eq!(t.loaded(&leases).await, ids[..before_the_last], "nothing is before the end of time but that");
    t.reopen().await;
    for (id, due) in ids.iter().zip(&instants) {
        let view = t.view(*id).await;
        assert_eq!((view.fire_time, view.due), (*due, *due));
        assert_eq!(t.fetched(*id).await.waiting.ready_at, *due);
    }
    let from = Mark { due: instants[1], id: 0 };
    let loaded = t.store().load(&leases, from, Timestamp::MAX, 1).await.unwrap();
    assert_eq!(loaded.rest, Some(Mark { due: instants[2], id: ids[2].0 }));
}

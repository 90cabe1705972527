//! Lists of a store that is large: every page is a bounded step, and all pages together are whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use calendar::Timestamp;
use punctual_core::model::{JobId, NewRun, RunId, RunState, ScheduleKind};
use punctual_node::ports::{Browse, JobFilter, RunFilter, Store};
use punctual_store::sqlite::{Limits, Options, Sqlite};
use rusqlite::Connection;

use crate::sqlite_support::{Folder, block_on, create, definition, one_shot, options, second};

/// A store with so many jobs of the app `app`, every thousandth of the app `other`.
fn with_jobs(count: u32, options: Options, check: impl AsyncFnOnce(&Sqlite)) {
    let folder = Folder::new();
    let store = Sqlite::open(&folder.database(), options.clone()).unwrap();
    block_on(create(&store, definition("job 1", ScheduleKind::Manual), None));
    drop(store);
    let conn = Connection::open(folder.database()).unwrap();
    let copied = conn.execute(
        "with recursive numbers (id) as (select 2 union all select id + 1 from numbers where id < ?1)
         insert into jobs (id, version, changed_at, state, reason, app, name, definition)
         select numbers.id, version, changed_at, state, reason, iif(numbers.id % 1000 = 0, 'other', app),
                'job ' || numbers.id,
                iif(numbers.id % 1000 = 0, json_set(definition, '$.app', 'other'), definition)
         from numbers, jobs
         where jobs.id = 1",
        [count],
    );
    assert_eq!(copied.unwrap(), count as usize - 1);
    conn.execute(
        "insert or ignore into clocks (job, shard, version, enabled, decided_to, reserved_to)
         select id, 0, 1, 1, 0, 0
         from jobs",
        [],
    )
    .unwrap();
    drop(conn);
    let store = Sqlite::open(&folder.database(), options).unwrap();
    block_on(check(&store));
}

fn of(app: &str) -> Option<Vec<String>> {
    Some(vec![app.to_owned()])
}

/// All runs, and how many pages they took.
async fn runs(store: &Sqlite, filter: &RunFilter, limit: usize) -> (Vec<RunId>, usize) {
    let (mut found, mut pages, mut before) = (Vec::new(), 0, None);
    loop {
        let page = store.run_list(filter, before, limit).await.unwrap();
        found.extend(page.items.iter().map(|run| run.id));
        pages += 1;
        assert!(page.next.is_none_or(|next| before.is_none_or(|before| next < before)), "a step forward");
        before = page.next;
        if before.is_none() {
            return (found, pages);
        }
    }
}

/// All jobs, and how many pages they took.
async fn jobs(store: &Sqlite, filter: &JobFilter, limit: usize) -> (Vec<JobId>, usize) {
    let (mut found, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = store.job_list(filter, after, limit).await.unwrap();
        found.extend(page.items.iter().map(|job| job.id));
        pages += 1;
        assert!(page.next.is_none_or(|next| after.is_none_or(|after| next > after)), "a step forward");
        after = page.next;
        if after.is_none() {
            return (found, pages);
        }
    }
}

/// A clock by which every look at it takes a second.
fn hasty() -> Options {
    let now = AtomicI64::new(second(0).as_millis());
    let clock = Arc::new(move || Timestamp::from_millis(now.fetch_add(1_000, Ordering::SeqCst)));
    Options { clock, ..options(Limits::default()) }
}

#[test]
fn jobs_and_runs_of_an_app_with_thousands_of_jobs_are_found() {
    with_jobs(9_000, options(Limits::default()), async |store| {
        let run = |number: u64| NewRun { job: JobId(number as u32 * 10), ..one_shot(number, second(0)) };
        store.accept((1..=900).map(run).collect(), Vec::new()).await.unwrap();
        let is_other = |run: &RunId| run.sequence().is_multiple_of(100);
        let all = runs(store, &RunFilter::default(), 70).await.0;
        assert_eq!(all.len(), 900);
        let expected = |others: bool| -> Vec<RunId> {
            all.iter().copied().filter(|run| is_other(run) == others).collect()
        };
        let of_app = |app: &str| RunFilter { apps: of(app), ..RunFilter::default() };
        assert_eq!(runs(store, &of_app("app"), 70).await.0, expected(false));
        assert_eq!(runs(store, &of_app("other"), 70).await.0, expected(true));
        let one = RunFilter { job: Some(JobId(1_000)), ..of_app("app") };
        assert_eq!(runs(store, &one, 70).await, (Vec::new(), 1), "of the other app");
        let filter = JobFilter { apps: of("other"), ..JobFilter::default() };
        let others: Vec<JobId> = (1..=9).map(|number| JobId(number * 1_000)).collect();
        assert_eq!(jobs(store, &filter, 5).await, (others, 2));
        let filter = JobFilter { apps: Some(vec!["other".into(), "app".into()]), ..JobFilter::default() };
        let all: Vec<JobId> = (1..=9_000).map(JobId).collect();
        assert_eq!(jobs(store, &filter, 1_700).await.0, all, "more than one chunk a page");
    });
}

#[test]
fn the_runs_of_a_job_are_found_without_looking_at_those_of_others() {
    // Every look takes so long that a page is over after the first few hundred rows.
    with_jobs(2, hasty(), async |store| {
        let first = NewRun { job: JobId(2), ..one_shot(1, second(0)) };
        let others = (2..=4_000).map(|id| one_shot(id, second(0)));
        store.accept([first.clone()].into_iter().chain(others).collect(), Vec::new()).await.unwrap();
        let of_job = RunFilter { job: Some(JobId(2)), ..RunFilter::default() };
        let page = store.run_list(&of_job, None, 1).await.unwrap();
        assert_eq!(page.items.iter().map(|run| run.id).collect::<Vec<_>>(), [first.id], "on the first page");
    });
}

#[test]
fn a_page_that_takes_too_long_is_handed_out_as_it_is_with_the_place_to_go_on_from() {
    with_jobs(2_000, hasty(), async |store| {
        store.accept((1..=2_000).map(|id| one_shot(id, second(0))).collect(), Vec::new()).await.unwrap();
        let none = RunFilter { state: Some(RunState::Failed), ..RunFilter::default() };
        let (found, pages) = runs(store, &none, 10).await;
        assert!(found.is_empty() && pages > 5, "{pages} pages");
        let (found, pages) = runs(store, &RunFilter::default(), 1_000).await;
        assert!(found.len() == 2_000 && pages > 5, "{pages} pages");
        let none = JobFilter { tag: Some("none".into()), ..JobFilter::default() };
        let (found, pages) = jobs(store, &none, 10).await;
        assert!(found.is_empty() && pages > 5, "{pages} pages");
        let (found, _) = jobs(store, &JobFilter { apps: of("other"), ..JobFilter::default() }, 10).await;
        assert_eq!(found, [JobId(1_000), JobId(2_000)]);
    });
}

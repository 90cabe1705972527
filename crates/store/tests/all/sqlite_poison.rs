//! Rows that hold what cannot be: only they are affected.

use std::path::Path;
use std::time::Duration;

use calendar::{Gap, Overlap, Timestamp};
use punctual_core::model::{
    Attempt, Epoch, JobId, NewRun, Origin, Outcome, Part, RunId, ScheduleKind, Settlement, Then, Token,
};
use punctual_core::registry::Dialect;
use punctual_node::ports::{
    AppRow, Apps, Beat, Browse, Door, Gate, JobFilter, Lease, RunFilter, Settled, Split, Store, StoreError,
    TokenRow,
};
use punctual_store::sqlite::{Limits, Sqlite};
use rusqlite::Connection;

use crate::sqlite_support::{
    Folder, START, block_on, close, create, definition, hold_all, one_shot, options, second, sent,
};

fn open(path: &Path) -> Sqlite {
    Sqlite::open(path, options(Limits::default())).unwrap()
}

/// Writes into the closed file as anybody could.
fn poison(path: &Path, sql: &str) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(sql).unwrap();
    assert!(conn.total_changes() > 0, "{sql}");
}

fn every(interval: Duration) -> ScheduleKind {
    ScheduleKind::Every { interval, anchor: second(0) }
}

/// Three jobs that are due; the second is then poisoned.
fn with_jobs(sql: &str, check: impl AsyncFnOnce(&Sqlite)) {
    let folder = Folder::new();
    let store = open(&folder.database());
    block_on(async {
        for name in ["one", "two", "three"] {
            create(&store, definition(name, every(Duration::from_secs(60))), Some(second(0))).await;
        }
    });
    drop(store);
    poison(&folder.database(), sql);
    let store = open(&folder.database());
    block_on(check(&store));
}

async fn due(store: &Sqlite) -> Vec<u32> {
    let leases = hold_all(store, 1).await;
    store.due(&leases, second(0), 10).await.unwrap().iter().map(|clock| clock.job.0).collect()
}

#[test]
fn a_definition_that_is_no_json_is_told_of_that_job_alone() {
    for garbage in ["", "{", "null", "[]", "{\"app\":1}"] {
        with_jobs(&format!("update jobs set definition = '{garbage}' where id = 2"), async |store| {
            let rows = store.jobs(&[JobId(1), JobId(2), JobId(3)]).await.unwrap();
            assert_eq!(rows.len(), 3);
            for (id, row) in rows {
                match row {
                    Ok(row) => assert_eq!(row.id, id),
                    Err(StoreError::Corrupt { what, .. }) => {
                        assert_eq!((what.as_ref(), id), ("jobs row 2", JobId(2)))
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(due(store).await, [1, 2, 3], "the clock is as it was: whoever plans it finds out");
            assert!(matches!(store.job(JobId(2)).await, Err(StoreError::Corrupt { .. })));
            let listed = store.job_list(&JobFilter::default(), None, 10).await.unwrap();
            assert_eq!(listed.items.iter().map(|job| job.id.0).collect::<Vec<u32>>(), [1, 3]);
        });
    }
}

#[test]
fn text_that_is_no_text_is_told_of_that_job_alone() {
    with_jobs("update jobs set definition = cast(x'ff00fe' as text) where id = 2", async |store| {
        let rows = store.jobs(&[JobId(1), JobId(2), JobId(3)]).await.unwrap();
        let unreadable: Vec<u32> = rows.iter().filter(|(_, row)| row.is_err()).map(|(id, _)| id.0).collect();
        assert_eq!(unreadable, [2]);
    });
}

#[test]
fn a_state_or_a_shard_that_cannot_be_is_told_of_that_job_alone() {
    for sql in ["update jobs set state = 77 where id = 2", "update clocks set shard = -1 where job = 2"] {
        with_jobs(sql, async |store| {
            let rows = store.jobs(&[JobId(1), JobId(2), JobId(3)]).await.unwrap();
            let unreadable: Vec<u32> =
                rows.iter().filter(|(_, row)| row.is_err()).map(|(id, _)| id.0).collect();
            assert_eq!(unreadable, [2], "{sql}");
            assert!(due(store).await.starts_with(&[1]));
        });
    }
}

#[test]
fn an_absurd_next_fire_time_does_not_keep_the_others_from_being_due() {
    for (next_fire, expected) in [(i64::MIN, vec![2, 1, 3]), (-1, vec![2, 1, 3]), (i64::MAX, vec![1, 3])] {
        with_jobs(&format!("update clocks set next_fire = {next_fire} where job = 2"), async |store| {
            assert_eq!(due(store).await, expected, "{next_fire}");
        });
    }
    with_jobs(
        "insert into clocks select -5, shard, next_fire, version, enabled, decided_to, reserved_to from clocks where job = 2",
        async |store| {
            assert_eq!(due(store).await, [1, 2, 3], "a clock of no job");
        },
    );
}

#[test]
fn a_schedule_that_means_nothing_is_handed_over_for_the_engine_to_judge() {
    let folder = Folder::new();
    let store = open(&folder.database());
    let nowhere = ScheduleKind::Cron {
        expression: "* * * * *".into(),
        dialect: calendar::Dialect::Unix,
        zone: "Nowhere/Land".into(),
        gap: Gap::default(),
        overlap: Overlap::default(),
    };
    block_on(async {
        for (name, kind) in [("never", every(Duration::ZERO)), ("nowhere", nowhere)] {
            let definition = definition(name, kind);
            let job = create(&store, definition.clone(), Some(second(0))).await.job;
            let rows = store.jobs(&[job]).await.unwrap();
            assert_eq!(rows[0].1.as_ref().unwrap().definition, definition);
        }
    });
}

#[test]
fn runs_that_cannot_be_read_are_left_out_and_the_others_go_on() {
    let folder = Folder::new();
    let day = RunId::day_of(second(0));
    for (column, value) in [("job", -1), ("shard", 70_000), ("origin", 9), ("decided", -3), ("priority", 999)]
    {
        let path = folder.database().with_extension(column);
        let store = open(&path);
        let runs: Vec<_> = (1..=3).map(|sequence| one_shot(sequence, second(0))).collect();
        let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
        block_on(store.accept(runs, Vec::new())).unwrap();
        drop(store);
        // With the index gone the rows are read when the file is opened, as after a crash.
        poison(&path, &format!("update runs_{day} set {column} = {value} where id = {}", ids[1]));
        poison(&path, "delete from layers; update buckets set due_mark = 0");
        let store = open(&path);
        block_on(async {
            let leases = hold_all(&store, 1).await;
            let loaded = store.load(&leases, START, Timestamp::MAX, 10).await.unwrap();
            let found: Vec<RunId> = loaded.runs.iter().map(|run| run.run).collect();
            assert_eq!(found, [ids[0], ids[2]], "{column}");
            let fetched = store.fetch(&ids).await.unwrap();
            let found: Vec<RunId> = fetched.iter().map(|row| row.waiting.run).collect();
            assert_eq!(found, [ids[0], ids[2]], "{column}");
            assert!(matches!(store.run(ids[1]).await, Err(StoreError::Corrupt { .. })), "{column}");
            let listed = store.run_list(&RunFilter::default(), None, 10).await.unwrap();
            assert_eq!(
                listed.items.iter().map(|run| run.id).collect::<Vec<_>>(),
                [ids[2], ids[0]],
                "{column}"
            );
            // It can still be closed, which is how a person gets rid of it.
            let settled = store.settle(vec![sent(ids[1], 1, Then::Close(close(Outcome::Cancelled)))]).await;
            assert!(matches!(settled.unwrap()[..], [Settled::Done { .. }]), "{column}");
        });
    }
}

#[test]
fn an_app_or_executor_that_cannot_be_read_does_not_take_the_others_with_it() {
    let folder = Folder::new();
    let store = open(&folder.database());
    let beat = |app: &'static str| Beat { app: app.into(), address: "a".into(), dialect: Dialect::Native };
    block_on(store.beat(["one", "two", "three"].map(beat).to_vec())).unwrap();
    drop(store);
    poison(
        &folder.database(),
        "update apps set addresses = '[1]' where name = 'one';
         update executors set dialect = 'klingon' where app = 'two';",
    );
    let store = open(&folder.database());
    block_on(async {
        let registered = store.registered().await.unwrap();
        let apps: Vec<_> = registered.apps.iter().map(|app| app.name.as_ref()).collect();
        let executors: Vec<_> = registered.executors.iter().map(|row| row.app.as_ref()).collect();
        assert_eq!((apps, executors), (vec!["three", "two"], vec!["one", "three"]));
        // Saying it anew mends it.
        store.beat(vec![beat("two")]).await.unwrap();
        let told = AppRow { name: "one".into(), addresses: None, ..registered.apps[0].clone() };
        assert_eq!(store.put_app(told, None).await.unwrap(), 2);
        let registered = store.registered().await.unwrap();
        assert_eq!((registered.apps.len(), registered.executors.len()), (3, 3));
    });
}

/// A run that was split into two parts: the run, and the parts.
async fn split(store: &Sqlite) -> (RunId, [RunId; 2]) {
    let whole = one_shot(1, second(0));
    let gate = Gate {
        lease: Lease { shard: whole.shard, epoch: Epoch(1) },
        run: whole.id,
        job: whole.job,
        attempt: Attempt(1),
        token: Token::new(Epoch(1), Attempt(1)),
        executor: "".into(),
        sent_at: second(0),
        holds: Vec::new(),
    };
    let part = |index: u32| {
        let run = one_shot(u64::from(index) + 2, second(0));
        let run = NewRun { origin: Origin::Part, of: Some(whole.id), ..run };
        (run, Part { index, total: 2, address: "a".into() })
    };
    let (id, parts) = (whole.id, [0, 1].map(part));
    let ids = parts.each_ref().map(|(run, _)| run.id);
    store.accept(vec![whole], Vec::new()).await.unwrap();
    store.split(vec![Split { gate, parts: parts.to_vec() }]).await.unwrap();
    (id, ids)
}

#[test]
fn a_part_that_cannot_be_read_is_left_out_and_its_end_still_counts() {
    let folder = Folder::new();
    let store = open(&folder.database());
    let (whole, parts) = block_on(split(&store));
    drop(store);
    let (day, first) = (parts[0].day(), parts[0]);
    poison(&folder.database(), &format!("update parts_{day} set part = -1 where run = {first}"));
    let store = open(&folder.database());
    block_on(async {
        let fetched = store.fetch(&parts).await.unwrap();
        assert_eq!(fetched.iter().map(|row| row.waiting.run).collect::<Vec<_>>(), parts[1..]);
        assert!(matches!(store.run(first).await, Err(StoreError::Corrupt { .. })));
        let seen = store.parts(whole).await.unwrap();
        assert_eq!(seen.iter().map(|part| part.id).collect::<Vec<_>>(), parts[1..]);
        assert_eq!(store.open_parts(whole).await.unwrap(), parts, "or nobody would ever end it");
        let close = || Then::Close(close(Outcome::Cancelled));
        let end = |run| Settlement { part_of: Some(whole), ..sent(run, 1, close()) };
        let said = store.settle(parts.map(end).to_vec()).await.unwrap();
        let joined = |said: &Settled| matches!(said, Settled::Done { joined: Some(_), .. });
        assert_eq!(said.iter().map(joined).collect::<Vec<_>>(), [false, true]);
    });
}

#[test]
fn a_token_that_cannot_be_read_opens_nothing_and_locks_nobody_out() {
    for garbage in ["apps = '{'", "digest = x'00'", "digest = x''"] {
        let folder = Folder::new();
        let token = |name: &'static str| TokenRow {
            id: 0,
            name: name.into(),
            digest: [9; 32],
            role: "admin".into(),
            apps: vec!["*".into()],
            created_at: second(0),
            expires_at: None,
        };
        let store = open(&folder.database());
        block_on(async {
            store.add_token(token("one")).await.unwrap();
            store.add_token(token("two")).await.unwrap();
        });
        drop(store);
        poison(&folder.database(), &format!("update tokens set {garbage} where id = 1"));
        let store = open(&folder.database());
        block_on(async {
            let tokens = store.tokens().await.unwrap();
            assert_eq!(tokens, [TokenRow { id: 2, ..token("two") }], "{garbage}");
            store.revoke_token(2, None).await.unwrap();
            assert!(!store.add_first_token(token("three")).await.unwrap(), "one is there still");
            assert!(store.revoke_token(1, None).await.unwrap());
        });
    }
}

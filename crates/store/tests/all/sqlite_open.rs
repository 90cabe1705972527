//! Opening a file: who may, and what is found in it afterwards.

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, ChangeId, Http, JobId, LogId, NodeId, Outcome, RunId, RunState, ShardId, Target, Then, Token,
};
use punctual_node::ports::{
    AppRow, Apps, Browse, Door, JobFilter, Keep, Renewal, RunFilter, SentRow, Store, StoreError, TokenRow,
};
use punctual_store::sqlite::{Limits, Options, Sqlite};
use rusqlite::Connection;

use crate::sqlite_support::{
    Folder, SHARDS, START, block_on, close, hold_all, one_shot, options, second, sent, short_tail,
};

fn refused(opened: Result<Sqlite, StoreError>) -> String {
    match opened {
        Err(StoreError::Conflict(said)) => said.into_owned(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_file_that_is_open_is_refused_and_free_again_when_it_is_closed() {
    let folder = Folder::new();
    let first = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    let said = refused(Sqlite::open(&folder.database(), options(Limits::default())));
    assert!(said.contains("in use by another process"), "{said}");
    drop(first);
    Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
}

#[test]
fn a_schema_of_a_newer_program_is_refused() {
    let folder = Folder::new();
    drop(Sqlite::open(&folder.database(), options(Limits::default())).unwrap());
    let conn = Connection::open(folder.database()).unwrap();
    conn.execute("insert into schema_version (version) values (9999)", []).unwrap();
    drop(conn);
    let said = refused(Sqlite::open(&folder.database(), options(Limits::default())));
    assert!(said.contains("schema 9999") && said.contains("newer"), "{said}");
}

/// As the first program that made one: its schema, two days of runs, and a job with an HTTP target as it was kept then.
fn make_first_schema(path: &std::path::Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(include_str!("../../migrations/sqlite/0001_first.sql")).unwrap();
    conn.execute_batch(
        "create table schema_version (version integer primary key) strict;
         insert into schema_version (version) values (1);
         insert into meta (name, value) values ('shards', 4);
         insert into counters (name, value) values ('job', 1);
         insert into clocks (job, shard, next_fire, version, enabled, decided_to, reserved_to)
         values (1, 0, null, 1, 1, 0, 0);",
    )
    .unwrap();
    let shard = "insert into shards (shard, owner, epoch, inherited, checkpoint_due, checkpoint_run, floor)
                 values (?1, null, 0, null, 0, 0, 9223372036854775807)";
    for number in 0..SHARDS {
        conn.execute(shard, [number]).unwrap();
    }
    let definition = r#"{"app":"app","name":"old","description":"","tags":[],
        "schedule":{"kind":"manual","from":null,"until":null},
        "target":{"kind":"http","method":"POST","url":"http://localhost/","headers":[],"body":null},
        "misfire":{"policy":"fire_once","threshold":{"secs":1,"nanos":0}},
        "retry":{"max_attempts":1,"initial_delay":{"secs":1,"nanos":0},"multiplier_per_mille":2000,
                 "max_delay":{"secs":1,"nanos":0}},
        "timeout":{"secs":60,"nanos":0},"delivery":"at_least_once","priority":5,"block":"serial",
        "windows":[],"after":[],"failure_limit":0}"#;
    conn.execute(
        "insert into jobs (id, version, changed_at, state, reason, app, name, definition)
         values (1, 1, 0, 0, '', 'app', 'old', ?1)",
        [definition],
    )
    .unwrap();
    for (sequence, day) in [(1, second(0)), (2, second(86_400))].map(|(n, at)| (n, RunId::day_of(at))) {
        let id = RunId::new(day, sequence).0 as i64;
        conn.execute_batch(&format!(
            "create table runs_{day} (
                 id integer primary key, job integer not null, shard integer not null, fire_time integer not null,
                 due integer not null, origin integer not null, decided integer not null,
                 priority integer not null, key text, of integer, payload text
             ) strict;
             create unique index runs_{day}_named on runs_{day} (fire_time, job)
                 where origin in (0, 3) and decided <> 4;
             insert into runs_{day} (id, job, shard, fire_time, due, origin, decided, priority)
             values ({id}, 1, 0, {0}, {0}, 2, 0, 5);
             insert into buckets (day, runs, closed, bytes, due_mark, close_mark)
             values ({day}, 1, 0, 0, 0, 0);",
            RunId::day_start(day).as_millis() + 1,
        ))
        .unwrap();
    }
    // The second day's run was sent.
    let day = RunId::day_of(second(86_400));
    let id = RunId::new(day, 2).0;
    conn.execute_batch(&format!(
        "create table sends_{day} (
             run integer not null, attempt integer not null, token integer not null, log integer not null,
             executor text not null, sent_at integer not null, is_open integer not null,
             primary key (run, attempt)
         ) strict, without rowid;
         create index sends_{day}_open on sends_{day} (run, attempt) where is_open = 1;
         insert into sends_{day} (run, attempt, token, log, executor, sent_at, is_open)
         values ({id}, 1, 5, 7, 'worker', 3, 1);
         insert into counters (name, value) values ('log', 7);"
    ))
    .unwrap();
}

#[test]
fn a_database_of_an_earlier_version_loses_the_tokens_that_it_kept_and_finds_runs_by_job() {
    let folder = Folder::new();
    let store = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    block_on(store.accept(vec![one_shot(1, second(0))], Vec::new())).unwrap();
    drop(store);
    let token = "pct_kept-by-an-earlier-version";
    let conn = Connection::open(folder.database()).unwrap();
    conn.execute_batch(&format!(
        r#"drop index runs_{0}_job;
           alter table runs_{0} drop column overrides;
           delete from schema_version where version >= 8;
           insert into requests (by, key, digest, begun_at, status, body)
           values ('token:1', 'made', x'00', 0, 201, '{{"id":2,"token":"{token}"}}'),
                  ('token:1', 'other', x'00', 0, 200, 'another answer');"#,
        RunId::day_of(second(0))
    ))
    .unwrap();
    drop(conn);
    let holds = |text: &str| {
        let bytes = std::fs::read(folder.database()).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    assert!(holds(token) && holds("another answer"));
    let store = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    let of_job = RunFilter { job: Some(JobId(1)), ..RunFilter::default() };
    assert_eq!(block_on(store.run_list(&of_job, None, 10)).unwrap().items.len(), 1);
    drop(store);
    assert!(!holds(token) && holds("another answer"), "no page of the file has it any more");
}

#[test]
fn a_database_of_the_first_schema_has_an_app_for_every_job_and_finds_gates_by_number() {
    let folder = Folder::new();
    make_first_schema(&folder.database());
    let conn = Connection::open(folder.database()).unwrap();
    conn.execute_batch(
        "insert into jobs (id, version, changed_at, state, reason, app, name, definition)
         select 1 + value, 1, 0, iif(value = 3, 2, 1), '', iif(value = 3, 'gone', 'app'), value, definition
         from jobs, json_each('[1, 2, 3]');",
    )
    .unwrap();
    drop(conn);
    for _ in 0..2 {
        let store = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
        block_on(async {
            let registered = store.registered().await.unwrap();
            let app = AppRow {
                name: "app".into(),
                title: "".into(),
                addresses: None,
                access_token: None,
                retention: None,
                paused: None,
                version: 1,
            };
            assert_eq!(registered.apps, [app], "once, and none for jobs that are deleted");
            let sent = store.sent(&[LogId(6), LogId(7), LogId(8)]).await.unwrap();
            let expected = SentRow {
                log: LogId(7),
                run: RunId::new(RunId::day_of(second(86_400)), 2),
                job: JobId(1),
                attempt: Attempt(1),
                token: Token(5),
                sent_at: Timestamp::from_millis(3),
                executor: "worker".into(),
            };
            assert_eq!(sent, [expected]);
        });
    }
}

#[test]
fn a_database_of_the_first_schema_is_brought_up_to_date_with_all_that_is_in_it() {
    let folder = Folder::new();
    make_first_schema(&folder.database());
    for round in 0..2 {
        let store = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
        block_on(async {
            let job = store.job_named("app", "old").await.unwrap().unwrap();
            assert_eq!(job.definition.target, Target::Http(Http::post("http://localhost/")));
            let apps = Some(vec!["app".to_owned()]);
            let jobs = JobFilter { apps: apps.clone(), ..JobFilter::default() };
            assert_eq!(store.job_list(&jobs, None, 9).await.unwrap().items, [job]);
            // When the days' runs were named for is not known of old days, so they are looked into.
            let (from, to) = (Some(Timestamp::from_millis(0)), Some(Timestamp::MAX));
            let runs = RunFilter { apps, from, to, ..RunFilter::default() };
            assert_eq!(store.run_list(&runs, None, 9).await.unwrap().items.len(), 2 + round);
            // Nor is it once the day goes on: what is new says nothing about what is old.
            let later = one_shot(90 + round as u64, second(0));
            store.accept(vec![later], Vec::new()).await.unwrap();
            let old = RunFilter { to: Some(second(0)), ..runs };
            assert!(!store.run_list(&old, None, 9).await.unwrap().items.is_empty());
            let token = TokenRow {
                id: 0,
                name: "token".into(),
                digest: [0; 32],
                role: "admin".into(),
                apps: Vec::new(),
                created_at: second(0),
                expires_at: None,
            };
            assert_eq!(store.add_token(token).await.unwrap(), 1 + round as u32);
        });
    }
}

#[test]
fn another_number_of_shards_is_refused() {
    let folder = Folder::new();
    drop(Sqlite::open(&folder.database(), options(Limits::default())).unwrap());
    let other = Options { shards: SHARDS + 1, ..options(Limits::default()) };
    let said = refused(Sqlite::open(&folder.database(), other));
    assert!(said.contains("4 shards") && said.contains('5'), "{said}");
}

#[test]
fn a_file_that_is_no_database_is_told_so() {
    let folder = Folder::new();
    std::fs::write(folder.database(), "not a database, but long enough to be looked at".repeat(100)).unwrap();
    let error = Sqlite::open(&folder.database(), options(Limits::default())).err().unwrap();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[test]
fn the_leases_of_an_earlier_process_have_ended_and_its_promise_stays() {
    let folder = Folder::new();
    let store = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    let old = block_on(hold_all(&store, 1));
    drop(store);
    let store = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    block_on(async {
        let renewal = |node| Renewal {
            node: NodeId(node),
            term: std::time::Duration::from_secs(4),
            mark: second(9),
            seen: ChangeId(0),
            name: "".into(),
            address: "".into(),
            checkpoints: Vec::new(),
        };
        let fenced = store.renew(renewal(1)).await;
        assert!(matches!(fenced, Err(StoreError::Fenced(_))), "{fenced:?}");
        let fenced = store.load(&old, START, Timestamp::MAX, 1).await;
        assert!(matches!(fenced, Err(StoreError::Fenced(_))), "{fenced:?}");
        store.renew(renewal(2)).await.unwrap();
        let acquired = store.acquire(NodeId(2), vec![ShardId(0)]).await.unwrap();
        assert_eq!(acquired[0].mark, Some(second(0)), "what the first one promised");
    });
}

#[test]
fn a_run_whose_id_lies_below_what_is_indexed_is_found_after_a_restart() {
    let folder = Folder::new();
    let store = Sqlite::open(&folder.database(), options(short_tail(1))).unwrap();
    block_on(store.accept((100..110).map(|id| one_shot(id, second(0))).collect(), Vec::new())).unwrap();
    // Closing writes the index up to 109; 50 comes from a block of ids that somebody took earlier.
    drop(store);
    let store = Sqlite::open(&folder.database(), options(short_tail(1_000))).unwrap();
    block_on(store.accept(vec![one_shot(50, second(0))], Vec::new())).unwrap();
    drop(store);
    let store = Sqlite::open(&folder.database(), options(short_tail(1_000))).unwrap();
    block_on(async {
        let leases = hold_all(&store, 1).await;
        let loaded = store.load(&leases, START, Timestamp::MAX, 100).await.unwrap();
        let sequences: Vec<u64> = loaded.runs.iter().map(|run| run.run.sequence()).collect();
        assert_eq!(sequences, [50, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109]);
    });
}

#[test]
fn an_end_in_a_day_that_was_thinned_survives_a_crash() {
    let folder = Folder::new();
    let open = |folder: &Folder| Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    let ended = async |store: &Sqlite, sequence: u64| {
        let run = one_shot(sequence, second(0));
        let id = run.id;
        store.accept(vec![run], Vec::new()).await.unwrap();
        store.settle(vec![sent(id, 1, Then::Close(close(Outcome::Succeeded)))]).await.unwrap();
        id
    };
    let store = open(&folder);
    let first = block_on(async {
        for sequence in 2..5 {
            ended(&store, sequence).await;
        }
        ended(&store, 1).await
    });
    // Closing writes the index of closes, so that the next removes them.
    drop(store);
    let store = open(&folder);
    let keep = Keep::since(Timestamp::MAX);
    assert_eq!(block_on(store.thin(&keep, first.day(), first, 9)).unwrap().removed, 4);
    drop(store);
    let store = open(&folder);
    let later = block_on(ended(&store, 9));
    // As a crash would leave it: nothing was written but what is acknowledged.
    let crashed = Folder::new();
    for suffix in ["", "-wal"] {
        let with = |folder: &Folder| format!("{}{suffix}", folder.database().display());
        std::fs::copy(with(&folder), with(&crashed)).unwrap();
    }
    let store = open(&crashed);
    block_on(async {
        assert_eq!(store.run(later).await.unwrap().unwrap().state, RunState::Succeeded);
        let leases = hold_all(&store, 1).await;
        assert_eq!(store.load(&leases, START, Timestamp::MAX, 9).await.unwrap().runs, []);
    });
}

#[test]
fn people_see_an_end_as_soon_as_it_is_acknowledged_in_the_tail_and_in_the_index() {
    let folder = Folder::new();
    let store = Sqlite::open(&folder.database(), options(short_tail(64))).unwrap();
    block_on(async {
        for sequence in 1..400 {
            let run = one_shot(sequence, second(sequence as i64));
            let id: RunId = run.id;
            store.accept(vec![run], Vec::new()).await.unwrap();
            assert_eq!(store.run(id).await.unwrap().unwrap().state, RunState::Pending);
            store.settle(vec![sent(id, 1, Then::Close(close(Outcome::Failed)))]).await.unwrap();
            assert_eq!(store.run(id).await.unwrap().unwrap().state, RunState::Failed);
        }
    });
}

//! A server that kills connections, does not answer, or takes no writes: the store says whether it may have been done, and goes
//! on.

#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use punctual_core::model::{NodeId, Outcome, RunId, ShardId};
use punctual_node::ports::{Accepted, ArrivalKind, Browse, Settled, Store, StoreError};
use punctual_store::Options;
use punctual_store::mysql::MySql;

use crate::mysql_support::{Database, accepted, connect, end, options, renewal, run, runtime, second};

/// A store on a database, and a connection of the administrator in it.
async fn open(database: &Database, options: Options) -> (MySql, Conn) {
    let store = MySql::open(&database.url(), options).await.unwrap();
    let mut conn = connect().await;
    conn.query_drop(format!("use {}", database.name)).await.unwrap();
    (store, conn)
}

/// Locks the row of a run, so that whoever wants to end it has to wait.
async fn lock(conn: &mut Conn, run: RunId) {
    conn.query_drop(format!(
        "start transaction; select id from runs_{} where id = {run} for update",
        run.day()
    ))
    .await
    .unwrap();
}

/// Kills the connection that waits for a lock in this database.
async fn kill_who_waits(database: &Database) {
    let mut conn = connect().await;
    loop {
        let waiting: Option<u64> = conn
            .query_first(format!(
                "select id from information_schema.processlist
                 where db = '{}' and command = 'Query' and info like '%for update%' and id <> connection_id()
                 limit 1",
                database.name
            ))
            .await
            .unwrap();
        if let Some(id) = waiting {
            conn.query_drop(format!("kill {id}")).await.unwrap();
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn is_away<T>(said: &Result<T, StoreError>) -> bool {
    matches!(said, Err(StoreError::Away(_)))
}

/// From here on what these connections write is refused, as by a primary that was made read-only; new ones are as ever.
async fn retire(conn: &mut Conn, database: &Database) {
    let statements = [
        "drop table if exists retired".to_owned(),
        format!(
            "create table retired as select id from information_schema.processlist
             where db = '{}' and id <> connection_id()",
            database.name
        ),
        "create trigger refuse before update on nodes for each row
         begin
             if connection_id() in (select id from retired) then
                 signal sqlstate 'HY000' set mysql_errno = 1290, message_text = 'running with --read-only';
             end if;
         end"
        .to_owned(),
    ];
    for statement in statements {
        conn.query_drop(statement).await.unwrap();
    }
}

#[test]
fn connections_to_a_server_that_takes_no_more_writes_are_left_at_once() {
    runtime().block_on(async {
        let database = Database::create().await;
        let (store, mut other) = open(&database, Options { connections: 3, ..options() }).await;
        // Several idle ones, and a person's.
        let renewals = async || {
            futures_util::future::try_join_all([1, 2, 3].map(|node| store.renew(renewal(node)))).await
        };
        renewals().await.unwrap();
        store.storage().await.unwrap();
        retire(&mut other, &database).await;
        store.renew(renewal(1)).await.expect("another connection is asked");
        renewals().await.unwrap();
        store.storage().await.unwrap();
        let gone = async {
            let left =
                "select count(*) from information_schema.processlist where id in (select id from retired)";
            while other.query_first::<u64, _>(left).await.unwrap() != Some(0) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("none of the old ones is kept");
    });
}

#[test]
fn the_same_row_may_be_left_twice_in_one_statement() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let (store, _other) = open(&database, options()).await;
        let run = accepted(&store, 1, second(9)).await;
        let left = vec![(ShardId(0), ArrivalKind::Cancel(run)); 2];
        store.accept(Vec::new(), left).await.unwrap();
        store.renew(renewal(1)).await.unwrap();
        let taken = store.acquire(NodeId(1), vec![ShardId(0)]).await.unwrap();
        assert_eq!(store.arrivals(&[taken[0].lease], 10).await.unwrap().len(), 1);
    });
}

#[test]
fn a_connection_that_is_killed_before_its_commit_did_nothing_and_the_store_goes_on() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let (store, mut other) = open(&database, options()).await;
        let run = accepted(&store, 1, second(9)).await;
        lock(&mut other, run).await;
        let settle = store.settle(vec![end(run, Outcome::Succeeded)]);
        let (said, ()) = futures_util::join!(settle, kill_who_waits(&database));
        assert!(is_away(&said), "{said:?}");
        other.query_drop("rollback").await.unwrap();
        let said = store.settle(vec![end(run, Outcome::Succeeded)]).await.unwrap();
        assert!(matches!(said[..], [Settled::Done { consecutive_failures: 0, .. }]), "{said:?}");
        assert_eq!(store.counts(None).await.unwrap().succeeded, 1, "it was written once");
    });
}

#[test]
fn idle_connections_that_were_killed_are_made_anew() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let (store, mut other) = open(&database, options()).await;
        let first = accepted(&store, 1, second(9)).await;
        let ids: Vec<u64> = other
            .query(format!(
                "select id from information_schema.processlist where db = '{}' and id <> connection_id()",
                database.name
            ))
            .await
            .unwrap();
        assert!(!ids.is_empty());
        for id in ids {
            // One may have left by itself.
            let _ = other.query_drop(format!("kill {id}")).await;
        }
        let mut unknown = 0;
        while is_away(&store.fetch(&[first]).await) {
            unknown += 1;
            assert!(unknown < 3, "all that is idle is thrown away with the first");
        }
        assert_eq!(store.fetch(&[first]).await.unwrap().len(), 1);
    });
}

#[test]
fn what_takes_too_long_is_unknown_and_may_be_asked_again() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let (store, mut other) =
            open(&database, Options { deadline: Duration::from_millis(300), ..options() }).await;
        let run = accepted(&store, 1, second(9)).await;
        lock(&mut other, run).await;
        let said = store.settle(vec![end(run, Outcome::Succeeded)]).await;
        assert!(matches!(&said, Err(StoreError::Unknown(said)) if said.contains("in time")), "{said:?}");
        other.query_drop("rollback").await.unwrap();
        let mut said = store.settle(vec![end(run, Outcome::Succeeded)]).await;
        while matches!(said, Err(StoreError::Unknown(_) | StoreError::Away(_))) {
            said = store.settle(vec![end(run, Outcome::Succeeded)]).await;
        }
        assert_eq!(store.counts(None).await.unwrap().succeeded, 1, "it was written once: {said:?}");
    });
}

#[test]
fn a_client_that_is_paused_in_a_transaction_does_not_hold_others_up_for_long() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let (store, mut paused) = open(&database, options()).await;
        let run = accepted(&store, 1, second(9)).await;
        // As our own connections are set.
        paused.query_drop("set session idle_transaction_timeout = 1").await.unwrap();
        lock(&mut paused, run).await;
        let said = store.settle(vec![end(run, Outcome::Succeeded)]).await.unwrap();
        assert!(matches!(said[..], [Settled::Done { .. }]), "{said:?}");
    });
}

#[test]
fn a_batch_that_is_larger_than_a_packet_is_written_whole() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let (store, _other) =
            open(&database, Options { deadline: Duration::from_secs(60), ..options() }).await;
        let mut runs = Vec::new();
        for number in 0..30 {
            let payload = format!("\"'{}\\{number}\"", "x".repeat(1_000_000));
            runs.push(punctual_core::model::NewRun {
                payload: Some(payload.as_str().into()),
                ..run(&store, 1, second(9)).await
            });
        }
        let said = store.accept(runs.clone(), Vec::new()).await.unwrap();
        assert!(said.iter().zip(&runs).all(|(said, run)| *said == Accepted::New(run.id)));
        let found = store.fetch(&[runs[29].id]).await.unwrap();
        assert!(found[0].payload == runs[29].payload);
    });
}

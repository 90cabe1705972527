//! A server that kills connections, does not answer, or takes no writes: the store says that it does not know, and goes on.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use punctual_core::model::{Outcome, RunId};
use punctual_node::ports::{Accepted, Browse, Settled, Store, StoreError};
use punctual_store::Options;
use punctual_store::mysql::MySql;

use crate::mysql_support::{Database, accepted, connect, end, options, run, runtime, second};

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

fn is_unknown<T>(said: &Result<T, StoreError>) -> bool {
    matches!(said, Err(StoreError::Unknown(_)))
}

#[test]
fn a_connection_killed_in_the_middle_is_unknown_and_the_store_goes_on() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let (store, mut other) = open(&database, options()).await;
        let run = accepted(&store, 1, second(9)).await;
        lock(&mut other, run).await;
        let settle = store.settle(vec![end(run, Outcome::Succeeded)]);
        let (said, ()) = futures_util::join!(settle, kill_who_waits(&database));
        assert!(is_unknown(&said), "{said:?}");
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
        while is_unknown(&store.fetch(&[first]).await) {
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
        while is_unknown(&said) {
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

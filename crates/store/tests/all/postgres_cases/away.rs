//! A server that goes away, does not answer, or takes no writes any more: the verb says whether it may have been done, and the
//! store goes on by itself.

#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::sync::Arc;
use std::time::Duration;

use punctual_node::ports::{Accepted, Browse, Store, StoreError};
use punctual_store::{Options, Postgres};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{House, accepted, one_shot, renewal, second};
use crate::postgres_support::{admin_url, block_on, client};

#[test]
fn a_session_that_is_killed_before_its_commit_did_nothing_and_the_store_goes_on() {
    block_on(async {
        let house = House::new().await;
        let store = house.open().await;
        let run = one_shot(&store, second(1)).await;
        let other = client(&house.database.url()).await;
        other.batch_execute("begin; lock table runs in access exclusive mode").await.unwrap();
        let admin = client(&admin_url()).await;
        let kill = async {
            loop {
                let killed = admin
                    .query(
                        "select pg_terminate_backend(pid) from pg_stat_activity
                         where datname = $1 and wait_event_type = 'Lock'",
                        &[&house.database.name],
                    )
                    .await
                    .unwrap();
                if !killed.is_empty() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let (said, ()) = tokio::join!(store.accept(vec![run.clone()], vec![]), kill);
        assert!(matches!(said, Err(StoreError::Away(_))), "{said:?}");
        other.batch_execute("rollback").await.unwrap();
        assert_eq!(store.accept(vec![run.clone()], vec![]).await.unwrap(), [Accepted::New(run.id)]);
        // Those that were idle, too.
        admin
            .query(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1",
                &[&house.database.name],
            )
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(store.accept(vec![run.clone()], vec![]).await.unwrap(), [Accepted::Duplicate(run.id)]);
        drop((store, other));
        house.database.drop().await;
    });
}

/// From here on what these sessions write is refused, as by a primary that was made read-only; new ones are as ever.
const RETIRE: &str = "
    create table retired as select pid from pg_stat_activity where datname = current_database();
    create function refuse() returns trigger language plpgsql as $$
    begin
        if pg_backend_pid() in (select pid from retired) then
            raise exception 'cannot execute UPDATE in a read-only transaction' using errcode = '25006';
        end if;
        return new;
    end $$;
    create trigger refuse before insert or update on nodes for each row execute function refuse()";

#[test]
fn sessions_on_a_server_that_takes_no_more_writes_are_left_at_once() {
    block_on(async {
        let house = House::new().await;
        let store =
            Postgres::open(&house.database.url(), Options { connections: 3, ..house.options() }).await;
        let store = store.unwrap();
        // Several idle ones, and a person's.
        let renewals = [1, 2, 3].map(|node| store.renew(renewal(node, second(0))));
        futures_util::future::try_join_all(renewals).await.unwrap();
        store.storage().await.unwrap();
        let admin = client(&house.database.url()).await;
        admin.batch_execute(RETIRE).await.unwrap();
        store.renew(renewal(1, second(0))).await.expect("another session is asked");
        store.storage().await.unwrap();
        let renewals = [1, 2, 3].map(|node| store.renew(renewal(node, second(0))));
        futures_util::future::try_join_all(renewals).await.unwrap();
        let left = "select count(*) from pg_stat_activity
                    where datname = current_database() and pid <> pg_backend_pid()
                      and pid in (select pid from retired)";
        let gone = async {
            while admin.query_one(left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.expect("none of the old ones is kept");
        drop(store);
        house.database.drop().await;
    });
}

#[test]
fn a_server_that_does_not_answer_in_time_did_nothing_before_the_commit() {
    block_on(async {
        let house = House::new().await;
        let options = Options { deadline: Duration::from_millis(300), ..house.options() };
        let store = Postgres::open(&house.database.url(), options).await.unwrap();
        let run = one_shot(&store, second(1)).await;
        let other = client(&house.database.url()).await;
        other.batch_execute("begin; lock table runs in access exclusive mode").await.unwrap();
        let said = store.accept(vec![run.clone()], vec![]).await;
        assert!(matches!(&said, Err(StoreError::Away(said)) if said.contains("in time")), "{said:?}");
        other.batch_execute("rollback").await.unwrap();
        assert_eq!(store.accept(vec![run.clone()], vec![]).await.unwrap(), [Accepted::New(run.id)]);
        assert_eq!(store.storage().await.unwrap()[0].runs, 1);
        drop((store, other));
        house.database.drop().await;
    });
}

#[test]
fn people_read_from_the_copy_while_the_primary_is_away() {
    block_on(async {
        let house = House::new().await;
        let door = Door::new().await;
        let direct = house.database.url();
        let through = format!("postgres://postgres@127.0.0.1:{}/{}", door.port, house.database.name);
        let deadline = Duration::from_millis(500);
        let options = Options { read_url: Some(direct), deadline, ..house.options() };
        let store = Postgres::open(&through, options).await.unwrap();
        let run = accepted(&store, second(1)).await;
        assert!(store.run(run).await.unwrap().is_some() && !store.is_copy());
        door.close();
        assert!(store.run(run).await.unwrap().is_some() && store.is_copy());
        let late = one_shot_of(run);
        let said = store.accept(vec![late], vec![]).await;
        assert!(matches!(said, Err(StoreError::Away(_) | StoreError::Unknown(_))), "{said:?}");
        door.open();
        // Somebody finds out soon, and then everybody knows.
        let back = async {
            while store.is_copy() {
                assert!(store.run(run).await.unwrap().is_some());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), back)
            .await
            .expect("people read from the primary again");
        accepted(&store, second(2)).await;
        drop(store);
        house.database.drop().await;
    });
}

fn one_shot_of(run: punctual_core::model::RunId) -> punctual_core::model::NewRun {
    use punctual_core::model::{Decided, JobId, NewRun, Origin, ShardId};
    NewRun {
        id: punctual_core::model::RunId(run.0 + 1),
        job: JobId(1),
        shard: ShardId(0),
        fire_time: second(1),
        due: second(1),
        origin: Origin::OneShot,
        decided: Decided::NotYet,
        priority: 5,
        payload: None,
        key: None,
        of: None,
        overrides: None,
    }
}

/// A way to the server that can be closed.
struct Door {
    port: u16,
    is_open: Arc<watch::Sender<bool>>,
}

impl Door {
    async fn new() -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_open = Arc::new(watch::Sender::new(true));
        let seen = Arc::clone(&is_open);
        let server = server();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut seen = seen.subscribe();
                let server = server.clone();
                tokio::spawn(async move {
                    if !*seen.borrow() {
                        return;
                    }
                    let Ok(mut far) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = seen.wait_for(|is_open| !is_open) => {}
                    }
                });
            }
        });
        Door { port, is_open }
    }

    fn close(&self) {
        self.is_open.send_replace(false);
    }

    fn open(&self) {
        self.is_open.send_replace(true);
    }
}

/// Host and port of the server.
fn server() -> String {
    let url = admin_url();
    let after = url.rsplit_once('@').map_or(url.as_str(), |(_, after)| after);
    after.trim_start_matches("postgres://").split('/').next().unwrap().to_owned()
}

//! What is said in the database is heard there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::model::{NodeId, RunId, ShardId};
use punctual_node::ports::{DOOR_KEEPER, Hint, Peers};
use punctual_store::postgres::{Hark, PostgresPeers};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::House;
use crate::postgres_support::client;

/// Reaches node 1 and nobody else.
struct Near;

#[async_trait]
impl Peers for Near {
    fn tell(&self, _: NodeId, _: Hint) {}

    fn reaches(&self, node: NodeId) -> bool {
        node == NodeId(1)
    }
}

type Heard = UnboundedReceiver<(Option<NodeId>, Hint)>;

async fn peers(house: &House) -> (Arc<PostgresPeers>, Heard) {
    let (said, heard) = unbounded_channel();
    let hark: Hark = Arc::new(move |node, hint| drop(said.send((node, hint))));
    (PostgresPeers::new(Arc::new(house.open().await), hark, Arc::new(Near)), heard)
}

async fn next(heard: &mut Heard) -> (Option<NodeId>, Hint) {
    timeout(Duration::from_secs(10), heard.recv()).await.expect("it is heard").expect("it listens")
}

/// Says something until it is heard: nobody says when a listener has begun.
async fn until_heard(house: &House, heard: &mut Heard) {
    let client = client(&house.database.url()).await;
    for _ in 0..200 {
        client.batch_execute("notify punctual").await.unwrap();
        if let Ok(Some(said)) = timeout(Duration::from_millis(50), heard.recv()).await {
            assert_eq!(said, (None, Hint::Arrived(DOOR_KEEPER)));
            while timeout(Duration::from_millis(50), heard.recv()).await.is_ok() {}
            return;
        }
    }
    panic!("nothing is heard");
}

#[tokio::test]
async fn nodes_that_do_not_reach_each_other_are_told_through_the_database() {
    let house = House::new().await;
    let (_far, mut heard) = peers(&house).await;
    until_heard(&house, &mut heard).await;
    let (near, _) = peers(&house).await;
    near.tell(NodeId(1), Hint::Vacated);
    near.tell(NodeId(2), Hint::Drain);
    near.tell(NodeId(2), Hint::Settled(RunId(7)));
    assert_eq!(next(&mut heard).await, (Some(NodeId(2)), Hint::Settled(RunId(7))), "and nothing before it");
}

#[tokio::test]
async fn what_is_said_often_is_heard_once() {
    let house = House::new().await;
    let (_peers, mut heard) = peers(&house).await;
    until_heard(&house, &mut heard).await;
    let client = client(&house.database.url()).await;
    let words = format!(
        "begin; notify punctual; {} commit; notify punctual, 'nonsense'",
        "notify punctual; ".repeat(50)
    );
    client.batch_execute(&words).await.unwrap();
    client.batch_execute(&format!("notify punctual, '{} arrived 3'", NodeId(9))).await.unwrap();
    let mut all = vec![next(&mut heard).await, next(&mut heard).await];
    all.sort_by_key(|(node, _)| *node);
    assert_eq!(all, [(None, Hint::Arrived(DOOR_KEEPER)), (Some(NodeId(9)), Hint::Arrived(ShardId(3)))]);
}

#[tokio::test]
async fn a_listener_that_was_cut_off_listens_again() {
    let house = House::new().await;
    let (_peers, mut heard) = peers(&house).await;
    until_heard(&house, &mut heard).await;
    let ended = client(&house.database.url())
        .await
        .query(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and query ilike 'listen%'",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(ended.len(), 1);
    until_heard(&house, &mut heard).await;
}

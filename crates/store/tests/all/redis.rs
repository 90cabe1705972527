//! Redis beside a store: claims that are seen, leases that are asked for, hints that travel, and going on without it.

#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{ChangeId, NodeId, ShardId};
use punctual_node::ports::{Hint, NodeRow, Peers, Renewal, Store};
use punctual_store::Memory;
use punctual_store::redis::{Redis, RedisPeers};

/// A database of Redis for each test: they must not see each other's leases.
fn redis(database: u8) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "where the server is, only the environment knows")]
    let url = std::env::var("PUNCTUAL_TEST_REDIS");
    let url = url
        .unwrap_or_else(|_| panic!("PUNCTUAL_TEST_REDIS is not set: `cargo xtask test` starts the servers"));
    (url != "without").then(|| format!("{}/{database}", url.trim_end_matches('/')))
}

async fn ask<T: redis::FromRedisValue>(url: &str, words: &[&str]) -> T {
    let mut line = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut line).await.unwrap()
}

/// A way to Redis for a cluster.
fn of(url: &str, cluster: &str) -> Arc<Redis> {
    Redis::new(url, cluster, Box::new(|_| ())).unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000)
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(4, Duration::from_secs(60), Arc::new(now)))
}

fn renewal(node: NodeId) -> Renewal {
    Renewal {
        node,
        term: Duration::from_secs(4),
        mark: now(),
        seen: ChangeId(0),
        name: "".into(),
        address: "".into(),
        checkpoints: Vec::new(),
    }
}

fn all() -> Vec<ShardId> {
    (0..4).map(ShardId).collect()
}

const A: NodeId = NodeId(0xa);
const B: NodeId = NodeId(0xb);

#[tokio::test]
async fn a_lease_is_asked_for_in_redis_and_held_when_the_store_says_so() {
    let Some(url) = redis(1) else { return };
    ask::<()>(&url, &["FLUSHDB"]).await;
    let store = of(&url, "c").beside(memory());
    store.renew(renewal(A)).await.unwrap();
    assert_eq!(store.acquire(A, all()).await.unwrap().len(), 4);
    assert_eq!(ask::<String>(&url, &["GET", "punctual:c:lease:3"]).await, A.to_string());
    // Another, whose database does not know of the first: Redis alone keeps it from asking.
    let other = of(&url, "c").beside(memory());
    other.renew(renewal(B)).await.unwrap();
    assert_eq!(other.acquire(B, all()).await.unwrap(), []);
    // Given back, it is free in both.
    let leases = store.acquire(A, vec![ShardId(3)]).await.unwrap().iter().map(|taken| taken.lease).collect();
    store.release(A, leases, now()).await.unwrap();
    assert_eq!(other.acquire(B, all()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_clusters_on_one_redis_do_not_see_each_other() {
    let Some(url) = redis(5) else { return };
    ask::<()>(&url, &["FLUSHDB"]).await;
    for (cluster, node) in [("one", A), ("other", B)] {
        let store = of(&url, cluster).beside(memory());
        store.renew(renewal(node)).await.unwrap();
        assert_eq!(store.acquire(node, all()).await.unwrap().len(), 4, "the cluster {cluster}");
    }
}

#[tokio::test]
async fn a_key_that_never_ends_is_believed_for_one_term() {
    let Some(url) = redis(6) else { return };
    ask::<()>(&url, &["FLUSHDB"]).await;
    ask::<()>(&url, &["SET", "punctual:c:lease:2", "somebody else"]).await;
    let told: Arc<Mutex<Vec<Vec<ShardId>>>> = Arc::default();
    let tell = Arc::clone(&told);
    let redis = Redis::new(&url, "c", Box::new(move |shards| tell.lock().unwrap().push(shards.to_vec())));
    let redis = redis.unwrap();
    let store = redis.beside(memory());
    let term = Duration::from_millis(200);
    store.renew(Renewal { term, ..renewal(A) }).await.unwrap();
    assert_eq!(store.acquire(A, all()).await.unwrap().len(), 3);
    let asked = async {
        while store.acquire(A, vec![ShardId(2)]).await.unwrap().is_empty() {
            tokio::time::sleep(term / 10).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asked).await.expect("the database is asked all the same");
    store.acquire(A, vec![ShardId(2)]).await.unwrap();
    assert_eq!(*told.lock().unwrap(), [vec![ShardId(2)]], "it is told once");
    assert_eq!(redis.figures().overruled, 2, "and counted each time");
}

#[tokio::test]
async fn what_the_store_refuses_is_not_held_whatever_redis_says() {
    let Some(url) = redis(2) else { return };
    ask::<()>(&url, &["FLUSHDB"]).await;
    let memory = memory();
    memory.renew(renewal(B)).await.unwrap();
    memory.acquire(B, all()).await.unwrap();
    let store = of(&url, "c").beside(memory);
    store.renew(renewal(A)).await.unwrap();
    assert_eq!(store.acquire(A, all()).await.unwrap(), [], "won in Redis, and B's in the store");
}

#[tokio::test]
async fn a_renewal_keeps_what_is_held_and_takes_back_what_redis_forgot() {
    let Some(url) = redis(3) else { return };
    ask::<()>(&url, &["FLUSHDB"]).await;
    let store = of(&url, "c").beside(memory());
    store.renew(renewal(A)).await.unwrap();
    store.acquire(A, all()).await.unwrap();
    ask::<()>(&url, &["FLUSHDB"]).await;
    ask::<()>(&url, &["SET", "punctual:c:lease:0", "somebody else"]).await;
    store.renew(renewal(A)).await.unwrap();
    assert_eq!(ask::<String>(&url, &["GET", "punctual:c:lease:0"]).await, "somebody else");
    assert_eq!(ask::<String>(&url, &["GET", "punctual:c:lease:1"]).await, A.to_string());
    let left: i64 = ask(&url, &["PTTL", "punctual:c:lease:1"]).await;
    assert!((1..=4_000).contains(&left), "{left}");
}

#[tokio::test]
async fn without_redis_everything_goes_on_at_once() {
    // Nobody listens there.
    let redis = of("redis://127.0.0.1:1", "c");
    assert!(redis.ping().await.is_err());
    let store = redis.beside(memory());
    store.renew(renewal(A)).await.unwrap();
    assert_eq!(store.acquire(A, all()).await.unwrap().len(), 4);
    assert!(!redis.figures().is_up);
}

#[test]
fn an_address_that_is_none_is_refused_and_not_repeated() {
    let refused = Redis::new("redis://:hunter2@host:port", "c", Box::new(|_| ())).err().unwrap().to_string();
    assert!(refused.contains("redis://host:6379") && !refused.contains("hunter2"), "{refused}");
}

/// Whoever is told the other way.
#[derive(Default)]
struct Otherwise(Mutex<Vec<(NodeId, Hint)>>);

impl Peers for Otherwise {
    fn tell(&self, node: NodeId, hint: Hint) {
        self.0.lock().unwrap().push((node, hint));
    }
}

#[tokio::test]
async fn hints_reach_whoever_listens_and_go_the_other_way_for_the_rest() {
    let Some(url) = redis(4) else { return };
    let heard: Arc<Mutex<BTreeMap<&'static str, Vec<Hint>>>> = Arc::default();
    let heed = |name: &'static str| {
        let heard = Arc::clone(&heard);
        Arc::new(move |hint| heard.lock().unwrap().entry(name).or_default().push(hint))
    };
    let other_way = Arc::new(Otherwise::default());
    let peers = |name: &'static str| {
        let redis = of(&url, "c");
        RedisPeers::new(redis, format!("http://{name}"), heed(name), Arc::clone(&other_way) as _)
    };
    let (a, _b) = (peers("a"), peers("b"));
    let row = |node, address: &'static str| NodeRow {
        node,
        name: "".into(),
        address: address.into(),
        expires_at: now(),
    };
    let deaf = NodeId(0xd);
    a.meet(&[row(A, "http://a"), row(B, "http://b"), row(deaf, "http://deaf")]);
    let listens =
        async || ask::<Vec<(String, i64)>>(&url, &["PUBSUB", "NUMSUB", "punctual:c:hints:http://b"]).await;
    while listens().await[0].1 == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    a.tell(B, Hint::Arrived(ShardId(7)));
    a.tell(B, Hint::Drain);
    a.tell(deaf, Hint::Vacated);
    let is_told = || heard.lock().unwrap().contains_key("b") && other_way.0.lock().unwrap().len() == 2;
    while !is_told() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(heard.lock().unwrap()["b"], [Hint::Arrived(ShardId(7))]);
    let otherwise = other_way.0.lock().unwrap();
    assert!(
        otherwise.contains(&(B, Hint::Drain)) && otherwise.contains(&(deaf, Hint::Vacated)),
        "{otherwise:?}"
    );
}

#[tokio::test]
async fn a_lease_without_an_end_is_found() {
    let Some(url) = redis(9) else { return };
    ask::<()>(&url, &["FLUSHDB"]).await;
    let redis = of(&url, "c");
    let store = redis.beside(memory());
    store.renew(renewal(A)).await.unwrap();
    store.acquire(A, all()).await.unwrap();
    assert_eq!(redis.endless_leases().await.unwrap(), Vec::<String>::new(), "ours end");
    ask::<()>(&url, &["SET", "punctual:c:lease:9", "somebody"]).await;
    ask::<()>(&url, &["SET", "somebody:else", "x"]).await;
    assert_eq!(redis.endless_leases().await.unwrap(), ["punctual:c:lease:9"]);
    assert!(of("redis://127.0.0.1:1", "c").endless_leases().await.is_err(), "nobody is there");
}

//! apalis on PostgreSQL: inserted a thousand at once, executed by one worker that fetches a thousand at once, does not write
//! down that it has begun, and spawns each job, as its own examples do where they are about speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage, queries::push_tasks};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;

const QUEUE: &str = "noop";
const BATCH: usize = 1_000;
/// As many requests at once as ours.
const AT_ONCE: usize = 4;

/// About a hundred bytes, as ours.
#[derive(Serialize, Deserialize)]
struct Noop {
    order: String,
    amount: String,
    currency: String,
    number: usize,
    note: String,
}

impl Noop {
    fn new(number: usize) -> Noop {
        Noop {
            order: "0123456789abcdef".into(),
            amount: "17.90".into(),
            currency: "EUR".into(),
            number,
            note: "a no-op of a hundred bytes".into(),
        }
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect("the address of a database");
    let count: usize = arguments.next().and_then(|count| count.parse().ok()).expect("how many jobs");
    let pool = PgPoolOptions::new().max_connections(12).connect(&url).await.expect("a database");
    PostgresStorage::setup(&pool).await.expect("tables");

    let begun = Instant::now();
    insert(&pool, count).await;
    tell("insert", count, begun);
    sqlx::query("analyze").execute(&pool).await.expect("analysed");

    let begun = Instant::now();
    execute(&pool, count).await;
    tell("execute", count, begun);
    std::process::exit(0);
}

async fn insert(pool: &PgPool, count: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let workers = (0..AT_ONCE).map(|_| {
        let (pool, next) = (pool.clone(), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let from = next.fetch_add(BATCH, Ordering::Relaxed);
                if from >= count {
                    return;
                }
                let task =
                    |number| TaskBuilder::new(serde_json::to_vec(&Noop::new(number)).expect("JSON")).build();
                let tasks = (from..count.min(from + BATCH)).map(task).collect();
                let mut transaction = pool.begin().await.expect("a transaction");
                push_tasks(&mut *transaction, QUEUE, tasks).await.expect("inserted");
                transaction.commit().await.expect("committed");
            }
        })
    });
    futures::future::join_all(workers).await;
}

/// Until every job is done, and said to be done in the database.
async fn execute(pool: &PgPool, count: usize) {
    let seen = Arc::new(AtomicUsize::new(0));
    let config = Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
    // The shortest pause that it takes without asking an empty queue all the time.
    let eager = Strategy::new().interval(Duration::from_millis(1));
    let backend = PostgresStorage::<Noop>::new(pool).with_config(config).poll_with_strategy(eager);
    let worker = WorkerBuilder::new("one")
        .backend(backend)
        .data(Arc::clone(&seen))
        .parallelize(tokio::spawn)
        .build(noop);
    tokio::spawn(worker.run());
    while seen.load(Ordering::Relaxed) < count || left(pool).await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(seen.load(Ordering::Relaxed), count, "each once");
}

async fn noop(_job: Noop, seen: Data<Arc<AtomicUsize>>) -> Result<(), BoxDynError> {
    seen.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn left(pool: &PgPool) -> i64 {
    let asked = sqlx::query_scalar("select count(*) from apalis.jobs where status <> 'Done'");
    asked.fetch_one(pool).await.expect("an answer")
}

fn tell(what: &str, count: usize, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    println!(
        "{}",
        serde_json::json!({"peer": "apalis", "what": what, "count": count, "seconds": seconds, "rate": rate})
    );
}

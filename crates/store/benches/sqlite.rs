//! How fast the embedded store accepts, loads and closes, beside bare prepared statements over the same rows.
//!
//! `cargo bench -p punctual-store --bench sqlite [-- runs closes ordered|random]`, 2,000,000, 1,000,000 and
//! both if nothing is said. The bare
//! loop is what SQLite itself can do with these columns, these pragmas and a transaction for every 1,000 rows; it keeps
//! no due index while it inserts, checks nothing, and knows in advance what it will load.

#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, ChangeId, Close, Decided, Epoch, Fence, JobId, NewRun, NodeId,
    Origin, Outcome, RunId, Settlement, ShardId, Then, Token,
};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Lease, Renewal, Settled, Store, Waiting};
use punctual_store::sqlite::{Limits, Options, Sqlite};
use rusqlite::{Connection, params};

const BATCH: usize = 1_000;
const SHARDS: u16 = 64;
const DAY_MS: i64 = 86_400_000;
const DAYS: i64 = 3;
const FIRST: i64 = 1_800_057_600_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Ordered,
    Random,
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let count = numbers.first().copied().unwrap_or(2_000_000);
    let closes = numbers.get(1).copied().unwrap_or(1_000_000).min(count);
    println!("{count} runs in batches of {BATCH}, then {closes} loaded and closed in batches of {BATCH}\n");
    let only = std::env::args().find_map(|argument| match argument.as_str() {
        "ordered" => Some(Order::Ordered),
        "random" => Some(Order::Random),
        _ => None,
    });
    for order in [Order::Ordered, Order::Random] {
        if only.is_some_and(|only| only != order) {
            continue;
        }
        let rows = rows(count, order);
        let bare = bare(&rows, closes);
        report(&format!("bare, {order:?}"), count, closes, &bare, None);
        for in_flight in [1, 4] {
            let store = store(&rows, closes, in_flight);
            let name = format!("store, {order:?}, {in_flight} in flight");
            report(&name, count, closes, &store, Some(&bare));
        }
    }
}

struct Measured {
    insert: Duration,
    close: Duration,
    /// The longest single answer of each.
    insert_worst: Duration,
    close_worst: Duration,
    /// Of all threads: what others do on the machine moves this less than it moves the rates.
    insert_cpu: Duration,
    close_cpu: Duration,
    bytes: u64,
}

fn report(name: &str, count: usize, closes: usize, measured: &Measured, bare: Option<&Measured>) {
    let rate = |rows: usize, time: Duration| rows as f64 / time.as_secs_f64();
    let ratio = |own: Duration, other: Option<Duration>| match other {
        Some(other) => format!(" = {:.2} of bare", other.as_secs_f64() / own.as_secs_f64()),
        None => String::new(),
    };
    let show = |rows: usize, time: Duration, worst: Duration, cpu: Duration, ratio: String| {
        let (worst, cpu) = (worst.as_secs_f64() * 1e3, cpu.as_secs_f64() * 1e6 / rows as f64);
        format!("{:>8.0}/s{ratio} ({cpu:.2} us of CPU each, worst answer {worst:.0} ms)", rate(rows, time))
    };
    let Measured { insert, close, insert_worst, close_worst, insert_cpu, close_cpu, bytes } = measured;
    println!("{name}, {} MiB", bytes >> 20);
    let against = ratio(*insert, bare.map(|bare| bare.insert));
    println!("    insert         {}", show(count, *insert, *insert_worst, *insert_cpu, against));
    let against = ratio(*close, bare.map(|bare| bare.close));
    println!("    load and close {}", show(closes, *close, *close_worst, *close_cpu, against));
}

/// User and system time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = |index: usize| after_name.split(' ').nth(index).and_then(|word| word.parse::<u64>().ok());
    // Hundredths of a second on every Linux that this runs on.
    Duration::from_millis(10 * (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)))
}

/// One-shots with 100 bytes each, due over three days, in the order of their ids or not.
fn rows(count: usize, order: Order) -> Vec<NewRun> {
    let payload: Arc<str> = "x".repeat(100).into();
    let mut state: u64 = 42;
    let mut sequences = vec![0; DAYS as usize];
    let row = |index: usize| {
        let span = DAYS * DAY_MS;
        let offset = match order {
            Order::Ordered => (index as i128 * i128::from(span) / count as i128) as i64,
            Order::Random => {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 16) % span as u64) as i64
            }
        };
        let due = Timestamp::from_millis(FIRST + offset);
        let day = RunId::day_of(due);
        let sequence = &mut sequences[(day - RunId::day_of(Timestamp::from_millis(FIRST))) as usize];
        *sequence += 1;
        NewRun {
            id: RunId::new(day, *sequence),
            job: JobId(1 + (index % 100) as u32),
            shard: ShardId((index % usize::from(SHARDS)) as u16),
            fire_time: due,
            due,
            origin: Origin::OneShot,
            decided: Decided::NotYet,
            priority: 5,
            payload: Some(Arc::clone(&payload)),
            key: None,
            of: None,
            overrides: None,
        }
    };
    (0..count).map(row).collect()
}

// --- the store ---

fn store(rows: &[NewRun], closes: usize, in_flight: usize) -> Measured {
    let folder = Folder::new();
    let options = Options {
        shards: SHARDS,
        key_ttl: Duration::from_secs(60),
        clock: Arc::new(|| Timestamp::from_millis(FIRST)),
        ends_leases: true,
        limits: Limits::default(),
    };
    let store = Arc::new(Sqlite::open(&folder.database(), options).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let measured = runtime.block_on(async {
        let leases = hold_all(&store).await;
        let batches: Vec<Vec<NewRun>> = rows.chunks(BATCH).map(<[NewRun]>::to_vec).collect();
        let began = cpu();
        let (insert, insert_worst) = insert(&store, batches, in_flight).await;
        let inserted = cpu();
        let (close, close_worst) = load_and_close(&store, &leases, closes, in_flight).await;
        let (insert_cpu, close_cpu) = (inserted - began, cpu() - inserted);
        Measured { insert, close, insert_worst, close_worst, insert_cpu, close_cpu, bytes: 0 }
    });
    drop(store);
    Measured { bytes: folder.bytes(), ..measured }
}

async fn insert(store: &Arc<Sqlite>, batches: Vec<Vec<NewRun>>, in_flight: usize) -> (Duration, Duration) {
    let began = Instant::now();
    let mut worst = Duration::ZERO;
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let mut asked = std::collections::VecDeque::new();
            for batch in batches {
                if asked.len() == in_flight {
                    let task: tokio::task::JoinHandle<Duration> = asked.pop_front().unwrap();
                    worst = worst.max(task.await.unwrap());
                }
                let store = Arc::clone(store);
                asked.push_back(tokio::task::spawn_local(async move {
                    let asked_at = Instant::now();
                    store.accept(batch, Vec::new()).await.unwrap();
                    asked_at.elapsed()
                }));
                tokio::task::yield_now().await;
            }
            for task in asked {
                worst = worst.max(task.await.unwrap());
            }
        })
        .await;
    (began.elapsed(), worst)
}

/// Loads and closes one after the other, or the next load beside up to three settlements.
async fn load_and_close(
    store: &Arc<Sqlite>,
    leases: &[Lease],
    closes: usize,
    in_flight: usize,
) -> (Duration, Duration) {
    let began = Instant::now();
    let mut worst = Duration::ZERO;
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let mut from = Mark { due: Timestamp::MIN, id: 0 };
            let mut asked = std::collections::VecDeque::new();
            let mut closed = 0;
            while closed < closes {
                let asked_at = Instant::now();
                let loaded = store.load(leases, from, Timestamp::MAX, BATCH).await.unwrap();
                worst = worst.max(asked_at.elapsed());
                closed += loaded.runs.len();
                from = loaded.rest.unwrap_or(Mark { due: Timestamp::MAX, id: 0 });
                if asked.len() >= in_flight {
                    let task: tokio::task::JoinHandle<Duration> = asked.pop_front().unwrap();
                    worst = worst.max(task.await.unwrap());
                }
                let store = Arc::clone(store);
                let settle = async move {
                    let settlements = loaded.runs.iter().map(settlement).collect();
                    let asked_at = Instant::now();
                    let settled = store.settle(settlements).await.unwrap();
                    assert!(settled.iter().all(|settled| matches!(settled, Settled::Done { .. })));
                    asked_at.elapsed()
                };
                if in_flight == 1 {
                    worst = worst.max(settle.await);
                } else {
                    asked.push_back(tokio::task::spawn_local(settle));
                    tokio::task::yield_now().await;
                }
            }
            for task in asked {
                worst = worst.max(task.await.unwrap());
            }
        })
        .await;
    (began.elapsed(), worst)
}

async fn hold_all(store: &Sqlite) -> Vec<Lease> {
    let renewal = Renewal {
        node: NodeId(1),
        term: Duration::from_secs(3_600),
        mark: Timestamp::from_millis(FIRST),
        seen: ChangeId(0),
        name: "".into(),
        address: "".into(),
        checkpoints: Vec::new(),
    };
    store.renew(renewal).await.unwrap();
    let acquired = store.acquire(NodeId(1), (0..SHARDS).map(ShardId).collect()).await.unwrap();
    acquired.iter().map(|acquired| acquired.lease).collect()
}

fn settlement(run: &Waiting) -> Settlement {
    let token = Token::new(Epoch(1), Attempt::FIRST);
    let ended_at = Timestamp::from_millis(run.ready_at.as_millis() + 20);
    Settlement {
        run: run.run,
        job: run.job,
        shard: run.shard,
        is_foreign: false,
        fence: Fence::Sent(Attempt::FIRST, token),
        attempt: Some(AttemptRecord {
            number: Attempt::FIRST,
            token,
            executor: "worker-1".into(),
            started_at: Timestamp::from_millis(run.ready_at.as_millis() + 3),
            ended_at,
            outcome: AttemptOutcome::Succeeded,
            message: "".into(),
            possible_duplicate: false,
        }),
        then: Then::Close(Close {
            outcome: Outcome::Succeeded,
            reason: "".into(),
            closed_at: ended_at,
            range: None,
        }),
        children: Vec::new(),
        named: None,
        part_of: None,
    }
}

// --- bare statements ---

fn bare(rows: &[NewRun], closes: usize) -> Measured {
    let folder = Folder::new();
    let conn = open_bare(&folder.database());
    let (began, began_cpu) = (Instant::now(), cpu());
    let mut insert_worst = Duration::ZERO;
    for batch in rows.chunks(BATCH) {
        let asked_at = Instant::now();
        insert_bare(&conn, batch);
        insert_worst = insert_worst.max(asked_at.elapsed());
    }
    let (insert, insert_cpu) = (began.elapsed(), cpu() - began_cpu);
    conn.execute_batch("create index runs_by_due on runs (due, id); pragma wal_checkpoint(truncate);")
        .unwrap();
    let (began, began_cpu) = (Instant::now(), cpu());
    let mut close_worst = Duration::ZERO;
    let mut last = (i64::MIN, 0);
    for _ in 0..closes / BATCH {
        let asked_at = Instant::now();
        last = close_bare(&conn, last);
        close_worst = close_worst.max(asked_at.elapsed());
    }
    let (close, close_cpu) = (began.elapsed(), cpu() - began_cpu);
    drop(conn);
    Measured { insert, close, insert_worst, close_worst, insert_cpu, close_cpu, bytes: folder.bytes() }
}

fn open_bare(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(
        "pragma page_size = 8192;
         pragma journal_mode = wal;
         pragma synchronous = full;
         pragma wal_autocheckpoint = 2048;
         pragma temp_store = memory;
         pragma cache_size = -65536;
         create table runs (
             id integer primary key, job integer not null, shard integer not null, fire_time integer not null,
             due integer not null, origin integer not null, decided integer not null, priority integer not null,
             key text, of integer, payload text
         ) strict;
         create table closes (
             place integer primary key, run integer not null, outcome integer not null, reason text not null,
             closed_at integer not null, range_until integer, range_count integer, unsent integer, attempt integer,
             token integer, executor text, started_at integer, ended_at integer, attempt_outcome integer,
             message text, possible_duplicate integer
         ) strict;",
    )
    .unwrap();
    conn
}

fn insert_bare(conn: &Connection, batch: &[NewRun]) {
    let transaction = conn.unchecked_transaction().unwrap();
    let mut insert = conn
        .prepare_cached(
            "insert into runs (id, job, shard, fire_time, due, origin, decided, priority, key, of, payload)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .unwrap();
    for run in batch {
        insert
            .execute(params![
                run.id.0 as i64,
                run.job.0,
                run.shard.0,
                run.fire_time.as_millis(),
                run.due.as_millis(),
                2,
                0,
                run.priority,
                run.key.as_deref(),
                run.of.map(|of| of.0 as i64),
                run.payload.as_deref(),
            ])
            .unwrap();
    }
    drop(insert);
    transaction.commit().unwrap();
}

fn close_bare(conn: &Connection, last: (i64, i64)) -> (i64, i64) {
    let transaction = conn.unchecked_transaction().unwrap();
    let mut select = conn
        .prepare_cached("select due, id from runs where (due, id) > (?1, ?2) order by due, id limit ?3")
        .unwrap();
    let loaded: Vec<(i64, i64)> = select
        .query_map(params![last.0, last.1, BATCH as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut insert = conn
        .prepare_cached(
            "insert into closes (run, outcome, reason, closed_at, range_until, range_count, unsent, attempt, token,
                                 executor, started_at, ended_at, attempt_outcome, message, possible_duplicate)
             values (?1, 0, '', ?2, null, null, null, 1, ?3, ?4, ?5, ?6, 0, '', 0)",
        )
        .unwrap();
    for (due, id) in &loaded {
        insert.execute(params![id, due + 20, 1 << 20 | 1, "worker-1", due + 3, due + 20]).unwrap();
    }
    drop((select, insert));
    transaction.commit().unwrap();
    loaded.last().copied().unwrap_or(last)
}

/// A folder that is removed when the value goes.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("punctual-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn database(&self) -> PathBuf {
        self.0.join("bench.db")
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(self.database()).map_or(0, |file| file.len())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

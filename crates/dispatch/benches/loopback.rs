//! How many requests a second reach an agent on loopback, agent and caller sharing the machine.
//!
//! `cargo bench -p punctual-dispatch` prints the rate and what the agent alone can take from a caller that does
//! nothing but write and read.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

#[path = "../tests/house/mod.rs"]
mod house;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use house::{at, job, run_of};
use punctual_core::model::{AttemptOutcome, Http, RunId};
use punctual_dispatch::{Agents, Guard, Options, Setup};
use punctual_node::ports::{Dispatch, Dispatched, Entropy, Heard};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

const IN_FLIGHT: usize = 200;
const REQUESTS: usize = 200_000;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (rate, batches, bare) = runtime.block_on(async {
        let address = agent().await;
        let (rate, batches) = through_the_pool(address).await;
        (rate, batches, bare(address).await)
    });
    let per_batch = REQUESTS / batches.max(1);
    let mut out = std::io::stdout();
    writeln!(out, "dispatch: {rate:.0} requests/s with {IN_FLIGHT} in flight, {per_batch} reports a batch")
        .unwrap();
    writeln!(out, "bare:     {bare:.0} requests/s over as many connections; ratio {:.2}", rate / bare)
        .unwrap();
}

/// Answers everything with as little work as possible.
async fn agent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                // One request fits into one segment and one read.
                while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                    stream.write_all(ANSWER).await.unwrap();
                }
            });
        }
    });
    address
}

struct Weyl(AtomicU64);

impl Entropy for Weyl {
    fn bits(&self) -> u64 {
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

async fn through_the_pool(address: SocketAddr) -> (f64, usize) {
    let http =
        Http { body: Some(r#"{"type":"daily"}"#.into()), ..Http::post(format!("http://{address}/agent")) };
    let template = run_of(&job(http, |_| {}));
    let next = Arc::new(AtomicU64::new(1));
    let run = move || Dispatched { run: RunId(next.fetch_add(1, Ordering::Relaxed)), ..template.clone() };
    let (told, batches, done) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let agents: Arc<OnceLock<Weak<Agents>>> = Arc::default();
    let sink = {
        let (told, batches, done) = (told.clone(), batches.clone(), done.clone());
        let (agents, run) = (agents.clone(), run.clone());
        move |reports: Vec<Heard>| {
            let is_well = |heard: &Heard| matches!(heard, Heard::Report(report) if report.outcome == AttemptOutcome::Succeeded);
            assert!(reports.iter().all(is_well), "{:?}", reports[0]);
            batches.fetch_add(1, Ordering::Relaxed);
            let before = told.fetch_add(reports.len(), Ordering::Relaxed);
            let left = REQUESTS.saturating_sub(before + reports.len() + IN_FLIGHT).min(reports.len());
            if let Some(agents) = agents.get().and_then(Weak::upgrade) {
                agents.send((0..left).map(|_| run()).collect());
            }
            if before + reports.len() >= REQUESTS - IN_FLIGHT {
                done.notify_one();
            }
        }
    };
    let setup = Setup {
        runtime: Handle::current(),
        options: Options::default(),
        guard: Guard::new::<&str>(&[], true).unwrap(),
        now: Arc::new(|| at(house::NOW)),
        entropy: Arc::new(Weyl(AtomicU64::new(1))),
        sink: Arc::new(sink),
    };
    let kept = Arc::new(Agents::new(setup).unwrap());
    agents.set(Arc::downgrade(&kept)).ok();
    let begun = Instant::now();
    kept.send((0..IN_FLIGHT).map(|_| run()).collect());
    done.notified().await;
    kept.drain(Duration::from_secs(30)).await;
    (told.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64(), batches.load(Ordering::Relaxed))
}

/// The limit: the same bytes over as many connections, without queue, guard, headers or reports.
async fn bare(address: SocketAddr) -> f64 {
    let head = format!("POST /agent HTTP/1.1\r\nhost: {address}\r\nx: {}\r\n\r\n", "x".repeat(300));
    let begun = Instant::now();
    let callers: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let head = head.clone();
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut buffer = [0; 1024];
                for _ in 0..REQUESTS / IN_FLIGHT {
                    stream.write_all(head.as_bytes()).await.unwrap();
                    let count = stream.read(&mut buffer).await.unwrap();
                    assert_eq!(&buffer[..count], ANSWER);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    REQUESTS as f64 / begun.elapsed().as_secs_f64()
}

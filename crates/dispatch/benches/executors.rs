//! How many attempts a second reach an executor on loopback, executor and caller sharing the machine.
//!
//! `cargo bench -p punctual-dispatch --bench executors` prints the rate and the processor time of both sides.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

#[path = "../tests/fake/mod.rs"]
mod fake;
#[path = "../tests/house/mod.rs"]
mod house;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fake::{address, executor_job, run_at};
use house::at;
use punctual_core::model::RunId;
use punctual_core::registry::Dialect;
use punctual_dispatch::xxl::{Options, Setup};
use punctual_dispatch::{Executors, Guard};
use punctual_node::ports::{Dispatch, Dispatched, Heard};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::Instant;

const RUNS: u64 = 200_000;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n{\"code\":200,\"msg\":null}";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut out = std::io::stdout();
    runtime.block_on(async {
        let executors = executors();
        let began = (Instant::now(), processor_time());
        attempts(&executors, executor().await).await;
        writeln!(out, "attempts: {}", rate(began)).unwrap();
    });
}

fn rate((began, processor): (Instant, Duration)) -> String {
    let per_second = RUNS as f64 / began.elapsed().as_secs_f64();
    let each = (processor_time() - processor).as_secs_f64() * 1e6 / RUNS as f64;
    format!("{per_second:.0} a second, {each:.1} µs of processor each")
}

/// What this process has used so far, in ticks of a hundredth of a second.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = text.split(' ').skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Nothing is told of attempts that are accepted.
fn executors() -> Executors {
    let setup = Setup {
        runtime: Handle::current(),
        options: Options { queue_timeout: Duration::from_secs(300), ..Options::default() },
        guard: Guard::new::<&str>(&[], true).unwrap(),
        listed: Guard::default(),
        now: Arc::new(|| at(house::NOW)),
        sink: Arc::new(|heard: Vec<Heard>| panic!("{heard:?}")),
        access_token: Some(punctual_core::registry::Secret::new("global")),
    };
    Executors::new(setup).unwrap()
}

/// Takes everything with as little work as possible.
async fn executor() -> SocketAddr {
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

async fn attempts(executors: &Executors, executor: SocketAddr) {
    let job = executor_job(|definition| definition.timeout = Duration::from_secs(300));
    let template = run_at(&job, address(&format!("http://{executor}"), Dialect::Classic));
    for batch in 0..RUNS / 1_000 {
        let run = |number| Dispatched { run: RunId(batch * 1_000 + number), ..template.clone() };
        executors.send((0..1_000).map(run).collect());
    }
    assert_eq!(executors.drain(Duration::from_secs(300)).await, 0);
}

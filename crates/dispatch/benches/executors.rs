//! How many attempts a second reach an executor on loopback, and how many reports a second are kept, executor and caller
//! sharing the machine.
//!
//! `cargo bench -p punctual-dispatch --bench executors` prints the rates and the processor time of both sides.

#[path = "../tests/fake/mod.rs"]
mod fake;
#[path = "../tests/house/mod.rs"]
mod house;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use fake::{address, executor_job, run_at};
use house::at;
use punctual_core::model::{Attempt, AttemptOutcome, RunId, Token};
use punctual_core::registry::Dialect;
use punctual_dispatch::xxl::{Options, Setup};
use punctual_dispatch::{Executors, Guard};
use punctual_node::ports::{Dispatch, Dispatched, Further, Heard, Receipt, Report};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::Instant;

const RUNS: u64 = 200_000;
const KEEPERS: u64 = 64;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n{\"code\":200,\"msg\":null}";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut out = std::io::stdout();
    runtime.block_on(async {
        let executors = executors();
        let began = (Instant::now(), processor_time());
        attempts(&executors, executor().await).await;
        writeln!(out, "attempts: {}", rate(began)).unwrap();
        let began = (Instant::now(), processor_time());
        reports(&executors).await;
        writeln!(out, "reports:  {}", rate(began)).unwrap();
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

/// Everything that is heard is kept at once.
fn executors() -> Arc<Executors> {
    let own: Arc<OnceLock<Weak<Executors>>> = Arc::default();
    let known = own.clone();
    let sink = move |heard: Vec<Heard>| {
        let receipt = |heard: Heard| match heard {
            Heard::Report(report) if report.outcome == AttemptOutcome::Succeeded => report.receipt,
            other => panic!("{other:?}"),
        };
        let executors = known.get().and_then(Weak::upgrade).unwrap();
        executors.acknowledge(heard.into_iter().map(receipt).collect());
    };
    let setup = Setup {
        runtime: Handle::current(),
        options: Options { queue_timeout: Duration::from_secs(300), ..Options::default() },
        guard: Guard::new::<&str>(&[], true).unwrap(),
        listed: Guard::default(),
        now: Arc::new(|| at(house::NOW)),
        sink: Arc::new(sink),
        access_token: Some(punctual_core::registry::Secret::new("global")),
    };
    let executors = Arc::new(Executors::new(setup).unwrap());
    own.set(Arc::downgrade(&executors)).ok();
    executors
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

/// Many executors report at the same time, one run in each request.
async fn reports(executors: &Arc<Executors>) {
    let keepers: Vec<_> = (0..KEEPERS)
        .map(|_| {
            let executors = executors.clone();
            tokio::spawn(async move {
                for number in 0..RUNS / KEEPERS {
                    executors.keep(vec![report(number)], Duration::from_secs(30)).await.unwrap();
                }
            })
        })
        .collect();
    for keeper in keepers {
        keeper.await.unwrap();
    }
}

fn report(number: u64) -> Report {
    Report {
        receipt: Receipt::default(),
        run: RunId(number),
        attempt: Attempt::FIRST,
        token: Token(1),
        outcome: AttemptOutcome::Succeeded,
        message: "done".into(),
        executor: "".into(),
        app: None,
        started_at: at(house::NOW),
        retry_after: None,
        further: Further::Welcome,
    }
}

//! One-shots submitted through the API, each request waiting until they are durable: one a request over many connections,
//! beside a bare loop of such requests, and many a request over a few connections.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;

use super::BenchSetup;
use super::stage::{create_job, launch};
use crate::clock::{Watch, store_clock};
use crate::database::{Database, Home};
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::served::{Agent, Served, call_in_a_loop};
use crate::{BenchError, Figure, Figures};

/// Runs in a request, and number of connections.
const CASES: [(u64, usize); 3] = [(1, 256), (1_000, 4), (10_000, 2)];

/// Due far enough ahead that none begins.
const AHEAD: Duration = Duration::from_secs(3_600);

/// A payload of about a hundred bytes.
const NOTE: &str = "a no-op of a hundred bytes";

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("submit")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = Vec::new();
    for (batch, connections) in CASES {
        let figure = runtime.block_on(measure(setup, &database, batch, connections))?;
        figures.push(figure.on(database.kind));
        let _ = std::fs::remove_dir_all(database.place().file("data"));
    }
    Ok(figures)
}

async fn measure(
    setup: &BenchSetup,
    database: &Database,
    batch: u64,
    connections: usize,
) -> Result<Figure, BenchError> {
    let watch = Arc::new(Watch::start());
    let count = match batch {
        1 => setup.sizes.submitted_alone,
        _ => setup.sizes.submitted.max(batch),
    };
    let mut home = database.empty("node").await?;
    let mut node = Served::start(&launch(setup, database, &mut home)?).await?;
    let job = create_job(&mut node, "bench").await?;
    let form = Arc::new(Form { job, due: watch.now().saturating_add(AHEAD).to_string(), batch });
    let mut bare = None;
    if batch == 1 {
        let agent = Agent::start(&watch).await?;
        let body = form.body(0..1);
        bare = Some(call_in_a_loop(&watch, agent.address, connections, count, body).await?);
    }
    let mut lines = Vec::new();
    for _ in 0..connections {
        let mut line = node.another();
        line.connect().await?;
        lines.push(line);
    }
    let (before, servers) = (home.counts().await?, database.cpu_seconds());
    let (cpu, begun) = (cpu_seconds_of(node.id()), watch.elapsed());
    let next = Arc::new(AtomicU64::new(0));
    let mut askers = JoinSet::new();
    for line in lines {
        askers.spawn(hand_over(line, Arc::clone(&form), Arc::clone(&next), count, Arc::clone(&watch)));
    }
    let (mut took, mut accepted) = (Vec::new(), 0);
    while let Some(asked) = askers.join_next().await {
        let (times, taken) = asked??;
        took.extend(times);
        accepted += taken;
    }
    let all = watch.elapsed() - begun;
    let (cpu, rss) = (cpu_seconds_of(node.id()) - cpu, resident_bytes_of(node.id()));
    let servers = database.cpu_seconds().zip(servers);
    let counts = home.counts().await?.since(before, count as f64);
    // Killed, so that acknowledged runs have to be in the store.
    node.kill();
    let stored = stored(&home, &watch).await?;
    let case = format!("{batch} a request, {connections} connections");
    let mut figure = Figure::new("submit", case, accepted)
        .took("runs", all)
        .steps(took)
        .cpu(cpu)
        .resident(rss)
        .whole(count.saturating_sub(stored.min(accepted)), stored.saturating_sub(count))
        .counted(counts);
    if let Some(bare) = bare {
        figure = figure.beside(bare);
    }
    Ok(match servers {
        Some((after, before)) => figure.with("server_cpu_s", after - before),
        None => figure,
    })
}

/// Submits batches until none is left. Returns the duration of each request, and the number of accepted runs.
async fn hand_over(
    mut node: Served,
    form: Arc<Form>,
    next: Arc<AtomicU64>,
    count: u64,
    watch: Arc<Watch>,
) -> Result<(Vec<Duration>, u64), BenchError> {
    let (mut took, mut accepted) = (Vec::new(), 0);
    loop {
        let from = next.fetch_add(form.batch, Ordering::Relaxed);
        if from >= count {
            return Ok((took, accepted));
        }
        let body = form.body(from..count.min(from + form.batch));
        let begun = watch.elapsed();
        let answer = node.ask_text("POST", "/api/v1/runs", body).await?;
        took.push(watch.elapsed() - begun);
        accepted += serde_json::from_slice::<SubmitAnswer>(&answer)?.accepted;
    }
}

/// The answer to a submission.
#[derive(Deserialize)]
struct SubmitAnswer {
    accepted: u64,
}

/// The fields that all requests have in common.
struct Form {
    job: Value,
    due: String,
    batch: u64,
}

impl Form {
    /// The body of a request with these runs.
    fn body(&self, mut numbers: Range<u64>) -> String {
        let mut body = String::with_capacity(300 * (numbers.end - numbers.start) as usize);
        if self.batch == 1 {
            self.write(&mut body, numbers.start);
            return body;
        }
        body.push_str(r#"{"runs":["#);
        if let Some(first) = numbers.next() {
            self.write(&mut body, first);
        }
        for number in numbers {
            body.push(',');
            self.write(&mut body, number);
        }
        body.push_str("]}");
        body
    }

    fn write(&self, body: &mut String, number: u64) {
        let Form { job, due, .. } = self;
        let written = write!(
            body,
            r#"{{"job":{job},"at":"{due}","payload":{{"order":"0123456789abcdef","amount":"17.90","currency":"EUR","number":{number},"note":"{NOTE}"}}}}"#
        );
        written.expect("a text takes whatever is written");
    }
}

async fn stored(home: &Home, watch: &Arc<Watch>) -> Result<u64, BenchError> {
    let store = home.open(store_clock(watch), false).await?;
    Ok(store.storage().await?.iter().map(|bucket| bucket.runs).sum())
}

//! A whole node and an executor: how many runs a second are sent, reported and written down, and how late they arrive at
//! a tenth, a half and nine tenths of that rate. `xxl` speaks XXL-JOB's protocol, `native` is made with the SDK. Both
//! share the machine's cores with the node.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Setup;
use super::cron::next_instant;
use crate::clock::Watch;
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::place::Place;
use crate::served::{Arrived, Bare, Crew, Executor, Native, Served, call_in_a_loop, echo};
use crate::{Failure, Figure, Figures};

/// How long what is late may still come.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many are handed over in one request.
const BATCH: usize = 10_000;

/// Connections of the bare loop, as many as a node has to one executor.
const CONNECTIONS: usize = 32;

/// How many times as much is echoed, so that it takes long enough to be measured.
const ECHOES: u64 = 5;

/// How long each of the steady loads lasts.
const STEADY: Duration = Duration::from_secs(10);

pub(super) fn xxl(setup: &Setup) -> Figures {
    run(setup, "xxl", async |watch, node, _| {
        let executor = Executor::start(watch, node, "bench").await?;
        let bare = call_in_a_loop(watch, executor.address, CONNECTIONS, setup.sizes.triggered).await?;
        executor.take();
        Ok((Crew::Xxl(executor), Bare { took: bare, count: setup.sizes.triggered, wire: None }))
    })
}

pub(super) fn native(setup: &Setup) -> Figures {
    run(setup, "native", async |watch, node, token| {
        let bare = echo(watch, setup.sizes.triggered * ECHOES).await?;
        Ok((Crew::Native(Native::start(watch, node, token, "bench").await?), bare))
    })
}

fn run(
    setup: &Setup,
    name: &'static str,
    start: impl AsyncFn(&Arc<Watch>, &str, &str) -> Result<(Crew, Bare), Failure>,
) -> Figures {
    let punctual = setup.punctual.as_deref().ok_or("where is the program punctual?")?;
    let place = Place::make(&setup.dir, name)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(punctual, &place, setup.sizes.triggered, name, start))
}

async fn measure(
    punctual: &Path,
    place: &Place,
    count: u64,
    name: &'static str,
    start: impl AsyncFn(&Arc<Watch>, &str, &str) -> Result<(Crew, Bare), Failure>,
) -> Figures {
    let watch = Arc::new(Watch::start());
    let mut node = Served::start(punctual, &place.file("data")).await?;
    let (crew, bare) = start(&watch, node.authority(), node.token()).await?;
    let target = json!({"kind": "executor", "handler": "bench", "route": "round"});
    let job = json!({"app": "bench", "name": name, "schedule": {"kind": "manual"}, "target": target});
    let job = node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone();
    let mut bench = Bench { name, watch: &watch, node: &mut node, crew: &crew, job: &job };

    let full = bench.saturated(count, &bare).await?;
    let rate = full.rate.unwrap_or(0.0);
    let mut figures = vec![full];
    for share in [10, 50, 90] {
        let rate = (rate * f64::from(share) / 100.0) as u64;
        figures.push(bench.steady(rate, share).await?);
    }
    Ok(figures)
}

/// What is measured, and with what.
struct Bench<'a> {
    name: &'static str,
    watch: &'a Watch,
    node: &'a mut Served,
    crew: &'a Crew,
    job: &'a Value,
}

impl Bench<'_> {
    /// Everything is due at once: the rate from the first arrival to the last result that is kept.
    async fn saturated(&mut self, count: u64, bare: &Bare) -> Result<Figure, Failure> {
        let lead = Duration::from_secs(4 + count / 100_000);
        let due = next_instant(self.watch.now().saturating_add(lead), Duration::from_secs(1));
        let at = due.as_millis();
        submit(self.node, self.job, (0..count).map(|_| at)).await?;
        let cpu = cpu_seconds_of(self.node.id());
        let took = self.wait(count, self.watch.until(due)).await?.saturating_sub(since_1970(at));
        let (cpu, rss) = (cpu_seconds_of(self.node.id()) - cpu, resident_bytes_of(self.node.id()));
        let arrived = self.crew.take();
        let (lost, doubled) = whole(&arrived, count);
        let figure = Figure::new(self.name, "sent, reported, kept", count)
            .took("runs", took)
            .beside(bare.took.mul_f64(count as f64 / bare.count as f64))
            .cpu(cpu)
            .resident(rss)
            .whole(lost, doubled)
            .with("cores", cpu / took.as_secs_f64())
            .with("runs_per_core_second", count as f64 / cpu.max(1e-9));
        Ok(match bare.wire {
            Some(bytes) => figure.with("wire_bytes_per_run", bytes),
            None => figure,
        })
    }

    /// A load that never fills the node: how late each arrives.
    async fn steady(&mut self, rate: u64, share: u32) -> Result<Figure, Failure> {
        let count = rate * STEADY.as_secs();
        let lead = Duration::from_secs(5 + count / 50_000);
        let due = next_instant(self.watch.now().saturating_add(lead), Duration::from_secs(1));
        let start = due.as_millis();
        let spread = STEADY.as_millis() as u64;
        let dues = (0..count).map(|number| start + (number * spread / count.max(1)) as i64);
        submit(self.node, self.job, dues).await?;
        let is_in_time = self.watch.now() < due;
        let cpu = cpu_seconds_of(self.node.id());
        self.wait(count, self.watch.until(due) + STEADY).await?;
        let (cpu, rss) = (cpu_seconds_of(self.node.id()) - cpu, resident_bytes_of(self.node.id()));
        let arrived = self.crew.take();
        let lags = arrived.iter().map(|one| one.at.saturating_sub(since_1970(one.run as i64))).collect();
        let (lost, doubled) = whole(&arrived, count);
        Ok(Figure::new(self.name, format!("at {share} % of that"), count)
            .took("runs", STEADY)
            .steps(lags)
            .cpu(cpu)
            .resident(rss)
            .whole(lost, doubled)
            .with("handed_in_before", f64::from(u8::from(is_in_time))))
    }

    /// When the last result was kept, since 1970.
    async fn wait(&self, count: u64, due_in: Duration) -> Result<Duration, Failure> {
        let deadline = self.watch.elapsed() + due_in + PATIENCE;
        while self.crew.counts().1 < count {
            if self.watch.elapsed() > deadline {
                let (arrived, kept) = self.crew.counts();
                let said = format!("of {count} runs {arrived} arrived and the results of {kept} are kept");
                return Err(said.into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(self.watch.date())
    }
}

/// Each run brings the millisecond at which it is due.
async fn submit(node: &mut Served, job: &Value, dues: impl Iterator<Item = i64>) -> Result<(), Failure> {
    let one = |at: i64| {
        let due = calendar::Timestamp::from_millis(at).to_string();
        json!({"job": job, "at": due, "payload": at.to_string()})
    };
    let runs: Vec<Value> = dues.map(one).collect();
    for batch in runs.chunks(BATCH) {
        node.ask("POST", "/api/v1/runs", &json!({"runs": batch})).await?;
    }
    Ok(())
}

/// How many are missing or too many. Runs of one millisecond cannot be told apart, so they are counted.
fn whole(arrived: &[Arrived], count: u64) -> (u64, u64) {
    let arrived = arrived.len() as u64;
    (count.saturating_sub(arrived), arrived.saturating_sub(count))
}

fn since_1970(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

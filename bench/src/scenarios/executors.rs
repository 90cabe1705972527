//! A whole node and an executor: how many runs a second are sent, reported and stored, and the lateness at 10, 50 and 90 %
//! of that rate. `xxl` speaks XXL-JOB's protocol, `native` uses the SDK. Both share the machine's cores with the node.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::BenchSetup;
use super::cron::next_instant;
use super::stage::{create_job, hand_over, lags, launch, since_1970, whole};
use crate::clock::{self, Watch};
use crate::database::{Database, DatabaseKind, Home};
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::served::{
    BenchExecutor, EchoResult, HELLO, LOOK_OFTEN, Native, Served, XxlExecutor, call_in_a_loop, echo,
};
use crate::{BenchError, Figure, Figures};

/// How long to wait for late runs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Connections of the bare loop, as many as a node has to one executor.
const CONNECTIONS: usize = 32;

/// The bare limit echoes this many times as much, so that it lasts long enough to be measured.
const ECHOES: u64 = 5;

/// The server's counters are read this long before the first run is due.
pub(super) const COUNTING: Duration = Duration::from_millis(2_500);

/// How long each of the steady loads lasts.
const STEADY: Duration = Duration::from_secs(10);

pub(super) fn xxl(setup: &BenchSetup) -> Figures {
    run(setup, "xxl", async |watch, node, _| {
        let executor = XxlExecutor::start(watch, node, "bench").await?;
        let count = setup.sizes.triggered;
        let bare = call_in_a_loop(watch, executor.address, CONNECTIONS, count, HELLO).await?;
        executor.take();
        Ok((BenchExecutor::Xxl(executor), EchoResult { took: bare, count, wire: None }))
    })
}

pub(super) fn native(setup: &BenchSetup) -> Figures {
    run(setup, "native", async |watch, node, token| {
        let bare = echo(watch, setup.sizes.triggered * ECHOES).await?;
        Ok((BenchExecutor::Native(Native::start(watch, node, token, "bench", LOOK_OFTEN).await?), bare))
    })
}

/// Only the saturated rate, through native executors.
pub(super) fn execute(setup: &BenchSetup) -> Figures {
    let start = async |watch: &Arc<Watch>, node: &str, token: &str| {
        let bare = echo(watch, setup.sizes.executed * ECHOES).await?;
        Ok((BenchExecutor::Native(Native::start(watch, node, token, "bench", LOOK_OFTEN).await?), bare))
    };
    let database = setup.start("execute")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(setup, &database, "execute", setup.sizes.executed, &[], start))
}

fn run(
    setup: &BenchSetup,
    name: &'static str,
    start: impl AsyncFn(&Arc<Watch>, &str, &str) -> Result<(BenchExecutor, EchoResult), BenchError>,
) -> Figures {
    let database = setup.start(name)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(setup, &database, name, setup.sizes.triggered, &[10, 50, 90], start))
}

async fn measure(
    setup: &BenchSetup,
    database: &Database,
    name: &'static str,
    count: u64,
    shares: &[u32],
    start: impl AsyncFn(&Arc<Watch>, &str, &str) -> Result<(BenchExecutor, EchoResult), BenchError>,
) -> Figures {
    let watch = Arc::new(Watch::start());
    let mut home = database.empty("node").await?;
    let launch = launch(setup, database, &mut home)?;
    let mut node = Served::start(&launch).await?;
    let (crew, bare) = start(&watch, node.authority(), node.token()).await?;
    let job = create_job(&mut node, name).await?;
    let mut bench =
        Bench { name, watch: &watch, node: &mut node, crew: &crew, job: &job, database, home: &home };

    let full = bench.saturated(count, &bare).await?;
    let rate = full.rate.unwrap_or(0.0);
    let mut figures = vec![full];
    for share in shares {
        let rate = (rate * f64::from(*share) / 100.0) as u64;
        figures.push(bench.steady(rate, *share).await?);
    }
    Ok(figures)
}

/// The parts of a measurement.
struct Bench<'a> {
    name: &'static str,
    watch: &'a Watch,
    node: &'a mut Served,
    crew: &'a BenchExecutor,
    job: &'a Value,
    database: &'a Database,
    home: &'a Home,
}

impl Bench<'_> {
    /// All runs are due at once: the rate from the first arrival to the last stored result.
    async fn saturated(&mut self, count: u64, bare: &EchoResult) -> Result<Figure, BenchError> {
        // A server on the same machine accepts one-shots more slowly than a file.
        let per_second = if self.database.kind == DatabaseKind::Sqlite { 100_000 } else { 20_000 };
        let lead = Duration::from_secs(4 + count / per_second);
        let due = next_instant(self.watch.now().saturating_add(lead), Duration::from_secs(1));
        let at = due.as_millis();
        hand_over(self.node, self.job, (0..count).map(|_| at)).await?;
        let is_in_time = self.watch.now() < due;
        clock::sleep(self.watch.until(due).saturating_sub(COUNTING)).await;
        let (before, servers) = (self.home.counts().await?, self.database.cpu_seconds());
        let cpu = cpu_seconds_of(self.node.id());
        let took = self.wait(count, self.watch.until(due)).await?.saturating_sub(since_1970(at));
        let (cpu, rss) = (cpu_seconds_of(self.node.id()) - cpu, resident_bytes_of(self.node.id()));
        let servers = self.database.cpu_seconds().zip(servers);
        let counts = self.home.counts().await?.since(before, count as f64);
        let arrived = self.crew.take();
        let (lost, doubled) = whole(&arrived, count);
        let figure = Figure::new(self.name, "sent, reported, kept", count)
            .took("runs", took)
            .beside(bare.took.mul_f64(count as f64 / bare.count as f64))
            .cpu(cpu)
            .resident(rss)
            .whole(lost, doubled)
            .on(self.database.kind)
            .counted(counts)
            .with("handed_in_before", f64::from(u8::from(is_in_time)))
            .with("cores", cpu / took.as_secs_f64())
            .with("runs_per_core_second", count as f64 / cpu.max(1e-9));
        let figure = match servers {
            Some((after, before)) => figure.with("server_cores", (after - before) / took.as_secs_f64()),
            None => figure,
        };
        Ok(match bare.wire {
            Some(bytes) => figure.with("wire_bytes_per_run", bytes),
            None => figure,
        })
    }

    /// A load below saturation: the lateness of each run.
    async fn steady(&mut self, rate: u64, share: u32) -> Result<Figure, BenchError> {
        let count = rate * STEADY.as_secs();
        let lead = Duration::from_secs(5 + count / 50_000);
        let due = next_instant(self.watch.now().saturating_add(lead), Duration::from_secs(1));
        let start = due.as_millis();
        let spread = STEADY.as_millis() as u64;
        let dues = (0..count).map(|number| start + (number * spread / count.max(1)) as i64);
        hand_over(self.node, self.job, dues).await?;
        let is_in_time = self.watch.now() < due;
        let cpu = cpu_seconds_of(self.node.id());
        self.wait(count, self.watch.until(due) + STEADY).await?;
        let (cpu, rss) = (cpu_seconds_of(self.node.id()) - cpu, resident_bytes_of(self.node.id()));
        let arrived = self.crew.take();
        let (lost, doubled) = whole(&arrived, count);
        Ok(Figure::new(self.name, format!("at {share} % of that"), count)
            .took("runs", STEADY)
            .steps(lags(&arrived))
            .cpu(cpu)
            .resident(rss)
            .whole(lost, doubled)
            .on(self.database.kind)
            .with("handed_in_before", f64::from(u8::from(is_in_time))))
    }

    /// When the last result was stored, since 1970.
    async fn wait(&self, count: u64, due_in: Duration) -> Result<Duration, BenchError> {
        let deadline = self.watch.elapsed() + due_in + PATIENCE;
        while self.crew.counts().1 < count {
            if self.watch.elapsed() > deadline {
                let (arrived, kept) = self.crew.counts();
                let said = format!("of {count} runs {arrived} arrived and the results of {kept} are kept");
                return Err(said.into());
            }
            clock::sleep(Duration::from_millis(5)).await;
        }
        Ok(self.watch.date())
    }
}

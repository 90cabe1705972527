//! A whole node and an executor: how many runs a second are sent, reported and written down, and how late they arrive at
//! a tenth, a half and nine tenths of that rate. `xxl` speaks XXL-JOB's protocol, `native` is made with the SDK. Both
//! share the machine's cores with the node.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Setup;
use super::cron::next_instant;
use super::stage::{create_job, hand_over, lags, launch, since_1970, whole};
use crate::clock::Watch;
use crate::database::{Database, Home, Kind};
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::served::{Bare, Crew, Executor, HELLO, LOOK_OFTEN, Native, Served, call_in_a_loop, echo};
use crate::{Failure, Figure, Figures};

/// How long what is late may still come.
const PATIENCE: Duration = Duration::from_secs(120);

/// Connections of the bare loop, as many as a node has to one executor.
const CONNECTIONS: usize = 32;

/// How many times as much is echoed, so that it takes long enough to be measured.
const ECHOES: u64 = 5;

/// How long before the first is due a server is asked what it has counted so far.
pub(super) const COUNTING: Duration = Duration::from_millis(2_500);

/// How long each of the steady loads lasts.
const STEADY: Duration = Duration::from_secs(10);

pub(super) fn xxl(setup: &Setup) -> Figures {
    run(setup, "xxl", async |watch, node, _| {
        let executor = Executor::start(watch, node, "bench").await?;
        let count = setup.sizes.triggered;
        let bare = call_in_a_loop(watch, executor.address, CONNECTIONS, count, HELLO).await?;
        executor.take();
        Ok((Crew::Xxl(executor), Bare { took: bare, count, wire: None }))
    })
}

pub(super) fn native(setup: &Setup) -> Figures {
    run(setup, "native", async |watch, node, token| {
        let bare = echo(watch, setup.sizes.triggered * ECHOES).await?;
        Ok((Crew::Native(Native::start(watch, node, token, "bench", LOOK_OFTEN).await?), bare))
    })
}

/// Only as fast as it goes, through native executors.
pub(super) fn execute(setup: &Setup) -> Figures {
    let start = async |watch: &Arc<Watch>, node: &str, token: &str| {
        let bare = echo(watch, setup.sizes.executed * ECHOES).await?;
        Ok((Crew::Native(Native::start(watch, node, token, "bench", LOOK_OFTEN).await?), bare))
    };
    let database = setup.start("execute")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(setup, &database, "execute", setup.sizes.executed, &[], start))
}

fn run(
    setup: &Setup,
    name: &'static str,
    start: impl AsyncFn(&Arc<Watch>, &str, &str) -> Result<(Crew, Bare), Failure>,
) -> Figures {
    let database = setup.start(name)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(setup, &database, name, setup.sizes.triggered, &[10, 50, 90], start))
}

async fn measure(
    setup: &Setup,
    database: &Database,
    name: &'static str,
    count: u64,
    shares: &[u32],
    start: impl AsyncFn(&Arc<Watch>, &str, &str) -> Result<(Crew, Bare), Failure>,
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

/// What is measured, and with what.
struct Bench<'a> {
    name: &'static str,
    watch: &'a Watch,
    node: &'a mut Served,
    crew: &'a Crew,
    job: &'a Value,
    database: &'a Database,
    home: &'a Home,
}

impl Bench<'_> {
    /// Everything is due at once: the rate from the first arrival to the last result that is kept.
    async fn saturated(&mut self, count: u64, bare: &Bare) -> Result<Figure, Failure> {
        // A server that shares the machine takes them in more slowly than a file.
        let per_second = if self.database.kind == Kind::Sqlite { 100_000 } else { 20_000 };
        let lead = Duration::from_secs(4 + count / per_second);
        let due = next_instant(self.watch.now().saturating_add(lead), Duration::from_secs(1));
        let at = due.as_millis();
        hand_over(self.node, self.job, (0..count).map(|_| at)).await?;
        let is_in_time = self.watch.now() < due;
        tokio::time::sleep(self.watch.until(due).saturating_sub(COUNTING)).await;
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

    /// A load that never fills the node: how late each arrives.
    async fn steady(&mut self, rate: u64, share: u32) -> Result<Figure, Failure> {
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

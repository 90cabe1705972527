//! A node under several kinds of abuse at once: strangers take all the connections, streams and memory that they can get,
//! while a job fires twenty times a second and a client with a valid token connects again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use serde_json::{Value, json};

use super::BenchSetup;
use super::stage::{hand_over, launch};
use crate::clock::{self, Watch, lag};
use crate::database::Database;
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::served::{Abuse, AbuserTokens, Abusers, Agent, Arrived, Certificate, Served};
use crate::{BenchError, Figure, Figures};

/// The token of executors.
const EXECUTOR_TOKEN: &str = "bench-executor-0123456789";

/// The interval of the runs that must not be late.
const EVERY: Duration = Duration::from_millis(50);

/// The time without abuse before and after.
const CALM: Duration = Duration::from_secs(3);

/// How often the client with a token connects, and the node's memory is read.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The allowed growth of the node's memory.
const GROWTH_MAX: u64 = 64 << 20;

/// Concurrent request bodies without a valid token.
const BODIES: u64 = 150;

/// Streams that never end a line.
const HALF_LINES: u64 = 100;

/// Executors that report unknown attempts.
const CALLBACKS: u64 = 4;

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = Vec::new();
    for has_tls in [false, true] {
        let database = setup.start("abuse")?;
        figures.push(runtime.block_on(measure(setup, &database, has_tls))?);
    }
    Ok(figures)
}

/// Observations during the abuse.
#[derive(Default)]
struct Seen {
    calm: u64,
    most: u64,
    asked: u64,
    shut_out: u64,
    slowest: Duration,
}

async fn measure(setup: &BenchSetup, database: &Database, has_tls: bool) -> Result<Figure, BenchError> {
    let watch = Arc::new(Watch::start());
    let agent = Agent::start(&watch).await?;
    let mut home = database.empty("node").await?;
    let mut launch = launch(setup, database, &mut home)?;
    launch.executor_token = Some(EXECUTOR_TOKEN);
    launch.certificate = has_tls.then(|| Certificate::write(&database.place().file("tls"))).transpose()?;
    let mut node = Served::start(&launch).await?;
    let dues = dues(&watch, CALM + setup.sizes.abused);
    let ids = submit(&mut node, &agent, &dues).await?;

    let mut seen = Seen::default();
    look(&watch, &node, &mut seen, CALM).await;
    seen.calm = std::mem::take(&mut seen.most);
    let cpu = cpu_seconds_of(node.id());
    let abusers = unleash(setup, &node);
    look(&watch, &node, &mut seen, setup.sizes.abused).await;
    let (rounds, cpu) = (abusers.rounds(), cpu_seconds_of(node.id()) - cpu);
    drop(abusers);
    wait(&watch, &agent, ids.len()).await;

    let dues: BTreeMap<u64, Timestamp> = ids.iter().copied().zip(dues).collect();
    let (lags, lost, doubled) = judge(&agent.take(), &dues);
    let case = if has_tls { "with a certificate" } else { "in the clear" };
    let figure = Figure::new("abuse", case, ids.len() as u64)
        .steps(lags)
        .cpu(cpu)
        .resident(seen.most)
        .whole(lost, doubled)
        .on(database.kind);
    Ok(bounded(setup, figure, &seen).with("sent_away", rounds as f64))
}

/// Adds the figures that have bounds, and whether they were kept.
fn bounded(setup: &BenchSetup, figure: Figure, seen: &Seen) -> Figure {
    let grown = seen.most.saturating_sub(seen.calm);
    let is_late = figure.p99_ms.is_none_or(|p99| p99 >= setup.sizes.abused_p99.as_secs_f64() * 1_000.0);
    let past = u8::from(is_late) + u8::from(grown > GROWTH_MAX);
    figure
        .with("calm_mb", seen.calm as f64 / 1e6)
        .with("grown_mb", grown as f64 / 1e6)
        .with("asked", seen.asked as f64)
        .with("shut_out", seen.shut_out as f64)
        .with("slowest_answer_ms", seen.slowest.as_secs_f64() * 1_000.0)
        .with("past_bounds", f64::from(past))
}

/// When the runs are due.
fn dues(watch: &Watch, span: Duration) -> Vec<Timestamp> {
    let (from, count) = (watch.now().saturating_add(CALM / 2), span.as_millis() / EVERY.as_millis());
    (0..u32::try_from(count).unwrap_or(u32::MAX)).map(|n| from.saturating_add(EVERY * n)).collect()
}

async fn submit(node: &mut Served, agent: &Agent, dues: &[Timestamp]) -> Result<Vec<u64>, BenchError> {
    let target = json!({"kind": "http", "url": format!("http://{}/", agent.address)});
    let job = json!({"app": "bench", "name": "on time", "schedule": {"kind": "manual"}, "target": target});
    let job = node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone();
    hand_over(node, &job, dues.iter().map(|due| due.as_millis())).await
}

/// Starts all abusers.
fn unleash(setup: &BenchSetup, node: &Served) -> Abusers {
    let (each, tokens) = (setup.sizes.abusers, AbuserTokens { api: node.token(), executor: EXECUTOR_TOKEN });
    let mut abusers = Abusers::new();
    for (count, abuse) in [
        (each, Abuse::Silence),
        (each, Abuse::Idle),
        (each, Abuse::Listen),
        (each.min(BODIES), Abuse::Body),
        (each.min(HALF_LINES), Abuse::HalfLine),
        (CALLBACKS, Abuse::Callback),
    ] {
        abusers.join(count, abuse, node.target(), tokens);
    }
    abusers
}

/// Connects with a token again and again, as a person and as an executor, and reads the node's memory.
async fn look(watch: &Watch, node: &Served, seen: &mut Seen, span: Duration) {
    let end = watch.elapsed() + span;
    let beat =
        json!({"registryGroup": "EXECUTOR", "registryKey": "bench", "registryValue": "http://127.0.0.1:9/"});
    while watch.elapsed() < end {
        let begun = watch.elapsed();
        let (mut person, mut executor) = (node.another(), node.another());
        let asked = async {
            let page = person.ask("GET", "/api/v1/jobs", &Value::Null).await.is_ok();
            let beat = executor.beat(EXECUTOR_TOKEN, &beat).await.is_ok();
            page && beat
        };
        let is_in = tokio::time::timeout(Duration::from_secs(5), asked).await.unwrap_or(false);
        seen.asked += 1;
        seen.shut_out += u64::from(!is_in);
        seen.slowest = seen.slowest.max(watch.elapsed() - begun);
        seen.most = seen.most.max(resident_bytes_of(node.id()));
        clock::sleep(LOOK_EVERY).await;
    }
}

async fn wait(watch: &Watch, agent: &Agent, count: usize) {
    let end = watch.elapsed() + CALM * 10;
    while agent.count() < count && watch.elapsed() < end {
        clock::sleep(LOOK_EVERY).await;
    }
}

/// The lateness of the runs, the number that did not arrive, and the number that arrived more than once.
fn judge(arrived: &[Arrived], dues: &BTreeMap<u64, Timestamp>) -> (Vec<Duration>, u64, u64) {
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    for one in arrived {
        *times.entry(one.run).or_default() += 1;
    }
    let lags = arrived.iter().filter_map(|one| Some(lag(one.at, *dues.get(&one.run)?))).collect();
    let lost = dues.keys().filter(|run| !times.contains_key(run)).count() as u64;
    let doubled = times.values().filter(|times| **times > 1).count() as u64;
    (lags, lost, doubled)
}

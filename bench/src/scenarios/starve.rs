//! Jobs of one app whose calls hang, beside other apps: the lateness of the others, and how many of their runs are not sent.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use serde_json::{Value, json};

use super::BenchSetup;
use super::cron::next_instant;
use super::herd::{count_runs, wait_for};
use super::stage::{lags, launch};
use crate::clock::Watch;
use crate::machine::{cpu_seconds_of, resident_bytes_of};
use crate::served::{Agent, HANG, Manner, Served};
use crate::{BenchError, Figure, Figures};

/// Apps beside the hanging one.
const APPS: u64 = 8;

/// The interval of each app's runs.
const EVERY: Duration = Duration::from_millis(50);

/// How long to wait for late runs.
const PATIENCE: Duration = Duration::from_secs(10);

/// The timeout of the hanging calls, longer than the scenario.
const TIMEOUT: &str = "2h";

/// Which jobs hang.
struct Case {
    said: &'static str,
    /// Number of hanging jobs.
    jobs: u64,
    /// Number of hosts that they call; 0 if they call the host of the other apps.
    hosts: usize,
}

const CASES: [Case; 3] = [
    Case { said: "one job", jobs: 1, hosts: 1 },
    Case { said: "four jobs over two hosts", jobs: 4, hosts: 2 },
    Case { said: "two jobs on a shared host", jobs: 2, hosts: 0 },
];

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    CASES.iter().map(|case| runtime.block_on(starve(setup, case))).collect()
}

async fn starve(setup: &BenchSetup, case: &Case) -> Result<Figure, BenchError> {
    let database = setup.start("starve")?;
    let watch = Arc::new(Watch::start());
    let agent = Agent::with(&watch, Manner::Timed).await?;
    let mut hosts = Vec::new();
    for _ in 0..case.hosts {
        hosts.push(Agent::with(&watch, Manner::Timed).await?);
    }
    let hanging: Vec<&Agent> = if hosts.is_empty() { vec![&agent] } else { hosts.iter().collect() };
    let mut home = database.empty("node").await?;
    let mut node = Served::start(&launch(setup, &database, &mut home)?).await?;
    let (mut bad, mut good) = (Vec::new(), Vec::new());
    for (number, host) in (0..case.jobs).zip(hanging.iter().cycle()) {
        bad.push(create(&mut node, ("hanging", &format!("job-{number}")), host, HANG).await?);
    }
    for number in 0..APPS {
        good.push(create(&mut node, (&format!("app-{number}"), "job"), &agent, "/").await?);
    }
    let due = next_instant(watch.now().saturating_add(Duration::from_secs(3)), Duration::from_secs(1));
    let hung = bad.iter().flat_map(|job| (0..setup.sizes.hanging).map(move |_| (job, due)));
    submit(&mut node, hung).await?;
    let ticks = (setup.sizes.starved.as_millis() / EVERY.as_millis()) as u32;
    let at = |tick: u32| due.saturating_add(EVERY * (tick + 2));
    let others: Vec<(&Value, Timestamp)> =
        (0..ticks).flat_map(|tick| good.iter().map(move |job| (job, at(tick)))).collect();
    let count = others.len() as u64;
    submit(&mut node, others.into_iter()).await?;
    let is_in_time = watch.now() < due;
    let cpu = cpu_seconds_of(node.id());
    let until = watch.until(due) + setup.sizes.starved + PATIENCE;
    let arrived = wait_for(&watch, &agent, count, until).await;
    let (cpu, rss) = (cpu_seconds_of(node.id()) - cpu, resident_bytes_of(node.id()));
    let (lost, doubled) = count_runs(&arrived, count);
    let hung: usize = hanging.iter().map(|host| host.hanging()).sum();
    let said = format!("beside {}, {} hanging calls each", case.said, setup.sizes.hanging);
    Ok(Figure::new("starve", said, count)
        .took("calls", setup.sizes.starved)
        .steps(lags(&arrived))
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .on(database.kind)
        .with("hanging_calls", hung as f64)
        .with("handed_in_before", f64::from(u8::from(is_in_time))))
}

async fn create(
    node: &mut Served,
    (app, name): (&str, &str),
    agent: &Agent,
    path: &str,
) -> Result<Value, BenchError> {
    let target = json!({"kind": "http", "url": format!("http://{}{path}", agent.address)});
    let schedule = json!({"kind": "manual"});
    let job = json!({"app": app, "name": name, "schedule": schedule, "target": target, "timeout": TIMEOUT});
    Ok(node.ask("POST", "/api/v1/jobs", &job).await?["id"].clone())
}

async fn submit<'a>(
    node: &mut Served,
    runs: impl Iterator<Item = (&'a Value, Timestamp)>,
) -> Result<(), BenchError> {
    let runs: Vec<Value> = runs.map(|(job, at)| json!({"job": job, "at": at.to_string()})).collect();
    node.ask("POST", "/api/v1/runs", &json!({"runs": runs})).await.map(drop)
}

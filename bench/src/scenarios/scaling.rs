//! One, two and three nodes on one database, each limited to the same small share of a core: what another node adds, how
//! the work is distributed, and what the database itself uses.

use std::sync::Arc;
use std::time::Duration;

use super::BenchSetup;
use super::executors::COUNTING;
use super::stage::{create_job, hand_over, launch, since_1970, whole};
use crate::clock::{self, Watch};
use crate::database::{Database, DatabaseChoice};
use crate::machine::{cpu_seconds, cpu_seconds_of, resident_bytes_of};
use crate::place::{DatabaseFolder, SHARDS};
use crate::served::{LOOK_SELDOM, Launch, Native, Served, Share};
use crate::{BenchError, Figure, Figures};

/// The numbers of nodes.
const NODES: [usize; 3] = [1, 2, 3];

/// How long to wait for late runs.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    // Nodes need a server; if none was named, both kinds are measured.
    let wanted = match &setup.database {
        DatabaseChoice::Embedded => vec![DatabaseChoice::ScratchPostgres, DatabaseChoice::ScratchMariaDb],
        other => vec![other.clone()],
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = Vec::new();
    for wanted in wanted {
        let mut alone = None;
        for nodes in NODES {
            // A new server each time, so that none is measured while it cleans up after the previous case.
            let database = Database::start(&wanted, DatabaseFolder::make(&setup.dir, "scaling")?)?;
            let figure = runtime.block_on(measure(setup, &database, nodes))?.on(database.kind);
            let rate = figure.rate.unwrap_or(0.0);
            let first = *alone.get_or_insert(rate);
            figures.push(figure.with("times_one_node", rate / first));
        }
    }
    Ok(figures)
}

/// A node and the control group that limits it.
struct Member {
    node: Served,
    // Dropped after the node.
    share: Option<Share>,
}

async fn measure(setup: &BenchSetup, database: &Database, nodes: usize) -> Result<Figure, BenchError> {
    let watch = Arc::new(Watch::start());
    let mut home = database.empty("node").await?;
    let launch = launch(setup, database, &mut home)?;
    let mut members = Vec::new();
    for number in 1..=nodes {
        members.push(start(&launch, number, setup.sizes.share).await?);
    }
    let is_held = members.iter().all(|member| member.share.is_some());
    wait_for_shares(&mut members).await?;
    let node = &members[0].node;
    let native = Native::start(&watch, node.authority(), node.token(), "bench", LOOK_SELDOM).await?;
    let job = create_job(&mut members[0].node, "bench").await?;

    let count = setup.sizes.scaled * nodes as u64;
    // Submitting uses the nodes' shares too, and is not measured here.
    let lead = setup.sizes.lead + COUNTING + Duration::from_secs(count / 5_000);
    let due = super::cron::next_instant(watch.now().saturating_add(lead), Duration::from_secs(1));
    let each = setup.sizes.scaled;
    let handed = watch.elapsed();
    for member in &mut members {
        hand_over(&mut member.node, &job, (0..each).map(|_| due.as_millis())).await?;
    }
    let handed = watch.elapsed() - handed;
    let is_in_time = watch.now() < due;
    clock::sleep(watch.until(due).saturating_sub(COUNTING)).await;
    let (before, servers, ours) = (home.counts().await?, database.cpu_seconds(), cpu_seconds());
    let cpus: Vec<f64> = members.iter().map(|member| cpu_seconds_of(member.node.id())).collect();

    let took = wait(&watch, &native, count).await?.saturating_sub(since_1970(due.as_millis()));
    let ours = cpu_seconds() - ours;
    let cpus: Vec<f64> =
        members.iter().zip(cpus).map(|(member, before)| cpu_seconds_of(member.node.id()) - before).collect();
    let servers = database.cpu_seconds().zip(servers);
    let counts = home.counts().await?.since(before, count as f64);
    let mut parts = Vec::new();
    for member in &mut members {
        parts.push(member.node.succeeded().await? as f64 / count as f64);
    }
    let (lost, doubled) = whole(&native.take(), count);
    let rss = members.iter().map(|member| resident_bytes_of(member.node.id())).max().unwrap_or(0);
    let least = parts.iter().copied().fold(f64::INFINITY, f64::min);
    let most = parts.iter().copied().fold(0.0, f64::max);
    let plural = if nodes == 1 { "" } else { "s" };
    let case = match is_held {
        true => format!("{nodes} node{plural}, each {} % of a core", setup.sizes.share),
        false => format!("{nodes} node{plural}, not held to a share"),
    };
    let mut figure = Figure::new("scaling", case, count)
        .took("runs", took)
        .cpu(cpus.iter().sum())
        .resident(rss)
        .whole(lost, doubled)
        .counted(counts)
        .with("share_of_work_least", least)
        .with("share_of_work_most", most)
        .with("node_cores", cpus.iter().sum::<f64>() / took.as_secs_f64())
        .with("executor_cores", ours / took.as_secs_f64())
        .with("handed_over_s", handed.as_secs_f64())
        .with("handed_in_before", f64::from(u8::from(is_in_time)));
    if let Some((after, before)) = servers {
        figure = figure.with("server_cores", (after - before) / took.as_secs_f64());
    }
    Ok(figure)
}

async fn start(launch: &Launch, number: usize, percent: u64) -> Result<Member, BenchError> {
    let launch = Launch {
        folder: launch.folder.join(number.to_string()),
        name: Some(format!("node-{number}")),
        ..launch.clone()
    };
    std::fs::create_dir_all(&launch.folder)?;
    // Without a control group the nodes are not limited, and the figure says so.
    let share = Share::make(&number.to_string(), percent).ok();
    let mut node = Served::begin(&launch, share.as_ref())?;
    node.wait().await?;
    Ok(Member { node, share })
}

/// Waits until every shard has a holder, and each node has some.
async fn wait_for_shares(members: &mut [Member]) -> Result<(), BenchError> {
    let mut last = Vec::new();
    let mut same = 0;
    for _ in 0..600 {
        let mut held = Vec::new();
        for member in &mut *members {
            held.push(member.node.shards_held().await?);
        }
        let is_whole = held.iter().sum::<u64>() == u64::from(SHARDS) && !held.contains(&0);
        same = if is_whole && held == last { same + 1 } else { 0 };
        last = held;
        if same >= 5 {
            return Ok(());
        }
        clock::sleep(Duration::from_millis(200)).await;
    }
    Err(format!("the nodes did not agree about the shards: {last:?}").into())
}

async fn wait(watch: &Watch, native: &Native, count: u64) -> Result<Duration, BenchError> {
    let deadline = watch.elapsed() + PATIENCE;
    while native.counts().1 < count {
        if watch.elapsed() > deadline {
            let (arrived, kept) = native.counts();
            return Err(format!("of {count} runs {arrived} arrived, {kept} are kept").into());
        }
        clock::sleep(Duration::from_millis(5)).await;
    }
    Ok(watch.date())
}

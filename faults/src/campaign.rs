//! A cluster under load with its database, agent and clients, from its start to the check of its history.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_scratch::{MariaDb, Postgres, Redis, Server};
use serde::Serialize;
use serde_json::json;

use crate::breaking::switches;
use crate::clock::now;
use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::flood::Flood;
use crate::history::{History, Millis, Submission};
use crate::node::{Launch, NodeProcess};
use crate::proxy::Proxy;
use crate::receipts::Agent;
use crate::report::{CampaignReport, Sample, measure_returns, measure_serial_moves, measure_work};
use crate::workload::{ClientRecord, Size, Workload};
use crate::{clock, dump};

/// Receipts before anything is broken.
const WARM: usize = 600;

/// The cluster's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// The file of a single node.
    Embedded,
    /// A PostgreSQL.
    Postgres,
    /// A MariaDB.
    MariaDb,
}

/// The settings of a campaign.
#[derive(Clone, Debug)]
pub struct CampaignSetup {
    /// The binary of the nodes.
    pub binary: PathBuf,
    /// The folder for evidence; existing files are overwritten.
    pub evidence: PathBuf,
    pub database: Database,
    pub nodes: usize,
    pub has_redis: bool,
    pub has_movable_clock: bool,
    pub size: Size,
    pub seed: u64,
}

impl CampaignSetup {
    /// One node with its own file.
    pub fn embedded(binary: impl Into<PathBuf>, evidence: impl Into<PathBuf>) -> CampaignSetup {
        CampaignSetup {
            binary: binary.into(),
            evidence: evidence.into(),
            database: Database::Embedded,
            nodes: 1,
            has_redis: false,
            has_movable_clock: false,
            size: Size::default(),
            seed: 1,
        }
    }

    /// Three nodes on a database.
    pub fn cluster(
        database: Database,
        binary: impl Into<PathBuf>,
        evidence: impl Into<PathBuf>,
    ) -> CampaignSetup {
        CampaignSetup { database, nodes: 3, ..CampaignSetup::embedded(binary, evidence) }
    }
}

/// A cluster at work.
pub struct Campaign {
    pub cluster: Cluster,
    pub agent: Agent,
    pub dice: Dice,
    pub kind: Database,
    pub database: Option<Server>,
    pub redis: Option<Server>,
    workload: Workload,
    /// One-shots that were submitted beside the workload.
    flooded: Vec<Submission>,
    samples: BTreeMap<&'static str, Sample>,
    /// When nodes were killed, and when they were asked to stop.
    kills: Vec<Millis>,
    stops: Vec<Millis>,
    /// The spans in which nodes came back and shards moved to them.
    returns: Vec<(Millis, Millis)>,
    /// The spans in which shards moved away from a node that was asked to stop, and back to it.
    moves: Vec<(Millis, Millis)>,
    /// Whether a node was paused, or cut off from its database.
    pub had_pauses: bool,
    /// Whether a node was killed, paused, or cut off alone, and whether one was paused.
    pub had_losses: bool,
    pub had_holds: bool,
    log: File,
    evidence: PathBuf,
    started: Millis,
}

impl Campaign {
    /// Starts everything, and waits until runs are received.
    pub async fn start(setup: &CampaignSetup) -> Result<Campaign, String> {
        let started = now();
        let _ = std::fs::remove_dir_all(&setup.evidence);
        let file = |name: &str| setup.evidence.join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", setup.evidence.display());
        std::fs::create_dir_all(&setup.evidence).map_err(failed)?;
        let database = blocking(|| start_database(setup.database))?;
        let redis = setup.has_redis.then(|| blocking(|| Redis.start())).transpose()?;
        let url = database.as_ref().map(|server| blocking(|| address(setup.database, server)));
        let url = url.transpose()?;
        let launch = Launch {
            binary: setup.binary.clone(),
            redis: redis.as_ref().map(Server::url),
            has_movable_clock: setup.has_movable_clock,
            logs: setup.evidence.clone(),
        };
        let agent = Agent::start(&file("receipts.jsonl")).await.map_err(failed)?;
        let cluster = Cluster::start(&launch, url.as_deref(), setup.nodes).await?;
        let workload =
            Workload::start(&cluster.client, &agent, setup.size, setup.seed, &file("client.jsonl")).await?;
        let campaign = Campaign {
            cluster,
            agent,
            dice: Dice::new(setup.seed ^ 0xfau64),
            kind: setup.database,
            database,
            redis,
            workload,
            flooded: Vec::new(),
            samples: BTreeMap::new(),
            kills: Vec::new(),
            stops: Vec::new(),
            returns: Vec::new(),
            moves: Vec::new(),
            had_pauses: false,
            had_losses: false,
            had_holds: false,
            log: File::create(file("faults.jsonl")).map_err(failed)?,
            evidence: setup.evidence.clone(),
            started,
        };
        // Until every node has known the jobs for two lease terms, a run without a gate may have been sent without one.
        campaign.received(WARM).await?;
        Ok(campaign)
    }

    /// Logs what is done to the cluster.
    pub fn note(&mut self, what: &str) {
        let line = json!({"at": now(), "what": what});
        writeln!(self.log, "{line}").expect("a file that can be written");
    }

    /// Records a duration.
    pub fn measured(&mut self, what: &'static str, took: Duration) {
        self.note(&format!("{what} took {} ms", took.as_millis()));
        self.samples.entry(what).or_default().add(took);
    }

    /// Records that a node is killed now.
    pub fn killed(&mut self) {
        self.had_losses = true;
        self.kills.push(now());
    }

    /// Records that a node is asked to stop now.
    pub fn asked_to_stop(&mut self) {
        self.stops.push(now());
    }

    /// Records that a node that was started at this moment is back, and nothing was broken since.
    pub fn returned(&mut self, started: Millis) {
        self.returns.push((started, now()));
    }

    /// Records that a node that was asked to stop at this moment is back, and nothing else was broken since.
    pub fn moved_as_planned(&mut self, asked: Millis) {
        self.moves.push((asked, now()));
    }

    /// Submits a great number of one-shots.
    pub async fn flood(&mut self, flood: Flood) -> Result<(), String> {
        let begun = now();
        self.flooded = flood.hand_over(&self.cluster.client, self.workload.shots()).await?;
        self.measured("the flood was handed over", Duration::from_millis((now() - begun).unsigned_abs()));
        if now() > flood.from {
            return Err("some one-shots were due before all of them were submitted".into());
        }
        Ok(())
    }

    /// Waits for `more` receipts.
    pub async fn received(&self, more: usize) -> Result<Duration, String> {
        let before = self.agent.count();
        let limit = Duration::from_secs(60);
        clock::until("work goes on", limit, async || self.agent.count() >= before + more).await
    }

    /// Repairs everything, waits for the work to end, and checks the history.
    async fn finish(mut self) -> Result<CampaignReport, String> {
        self.note("mended");
        for node in &self.cluster.nodes {
            node.move_clock(0)?;
            node.proxy.iter().for_each(Proxy::heal);
        }
        let whole = self.cluster.whole().await?;
        self.measured("whole after everything was mended", whole);
        let caught_up = dump::caught_up(&self.cluster.client).await?;
        self.measured("caught up after everything was mended", caught_up);
        let known = self.workload.stop().await?;
        let drained = dump::drained(&self.cluster.client).await?;
        let runs = dump::runs(&self.cluster.client, &self.evidence.join("runs.jsonl")).await?;
        let ClientRecord { jobs, mut submissions } = known;
        submissions.append(&mut self.flooded);
        keep(&self.evidence.join("jobs.jsonl"), &jobs)?;
        let receipts = self.agent.receipts();
        let Campaign { had_pauses, had_losses, had_holds, .. } = self;
        let history = History { jobs, submissions, receipts, runs, had_pauses, had_losses, had_holds };
        self.samples.entry("end of the last work").or_default().add(drained);
        measure_work(&mut self.samples, &history, &self.kills, &self.stops);
        measure_returns(&mut self.samples, &history, &self.returns);
        measure_serial_moves(&mut self.samples, &history, &self.moves);
        let misbehaved = self.cluster.nodes.iter().filter_map(misbehaved).collect();
        Ok(CampaignReport::of(
            &history,
            self.samples,
            misbehaved,
            Duration::from_millis((now() - self.started).unsigned_abs()),
        ))
    }
}

/// Starts a cluster, runs the script on it, and checks the history. The evidence stays whatever goes wrong.
pub async fn run(
    setup: &CampaignSetup,
    script: impl AsyncFnOnce(&mut Campaign) -> Result<(), String>,
) -> Result<CampaignReport, String> {
    let outcome = async {
        let mut campaign = Campaign::start(setup).await?;
        match script(&mut campaign).await {
            Ok(()) => campaign.finish().await,
            Err(reason) => {
                campaign.note(&reason);
                Err(format!("{reason}; {}", campaign.cluster.ends()))
            }
        }
    };
    let evidence = || format!("see {}", setup.evidence.display());
    let report = outcome.await.map_err(|reason| format!("{reason}; {}", evidence()))?;
    let _ = std::fs::write(setup.evidence.join("report.txt"), &report.text);
    match report.broken {
        0 => Ok(report),
        broken => Err(format!("{broken} promises broken, {}\n{}", evidence(), first(&report.text))),
    }
}

/// Runs work that blocks the thread, such as waiting for a server's process.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

fn start_database(database: Database) -> Result<Option<Server>, String> {
    match database {
        Database::Embedded => Ok(None),
        Database::Postgres => Postgres { fsync: true, ..Postgres::default() }.start().map(Some),
        Database::MariaDb => {
            MariaDb { fsync: true, settings: switches::logged("1"), ..MariaDb::default() }.start().map(Some)
        }
    }
}

/// The address of an empty database, for a user with rights on that database only: administrators of a MariaDB can write
/// to it even while it is read-only.
fn address(kind: Database, server: &Server) -> Result<String, String> {
    let url = server.database("punctual")?;
    if kind != Database::MariaDb {
        return Ok(url);
    }
    switches::say(kind, server, "create user punctual; grant all privileges on punctual.* to punctual")?;
    Ok(url.replacen("root@", "punctual@", 1))
}

/// Writes facts into an evidence file, one a line.
fn keep<T: Serialize>(file: &Path, facts: &[T]) -> Result<(), String> {
    let line = |fact: &T| serde_json::to_string(fact).map(|line| line + "\n");
    let lines = facts.iter().map(line).collect::<Result<String, _>>().map_err(|error| error.to_string())?;
    std::fs::write(file, lines).map_err(|error| format!("{}: {error}", file.display()))
}

/// What a node did that no node may do: end by itself, or panic.
fn misbehaved(node: &NodeProcess) -> Option<String> {
    let log = std::fs::read(node.log()).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let panicked = log.lines().find(|line| line.contains("panicked"));
    let ended = node.ended().map(|status| format!("{} ended by itself: {status}", node.name()));
    ended.or_else(|| panicked.map(|line| format!("{}: {line}", node.name())))
}

/// The first lines of a long text.
fn first(text: &str) -> String {
    text.lines().take(60).collect::<Vec<_>>().join("\n")
}

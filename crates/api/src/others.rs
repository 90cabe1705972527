//! The figures of all nodes: the node that gets the request collects those of the others and adds its own.
//!
//! All others are asked at once, with a second to answer. A node that does not answer is left out and named, and is
//! not asked again for some seconds, so that one silent node slows one answer and not all of them. Answers are cached
//! for a second: a hundred consoles cost the cluster as much as one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use calendar::Timestamp;
use punctual_core::model::{JobId, NodeId, Outcome, RunId};
use punctual_node::NodeView;
use punctual_observe::{BINS, EndedRun, NodeFigures, OutcomeTally, RECENT_MAX, Stretches};
use punctual_protocol::{
    FIGURES_PATH, PeerEnded, PeerFigures, PeerFiguresAsked, PeerLoad, PeerStretches, PeerTally,
};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::app::Front;
use crate::clock;

/// How long a node may take to answer.
const WITHIN: Duration = Duration::from_secs(1);

/// How long an answer is cached.
const FRESH: Duration = Duration::from_secs(1);

/// How long a node that did not answer is not asked again.
const SILENT: Duration = Duration::from_secs(5);

/// How many questions are cached with their answers.
const QUESTIONS_MAX: usize = 64;

/// The largest answer: the last runs of a whole page of jobs.
const ANSWER_MAX: usize = 4 << 20;

/// Instants that make sense: from 1970 to the year 9999.
const YEARS: std::ops::Range<i64> = 0..253_402_300_800_000;

/// The way to other nodes, authenticated by the peer secret.
#[async_trait]
pub trait Others: Send + Sync {
    /// Posts JSON to another node, and returns its answer, which is refused if it is longer than this. Dropping the
    /// future ends the connection.
    async fn ask(&self, address: &str, path: &str, body: Bytes, max: usize) -> Result<Bytes, String>;

    /// Opens a stream of another node, after the event that was heard last.
    async fn listen(&self, address: &str, path: &str, last_id: Option<&str>) -> Result<Body, String>;
}

/// The answers of the other nodes.
#[derive(Default)]
pub(crate) struct NodeAnswers {
    pub(crate) figures: Vec<NodeFigures>,
    pub(crate) recent: BTreeMap<JobId, Vec<EndedRun>>,
    pub(crate) loads: Vec<PeerLoad>,
    /// The names of nodes that did not answer.
    pub(crate) missing: Vec<String>,
}

type Answered = Arc<OnceCell<(Instant, Arc<NodeAnswers>)>>;

/// Recent questions with their answers.
#[derive(Default)]
pub(crate) struct AllFigures {
    answers: Mutex<BTreeMap<PeerFiguresAsked, Answered>>,
    /// The nodes that did not answer, and until when they are not asked.
    silent: Mutex<BTreeMap<NodeId, Instant>>,
}

impl AllFigures {
    /// Asks the other nodes. Callers with the same question at the same time share the answer.
    pub(crate) async fn gather(&self, front: &Front, asked: PeerFiguresAsked) -> Arc<NodeAnswers> {
        let others: Vec<NodeView> = front.node.nodes().into_iter().filter(|node| !node.is_self).collect();
        if others.is_empty() {
            return Arc::default();
        }
        let cell = self.cell(&asked);
        let ask = async || (clock::instant(), Arc::new(self.ask_all(front, &others, &asked).await));
        Arc::clone(&cell.get_or_init(ask).await.1)
    }

    fn cell(&self, asked: &PeerFiguresAsked) -> Answered {
        let mut answers = lock(&self.answers);
        let is_fresh = |cell: &Answered| cell.get().is_none_or(|(at, _)| clock::since(*at) < FRESH);
        answers.retain(|_, cell| is_fresh(cell));
        if answers.len() >= QUESTIONS_MAX {
            answers.clear();
        }
        Arc::clone(answers.entry(asked.clone()).or_default())
    }

    async fn ask_all(&self, front: &Front, others: &[NodeView], asked: &PeerFiguresAsked) -> NodeAnswers {
        let mut gathered = NodeAnswers::default();
        let body = Bytes::from(serde_json::to_vec(asked).expect("a question is plain data"));
        let mut asking = JoinSet::new();
        for node in others {
            if node.address.is_empty() || self.is_silent(node.node) {
                gathered.missing.push(name_of(node));
                continue;
            }
            let (way, node, body) = (Arc::clone(&front.others), node.clone(), body.clone());
            asking.spawn(async move {
                let answer = timeout(WITHIN, way.ask(&node.address, FIGURES_PATH, body, ANSWER_MAX)).await;
                (node, answer.unwrap_or_else(|_| Err("no answer in time".into())))
            });
        }
        while let Some(answered) = asking.join_next().await {
            let Ok((node, answer)) = answered else { continue };
            match answer.and_then(|body| understand(&body, asked)) {
                Ok(figures) => gathered.take(figures),
                Err(error) => {
                    tracing::debug!(node = %node.name, error, "a node told no figures; they are left out");
                    lock(&self.silent).insert(node.node, clock::instant() + SILENT);
                    gathered.missing.push(name_of(&node));
                }
            }
        }
        gathered.missing.sort();
        gathered
    }

    fn is_silent(&self, node: NodeId) -> bool {
        let mut silent = lock(&self.silent);
        let now = clock::instant();
        silent.retain(|_, until| now < *until);
        silent.contains_key(&node)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a node, as people see it.
pub(crate) fn name_of(node: &NodeView) -> String {
    if node.name.is_empty() { node.node.to_string() } else { node.name.to_string() }
}

/// The figures of this node, for another node.
pub(crate) fn told(front: &Front, asked: &PeerFiguresAsked) -> PeerFigures {
    let rollup = front.events.rollup();
    let figures = asked.stretches.map(|stretches| rollup.figures(read_stretches(stretches)));
    let NodeFigures { began, since, counted, restored } = figures.unwrap_or_default();
    let recent = |job: &u32| {
        let ended = rollup.recent(JobId(*job));
        (!ended.is_empty()).then(|| (*job, ended.iter().map(tell_ended).collect()))
    };
    PeerFigures {
        began: began.map(Timestamp::as_millis),
        since: since.map(Timestamp::as_millis),
        counted: counted.iter().map(tell_tally).collect(),
        restored: restored.iter().map(tell_tally).collect(),
        recent: asked.jobs.iter().filter_map(recent).collect(),
        load: load(front),
    }
}

/// The load of this node.
pub(crate) fn load(front: &Front) -> PeerLoad {
    let (loaded, running) = front.node.load_figures();
    let backlog = front.node.backlog();
    PeerLoad {
        loaded: loaded as u64,
        running: running as u64,
        shards: front.node.shards_held() as u64,
        due: backlog.due,
        oldest_due_ms: backlog.oldest.map(|age| age.as_millis() as u64),
    }
}

pub(crate) fn tell_stretches(stretches: Stretches) -> PeerStretches {
    let Stretches { first, step, count } = stretches;
    PeerStretches { first, step, count }
}

fn read_stretches(stretches: PeerStretches) -> Stretches {
    let PeerStretches { first, step, count } = stretches;
    Stretches { first, step, count }
}

fn tell_tally(tally: &OutcomeTally) -> PeerTally {
    let lags = (0..).zip(tally.lags).filter(|(_, count)| *count > 0).collect();
    let OutcomeTally { succeeded, failed, not_run, sent, late, lag_max_ms, .. } = *tally;
    PeerTally { succeeded, failed, not_run, sent, late, lag_max_ms, lags }
}

fn tell_ended(ended: &EndedRun) -> PeerEnded {
    let EndedRun { run, outcome, at, took_ms } = *ended;
    PeerEnded { run: run.0, outcome: outcome.name().into(), at: at.as_millis(), took_ms }
}

/// Reads a node's answer. An answer that does not match the question is refused whole: half of it would be wrong
/// figures.
fn understand(body: &[u8], asked: &PeerFiguresAsked) -> Result<PeerFigures, String> {
    let figures: PeerFigures = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let count = asked.stretches.map_or(0, |stretches| stretches.count as usize);
    if figures.counted.len() != count || figures.restored.len() != count {
        return Err("it told other stretches than were asked for".into());
    }
    let tallies = || figures.counted.iter().chain(&figures.restored);
    if tallies().any(|tally| tally.lags.iter().any(|(bin, _)| usize::from(*bin) >= BINS)) {
        return Err("it told lags that do not exist".into());
    }
    if [figures.began, figures.since].iter().flatten().any(|at| !YEARS.contains(at)) {
        return Err("it told times that do not exist".into());
    }
    let ended = || figures.recent.values().flatten();
    if figures.recent.len() > asked.jobs.len() || ended().any(|ended| read_ended(ended).is_none()) {
        return Err("it told runs that do not exist".into());
    }
    Ok(figures)
}

fn read_tally(tally: &PeerTally) -> OutcomeTally {
    let PeerTally { succeeded, failed, not_run, sent, late, lag_max_ms, ref lags } = *tally;
    let mut read =
        OutcomeTally { succeeded, failed, not_run, sent, late, lag_max_ms, ..OutcomeTally::default() };
    for (bin, count) in lags {
        if let Some(lag) = read.lags.get_mut(usize::from(*bin)) {
            *lag = lag.saturating_add(*count);
        }
    }
    read
}

fn read_ended(ended: &PeerEnded) -> Option<EndedRun> {
    if !YEARS.contains(&ended.at) {
        return None;
    }
    let outcome = Outcome::ALL.iter().copied().find(|outcome| outcome.name() == ended.outcome)?;
    let at = Timestamp::from_millis(ended.at);
    Some(EndedRun { run: RunId(ended.run), outcome, at, took_ms: ended.took_ms })
}

impl NodeAnswers {
    fn take(&mut self, figures: PeerFigures) {
        self.loads.push(figures.load);
        self.figures.push(NodeFigures {
            began: figures.began.map(Timestamp::from_millis),
            since: figures.since.map(Timestamp::from_millis),
            counted: figures.counted.iter().map(read_tally).collect(),
            restored: figures.restored.iter().map(read_tally).collect(),
        });
        for (job, ended) in figures.recent {
            let recent = self.recent.entry(JobId(job)).or_default();
            recent.extend(ended.iter().filter_map(read_ended));
        }
    }

    /// The last runs of a job, with what this node knows itself; the oldest first.
    pub(crate) fn recent(&self, job: JobId, mut own: Vec<EndedRun>) -> Vec<EndedRun> {
        let known: std::collections::BTreeSet<RunId> = own.iter().map(|ended| ended.run).collect();
        let others = self.recent.get(&job).into_iter().flatten();
        own.extend(others.filter(|ended| !known.contains(&ended.run)));
        own.sort_by_key(|ended| ended.run);
        own.dedup_by_key(|ended| ended.run);
        own.split_off(own.len().saturating_sub(RECENT_MAX))
    }
}

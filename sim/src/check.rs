//! The checker: what must hold of a recorded history, whatever happened.
//!
//! It is told what the store applied, what nodes began to send, what executors received and what clients were answered,
//! each at the moment it happened, and says at once what is broken; the rest it says at the end. It shares no code with
//! the engine: the instants of schedules, the misfire table and the backoff are written here a second time, from the
//! documents. The rules are listed in docs/simulation.md (`I…`, `W…`, `G…`) and docs/protocol/leases.md (`L…`).

mod doubts;
#[cfg(test)]
mod histories;
pub mod instants;
mod jobs;
mod leases;
mod misfire;
mod parts;
mod quiet;
mod runs;
mod settled;
mod submitted;
mod windows;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use calendar::Timestamp;
use punctual_core::model::{JobId, RunId, ShardId, Text};
use punctual_node::ports::{Accepted, Planned, Settled};
use rustc_hash::FxHashMap;

use crate::counters::Counters;
use crate::link::{Micros, Reply};
use crate::store::{Request, StoreAnswer as Answer};

pub use doubts::{Admitted, Executors};
pub use jobs::JobFacts;
pub use leases::Leases;
pub use quiet::Quiet;
pub use runs::{ReceiptFact, RunFacts, SendFact};
pub use submitted::Submitted;

/// Where the executor is that speaks of other apps' runs.
pub const INTRUDER: &str = "native:intruder/1";

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub rule: &'static str,
    /// What happened.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, what: String) -> Violation {
        Violation { rule, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// What the checker says to something it is told.
pub type Checked = Result<(), Violation>;

/// Complains unless something holds.
macro_rules! hold {
    ($rule:literal, $condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::check::Violation::new($rule, format!($($what)+)));
        }
    };
}
pub(crate) use hold;

/// One life of a node, by its place in the world and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// Which machine.
    pub node: usize,
    /// Which start of its process, over all machines.
    pub life: u64,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} life {}", self.node, self.life)
    }
}

/// A moment, as the world knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Virtual time.
    pub now: Micros,
    /// The store's clock.
    pub store: i64,
}

/// A request as it came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// Who asked; none if it was the world itself.
    pub by: Who,
    /// When it was asked.
    pub at: Moment,
    /// What the node took the cluster's time to be when it asked.
    pub node_now: Option<i64>,
}

/// Everything that the checker knows.
#[derive(Debug, Default)]
pub struct Checker {
    pub(crate) jobs: FxHashMap<JobId, JobFacts>,
    pub(crate) runs: Vec<RunFacts>,
    pub(crate) by_id: FxHashMap<RunId, u32>,
    /// (job, fire time) of everything that a schedule names, for ever.
    pub(crate) named: FxHashMap<(JobId, i64), u32>,
    pub(crate) leases: Leases,
    pub(crate) submitted: Submitted,
    pub(crate) executors: Executors,
    /// Whether the store's clock was never set forward: no lease ended there before its holder's deadline.
    pub(crate) is_honest: bool,
    /// Whether the store's clock was never set at all.
    pub(crate) is_steady: bool,
    /// The latest that the store's clock has shown.
    pub(crate) latest: i64,
    /// When each node last asked for a renewal that it got.
    pub(crate) renewed: FxHashMap<Who, Micros>,
    /// When something was last sent.
    pub(crate) last_sent: crate::link::Micros,
    /// When something was sent over HTTP within the last minute.
    pub(crate) http_sends: VecDeque<crate::link::Micros>,
    /// Runs that are parked: job, shard, due time, number.
    pub(crate) parked: BTreeSet<(JobId, ShardId, i64, RunId)>,
    /// Which run is under way with each exclusive key.
    pub(crate) keys: FxHashMap<Text, RunId>,
    /// When a run with each exclusive key was last sent.
    pub(crate) keys_sent: FxHashMap<Text, crate::link::Micros>,
    /// Days before this one (in milliseconds) may have been dropped.
    pub(crate) pruned_before: i64,
    /// What came about.
    pub counters: Counters,
}

impl Checker {
    /// A checker that knows nothing yet.
    pub fn new() -> Checker {
        Checker {
            is_honest: true,
            is_steady: true,
            latest: i64::MIN,
            last_sent: 0,
            pruned_before: i64::MIN,
            ..Checker::default()
        }
    }

    /// The store's clock is being set.
    pub fn clock_is_set(&mut self, by_ms: i64) {
        self.is_steady = false;
        self.is_honest &= by_ms <= 0;
    }

    /// What is known of a run.
    pub fn run(&self, id: RunId) -> Option<&RunFacts> {
        self.by_id.get(&id).map(|index| &self.runs[*index as usize])
    }

    /// All runs, in the order of their writing.
    pub fn runs(&self) -> &[RunFacts] {
        &self.runs
    }

    /// The store's clock shows this.
    pub fn sees_time(&mut self, store: i64) {
        self.latest = self.latest.max(store);
    }

    /// How many times a shard was taken so far.
    pub fn lease_moves(&self) -> u64 {
        self.leases.moves
    }

    /// Shards were taken: what did their new holder find?
    pub fn taken_over(&mut self, now: Micros, shards: &[ShardId], term: Micros) {
        let open =
            self.runs.iter().rev().take(500).filter(|run| run.is_open() && shards.contains(&run.shard));
        for run in open {
            let is_due = run.ready_at <= self.latest;
            self.counters.takeover_with_ungated += u64::from(is_due && run.gates.is_empty());
            self.counters.takeover_with_gated += u64::from(!run.gates.is_empty());
            let is_long = run.sends.last().is_some_and(|send| send.at + term < now);
            self.counters.takeover_with_long_run += u64::from(is_long);
        }
    }

    /// What is known of a job.
    pub fn job(&self, id: JobId) -> Option<&JobFacts> {
        self.jobs.get(&id)
    }

    /// The store applied a request and said this.
    pub fn applied(&mut self, moment: Moment, begun: Begun, request: &Request, reply: &Reply) -> Checked {
        let Ok(answer) = reply else { return Ok(()) };
        match (request, answer) {
            (Request::Acquire(node, _), Answer::Acquire(acquired)) => {
                self.leases.acquired(moment.now, begun.by, *node, acquired)
            }
            (Request::Renew(_), _) => {
                self.renewed.insert(begun.by, begun.at.now);
                Ok(())
            }
            (Request::Plan(plans), Answer::Plan(answers)) => {
                plans.iter().zip(answers).try_for_each(|(plan, answer)| match answer {
                    Planned::Moved(written) => self.planned(moment, begun, plan, written),
                    Planned::Overtaken => {
                        self.counters.plan_overtaken += 1;
                        Ok(())
                    }
                })
            }
            (Request::Gate(gates), Answer::Gate(answers)) => {
                gates.iter().zip(answers).try_for_each(|(gate, answer)| self.gated(begun, gate, answer))
            }
            (Request::Split(splits), Answer::Gate(answers)) => splits
                .iter()
                .zip(answers)
                .try_for_each(|(split, answer)| self.split(moment, begun, split, answer)),
            (Request::Settle(settlements), Answer::Settle(answers)) => {
                settlements.iter().zip(answers).try_for_each(|(settlement, answer)| match answer {
                    Settled::Done { joined, .. } => {
                        self.settled(moment, begun, settlement)?;
                        self.check_joined(settlement, *joined)
                    }
                    Settled::Stale => {
                        self.counters.settlement_stale += 1;
                        Ok(())
                    }
                })
            }
            (Request::Accept(runs, _), Answer::Accept(answers)) => {
                runs.iter().zip(answers).try_for_each(|(run, answer)| match answer {
                    Accepted::New(id) => self.accepted(moment, run, *id),
                    Accepted::Duplicate(id) => self.was_there(moment, run, *id),
                })
            }
            (Request::Change(change), Answer::Change(changed)) => self.changed(moment, change, *changed),
            (Request::Unpark(unpark), Answer::Unpark(called)) => {
                self.counters.unparked += called.len() as u64;
                self.check_called_back(unpark, called)?;
                self.called_back(called, unpark.at);
                Ok(())
            }
            (Request::Prune(keep), Answer::Prune(pruned)) => {
                if pruned.buckets > 0 {
                    self.counters.pruned += 1;
                    self.pruned_before = self.pruned_before.max(keep.before.as_millis());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

pub(crate) use quiet::app as app_number;

pub(crate) fn show(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

//! Everything that is stored as plain values, for checkers.

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, ChangeId, Close, Definition, Epoch, JobId, JobState, Join, LogId, NewRun, NodeId,
    Part, RunId, ShardId, Text, Token,
};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Arrival, Counts, Digest, KeptAnswer, PlannedTo, Registered, RequestKey, TokenRow,
};

use super::state::{GateKey, Request, State, StoredRun};

/// Everything, each list in the order of its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// Every node that ever renewed.
    pub nodes: Vec<NodeDump>,
    /// Every shard.
    pub shards: Vec<ShardDump>,
    /// Every job, deleted ones too.
    pub jobs: Vec<JobDump>,
    /// Every change of a job, by a person or by planning.
    pub changes: Vec<(ChangeId, JobId)>,
    /// Every run that was not pruned.
    pub runs: Vec<RunDump>,
    /// The places that are held.
    pub holds: Vec<(Text, u32, RunId)>,
    /// The keys that are kept: job, key, whose, and until when if that run is closed.
    pub keys: Vec<(JobId, Text, RunId, Option<Timestamp>)>,
    /// What was left and not consumed.
    pub arrivals: Vec<Arrival>,
    /// Every token that was not revoked.
    pub tokens: Vec<TokenRow>,
    /// Every request that was not forgotten.
    pub requests: Vec<RequestDump>,
    /// Every app and executor.
    pub registered: Registered,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDump {
    /// Its id.
    pub node: NodeId,
    /// Until when it lives.
    pub expires_at: Timestamp,
    /// The highest mark it promised.
    pub mark: Timestamp,
    /// The last change it said it has.
    pub seen: ChangeId,
    /// Where it is reached.
    pub address: Text,
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardDump {
    /// Which.
    pub shard: ShardId,
    /// The node that took it last, dead or alive, unless it was given back.
    pub owner: Option<NodeId>,
    /// The last epoch given for it.
    pub epoch: Epoch,
    /// What all holders before the owner promised together.
    pub inherited: Option<Timestamp>,
    /// Where loading may begin.
    pub checkpoint: Mark,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDump {
    /// Which.
    pub id: JobId,
    /// Its version.
    pub version: u64,
    /// Its shard.
    pub shard: ShardId,
    /// What its clock says, whether it is enabled or not.
    pub next_fire: Option<Timestamp>,
    /// How far planning has come.
    pub planned: PlannedTo,
    /// Whether it fires.
    pub state: JobState,
    /// What people wrote.
    pub definition: Definition,
    /// What has become of its runs.
    pub counts: Counts,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDump {
    /// As it was written.
    pub run: NewRun,
    /// How it ended, if it did.
    pub close: Option<Close>,
    /// What it waits for, if it does.
    pub wait: Option<WaitDump>,
    /// Its gates, by attempt.
    pub gates: Vec<GateDump>,
    /// Attempts whose key was taken as unsent.
    pub unsent: Vec<Attempt>,
    /// Attempts that have ended.
    pub attempts: Vec<AttemptRecord>,
    /// Which part it is of the run that it follows.
    pub part: Option<Part>,
    /// What has become of its parts, if it was split.
    pub join: Option<Join>,
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitDump {
    /// Until when; none if it is parked.
    pub ready_at: Option<Timestamp>,
    /// The attempt to be made.
    pub attempt: Attempt,
}

/// A gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateDump {
    /// Which attempt.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
    /// Its number.
    pub log: LogId,
    /// When.
    pub sent_at: Timestamp,
    /// Where to.
    pub executor: Text,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestDump {
    /// Whose, and its key.
    pub key: RequestKey,
    /// The sum of what was asked.
    pub digest: Digest,
    /// When it was begun.
    pub begun_at: Timestamp,
    /// What was answered, if it was.
    pub answer: Option<KeptAnswer>,
}

impl State {
    /// Places, and places in lines, as databases keep both.
    fn dump_holds(&self) -> Vec<(Text, u32, RunId)> {
        let places = self.holds.iter().map(|((resource, slot), run)| (resource.clone(), *slot, *run));
        let in_line =
            |resource: &Text, waits: &(u32, RunId)| (format!("{resource} line").into(), waits.0, waits.1);
        let lines = self
            .lines
            .iter()
            .flat_map(|(resource, line)| line.iter().map(move |waits| in_line(resource, waits)));
        let mut all: Vec<_> = places.chain(lines).collect();
        all.sort_unstable();
        all
    }

    pub(super) fn dump(&self) -> Dump {
        Dump {
            nodes: self.nodes.keys().map(|id| self.dump_node(*id)).collect(),
            shards: self.shards.keys().map(|id| self.dump_shard(*id)).collect(),
            jobs: self.jobs.keys().map(|id| self.dump_job(*id)).collect(),
            changes: (1..)
                .zip(&self.changes)
                .skip(self.forgotten_changes as usize)
                .map(|(change, job)| (ChangeId(change), *job))
                .collect(),
            runs: self.runs.values().map(dump_run).collect(),
            holds: self.dump_holds(),
            keys: self
                .keys
                .iter()
                .map(|((job, key), held)| (*job, key.clone(), held.run, held.expires_at))
                .collect(),
            arrivals: self.arrivals.values().copied().collect(),
            tokens: self.tokens.values().cloned().collect(),
            requests: self.requests.iter().map(|(key, request)| dump_request(key, request)).collect(),
            registered: self.registered(),
        }
    }

    fn dump_node(&self, id: NodeId) -> NodeDump {
        let node = &self.nodes[&id];
        NodeDump {
            node: id,
            expires_at: node.expires_at,
            mark: node.mark,
            seen: ChangeId(node.seen),
            address: node.address.clone(),
        }
    }

    fn dump_shard(&self, id: ShardId) -> ShardDump {
        let shard = &self.shards[&id];
        ShardDump {
            shard: id,
            owner: shard.owner,
            epoch: Epoch(shard.epoch),
            inherited: shard.inherited,
            checkpoint: shard.checkpoint,
        }
    }

    fn dump_job(&self, id: JobId) -> JobDump {
        let job = &self.jobs[&id];
        JobDump {
            id,
            version: job.version,
            shard: job.shard,
            next_fire: job.next_fire,
            planned: job.planned,
            state: job.state.clone(),
            definition: job.definition.clone(),
            counts: self.counts(Some(id)),
        }
    }
}

fn dump_request(key: &RequestKey, request: &Request) -> RequestDump {
    RequestDump {
        key: key.clone(),
        digest: request.digest,
        begun_at: request.begun_at,
        answer: request.answer.clone(),
    }
}

fn dump_run(run: &StoredRun) -> RunDump {
    let gate = |(attempt, key): (&Attempt, &GateKey)| match key {
        GateKey::Unsent => None,
        GateKey::Sent(send) => Some(GateDump {
            attempt: *attempt,
            token: send.token,
            log: send.log,
            sent_at: send.sent_at,
            executor: send.executor.clone(),
        }),
    };
    let unsent = |(attempt, key): (&Attempt, &GateKey)| matches!(key, GateKey::Unsent).then_some(*attempt);
    RunDump {
        run: run.new.clone(),
        close: run.close.clone(),
        wait: run.wait.map(|wait| WaitDump { ready_at: wait.ready_at, attempt: wait.attempt }),
        gates: run.gates.iter().filter_map(gate).collect(),
        unsent: run.gates.iter().filter_map(unsent).collect(),
        attempts: run.attempts.values().cloned().collect(),
        part: run.part.clone(),
        join: run.join,
    }
}

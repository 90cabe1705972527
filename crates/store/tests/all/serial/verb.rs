//! What clients ask, whole: nothing of it depends on what anybody was answered. And what was answered, as a text, without the
//! numbers that every store counts in its own way.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{ChangeId, Epoch, LogId, NewRun, NodeId, RunId, Settlement, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{ArrivalKind, Change, Gate, Gated, Lease, Plan, Renewal, RunFilter, StoreError};

use super::history::Scene;
use super::second;
use crate::suite::Whole;

/// Something that a client asks of a store.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Accept(Vec<NewRun>, Vec<(ShardId, ArrivalKind)>),
    Plan(Plan),
    Gate(Gate),
    Settle(Settlement),
    Change(Box<Change>),
    Renew(NodeId),
    Acquire(NodeId, Vec<ShardId>),
    Release(NodeId, Vec<Lease>),
    Load(Vec<Lease>),
    Adopt(Vec<Lease>),
    /// Everything there is, when all the others have ended.
    Look,
}

impl Verb {
    /// Asks it; what was answered. What an error says is the store's own, what it is counts.
    pub(crate) async fn ask(&self, store: &dyn Whole, scene: &Scene) -> Result<String, StoreError> {
        match self.answer(store, scene).await {
            Err(StoreError::Fenced(_)) => Ok("fenced".to_owned()),
            Err(StoreError::Conflict(_)) => Ok("conflict".to_owned()),
            answer => answer,
        }
    }

    async fn answer(&self, store: &dyn Whole, scene: &Scene) -> Result<String, StoreError> {
        Ok(match self.clone() {
            Verb::Accept(runs, left) => format!("{:?}", store.accept(runs, left).await?),
            Verb::Plan(plan) => format!("{:?}", store.plan(vec![plan]).await?),
            Verb::Gate(gate) => {
                let said = store.gate(vec![gate]).await?;
                format!("{:?}", said.into_iter().map(without_number).collect::<Vec<Gated>>())
            }
            Verb::Settle(settlement) => format!("{:?}", store.settle(vec![settlement]).await?),
            Verb::Change(change) => format!("{:?}", store.change(*change).await?),
            Verb::Renew(node) => {
                let mut renewed = store.renew(renewal(node)).await?;
                renewed.nodes.sort_by_key(|row| row.node);
                renewed.shards.iter_mut().for_each(|row| row.epoch = Epoch(0));
                format!("{renewed:?}")
            }
            Verb::Acquire(node, shards) => {
                let mut taken = store.acquire(node, shards).await?;
                taken.iter_mut().for_each(|taken| taken.lease.epoch = Epoch(0));
                taken.sort_by_key(|taken| taken.lease.shard);
                format!("{taken:?}")
            }
            Verb::Release(node, leases) => format!("{:?}", store.release(node, leases, second(0)).await?),
            Verb::Load(leases) => format!("{:?}", store.load(&leases, START, Timestamp::MAX, 100).await?),
            Verb::Adopt(leases) => {
                let mut adopted = store.adopt(&leases).await?;
                adopted.sends.sort_by_key(|send| send.run.run);
                adopted.sends.iter_mut().for_each(|send| send.log = LogId(0));
                adopted.parked.sort_unstable();
                format!("{adopted:?}")
            }
            Verb::Look => look(store, scene).await?,
        })
    }
}

const START: Mark = Mark { due: Timestamp::MIN, id: 0 };

pub(crate) fn renewal(node: NodeId) -> Renewal {
    Renewal {
        node,
        term: Duration::from_secs(3_600),
        mark: second(0),
        seen: ChangeId(0),
        name: "node".into(),
        address: "node:7070".into(),
        checkpoints: Vec::new(),
    }
}

fn without_number(said: Gated) -> Gated {
    match said {
        Gated::Through(_) => Gated::Through(LogId(0)),
        said => said,
    }
}

/// Jobs, runs with what has become of them, what is due, and what was left.
async fn look(store: &dyn Whole, scene: &Scene) -> Result<String, StoreError> {
    let mut said = Vec::new();
    for job in &scene.jobs {
        said.push(format!("{:?}", store.job(*job).await?));
        said.push(format!("{:?}", store.counts(Some(*job)).await?));
    }
    let mut runs = store.run_list(&RunFilter::default(), None, 1_000).await?.items;
    for run in &mut runs {
        for attempt in &mut run.attempts {
            if let punctual_node::ports::AttemptRow::Open { log, .. } = attempt {
                *log = LogId(0);
            }
        }
    }
    said.extend(runs.iter().map(|run| format!("{run:?}")));
    let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    let mut rows = store.fetch(&ids).await?;
    rows.sort_by_key(|row| row.waiting.run);
    said.extend(rows.iter().map(|row| format!("{row:?}")));
    said.push(format!("{:?}", store.due(&scene.leases, Timestamp::MAX, 100).await?));
    let left = store.arrivals(&scene.leases, 1_000).await?;
    let mut left: Vec<String> = left.iter().map(|left| format!("{:?} {:?}", left.shard, left.kind)).collect();
    left.sort_unstable();
    said.extend(left);
    Ok(said.join("\n"))
}

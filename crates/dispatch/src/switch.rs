//! The switch: each attempt goes the way of its target.

use std::sync::Arc;
use std::time::Duration;

use punctual_node::ports::{Dispatch, Dispatched, Kill, Probe, Receipt};

use crate::{Agents, Executors};

/// The way to agents and executors alike.
pub struct Switch {
    /// For jobs that call an HTTP endpoint.
    pub agents: Arc<Agents>,
    /// For jobs of executors.
    pub executors: Arc<Executors>,
}

impl Switch {
    /// How many attempts and questions are on their way or not told yet.
    pub fn in_flight(&self) -> usize {
        self.agents.in_flight() + self.executors.in_flight()
    }

    /// Waits until nothing is on its way and everything is told, at most for `bound`; answers how many are left.
    pub async fn drain(&self, bound: Duration) -> usize {
        let (agents, executors) = tokio::join!(self.agents.drain(bound), self.executors.drain(bound));
        agents + executors
    }
}

impl Dispatch for Switch {
    fn send(&self, sends: Vec<Dispatched>) {
        let (to_executors, to_agents) =
            sends.into_iter().partition::<Vec<_>, _>(|run| run.job.executor().is_some());
        if !to_agents.is_empty() {
            self.agents.send(to_agents);
        }
        if !to_executors.is_empty() {
            self.executors.send(to_executors);
        }
    }

    fn kill(&self, kills: Vec<Kill>) {
        let (to_executors, to_agents) =
            kills.into_iter().partition::<Vec<_>, _>(|kill| kill.address.is_some());
        self.agents.kill(to_agents);
        self.executors.kill(to_executors);
    }

    fn probe(&self, probes: Vec<Probe>) {
        self.executors.probe(probes);
    }

    fn acknowledge(&self, reports: Vec<Receipt>) {
        self.executors.acknowledge(reports);
    }
}

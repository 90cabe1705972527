//! The switch: each attempt goes the way of its target.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::model::Text;
use punctual_core::registry::Dialect;
use punctual_node::ports::{Address, Dispatch, Dispatched, Kill, Probe, Receipt, SessionKey};

use crate::stream::is_native;
use crate::{Agents, Executors, Natives};

/// The way to agents and executors alike.
pub struct Switch {
    /// For jobs that call an HTTP endpoint.
    pub agents: Arc<Agents>,
    /// For jobs of executors that are called.
    pub executors: Arc<Executors>,
    /// For jobs of executors that have a session.
    pub natives: Arc<Natives>,
}

impl Switch {
    /// How many attempts and questions are on their way or not reported yet.
    pub fn in_flight(&self) -> usize {
        self.agents.in_flight() + self.executors.in_flight()
    }

    /// Waits until nothing is on its way and everything is reported, at most for `bound`; returns how many are left.
    /// Attempts that executors have accepted go on, with a session or without.
    pub async fn drain(&self, bound: Duration) -> usize {
        let (agents, executors) = tokio::join!(self.agents.drain(bound), self.executors.drain(bound));
        agents + executors
    }
}

impl Dispatch for Switch {
    fn send(&self, sends: Vec<Dispatched>) {
        // The usual case, without sorting.
        if sends.iter().all(|run| has_session(run.address.as_deref())) {
            return self.natives.send(sends);
        }
        let (to_executors, to_agents) =
            sends.into_iter().partition::<Vec<_>, _>(|run| run.job.executor().is_some());
        if !to_agents.is_empty() {
            self.agents.send(to_agents);
        }
        let (to_natives, to_called) =
            to_executors.into_iter().partition::<Vec<_>, _>(|run| has_session(run.address.as_deref()));
        if !to_natives.is_empty() {
            self.natives.send(to_natives);
        }
        if !to_called.is_empty() {
            self.executors.send(to_called);
        }
    }

    fn kill(&self, kills: Vec<Kill>) {
        let (to_executors, to_agents) =
            kills.into_iter().partition::<Vec<_>, _>(|kill| kill.address.is_some());
        let (to_natives, to_called) =
            to_executors.into_iter().partition::<Vec<_>, _>(|kill| has_session(kill.address.as_ref()));
        self.agents.kill(to_agents);
        self.natives.kill(to_natives);
        self.executors.kill(to_called);
    }

    fn probe(&self, probes: Vec<Probe>) {
        self.executors.probe(probes);
    }

    fn ask_for_holds(&self) {
        self.natives.ask_for_holds();
    }

    fn want(&self, wants: Vec<(SessionKey, u64)>) {
        self.natives.want(wants);
    }

    fn carry(&self, of: SessionKey, node: Text) {
        self.natives.carry(of, node);
    }

    fn lend(&self, of: SessionKey, places: u32) {
        self.natives.lend(of, places);
    }

    fn acknowledge(&self, reports: Vec<Receipt>) {
        let natives: Vec<Receipt> = reports.into_iter().filter(|receipt| is_native(*receipt)).collect();
        if !natives.is_empty() {
            self.natives.acknowledge(natives);
        }
    }
}

fn has_session(address: Option<&Address>) -> bool {
    address.is_some_and(|address| address.dialect == Dialect::Native)
}

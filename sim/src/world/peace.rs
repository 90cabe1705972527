//! The end of trouble: a core becomes well for good, the rest stays as broken as it is, and nothing may be left over.

use super::World;
use crate::check::Quiet;
use crate::dice::{Stream, is_hit, named};
use crate::link::Micros;

impl World {
    fn healthy(&self) -> Vec<bool> {
        let choice = |app: usize| named(self.seed(), Stream::Setup, 99, app as u64);
        (0..self.setup.apps).map(|app| app == 0 || is_hit(choice(app), 700_000)).collect()
    }

    /// The store, one node and some apps become well; whatever else is broken now stays so.
    pub(super) fn make_peace(&mut self) {
        self.is_peace = true;
        self.troubles = super::Troubles::default();
        let core = named(self.seed(), Stream::Setup, 98, 0) as usize % self.machines.len();
        self.say(|| format!("peace: node {core} is well"));
        for machine in 0..self.machines.len() {
            self.machines[machine].ambushes.clear();
            if machine == core {
                self.machines[machine].cut_until = 0;
                let life = self.machines[machine].life;
                if self.machines[machine].paused_until.is_some() {
                    self.machines[machine].paused_until = Some(self.now);
                    self.resume(machine, life);
                }
                self.start(machine);
                continue;
            }
            let place = &mut self.machines[machine];
            place.is_forsaken = true;
            if place.paused_until.is_some() {
                place.paused_until = Some(Micros::MAX);
            }
            if place.cut_until > self.now {
                place.cut_until = Micros::MAX;
            }
        }
        let healthy = self.healthy();
        for executor in &mut self.executors {
            if healthy[executor.character.app] {
                executor.is_up = true;
                executor.is_well = true;
            }
        }
        // Whoever waits for a node that is frozen for good gives up.
        for index in 0..self.clients.len() {
            if self.is_waiting_in_vain(index) {
                self.broken_off(index);
            }
        }
    }

    /// From now on no shard should change hands.
    pub(super) fn rest(&mut self) {
        self.moves_at_rest = self.checker.lease_moves();
    }

    /// Looks at everything once more.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        let quiet = Quiet {
            since: self.moment(),
            healthy: self.healthy(),
            moves_at_rest: self.moves_at_rest,
            unanswered: self.unanswered(),
        };
        let checked = self.checker.finish(self.moment(), &self.store.dump(), &quiet);
        self.judge(checked);
    }
}

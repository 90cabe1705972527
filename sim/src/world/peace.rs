//! The end of faults: a core of the cluster is repaired, the rest stays broken, and no work may be left over.

use super::World;
use crate::check::Quiet;
use crate::dice::{Stream, is_hit, named};
use crate::link::Micros;
use crate::setup::PEACE;

/// The length and the number of extensions.
const RESPITE: Micros = 600_000_000;
const RESPITES: u32 = 12;

/// The interval of checks for runs that wait for a place.
const LOOK: Micros = 15_000_000;

impl World {
    fn healthy(&self) -> Vec<bool> {
        let choice = |app: usize| named(self.seed(), Stream::Setup, 99, app as u64);
        let is_drawn = |app: usize| app == 0 || is_hit(choice(app), 700_000);
        let is_healthy = |app: usize| self.setup.hung.map_or_else(|| is_drawn(app), |hung| app != hung);
        (0..self.setup.apps).map(is_healthy).collect()
    }

    /// The store, one node and some apps are repaired; everything else that is broken stays so.
    pub(super) fn make_peace(&mut self) {
        self.is_peace = true;
        self.peace_at = self.moment();
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
        self.checker.executors_are_well(self.moment(), healthy.clone());
        for index in 0..self.executors.len() {
            let executor = &mut self.executors[index];
            if healthy[executor.character.app] {
                let was_up = std::mem::replace(&mut executor.is_up, true);
                executor.is_well = true;
                let life = executor.life;
                if !was_up {
                    self.at(self.now, super::Event::Beat(index as u8, life));
                }
            }
        }
        // Clients that wait for a node that stays frozen give up.
        for index in 0..self.clients.len() {
            if self.is_waiting_in_vain(index) {
                self.broken_off(index);
            }
        }
    }

    /// From now on no shard should change hands.
    pub(super) fn rest(&mut self) {
        self.moves_at_rest = self.checker.lease_moves();
        self.look();
    }

    /// From rest to the end no run may wait long for a place, whatever hangs.
    pub(super) fn look(&mut self) {
        let checked = self.checker.check_places(self.moment(), &self.quiet());
        self.judge(checked);
        if self.now + LOOK < self.setup.length + PEACE {
            self.after(LOOK, super::Event::Look);
        }
    }

    fn quiet(&self) -> Quiet {
        Quiet {
            since: self.peace_at,
            healthy: self.healthy(),
            is_narrow: self.setup.settings.limits.fast_open < 10,
            moves_at_rest: self.moves_at_rest,
            unanswered: self.unanswered(),
        }
    }

    /// Checks everything once more. If work is left over and the cluster is still busy, it gets more time.
    pub(super) fn end(&mut self) {
        let checked = self.checker.finish(self.moment(), &self.store.dump(), &self.quiet());
        let is_busy = self.now - self.checker.last_sent < RESPITE / 60;
        let is_left_over = checked.as_ref().is_err_and(|violation| violation.rule.starts_with("I23"));
        if is_left_over && is_busy && self.respites < RESPITES {
            self.respites += 1;
            self.at(self.now + RESPITE, super::Event::End);
            return;
        }
        self.is_over = true;
        self.judge(checked);
    }
}

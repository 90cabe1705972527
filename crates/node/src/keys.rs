//! Exclusive keys: runs that share one never overlap. The store decides, because a key may be in use on any node: a run
//! takes its keys with its gate, all or none, and in the order in which runs first asked. Here is only who asks when: of
//! the runs in this node's memory that share a key one asks at a time, the first by rank, and the others wait for it.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::engine::fire::Rank;
use punctual_core::model::{ExclusiveKeys, Job, RunId, Text};
use punctual_core::rank_set::RankSet;
use rustc_hash::FxHashMap;

use crate::memory::{Memory, RunLocation};
use crate::ports::Boot;

/// How often a run asks again for a key that a run of another node has.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// The order in which runs ask: those that were refused before, in the order of their turns, then the others by rank.
type AskOrder = (u64, Rank);

/// A run that was not refused yet has no turn.
const NO_TURN: u64 = u64::MAX;

/// The runs that wait for keys, and those that have some.
#[derive(Debug, Default)]
pub(crate) struct KeyWaits {
    /// The runs that wait, and for which keys.
    waiting: FxHashMap<RunId, (AskOrder, ExclusiveKeys)>,
    ranks: RankSet,
    by_key: FxHashMap<Text, BTreeSet<AskOrder>>,
    /// The turns of runs that were refused. The store serves runs in the order in which they first asked, so a run that
    /// came later and goes first by rank must not keep an earlier one from asking.
    turns: FxHashMap<RunId, u64>,
    last_turn: u64,
    /// Which run of this node has a key, or asks for it at this moment.
    taken: FxHashMap<Text, RunId>,
    takers: FxHashMap<RunId, ExclusiveKeys>,
    /// When the first runs ask again.
    again_at: Option<Boot>,
}

impl KeyWaits {
    fn order(&self, rank: Rank) -> AskOrder {
        (self.turns.get(&rank.run).copied().unwrap_or(NO_TURN), rank)
    }

    /// Lets a run wait.
    pub(crate) fn wait(&mut self, rank: Rank, keys: ExclusiveKeys) {
        let order = self.order(rank);
        for key in keys.iter() {
            self.by_key.entry(key.clone()).or_default().insert(order);
        }
        self.ranks.insert(rank);
        self.waiting.insert(rank.run, (order, keys));
    }

    /// The run waits no longer.
    pub(crate) fn take(&mut self, id: RunId) -> Option<(Rank, ExclusiveKeys)> {
        let (order, keys) = self.waiting.remove(&id)?;
        self.ranks.remove(&order.1);
        for key in keys.iter() {
            let Some(orders) = self.by_key.get_mut(key) else { continue };
            orders.remove(&order);
            if orders.is_empty() {
                self.by_key.remove(key);
            }
        }
        Some((order.1, keys))
    }

    /// Whether a run may ask for its keys: no other run of this node has one of them or asks, and none that waits for
    /// one goes before it.
    fn may_ask(&self, rank: Rank, keys: &ExclusiveKeys) -> bool {
        let order = self.order(rank);
        keys.iter().all(|key| match self.taken.get(key) {
            // Those that wait for it wait for this run.
            Some(taker) => *taker == rank.run,
            None => self.by_key.get(key).and_then(BTreeSet::first).is_none_or(|first| order <= *first),
        })
    }

    /// A run asks for its keys, and has them unless it is refused.
    fn ask(&mut self, id: RunId, keys: ExclusiveKeys) {
        for key in keys.iter() {
            self.taken.insert(key.clone(), id);
        }
        self.takers.insert(id, keys);
    }

    /// A run has its keys no longer, or was refused; the keys.
    fn give_back(&mut self, id: RunId) -> Option<ExclusiveKeys> {
        let keys = self.takers.remove(&id)?;
        for key in keys.iter() {
            if self.taken.get(key) == Some(&id) {
                self.taken.remove(key);
            }
        }
        Some(keys)
    }

    /// A run was refused, because another comes first. It has its turn now, behind that one if both wait here.
    fn note_refused(&mut self, id: RunId, first: RunId) {
        if let Some((rank, keys)) = self.take(first) {
            self.give_turn(first);
            self.wait(rank, keys);
            self.turns.remove(&id);
        }
        if !self.turns.contains_key(&id) {
            self.give_turn(id);
        }
    }

    fn give_turn(&mut self, id: RunId) {
        self.last_turn += 1;
        self.turns.insert(id, self.last_turn);
    }

    /// Forgets the turn of a run that has left the line.
    fn forget_turn(&mut self, id: RunId) {
        self.turns.remove(&id);
    }

    /// The runs that may ask now, of those that are the first to wait for one of these keys.
    fn called<'a>(&self, keys: impl Iterator<Item = &'a Text>) -> Vec<RunId> {
        let first = |key: &Text| self.by_key.get(key)?.first().copied();
        let called: BTreeSet<AskOrder> = keys.filter_map(first).collect();
        called.into_iter().map(|(_, rank)| rank.run).filter(|run| self.may_be_called(*run)).collect()
    }

    /// Whether a run waits and may ask now.
    fn may_be_called(&self, id: RunId) -> bool {
        self.waiting.get(&id).is_some_and(|((_, rank), keys)| self.may_ask(*rank, keys))
    }

    /// When the first runs ask again although no run of this node gave a key back: another node may have, and a run that was
    /// called may have had a reason not to ask.
    pub(crate) fn next(&self, boot: Boot) -> Option<Boot> {
        let again_at = self.again_at.unwrap_or_else(|| boot.plus(ASK_AGAIN));
        (!self.waiting.is_empty()).then_some(again_at)
    }

    /// How many runs wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The runs that wait, first to last by rank.
    pub(crate) fn ranks(&self) -> &RankSet {
        &self.ranks
    }

    /// Whether a run waits.
    pub(crate) fn contains(&self, id: RunId) -> bool {
        self.waiting.contains_key(&id)
    }
}

impl Memory {
    /// Whether an attempt of the run is written down before it is sent: for its job, or for keys of its own.
    pub(crate) fn is_gated(&self, id: RunId, job: &Job) -> bool {
        job.is_gated() || self.has_own_keys(id)
    }

    /// The same, whichever executor or agent gets it.
    pub(crate) fn must_be_gated(&self, id: RunId, job: &Job) -> bool {
        job.must_be_gated() || self.has_own_keys(id)
    }

    /// Whether a run has keys of its own, in place of its job's.
    pub(crate) fn has_own_keys(&self, id: RunId) -> bool {
        self.loaded.overrides_of(id).exclusive.as_ref().is_some_and(|keys| !keys.is_empty())
    }

    /// The keys that a run shares with others; none where there is nothing to share.
    pub(crate) fn keys_of(&self, id: RunId, job: &Job) -> Option<ExclusiveKeys> {
        let keys = self.loaded.overrides_of(id).exclusive(&job.definition);
        (!keys.is_empty()).then(|| keys.clone())
    }

    /// Lets a run wait for its keys, unless it may ask for them.
    pub(crate) fn waits_for_keys(&mut self, id: RunId, job: &Job) -> bool {
        let Some(keys) = self.keys_of(id, job) else { return false };
        let Some(run) = self.loaded.runs.get(&id) else { return false };
        if self.loaded.keys.may_ask(run.rank(id), &keys) {
            return false;
        }
        self.queue_for_keys(id, keys);
        true
    }

    fn queue_for_keys(&mut self, id: RunId, keys: ExclusiveKeys) {
        self.move_to(id, RunLocation::Keyed);
        let Some(run) = self.loaded.runs.get(&id) else { return };
        self.loaded.keys.wait(run.rank(id), keys);
    }

    /// A run is about to ask the store for its keys.
    pub(crate) fn ask_for_keys(&mut self, id: RunId, job: &Job) {
        if let Some(keys) = self.keys_of(id, job) {
            self.loaded.keys.ask(id, keys);
        }
    }

    /// Another run comes first, so this one asks again soon. The others that wait here stay behind it: to let each of them be
    /// refused too would cost a transaction a run.
    pub(crate) fn keys_refused(&mut self, id: RunId, job: &Job, first: RunId) {
        self.loaded.keys.note_refused(id, first);
        self.loaded.keys.give_back(id);
        let Some(keys) = self.keys_of(id, job) else { return self.move_to(id, RunLocation::Ready) };
        self.queue_for_keys(id, keys);
        if self.loaded.keys.may_be_called(first) {
            self.call_for_keys([first]);
        }
    }

    /// A run is gone, or waits for a time: its keys are free, and it has no turn.
    pub(crate) fn forget_keys(&mut self, id: RunId) {
        self.loaded.keys.forget_turn(id);
        self.return_keys(id);
    }

    /// A run has its keys no longer: the next one asks.
    pub(crate) fn return_keys(&mut self, id: RunId) {
        if let Some(keys) = self.loaded.keys.give_back(id) {
            let called = self.loaded.keys.called(keys.iter());
            self.call_for_keys(called);
        }
    }

    /// The first run that waits for each key asks again, as often as the store may have freed a key.
    pub(crate) fn ask_again_for_keys(&mut self, boot: Boot) {
        let next = self.loaded.keys.next(boot);
        self.loaded.keys.again_at = next;
        if next.is_some_and(|at| at <= boot) {
            self.loaded.keys.again_at = None;
            let called = self.loaded.keys.called(self.loaded.keys.by_key.keys());
            self.call_for_keys(called);
        }
    }

    fn call_for_keys(&mut self, runs: impl IntoIterator<Item = RunId>) {
        for id in runs {
            self.move_to(id, RunLocation::Ready);
            self.outbox.wakes.fire = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calendar::Timestamp;

    fn keys(keys: &[&'static str]) -> ExclusiveKeys {
        ExclusiveKeys::new(keys.iter().map(|key| Text::Borrowed(key))).unwrap()
    }

    fn rank(run: u64) -> Rank {
        Rank::new(false, 0, 5, Timestamp::from_millis(run as i64), RunId(run))
    }

    #[test]
    fn a_run_that_needs_two_keys_is_not_overtaken_by_those_that_need_one() {
        let mut waits = KeyWaits::default();
        waits.ask(RunId(1), keys(&["a"]));
        assert!(!waits.may_ask(rank(2), &keys(&["a", "b"])));
        waits.wait(rank(2), keys(&["a", "b"]));
        assert!(!waits.may_ask(rank(3), &keys(&["b"])), "b is free, and run 2 goes before");
        waits.wait(rank(3), keys(&["b"]));
        assert!(waits.may_ask(rank(4), &keys(&["c"])));
        let returned = waits.give_back(RunId(1)).unwrap();
        assert_eq!(waits.called(returned.iter()), [RunId(2)]);
        waits.take(RunId(2));
        waits.ask(RunId(2), keys(&["a", "b"]));
        assert!(waits.called(["a", "b"].map(Text::Borrowed).iter()).is_empty());
        waits.give_back(RunId(2));
        assert_eq!(waits.called(["a", "b"].map(Text::Borrowed).iter()), [RunId(3)]);
    }

    #[test]
    fn a_run_that_has_its_keys_asks_for_its_next_attempt_without_waiting() {
        let mut waits = KeyWaits::default();
        waits.ask(RunId(1), keys(&["a"]));
        waits.ask(RunId(2), keys(&["a"]));
        waits.note_refused(RunId(2), RunId(1));
        let returned = waits.give_back(RunId(2)).unwrap();
        waits.wait(rank(2), returned);
        waits.ask(RunId(1), keys(&["a"]));
        assert!(waits.may_ask(rank(1), &keys(&["a"])), "run 2 has a turn, and waits for run 1");
    }

    #[test]
    fn a_run_that_asked_earlier_is_not_kept_from_asking_by_one_with_a_better_rank() {
        let mut waits = KeyWaits::default();
        // Run 9 was refused by a node that held the shard before, so nothing is known here of its turn.
        waits.wait(rank(9), keys(&["a"]));
        waits.ask(RunId(1), keys(&["a"]));
        waits.note_refused(RunId(1), RunId(9));
        let returned = waits.give_back(RunId(1)).unwrap();
        waits.wait(rank(1), returned.clone());
        assert_eq!(waits.called(returned.iter()), [RunId(9)]);
        waits.take(RunId(9));
        waits.ask(RunId(9), returned.clone());
        waits.give_back(RunId(9));
        assert_eq!(waits.called(returned.iter()), [RunId(1)]);
        assert!(!waits.may_ask(rank(0), &returned), "run 1 has its turn");
    }

    #[test]
    fn nothing_is_left_of_runs_that_are_gone() {
        let mut waits = KeyWaits::default();
        waits.wait(rank(1), keys(&["a", "b"]));
        waits.ask(RunId(2), keys(&["a"]));
        waits.take(RunId(1));
        waits.give_back(RunId(2));
        assert!(waits.by_key.is_empty() && waits.taken.is_empty() && waits.takers.is_empty());
        assert_eq!((waits.len(), waits.ranks().len()), (0, 0));
    }
}

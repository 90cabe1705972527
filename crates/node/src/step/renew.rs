//! Renewing: the node's row, what it learns with it, and which shards it takes or gives back.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::cluster::{Stepped, Tenure, moves};
use punctual_core::event::Event;
use punctual_core::model::{ChangeId, NodeId, ShardId};
use punctual_core::wheel::Mark;

use crate::memory::{Held, TELL_DRAINED};
use crate::ports::{Acquired, Boot, Hint, Lease, NodeRow, Renewal, Renewed, StoreError};
use crate::settings::{Planted, Settings};
use crate::{AWAY_AFTER, Node, draw_id};

/// A checkpoint is written when it has moved this far: it only saves reading at the next takeover.
const CHECKPOINT_STEP_MS: i64 = 30_000;

/// How long after the end of another node's term that term is surely over, by the store's clock too.
const EXPIRED_AFTER: Duration = Duration::from_millis(10);

/// The least time between two renewals, whatever the clocks of other nodes say.
const RENEW_MIN: Duration = Duration::from_millis(100);

/// How slow the store has lately been with renewals. Where one takes as long as a term, nodes would take each other's
/// shards for orphaned again and again; so a node that is answered slowly asks for a longer term.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slowness(Duration);

impl Slowness {
    /// The slowest renewal counts, and fades by an eighth with every later one.
    fn note(&mut self, took: Duration) {
        self.0 = took.max(self.0 / 8 * 7);
    }

    /// Room for three renewals, within the configured term and the longest that any node asks for.
    fn term(self, settings: &Settings) -> Duration {
        self.0.saturating_mul(3).clamp(settings.term, settings.term_max())
    }
}

/// When a node that stops looks again.
const IDLE: Duration = Duration::from_secs(3_600);

impl Node {
    /// Renews the node's row, learns what the store says, and takes or gives back shards. The first call joins.
    pub async fn renew(&self) -> Boot {
        let asked = self.boot();
        if self.memory().cluster.has_left {
            return self.tell_drained(asked);
        }
        if std::mem::take(&mut self.memory().cluster.wants_to_leave) {
            if let Err(error) = self.leave().await {
                // Shards that could not be given back expire by themselves.
                self.memory().pause(asked, "leave", &error, Duration::ZERO);
            }
            self.memory().cluster.is_drained = true;
            return self.tell_drained(asked);
        }
        let renewal = self.renewal(asked);
        let Renewal { mark, term, .. } = renewal;
        let answer = self.ports.store.renew(renewal).await;
        let answered = self.boot();
        self.memory().agenda.slowness.note(answered.since(asked));
        let is_news = match answer {
            Ok(renewed) => {
                // What a drained node is told goes the same way.
                let drained: Vec<NodeRow> = self.memory().cluster.drained(answered).cloned().collect();
                self.ports.peers.meet(&[&renewed.nodes[..], &drained[..]].concat());
                let tenure = Tenure::granted(asked, term, self.settings.margin, mark);
                self.learn(asked, answered, tenure, &renewed)
            }
            Err(error) => return self.not_renewed(asked, &error),
        };
        self.rebalance().await;
        if is_news { self.boot() } else { self.next_renewal(asked) }
    }

    /// Tells the other nodes that this one is drained and lives. Its row is gone from the store, so that they wait for nothing
    /// of it.
    fn tell_drained(&self, asked: Boot) -> Boot {
        let (me, others) = {
            let memory = self.memory();
            if !memory.cluster.is_drained {
                // It stops.
                return asked.plus(IDLE);
            }
            (memory.cluster.id, memory.other_nodes())
        };
        for node in others {
            self.ports.peers.tell(node, Hint::Drained(me));
        }
        asked.plus(TELL_DRAINED)
    }

    /// When this node is to renew, or when another node's term is up, whichever comes first: that node's shards are
    /// free then.
    fn next_renewal(&self, asked: Boot) -> Boot {
        let memory = self.memory();
        let others = memory.cluster.nodes.iter().filter(|row| row.node != memory.cluster.id);
        let soonest = others.map(|row| memory.time.moment_of(row.expires_at).plus(EXPIRED_AFTER)).min();
        let regular = asked.plus(self.settings.renew_every);
        soonest.map_or(regular, |soonest| {
            soonest.clamp(asked.plus(RENEW_MIN), regular.max(asked.plus(RENEW_MIN)))
        })
    }

    /// Ceases to act, gives everything back and leaves the cluster, for a clean stop or a drain. What is on its way is
    /// written down first, so that the next holder waits for it; its ends are still settled here.
    pub async fn leave(&self) -> Result<(), StoreError> {
        let (shards, others) = {
            let mut memory = self.memory();
            memory.cluster.has_left = true;
            (memory.cluster.held.keys().copied().collect::<Vec<ShardId>>(), memory.other_nodes())
        };
        let given_back = self.give_back(shards).await;
        // A row whose term is over at once: no node waits for this life any more, and it cannot come back.
        let last = Renewal { term: Duration::ZERO, checkpoints: Vec::new(), ..self.renewal(self.boot()) };
        let ended = self.ports.store.renew(last).await;
        for node in others {
            self.ports.peers.tell(node, Hint::Vacated);
        }
        self.ports.peers.told().await;
        given_back.and(ended.map(drop))
    }

    /// Comes back after it left, as another life.
    pub fn come_back(&self) {
        if !self.has_left() {
            return;
        }
        let id = draw_id(&*self.ports.entropy);
        let mut memory = self.memory();
        if memory.cluster.has_left {
            memory.concede(id);
            memory.cluster.has_left = false;
            memory.cluster.is_drained = false;
            memory.cluster.wants_to_leave = false;
            memory.outbox.wakes.renew = true;
        }
    }

    fn renewal(&self, asked: Boot) -> Renewal {
        let mut memory = self.memory();
        let now = memory.time.now(asked);
        let term = memory.agenda.slowness.term(&self.settings);
        let mark = match now {
            // Nothing that this node could begin before its tenure ends is due later than that.
            Some(now) if !memory.has_planted(Planted::MarkBehind) => now.saturating_add(term),
            Some(now) => now,
            None => Timestamp::MIN,
        };
        // Arrivals may be runs that this node does not know yet.
        let is_up_to_date =
            !memory.inbox.has_arrivals && memory.inbox.heard_of.is_empty() && memory.inbox.asking == 0;
        let place = now.filter(|_| is_up_to_date).map(|now| memory.checkpoint(now));
        let mut checkpoints = Vec::new();
        for (shard, held) in &mut memory.cluster.held {
            if let Some(place) = place.and_then(|place| next_checkpoint(held, place)) {
                checkpoints.push((Lease { shard: *shard, epoch: held.epoch }, place));
                held.tell();
            }
        }
        let Settings { name, address, .. } = &self.settings;
        Renewal {
            node: memory.cluster.id,
            term,
            mark,
            seen: memory.cluster.seen,
            name: name.clone(),
            address: address.clone(),
            checkpoints,
        }
    }

    /// Puts what the store said into memory; whether the store should hear from us at once.
    fn learn(&self, asked: Boot, answered: Boot, tenure: Tenure, renewed: &Renewed) -> bool {
        let mut memory = self.memory();
        let renewed_before = memory.cluster.renewed_at.replace(answered);
        let is_first = memory.cluster.tenure.is_none();
        let was_trusted = memory.trusted_now(answered).is_some();
        if !(memory.has_planted(Planted::OwnClock) && memory.time.now(asked).is_some()) {
            let stepped = memory.time.learn(asked, answered, renewed.now);
            memory.outbox.events.extend(stepped.map(told));
        }
        memory.cluster.tenure = Some(tenure);
        let unread: Vec<_> = renewed.changes.iter().map(|(_, job)| *job).collect();
        let is_new = memory.cluster.seen == ChangeId(0) && is_first;
        let has_gap = renewed.changes.first().is_some_and(|(first, _)| first.0 > memory.cluster.seen.0 + 1);
        if is_new || has_gap {
            // What is known from before may be out of date, also where changes were removed before this node saw them.
            memory.jobs.forget_all();
        }
        let last = renewed.changes.last().map_or(memory.cluster.seen, |(change, _)| *change);
        memory.cluster.seen = if is_new { renewed.latest } else { last };
        if !memory.has_planted(Planted::ChangeSeenUnread) {
            for job in unread {
                memory.note_change(job);
            }
        }
        memory.cluster.owners = renewed.shards.iter().map(|row| row.owner).collect();
        memory.cluster.epochs = renewed.shards.iter().map(|row| row.epoch).collect();
        if std::mem::take(&mut memory.agenda.failures) > 0 {
            // The store answers again, so no step waits any longer.
            memory.agenda.paused_until = answered;
            memory.outbox.wakes.settle = true;
            memory.come_back_from_outage(answered);
        }
        if renewed_before.is_some_and(|last| answered.since(last) > self.settings.renew_every + AWAY_AFTER) {
            memory.wait_for_repetitions(answered, self.settings.registry.repeat);
        }
        let me = memory.cluster.id;
        let lost: Vec<ShardId> = renewed
            .shards
            .iter()
            .filter(|row| {
                memory
                    .cluster
                    .held
                    .get(&row.shard)
                    .is_some_and(|held| row.owner != Some(me) || row.epoch != held.epoch)
            })
            .map(|row| row.shard)
            .collect();
        memory.leave(lost);
        for row in &renewed.shards {
            if let Some(held) = memory.cluster.held.get_mut(&row.shard) {
                held.checkpoint = row.checkpoint;
                held.is_answered = true;
            }
        }
        if !renewed.arrivals.is_empty() {
            memory.inbox.has_arrivals = true;
            memory.outbox.wakes.tend = true;
        }
        if !was_trusted || !memory.loaded.ready.is_empty() {
            // Steps that could do nothing sleep long.
            memory.outbox.wakes.fire = true;
            memory.outbox.wakes.load |= !was_trusted;
            memory.outbox.wakes.reap |= !was_trusted;
            memory.outbox.wakes.tend |= !was_trusted;
        }
        memory.cluster.meet(&renewed.nodes, answered);
        // The registry could not be read before the time was known.
        memory.outbox.wakes.watch |= is_first;
        is_first || !renewed.changes.is_empty()
    }

    fn not_renewed(&self, asked: Boot, error: &StoreError) -> Boot {
        let boot = self.boot();
        match error {
            // This life has ended in the store; another begins.
            StoreError::Fenced(_) => {
                let id = draw_id(&*self.ports.entropy);
                let mut memory = self.memory();
                memory.concede(id);
                memory.come_back_from_outage(boot);
                boot
            }
            // We go on until our own deadline, and then hold: whether the row lives, the next answer says.
            _ => {
                self.memory().pause(boot, "renew", error, self.settings.pause);
                asked.plus(self.settings.renew_every / 2).max(boot.plus(self.settings.pause))
            }
        }
    }

    /// Takes shards that have no holder and that this node should have; gives back those that another living node
    /// should have.
    async fn rebalance(&self) {
        let moves = {
            let memory = self.memory();
            let boot = self.boot();
            if memory.trusted_now(boot).is_none() || memory.cluster.has_left {
                return;
            }
            let owners = (0..).map(ShardId).zip(memory.cluster.owners.iter().copied());
            let nodes: Vec<NodeId> = memory.cluster.nodes.iter().map(|row| row.node).collect();
            moves(memory.cluster.id, &nodes, owners)
        };
        if !moves.release.is_empty()
            && let Err(error) = self.hand_over(moves.release).await
        {
            let boot = self.boot();
            self.memory().pause(boot, "release", &error, Duration::ZERO);
        }
        // A shard whose taking went unanswered may be ours in the store and not in memory: taking it again is right.
        let (me, orphaned) = {
            let memory = self.memory();
            let is_orphaned = |(shard, owner): (ShardId, &Option<NodeId>)| {
                (*owner == Some(memory.cluster.id) && !memory.cluster.held.contains_key(&shard))
                    .then_some(shard)
            };
            (
                memory.cluster.id,
                (0..)
                    .map(ShardId)
                    .zip(memory.cluster.owners.iter())
                    .filter_map(is_orphaned)
                    .collect::<Vec<_>>(),
            )
        };
        let wanted: Vec<ShardId> = moves.acquire.into_iter().chain(orphaned).collect();
        if wanted.is_empty() {
            return;
        }
        match self.ports.store.acquire(me, wanted).await {
            Ok(acquired) => self.begin(me, &acquired),
            Err(error) => {
                let boot = self.boot();
                self.memory().pause(boot, "acquire", &error, Duration::ZERO);
            }
        }
    }

    fn begin(&self, me: NodeId, acquired: &[Acquired]) {
        if let Some(mark) = acquired.iter().filter_map(|acquired| acquired.mark).max() {
            // Before anything can be sent for these shards, and not under the lock, because the mark is a file.
            self.ports.fired.cover(mark);
        }
        if self.begin_with(me, acquired) {
            self.ports.dispatch.ask_for_holds();
        }
    }

    /// Whether executors that have a session may have something of what was taken over.
    fn begin_with(&self, me: NodeId, acquired: &[Acquired]) -> bool {
        let boot = self.boot();
        let mut memory = self.memory();
        if memory.cluster.id != me || memory.cluster.has_left {
            return false;
        }
        if memory.cluster.held.is_empty() {
            // Changes do not wait for a node that holds nothing, so what it knows of jobs may be stale.
            memory.jobs.forget_all();
        }
        memory.agenda.planned_through = Timestamp::MIN;
        let is_takeover = acquired.iter().any(|acquired| acquired.mark.is_some());
        if is_takeover {
            memory.executors.natives.listen_until(boot.plus(self.settings.registry.listen));
        }
        memory.leave(acquired.iter().map(|acquired| acquired.lease.shard));
        let fired = self.ports.fired.through().map(just_after);
        for Acquired { lease, mark, checkpoint } in acquired {
            let bounded = mark.map(|mark| fired.map_or(mark, |fired| fired.min(mark)));
            let held = Held {
                epoch: lease.epoch,
                inherited: bounded.unwrap_or(Timestamp::MIN),
                loaded: *checkpoint,
                reach: *checkpoint,
                is_in_question: false,
                is_adopted: false,
                checkpoint: *checkpoint,
                swept: Timestamp::MIN,
                is_sweeping: false,
                is_answered: true,
            };
            memory.cluster.held.insert(lease.shard, held);
            if let Some(owner) = memory.cluster.owners.get_mut(usize::from(lease.shard.0)) {
                *owner = Some(me);
            }
            memory.outbox.events.push(Event::ShardTaken { shard: lease.shard, epoch: lease.epoch });
        }
        memory.outbox.wakes.load = true;
        memory.outbox.wakes.plan = true;
        memory.outbox.wakes.tend = true;
        // What was left for the shards while they had no holder.
        memory.inbox.has_arrivals = true;
        is_takeover && !memory.executors.natives.is_empty()
    }

    /// Gives shards back to nodes that should have them, and tells them: until they ask, no node acts for these shards.
    async fn hand_over(&self, shards: Vec<ShardId>) -> Result<(), StoreError> {
        self.give_back(shards).await?;
        let others = self.memory().other_nodes();
        for node in others {
            self.ports.peers.tell(node, Hint::Vacated);
        }
        Ok(())
    }

    /// Gives shards back: first memory ceases, then what is on its way is written down, then the store is told.
    async fn give_back(&self, shards: Vec<ShardId>) -> Result<(), StoreError> {
        let (me, leases, notes) = {
            let mut memory = self.memory();
            let leases: Vec<Lease> = shards.into_iter().filter_map(|shard| memory.lease(shard)).collect();
            let notes = memory.notes(&leases, Timestamp::MAX);
            memory.leave(leases.iter().map(|lease| lease.shard));
            memory.cluster.gave_back_at = Some(self.boot());
            for lease in &leases {
                if let Some(owner) = memory.cluster.owners.get_mut(usize::from(lease.shard.0)) {
                    *owner = None;
                }
            }
            (memory.cluster.id, leases, notes)
        };
        if !notes.is_empty() {
            // If this fails the shards are not released: they expire, and their mark says what is in doubt.
            self.ports.store.gate(notes).await?;
        }
        // Nothing is in doubt: whatever was sent has its gate.
        self.ports.store.release(me, leases, Timestamp::MIN).await
    }
}

/// The checkpoint to tell, if it is worth telling. The store keeps it behind what was born since it last moved, and so
/// behind what this node cannot know of; a sweep has to look there before it moves again.
fn next_checkpoint(held: &Held, place: Mark) -> Option<Mark> {
    let place = place.min(Mark { due: held.swept, id: 0 });
    let moved = place.due.as_millis().saturating_sub(held.checkpoint.due.as_millis());
    (held.is_adopted && place < held.loaded && moved > CHECKPOINT_STEP_MS).then_some(place)
}

fn just_after(instant: Timestamp) -> Timestamp {
    instant.saturating_add(Duration::from_millis(1))
}

fn told(stepped: Stepped) -> Event {
    let millis = |by: Duration| i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Event::ClockStepped {
        millis: match stepped {
            Stepped::Forward(by) => millis(by),
            Stepped::Back(by) => -millis(by),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_answered_slowly_asks_for_longer_until_that_is_over() {
        let (settings, mut slowness) = (Settings::default(), Slowness::default());
        let seconds = Duration::from_secs;
        slowness.note(Duration::from_millis(900));
        assert_eq!(slowness.term(&settings), seconds(4), "what is quick enough changes nothing");
        slowness.note(seconds(3));
        assert_eq!(slowness.term(&settings), seconds(9));
        slowness.note(seconds(30));
        assert_eq!(slowness.term(&settings), seconds(12), "there is an end to patience");
        let calm = (0..40).position(|_| {
            slowness.note(Duration::from_millis(5));
            slowness.term(&settings) == seconds(4)
        });
        assert!(calm.is_some_and(|renewals| (5..30).contains(&renewals)), "{calm:?}");
    }
}

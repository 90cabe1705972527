//! Firing: due runs leave the wheel, their jobs are asked, and the runs are admitted, written down where they must be,
//! and sent.
//!
//! The order of effects in a round: runs that need no gate are marked as in flight and handed to dispatch at once, so
//! that no write holds them up; then skips and deferrals are written; then gates. A gated run is looked at once more
//! after the store has answered, and only then marked and handed over.

mod calendars;
mod decide;
mod gate;
mod pick;
mod seek;
mod split;
mod surplus;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{JobId, PAYLOAD_MAX, Payload, RunId, StoppedReason, Text};
use rustc_hash::FxHashMap;

use crate::Node;
use crate::memory::{Memory, RunLocation};
use crate::ports::{Address, Boot, Dispatched, Gate, Kill, Probe, StoreError};
use crate::settings::{Planted, Settings};
use crate::step::Ended;
use calendars::Answers;
use pick::Picked;

/// The reason of a run whose place a newer run took.
const COVERED: &str = "a newer run took its place";

/// Poll interval while the store is down.
const ALONE_EVERY: Duration = Duration::from_millis(10);

/// In how many looks at memory runs are picked while the store is down: each asks at least as many jobs as all before.
const LOOKS_ALONE: usize = 8;

/// Whether a step can ask the store.
#[derive(Clone, Copy)]
enum Help<'a> {
    Store,
    /// It cannot. Only runs whose jobs are known to want them go.
    None(&'a Answers),
}

/// What was decided about the runs in hand.
#[derive(Default)]
struct Decision {
    sends: Vec<Dispatched>,
    /// The latest due time of the sends that go without a gate.
    ungated_through: Option<Timestamp>,
    ends: Vec<Ended>,
    gates: Vec<Gate>,
    /// Broadcast runs, and the executors that get a part of each.
    splits: Vec<(Gate, Vec<Address>)>,
    probes: Vec<Probe>,
    kills: Vec<Kill>,
    /// Broadcast runs whose place a newer run takes.
    covered: Vec<RunId>,
    /// Jobs whose rows hold what cannot be sent, and why.
    poisoned: Vec<(JobId, Text)>,
}

/// One look at memory: everything in it is decided at the same moment, under the lock.
struct Turn<'a> {
    memory: &'a mut Memory,
    settings: &'a Settings,
    prepared: &'a Prepared,
    boot: Boot,
    now: Timestamp,
    /// Random.
    bits: u64,
    decision: Decision,
}

/// The payloads of the runs in hand.
type Payloads = FxHashMap<RunId, Payload>;

/// What is found out about the runs in hand before anything is decided.
#[derive(Default)]
struct Prepared {
    payloads: Payloads,
    answers: Answers,
}

impl Node {
    /// Starts what is due: asks its job, admits it, writes its gate, sends it.
    pub async fn fire(&self) -> Boot {
        let boot = self.boot();
        if boot < self.memory().agenda.paused_until {
            return self.fire_alone();
        }
        let Picked { mut runs, mut is_full, unsorted, .. } = self.pick(Help::Store);
        let mut fired = self.sort_jobs(&unsorted).await;
        if fired.is_ok() {
            if !unsorted.is_empty() {
                let more = self.pick(Help::Store);
                is_full |= more.is_full || !more.unsorted.is_empty();
                runs.extend(more.runs);
            }
            fired = self.fire_picked(&runs).await;
        }
        if let Err(error) = &fired {
            self.lost_or_paused("fire", error);
            self.put_back(&runs);
        }
        let wants = {
            let mut memory = self.memory();
            if fired.is_ok() {
                memory.agenda.failing.worked("fire");
            }
            memory.wants(boot)
        };
        if !wants.is_empty() {
            self.ports.dispatch.want(wants);
        }
        let has_more = {
            let mut memory = self.memory();
            // What waits for a report waits for the settling step, and that one lets sends go first.
            let is_awaited = std::mem::take(&mut memory.inbox.is_awaited);
            let has_more = is_full && fired.is_ok() && !is_awaited;
            memory.note_more_due(has_more);
            has_more
        };
        if has_more {
            // A task that writes to executors may be waiting for this thread, so there is no next round in this one.
            return self.boot();
        }
        let (next, next_want) = (self.next_moment(), self.memory().next_want());
        next_want.map_or(next, |want| want.min(next))
    }

    /// While the store is away, loaded runs that need nothing from it are sent, as long as our lease lasts.
    fn fire_alone(&self) -> Boot {
        let (picked, prepared) = self.pick_alone();
        let Decision { sends, ungated_through, .. } = self.decide(&picked, &prepared);
        self.send(sends, ungated_through);
        // A run that turned out to need the store at the last moment waits for it.
        self.put_back(&picked);
        let soon = self.boot().plus(ALONE_EVERY);
        self.memory().agenda.paused_until.min(soon)
    }

    /// Picks runs that need nothing from the store, and asks their jobs between two looks at memory.
    fn pick_alone(&self) -> (Vec<RunId>, Prepared) {
        let (mut picked, mut prepared) = (Vec::new(), Prepared::default());
        for _ in 0..LOOKS_ALONE {
            let Picked { runs, is_full, unasked, .. } = self.pick(Help::None(&prepared.answers));
            picked.extend(runs);
            if is_full || unasked.is_empty() {
                break;
            }
            prepared.answers.extend(self.ask_calendars(unasked.into_iter()));
        }
        (picked, prepared)
    }

    async fn fire_picked(&self, picked: &[RunId]) -> Result<(), StoreError> {
        if picked.is_empty() && !self.is_clogged() {
            return Ok(());
        }
        let mut prepared = self.prepare(picked).await?;
        let Decision { sends, ungated_through, mut ends, gates, splits, probes, kills, covered, poisoned } =
            self.decide(picked, &prepared);
        self.send(sends, ungated_through);
        ends.extend(self.take_surplus());
        if !ends.is_empty() {
            self.write_ends(ends).await?;
        }
        if !probes.is_empty() {
            self.ports.dispatch.probe(probes);
        }
        if !kills.is_empty() {
            self.kill(kills);
        }
        for whole in covered {
            self.end_whole(whole, Text::Borrowed(COVERED)).await?;
        }
        if !gates.is_empty() {
            self.go_through(gates, &mut prepared).await?;
        }
        if !splits.is_empty() {
            self.split(splits).await?;
        }
        for (job, reason) in poisoned {
            self.stop_because(job, StoppedReason::Quarantined(reason)).await?;
        }
        Ok(())
    }

    /// Hands attempts over, after the fired mark says how far they reach.
    fn send(&self, sends: Vec<Dispatched>, ungated_through: Option<Timestamp>) {
        if let Some(due) = ungated_through {
            let is_late = self.memory().has_planted(Planted::MarkAfterSend);
            let due = if is_late { Timestamp::from_millis(due.as_millis() - 1_000) } else { due };
            self.ports.fired.reach(due);
        }
        if !sends.is_empty() {
            self.ports.dispatch.send(sends);
        }
    }

    fn is_clogged(&self) -> bool {
        let boot = self.boot();
        let memory = self.memory();
        memory.trusted_now(boot).is_some_and(|now| memory.is_clogged(&self.settings, now))
    }

    /// Makes sure that the jobs are known, fetches payloads, and asks calendars.
    async fn prepare(&self, picked: &[RunId]) -> Result<Prepared, StoreError> {
        let (jobs, with_payload) = {
            let memory = self.memory();
            let of = |id: &RunId| memory.loaded.runs.get(id);
            let jobs: Vec<_> = picked.iter().filter_map(|id| of(id).map(|run| run.job)).collect();
            let brings = |id: &&RunId| of(id).is_some_and(|run| run.flags.has_payload);
            (jobs, picked.iter().filter(brings).copied().collect::<Vec<_>>())
        };
        self.know_jobs(jobs).await?;
        self.know_pasts_of_picked(picked).await?;
        let mut payloads = self.payloads_of_parts(picked).await?;
        let with_payload = self.memory().take_ahead(with_payload, &mut payloads);
        if !with_payload.is_empty() {
            let rows = self.ports.store.fetch(&with_payload).await?;
            payloads.extend(rows.into_iter().filter_map(|row| Some((row.waiting.run, row.payload?))));
        }
        let answers = self.ask_calendars(picked.iter().copied());
        Ok(Prepared { payloads, answers })
    }

    /// Parts have the payload of their whole.
    async fn payloads_of_parts(&self, picked: &[RunId]) -> Result<Payloads, StoreError> {
        self.know_parts(picked).await?;
        let wholes: BTreeMap<RunId, RunId> = {
            let memory = self.memory();
            picked.iter().filter_map(|id| Some((*id, memory.loaded.parts.get(*id)?.whole))).collect()
        };
        if wholes.is_empty() {
            return Ok(Payloads::default());
        }
        let ids: Vec<RunId> = wholes.values().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let rows = self.ports.store.fetch(&ids).await?;
        let brought: Payloads =
            rows.into_iter().filter_map(|row| Some((row.waiting.run, row.payload?))).collect();
        let of = |(part, whole): (RunId, RunId)| Some((part, brought.get(&whole)?.clone()));
        Ok(wholes.into_iter().filter_map(of).collect())
    }

    /// Runs in hand that were not dealt with are due as before.
    fn put_back(&self, picked: &[RunId]) {
        let mut memory = self.memory();
        for id in picked {
            if memory.in_hand(*id).is_some() {
                memory.move_to(*id, RunLocation::Ready);
            }
        }
    }
}

/// Why a payload cannot be sent. The desk takes no payload like that, but a row can hold anything.
fn too_long(payload: &Payload) -> Option<Text> {
    let said = || format!("a payload of {} bytes: at most {PAYLOAD_MAX} are sent", payload.len()).into();
    (payload.len() > PAYLOAD_MAX).then(said)
}

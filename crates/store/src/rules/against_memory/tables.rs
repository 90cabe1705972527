//! Tables as plain maps: every verb loads a unit of work from them, decides by the rules, and writes the differences back,
//! as a database does.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::cluster::home;
use punctual_core::model::{
    Attempt, AttemptRecord, ChangeId, Close, Definition, JobId, JobState, LogId, NewRun, Part, RunId,
    Settlement, ShardId, Text,
};
use punctual_node::ports::{
    Accepted, ArrivalKind, Bucket, Change, Changed, Counts, Gate, Gated, Lease, Plan, Planned, PlannedTo,
    Settled, Split, StoreError,
};

use super::{KEY_TTL, SHARDS};
use crate::memory::{Dump, GateDump, JobDump, RunDump, WaitDump};
use crate::rules::change::{self, JobBefore};
use crate::rules::{
    GateOwner, GateVerdict, JoinRow, KeyOwner, LockedClock, LockedRun, SettleVerdict, UnitOfWork, WaitRow,
};

/// Whether counts are read with everything else, or added up by the statement that writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    Read,
    AddedUp,
}

pub(super) struct Tables {
    counting: Counting,
    leases: Vec<Lease>,
    jobs: BTreeMap<JobId, (JobState, Definition)>,
    clocks: BTreeMap<JobId, LockedClock>,
    counts: BTreeMap<JobId, Counts>,
    runs: BTreeMap<RunId, NewRun>,
    closes: BTreeMap<RunId, (Close, Option<Attempt>)>,
    attempts: BTreeMap<(RunId, Attempt), AttemptRecord>,
    sends: BTreeMap<(RunId, Attempt), (Gate, LogId)>,
    waiting: BTreeMap<RunId, WaitRow>,
    flights: BTreeSet<RunId>,
    parts: BTreeMap<RunId, Part>,
    joins: BTreeMap<RunId, JoinRow>,
    keys: BTreeMap<(JobId, Text), KeyOwner>,
    holds: BTreeMap<(Text, u32), RunId>,
    arrivals: Vec<(ShardId, ArrivalKind)>,
    changes: Vec<JobId>,
    /// Runs and closes of each day.
    days: BTreeMap<u32, (i64, i64)>,
    last_log: u64,
}

impl Tables {
    pub(super) fn new(counting: Counting, leases: Vec<Lease>) -> Tables {
        Tables {
            counting,
            leases,
            jobs: BTreeMap::new(),
            clocks: BTreeMap::new(),
            counts: BTreeMap::new(),
            runs: BTreeMap::new(),
            closes: BTreeMap::new(),
            attempts: BTreeMap::new(),
            sends: BTreeMap::new(),
            waiting: BTreeMap::new(),
            flights: BTreeSet::new(),
            parts: BTreeMap::new(),
            joins: BTreeMap::new(),
            keys: BTreeMap::new(),
            holds: BTreeMap::new(),
            arrivals: Vec::new(),
            changes: Vec::new(),
            days: BTreeMap::new(),
            last_log: 0,
        }
    }

    pub(super) fn accept(
        &mut self,
        now: Timestamp,
        runs: &[NewRun],
        left: &[(ShardId, ArrivalKind)],
    ) -> Result<Vec<Accepted>, StoreError> {
        let mut unit = self.load(now);
        let accepted = unit.accept(runs, left)?;
        self.write(&unit);
        Ok(accepted)
    }

    pub(super) fn plan(&mut self, now: Timestamp, plans: &[Plan]) -> Vec<Planned> {
        let mut unit = self.load(now);
        let planned = plans.iter().map(|plan| unit.plan(plan)).collect();
        self.write(&unit);
        planned
    }

    pub(super) fn gate(&mut self, now: Timestamp, gates: &[Gate]) -> Vec<Gated> {
        let mut unit = self.load(now);
        let verdicts: Vec<GateVerdict> = gates.iter().map(|gate| unit.gate(gate)).collect();
        let logs = self.write(&unit);
        verdicts.into_iter().map(|verdict| verdict.answer(&logs)).collect()
    }

    pub(super) fn split(&mut self, now: Timestamp, splits: &[Split]) -> Vec<Gated> {
        let mut unit = self.load(now);
        let verdicts: Vec<GateVerdict> = splits.iter().map(|split| unit.split(split)).collect();
        let logs = self.write(&unit);
        verdicts.into_iter().map(|verdict| verdict.answer(&logs)).collect()
    }

    pub(super) fn settle(&mut self, now: Timestamp, settlements: &[Settlement]) -> Vec<Settled> {
        let mut unit = self.load(now);
        let verdicts: Vec<SettleVerdict> = settlements.iter().map(|one| unit.settle(one)).collect();
        let before = self.counts.clone();
        self.write(&unit);
        let failures = |job| match self.counting {
            Counting::Read => 0,
            Counting::AddedUp => before.get(&job).map_or(0, |counts| counts.consecutive_failures),
        };
        verdicts.into_iter().map(|verdict| verdict.answer(failures)).collect()
    }

    pub(super) fn change(&mut self, now: Timestamp, change: &Change) -> Result<Changed, StoreError> {
        change::check_definition(change)?;
        let mut unit = self.load(now);
        let (id, version) = match change.job {
            None => (JobId(self.jobs.len() as u32 + 1), 1),
            Some((id, expected)) => (id, change::next_version(id, expected, change, self.before(id))?),
        };
        let owner = change.definition.as_ref().and_then(|definition| self.owner_of_name(definition));
        change::check_name(change, owner)?;
        let there = self.jobs.get(&id).map(|(_, definition)| definition.clone());
        let earlier = there.iter().flat_map(|definition| &definition.after).map(|parent| parent.job);
        unit.change(id, change, change::parents(change, earlier));
        self.write(&unit);
        let definition = change.definition.clone().or(there).expect("checked above");
        self.jobs.insert(id, (change.state.clone(), definition));
        let decided = self.clocks.get(&id).map_or(change.at, |clock| clock.decided.max(change.at));
        let clock = LockedClock {
            shard: home(id, SHARDS),
            version,
            next_fire: change.clock.next_fire,
            is_enabled: change.state.is_enabled(),
            decided,
            reserved: self.clocks.get(&id).map_or(PlannedTo::default().reserved, |clock| clock.reserved),
            definition: None,
        };
        self.clocks.insert(id, clock);
        Ok(Changed { job: id, version, change: ChangeId(self.changes.len() as u64) })
    }

    fn before(&self, id: JobId) -> Option<JobBefore> {
        let (state, _) = self.jobs.get(&id)?;
        let clock = &self.clocks[&id];
        let planned = PlannedTo { decided: clock.decided, reserved: clock.reserved };
        let before = JobBefore { version: clock.version, clock: Some((clock.next_fire, planned)) };
        (*state != JobState::Deleted).then_some(before)
    }

    fn owner_of_name(&self, definition: &Definition) -> Option<JobId> {
        let has_name = |(state, there): &(JobState, Definition)| {
            *state != JobState::Deleted && there.app == definition.app && there.name == definition.name
        };
        self.jobs.iter().find(|(_, job)| has_name(job)).map(|(id, _)| *id)
    }

    // --- reading and writing ---

    fn load<'v>(&self, now: Timestamp) -> UnitOfWork<'v> {
        let mut unit = UnitOfWork {
            now,
            key_ttl: KEY_TTL,
            shards: SHARDS,
            current: self.leases.iter().copied().collect(),
            runs: self.runs.keys().map(|id| (*id, self.locked(*id))).collect(),
            keys: self.keys.clone(),
            holds: self.holds.clone(),
            clocks: self.clocks.clone(),
            joins: self.joins.clone(),
            ..UnitOfWork::default()
        };
        for run in self.runs.values().filter(|run| run.is_named()) {
            unit.named.insert((run.fire_time, run.job), run.id);
        }
        for (job, clock) in &mut unit.clocks {
            clock.definition = Some(self.jobs[job].1.clone());
        }
        if self.counting == Counting::Read {
            unit.counts = self.counts.clone();
        }
        unit
    }

    fn locked(&self, id: RunId) -> LockedRun {
        let new = &self.runs[&id];
        let mut run = LockedRun::open(new.job, new.shard, new.due, new.key.clone());
        let sends = self.sends.range((id, Attempt(0))..=(id, Attempt(u32::MAX)));
        run.progress
            .gates
            .extend(sends.map(|((_, at), (gate, log))| (*at, GateOwner::Sent(gate.token, Some(*log)))));
        if let Some((_, unsent)) = self.closes.get(&id) {
            run.progress.is_closed = true;
            run.progress.gates.extend(unsent.map(|attempt| (attempt, GateOwner::Unsent)));
        }
        run.progress.wait = self.waiting.get(&id).copied();
        run.was_waiting = run.progress.wait.is_some();
        run.was_flying = self.flights.contains(&id);
        let places = self.holds.iter().filter(|(_, holder)| **holder == id);
        run.progress.holds = places.map(|((resource, _), _)| resource.clone()).collect();
        run
    }

    /// Writes the differences; the numbers of the gates that were written.
    fn write(&mut self, unit: &UnitOfWork<'_>) -> BTreeMap<(RunId, Attempt), LogId> {
        let writes = &unit.writes;
        for run in &writes.runs {
            assert!(self.runs.insert(run.id, (*run).clone()).is_none(), "a run is written once");
        }
        self.parts.extend(writes.parts.iter().map(|(run, _, part)| (*run, (*part).clone())));
        for row in &writes.closes {
            let before = self.closes.insert(row.run, (row.close.clone(), row.unsent));
            assert!(before.is_none(), "a run is closed once");
            self.attempts.extend(row.attempt.map(|record| ((row.run, record.number), record.clone())));
        }
        self.attempts.extend(writes.attempts.iter().map(|(key, record)| (*key, (*record).clone())));
        let mut logs = BTreeMap::new();
        for gate in &writes.sends {
            self.last_log += 1;
            logs.insert((gate.run, gate.attempt), LogId(self.last_log));
            let before = self.sends.insert((gate.run, gate.attempt), ((*gate).clone(), LogId(self.last_log)));
            assert!(before.is_none(), "a gate is written once");
        }
        for id in &writes.touched {
            let run = &unit.runs[id];
            match (run.was_flying, run.progress.is_flying()) {
                (false, true) => assert!(self.flights.insert(*id)),
                (true, false) => assert!(self.flights.remove(id)),
                _ => {}
            }
            match run.progress.wait {
                Some(wait) => drop(self.waiting.insert(*id, wait)),
                None if run.was_waiting => drop(self.waiting.remove(id)),
                None => {}
            }
        }
        self.holds.retain(|_, holder| !writes.freed.contains(holder));
        for (resource, slot, run) in &writes.holds {
            let before = self.holds.insert((resource.clone(), *slot), *run);
            assert!(before.is_none(), "a place is taken once");
        }
        for (key, before) in &writes.keys {
            assert_eq!(self.keys.insert(key.clone(), unit.keys[key]), *before);
        }
        self.write_jobs(unit);
        for (day, more) in &writes.days {
            let (runs, closed) = self.days.entry(*day).or_default();
            *runs += more.runs;
            *closed += more.closed;
        }
        self.joins.extend(writes.joins.iter().map(|whole| (*whole, unit.joins[whole])));
        for left in &writes.arrivals {
            if !self.arrivals.contains(left) {
                self.arrivals.push(*left);
            }
        }
        self.changes.extend(&writes.changes);
        logs
    }

    fn write_jobs(&mut self, unit: &UnitOfWork<'_>) {
        for job in &unit.writes.clocks {
            self.clocks.insert(*job, LockedClock { definition: None, ..unit.clocks[job].clone() });
        }
        for (job, reason) in &unit.writes.stops {
            self.jobs.get_mut(job).expect("it has a clock").0 = JobState::Stopped(reason.clone());
        }
        for (job, was_read) in &unit.writes.counts {
            let (there, new) = (self.counts.entry(*job).or_default(), unit.counts[job].clone());
            match (self.counting, was_read) {
                (Counting::AddedUp, _) => *there = sum(there, new),
                (Counting::Read, _) => *there = new,
            }
        }
    }

    // --- looking at everything ---

    pub(super) fn compare(&self, dump: &Dump, days: &[Bucket]) {
        let runs: Vec<RunDump> = self.runs.values().map(|run| self.dump_run(run)).collect();
        assert_eq!(runs, dump.runs);
        let flying = dump.runs.iter().filter(|run| run.close.is_none() && !run.gates.is_empty());
        assert_eq!(self.flights, flying.map(|run| run.run.id).collect());
        let holds: Vec<_> = self.holds.iter().map(|((one, slot), run)| (one.clone(), *slot, *run)).collect();
        assert_eq!(holds, dump.holds);
        let keys = self.keys.iter().map(|((job, key), (run, until))| (*job, key.clone(), *run, *until));
        assert_eq!(keys.collect::<Vec<_>>(), dump.keys);
        assert_eq!(self.jobs.keys().map(|id| self.dump_job(*id)).collect::<Vec<_>>(), dump.jobs);
        let left = dump.arrivals.iter().map(|arrival| (arrival.shard, arrival.kind));
        assert_eq!(self.arrivals, left.collect::<Vec<_>>());
        assert_eq!(self.changes, dump.changes.iter().map(|(_, job)| *job).collect::<Vec<_>>());
        let counted = days.iter().map(|day| (day.day, (day.runs as i64, day.closed as i64)));
        assert_eq!(self.days, counted.collect());
    }

    fn dump_job(&self, id: JobId) -> JobDump {
        let ((state, definition), clock) = (&self.jobs[&id], &self.clocks[&id]);
        JobDump {
            id,
            version: clock.version,
            shard: clock.shard,
            next_fire: clock.next_fire,
            planned: PlannedTo { decided: clock.decided, reserved: clock.reserved },
            state: state.clone(),
            definition: definition.clone(),
            counts: self.counts.get(&id).cloned().unwrap_or_default(),
        }
    }

    fn dump_run(&self, run: &NewRun) -> RunDump {
        let all = (run.id, Attempt(0))..=(run.id, Attempt(u32::MAX));
        let gate = |(_, (gate, log)): (&(RunId, Attempt), &(Gate, LogId))| GateDump {
            attempt: gate.attempt,
            token: gate.token,
            log: *log,
            sent_at: gate.sent_at,
            executor: gate.executor.clone(),
        };
        let close = self.closes.get(&run.id);
        let wait = self.waiting.get(&run.id);
        RunDump {
            run: run.clone(),
            close: close.map(|(close, _)| close.clone()),
            wait: wait.map(|wait| WaitDump { ready_at: wait.ready_at, attempt: wait.attempt }),
            gates: self.sends.range(all.clone()).map(gate).collect(),
            unsent: close.into_iter().filter_map(|(_, unsent)| *unsent).collect(),
            attempts: self.attempts.range(all).map(|(_, record)| record.clone()).collect(),
            part: self.parts.get(&run.id).cloned(),
            join: self.joins.get(&run.id).map(|row| row.join),
        }
    }
}

/// What a database adds up when it writes counts that it has not read.
fn sum(there: &Counts, more: Counts) -> Counts {
    let earlier = if more.last_success.is_some() { 0 } else { there.consecutive_failures };
    Counts {
        succeeded: there.succeeded + more.succeeded,
        failed: there.failed + more.failed,
        not_run: there.not_run + more.not_run,
        consecutive_failures: earlier + more.consecutive_failures,
        last_outcome: more.last_outcome.or(there.last_outcome),
        last_success: more.last_success.or(there.last_success),
    }
}

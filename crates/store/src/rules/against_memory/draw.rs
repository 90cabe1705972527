//! Verbs as small numbers, and what the numbers stand for when their turn comes: mostly rows that exist then.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use proptest::prelude::*;
use punctual_core::cluster::home;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Child, Close, Decided, Definition, Delivery, Epoch, Executor,
    Fence, FlowControl, Hold, JobId, JobState, NewRun, Origin, Outcome, Overrides, Part, RunId, Schedule,
    ScheduleKind, Settlement, ShardId, StoppedReason, Target, Then, Token, When,
};
use punctual_core::policy::{Block, Misfire, Retry};
use punctual_node::ports::{ArrivalKind, Change, ClockEdit, ClockRow, Gate, Lease, Plan, PlannedTo, Split};

use super::{BEGIN_MS, SHARDS, stale};
use crate::memory::{Dump, JobDump, RunDump};

const JOBS: u8 = 4;

/// A kind of verb, and numbers for each element of its batch.
pub(super) type Drawn = (u8, Vec<[u8; 12]>);

pub(super) enum Verb {
    Pass(Duration),
    Accept(Vec<NewRun>, Vec<(ShardId, ArrivalKind)>),
    Plan(Vec<Plan>),
    Gate(Vec<Gate>),
    Split(Vec<Split>),
    Settle(Vec<Settlement>),
    Change(Box<Change>),
}

pub(super) fn verb() -> impl Strategy<Value = Drawn> {
    (0..20_u8, prop::collection::vec(any::<[u8; 12]>(), 1..4))
}

/// Gives meaning to numbers.
pub(super) struct Meaning {
    leases: Vec<Lease>,
    /// The last number that a run was given.
    last: u64,
    now: Timestamp,
}

impl Meaning {
    pub(super) fn new(leases: Vec<Lease>) -> Meaning {
        Meaning { leases, last: 0, now: Timestamp::from_millis(BEGIN_MS) }
    }

    pub(super) fn of(&mut self, (kind, batch): Drawn, now: Timestamp, dump: &Dump) -> Verb {
        self.now = now;
        match kind {
            0 => Verb::Pass(Duration::from_secs([1, 2, 5, 60][usize::from(batch[0][0] % 4)])),
            1..=3 => {
                let left = batch.iter().filter(|one| one[8] < 64).map(|one| left(dump, one)).collect();
                Verb::Accept(batch.iter().map(|one| self.accepted(dump, one)).collect(), left)
            }
            4..=6 => Verb::Plan(batch.iter().map(|one| self.plan(dump, one)).collect()),
            7..=10 => Verb::Gate(batch.iter().map(|one| self.gate(dump, one)).collect()),
            11 => Verb::Split(batch.iter().map(|one| self.split(dump, one)).collect()),
            12..=16 => Verb::Settle(self.ends(dump, &batch)),
            _ => Verb::Change(Box::new(self.change(dump, &batch[0]))),
        }
    }

    fn run(&mut self, origin: Origin, job: JobId, fire_time: Timestamp, due: Timestamp) -> NewRun {
        self.last += 1;
        let id = RunId::new(NewRun::birth_day(origin, fire_time, due), self.last);
        let overrides =
            self.last.is_multiple_of(3).then(|| Arc::new(Overrides::read("timeout=7 executor=e")));
        NewRun { due, origin, overrides, ..NewRun::one_shot(id, job, home(job, SHARDS), fire_time) }
    }

    fn accepted(&mut self, dump: &Dump, one: &[u8; 12]) -> NewRun {
        if let Some(there) = pick(&dump.runs, one[0]).filter(|_| one[1] < 25) {
            return there.run.clone();
        }
        let (origin, fire_time) = (Origin::ALL[usize::from(one[2]) % Origin::ALL.len()], at(one[3]));
        let run = self.run(origin, job_id(one[4]), fire_time, at(one[5]).max(fire_time));
        let key = ["a", "b"].get(usize::from(one[6] % 4)).map(|key| (*key).into());
        NewRun { shard: ShardId(u16::from(one[7]) % (SHARDS + 1)), key, ..run }
    }

    fn passed(&mut self, job: JobId, number: u8) -> Option<(NewRun, Close)> {
        let instant = (number < 64).then(|| at(number))?;
        let run = self.run(Origin::Schedule, job, instant, instant);
        let range = Some((instant.saturating_add(Duration::from_secs(9)), 10));
        let decided = if number.is_multiple_of(2) { run.decided } else { Decided::PassedOver };
        Some((NewRun { decided, ..run }, Close { range, ..self.close(Outcome::Skipped) }))
    }

    fn close(&self, outcome: Outcome) -> Close {
        Close { outcome, reason: outcome.name().into(), closed_at: self.now, range: None }
    }

    fn plan(&mut self, dump: &Dump, one: &[u8; 12]) -> Plan {
        let id = job_id(one[0]);
        let job = find(dump, id);
        let shard = home(id, SHARDS);
        let next_fire = job.and_then(|job| job.next_fire).unwrap_or(at(0));
        let version = job.map_or(1, |job| job.version);
        let planned = job.map_or_else(PlannedTo::default, |job| job.planned);
        let clock = ClockRow { job: id, shard, next_fire, version, planned };
        let lease = self.leases[usize::from(shard.0)];
        let runs = (3..3 + usize::from(one[2] % 4)).map(|number| at(one[number]));
        let runs: Vec<Timestamp> = runs.collect();
        Plan {
            lease: if one[1] < 15 { stale(lease) } else { lease },
            clock: match one[1] {
                15..30 => ClockRow { version: version + 1, ..clock },
                30..45 => ClockRow { next_fire: at(6), ..clock },
                _ => clock,
            },
            next: (one[7] > 60).then(|| at(one[7])),
            runs: runs.into_iter().map(|instant| self.run(Origin::Schedule, id, instant, instant)).collect(),
            skipped: self.passed(id, one[8]),
            decided_to: self.now,
            stop: match one[9] {
                0..15 => Some(StoppedReason::Finished),
                15..30 => Some(StoppedReason::Quarantined("poison".into())),
                _ => None,
            },
        }
    }

    fn gate(&self, dump: &Dump, one: &[u8; 12]) -> Gate {
        let run = pick(&dump.runs, one[0]);
        let (attempt, epoch) = (attempt(one[1]), Epoch(u64::from(one[2] % 2) + 1));
        let place = |resource: &'static str, slots| {
            let takes_turns = resource == "b";
            Hold { resource: resource.into(), slots, takes_turns }
        };
        Gate {
            lease: Lease { shard: ShardId(0), epoch },
            run: run.map_or(RunId(3), |run| run.run.id),
            job: run.map_or(JobId(1), |run| run.run.job),
            attempt,
            token: Token::new(epoch, attempt),
            executor: format!("executor {epoch}").into(),
            sent_at: self.now,
            holds: match one[3] % 4 {
                0 => vec![place("a", 2), place("b", 1)],
                1 => vec![place("b", 1), place("b", 1)],
                2 => vec![place("a", 2)],
                _ => Vec::new(),
            },
        }
    }

    fn split(&mut self, dump: &Dump, one: &[u8; 12]) -> Split {
        let gate = self.gate(dump, one);
        let total = u32::from(one[4] % 4);
        let parts = (0..total).map(|index| {
            let run = self.run(Origin::Part, gate.job, self.now, at(one[5]));
            let part = Part { index, total, address: format!("address {index}").into() };
            (NewRun { of: Some(gate.run), ..run }, part)
        });
        Split { parts: parts.collect(), gate }
    }

    /// Some settle a child that an earlier element of the batch begins.
    fn ends(&mut self, dump: &Dump, batch: &[[u8; 12]]) -> Vec<Settlement> {
        let mut ends: Vec<Settlement> = Vec::new();
        for one in batch {
            let mut end = self.end(dump, one);
            if let Some(child) = ends.last().and_then(|last| last.children.first()).filter(|_| one[11] < 128)
            {
                let fence = Fence::Unsent(Attempt::FIRST);
                end = Settlement { run: child.id, job: child.job, fence, part_of: None, ..end };
            }
            ends.push(end);
        }
        ends
    }

    fn end(&mut self, dump: &Dump, one: &[u8; 12]) -> Settlement {
        let dumped = pick(&dump.runs, one[0]);
        let run = dumped.map(|run| &run.run);
        let part_of = match one[1] {
            // Of another run, or a part that ends as if it were none.
            0..25 => pick(&dump.runs, one[1]).map(|run| run.run.id),
            25..50 => None,
            _ => dumped.filter(|run| run.part.is_some()).and_then(|run| run.run.of),
        };
        let (id, job) = run.map_or((RunId(3), JobId(1)), |run| (run.id, run.job));
        let version = find(dump, job).map_or(1, |job| job.version);
        let (is_sent, attempt) = (one[2] < 160, attempt(one[3]));
        let gate = dumped.and_then(|run: &RunDump| run.gates.iter().find(|gate| gate.attempt == attempt));
        let token = match one[4] {
            0..25 => Token::new(Epoch(9), attempt),
            _ => gate.map_or(Token::new(Epoch(1), attempt), |gate| gate.token),
        };
        let next = if is_sent { attempt.next() } else { attempt };
        let then = match one[5] % 12 {
            number @ 0..=4 => Then::Close(self.close(Outcome::ALL[usize::from(number)])),
            5..=7 => Then::Wait { ready_at: at(one[6]), attempt: next },
            8..=10 => Then::Park { attempt: next, version },
            _ => Then::Park { attempt: next, version: version + 1 },
        };
        let record = AttemptRecord {
            number: attempt,
            token,
            executor: "executor 1".into(),
            started_at: at(one[6]),
            ended_at: self.now,
            outcome: AttemptOutcome::ALL[usize::from(one[5]) % AttemptOutcome::ALL.len()],
            message: "so it said".into(),
            possible_duplicate: one[6].is_multiple_of(2),
        };
        let child = (one[7] < 64).then(|| self.run(Origin::Parent, job_id(one[7]), self.now, at(one[8])));
        let children = child.map(|child| NewRun { of: Some(id), ..child }).into_iter().collect();
        let reserved = find(dump, job).map(|job| job.planned.reserved);
        Settlement {
            run: id,
            job,
            shard: run.map_or(ShardId(0), |run| run.shard),
            is_foreign: one[9] < 64,
            fence: if is_sent { Fence::Sent(attempt, token) } else { Fence::Unsent(attempt) },
            attempt: is_sent.then_some(record),
            then,
            children,
            named: match one[10] {
                0..100 => reserved,
                100..150 => run.map(|run| run.fire_time),
                _ => None,
            },
            part_of,
        }
    }

    fn change(&mut self, dump: &Dump, one: &[u8; 12]) -> Change {
        let is_new = dump.jobs.len() < usize::from(JOBS) && one[0] < 100;
        let id = if is_new { JobId(dump.jobs.len() as u32 + 1) } else { job_id(one[1]) };
        let there = find(dump, id);
        let (version, expected) = there.map_or((1, None), |job| (job.version, job.next_fire));
        let planned = there.map_or_else(PlannedTo::default, |job| job.planned);
        let job = (!is_new).then_some((id, if one[2] < 15 { version + 1 } else { version }));
        let state = match one[3] % 8 {
            0 => JobState::Stopped(StoppedReason::Asked),
            1 => JobState::Deleted,
            _ => JobState::Enabled,
        };
        let passed = job.and_then(|(id, _)| self.passed(id, one[6]));
        Change {
            job,
            definition: (one[4] > 40).then(|| definition(id, one)),
            state,
            clock: ClockEdit {
                expected: if (15..30).contains(&one[2]) { Some(at(0)) } else { expected },
                planned,
                next_fire: (one[5] > 60).then(|| at(one[5])),
                passed: passed.into_iter().collect(),
            },
            by: "anna".into(),
            at: self.now,
        }
    }
}

fn left(dump: &Dump, one: &[u8; 12]) -> (ShardId, ArrivalKind) {
    let run = pick(&dump.runs, one[9]).map_or(RunId(3), |run| run.run.id);
    let kind = match one[10] % 3 {
        0 => ArrivalKind::Run(run),
        1 => ArrivalKind::Cancel(run),
        _ => ArrivalKind::Reschedule(run, at(one[11])),
    };
    (ShardId(u16::from(one[7]) % SHARDS), kind)
}

/// One of few instants, on three days.
fn at(number: u8) -> Timestamp {
    const SECONDS: [i64; 7] = [-90_000, -1, 0, 1, 2, 60, 86_400];
    Timestamp::from_millis(BEGIN_MS + SECONDS[usize::from(number) % SECONDS.len()] * 1_000)
}

fn attempt(number: u8) -> Attempt {
    Attempt([1, 1, 1, 2, 3][usize::from(number) % 5])
}

fn job_id(number: u8) -> JobId {
    JobId(u32::from(number % (JOBS + 1)) + 1)
}

fn find(dump: &Dump, id: JobId) -> Option<&JobDump> {
    dump.jobs.iter().find(|job| job.id == id)
}

/// The last number stands for a row that does not exist.
fn pick<T>(rows: &[T], number: u8) -> Option<&T> {
    let is_there = number < u8::MAX && !rows.is_empty();
    is_there.then(|| &rows[rows.len() - 1 - usize::from(number) % rows.len()])
}

/// A job comes after jobs with lower numbers only, so that no circle is closed.
fn definition(id: JobId, one: &[u8; 12]) -> Definition {
    let when = When::ALL[usize::from(one[8]) % When::ALL.len()];
    let parents = (1..id.0).filter(|parent| one[9] >> parent & 1 == 1);
    Definition {
        app: ["shop", "mail"][usize::from(one[7] % 2)].into(),
        name: format!("job {}", one[7] % 4),
        description: String::new(),
        tags: Vec::new(),
        schedule: Schedule::from(match one[10] % 3 {
            0 => ScheduleKind::Manual,
            _ => ScheduleKind::Delay { delay: Duration::from_secs(1) },
        }),
        target: Target::Executor(Executor::of("work")),
        misfire: Misfire::default(),
        retry: Retry::default(),
        timeout: Duration::from_secs(30),
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: Vec::new(),
        after: parents.map(|parent| Child { job: JobId(parent), when }).collect(),
        failure_limit: 0,
        flow: FlowControl::default(),
    }
}

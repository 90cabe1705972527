//! What is there when clients begin, what they then ask, and the record of it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{Either, join_all, select};
use punctual_core::cluster::home;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Close, Decided, Epoch, Fence, Hold, JobId, JobState, NewRun,
    NodeId, Origin, Outcome, RunId, Settlement, ShardId, StoppedReason, Text, Then, Token,
};
use punctual_node::ports::{
    ArrivalKind, Change, ClockEdit, ClockRow, Gate, Lease, Plan, PlannedTo, StoreError,
};

use super::verb::{Verb, renewal};
use super::{SHARDS, second};
use crate::suite::{Whole, definition};

/// Draws small numbers from one seed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    fn bits(&mut self) -> u64 {
        // SplitMix64: enough to draw with, and the same everywhere.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What is there when clients begin: two nodes that share the shards, two jobs that are due, three open runs, and numbers for
/// more.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) jobs: Vec<JobId>,
    /// One of each shard, in their order.
    pub(crate) leases: Vec<Lease>,
    /// The first number that nobody has.
    first: u64,
}

/// How many numbers are kept for runs that clients write.
const NUMBERS: u64 = 64;

/// How many runs there are at first.
const RUNS: u64 = 3;

const NODES: [NodeId; 2] = [NodeId(1), NodeId(2)];

/// When both jobs fire next.
const NEXT_FIRE: i64 = 60;

impl Scene {
    /// Sets it in a store that is empty.
    pub(crate) async fn set(store: &dyn Whole) -> Scene {
        let mut leases = Vec::new();
        for (node, shards) in NODES.into_iter().zip([[0, 1], [2, 3]]) {
            store.renew(renewal(node)).await.unwrap();
            let taken = store.acquire(node, shards.map(ShardId).to_vec()).await.unwrap();
            leases.extend(taken.iter().map(|taken| taken.lease));
        }
        leases.sort_unstable();
        let mut jobs = Vec::new();
        for name in ["one", "two"] {
            let clock = ClockEdit {
                expected: None,
                planned: PlannedTo::default(),
                next_fire: Some(second(NEXT_FIRE)),
                passed: vec![],
            };
            let change = Change {
                job: None,
                definition: Some(definition(name)),
                state: JobState::Enabled,
                clock,
                by: "anna".into(),
                at: second(0),
            };
            jobs.push(store.change(change).await.unwrap().job);
        }
        let first = store.allot(RunId::day_of(second(0)), NUMBERS).await.unwrap();
        let scene = Scene { jobs, leases, first };
        let runs = (0..RUNS).map(|number| scene.run(number, scene.job_of(number))).collect();
        store.accept(runs, Vec::new()).await.unwrap();
        scene
    }

    fn job_of(&self, number: u64) -> JobId {
        self.jobs[number as usize % self.jobs.len()]
    }

    fn id(&self, number: u64) -> RunId {
        RunId::new(RunId::day_of(second(0)), self.first + number)
    }

    fn run(&self, number: u64, job: JobId) -> NewRun {
        NewRun {
            id: self.id(number),
            job,
            shard: ShardId(number as u16 % SHARDS),
            fire_time: second(number as i64),
            due: second(number as i64),
            origin: Origin::OneShot,
            decided: Decided::NotYet,
            priority: 5,
            payload: None,
            key: None,
            of: None,
            overrides: None,
        }
    }

    // --- what is drawn ---

    /// A verb; `number` is that of a run that no other verb writes.
    fn verb(&self, draw: &mut Draw, number: u64) -> Verb {
        match draw.below(20) {
            0..4 => self.accept(draw, number),
            4..7 => Verb::Plan(self.plan(draw, number)),
            7..11 => Verb::Gate(self.gate(draw)),
            11..15 => Verb::Settle(self.settlement(draw)),
            15 => Verb::Change(Box::new(self.stop(draw))),
            16 => match draw.below(3) {
                0 => Verb::Renew(draw.one(&NODES)),
                1 => Verb::Acquire(draw.one(&NODES), vec![ShardId(draw.below(u64::from(SHARDS)) as u16)]),
                _ => Verb::Release(draw.one(&NODES), vec![draw.one(&self.leases)]),
            },
            17 => Verb::Acquire(draw.one(&NODES), (0..SHARDS).map(ShardId).collect()),
            18 => Verb::Load(self.leases[..2].to_vec()),
            _ => Verb::Adopt(self.leases[2..].to_vec()),
        }
    }

    /// One or two runs: new ones, some with a key that others have too, or one that another may be writing at this moment; or
    /// a wish that a run ends.
    fn accept(&self, draw: &mut Draw, number: u64) -> Verb {
        let key: Option<Text> = draw.is(60).then(|| draw.one(&["a".into(), "b".into()]));
        let own = NewRun { key, ..self.run(number, self.jobs[0]) };
        let shared = self.run(NUMBERS - 1 - draw.below(2), self.jobs[0]);
        let named = NewRun {
            origin: Origin::Backfill,
            fire_time: second(NEXT_FIRE),
            due: second(NEXT_FIRE),
            ..self.run(number, draw.one(&self.jobs))
        };
        let wish = (ShardId(0), ArrivalKind::Cancel(self.id(draw.below(RUNS))));
        match draw.below(5) {
            0 => Verb::Accept(vec![own, shared], vec![]),
            1 => Verb::Accept(vec![shared], vec![wish]),
            2 => Verb::Accept(vec![named], vec![]),
            3 => Verb::Accept(vec![], vec![wish]),
            _ => Verb::Accept(vec![own], vec![]),
        }
    }

    /// Moves the clock of a job on from where it was at first.
    fn plan(&self, draw: &mut Draw, number: u64) -> Plan {
        let job = draw.one(&self.jobs);
        let shard = home(job, SHARDS);
        let fire_time = second(NEXT_FIRE);
        let run =
            NewRun { origin: Origin::Schedule, shard, fire_time, due: fire_time, ..self.run(number, job) };
        Plan {
            lease: self.leases[usize::from(shard.0)],
            clock: ClockRow { job, shard, next_fire: fire_time, version: 1, planned: PlannedTo::default() },
            next: Some(second(NEXT_FIRE * 2)),
            runs: vec![run],
            skipped: None,
            decided_to: second(0),
            stop: draw.is(10).then_some(StoppedReason::Finished),
        }
    }

    fn gate(&self, draw: &mut Draw) -> Gate {
        let number = draw.below(RUNS);
        let (attempt, epoch) = (Attempt(1 + draw.below(2) as u32), Epoch(1 + draw.below(2)));
        let hold = |slots| Hold { resource: "printer".into(), slots, takes_turns: false };
        Gate {
            lease: Lease { shard: ShardId(0), epoch },
            run: self.id(number),
            job: self.job_of(number),
            attempt,
            token: Token::new(epoch, attempt),
            executor: format!("executor {epoch}").into(),
            sent_at: second(0),
            holds: if draw.is(40) { vec![hold(1)] } else { vec![] },
        }
    }

    /// How a run goes on, or ends, sent or not.
    fn settlement(&self, draw: &mut Draw) -> Settlement {
        let number = draw.below(RUNS);
        let attempt = Attempt(1 + draw.below(2) as u32);
        let token = Token::new(Epoch(1), attempt);
        let is_sent = draw.is(50);
        let outcome = draw.one(&[Outcome::Succeeded, Outcome::Failed, Outcome::Cancelled]);
        let record = AttemptRecord {
            number: attempt,
            token,
            executor: "executor 1".into(),
            started_at: second(0),
            ended_at: second(1),
            outcome: AttemptOutcome::Failed,
            message: "so it said".into(),
            possible_duplicate: false,
        };
        let close = Close { outcome, reason: outcome.name().into(), closed_at: second(1), range: None };
        let next = if is_sent { attempt.next() } else { attempt };
        let then = match draw.below(4) {
            0 => Then::Wait { ready_at: second(5), attempt: next },
            1 => Then::Park { attempt: next, version: 1 },
            _ => Then::Close(close),
        };
        Settlement {
            run: self.id(number),
            job: self.job_of(number),
            shard: ShardId(number as u16 % SHARDS),
            is_foreign: draw.is(30),
            fence: if is_sent { Fence::Sent(attempt, token) } else { Fence::Unsent(attempt) },
            attempt: is_sent.then_some(record),
            then,
            children: Vec::new(),
            named: None,
            part_of: None,
        }
    }

    fn stop(&self, draw: &mut Draw) -> Change {
        let fire = Some(second(NEXT_FIRE));
        Change {
            job: Some((draw.one(&self.jobs), 1)),
            definition: None,
            state: JobState::Stopped(StoppedReason::Asked),
            clock: ClockEdit {
                expected: fire,
                planned: PlannedTo::default(),
                next_fire: fire,
                passed: vec![],
            },
            by: "berta".into(),
            at: second(0),
        }
    }
}

/// A verb that was asked, and when: before everything that was asked after it was answered.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) verb: Verb,
    /// None if nobody knows what became of it.
    pub(crate) answer: Option<String>,
    pub(crate) asked: u64,
    pub(crate) answered: u64,
}

/// What clients asked and were answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) events: Vec<Event>,
}

impl History {
    /// Lets clients ask side by side, each one thing after the other, until all are through; then looks at everything. The
    /// killer is at work as long as they are.
    pub(crate) async fn record(
        scene: &Scene,
        draw: &mut Draw,
        stores: &[&dyn Whole],
        killer: impl Future<Output = ()>,
    ) -> History {
        let moments = AtomicU64::new(0);
        let mut number = RUNS;
        let mut clients = Vec::new();
        for store in &stores[..2 + draw.below(2) as usize] {
            let mut verbs = Vec::new();
            for _ in 0..3 + draw.below(3) {
                verbs.push(scene.verb(draw, number));
                number += 1;
            }
            clients.push(client(scene, *store, verbs, &moments));
        }
        let events = match select(std::pin::pin!(join_all(clients)), std::pin::pin!(killer)).await {
            Either::Left((events, _)) => events,
            Either::Right(_) => unreachable!("a killer does not end"),
        };
        let mut events: Vec<Event> = events.into_iter().flatten().collect();
        // Some of its connections may be those that were killed.
        let look = async || loop {
            match ask(scene, stores[0], Verb::Look, &moments).await {
                None | Some(Event { answer: None, .. }) => {}
                Some(event) => return event,
            }
        };
        events.push(look().await);
        History { events }
    }

    pub(crate) fn is_all_known(&self) -> bool {
        self.events.iter().all(|event| event.answer.is_some())
    }
}

async fn client(scene: &Scene, store: &dyn Whole, verbs: Vec<Verb>, moments: &AtomicU64) -> Vec<Event> {
    let mut events = Vec::new();
    for verb in verbs {
        events.extend(ask(scene, store, verb, moments).await);
    }
    events
}

/// What happened; nothing at all if the store says so, and then no order may need it.
async fn ask(scene: &Scene, store: &dyn Whole, verb: Verb, moments: &AtomicU64) -> Option<Event> {
    let asked = moments.fetch_add(1, Ordering::SeqCst);
    let answer = match verb.ask(store, scene).await {
        Ok(answer) => Some(answer),
        Err(StoreError::Unknown(_)) => None,
        Err(StoreError::Away(_)) => return None,
        Err(error) => panic!("{verb:?}: {error}"),
    };
    Some(Event { verb, answer, asked, answered: moments.fetch_add(1, Ordering::SeqCst) })
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Event { verb, answer, asked, answered } in &self.events {
            writeln!(f, "{asked}-{answered} {verb:?}\n  -> {}", answer.as_deref().unwrap_or("unknown"))?;
        }
        Ok(())
    }
}

//! Memory and another store side by side: every answer of the one must be the answer of the other.
//!
//! A verb is drawn as a few small numbers. What they stand for is decided when its turn comes, from what the memory
//! store holds then: so most verbs speak of things that are there, and some of things that are not.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, ChangeId, Close, Decided, Epoch, Fence, JobId, LogId, NewRun,
    NodeId, Origin, Outcome, Part, RunId, RunState, Settlement, ShardId, StoppedReason, Then, Token,
};
use punctual_core::registry::{Dialect, Secret};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    AppRow, ArrivalKind, AttemptRow, Beat, Browse, Change, ClockEdit, ClockRow, Gate, Gated, JobFilter, Keep,
    KeptAnswer, KeptLog, KillNote, Lease, Paused, Plan, PlannedTo, Renewal, RunFilter, RunView, Split,
    StoreError, TokenRow,
};
use punctual_store::memory::{Dump, JobDump, RunDump};
use punctual_store::{Memory, StoreClock};

use super::values::{
    address_of, app_of, apps_of, at, definition, job_state, key_of, name_of, pick, place, request, shard_ids,
};
use super::verbs::{DrawnEnd, DrawnGate, DrawnKeep, DrawnPlan, DrawnRun, NewJob, Verb, unpark};
use super::{BEGIN_MS, JOBS, KEY_TTL, SHARDS};
use crate::suite::{Open, Whole};

/// Whether a store counts its gates and arrivals as the memory does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Same,
    /// They are left out of the comparison, and looked up where a verb needs them.
    Own,
}

/// Both stores, told the same time.
pub(crate) struct Pair {
    clock: Arc<AtomicI64>,
    memory: Memory,
    other: Option<Arc<dyn Whole>>,
    open: Open,
    numbers: Numbers,
    /// Which life each node is in.
    lives: [u128; 2],
    /// Every lease that was ever given.
    leases: Vec<Lease>,
}

impl Pair {
    pub(crate) async fn new(open: Open, numbers: Numbers) -> Pair {
        let clock = Arc::new(AtomicI64::new(BEGIN_MS));
        let memory = Memory::new(SHARDS, KEY_TTL, told(&clock));
        let mut pair = Pair { clock, memory, other: None, open, numbers, lives: [0, 0], leases: Vec::new() };
        pair.reopen().await;
        pair
    }

    /// Performs the verbs one after the other, and at last compares everything there is.
    pub(crate) async fn play(mut self, verbs: Vec<Verb>) {
        for verb in verbs {
            self.perform(verb).await;
        }
        self.compare_everything().await;
    }

    async fn reopen(&mut self) {
        self.other = None;
        self.other = Some((self.open)(told(&self.clock)).await);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.load(Ordering::SeqCst))
    }

    /// Asks both, and gives their common answer. What an error says is theirs; what it is must be the same.
    async fn same<T: Debug + PartialEq>(
        &self,
        ask: impl AsyncFn(&dyn Whole) -> Result<T, StoreError>,
    ) -> Result<T, &'static str> {
        let expected = ask(&self.memory).await.map_err(|error| kind(&error));
        let other = self.other.as_deref().expect("it is open");
        let found = ask(other).await.map_err(|error| kind(&error));
        assert_eq!(found, expected, "the other store on the left, memory on the right");
        expected
    }

    async fn perform(&mut self, verb: Verb) {
        match verb {
            Verb::Pass(time) => {
                let ms = [1, 1_000, 2_000, 5_000, 60_000, 86_400_000][usize::from(time)];
                self.clock.fetch_add(ms, Ordering::SeqCst);
            }
            Verb::Reopen => self.reopen().await,
            Verb::Reborn { node } => self.lives[usize::from(node)] += 1,
            Verb::Renew { node, term, mark, seen, checkpoint } => {
                let checkpoint = checkpoint.and_then(|(lease, due, id)| {
                    Some((*pick(&self.leases, lease)?, Mark { due: at(due), id: u64::from(id) }))
                });
                let renewal = Renewal {
                    node: self.node(node),
                    term: Duration::from_secs([2, 5, 3_600][usize::from(term)]),
                    mark: at(mark),
                    seen: self.change_id(seen),
                    name: format!("n{node}").into(),
                    address: format!("node {node}").into(),
                    checkpoints: checkpoint.into_iter().collect(),
                };
                let renew = async |store: &dyn Whole| {
                    let mut renewed = store.renew(renewal.clone()).await?;
                    renewed.nodes.sort_by_key(|node| node.node);
                    Ok(renewed)
                };
                let _ = self.same(renew).await;
            }
            Verb::Acquire { node, shards } => {
                let (node, shards) = (self.node(node), shard_ids(shards));
                let taken =
                    self.same(async |store: &dyn Whole| store.acquire(node, shards.clone()).await).await;
                self.leases.extend(taken.iter().flatten().map(|taken| taken.lease));
            }
            Verb::Release { node, leases, mark } => {
                let node = self.node(node);
                let leases: Vec<Lease> =
                    leases.iter().filter_map(|lease| pick(&self.leases, *lease)).copied().collect();
                let release = async |store: &dyn Whole| store.release(node, leases.clone(), at(mark)).await;
                self.same(release).await.unwrap();
            }
            Verb::Create { job } => self.create(job).await,
            Verb::Edit { which, fault, job, keeps, passed } => {
                let change = self.edit(which, fault, job, keeps);
                let passed = self.passed(JobId(u32::from(which) + 1), passed).await;
                let clock = ClockEdit { passed: passed.into_iter().collect(), ..change.clock };
                let change = Change { clock, ..change };
                let _ = self.same(async |store: &dyn Whole| store.change(change.clone()).await).await;
            }
            Verb::Due { shards, until, max } => {
                let leases = self.current(shards, None);
                let due = async |store: &dyn Whole| store.due(&leases, at(until), usize::from(max)).await;
                self.same(due).await.unwrap();
            }
            Verb::Plan(drawn) => {
                let mut plans = Vec::new();
                for plan in drawn {
                    plans.push(self.plan(plan).await);
                }
                self.same(async |store: &dyn Whole| store.plan(plans.clone()).await).await.unwrap();
            }
            Verb::Load { shards, stale, from, until, max } => {
                let leases = self.current(shards, stale);
                let from = from.map_or(START, |(due, run)| {
                    let run = pick(&self.dump().runs, run).map_or(0, |run| run.run.id.0);
                    Mark { due: at(due), id: run }
                });
                let max = if max == 7 { 100 } else { usize::from(max) };
                let load = async |store: &dyn Whole| store.load(&leases, from, at(until), max).await;
                let _ = self.same(load).await;
            }
            Verb::Adopt { shards, stale } => self.adopt(&self.current(shards, stale)).await,
            Verb::Unpark { shard, stale, job, max, at: when } => {
                let unpark = unpark(self.current(1 << shard, stale)[0], (job, max), at(when));
                let _ = self.same(async |store: &dyn Whole| store.unpark(&unpark).await).await;
            }
            Verb::Gate(drawn) => {
                let dump = self.dump();
                let gates: Vec<Gate> = drawn.into_iter().map(|gate| self.gate(&dump, gate)).collect();
                let gate = async |store: &dyn Whole| Ok(self.said(store.gate(gates.clone()).await?));
                self.same(gate).await.unwrap();
            }
            Verb::Split(drawn) => {
                let dump = self.dump();
                let mut splits = Vec::new();
                for (gate, parts) in drawn {
                    splits.push(self.split(self.gate(&dump, gate), &parts).await);
                }
                let split = async |store: &dyn Whole| Ok(self.said(store.split(splits.clone()).await?));
                self.same(split).await.unwrap();
            }
            Verb::Sent(numbers) => {
                let runs: BTreeSet<RunId> = numbers.iter().map(|number| self.run(*number)).collect();
                self.sent(&Vec::from_iter(runs)).await;
            }
            Verb::Settle(drawn) => {
                let dump = self.dump();
                let mut ends = Vec::new();
                for end in drawn {
                    ends.push(self.end(&dump, &end).await);
                }
                self.same(async |store: &dyn Whole| store.settle(ends.clone()).await).await.unwrap();
            }
            Verb::Accept { runs, left } => self.accept(runs, left).await,
            Verb::Arrivals { shards, max } => {
                let leases = self.current(shards, None);
                self.arrivals(&leases, usize::from(max)).await;
            }
            Verb::Consume(which) => {
                let leases = self.current(15, None);
                let consume = async |store: &dyn Whole| {
                    let there = store.arrivals(&leases, 1_000).await?;
                    let id = |which: &u8| pick(&there, *which).map_or(u64::MAX >> 1, |arrival| arrival.id);
                    store.consume(&which.iter().map(id).collect::<Vec<u64>>()).await
                };
                self.same(consume).await.unwrap();
            }
            Verb::InForce(change) => {
                let change = self.change_id(change);
                self.same(async |store: &dyn Whole| store.is_in_force(change).await).await.unwrap();
            }
            Verb::Prune { keep, is_needless } => {
                let mut keep = keep_of(keep);
                if is_needless {
                    let days = self.memory.storage().await.unwrap();
                    keep.needless = days.iter().map(|bucket| (bucket.day, bucket.runs)).collect();
                }
                self.same(async |store: &dyn Whole| store.prune(&keep).await).await.unwrap();
            }
            Verb::Thin { keep, from, is_whole, max } => {
                let (keep, run) = (keep_of(keep), self.run(from));
                let from = if is_whole { RunId::new(run.day(), 0) } else { run };
                let thin =
                    async |store: &dyn Whole| store.thin(&keep, run.day(), from, usize::from(max)).await;
                self.same(thin).await.unwrap();
            }
            Verb::Browse { job, apps, state, from, to, key, limit } => {
                let instant = |number: u8| (number < 8).then(|| at(number));
                let filter = RunFilter {
                    job: (job < JOBS).then(|| JobId(u32::from(job) + 1)),
                    apps: apps_of(apps),
                    state: RunState::ALL.get(usize::from(state)).copied(),
                    from: instant(from),
                    to: instant(to),
                    key: key_of(key).map(str::to_owned),
                };
                self.pages(&filter, usize::from(limit) + 1).await;
            }
            Verb::AddToken { is_first } => {
                let token = self.token();
                let add = async |store: &dyn Whole| match is_first {
                    true => store.add_first_token(token.clone()).await.map(u32::from),
                    false => store.add_token(token.clone()).await,
                };
                self.same(add).await.unwrap();
            }
            Verb::RevokeToken(number) => {
                let tokens = self.dump().tokens;
                let id = pick(&tokens, number).map_or(7, |token| token.id);
                self.same(async |store: &dyn Whole| store.revoke_token(id, None).await).await.unwrap();
            }
            Verb::Begin { key, asked } => {
                let (key, now) = (request(key), self.now());
                let begin = async |store: &dyn Whole| store.begin(key.clone(), [asked; 32], now).await;
                self.same(begin).await.unwrap();
            }
            Verb::Answer { key, is_kept } => {
                let (key, now) = (request(key), self.now());
                let body = format!("answered at {}", now.as_millis());
                let answer = is_kept.then(|| KeptAnswer { status: 200, body: body.into() });
                let answer = async |store: &dyn Whole| store.answer(key.clone(), answer.clone()).await;
                self.same(answer).await.unwrap();
            }
            Verb::ForgetRequests(before) => {
                let forget = async |store: &dyn Whole| store.forget_requests(at(before)).await;
                self.same(forget).await.unwrap();
            }
            Verb::Beat(drawn) => {
                let beat = |(app, address, dialect): &(u8, u8, u8)| Beat {
                    app: app_of(*app).into(),
                    address: address_of(*address).into(),
                    dialect: Dialect::ALL[usize::from(*dialect)],
                };
                let beats: Vec<Beat> = drawn.iter().map(beat).collect();
                self.same(async |store: &dyn Whole| store.beat(beats.clone()).await).await.unwrap();
            }
            Verb::Leave { app, address } => {
                let leave = async |store: &dyn Whole| store.leave(app_of(app), address_of(address)).await;
                self.same(leave).await.unwrap();
            }
            Verb::Bury(dead) => {
                let dead = Duration::from_secs([0, 1, 5, 60][usize::from(dead)]);
                self.same(async |store: &dyn Whole| store.bury(dead).await).await.unwrap();
            }
            Verb::PutApp { app, addresses, expected } => {
                let retention = addresses.map(|last| Duration::from_secs(3_600 + u64::from(last)));
                let addresses = addresses.map(|last| (0..last).map(|n| address_of(n).into()).collect());
                let access_token = Some(Secret::new(&format!("put at {}", self.now().as_millis())));
                let row = AppRow {
                    name: app_of(app).into(),
                    title: "".into(),
                    addresses,
                    access_token,
                    retention,
                    paused: None,
                    version: 0,
                };
                let expected = expected.map(u64::from);
                let _ = self.same(async |store: &dyn Whole| store.put_app(row.clone(), expected).await).await;
            }
            Verb::PauseApp { app, is_paused } => {
                let (since, reason) = (self.now(), "for the model".into());
                let paused = is_paused.then_some(Paused { since, by: "somebody".into(), reason });
                let pause = async |store: &dyn Whole| store.pause_app(app_of(app), paused.clone()).await;
                self.same(pause).await.unwrap();
                self.same(async |store: &dyn Whole| store.app(app_of(app)).await).await.unwrap();
            }
            Verb::RemoveApp(app) => {
                let _ = self.same(async |store: &dyn Whole| store.remove_app(app_of(app)).await).await;
            }
            Verb::KeepLog { run, attempt, lines } => {
                let (run, attempt) = (self.run(run), Attempt(attempt.into()));
                let (text, next_line) = ("line\n".repeat(lines.into()), u64::from(lines) + 1);
                let log = KeptLog { text, next_line, is_complete: lines == 3 };
                let keep = async |store: &dyn Whole| store.keep_log(run, attempt, log.clone()).await;
                self.same(keep).await.unwrap();
            }
            Verb::NoteKill { run, attempt, is_confirmed } => {
                let (run, attempt, at) = (self.run(run), Attempt(attempt.into()), self.now());
                let note = KillNote { attempt, at, is_confirmed, said: "".into() };
                self.same(async |store: &dyn Whole| store.note_kill(run, note.clone()).await).await.unwrap();
            }
        }
    }

    // --- what the numbers stand for ---

    fn token(&self) -> TokenRow {
        TokenRow {
            id: 0,
            name: "token".into(),
            digest: [1; 32],
            role: "reader".into(),
            apps: vec!["shop".into()],
            created_at: self.now(),
            expires_at: None,
        }
    }

    fn dump(&self) -> Dump {
        self.memory.dump()
    }

    fn node(&self, node: u8) -> NodeId {
        NodeId(self.lives[usize::from(node)] * 2 + u128::from(node))
    }

    fn change_id(&self, number: u8) -> ChangeId {
        ChangeId(u64::from(number) % (self.dump().changes.len() as u64 + 2))
    }

    fn run(&self, number: u8) -> RunId {
        pick(&self.dump().runs, number).map_or(RunId(3), |run| run.run.id)
    }

    fn job(&self, number: u8) -> Option<JobDump> {
        self.dump().jobs.get(usize::from(number)).cloned()
    }

    /// The last leases of shards, the first of them replaced by one that may be older.
    fn current(&self, shards: u8, stale: Option<u8>) -> Vec<Lease> {
        let last = |shard| {
            let given = self.leases.iter().rev().find(|lease| lease.shard == shard);
            given.copied().unwrap_or(Lease { shard, epoch: Epoch(0) })
        };
        let mut leases: Vec<Lease> = shard_ids(shards).into_iter().map(last).collect();
        if let (Some(first), Some(stale)) =
            (leases.first_mut(), stale.and_then(|stale| pick(&self.leases, stale)))
        {
            *first = *stale;
        }
        leases
    }

    /// A run with an id of its own.
    async fn new_run(&self, origin: Origin, job: JobId, fire_time: Timestamp, due: Timestamp) -> NewRun {
        let day = NewRun::birth_day(origin, fire_time, due);
        let sequence = self.same(async |store: &dyn Whole| store.allot(day, 1).await).await.unwrap();
        NewRun {
            id: RunId::new(day, sequence),
            job,
            shard: ShardId(job.0 as u16 % SHARDS),
            fire_time,
            due,
            origin,
            decided: Decided::ALL[sequence as usize % Decided::ALL.len()],
            priority: (sequence % 10) as u8,
            payload: [None, Some(""), Some("{}"), Some("!a=1\n{}")][sequence as usize % 4].map(Into::into),
            key: None,
            of: None,
            overrides: super::values::overrides(sequence),
        }
    }

    async fn create(&self, job: NewJob) {
        if self.dump().jobs.len() >= usize::from(JOBS) {
            return;
        }
        let next_fire = job.next_fire.map(at);
        let change = Change {
            job: None,
            definition: Some(definition(&job)),
            state: job_state(job.state),
            clock: ClockEdit { expected: None, planned: PlannedTo::default(), next_fire, passed: vec![] },
            by: "anna".into(),
            at: self.now(),
        };
        let _ = self.same(async |store: &dyn Whole| store.change(change.clone()).await).await;
    }

    fn edit(&self, which: u8, fault: u8, job: NewJob, keeps: bool) -> Change {
        let there = self.job(which);
        let (version, expected) = there.as_ref().map_or((1, None), |job| (job.version, job.next_fire));
        let version = if fault == 0 { version + 1 } else { version };
        let expected = if fault == 1 { Some(at(0)) } else { expected };
        let planned = there.map_or_else(PlannedTo::default, |job| job.planned);
        let next_fire = job.next_fire.map(at);
        Change {
            job: Some((JobId(u32::from(which) + 1), version)),
            definition: (!keeps).then(|| definition(&job)),
            state: job_state(job.state),
            clock: ClockEdit { expected, planned, next_fire, passed: vec![] },
            by: "berta".into(),
            at: self.now(),
        }
    }

    async fn passed(&self, job: JobId, instant: Option<u8>) -> Option<(NewRun, Close)> {
        let instant = at(instant?);
        let run = self.new_run(Origin::Schedule, job, instant, instant).await;
        let range = Some((instant.saturating_add(Duration::from_secs(9)), 10));
        Some((run, Close { range, ..self.close(Outcome::Skipped) }))
    }

    async fn plan(&self, drawn: DrawnPlan) -> Plan {
        let id = JobId(u32::from(drawn.job) + 1);
        let job = self.job(drawn.job);
        let shard = job.as_ref().map_or(ShardId(0), |job| job.shard);
        let next_fire = job.as_ref().and_then(|job| job.next_fire).unwrap_or(at(0));
        let version = job.map_or(1, |job| job.version);
        let planned = PlannedTo::default();
        let clock = match drawn.fault {
            0 => ClockRow { job: id, shard, next_fire, version: version + 1, planned },
            1 => ClockRow { job: id, shard, next_fire: at(7), version, planned },
            _ => ClockRow { job: id, shard, next_fire, version, planned },
        };
        let stale = (drawn.fault == 2).then_some(0);
        let mut runs = Vec::new();
        for instant in drawn.runs.iter().map(|instant| at(*instant)) {
            runs.push(self.new_run(Origin::Schedule, id, instant, instant).await);
        }
        Plan {
            lease: self.current(1 << shard.0, stale)[0],
            clock,
            next: drawn.next.map(at),
            runs,
            skipped: self.passed(id, drawn.skipped).await,
            decided_to: self.now(),
            stop: match drawn.stop {
                0 => Some(StoppedReason::Finished),
                1 => Some(StoppedReason::Quarantined("poison".into())),
                _ => None,
            },
        }
    }

    fn gate(&self, dump: &Dump, (run, attempt, epoch, hold): DrawnGate) -> Gate {
        let run = pick(&dump.runs, run);
        let attempt = Attempt(u32::from(attempt));
        let token = Token::new(Epoch(u64::from(epoch)), attempt);
        Gate {
            lease: Lease { shard: ShardId(0), epoch: Epoch(u64::from(epoch)) },
            run: run.map_or(RunId(3), |run| run.run.id),
            job: run.map_or(JobId(1), |run| run.run.job),
            attempt,
            token,
            executor: format!("executor {}", epoch).into(),
            sent_at: self.now(),
            holds: match hold {
                0 => vec![place("a", 2), place("b", 1)],
                1 => vec![place("b", 1)],
                _ => Vec::new(),
            },
        }
    }

    async fn split(&self, gate: Gate, dues: &[u8]) -> Split {
        let total = dues.len() as u32;
        let mut parts = Vec::new();
        for (index, due) in (0..).zip(dues) {
            let run = self.new_run(Origin::Part, gate.job, self.now(), at(*due)).await;
            let part = Part { index, total, address: format!("address {index}").into() };
            parts.push((NewRun { of: Some(gate.run), ..run }, part));
        }
        Split { gate, parts }
    }

    fn close(&self, outcome: Outcome) -> Close {
        Close { outcome, reason: outcome.name().into(), closed_at: self.now(), range: None }
    }

    async fn end(&self, dump: &Dump, drawn: &DrawnEnd) -> Settlement {
        let dumped = pick(&dump.runs, drawn.run);
        let run = dumped.map(|run| &run.run);
        let part_of = match drawn.whole {
            // Somebody else's, or a part that is ended as if it were none.
            0..5 => pick(&dump.runs, drawn.whole).map(|run| run.run.id),
            5..10 => None,
            _ => dumped.filter(|run| run.part.is_some()).and_then(|run| run.run.of),
        };
        let job = run.map_or(JobId(1), |run| run.job);
        let version = dump.jobs.iter().find(|there| there.id == job).map_or(1, |job| job.version);
        let attempt = Attempt(u32::from(drawn.attempt));
        let gate = dumped.and_then(|run| run.gates.iter().find(|gate| gate.attempt == attempt));
        let token = match drawn.at {
            // Somebody else's.
            1 => Token::new(Epoch(9), attempt),
            _ => gate.map_or(Token::new(Epoch(1), attempt), |gate| gate.token),
        };
        let next = if drawn.is_sent { attempt.next() } else { attempt };
        let then = match drawn.then {
            0..=4 => Then::Close(self.close(Outcome::ALL[usize::from(drawn.then)])),
            5..=7 => Then::Wait { ready_at: at(drawn.at), attempt: next },
            8..=10 => Then::Park { attempt: next, version },
            _ => Then::Park { attempt: next, version: version + 1 },
        };
        let record = AttemptRecord {
            number: attempt,
            token,
            executor: "executor 1".into(),
            started_at: at(drawn.at),
            ended_at: self.now(),
            outcome: AttemptOutcome::ALL[usize::from(drawn.then) % AttemptOutcome::ALL.len()],
            message: "so it said".into(),
            possible_duplicate: drawn.at == 0,
        };
        let id = run.map_or(RunId(3), |run| run.id);
        let mut children = Vec::new();
        if let Some(child) = drawn.child {
            let child =
                self.new_run(Origin::Parent, JobId(u32::from(child) % 5 + 1), self.now(), at(child)).await;
            children.push(NewRun { of: Some(id), ..child });
        }
        Settlement {
            run: id,
            job,
            shard: run.map_or(ShardId(0), |run| run.shard),
            is_foreign: drawn.is_foreign,
            fence: if drawn.is_sent { Fence::Sent(attempt, token) } else { Fence::Unsent(attempt) },
            attempt: drawn.is_sent.then_some(record),
            then,
            children,
            named: drawn.next_fire.map(|next| run.filter(|_| next > 1).map_or(at(next), |run| run.fire_time)),
            part_of,
        }
    }

    async fn accept(&self, drawn: Vec<DrawnRun>, left: Vec<(u8, u8, u8, u8)>) {
        let dump = self.dump();
        let mut runs = Vec::new();
        for (job, shard, instant, late, origin, key, again) in drawn {
            if let Some(RunDump { run, .. }) = again.and_then(|again| pick(&dump.runs, again)) {
                runs.push(run.clone());
                continue;
            }
            let (origin, fire_time) = (Origin::ALL[usize::from(origin)], at(instant));
            let due = fire_time.saturating_add(Duration::from_secs([0, 1, 86_400][usize::from(late)]));
            let run = self.new_run(origin, JobId(u32::from(job) + 1), fire_time, due).await;
            let key = key_of(key).map(Into::into);
            runs.push(NewRun { shard: ShardId(shard.into()), key, ..run });
        }
        let left: Vec<(ShardId, ArrivalKind)> = left
            .iter()
            .map(|(shard, kind, run, instant)| {
                let run = pick(&dump.runs, *run).map_or(RunId(3), |run| run.run.id);
                let kind = match kind {
                    0 => ArrivalKind::Run(run),
                    1 => ArrivalKind::Cancel(run),
                    _ => ArrivalKind::Reschedule(run, at(*instant)),
                };
                (ShardId((*shard).into()), kind)
            })
            .collect();
        let accept = async |store: &dyn Whole| store.accept(runs.clone(), left.clone()).await;
        // A backfill of a day that was dropped is refused, by both.
        let accepted = self.same(accept).await;
        assert!(matches!(accepted, Ok(_) | Err("conflict")), "{accepted:?}");
    }

    // --- looking at everything ---

    async fn adopt(&self, leases: &[Lease]) {
        let adopt = async |store: &dyn Whole| {
            let mut adopted = store.adopt(leases).await?;
            adopted.sends.sort_by_key(|send| send.run.run);
            adopted.sends.iter_mut().for_each(|send| send.log = self.log(send.log));
            adopted.parked.sort_unstable();
            Ok(adopted)
        };
        let _ = self.same(adopt).await;
    }

    /// The gates of runs, and what their numbers say.
    async fn sent(&self, runs: &[RunId]) {
        let sent = async |store: &dyn Whole| {
            let mut gates = Vec::new();
            for run in runs {
                gates.extend(store.sends(*run).await?);
            }
            let logs: BTreeSet<LogId> = gates.iter().map(|gate| gate.log).collect();
            let asked: Vec<LogId> = logs.iter().copied().chain([NO_LOG]).collect();
            let mut rows = store.sent(&asked).await?;
            assert_eq!(rows.len(), logs.len(), "a number is that of one gate");
            rows.sort_by_key(|row| (row.run, row.attempt));
            gates.iter_mut().chain(&mut rows).for_each(|row| row.log = self.log(row.log));
            Ok((gates, rows))
        };
        self.same(sent).await.unwrap();
    }

    async fn arrivals(&self, leases: &[Lease], max: usize) {
        let arrivals = async |store: &dyn Whole| {
            let mut arrivals = store.arrivals(leases, max).await?;
            if self.numbers == Numbers::Own {
                arrivals.iter_mut().for_each(|arrival| arrival.id = 0);
            }
            Ok(arrivals)
        };
        self.same(arrivals).await.unwrap();
    }

    /// A number as far as it is the same everywhere.
    fn log(&self, log: LogId) -> LogId {
        match self.numbers {
            Numbers::Same => log,
            Numbers::Own => LogId(0),
        }
    }

    /// What was said to gates.
    fn said(&self, said: Vec<Gated>) -> Vec<Gated> {
        let shown = |said| match said {
            Gated::Through(log) => Gated::Through(self.log(log)),
            said => said,
        };
        said.into_iter().map(shown).collect()
    }

    /// What people see of a run.
    fn view(&self, view: &mut RunView) {
        for attempt in &mut view.attempts {
            if let AttemptRow::Open { log, .. } = attempt {
                *log = self.log(*log);
            }
        }
    }

    async fn pages(&self, filter: &RunFilter, limit: usize) {
        let mut before = None;
        loop {
            let page = async |store: &dyn Whole| {
                let mut page = store.run_list(filter, before, limit).await?;
                page.items.iter_mut().for_each(|run| self.view(run));
                Ok(page)
            };
            let Some(next) = self.same(page).await.unwrap().next else { break };
            before = Some(next);
        }
    }

    async fn compare_everything(&mut self) {
        for is_reopened in [false, true] {
            if is_reopened {
                self.reopen().await;
            }
            self.compare_jobs().await;
            self.compare_runs().await;
            self.compare_door().await;
            self.same(async |store: &dyn Whole| store.registered().await).await.unwrap();
        }
        self.clock.fetch_add(3_600_000, Ordering::SeqCst);
        self.lives = self.lives.map(|life| life + 1);
        self.perform(Verb::Renew { node: 0, term: 2, mark: 0, seen: 0, checkpoint: None }).await;
        self.perform(Verb::Acquire { node: 0, shards: 15 }).await;
        let leases = self.current(15, None);
        self.same(async |store: &dyn Whole| store.load(&leases, START, Timestamp::MAX, 1_000).await)
            .await
            .unwrap();
        self.adopt(&leases).await;
        self.same(async |store: &dyn Whole| store.due(&leases, Timestamp::MAX, 1_000).await).await.unwrap();
        self.arrivals(&leases, 1_000).await;
        self.same(async |store: &dyn Whole| store.prune(&Keep::since(Timestamp::MAX)).await).await.unwrap();
        self.compare_runs().await;
    }

    async fn compare_jobs(&self) {
        let ids: Vec<JobId> = (1..=u32::from(JOBS) + 1).map(JobId).collect();
        let rows = async |store: &dyn Whole| {
            let mut rows: Vec<_> = store
                .jobs(&ids)
                .await?
                .into_iter()
                .map(|(id, row)| row.map(|row| (id, row)))
                .collect::<Result<_, _>>()?;
            rows.sort_by_key(|(id, _)| *id);
            rows.iter_mut().for_each(|(_, row)| row.children.sort_unstable());
            Ok(rows)
        };
        self.same(rows).await.unwrap();
        for id in ids {
            self.same(async |store: &dyn Whole| store.job(id).await).await.unwrap();
            self.same(async |store: &dyn Whole| store.revisions(id, 0, 99).await).await.unwrap();
            self.same(async |store: &dyn Whole| store.counts(Some(id)).await).await.unwrap();
        }
        for name in 0..JOBS {
            let name = name_of(name);
            self.same(async |store: &dyn Whole| store.job_named("shop", &name).await).await.unwrap();
        }
        for (text, apps) in [(None, 0), (Some("B".to_owned()), 0), (None, 4), (None, 5), (None, 6)] {
            let filter = JobFilter { text, apps: apps_of(apps), ..JobFilter::default() };
            self.same(async |store: &dyn Whole| store.job_list(&filter, None, 3).await).await.unwrap();
        }
        self.same(async |store: &dyn Whole| store.counts(None).await).await.unwrap();
    }

    async fn compare_door(&self) {
        self.same(async |store: &dyn Whole| store.tokens().await).await.unwrap();
        for key in 0..3 {
            let (key, now) = (request(key), self.now());
            // Leaves a request behind where there was none, in both.
            let begin = async |store: &dyn Whole| store.begin(key.clone(), [0; 32], now).await;
            self.same(begin).await.unwrap();
        }
    }

    async fn compare_runs(&self) {
        self.pages(&RunFilter::default(), 7).await;
        let ids: Vec<RunId> = self.dump().runs.iter().map(|run| run.run.id).chain([RunId(3)]).collect();
        let fetch = async |store: &dyn Whole| {
            let mut rows = store.fetch(&ids).await?;
            rows.sort_by_key(|row| row.waiting.run);
            Ok(rows)
        };
        self.same(fetch).await.unwrap();
        for id in &ids {
            let views = async |store: &dyn Whole| {
                let (mut run, mut parts) = (store.run(*id).await?, store.parts(*id).await?);
                run.iter_mut().chain(&mut parts).for_each(|run| self.view(run));
                Ok((run, parts))
            };
            self.same(views).await.unwrap();
            self.same(async |store: &dyn Whole| store.open_parts(*id).await).await.unwrap();
            self.same(async |store: &dyn Whole| store.kills(*id).await).await.unwrap();
            for attempt in (1..4).map(Attempt) {
                self.same(async |store: &dyn Whole| store.log(*id, attempt).await).await.unwrap();
            }
        }
        for job in (1..=6).map(JobId) {
            let open = async |store: &dyn Whole| store.open_runs(job, RunId::default(), 1_000).await;
            self.same(open).await.unwrap();
            let of_job = RunFilter { job: Some(job), ..RunFilter::default() };
            self.pages(&of_job, 3).await;
        }
        self.sent(&ids).await;
        let storage = async |store: &dyn Whole| {
            let mut buckets = store.storage().await?;
            buckets.iter_mut().for_each(|bucket| bucket.bytes = 0);
            Ok(buckets)
        };
        self.same(storage).await.unwrap();
    }
}

/// A number that no gate has.
const NO_LOG: LogId = LogId(u32::MAX as u64);

fn keep_of((before, own): DrawnKeep) -> Keep {
    let own = own.map(|(app, before)| (app_of(app).into(), at(before)));
    Keep { apps: own.into_iter().collect(), ..Keep::since(at(before)) }
}

const START: Mark = Mark { due: Timestamp::MIN, id: 0 };

fn told(clock: &Arc<AtomicI64>) -> StoreClock {
    let clock = Arc::clone(clock);
    Arc::new(move || Timestamp::from_millis(clock.load(Ordering::SeqCst)))
}

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Fenced(_) => "fenced",
        StoreError::Unknown(_) | StoreError::Away(_) => "unknown",
        StoreError::Full(_) => "full",
        StoreError::Conflict(_) => "conflict",
        StoreError::Corrupt { .. } => "corrupt",
    }
}

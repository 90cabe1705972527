//! A history told by hand: a job every minute, a node, and what is said about them. What is told truthfully goes
//! through the memory store; what is claimed, only the checker hears.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use calendar::{Outside, Timestamp, Zones};
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Close, Decided, Definition, Delivery, Epoch, Executor, Fence,
    FlowControl, Http, Job, JobId, JobState, LogId, NewRun, NodeId, Origin, Outcome, Part, RunId, Schedule,
    ScheduleKind, Settlement, ShardId, Skip, Target, Text, Then, Token, WindowSpec,
};
use punctual_core::policy::misfire::Policy;
use punctual_core::policy::{Block, Misfire, Retry, Route};
use punctual_node::ports::{
    Acquired, Address, Change, Changed, ClockEdit, ClockRow, Dispatched, Gate, Lease, Plan, Planned,
    PlannedTo, Renewal, Split,
};
use punctual_store::memory::Memory;

use crate::check::{Begun, Checked, Checker, Moment, Quiet, ReceiptFact, Violation, Who};
use crate::link::{Micros, Reply};
use crate::store::{self, Request, StoreAnswer as Answer};

pub(super) const MINUTE: i64 = 60_000;
/// 2026-08-20T12:00:00Z.
pub(super) const START: i64 = 1_787_227_200_000;
pub(super) const NODE: Who = Who { node: 0, life: 1 };
pub(super) const OTHER: Who = Who { node: 1, life: 2 };

/// Where the executor of the app is.
pub(super) const URL: Text = Text::Borrowed("http://x0");
/// How long an executor is left alone.
pub(super) const DOUBT: i64 = 10_000;
/// How long an executor may take to repeat a report that no node heard.
pub(super) const REPEAT: i64 = 40_000;

/// A history while it is told.
pub(super) struct Story {
    pub(super) checker: Checker,
    store: Memory,
    clock: Arc<AtomicI64>,
    pub(super) job: JobId,
    pub(super) lease: Lease,
    last_run: u64,
}

pub(in crate::check) fn definition() -> Definition {
    let anchor = Timestamp::from_millis(START);
    let every = ScheduleKind::Every { interval: Duration::from_millis(MINUTE as u64), anchor };
    Definition {
        app: "a0".into(),
        name: "j0".into(),
        description: String::new(),
        tags: Vec::new(),
        schedule: Schedule::from(every),
        target: Target::Http(Http::post("http://agent.test/h")),
        misfire: Misfire { policy: Policy::Skip, threshold: Duration::from_secs(5) },
        retry: Retry::default(),
        timeout: Duration::from_secs(30),
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: Vec::new(),
        after: Vec::new(),
        failure_limit: 0,
        flow: FlowControl::default(),
    }
}

pub(super) fn at_most_once() -> Definition {
    Definition { delivery: Delivery::AtMostOnce, ..definition() }
}

/// For executors, of which one is at [`URL`].
pub(super) fn executed() -> Definition {
    Definition { target: Target::Executor(Executor::of("h")), ..definition() }
}

pub(super) fn broadcast() -> Definition {
    let executor = Executor { route: Route::ShardingBroadcast, ..Executor::of("h") };
    Definition { target: Target::Executor(executor), ..definition() }
}

pub(super) fn serial() -> Definition {
    Definition { block: Block::Serial, ..definition() }
}

impl Story {
    /// A job that was created at the start, and a node that holds the one shard.
    pub(super) fn of(definition: Definition) -> Story {
        let clock = Arc::new(AtomicI64::new(START));
        let shown = clock.clone();
        let store = Memory::new(
            1,
            Duration::from_secs(60),
            Arc::new(move || Timestamp::from_millis(shown.load(Ordering::Relaxed))),
        );
        let mut checker = Checker::new();
        checker.submitted.key_ttl_ms = MINUTE;
        checker.executors.doubt_ms = DOUBT;
        checker.executors.away_ms = DOUBT;
        checker.executors.repeat = REPEAT as Micros * 1_000;
        checker.lives_at(&Text::Borrowed("a0"), &URL);
        let lease = Lease { shard: ShardId(0), epoch: Epoch(1) };
        let mut story = Story { checker, store, clock, job: JobId(1), lease, last_run: 0 };
        story.at(START);
        story.tell(story.creation(definition)).unwrap();
        story.join(NODE, NodeId(7));
        story
    }

    pub(super) fn at(&mut self, millis: i64) {
        self.clock.store(millis, Ordering::Relaxed);
        self.checker.sees_time(millis);
    }

    pub(super) fn now(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(super) fn moment(&self) -> Moment {
        Moment { now: (self.now() - START + 1_000_000) as u64 * 1_000, store: self.now() }
    }

    fn begun(&self, by: Who) -> Begun {
        Begun { by, at: self.moment(), node_now: Some(self.now()) }
    }

    /// Something that the store did and said.
    pub(super) fn tell(&mut self, request: Request) -> Checked {
        self.tell_by(NODE, request)
    }

    pub(super) fn tell_by(&mut self, by: Who, request: Request) -> Checked {
        let reply = store::apply(&self.store, request.clone());
        self.hear(by, &request, &reply)
    }

    /// Something that the store is only said to have done.
    pub(super) fn claim(&mut self, request: &Request, answer: Answer) -> Checked {
        self.hear(NODE, request, &Ok(answer))
    }

    fn hear(&mut self, by: Who, request: &Request, reply: &Reply) -> Checked {
        self.checker.applied(self.moment(), self.begun(by), request, reply)
    }

    // --- leases ---

    /// A node says that it is there.
    pub(super) fn renew(&mut self, by: Who, node: NodeId) {
        let renewal = Renewal {
            node,
            term: Duration::from_secs(3_600),
            mark: Timestamp::MAX,
            seen: punctual_core::model::ChangeId(0),
            name: "".into(),
            address: Text::Borrowed(""),
            checkpoints: Vec::new(),
        };
        self.tell_by(by, Request::Renew(renewal)).unwrap();
    }

    /// A node takes the shard.
    pub(super) fn join(&mut self, by: Who, node: NodeId) {
        self.renew(by, node);
        self.tell_by(by, Request::Acquire(node, vec![ShardId(0)])).unwrap();
        let epoch = self.store.dump().shards[0].epoch;
        self.lease = Lease { shard: ShardId(0), epoch };
    }

    /// Another node has the shard from now on.
    pub(super) fn take_over(&mut self) {
        let release = Request::Release(NodeId(7), vec![self.lease], Timestamp::MAX);
        self.tell(release).unwrap();
        self.join(OTHER, NodeId(8));
    }

    pub(super) fn acquired(&self, epoch: u64) -> Answer {
        let lease = Lease { shard: ShardId(0), epoch: Epoch(epoch) };
        let checkpoint = punctual_core::wheel::Mark { due: Timestamp::MIN, id: 0 };
        Answer::Acquire(vec![Acquired { lease, mark: None, checkpoint }])
    }

    // --- jobs ---

    fn creation(&self, definition: Definition) -> Request {
        Request::Change(Box::new(Change {
            job: None,
            definition: Some(definition),
            state: JobState::Enabled,
            clock: ClockEdit {
                expected: None,
                planned: PlannedTo::default(),
                next_fire: Some(Timestamp::from_millis(START + MINUTE)),
                passed: Vec::new(),
            },
            by: Text::Borrowed("test"),
            at: Timestamp::from_millis(self.now()),
        }))
    }

    /// A change of the job to this state, with the clock moved to `next_fire`.
    pub(super) fn change(&self, state: JobState, next_fire: Option<i64>) -> Request {
        let facts = self.checker.job(self.job).unwrap();
        let next_fire = next_fire.map(Timestamp::from_millis);
        Request::Change(Box::new(Change {
            job: Some((self.job, facts.current().version)),
            definition: None,
            state,
            clock: ClockEdit {
                expected: facts.clock.map(Timestamp::from_millis),
                planned: PlannedTo {
                    decided: Timestamp::from_millis(facts.decided),
                    reserved: Timestamp::from_millis(facts.reserved),
                },
                next_fire,
                passed: Vec::new(),
            },
            by: Text::Borrowed("test"),
            at: Timestamp::from_millis(self.now()),
        }))
    }

    pub(super) fn changed(&self, version: u64) -> Answer {
        Answer::Change(Changed { job: self.job, version, change: punctual_core::model::ChangeId(9) })
    }

    // --- runs ---

    pub(super) fn new_run(&mut self, fire_time: i64, origin: Origin) -> NewRun {
        self.last_run += 1;
        let at = Timestamp::from_millis(fire_time);
        NewRun {
            id: RunId::new(RunId::day_of(at), self.last_run),
            job: self.job,
            shard: ShardId(0),
            fire_time: at,
            due: at,
            origin,
            decided: Decided::NotYet,
            priority: 5,
            payload: None,
            key: None,
            of: None,
            overrides: None,
        }
    }

    /// A plan of these instants that moves the clock to `next`.
    pub(super) fn plan(&mut self, instants: &[i64], next: i64) -> Plan {
        let facts = self.checker.job(self.job).unwrap();
        let clock = ClockRow {
            job: self.job,
            shard: ShardId(0),
            next_fire: Timestamp::from_millis(facts.clock.unwrap()),
            version: facts.current().version,
            planned: punctual_node::ports::PlannedTo::default(),
        };
        Plan {
            lease: self.lease,
            clock,
            next: Some(Timestamp::from_millis(next)),
            runs: instants.iter().map(|at| self.new_run(*at, Origin::Schedule)).collect(),
            skipped: None,
            decided_to: Timestamp::from_millis(self.now()),
            stop: None,
        }
    }

    /// Plans the next instant a second before it is due; its run.
    pub(super) fn planned(&mut self) -> RunId {
        let next = self.checker.job(self.job).unwrap().clock.unwrap();
        self.at(next - 1_000);
        let plan = self.plan(&[next], next + MINUTE);
        let run = plan.runs[0].id;
        self.tell(Request::Plan(vec![plan])).unwrap();
        self.at(next);
        run
    }

    pub(super) fn moved(plan: &Plan) -> Answer {
        Answer::Plan(vec![Planned::Moved(plan.runs.iter().map(|run| run.id).collect())])
    }

    /// A record of instants that were passed over.
    pub(super) fn skipped(&mut self, from: i64, until: i64, count: u64) -> (NewRun, Close) {
        let mut run = self.new_run(from, Origin::Schedule);
        run.decided = Decided::PassedOver;
        let closed_at = Timestamp::from_millis(self.now());
        let range = Some((Timestamp::from_millis(until), count));
        let reason = Text::Borrowed(Skip::Misfire.name());
        (run, Close { outcome: Outcome::Skipped, reason, closed_at, range })
    }

    pub(super) fn token(&self, attempt: u32) -> Token {
        Token::new(self.lease.epoch, Attempt(attempt))
    }

    pub(super) fn gate(&self, run: RunId, attempt: u32) -> Request {
        Request::Gate(vec![Gate {
            lease: self.lease,
            run,
            job: self.job,
            attempt: Attempt(attempt),
            token: self.token(attempt),
            executor: Text::Borrowed("e"),
            sent_at: Timestamp::from_millis(self.now()),
            holds: Vec::new(),
        }])
    }

    /// A run falls into `total` parts with its first attempt.
    pub(super) fn split(&mut self, run: RunId, total: u32) -> Split {
        let Request::Gate(gates) = self.gate(run, 1) else { unreachable!("it is a gate") };
        let fire_time = self.checker.run(run).unwrap().fire_time;
        let mut part = |index| {
            let mut new = self.new_run(fire_time, Origin::Part);
            (new.of, new.due) = (Some(run), Timestamp::from_millis(self.now()));
            (new, Part { index, total, address: URL })
        };
        let parts = (0..total).map(&mut part).collect();
        Split { gate: gates[0].clone(), parts }
    }

    /// The same, told; its parts.
    pub(super) fn fall_apart(&mut self, run: RunId, total: u32) -> Vec<RunId> {
        let split = self.split(run, total);
        let parts = split.parts.iter().map(|(part, _)| part.id).collect();
        self.tell(Request::Split(vec![split])).unwrap();
        parts
    }

    /// A part goes through its gate, is sent, and ends like this; what is to be settled.
    pub(super) fn end_part(&mut self, part: RunId, outcome: AttemptOutcome) -> Settlement {
        self.tell(self.gate(part, 1)).unwrap();
        self.send(part, 1).unwrap();
        self.executed(part, 1, outcome);
        let is_good = outcome == AttemptOutcome::Succeeded;
        let closed = if is_good { Outcome::Succeeded } else { Outcome::Failed };
        self.end(part, 1, outcome, self.close(closed, "said"))
    }

    pub(super) fn dispatched(&self, run: RunId, attempt: u32) -> Dispatched {
        let facts = self.checker.run(run).unwrap();
        let version = self.checker.job(facts.job).unwrap().current();
        let (definition, state) = ((*version.definition).clone(), version.state.clone());
        let zones = Zones::bundled();
        let is_for_executors = matches!(definition.target, Target::Executor(_));
        let address = Address {
            url: URL,
            dialect: Default::default(),
            app: "a0".into(),
            access_token: None,
            is_listed: false,
            is_known: true,
        };
        let at = Timestamp::from_millis(START);
        let job =
            Job::compile(facts.job, version.version, at, state, definition, Vec::new(), &zones).unwrap();
        Dispatched {
            run,
            job: Arc::new(job),
            fire_time: Timestamp::from_millis(facts.fire_time),
            attempt: Attempt(attempt),
            token: self.token(attempt),
            log: Some(LogId(1)),
            possible_duplicate: false,
            payload: None,
            timeout: version.definition.timeout,
            origin: facts.origin,
            sent_at: Timestamp::from_millis(self.now()),
            address: is_for_executors.then(|| Arc::new(address)),
            part: None,
        }
    }

    pub(super) fn send(&mut self, run: RunId, attempt: u32) -> Checked {
        let send = self.dispatched(run, attempt);
        self.send_as(NODE, &send)
    }

    pub(super) fn send_as(&mut self, by: Who, send: &Dispatched) -> Checked {
        self.checker.sent(self.moment(), by, Some(self.now()), send)
    }

    /// An executor takes an attempt and says how it ended.
    pub(super) fn executed(&mut self, run: RunId, attempt: u32, outcome: AttemptOutcome) {
        let (attempt, token) = (Attempt(attempt), self.token(attempt));
        let receipt = ReceiptFact {
            executor: 0,
            attempt,
            token,
            is_marked: false,
            checks_tokens: true,
            is_copy: false,
        };
        self.checker.received(run, receipt).unwrap();
        self.checker.said(run, attempt, token, outcome);
    }

    pub(super) fn record(&self, attempt: u32, outcome: AttemptOutcome) -> AttemptRecord {
        AttemptRecord {
            number: Attempt(attempt),
            token: self.token(attempt),
            executor: Text::Borrowed("e"),
            started_at: Timestamp::from_millis(self.now() - 10),
            ended_at: Timestamp::from_millis(self.now()),
            outcome,
            message: Text::Borrowed("said"),
            possible_duplicate: false,
        }
    }

    /// The end of an attempt.
    pub(super) fn end(&self, run: RunId, attempt: u32, outcome: AttemptOutcome, then: Then) -> Settlement {
        let fence = Fence::Sent(Attempt(attempt), self.token(attempt));
        self.settlement(run, fence, Some(self.record(attempt, outcome)), then)
    }

    /// The end of a first attempt that was sent to the executor and given up.
    pub(super) fn lost(&self, run: RunId, sent_at: i64, outcome: AttemptOutcome, then: Then) -> Settlement {
        let mut end = self.end(run, 1, outcome, then);
        let record = end.attempt.as_mut().expect("it has one");
        (record.executor, record.started_at) = (URL, Timestamp::from_millis(sent_at));
        end
    }

    pub(super) fn settlement(
        &self,
        run: RunId,
        fence: Fence,
        attempt: Option<AttemptRecord>,
        then: Then,
    ) -> Settlement {
        let part = self.checker.run(run).and_then(|run| run.part);
        let part_of = part.map(|part| self.checker.runs()[part.whole as usize].id);
        Settlement {
            run,
            job: self.job,
            shard: ShardId(0),
            is_foreign: false,
            fence,
            attempt,
            then,
            children: Vec::new(),
            named: None,
            part_of,
        }
    }

    pub(super) fn close(&self, outcome: Outcome, reason: &'static str) -> Then {
        let closed_at = Timestamp::from_millis(self.now());
        Then::Close(Close { outcome, reason: Text::Borrowed(reason), closed_at, range: None })
    }

    pub(super) fn wait(&self, in_ms: i64, attempt: u32) -> Then {
        Then::Wait { ready_at: Timestamp::from_millis(self.now() + in_ms), attempt: Attempt(attempt) }
    }

    /// A run is sent to its executor, which does not answer for so long that it is taken for lost; when it was sent.
    pub(super) fn lose(&mut self) -> (RunId, i64) {
        let run = self.planned();
        self.tell(self.gate(run, 1)).unwrap();
        self.send(run, 1).unwrap();
        let sent_at = self.now();
        for asked in [DOUBT, 2 * DOUBT] {
            self.at(sent_at + asked);
            self.answer(None);
        }
        let lost = self.lost(run, sent_at, AttemptOutcome::Lost, self.wait(1_100, 2));
        self.settle(lost).unwrap();
        (run, sent_at)
    }

    /// A one-shot of a job with such a window, due at noon, that a person moves by an hour; and it is an hour later.
    pub(super) fn moved_by_an_hour(hours: &str) -> (Story, RunId) {
        let (days, zone) = ("mon-sun".into(), "Etc/UTC".into());
        let window = WindowSpec { days, hours: hours.into(), zone, outside: Outside::Skip };
        let mut story = Story::of(Definition { windows: vec![window], ..definition() });
        let run = story.new_run(START + 10, Origin::OneShot);
        let id = run.id;
        story.tell(Request::Accept(vec![run], vec![])).unwrap();
        let later = START + 60 * MINUTE;
        story.checker.asked_to_wait(id, later);
        let then = Then::Wait { ready_at: Timestamp::from_millis(later), attempt: Attempt(1) };
        story.settle(story.settlement(id, Fence::Unsent(Attempt(1)), None, then)).unwrap();
        story.at(later);
        (story, id)
    }

    /// The node hears whether the executor has a run of the job.
    pub(super) fn answer(&mut self, has: Option<bool>) {
        let (at, asker) = (self.moment().now, (NODE, Some(self.now())));
        self.checker.answered(at, asker, self.job, &URL, has);
    }

    /// What was asked for at this moment is written now.
    pub(super) fn settle_late(&mut self, asked: Moment, settlement: Settlement) -> Checked {
        let request = Request::Settle(vec![settlement]);
        let reply = store::apply(&self.store, request.clone());
        let begun = Begun { by: NODE, at: asked, node_now: Some(asked.store) };
        self.checker.applied(self.moment(), begun, &request, &reply)
    }

    pub(super) fn settle(&mut self, settlement: Settlement) -> Checked {
        self.tell(Request::Settle(vec![settlement]))
    }

    /// A run from its plan to its success.
    pub(super) fn succeed(&mut self) -> RunId {
        let run = self.planned();
        self.tell(self.gate(run, 1)).unwrap();
        self.send(run, 1).unwrap();
        self.executed(run, 1, AttemptOutcome::Succeeded);
        let end = self.end(run, 1, AttemptOutcome::Succeeded, self.close(Outcome::Succeeded, ""));
        self.settle(end).unwrap();
        self.checker.acknowledged(NODE, run, Attempt(1), AttemptOutcome::Succeeded).unwrap();
        run
    }

    /// The end of the history, after which nothing may be left over.
    pub(super) fn finish(&mut self) -> Checked {
        let quiet = Quiet {
            since: Moment::default(),
            healthy: vec![true],
            is_narrow: false,
            moves_at_rest: self.checker.lease_moves(),
            unanswered: 0,
        };
        self.finish_as(&quiet)
    }

    pub(super) fn finish_as(&mut self, quiet: &Quiet) -> Checked {
        self.checker.finish(self.moment(), &self.store.dump(), quiet)
    }
}

/// Expects a promise to be broken, and no other one.
pub(super) fn breaks(rule: &str, checked: Checked) {
    match checked {
        Err(Violation { rule: said, .. }) if said == rule => {}
        other => panic!("expected {rule} to be broken, but {other:?}"),
    }
}

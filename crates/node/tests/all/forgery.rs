//! What executors may speak of: a run's number can be guessed, so nothing that an executor says about other apps, other
//! executors or other attempts changes anything, or tells it anything.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::event::Event;
use punctual_core::model::{
    Attempt, AttemptOutcome, Definition, Epoch, Executor, Http, JobId, LogId, RunId, RunState, ScheduleKind,
    Target, Text, Token,
};
use punctual_core::policy::{Block, Retry, Route};
use punctual_core::registry::Dialect;
#[cfg(feature = "planted")]
use punctual_node::Planted;
use punctual_node::ports::{Beat, Browse, Dispatched, Heard, Receipt, Report, RunView, SessionKey};
use punctual_node::{Callback, Claim, Node, RegistrySettings, SessionId, Settings};

use crate::executors::answer;
use crate::house::{House, definition, every, now_or_never};

const GOOD: &str = "native:good/1";
const TWIN: &str = "native:twin/2";
const EVIL: &str = "native:evil/6";
/// Where an XXL-JOB executor is.
const CALLED: &str = "http://called:9999/";

fn for_executors(app: &str, name: &str, block: Block) -> Definition {
    let target = Target::Executor(Executor { route: Route::Round, ..Executor::of("demo") });
    let retry = Retry { max_attempts: 3, ..Retry::default() };
    Definition { app: app.into(), target, retry, block, ..definition(name, ScheduleKind::Manual) }
}

fn for_agents(app: &str, name: &str) -> Definition {
    let target = Target::Http(Http::post("http://agent.test/work"));
    Definition { app: app.into(), target, ..definition(name, ScheduleKind::Manual) }
}

fn come(node: &Node, app: &str, url: &str, holds: Vec<Claim>) -> (SessionId, Vec<Claim>) {
    now_or_never(node.native_came(app, url, vec![], holds, false)).unwrap()
}

fn beat(node: &Node, app: &str) {
    let app = Text::Owned(app.to_owned());
    now_or_never(node.beat(Beat { app, address: CALLED.into(), dialect: Dialect::Classic })).unwrap();
}

fn leave(node: &Node, app: &str) {
    now_or_never(node.executor_left(app, CALLED)).unwrap();
}

/// Nodes that ask executors soon about what they have.
fn doubting() -> Settings {
    let (doubt, away) = (Duration::from_secs(2), Duration::from_secs(20));
    let registry = RegistrySettings { doubt, away, ..RegistrySettings::default() };
    Settings { registry, ..Settings::default() }
}

fn credit(node: &Node, app: &str, url: &str, more: u32) {
    node.heard(vec![Heard::Credit { of: SessionKey::new(app, url), more }]);
}

fn start(house: &House, node: &Node, job: JobId) -> RunId {
    let run = now_or_never(node.run_now(job, Default::default())).unwrap();
    house.step(node);
    run
}

/// What an executor says about an attempt, whether it was given it or not.
fn said(house: &House, url: &str, app: &str, claim: &Claim) -> Report {
    let send = Report {
        run: claim.run,
        attempt: claim.attempt,
        token: claim.token,
        executor: Text::Owned(url.to_owned()),
        app: Some(Text::Owned(app.to_owned())),
        ..house.blank(AttemptOutcome::Succeeded)
    };
    Report { message: "forged".into(), ..send }
}

fn claim(run: RunId, attempt: u32, token: u64) -> Claim {
    Claim { run, attempt: Attempt(attempt), token: Token(token) }
}

fn overreached(node: &Node) -> usize {
    let count = |event: &Event| match event {
        Event::Overreached { count, .. } => *count,
        _ => 0,
    };
    node.take_events().iter().map(count).sum()
}

/// Every state that a run of another app can be in, by name: the run, the attempt it is at, the token if it is on its way.
fn victims(house: &House, node: &Node) -> BTreeMap<&'static str, (RunId, Attempt, Option<Token>)> {
    let seeking = house.create(node, for_executors("shop", "seeking", Block::default()));
    let http = house.create(node, for_agents("shop", "http"));
    let retried = house.create(node, for_agents("shop", "retried"));
    let later = Definition { app: "shop".into(), ..definition("later", every(3_600)) };
    house.create(node, later);
    let native = house.create(node, for_executors("mall", "native", Block::default()));
    let gated = house.create(node, for_executors("mall", "gated", Block::Serial));
    come(node, "mall", GOOD, vec![]);
    credit(node, "mall", GOOD, 10);
    let mut runs = BTreeMap::new();
    for (name, job) in
        [("seeking", seeking), ("http", http), ("retried", retried), ("native", native), ("gated", gated)]
    {
        let run = start(house, node, job);
        let send = house.take_sends().into_iter().find(|send| send.run == run);
        if name == "retried" {
            house.report(node, send.as_ref().unwrap(), AttemptOutcome::Failed);
        }
        let token = send.filter(|_| name != "retried").map(|send| send.token);
        runs.insert(name, (run, Attempt(if name == "retried" { 2 } else { 1 }), token));
    }
    house.until(&[node], &house.later(Duration::from_millis(250)));
    let pending =
        house.runs().into_iter().find(|run| run.state == RunState::Pending && run.ready_at.is_some());
    runs.extend(pending.map(|run| ("later", (run.id, Attempt(1), None))));
    runs
}

fn views(house: &House) -> BTreeMap<RunId, RunView> {
    house.runs().into_iter().map(|run| (run.id, run)).collect()
}

#[test]
fn what_an_executor_says_about_runs_of_another_app_changes_nothing() {
    let house = House::new();
    let node = house.node();
    let victims = victims(&house, &node);
    assert!(victims.len() >= 5, "{victims:?}");
    let before = views(&house);
    node.take_events();
    let mut told = 0;
    for (name, (run, attempt, token)) in &victims {
        for ahead in [0, 1] {
            let token = token.unwrap_or(Token::new(Epoch(1), *attempt));
            let forged = claim(*run, attempt.0 + ahead, token.0);
            let (_, stale) = come(&node, "evil", EVIL, vec![forged.clone()]);
            assert_eq!(stale, std::slice::from_ref(&forged), "{name} + {ahead}");
            let report = said(&house, EVIL, "evil", &forged);
            let receipt = report.receipt;
            node.report(report);
            now_or_never(node.settle());
            assert!(house.is_acknowledged(receipt), "{name}: it is answered like any late one");
            told += overreached(&node);
        }
    }
    assert_eq!(views(&house), before);
    // Each hello and each report, but for reports of attempts that are ahead of what is known and those that are late.
    assert!(told >= 2 * victims.len(), "{told}");
}

#[test]
fn what_is_open_elsewhere_and_what_was_never_there_are_answered_alike() {
    let house = House::new();
    let node = house.node();
    let victims = victims(&house, &node);
    let real = victims.values().map(|(run, attempt, _)| claim(*run, attempt.0, 7));
    let free = (1..9).map(|number| claim(RunId::new(2_192, 1_000_000 + number), 1, 7));
    let holds: Vec<Claim> = real.chain(free).collect();
    let (_, stale) = come(&node, "evil", EVIL, holds.clone());
    assert_eq!(stale, holds);
}

#[test]
fn an_executor_of_the_same_app_does_not_report_what_another_was_given() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_executors("app", "job", Block::default()));
    come(&node, "app", GOOD, vec![]);
    credit(&node, "app", GOOD, 1);
    start(&house, &node, job);
    let send = house.take_sends().remove(0);
    let its = Claim { run: send.run, attempt: send.attempt, token: send.token };
    assert_eq!(
        come(&node, "app", TWIN, vec![its.clone()]).1,
        std::slice::from_ref(&its),
        "somebody else has it"
    );
    for attempt in [1, 2] {
        node.report(said(&house, TWIN, "app", &Claim { attempt: Attempt(attempt), ..its.clone() }));
        house.step(&node);
        assert_ne!(house.run(send.run).state, RunState::Succeeded, "attempt {attempt}");
    }
    node.report(said(&house, GOOD, "app", &its));
    house.step(&node);
    assert_eq!(house.run(send.run).state, RunState::Succeeded);
}

#[test]
fn nobody_reports_a_run_that_was_not_sent() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_executors("app", "job", Block::default()));
    let run = start(&house, &node, job);
    for holds in [vec![], vec![claim(run, 1, 7)]] {
        // It gives no credit, so the run waits for it.
        come(&node, "app", GOOD, holds);
        for attempt in [1, 2] {
            node.report(said(&house, GOOD, "app", &claim(run, attempt, 7)));
            house.step(&node);
            assert_eq!(house.run(run).attempts, [], "attempt {attempt}");
        }
    }
    credit(&node, "app", GOOD, 1);
    house.step(&node);
    assert_eq!(house.take_sends().len(), 1, "it is sent as if nothing had been said");
}

#[test]
fn progress_counts_only_for_an_attempt_that_is_on_its_way() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_executors("app", "job", Block::default()));
    let run = start(&house, &node, job);
    node.take_events();
    let progress = punctual_node::ports::Progress { run, attempt: Attempt(1), percent: 40, note: "".into() };
    node.heard(vec![Heard::Progress(progress)]);
    assert!(!node.take_events().iter().any(|event| matches!(event, Event::Progress { .. })));
}

// --- reports that wait to be judged ---

#[test]
fn what_another_app_says_of_an_attempt_does_not_keep_it_from_being_given_up() {
    let house = House::new();
    let node = house.node();
    let retry = Retry { max_attempts: 1, ..Retry::default() };
    let job = house.create(&node, Definition { retry, ..for_executors("app", "job", Block::default()) });
    come(&node, "app", GOOD, vec![]);
    come(&node, "evil", EVIL, vec![]);
    credit(&node, "app", GOOD, 1);
    let run = start(&house, &node, job);
    let send = house.take_sends().remove(0);
    house.until(&[&node], "10:00:39.750");
    house.set("10:00:41");
    for attempt in [1, 2] {
        node.report(said(&house, EVIL, "evil", &Claim { attempt: Attempt(attempt), ..held(&send) }));
        node.report(said(&house, TWIN, "app", &Claim { attempt: Attempt(attempt), ..held(&send) }));
    }
    now_or_never(node.reap());
    assert_eq!(house.run(run).state, RunState::Failed, "its time was up");
}

#[test]
fn the_report_of_its_own_executor_keeps_an_attempt_from_being_given_up() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_executors("app", "job", Block::default()));
    come(&node, "app", GOOD, vec![]);
    credit(&node, "app", GOOD, 1);
    let run = start(&house, &node, job);
    let send = house.take_sends().remove(0);
    house.until(&[&node], "10:00:39.750");
    house.set("10:00:41");
    node.report(said(&house, GOOD, "app", &held(&send)));
    now_or_never(node.reap());
    now_or_never(node.settle());
    assert_eq!(house.run(run).state, RunState::Succeeded);
}

#[test]
fn a_flood_of_reports_does_not_delay_those_of_other_apps_or_sessions() {
    let settings = Settings { settle_max: 20, ..Settings::default() };
    let house = House::with(settings);
    let node = house.node();
    let apps = ["shop", "mall"];
    let jobs = apps.map(|app| house.create(&node, for_executors(app, "job", Block::default())));
    for app in apps {
        come(&node, app, GOOD, vec![]);
        credit(&node, app, GOOD, 1);
    }
    let runs = jobs.map(|job| start(&house, &node, job));
    let sends = house.take_sends();
    for number in 0..1_000 {
        let guess = claim(RunId::new(2_192, 900_000 + number), 1, 7);
        node.report(said(&house, EVIL, "evil", &guess));
        // Another session of an app that has something to say.
        node.report(said(&house, TWIN, "mall", &guess));
    }
    for send in &sends {
        let app = send.address.as_ref().unwrap().app.clone();
        node.report(said(&house, GOOD, &app, &held(send)));
    }
    now_or_never(node.settle());
    assert_eq!(states(&house, &runs), [RunState::Succeeded; 2], "in the first round");
    house.step(&node);
}

// --- the same name in two apps ---

#[test]
fn what_another_app_does_at_an_executors_address_casts_no_doubt_on_its_attempts() {
    type Intrusion = (&'static str, fn(&Node, u64));
    let intrusions: [Intrusion; 3] = [
        ("it beats at other times", |node, second| {
            if second % 30 == 11 {
                beat(node, "evil");
            }
        }),
        ("it comes and leaves", |node, second| match second % 10 {
            3 => beat(node, "evil"),
            6 => leave(node, "evil"),
            _ => {}
        }),
        ("it comes and dies", |node, second| {
            if second == 12 {
                beat(node, "evil");
            }
        }),
    ];
    for (name, intrude) in intrusions {
        let house = House::with(doubting());
        let node = house.node();
        let timeout = Duration::from_secs(3_600);
        let job =
            house.create(&node, Definition { timeout, ..for_executors("shop", "job", Block::default()) });
        beat(&node, "shop");
        house.until(&[&node], "10:00:05");
        let run = start(&house, &node, job);
        for second in 1..150 {
            if second % 30 == 0 {
                beat(&node, "shop");
            }
            intrude(&node, second);
            house.until(&[&node], &house.later(Duration::from_secs(1)));
            // Like many executors it always says that it is idle, so it is not believed unless it was away.
            answer(&house, &node, |_| Some(false));
        }
        assert_eq!((house.take_sends().len(), house.run(run).attempts.len()), (1, 1), "{name}");
    }
}

fn held(send: &Dispatched) -> Claim {
    Claim { run: send.run, attempt: send.attempt, token: send.token }
}

fn states(house: &House, runs: &[RunId]) -> Vec<RunState> {
    runs.iter().map(|run| house.run(*run).state).collect()
}

#[test]
fn executors_of_two_apps_with_the_same_name_do_not_see_each_other() {
    let house = House::new();
    let node = house.node();
    let jobs = ["app", "evil"].map(|app| house.create(&node, for_executors(app, "job", Block::default())));
    let (good, _) = come(&node, "app", GOOD, vec![]);
    let (evil, _) = come(&node, "evil", GOOD, vec![]);
    credit(&node, "evil", GOOD, 5);
    let run = start(&house, &node, jobs[0]);
    assert_eq!(house.take_sends().len(), 0, "only the other app's executor takes more");
    credit(&node, "app", GOOD, 1);
    house.step(&node);
    let send = house.take_sends().remove(0);
    assert_eq!((send.run, &*send.address.as_ref().unwrap().app), (run, "app"));
    // The other one neither has it, nor reports it, nor loses it.
    assert_eq!(come(&node, "evil", GOOD, vec![held(&send)]).1, [held(&send)]);
    node.report(said(&house, GOOD, "evil", &held(&send)));
    now_or_never(node.native_went("evil", GOOD, evil, true)).unwrap();
    house.until(&[&node], &house.later(Duration::from_secs(10)));
    assert_eq!(states(&house, &[run]), [RunState::Running]);
    // And when the app's own executor goes, its run is not handed to the other one.
    come(&node, "evil", GOOD, vec![]);
    credit(&node, "evil", GOOD, 5);
    now_or_never(node.native_went("app", GOOD, good, true)).unwrap();
    house.until(&[&node], &house.later(Duration::from_secs(10)));
    assert_eq!(house.take_sends().len(), 0);
    assert_eq!(overreached(&node), 2, "the claim and the report");
}

#[test]
fn a_node_that_an_app_has_no_session_with_sends_its_runs_to_nobody_of_the_same_name() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:05");
    assert!(first.shards_held() > 0 && second.shards_held() > 0);
    let job = house.create(&first, for_executors("shop", "job", Block::default()));
    come(&first, "shop", GOOD, vec![]);
    credit(&first, "shop", GOOD, 1_000);
    // Its registration is in the store, so the second node knows that it is there, and where.
    house.until(&[&first, &second], "10:00:12");
    come(&second, "evil", GOOD, vec![]);
    credit(&second, "evil", GOOD, 1_000);
    for _ in 0..20 {
        now_or_never(first.run_now(job, Default::default())).unwrap();
    }
    house.take_sends();
    house.step(&second);
    house.until(&[&second], &house.later(Duration::from_secs(1)));
    assert_eq!(house.take_sends().len(), 0, "what it sends now would go to the other app's executor");
    house.step(&first);
    assert!(!house.take_sends().is_empty());
}

#[test]
fn after_a_restart_whoever_comes_first_under_a_name_gets_only_what_is_of_its_app() {
    let house = House::new();
    let job = {
        let node = house.node();
        let job = house.create(&node, for_executors("shop", "job", Block::Serial));
        let free = house.create(&node, for_executors("shop", "free", Block::default()));
        come(&node, "shop", GOOD, vec![]);
        credit(&node, "shop", GOOD, 1);
        start(&house, &node, job);
        start(&house, &node, job);
        // This one waits for its executor to take more.
        start(&house, &node, free);
        job
    };
    let send = house.take_sends().remove(0);
    house.set("10:00:10");
    let node = house.node();
    come(&node, "evil", GOOD, vec![held(&send)]);
    credit(&node, "evil", GOOD, 5);
    node.report(said(&house, GOOD, "evil", &held(&send)));
    house.until(&[&node], "10:00:11");
    assert_eq!(house.take_sends().len(), 0);
    assert_eq!(states(&house, &[send.run]), [RunState::Running], "its executor may still come back");
    let (_, stale) = come(&node, "shop", GOOD, vec![held(&send)]);
    assert_eq!(stale, []);
    credit(&node, "shop", GOOD, 5);
    let mut report = said(&house, GOOD, "shop", &held(&send));
    report.message = "done".into();
    node.report(report);
    house.until(&[&node], "10:00:13");
    assert_eq!(states(&house, &[send.run]), [RunState::Succeeded]);
    let next = house.take_sends();
    let apps: Vec<_> = next.iter().map(|send| &*send.address.as_ref().unwrap().app).collect();
    assert_eq!((apps, next.iter().any(|send| send.job.id == job)), (vec!["shop", "shop"], true));
}

#[test]
fn an_executor_is_let_in_whatever_names_are_taken_and_learns_nothing_of_them() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_executors("app", "job", Block::default()));
    let (session, _) = come(&node, "app", GOOD, vec![]);
    credit(&node, "app", GOOD, 1);
    start(&house, &node, job);
    let send = house.take_sends().remove(0);
    let let_in = |is_carried| {
        let came = now_or_never(node.native_came("evil", GOOD, vec![], vec![held(&send)], is_carried));
        came.map(|(session, stale)| {
            now_or_never(node.native_went("evil", GOOD, session, true)).unwrap();
            stale.len()
        })
    };
    let never_seen = now_or_never(node.native_came("evil", EVIL, vec![], vec![held(&send)], false)).unwrap();
    assert_eq!(never_seen.1.len(), 1);
    for is_carried in [false, true] {
        assert_eq!(let_in(is_carried), Ok(1), "while it has a session");
    }
    now_or_never(node.native_went("app", GOOD, session, false)).unwrap();
    for is_carried in [false, true] {
        assert_eq!(let_in(is_carried), Ok(1), "while it may come back");
    }
    // Nothing of that was taken for its end: it comes back, has it still, and reports it.
    assert_eq!(come(&node, "app", GOOD, vec![held(&send)]).1, []);
    node.report(said(&house, GOOD, "app", &held(&send)));
    house.step(&node);
    assert_eq!(states(&house, &[send.run]), [RunState::Succeeded]);
    assert_eq!(house.run(send.run).attempts.len(), 1);
}

#[test]
fn a_callback_speaks_only_of_what_was_sent_to_executors_that_call_back() {
    let house = House::new();
    let node = house.node();
    let victims = victims(&house, &node);
    let xxl = house.create(&node, for_executors("app", "xxl", Block::default()));
    let beat = punctual_node::ports::Beat {
        app: "app".into(),
        address: "http://x.test:9999".into(),
        dialect: punctual_core::registry::Dialect::Classic,
    };
    now_or_never(node.beat(beat)).unwrap();
    let run = start(&house, &node, xxl);
    let number = |run: RunId| now_or_never(house.store.sends(run)).unwrap().last().map(|sent| sent.log);
    let logs: Vec<LogId> =
        ["native", "gated", "http"].iter().filter_map(|name| number(victims[name].0)).collect();
    assert!(!logs.is_empty());
    let own = number(run).expect("it went through a gate");
    let callback = |log| Callback { log, outcome: AttemptOutcome::Succeeded, message: "forged".into() };
    let callbacks: Vec<Callback> = logs.iter().copied().chain([own]).map(callback).collect();
    let reports = now_or_never(node.reports_of(&callbacks, &|_| true)).unwrap();
    assert_eq!(reports.iter().map(|report| report.run).collect::<Vec<_>>(), [run]);
    house.store.deface_job(xxl, "unreadable");
    drop(node);
    let second = house.node();
    assert_eq!(
        now_or_never(second.reports_of(&[callback(own)], &|_| true)).unwrap(),
        [],
        "nobody knows its app"
    );
}

// --- whatever happens ---

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| &of[self.below(of.len() as u64) as usize])
    }
}

/// A random history of the app "shop": its jobs, what was sent for them and is not reported, and who was told what.
struct Shop {
    house: House,
    node: Node,
    jobs: Vec<JobId>,
    out: Vec<Dispatched>,
    session: SessionId,
}

impl Shop {
    fn new(settings: Settings) -> Shop {
        let house = House::with(settings);
        let node = house.node();
        let jobs = vec![
            house.create(&node, for_executors("shop", "free", Block::default())),
            house.create(&node, for_executors("shop", "serial", Block::Serial)),
            house.create(&node, for_agents("shop", "agent")),
            house.create(&node, Definition { app: "shop".into(), ..definition("often", every(1)) }),
        ];
        let session = come(&node, "shop", GOOD, vec![]).0;
        beat(&node, "shop");
        Shop { house, node, jobs, out: Vec::new(), session }
    }

    fn held(&self) -> Vec<Claim> {
        let is_native =
            |send: &&Dispatched| send.address.as_ref().is_some_and(|at| at.dialect == Dialect::Native);
        let native = self.out.iter().filter(is_native);
        native.map(|send| Claim { run: send.run, attempt: send.attempt, token: send.token }).collect()
    }

    /// Something happens to the app.
    fn happen(&mut self, dice: &mut Dice) {
        let Shop { house, node, .. } = self;
        match dice.below(11) {
            0 | 1 => {
                let job = *dice.one(&self.jobs).unwrap();
                let _ = now_or_never(node.run_now(job, Default::default()));
            }
            2 => credit(node, "shop", GOOD, 2),
            3 | 4 if !self.out.is_empty() => {
                let send = self.out.remove(dice.below(self.out.len() as u64) as usize);
                let is_good = dice.below(2) == 0;
                let outcome = if is_good { AttemptOutcome::Succeeded } else { AttemptOutcome::Failed };
                node.report(house.true_report(&send, outcome));
            }
            5 => {
                let runs = house.runs();
                if let Some(run) = dice.one(&runs) {
                    let _ = now_or_never(node.cancel(run.id));
                }
            }
            6 => {
                now_or_never(node.native_went("shop", GOOD, self.session, false)).unwrap();
                let held = self.held();
                self.session = come(&self.node, "shop", GOOD, held).0;
            }
            7 if dice.below(8) == 0 => {
                self.node = house.node();
                let held = self.held();
                self.session = come(&self.node, "shop", GOOD, held).0;
            }
            8 | 9 => {
                for _ in 0..4 {
                    house.until(&[&self.node], &house.later(Duration::from_millis(500)));
                    // Its executor that is called never admits to a run.
                    answer(house, &self.node, |_| Some(false));
                }
            }
            _ => house.until(&[&self.node], &house.later(Duration::from_millis(250))),
        }
        self.house.step(&self.node);
        self.out.extend(self.house.take_sends());
    }
}

impl House {
    fn blank(&self, outcome: AttemptOutcome) -> Report {
        Report {
            receipt: self.next_receipt(),
            run: RunId(0),
            attempt: Attempt(1),
            token: Token(0),
            outcome,
            message: "said so".into(),
            executor: "agent".into(),
            app: None,
            started_at: self.now(),
            ended_at: None,
            retry_after: None,
            further: punctual_node::ports::Further::Welcome,
        }
    }

    /// The report of the executor that was given the attempt.
    fn true_report(&self, send: &Dispatched, outcome: AttemptOutcome) -> Report {
        let address = send.address.as_ref();
        Report {
            run: send.run,
            attempt: send.attempt,
            token: send.token,
            executor: address.map_or("agent".into(), |address| address.url.clone()),
            app: address.filter(|at| at.dialect == Dialect::Native).map(|at| at.app.clone()),
            ..self.blank(outcome)
        }
    }
}

/// What the intruder is told: the answer to its hello without what it said itself, what its callbacks became, and whether
/// its reports were answered.
type Answers = Vec<(usize, usize, bool)>;

/// The intruder speaks of runs that are there and of some that are not, and registers where an executor of the app is.
fn intrude(shop: &Shop, dice: &mut Dice) -> (usize, usize, Vec<Receipt>) {
    let runs = shop.house.runs();
    let mut guesses = Vec::new();
    for number in 0..1 + dice.below(4) {
        let is_real = dice.below(4) != 0;
        let run =
            dice.one(&runs).filter(|_| is_real).map_or(RunId::new(2_192, 900_000 + number), |run| run.id);
        let sent = shop.out.iter().find(|send| send.run == run).map(|send| send.token.0);
        let attempt = 1 + dice.below(3) as u32;
        let token = match dice.below(3) {
            0 => dice.below(1 << 40),
            1 => Token::new(Epoch(1 + dice.below(20)), Attempt(attempt)).0,
            _ => sent.unwrap_or(7),
        };
        guesses.push(claim(run, attempt, token));
    }
    let live = guesses.len() - come(&shop.node, "evil", EVIL, guesses.clone()).1.len();
    let mut receipts = Vec::new();
    for guess in &guesses {
        let report = said(&shop.house, EVIL, "evil", guess);
        receipts.push(report.receipt);
        shop.node.report(report);
    }
    let numbers = (0..5).map(|_| LogId(dice.below(60)));
    let callback = |log| Callback { log, outcome: AttemptOutcome::Succeeded, message: "forged".into() };
    let callbacks: Vec<Callback> = numbers.map(callback).collect();
    let reports = now_or_never(shop.node.reports_of(&callbacks, &|app| app == "evil")).unwrap();
    let taken = reports.len();
    drop(shop.node.keep(reports));
    match dice.below(4) {
        0 => leave(&shop.node, "evil"),
        _ => beat(&shop.node, "evil"),
    }
    (live, taken, receipts)
}

/// The same history with an intruder or without: what became of the app's runs, and what the intruder was told.
fn history(seed: u64, settings: Settings, has_intruder: bool) -> (BTreeMap<RunId, RunView>, Answers) {
    let mut shop = Shop::new(settings);
    let (mut dice, mut other) = (Dice(seed | 1), Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
    let mut answers = Answers::new();
    for _ in 0..60 {
        shop.happen(&mut dice);
        if has_intruder && other.below(3) == 0 {
            let (live, taken, receipts) = intrude(&shop, &mut other);
            shop.house.step(&shop.node);
            shop.out.extend(shop.house.take_sends());
            let is_answered = receipts.iter().all(|receipt| shop.house.is_acknowledged(*receipt));
            answers.push((live, taken, is_answered));
        } else {
            shop.house.step(&shop.node);
            shop.out.extend(shop.house.take_sends());
        }
    }
    (views(&shop.house), answers)
}

#[test]
fn whatever_happens_no_executor_of_one_app_changes_anything_of_another_or_learns_of_it() {
    for seed in 1..=60 {
        let (alone, _) = history(seed, doubting(), false);
        let (beside, answers) = history(seed, doubting(), true);
        assert!(alone.len() > 5, "seed {seed}: something must happen");
        assert_eq!(alone, beside, "seed {seed}");
        assert!(
            answers.len() > 5 && answers.iter().all(|answer| *answer == (0, 0, true)),
            "seed {seed}: {answers:?}"
        );
    }
}

// The property would be worth nothing if it held for a node that believes everybody.
#[cfg(feature = "planted")]
#[test]
fn a_node_that_believes_everybody_is_found_out() {
    let credulous = || Settings { planted: Some(Planted::ClaimsBelieved), ..doubting() };
    let is_harmed = |seed| {
        let (alone, _) = history(seed, credulous(), false);
        let (beside, answers) = history(seed, credulous(), true);
        (alone != beside, answers.iter().any(|(live, ..)| *live > 0))
    };
    let harmed: Vec<(bool, bool)> = (1..=5).map(is_harmed).collect();
    assert!(harmed.iter().any(|(is_changed, _)| *is_changed), "{harmed:?}");
    assert!(harmed.iter().any(|(_, has_learned)| *has_learned), "{harmed:?}");
}

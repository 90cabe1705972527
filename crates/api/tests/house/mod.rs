//! A front door before an empty house: tokens of every role, one job, one run, and a store that answers nothing but
//! what time it is. Beside them, in no list, a job for executors with runs of its own, and a crew of executors that says
//! what a test wants.
#![allow(dead_code, reason = "every test binary uses its own part of it")]

mod crew;

pub(crate) use crew::{Crew, view};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use calendar::{Timestamp, Zones};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use punctual_api::{App, Others, Settings, digest, router};
use punctual_core::model::*;
use punctual_core::policy::{Block, Misfire, Retry};
use punctual_core::wheel::Mark;
use punctual_node::ports::*;
use punctual_node::{Node, Ports};
use punctual_observe::EventLog;
use serde_json::Value;
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// The app of the one job.
pub(crate) const APP: &str = "reports";

/// Tokens are called by their role, and by their apps where these are not all.
pub(crate) const ROLES: [&str; 4] = ["viewer", "operator", "editor", "admin"];

/// A token that may do everything to jobs of another app.
pub(crate) const ELSEWHERE: &str = "elsewhere";

fn now() -> Timestamp {
    "2026-03-08T07:00:00Z".parse().unwrap()
}

fn long_ago() -> Timestamp {
    "2026-03-08T06:00:00Z".parse().unwrap()
}

fn silent<T>() -> Result<T, StoreError> {
    Err(StoreError::Unknown("nobody answers".into()))
}

/// The store, and the nodes that live beside this one.
#[derive(Default)]
struct House(Vec<NodeRow>);

impl Clock for House {
    fn boot(&self) -> Boot {
        Boot(Duration::from_secs(1))
    }
}

struct Counter(AtomicU64);

impl Entropy for Counter {
    fn bits(&self) -> u64 {
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

impl Dispatch for House {
    fn send(&self, _: Vec<Dispatched>) {}
    fn kill(&self, _: Vec<Kill>) {}
    fn probe(&self, _: Vec<Probe>) {}
    fn acknowledge(&self, _: Vec<Receipt>) {}
}

impl Peers for House {
    fn tell(&self, _: NodeId, _: Hint) {}
}

#[async_trait]
impl Store for House {
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        let Renewal { node, name, address, .. } = renewal;
        let mut nodes = vec![NodeRow { node, name, address, expires_at: Timestamp::MAX }];
        nodes.extend(self.0.iter().cloned());
        let (shards, changes, arrivals) = (vec![], vec![], vec![]);
        Ok(Renewed { now: now(), nodes, shards, changes, latest: ChangeId(0), arrivals })
    }
    async fn acquire(&self, _: NodeId, _: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError> {
        silent()
    }
    async fn release(&self, _: NodeId, _: Vec<Lease>, _: Timestamp) -> Result<(), StoreError> {
        silent()
    }
    async fn due(&self, _: &[Lease], _: Timestamp, _: usize) -> Result<Vec<ClockRow>, StoreError> {
        silent()
    }
    async fn jobs(&self, _: &[JobId]) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, StoreError> {
        silent()
    }
    async fn plan(&self, _: Vec<Plan>) -> Result<Vec<Planned>, StoreError> {
        silent()
    }
    async fn load(&self, _: &[Lease], _: Mark, _: Timestamp, _: usize) -> Result<Loaded, StoreError> {
        silent()
    }
    async fn adopt(&self, _: &[Lease]) -> Result<Adopted, StoreError> {
        silent()
    }
    async fn unpark(&self, _: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError> {
        silent()
    }
    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        if runs == [RunId(MOVED)] { Ok(vec![moved_row()]) } else { silent() }
    }
    async fn outline(&self, _: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        silent()
    }
    async fn gate(&self, _: Vec<Gate>) -> Result<Vec<Gated>, StoreError> {
        silent()
    }
    async fn split(&self, _: Vec<Split>) -> Result<Vec<Gated>, StoreError> {
        silent()
    }
    async fn sent(&self, _: &[LogId]) -> Result<Vec<SentRow>, StoreError> {
        silent()
    }
    async fn open_parts(&self, _: RunId) -> Result<Vec<RunId>, StoreError> {
        silent()
    }
    async fn open_runs(&self, _: JobId, _: RunId, _: usize) -> Result<OpenRuns, StoreError> {
        silent()
    }
    async fn settle(&self, _: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        silent()
    }
    async fn allot(&self, _: u32, _: u64) -> Result<u64, StoreError> {
        silent()
    }
    async fn accept(
        &self,
        _: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        match left[..] {
            // It is left for a node that does not come by.
            [(_, ArrivalKind::Reschedule(RunId(MOVED), _))] => Ok(vec![]),
            _ => silent(),
        }
    }
    async fn arrivals(&self, _: &[Lease], _: usize) -> Result<Vec<Arrival>, StoreError> {
        silent()
    }
    async fn consume(&self, _: &[u64]) -> Result<(), StoreError> {
        silent()
    }
    async fn change(&self, _: Change) -> Result<Changed, StoreError> {
        silent()
    }
    async fn is_in_force(&self, _: ChangeId) -> Result<bool, StoreError> {
        silent()
    }
    async fn prune(&self, _: &Keep) -> Result<Pruned, StoreError> {
        silent()
    }
    async fn thin(&self, _: &Keep, _: u32, _: RunId, _: usize) -> Result<Thinned, StoreError> {
        silent()
    }
}

fn the_job() -> JobView {
    let definition = Definition {
        app: APP.into(),
        name: "nightly".into(),
        description: String::new(),
        tags: vec![],
        schedule: ScheduleKind::Manual.into(),
        target: Target::Http(Http::post("http://agent")),
        misfire: Misfire::default(),
        retry: Retry::default(),
        timeout: Duration::from_secs(30),
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: vec![],
        after: vec![],
        failure_limit: 0,
        flow: FlowControl::default(),
    };
    JobView {
        id: JobId(1),
        version: 1,
        state: JobState::Enabled,
        definition,
        next_fire: None,
        shard: ShardId(0),
        counts: Counts::default(),
    }
}

fn the_run() -> RunView {
    RunView {
        id: RunId(1),
        job: JobId(1),
        shard: ShardId(0),
        fire_time: now(),
        due: now(),
        origin: Origin::OneShot,
        state: RunState::Pending,
        reason: "".into(),
        closed_at: None,
        range: None,
        priority: 5,
        payload: None,
        key: None,
        of: None,
        ready_at: None,
        attempts: vec![],
        part: None,
        overrides: None,
    }
}

/// A one-shot of another node's shard that was moved to this time before.
pub(crate) const MOVED: u64 = 27;
pub(crate) const MOVED_TO: &str = "2027-01-02T00:00:00Z";

fn moved_run() -> RunView {
    RunView { id: RunId(MOVED), ready_at: Some(MOVED_TO.parse().unwrap()), ..the_run() }
}

fn moved_row() -> RunRow {
    let RunView { id, job, shard, fire_time, origin, priority, .. } = moved_run();
    let waiting = Waiting {
        run: id,
        job,
        shard,
        fire_time,
        ready_at: MOVED_TO.parse().unwrap(),
        attempt: Attempt::FIRST,
        priority,
        origin,
        decided: Decided::NotYet,
        has_payload: false,
        is_called_back: false,
        overrides: None,
    };
    let (is_closed, is_gated, is_parked) = (false, false, false);
    RunRow { waiting, payload: None, is_closed, is_gated, is_parked, part: None }
}

/// The job for executors.
pub(crate) const THEIRS: u32 = 20;

fn their_job() -> JobView {
    let mut job = the_job();
    job.id = JobId(THEIRS);
    job.definition.name = "theirs".into();
    job.definition.target = Target::Executor(Executor::of("work"));
    job
}

/// Its runs: failed, running, and broadcast in two parts, which are runs too.
pub(crate) const FAILED: u64 = 22;
pub(crate) const RUNNING: u64 = 23;
pub(crate) const BROADCAST: u64 = 24;
pub(crate) const PARTS: [u64; 2] = [25, 26];

/// Where they went.
pub(crate) const EXECUTOR: &str = "http://127.0.0.1:9999/";

fn their_run(id: u64) -> Option<RunView> {
    let (number, token, executor) = (Attempt::FIRST, Token(1), Text::Borrowed(EXECUTOR));
    let ended = AttemptRow::Ended(AttemptRecord {
        number,
        token,
        executor: executor.clone(),
        started_at: long_ago(),
        ended_at: long_ago(),
        outcome: AttemptOutcome::Failed,
        message: "no database".into(),
        possible_duplicate: false,
    });
    let open = AttemptRow::Open { number, token, log: LogId(id), started_at: now(), executor };
    let run = RunView { id: RunId(id), job: JobId(THEIRS), ..the_run() };
    let part = |index| Some(Part { index, total: 2, address: EXECUTOR.into() });
    match id {
        MOVED => Some(moved_run()),
        FAILED => Some(RunView { state: RunState::Failed, attempts: vec![ended], ..run }),
        RUNNING | BROADCAST => Some(RunView { state: RunState::Running, attempts: vec![open], ..run }),
        25 | 26 => Some(RunView {
            state: RunState::Running,
            attempts: vec![open],
            origin: Origin::Part,
            of: Some(RunId(BROADCAST)),
            part: part((id - PARTS[0]) as u32),
            ..run
        }),
        _ => None,
    }
}

fn page<T, C>(item: T, is_wanted: bool) -> Page<T, C> {
    Page { items: if is_wanted { vec![item] } else { vec![] }, next: None }
}

fn is_ours(apps: Option<&Vec<String>>) -> bool {
    apps.is_none_or(|apps| apps.iter().any(|app| app == APP))
}

#[async_trait]
impl Browse for House {
    async fn job(&self, id: JobId) -> Result<Option<JobView>, StoreError> {
        Ok([the_job(), their_job()].into_iter().find(|job| job.id == id))
    }
    async fn job_named(&self, app: &str, name: &str) -> Result<Option<JobView>, StoreError> {
        Ok(Some(the_job()).filter(|job| job.definition.app == app && job.definition.name == name))
    }
    async fn job_list(
        &self,
        filter: &JobFilter,
        _: Option<JobId>,
        _: usize,
    ) -> Result<Page<JobView, JobId>, StoreError> {
        Ok(page(the_job(), is_ours(filter.apps.as_ref())))
    }
    async fn revisions(&self, job: JobId, after: u64, max: usize) -> Result<Vec<Revision>, StoreError> {
        let revision =
            |version| Revision { version, at: now(), by: "anna".into(), definition: the_job().definition };
        let is_there = |version: &u64| job == the_job().id && *version > after;
        Ok((1..=5).filter(is_there).take(max).map(revision).collect())
    }
    async fn run(&self, id: RunId) -> Result<Option<RunView>, StoreError> {
        Ok(Some(the_run()).filter(|run| run.id == id).or_else(|| their_run(id.0)))
    }
    async fn run_keyed(&self, _: JobId, _: &str) -> Result<Option<RunId>, StoreError> {
        Ok(None)
    }
    async fn parts(&self, run: RunId) -> Result<Vec<RunView>, StoreError> {
        let parts = PARTS.iter().filter(|_| run.0 == BROADCAST);
        Ok(parts.filter_map(|part| their_run(*part)).collect())
    }
    async fn sends(&self, run: RunId) -> Result<Vec<SentRow>, StoreError> {
        let sent = |run: RunView| SentRow {
            log: LogId(run.id.0),
            run: run.id,
            job: run.job,
            attempt: Attempt::FIRST,
            token: Token(1),
            sent_at: now(),
            executor: EXECUTOR.into(),
        };
        Ok(their_run(run.0).map(sent).into_iter().collect())
    }
    async fn run_list(
        &self,
        filter: &RunFilter,
        _: Option<RunId>,
        _: usize,
    ) -> Result<Page<RunView, RunId>, StoreError> {
        Ok(page(the_run(), is_ours(filter.apps.as_ref())))
    }
    async fn counts(&self, _: Option<JobId>) -> Result<Counts, StoreError> {
        Ok(Counts::default())
    }
    async fn storage(&self) -> Result<Vec<Bucket>, StoreError> {
        Ok(vec![])
    }
}

/// What was asked with a key, and what was answered.
type Asked = BTreeMap<RequestKey, (Digest, Option<KeptAnswer>)>;

/// Keeps tokens and answers. Where it is told to, it waits between writing a key down and saying so.
#[derive(Default)]
pub(crate) struct Doorman {
    asked: Mutex<Asked>,
    /// How many keys may be answered for; as many as come if none.
    lets_go: Option<Arc<Semaphore>>,
    /// Tokens that open nothing any more.
    revoked: Mutex<Vec<&'static str>>,
}

/// The name of the one token that can be made.
pub(crate) const MADE: &str = "made";

fn token(id: u32, name: &'static str, role: &'static str, app: &str) -> TokenRow {
    TokenRow {
        id,
        name: name.into(),
        digest: digest(name),
        role: role.into(),
        apps: vec![app.into()],
        created_at: now(),
        expires_at: None,
    }
}

impl Doorman {
    /// One who answers for as many keys as there are permits.
    pub(crate) fn held(lets_go: &Arc<Semaphore>) -> Doorman {
        Doorman { lets_go: Some(Arc::clone(lets_go)), ..Doorman::default() }
    }

    pub(crate) fn revoke(&self, name: &'static str) {
        self.revoked.lock().unwrap().push(name);
    }

    fn write_down(&self, key: RequestKey, digest: Digest) -> Begun {
        let mut asked = self.asked.lock().unwrap();
        match asked.get(&key) {
            None => {
                asked.insert(key, (digest, None));
                Begun::New
            }
            Some((other, _)) if *other != digest => Begun::Other,
            Some((_, None)) => Begun::Open,
            Some((_, Some(answer))) => Begun::Answered(answer.clone()),
        }
    }

    fn rows(&self) -> Vec<TokenRow> {
        let mut rows: Vec<TokenRow> = (1..).zip(ROLES).map(|(id, role)| token(id, role, role, "*")).collect();
        rows.push(token(5, ELSEWHERE, "admin", "billing"));
        let expired = TokenRow { expires_at: Some(now()), ..token(6, "expired", "admin", "*") };
        rows.push(expired);
        let revoked = self.revoked.lock().unwrap();
        rows.retain(|row| !revoked.iter().any(|name| *name == row.name));
        rows
    }

    /// Every answer that is kept.
    pub(crate) fn answers(&self) -> Vec<KeptAnswer> {
        self.asked.lock().unwrap().values().filter_map(|(_, answer)| answer.clone()).collect()
    }
}

#[async_trait]
impl Door for Doorman {
    async fn peer_secret(&self, drawn: Digest) -> Result<Digest, StoreError> {
        Ok(drawn)
    }
    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        Ok(self.rows())
    }
    async fn add_token(&self, row: TokenRow) -> Result<u32, StoreError> {
        // All others are there to see what happens if a store does not answer.
        if &*row.name == MADE { Ok(7) } else { silent() }
    }
    async fn add_first_token(&self, _: TokenRow) -> Result<bool, StoreError> {
        silent()
    }
    async fn revoke_token(&self, id: u32, remain: Option<&Remain>) -> Result<bool, StoreError> {
        remain.map_or(Ok(()), |remain| remain.check(&self.rows(), id))?;
        silent()
    }
    async fn begin(&self, key: RequestKey, digest: Digest, _: Timestamp) -> Result<Begun, StoreError> {
        let begun = self.write_down(key, digest);
        if let Some(lets_go) = &self.lets_go {
            lets_go.acquire().await.expect("it stays open").forget();
        }
        Ok(begun)
    }
    async fn answer(&self, key: RequestKey, answer: Option<KeptAnswer>) -> Result<(), StoreError> {
        let mut asked = self.asked.lock().unwrap();
        match answer {
            None => _ = asked.remove(&key),
            Some(answer) => asked.get_mut(&key).unwrap().1 = Some(answer),
        }
        Ok(())
    }
    async fn forget_requests(&self, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Apps for House {
    async fn registered(&self) -> Result<Registered, StoreError> {
        silent()
    }
    async fn beat(&self, _: Vec<Beat>) -> Result<(), StoreError> {
        silent()
    }
    async fn leave(&self, _: &str, _: &str) -> Result<bool, StoreError> {
        silent()
    }
    async fn bury(&self, _: Duration) -> Result<Vec<(Text, Text)>, StoreError> {
        silent()
    }
    async fn put_app(&self, _: AppRow, _: Option<u64>) -> Result<u64, StoreError> {
        silent()
    }
    async fn pause_app(&self, _: &str, _: Option<Paused>) -> Result<Option<AppRow>, StoreError> {
        silent()
    }
    async fn remove_app(&self, _: &str) -> Result<bool, StoreError> {
        silent()
    }
}

/// The front door, with one app and no executor.
pub(crate) async fn open() -> Router {
    open_to(&Crew::with(vec![view(APP, None)]), |_| {}).await
}

/// The same, with a doorman of the test's own.
pub(crate) async fn open_with(doorman: &Arc<Doorman>) -> Router {
    open_before(&Crew::with(vec![view(APP, None)]), doorman, |_| {}).await
}

/// The front door before a crew, with settings as a test wants them.
pub(crate) async fn open_to(crew: &Arc<Crew>, set: impl FnOnce(&mut Settings)) -> Router {
    open_before(crew, &Arc::default(), set).await
}

pub(crate) async fn open_before(
    crew: &Arc<Crew>,
    doorman: &Arc<Doorman>,
    set: impl FnOnce(&mut Settings),
) -> Router {
    build(crew, doorman, Arc::new(Alone), vec![], EventLog::new(), set).await
}

/// The front door of a node with others beside it, which are called by their addresses.
pub(crate) async fn open_among(names: &[&'static str], others: Arc<dyn Others>, events: &EventLog) -> Router {
    let row = |(number, name): (u128, &&'static str)| NodeRow {
        node: NodeId(number),
        name: (*name).into(),
        address: (*name).into(),
        expires_at: Timestamp::MAX,
    };
    let nodes = (1..).zip(names).map(row).collect();
    let crew = Crew::with(vec![view(APP, None)]);
    build(&crew, &Arc::default(), others, nodes, events.clone(), |_| {}).await
}

/// A node without others has nobody to ask.
struct Alone;

#[async_trait]
impl Others for Alone {
    async fn ask(&self, _: &str, _: &str, _: Bytes, _: usize) -> Result<Bytes, String> {
        unreachable!("there is no other node")
    }
    async fn listen(&self, _: &str, _: &str, _: Option<&str>) -> Result<Body, String> {
        unreachable!("there is no other node")
    }
}

async fn build(
    crew: &Arc<Crew>,
    doorman: &Arc<Doorman>,
    others: Arc<dyn Others>,
    nodes: Vec<NodeRow>,
    events: EventLog,
    set: impl FnOnce(&mut Settings),
) -> Router {
    let mut settings = Settings { payload_max: 100, body_max: 2_000, ..Settings::default() };
    set(&mut settings);
    let entropy = Arc::new(Counter(7.into()));
    let ports = Ports {
        clock: Arc::new(House::default()),
        entropy: Arc::clone(&entropy) as _,
        store: Arc::new(House(nodes)),
        apps: Arc::new(House::default()),
        records: Arc::new(House::default()),
        dispatch: Arc::new(House::default()),
        peers: Arc::new(House::default()),
        fired: Arc::new(punctual_node::ports::Unmarked),
    };
    let zones = Arc::new(Zones::bundled());
    let node = Arc::new(Node::new(ports, punctual_node::Settings::default(), Arc::clone(&zones)));
    node.renew().await;
    assert!(node.now().is_some(), "the node knows the time");
    router(App {
        node,
        browse: Arc::new(House::default()),
        door: Arc::clone(doorman) as _,
        logs: Arc::clone(crew) as _,
        executors: Arc::clone(crew) as _,
        zones,
        entropy,
        nudge: Arc::new(|| {}),
        check_target: Arc::new(|_| vec![]),
        metrics: Arc::new(|load| format!("{:?}", load.calls_refused)),
        others,
        peer_secret: Some([7; 32]),
        is_ready: Arc::new(|| Ok(())),
        settings,
        events,
    })
    .unwrap()
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A request with JSON, and with a token if that is not empty.
pub(crate) fn request(method: &str, path: &str, token: &str, body: &str) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

/// The head of an answer; what goes on for ever is not read.
pub(crate) async fn head(door: &Router, request: Request<Body>) -> (StatusCode, HeaderMap) {
    let response = door.clone().oneshot(request).await.unwrap();
    (response.status(), response.headers().clone())
}

/// The whole answer.
pub(crate) async fn ask(door: &Router, request: Request<Body>) -> Answer {
    let response = door.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

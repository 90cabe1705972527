//! What the tests live in: agents on loopback that do as they are told, and the way to them with its reports.

#![expect(clippy::disallowed_methods, reason = "agents live in real time")]
#![allow(dead_code, reason = "every test file uses its part")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use calendar::{Timestamp, Zones};
use punctual_core::model::{
    Attempt, Definition, Delivery, FlowControl, Http, Job, JobId, JobState, Origin, RunId, Schedule,
    ScheduleKind, Target, Token,
};
use punctual_core::policy::{Block, Misfire, Retry};
use punctual_dispatch::{Agents, Guard, Options, Setup};
use punctual_node::ports::{Dispatch, Dispatched, Entropy, Heard, Kill, Report};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Far longer than anything here takes: whoever waits for it in vain has found a bug.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const NOW: &str = "2026-03-08T07:00:00.500Z";

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Such as `POST /agent HTTP/1.1`.
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// Which connection brought it, from 1.
    pub(crate) connection: usize,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What an agent does with a request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Answers and waits for more.
    Say(Vec<u8>),
    /// Answers and closes.
    SayAndClose(Vec<u8>),
    /// Answers when it is told to.
    Hold(watch::Receiver<bool>, Vec<u8>),
    /// Never answers; waits until the caller goes away.
    Nothing,
    /// Says this again and again until the caller goes away.
    Trickle(Vec<u8>, Vec<u8>),
}

pub(crate) fn ok() -> Reply {
    status("200 OK", "")
}

pub(crate) fn status(status: &str, body: &str) -> Reply {
    answer(status, "", body)
}

/// An answer with further header lines, each ended by `\r\n`.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Say(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes())
}

/// What an agent remembers.
#[derive(Default)]
pub(crate) struct Diary {
    pub(crate) seen: Mutex<Vec<Seen>>,
    pub(crate) connections: AtomicUsize,
    /// How many are open, and how many were at most.
    pub(crate) open: AtomicUsize,
    pub(crate) peak: AtomicUsize,
    news: Notify,
}

impl Diary {
    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn first(&self) -> Seen {
        self.seen.lock().unwrap()[0].clone()
    }

    pub(crate) fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().unwrap().clone()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, is_so: impl Fn(&Diary) -> bool) {
        let wait = async {
            loop {
                let news = self.news.notified();
                tokio::pin!(news);
                news.as_mut().enable();
                if is_so(self) {
                    return;
                }
                news.await;
            }
        };
        timeout(PATIENCE, wait).await.expect("it never became so");
    }

    pub(crate) async fn until_closed(&self) {
        self.until(|diary| diary.open.load(Ordering::SeqCst) == 0).await;
    }
}

pub(crate) type Behaviour = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// An agent on loopback.
pub(crate) struct Agent {
    pub(crate) address: SocketAddr,
    pub(crate) diary: Arc<Diary>,
}

impl Agent {
    pub(crate) async fn start(behave: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Agent {
        Agent::start_with(Arc::new(behave), None).await
    }

    pub(crate) async fn start_with(behave: Behaviour, tls: Option<tokio_rustls::TlsAcceptor>) -> Agent {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let diary = Arc::new(Diary::default());
        let kept = diary.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let (diary, behave, tls) = (kept.clone(), behave.clone(), tls.clone());
                tokio::spawn(async move {
                    let number = diary.connections.fetch_add(1, Ordering::SeqCst) + 1;
                    let open = diary.open.fetch_add(1, Ordering::SeqCst) + 1;
                    diary.peak.fetch_max(open, Ordering::SeqCst);
                    match tls {
                        None => converse(stream, number, &diary, &behave).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                converse(stream, number, &diary, &behave).await;
                            }
                        }
                    }
                    diary.open.fetch_sub(1, Ordering::SeqCst);
                    diary.news.notify_waiters();
                });
            }
        });
        Agent { address, diary }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    diary: &Diary,
    behave: &Behaviour,
) {
    let mut buffer = Vec::new();
    while let Some(seen) = read_request(&mut stream, &mut buffer, connection).await {
        diary.seen.lock().unwrap().push(seen.clone());
        diary.news.notify_waiters();
        match behave(&seen) {
            Reply::Say(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::SayAndClose(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
            Reply::Hold(mut gate, bytes) => {
                let mut byte = [0];
                tokio::select! {
                    _ = gate.wait_for(|is_open| *is_open) => {}
                    _ = stream.read(&mut byte) => return,
                }
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Nothing => {
                let mut byte = [0];
                let _ = stream.read(&mut byte).await;
                return;
            }
            Reply::Trickle(head, piece) => {
                let _ = stream.write_all(&head).await;
                while stream.write_all(&piece).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return;
            }
        }
    }
}

async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    connection: usize,
) -> Option<Seen> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
            let mut lines = head.split("\r\n");
            let line = lines.next().unwrap().to_owned();
            let headers: BTreeMap<String, String> = lines
                .map(|line| line.split_once(": ").unwrap())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            if buffer.len() >= end + 4 + length {
                let body = String::from_utf8(buffer[end + 4..end + 4 + length].to_vec()).unwrap();
                buffer.drain(..end + 4 + length);
                return Some(Seen { line, headers, body, connection });
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// Numbers in order, so that they can be told apart.
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn bits(&self) -> u64 {
        self.0.fetch_add(2, Ordering::SeqCst) + 1
    }
}

pub(crate) fn entropy() -> Arc<dyn Entropy> {
    Arc::new(Counting(AtomicU64::new(0)))
}

/// The way to agents, and what it reports.
pub(crate) struct House {
    pub(crate) agents: Agents,
    reports: UnboundedReceiver<Vec<Report>>,
    waiting: Vec<Report>,
    /// How many batches came so far.
    pub(crate) batches: usize,
}

impl House {
    pub(crate) fn new() -> House {
        House::with(Options::default(), Guard::new::<&str>(&[], true).unwrap())
    }

    pub(crate) fn with(options: Options, guard: Guard) -> House {
        let (sender, reports) = unbounded_channel();
        let setup = Setup {
            runtime: Handle::current(),
            options,
            guard,
            now: Arc::new(|| at(NOW)),
            entropy: entropy(),
            sink: Arc::new(move |heard| drop(sender.send(only_reports(heard)))),
        };
        House { agents: Agents::new(setup).unwrap(), reports, waiting: Vec::new(), batches: 0 }
    }

    pub(crate) fn send(&self, run: Dispatched) {
        self.agents.send(vec![run]);
    }

    /// The next report.
    pub(crate) async fn report(&mut self) -> Report {
        while self.waiting.is_empty() {
            self.waiting = timeout(PATIENCE, self.reports.recv()).await.expect("no report came").unwrap();
            self.waiting.reverse();
            self.batches += 1;
        }
        self.waiting.pop().unwrap()
    }

    /// Sends one and waits for its report.
    pub(crate) async fn ask(&mut self, run: Dispatched) -> Report {
        self.send(run.clone());
        let report = self.report().await;
        assert_eq!((report.run, report.attempt, report.token), (run.run, run.attempt, run.token));
        report
    }

    /// Asserts that nothing is on its way and that nothing more is told.
    pub(crate) async fn is_quiet(&mut self) {
        assert_eq!(self.agents.drain(PATIENCE).await, 0);
        assert!(self.waiting.is_empty() && self.reports.try_recv().is_err(), "there is another report");
    }
}

fn only_reports(heard: Vec<Heard>) -> Vec<Report> {
    let report = |heard| match heard {
        Heard::Report(report) => report,
        other => panic!("an agent says {other:?}"),
    };
    heard.into_iter().map(report).collect()
}

pub(crate) fn kill(run: &Dispatched) -> Kill {
    Kill {
        run: run.run,
        job: run.job.id,
        attempt: run.attempt,
        token: run.token,
        address: run.address.as_deref().cloned(),
    }
}

/// A job that calls an agent, with whatever else is said of it.
pub(crate) fn job(http: Http, edit: impl FnOnce(&mut Definition)) -> Arc<Job> {
    job_of(Target::Http(http), edit)
}

pub(crate) fn job_of(target: Target, edit: impl FnOnce(&mut Definition)) -> Arc<Job> {
    static IDS: AtomicU32 = AtomicU32::new(100);
    let mut definition = Definition {
        app: "reports".into(),
        name: "nightly".into(),
        description: String::new(),
        tags: vec![],
        schedule: Schedule::from(ScheduleKind::Manual),
        target,
        misfire: Misfire::default(),
        retry: Retry::default(),
        timeout: PATIENCE,
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: vec![],
        after: vec![],
        failure_limit: 0,
        flow: FlowControl::default(),
    };
    edit(&mut definition);
    let id = JobId(IDS.fetch_add(1, Ordering::SeqCst));
    let zones = Zones::bundled();
    Arc::new(Job::compile(id, 1, at(NOW), JobState::Enabled, definition, vec![], &zones).unwrap())
}

/// A run of a job; each call makes another one.
pub(crate) fn run_of(job: &Arc<Job>) -> Dispatched {
    static RUNS: AtomicU64 = AtomicU64::new(1_000);
    Dispatched {
        run: RunId(RUNS.fetch_add(1, Ordering::SeqCst)),
        job: job.clone(),
        fire_time: at("2026-03-08T07:00:00Z"),
        attempt: Attempt(1),
        token: Token(77),
        log: None,
        possible_duplicate: false,
        payload: None,
        timeout: job.definition.timeout,
        origin: Origin::Schedule,
        sent_at: at(NOW),
        address: None,
        part: None,
    }
}

/// A run of a new job that calls this address.
pub(crate) fn run(http: Http) -> Dispatched {
    run_of(&job(http, |_| {}))
}

/// The same with little time.
pub(crate) fn short_run(http: Http) -> Dispatched {
    run_of(&job(http, |definition| definition.timeout = Duration::from_millis(150)))
}

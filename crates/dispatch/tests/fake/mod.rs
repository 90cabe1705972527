//! Executors on loopback that do as they are told, byte by byte, and the way to them with what it hears.

#![allow(dead_code, reason = "every test file uses its part")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::model::{Definition, Executor, Job, LogId, Target};
use punctual_core::registry::{Dialect, Secret};
use punctual_dispatch::xxl::{Options, Setup};
use punctual_dispatch::{Executors, Guard};
use punctual_node::ports::{Address, Dispatch, Dispatched, Heard, Killed, Probe, Probed, Report};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::house::{NOW, PATIENCE, at, job_of, run_of};

/// Far less than anybody's patience.
pub(crate) const SOON: Duration = Duration::from_millis(60);

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Every byte.
    pub(crate) raw: String,
    /// In how many pieces it came.
    pub(crate) pieces: usize,
    /// Which connection brought it, from 1.
    pub(crate) connection: usize,
}

impl Request {
    pub(crate) fn path(&self) -> &str {
        self.raw.split(' ').nth(1).unwrap()
    }

    pub(crate) fn body(&self) -> serde_json::Value {
        serde_json::from_str(self.raw.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    pub(crate) fn has_header(&self, line: &str) -> bool {
        self.raw.split("\r\n").any(|each| each == line)
    }
}

/// What an executor does with a request.
#[derive(Clone)]
pub(crate) enum Reply {
    Say(Vec<u8>),
    SayAndClose(Vec<u8>),
    /// Answers when it is told to.
    Hold(watch::Receiver<bool>, Vec<u8>),
    /// Says nothing until the caller goes away.
    Nothing,
    /// Says this, and then that without end.
    Flood(Vec<u8>, Vec<u8>),
}

pub(crate) fn json(body: &str) -> Reply {
    http("200 OK", body)
}

pub(crate) fn ok() -> Reply {
    json(r#"{"code":200,"msg":null}"#)
}

pub(crate) fn http(status: &str, body: &str) -> Reply {
    let length = body.len();
    let head = "content-type: text/html;charset=UTF-8";
    Reply::Say(format!("HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes())
}

/// The bytes of an answer.
pub(crate) fn bytes(reply: Reply) -> Vec<u8> {
    match reply {
        Reply::Say(bytes) => bytes,
        _ => panic!("not said at once"),
    }
}

/// What an executor remembers.
#[derive(Default)]
pub(crate) struct Diary {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    pub(crate) peak: AtomicUsize,
    news: Notify,
}

impl Diary {
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.requests().iter().map(|request| request.path().to_owned()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub(crate) fn last(&self) -> Request {
        self.requests().pop().unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) async fn until(&self, is_so: impl Fn(&Diary) -> bool) {
        let wait = async {
            loop {
                let news = self.news.notified();
                if is_so(self) {
                    return;
                }
                news.await;
            }
        };
        timeout(PATIENCE, wait).await.expect("it never became so");
    }

    pub(crate) async fn until_count(&self, count: usize) {
        self.until(|diary| diary.count() == count).await;
    }

    pub(crate) async fn until_closed(&self) {
        self.until(|diary| diary.open.load(Ordering::SeqCst) == 0).await;
    }
}

type Behaviour = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// An executor on loopback.
pub(crate) struct Fake {
    pub(crate) socket: SocketAddr,
    pub(crate) diary: Arc<Diary>,
    scheme: &'static str,
}

impl Fake {
    pub(crate) async fn start(behave: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Fake {
        Fake::start_with(Arc::new(behave), None).await
    }

    pub(crate) async fn start_with(behave: Behaviour, tls: Option<tokio_rustls::TlsAcceptor>) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = listener.local_addr().unwrap();
        let diary = Arc::new(Diary::default());
        let scheme = if tls.is_some() { "https" } else { "http" };
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
        Fake { socket, diary, scheme }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.socket)
    }

    pub(crate) fn address(&self) -> Address {
        address(&self.url(), Dialect::Classic)
    }
}

pub(crate) fn address(url: &str, dialect: Dialect) -> Address {
    let (url, app) = (url.to_owned().into(), "reports".into());
    Address { url, dialect, app, access_token: None, is_known: true, is_listed: false }
}

pub(crate) fn with_token(address: Address, token: &str) -> Address {
    Address { access_token: Some(Arc::new(Secret::new(token))), ..address }
}

/// An address where nobody is, as long as the socket is kept.
pub(crate) fn nowhere() -> (Address, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (address(&format!("http://{}", socket.local_addr().unwrap()), Dialect::Classic), socket)
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    number: usize,
    diary: &Diary,
    behave: &Behaviour,
) {
    while let Some(request) = read_request(&mut stream, number).await {
        diary.requests.lock().unwrap().push(request.clone());
        diary.news.notify_waiters();
        let mut byte = [0];
        match behave(&request) {
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
                tokio::select! {
                    _ = gate.wait_for(|is_open| *is_open) => {}
                    _ = stream.read(&mut byte) => return,
                }
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Nothing => {
                let _ = stream.read(&mut byte).await;
                return;
            }
            Reply::Flood(head, piece) => {
                let _ = stream.write_all(&head).await;
                while stream.write_all(&piece).await.is_ok() {}
                return;
            }
        }
    }
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin), connection: usize) -> Option<Request> {
    let mut buffer = Vec::with_capacity(1 << 20);
    let mut pieces = 0;
    loop {
        if stream.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
        pieces += 1;
        let raw = String::from_utf8(buffer.clone()).unwrap();
        let Some((head, body)) = raw.split_once("\r\n\r\n") else { continue };
        // Compared letter by letter, as the pickiest of them does.
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        if body.len() >= length.parse::<usize>().unwrap() {
            return Some(Request { raw, pieces, connection });
        }
    }
}

/// The way to executors, and what it hears.
pub(crate) struct Out {
    pub(crate) executors: Executors,
    heard: UnboundedReceiver<Vec<Heard>>,
    waiting: Vec<Heard>,
}

pub(crate) fn quick() -> Options {
    Options { answer_timeout: SOON, question_timeout: SOON, ..Options::default() }
}

impl Out {
    pub(crate) fn new() -> Out {
        Out::with(Options::default(), Some("global"))
    }

    pub(crate) fn with(options: Options, token: Option<&str>) -> Out {
        Out::guarded(options, token, Guard::new::<&str>(&[], true).unwrap())
    }

    pub(crate) fn guarded(options: Options, token: Option<&str>, guard: Guard) -> Out {
        let (sender, heard) = unbounded_channel();
        let setup = Setup {
            runtime: Handle::current(),
            options,
            guard,
            listed: Guard::default(),
            now: Arc::new(|| at(NOW)),
            sink: Arc::new(move |heard| drop(sender.send(heard))),
            access_token: token.map(Secret::new),
        };
        Out { executors: Executors::new(setup).unwrap(), heard, waiting: Vec::new() }
    }

    pub(crate) fn send(&self, run: Dispatched) {
        self.executors.send(vec![run]);
    }

    pub(crate) async fn hear(&mut self) -> Heard {
        while self.waiting.is_empty() {
            self.waiting = timeout(PATIENCE, self.heard.recv()).await.expect("nothing was heard").unwrap();
            self.waiting.reverse();
        }
        self.waiting.pop().unwrap()
    }

    pub(crate) fn try_hear(&mut self) -> Option<Heard> {
        if self.waiting.is_empty() {
            self.waiting = self.heard.try_recv().unwrap_or_default();
            self.waiting.reverse();
        }
        self.waiting.pop()
    }

    pub(crate) async fn report(&mut self) -> Report {
        match self.hear().await {
            Heard::Report(report) => report,
            other => panic!("expected a report: {other:?}"),
        }
    }

    pub(crate) async fn killed(&mut self) -> Killed {
        match self.hear().await {
            Heard::Killed(killed) => killed,
            other => panic!("expected a kill: {other:?}"),
        }
    }

    pub(crate) async fn probe(&mut self, probe: Probe) -> Probed {
        self.executors.probe(vec![probe]);
        match self.hear().await {
            Heard::Probed(probed) => probed,
            other => panic!("expected a probe: {other:?}"),
        }
    }

    /// Waits until nothing is on its way, and asserts that nothing more was told.
    pub(crate) async fn is_quiet(&mut self) {
        assert_eq!(self.executors.drain(PATIENCE).await, 0);
        let more = self.heard.try_recv();
        assert!(self.waiting.is_empty() && more.is_err(), "{more:?} {:?}", self.waiting);
    }
}

/// A job of executors.
pub(crate) fn executor_job(edit: impl FnOnce(&mut Definition)) -> Arc<Job> {
    job_of(Target::Executor(Executor::of("demo")), edit)
}

/// A run of a job for an executor; each call makes another one.
pub(crate) fn run_at(job: &Arc<Job>, address: Address) -> Dispatched {
    static LOGS: AtomicU64 = AtomicU64::new(1);
    let log = Some(LogId(LOGS.fetch_add(1, Ordering::SeqCst)));
    Dispatched { log, address: Some(Arc::new(address)), ..run_of(job) }
}

/// A run of a new job for an executor.
pub(crate) fn run_for(fake: &Fake) -> Dispatched {
    run_at(&executor_job(|_| {}), fake.address())
}

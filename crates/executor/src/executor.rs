//! The executor as a program sees it: what it offers, where nodes are, and running until it is told to stop.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_protocol::native::{CREDITS_MAX, FRAME_MAX, FromExecutor, Hello, VERSION};
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use crate::context::Context;
use crate::desk::{Desk, Event, Wishes};
use crate::handler::{self, Done, End, Failure, Rules};
use crate::session::{self, Identity};
use crate::url::Url;
use crate::{attempt, frames, surroundings};

/// Where a node is if nothing else is said.
const DEFAULT_URL: &str = "http://127.0.0.1:7070";
/// How many events are taken at once.
const BATCH: usize = 1_000;
/// How long the last goodbyes may take.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

type Told = Arc<dyn Fn(Notice) + Send + Sync>;

/// A process that offers handlers.
///
/// ```no_run
/// # use punctual_executor::{Context, Executor};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), punctual_executor::Invalid> {
/// Executor::new("reports")
///     .url("http://127.0.0.1:7070")
///     .handler("nightly", |_context: Context| async { Ok("42 rows") })
///     .run()
///     .await
/// # }
/// ```
pub struct Executor {
    app: String,
    urls: Vec<String>,
    token: Option<String>,
    name: Option<String>,
    capacity: u32,
    drain_within: Duration,
    tls: Option<TlsConnector>,
    told: Option<Told>,
    pub(crate) rules: Rules,
}

/// What happens between an executor and its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A session is open.
    Connected {
        /// Where.
        url: String,
        /// What the node calls itself.
        node: String,
    },
    /// A session is over; what runs goes on, and another is tried.
    Disconnected {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// No session came about; another is tried.
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
}

/// What an executor cannot run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

impl Executor {
    /// An executor of an app, without handlers yet.
    pub fn new(app: impl Into<String>) -> Executor {
        Executor {
            app: app.into(),
            urls: Vec::new(),
            token: None,
            name: None,
            capacity: 100,
            drain_within: Duration::from_secs(30),
            tls: None,
            told: None,
            rules: Rules {
                handlers: BTreeMap::new(),
                before: Vec::new(),
                after: Vec::new(),
                grace: Duration::from_secs(5),
            },
        }
    }

    /// Where a node is; may be said several times. One is enough: the others are learned from it.
    pub fn url(mut self, url: impl Into<String>) -> Executor {
        self.urls.push(url.into());
        self
    }

    /// The token that opens the nodes' doors.
    pub fn token(mut self, token: impl Into<String>) -> Executor {
        self.token = Some(token.into());
        self
    }

    /// Takes the address from `PUNCTUAL_URL` and the token from `PUNCTUAL_EXECUTOR_TOKEN`, as far as they are set and
    /// were not said already.
    pub fn environment(mut self) -> Executor {
        if self.urls.is_empty() {
            self.urls.extend(surroundings::variable("PUNCTUAL_URL"));
        }
        self.token = self.token.or_else(|| surroundings::variable("PUNCTUAL_EXECUTOR_TOKEN"));
        self
    }

    /// What people see; the host's name if nothing is said. Letters, digits, `.`, `_` and `-`.
    pub fn name(mut self, name: impl Into<String>) -> Executor {
        self.name = Some(name.into());
        self
    }

    /// How many runs are taken at once, from all nodes together; 100 if nothing is said.
    pub fn capacity(mut self, capacity: u32) -> Executor {
        self.capacity = capacity;
        self
    }

    /// How long a handler that was told to end has for it, and a hook after a run; 5 s if nothing is said.
    pub fn grace(mut self, grace: Duration) -> Executor {
        self.rules.grace = grace;
        self
    }

    /// How long what is running may go on when the executor stops; 30 s if nothing is said.
    pub fn drain_within(mut self, limit: Duration) -> Executor {
        self.drain_within = limit;
        self
    }

    /// How nodes with an https address are recognised, if the public authorities are not enough.
    pub fn tls(mut self, connector: TlsConnector) -> Executor {
        self.tls = Some(connector);
        self
    }

    /// A handler: an async function that is called for each run. A second one of the same name replaces the first.
    ///
    /// It must not block: what computes for long belongs into `tokio::task::spawn_blocking`.
    pub fn handler<F, R, D>(mut self, name: impl Into<String>, function: F) -> Executor
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<D, Failure>> + Send + 'static,
        D: Into<Done>,
    {
        let name = name.into();
        self.rules.handlers.insert(name.clone(), Arc::new(handler::plain(name, function)));
        self
    }

    /// A handler that takes the payload as a type of its own. A payload that does not fit fails the attempt, and is not
    /// tried again.
    pub fn typed<P, F, R, D>(mut self, name: impl Into<String>, function: F) -> Executor
    where
        P: DeserializeOwned + 'static,
        F: Fn(Context, P) -> R + Send + Sync + 'static,
        R: Future<Output = Result<D, Failure>> + Send + 'static,
        D: Into<Done>,
    {
        let name = name.into();
        self.rules.handlers.insert(name.clone(), Arc::new(handler::typed(name, function)));
        self
    }

    /// Called before each run, in its time; a failure is the run's.
    pub fn before<F, R>(mut self, hook: F) -> Executor
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.rules.before.push(Box::new(move |context| Box::pin(hook(context))));
        self
    }

    /// Called after each run, however it ended, and before it is reported.
    pub fn after<F, R>(mut self, hook: F) -> Executor
    where
        F: Fn(Context, End) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.rules.after.push(Box::new(move |context, end| Box::pin(hook(context, end))));
        self
    }

    /// Called when something happens between the executor and its nodes. It must not block.
    pub fn notice(mut self, told: impl Fn(Notice) + Send + Sync + 'static) -> Executor {
        self.told = Some(Arc::new(told));
        self
    }

    /// Runs for ever, unless it cannot begin.
    pub async fn run(self) -> Result<(), Invalid> {
        self.run_until(std::future::pending()).await
    }

    /// Runs until the future is ready. Then it takes nothing more, lets what is running end, waits until nodes have
    /// written down how, and says goodbye. Whoever drops this instead leaves without a word: what was running is lost,
    /// and tried again elsewhere.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), Invalid> {
        let urls = self.addresses()?;
        let (events, inbox) = unbounded_channel();
        let mut desk = Desk::new(self.capacity, self.rules.grace, self.drain_within, events.clone());
        urls.into_iter().for_each(|url| desk.name_node(url));
        let identity = Identity {
            hello: self.hello()?,
            token: self.authorization()?,
            tls: self.tls.unwrap_or_else(public_authorities),
            rules: Arc::new(self.rules),
            events,
        };
        let (stopping, stop) = watch::channel(false);
        let mut links = Links { identity: Arc::new(identity), stop, tasks: JoinSet::new(), told: self.told };
        attend(&mut desk, inbox, &mut links, shutdown).await;
        desk.leave();
        stopping.send_replace(true);
        let all_gone = async { while links.tasks.join_next().await.is_some() {} };
        let _ = timeout(GOODBYE_WITHIN, all_gone).await;
        Ok(())
    }

    fn addresses(&self) -> Result<Vec<Url>, Invalid> {
        let mut urls = Vec::new();
        let default = [DEFAULT_URL.to_owned()];
        let named = if self.urls.is_empty() { &default[..] } else { &self.urls };
        for url in named {
            let url = Url::parse(url).map_err(Invalid)?;
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        Ok(urls)
    }

    fn hello(&self) -> Result<Hello, Invalid> {
        if self.rules.handlers.is_empty() {
            return Err(Invalid("there are no handlers".into()));
        }
        if !(1..=CREDITS_MAX).contains(&self.capacity) {
            return Err(Invalid(format!("capacity: {}, expected 1 to {CREDITS_MAX}", self.capacity)));
        }
        let hello = Hello {
            version: VERSION,
            app: self.app.clone(),
            executor: self.name.clone().unwrap_or_else(surroundings::host),
            instance: format!("{:016x}", surroundings::bits()),
            handlers: self.rules.handlers.keys().cloned().collect(),
            capacity: self.capacity,
            client: concat!("punctual-rust/", env!("CARGO_PKG_VERSION")).into(),
            holds: Vec::new(),
        };
        // The node would say the same, but later and elsewhere.
        let text = frames::text(&FromExecutor::Hello(hello.clone()));
        if text.len() > FRAME_MAX / 2 {
            return Err(Invalid(format!("the names of the handlers are too long: {} bytes", text.len())));
        }
        FromExecutor::read(&text).map_err(|refusal| Invalid(refusal.reason))?;
        Ok(hello)
    }

    fn authorization(&self) -> Result<Option<HeaderValue>, Invalid> {
        let Some(token) = &self.token else { return Ok(None) };
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| Invalid("the token has characters that no token has".into()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// The links to nodes, and what they are made with.
struct Links {
    identity: Arc<Identity>,
    stop: watch::Receiver<bool>,
    tasks: JoinSet<()>,
    told: Option<Told>,
}

impl Links {
    fn fulfil(&mut self, wishes: Wishes) {
        for context in wishes.starts {
            let identity = self.identity.clone();
            // It is awaited by what it tells the desk at its end.
            tokio::spawn(async move {
                attempt::perform(context, &identity.rules, identity.events.clone()).await;
            });
        }
        for (link, url) in wishes.links {
            self.tasks.spawn(session::keep(link, url, self.identity.clone(), self.stop.clone()));
        }
        if let Some(told) = &self.told {
            wishes.notices.into_iter().for_each(|notice| told(notice));
        }
    }
}

/// Takes events until there is nothing left to wait for.
async fn attend(
    desk: &mut Desk,
    mut inbox: UnboundedReceiver<Event>,
    links: &mut Links,
    shutdown: impl Future<Output = ()>,
) {
    tokio::pin!(shutdown);
    let mut batch = Vec::with_capacity(BATCH);
    let mut is_stopping = false;
    while !desk.is_drained() {
        links.fulfil(desk.finish(Instant::now()));
        while links.tasks.try_join_next().is_some() {}
        let wake = desk.next();
        tokio::select! {
            _ = inbox.recv_many(&mut batch, BATCH) => {}
            () = &mut shutdown, if !is_stopping => {
                is_stopping = true;
                desk.drain(Instant::now());
            }
            () = async { sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => {
                desk.wake(Instant::now());
            }
        }
        let now = Instant::now();
        batch.drain(..).for_each(|event| desk.take(now, event));
    }
    links.fulfil(desk.finish(Instant::now()));
}

fn public_authorities() -> TlsConnector {
    let roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows today's protocols")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

//! The executor as a program sees it: its handlers, the addresses of nodes, and running until it is stopped.

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
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use crate::context::Context;
use crate::coordinator::{Actions, Coordinator, Event};
use crate::handler::{self, AttemptEnd, Done, Failure, Rules};
use crate::session::{self, Identity};
use crate::url::Url;
use crate::{attempt, frames, surroundings};

/// The address of the node if the program names none.
const DEFAULT_URL: &str = "http://127.0.0.1:7070";
/// Events that are taken at once.
const BATCH: usize = 1_000;
/// How long the last goodbyes may take.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

type NoticeFn = Arc<dyn Fn(Notice) + Send + Sync>;

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
    on_notice: Option<NoticeFn>,
    pub(crate) rules: Rules,
}

/// A change in the sessions between an executor and its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A session was opened.
    Connected {
        /// Where.
        url: String,
        /// The node's name.
        node: String,
    },
    /// A session ended. Running attempts go on, and a new session is tried.
    Disconnected {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// No session could be opened. It is tried again.
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
}

/// A setting that an executor cannot run with.
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
            on_notice: None,
            rules: Rules {
                handlers: BTreeMap::new(),
                before: Vec::new(),
                after: Vec::new(),
                grace: Duration::from_secs(5),
            },
        }
    }

    /// The address of a node; may be called several times. One is enough: the executor learns the others from it.
    pub fn url(mut self, url: impl Into<String>) -> Executor {
        self.urls.push(url.into());
        self
    }

    /// The token that nodes ask for.
    pub fn token(mut self, token: impl Into<String>) -> Executor {
        self.token = Some(token.into());
        self
    }

    /// Takes the address from `PUNCTUAL_URL` and the token from `PUNCTUAL_EXECUTOR_TOKEN`, unless the program has set them
    /// already.
    pub fn environment(mut self) -> Executor {
        if self.urls.is_empty() {
            self.urls.extend(surroundings::variable("PUNCTUAL_URL"));
        }
        self.token = self.token.or_else(|| surroundings::variable("PUNCTUAL_EXECUTOR_TOKEN"));
        self
    }

    /// The executor's name for people; the host's name by default. Letters, digits, `.`, `_` and `-`.
    pub fn name(mut self, name: impl Into<String>) -> Executor {
        self.name = Some(name.into());
        self
    }

    /// How many runs are taken at once, from all nodes together; 100 by default.
    pub fn capacity(mut self, capacity: u32) -> Executor {
        self.capacity = capacity;
        self
    }

    /// How long a handler may take to end after a cancel, and a hook after a run; 5 s by default.
    pub fn grace(mut self, grace: Duration) -> Executor {
        self.rules.grace = grace;
        self
    }

    /// How long running attempts may go on when the executor stops; 30 s by default.
    pub fn drain_within(mut self, limit: Duration) -> Executor {
        self.drain_within = limit;
        self
    }

    /// TLS settings for nodes with an https address; by default the public certificate authorities are trusted.
    pub fn tls(mut self, connector: TlsConnector) -> Executor {
        self.tls = Some(connector);
        self
    }

    /// Adds a handler: an async function that is called for each run. A second one of the same name replaces the first.
    ///
    /// It must not block: put long computations into `tokio::task::spawn_blocking`.
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

    /// Adds a handler that takes the payload as a type. A payload that does not fit fails the attempt without a retry.
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

    /// Adds a hook that is called before each run, within the run's timeout. If it fails, the run fails.
    pub fn before<F, R>(mut self, hook: F) -> Executor
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.rules.before.push(Box::new(move |context| Box::pin(hook(context))));
        self
    }

    /// Adds a hook that is called after each run, however it ended, before it is reported.
    pub fn after<F, R>(mut self, hook: F) -> Executor
    where
        F: Fn(Context, AttemptEnd) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.rules.after.push(Box::new(move |context, end| Box::pin(hook(context, end))));
        self
    }

    /// Sets a function that is called when a session opens or ends. It must not block.
    pub fn notice(mut self, on_notice: impl Fn(Notice) + Send + Sync + 'static) -> Executor {
        self.on_notice = Some(Arc::new(on_notice));
        self
    }

    /// Runs for ever; returns only if a setting is invalid.
    pub async fn run(self) -> Result<(), Invalid> {
        self.run_until(std::future::pending()).await
    }

    /// Runs until the future is ready. Then it takes no more runs, lets running attempts end, waits until nodes have kept
    /// their reports, and says goodbye. Dropping this future instead ends the sessions without a goodbye: running attempts
    /// are lost and tried again by other executors.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), Invalid> {
        let urls = self.addresses()?;
        let (events, inbox) = unbounded_channel();
        let mut coordinator =
            Coordinator::new(self.capacity, self.rules.grace, self.drain_within, events.clone());
        urls.into_iter().for_each(|url| coordinator.name_node(url));
        let identity = Identity {
            hello: self.hello()?,
            token: self.authorization()?,
            tls: self.tls.unwrap_or_else(public_authorities),
            rules: Arc::new(self.rules),
            events,
        };
        let (stopping, stop) = watch::channel(false);
        let mut links =
            Links { identity: Arc::new(identity), stop, tasks: JoinSet::new(), on_notice: self.on_notice };
        take_events(&mut coordinator, inbox, &mut links, shutdown).await;
        coordinator.leave();
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
        // The node checks the same, but there the error would appear later and in another place.
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

/// The links to nodes, and what is needed to open them.
struct Links {
    identity: Arc<Identity>,
    stop: watch::Receiver<bool>,
    tasks: JoinSet<()>,
    on_notice: Option<NoticeFn>,
}

impl Links {
    fn carry_out(&mut self, actions: Actions) {
        for context in actions.starts {
            let identity = self.identity.clone();
            // Not joined: the coordinator waits for its report instead.
            tokio::spawn(async move {
                attempt::perform(context, &identity.rules, identity.events.clone()).await;
            });
        }
        for (link, url) in actions.links {
            self.tasks.spawn(session::keep(link, url, self.identity.clone(), self.stop.clone()));
        }
        if let Some(on_notice) = &self.on_notice {
            actions.notices.into_iter().for_each(|notice| on_notice(notice));
        }
    }
}

/// Takes events until a clean stop is complete.
async fn take_events(
    coordinator: &mut Coordinator,
    mut inbox: UnboundedReceiver<Event>,
    links: &mut Links,
    shutdown: impl Future<Output = ()>,
) {
    tokio::pin!(shutdown);
    let mut batch = Vec::with_capacity(BATCH);
    let mut is_stopping = false;
    while !coordinator.is_drained() {
        links.carry_out(coordinator.finish(surroundings::instant()));
        while links.tasks.try_join_next().is_some() {}
        let wake = coordinator.next();
        tokio::select! {
            _ = inbox.recv_many(&mut batch, BATCH) => {}
            () = &mut shutdown, if !is_stopping => {
                is_stopping = true;
                coordinator.drain(surroundings::instant());
            }
            () = surroundings::sleep_until(wake.unwrap_or_else(surroundings::instant)), if wake.is_some() => {
                coordinator.wake(surroundings::instant());
            }
        }
        let now = surroundings::instant();
        batch.drain(..).for_each(|event| coordinator.take(now, event));
    }
    links.carry_out(coordinator.finish(surroundings::instant()));
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

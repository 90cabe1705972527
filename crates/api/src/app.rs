//! What the API needs from the rest of the node, and the state that it keeps itself.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use calendar::{Timestamp, Zones};
use http::request::Parts;
use punctual_core::model::{ChangeId, Http};
use punctual_core::policy::Classes;
use punctual_core::registry::Secret;
use punctual_node::Node;
use punctual_node::ports::{Browse, Digest, Door, Entropy, Logs};
use punctual_observe::EventLog;
use punctual_protocol::Configuration;

use crate::approach::{Approach, Proxies};
use crate::budget::{Budgets, Limits, Load};
use crate::bulk::Bulks;
use crate::caller::{Strangers, Tokens};
use crate::clock;
use crate::convert::apps::{AppNames, JobNames};
use crate::executors::Executors;
use crate::forecast::Forecasts;
use crate::logs::Logbook;
use crate::others::{AllFigures, Others};
use crate::problem::Problem;
use crate::relay::Relays;
use crate::router::RequestIds;
use crate::session::Sessions;
use crate::table::Permission;

/// How long a caller waits for a change to be in force on every node.
const IN_FORCE_WITHIN: Duration = Duration::from_millis(1_500);

/// How often that is checked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Says what is wrong with a target: JSON pointers into the job (such as `/target/url`), and reasons.
pub type CheckTarget = dyn Fn(&Http) -> Vec<(String, String)> + Send + Sync;

/// Everything the front door needs from outside.
#[derive(Clone)]
pub struct App {
    /// Where commands go.
    pub node: Arc<Node>,
    /// Where jobs and runs are read.
    pub browse: Arc<dyn Browse>,
    /// Where tokens and answers are kept.
    pub door: Arc<dyn Door>,
    /// Where logs of attempts are kept.
    pub logs: Arc<dyn Logs>,
    /// The way to apps and executors.
    pub executors: Arc<dyn Executors>,
    /// The zones of schedules.
    pub zones: Arc<Zones>,
    /// Randomness for tokens and request numbers.
    pub entropy: Arc<dyn Entropy>,
    /// Called after every command, so that the loops look at once.
    pub nudge: Arc<dyn Fn() + Send + Sync>,
    /// Checks what only the dispatch can check: the address of a target.
    pub check_target: Arc<CheckTarget>,
    /// The metrics as Prometheus text, with what the front door holds.
    pub metrics: Arc<dyn Fn(Load) -> String + Send + Sync>,
    /// Whether this node can do its work, or why not.
    pub is_ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// The way to the other nodes.
    pub others: Arc<dyn Others>,
    /// The secret that nodes show each other; none if there are no other nodes.
    pub peer_secret: Option<Digest>,
    /// How it behaves.
    pub settings: Settings,
    /// The events of this node.
    pub events: EventLog,
}

/// How the front door behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The longest payload of a run, in bytes.
    pub payload_max: usize,
    /// The longest body of a request, in bytes.
    pub body_max: usize,
    /// The longest body of a batch of runs, in bytes.
    pub batch_max: usize,
    /// How many bytes and streams callers may hold at once.
    pub limits: Limits,
    /// Whether `/metrics` needs no token.
    pub opens_metrics: bool,
    /// Whether `/openapi.json` needs no token.
    pub opens_document: bool,
    /// How many calls without a valid token one address may make in 15 minutes.
    pub strangers_max: u32,
    /// The access token of executors whose app has none of its own. Without it, only executors on this machine are
    /// let in.
    pub access_token: Option<Secret>,
    /// Whether executors on this machine need no token where none is set.
    pub trusts_loopback: bool,
    /// The proxies whose headers about the client are believed.
    pub proxies: Proxies,
    /// Whether an app may have the token that XXL-JOB ships with.
    pub allows_default_token: bool,
    /// Whether jobs may bring scripts.
    pub allows_scripts: bool,
    /// The classes that jobs may have.
    pub classes: Classes,
    /// How long runs that have ended are kept; only shown.
    pub keeps_runs: Duration,
    /// How long keys of runs that have ended are kept; only shown.
    pub keeps_keys: Duration,
    /// The configuration of the node; only shown.
    pub configuration: Configuration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            payload_max: 1 << 20,
            body_max: (1 << 20) + (1 << 18),
            batch_max: 64 << 20,
            limits: Limits::default(),
            opens_metrics: false,
            opens_document: false,
            strangers_max: 100,
            access_token: None,
            trusts_loopback: true,
            proxies: Proxies::default(),
            allows_default_token: false,
            allows_scripts: false,
            classes: Classes::default(),
            keeps_runs: Duration::from_secs(30 * 86_400),
            keeps_keys: Duration::from_secs(86_400),
            configuration: Configuration::default(),
        }
    }
}

/// The token that nodes show each other, as text.
pub fn peer_token(secret: &Digest) -> String {
    format!("pcn_{}", BASE64_URL_SAFE_NO_PAD.encode(secret))
}

/// The parts of the node that the API uses, and what the API remembers between requests.
pub(crate) struct Front {
    pub(crate) app: App,
    pub(crate) request_ids: RequestIds,
    pub(crate) tokens: Tokens,
    pub(crate) strangers: Strangers,
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) apps: AppNames,
    pub(crate) document: Bytes,
    pub(crate) sessions: Sessions,
    /// Every operation that people may ask for, and the permission that it needs.
    pub(crate) operations: Vec<(&'static str, Permission)>,
    pub(crate) names: JobNames,
    pub(crate) forecasts: Forecasts,
    pub(crate) bulks: Bulks,
    pub(crate) figures: AllFigures,
    pub(crate) relays: Relays,
}

impl std::ops::Deref for Front {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl Front {
    /// The cluster's time.
    pub(crate) fn now(&self) -> Result<Timestamp, Problem> {
        let unknown = || Problem::unavailable("this node has not joined yet; try again in a moment");
        self.node.now().ok_or_else(unknown)
    }

    /// Where a request comes from.
    pub(crate) fn approach(&self, parts: &Parts) -> Approach {
        let Settings { proxies, trusts_loopback, .. } = &self.settings;
        Approach::of(parts.extensions.get().copied(), &parts.headers, proxies, *trusts_loopback)
    }

    /// Whether this is the token that nodes of this cluster show each other.
    pub(crate) fn is_peer(&self, shown: &str) -> bool {
        let expected = self.peer_secret.as_ref().map(peer_token);
        expected
            .is_some_and(|expected| verify_slices_are_equal(expected.as_bytes(), shown.as_bytes()).is_ok())
    }

    /// The logs of attempts.
    pub(crate) fn logbook(&self) -> Logbook {
        let node = Arc::clone(&self.node);
        let now = Arc::new(move || node.now());
        Logbook::new(Arc::clone(&self.browse), Arc::clone(&self.logs), Arc::clone(&self.executors), now)
    }

    /// Waits until no node sends by the state before the change any more.
    pub(crate) async fn wait_in_force(&self, change: ChangeId) -> Result<(), Problem> {
        (self.nudge)();
        let late = clock::instant() + IN_FORCE_WITHIN;
        loop {
            if self.node.is_in_force(change).await? {
                return Ok(());
            }
            if clock::instant() >= late {
                let said = "the change is saved, but not yet confirmed by every node; it takes effect within one \
                            lease term. Repeating the request is safe";
                return Err(Problem::unavailable(said));
            }
            clock::sleep(ASK_EVERY).await;
        }
    }

    /// Waits for something that another node was asked to do; none if it was not done in time.
    pub(crate) async fn wait_for<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<Option<T>, Problem>
    where
        F: Future<Output = Result<Option<T>, Problem>>,
    {
        let late = clock::instant() + IN_FORCE_WITHIN;
        loop {
            let found = ask().await?;
            if found.is_some() || clock::instant() >= late {
                return Ok(found);
            }
            clock::sleep(ASK_EVERY).await;
        }
    }
}

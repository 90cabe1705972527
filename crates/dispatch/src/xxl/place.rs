//! A place: an executor's address, parsed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_core::registry::{Dialect, Secret};
use punctual_node::ports::Address;
use url::{Position, Url};

use super::line::Call;
use crate::connect::Origin;
use crate::guard;
use crate::http::pool::{Host, Pool};

/// Where an executor is.
pub(super) struct Place {
    /// The queue of attempts for its host.
    pub(super) runs: Arc<Host<Call>>,
    /// The queue of everything else.
    pub(super) questions: Arc<Host<Call>>,
    /// The value of `Host` in requests.
    pub(super) host: String,
    /// The prefix of every path.
    pub(super) prefix: String,
    /// Whether the executor was found to take attempts by the other name of the path.
    wants_other_path: AtomicBool,
}

impl Place {
    /// Parses an address.
    pub(super) fn new(address: &Address, runs: &Pool<Call>, questions: &Pool<Call>) -> Result<Place, String> {
        let (app, is_listed, address) = (&*address.app, address.is_listed, &*address.url);
        let wrong = |reason: &dyn std::fmt::Display| {
            format!("{address} is no address of an executor: {reason}; expected http://host:port")
        };
        let url = Url::parse(address.trim()).map_err(|error| wrong(&error))?;
        guard::judge_shape(&url).map_err(|refusal| wrong(&refusal))?;
        let origin = Origin::of(&url).ok_or_else(|| wrong(&"it names no host"))?.strict(is_listed);
        Ok(Place {
            runs: runs.host(app, origin.clone()),
            questions: questions.host(app, origin),
            host: url[Position::BeforeHost..Position::AfterPort].to_owned(),
            prefix: url.path().trim_end_matches('/').to_owned(),
            wants_other_path: AtomicBool::new(false),
        })
    }

    /// The path by which attempts are sent.
    pub(super) fn run_path(&self, address: &Address) -> RunPath {
        let usual = if address.dialect == Dialect::Trigger { RunPath::Trigger } else { RunPath::Run };
        if self.wants_other_path.load(Ordering::Relaxed) { usual.other() } else { usual }
    }

    /// Remembers that the other path was the right one.
    pub(super) fn change_path(&self) {
        self.wants_other_path.fetch_not(Ordering::Relaxed);
    }
}

/// The path by which an executor takes attempts: the newer name came with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunPath {
    Run,
    Trigger,
}

impl RunPath {
    pub(super) fn other(self) -> RunPath {
        match self {
            RunPath::Run => RunPath::Trigger,
            RunPath::Trigger => RunPath::Run,
        }
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            RunPath::Run => "/run",
            RunPath::Trigger => "/trigger",
        }
    }
}

/// The token that an executor expects: its app's own, or the one for all apps. An empty token counts as none, and an
/// unknown executor is shown no token.
pub(super) fn token<'a>(address: &'a Address, global: Option<&'a Secret>) -> Option<&'a str> {
    let said = |secret: &'a Secret| Some(secret.expose()).filter(|token| !token.is_empty());
    let token = address.access_token.as_deref().and_then(said).or_else(|| global.and_then(said));
    token.filter(|_| address.is_known)
}

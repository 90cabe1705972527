//! Apps and executors as this node knows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::Text;
use punctual_core::policy::route::Routes;
use punctual_core::registry::Registry;
use rustc_hash::FxHashMap;

use crate::desk::AccessTokens;
use crate::doubt::Doubts;
use crate::natives::Natives;
use crate::ports::Paused;
use crate::seek::Crew;

/// Apps and executors.
#[derive(Default)]
pub(crate) struct KnownExecutors {
    pub(crate) registry: Registry,
    /// The tokens of those apps that have one of their own; none before they were first read.
    pub(crate) tokens: Option<Arc<AccessTokens>>,
    /// The executors of apps as they were when last chosen from, each list with the registry's version.
    pub(crate) crews: FxHashMap<Text, (u64, Crew)>,
    /// The versions of apps, as far as they are known.
    pub(crate) versions: BTreeMap<Text, u64>,
    /// How long apps keep their runs, where they say so.
    pub(crate) retentions: BTreeMap<Text, Duration>,
    /// Which apps are paused.
    pub(crate) paused: BTreeMap<Text, Paused>,
    /// Which executor was last chosen.
    pub(crate) routes: Routes,
    /// Executors that have a session here.
    pub(crate) natives: Natives,
    /// Doubts about attempts that executors have.
    pub(crate) doubts: Doubts,
    /// Whether it was told that there are too many executors.
    pub(crate) is_crowded: bool,
    /// How many executors were asked so far whether they are there.
    pub(crate) probed_up_to: usize,
    /// When runs that wait for executors which are there last asked again.
    pub(crate) recalled_at: Option<Timestamp>,
}

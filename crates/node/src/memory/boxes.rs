//! The two boxes of a node: what came in and waits for a step, and what goes out when a step is done.

use std::collections::BTreeMap;

use punctual_core::event::Event;
use punctual_core::model::{JobId, RunId};

use crate::reports::ReportQueue;
use crate::wakes::Wakes;

/// What came in.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) reports: ReportQueue,
    /// Runs whose reports the settling step has in hand, as far as the senders may report them.
    pub(crate) settling: Vec<RunId>,
    /// Whether the firing step has found that a run cannot go on before a report about it is settled.
    pub(crate) is_awaited: bool,
    /// Runs that other nodes have settled, or written for this one.
    pub(crate) heard_of: Vec<RunId>,
    /// How many requests are under way about runs that may be nowhere in memory meanwhile.
    pub(crate) asking: u32,
    /// Whether something was left for a shard of this node.
    pub(crate) has_arrivals: bool,
    /// Deleted jobs that are being emptied, each with the last run that was looked at.
    pub(crate) retiring: BTreeMap<JobId, RunId>,
}

/// What goes out.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) events: Vec<Event>,
    /// Steps that have become due.
    pub(crate) wakes: Wakes,
}

//! Observation of a node: metrics for scrapers, events for listeners, and figures for charts. It reads events, and
//! never calls the node.

mod events;
mod metrics;
mod rollup;

pub use events::{Elsewhere, EventLog, RingEntry, Told, app_of, job_of};
pub use metrics::{Figures, Metrics};
pub use rollup::{
    BINS, Behind, EndedRun, NodeFigures, OutcomeTally, RECENT_MAX, Rollup, STEP_MS, Stretches, together,
};

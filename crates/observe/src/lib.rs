//! What a node tells: figures for whoever scrapes them. Reads events, and never calls back.

mod metrics;

pub use metrics::{Figures, Metrics};

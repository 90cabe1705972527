//! Clusters of the real binary under faults, and the checker of their histories.
//!
//! A [`campaign::Campaign`] is a cluster under load. [`breaking`] has the ways to break it. At the end [`check`] judges what
//! clients, the agent and the cluster recorded.
#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

pub mod breaking;
pub mod campaign;
pub mod check;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod dice;
pub mod dump;
pub mod flood;
pub mod history;
pub mod node;
pub mod proxy;
pub mod receipts;
pub mod report;
pub mod sets;
pub mod workload;

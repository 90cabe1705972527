//! Clusters of the real binary with everything breaking around them, and the checker of what they leave.
//!
//! A [`campaign::Campaign`] is a cluster at work. [`breaking`] has the ways to break it. In the end [`check`] judges what
//! clients, the agent and the cluster wrote down.
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

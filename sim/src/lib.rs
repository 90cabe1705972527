//! Whole clusters in one process on a virtual clock: nodes, a store that fails, a network that loses messages, executors
//! that lie, and a checker that shares no code with the engine.
//!
//! A world is decided by one number, the seed. [`WorldSetup`](setup::WorldSetup) derives the nodes, jobs and faults from it;
//! [`World`](world::World) runs them; [`Checker`](check::Checker) reports broken promises. A world that fails is shrunk by
//! leaving out parts of its setup.
#![warn(missing_docs)]

pub mod check;
pub mod counters;
pub mod dice;
pub mod executors;
pub mod faults;
pub mod link;
pub mod planted;
pub mod setup;
pub mod shrink;
pub mod store;
pub mod sweep;
pub mod workload;
pub mod world;

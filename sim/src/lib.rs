//! Whole clusters in one process on a virtual clock: nodes, a store that fails, a network that loses, executors that
//! lie, and a checker that shares no code with the engine.
//!
//! A world is decided by one number. [`WorldSetup`](setup::WorldSetup) says from it what there is and what goes wrong and when;
//! [`World`](world::World) lets it happen; [`Checker`](check::Checker) says what was promised and not kept. A world
//! that fails is shrunk by leaving out parts of its setup.
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

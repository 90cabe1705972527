//! What should happen, as pure decisions: no async, no I/O, no clock, no randomness.

pub mod cluster;
pub mod due;
pub mod engine;
pub mod event;
pub mod model;
pub mod policy;
pub mod rank_set;
pub mod registry;
pub mod wheel;

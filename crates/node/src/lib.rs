//! The steps of a node: ask the core what should happen, write it down, then do it.

pub mod ports;

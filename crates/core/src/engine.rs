//! The engine: which instants become runs, what goes next, what follows from an end, and from silence.
//!
//! Each file has the name of the step that asks it. Nothing here waits, writes or looks at a clock.

pub mod fire;
pub mod plan;
pub mod reap;
pub mod settle;

#[cfg(test)]
mod samples;

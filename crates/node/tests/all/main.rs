//! The steps of a node, called by hand on a clock that only the test moves.

mod executors;
mod house;
mod natives;
mod steps;

//! The steps of a node, called by hand on a clock that only the test moves.

mod ahead;
mod backlog;
mod callbacks;
mod change;
mod cluster;
mod executors;
mod flow;
mod forgery;
mod herds;
mod house;
mod natives;
mod own;
mod steps;
mod truth;

//! Executors that other people wrote, as published, against the real binary: they register, get runs and report.
//!
//! Most scenarios are the same for each of them and are played by all at once, in front of one server. Where they
//! differ, a table says how, and none of its rows is a wish: they were measured (`tests/executors/README.md`).
#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

mod absence;
mod blocking;
mod broadcast;
mod ending;
mod kind;
mod logs;
mod misbehaving;
mod stage;
mod tokens;
mod working;

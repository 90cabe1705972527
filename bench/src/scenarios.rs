//! The scenarios, one file each.

mod cron;
mod engine;
mod executors;
mod herd;
mod insert;
mod load_close;
mod plan;
mod timers;
mod wheel;

use std::future::Future;
use std::path::PathBuf;

use crate::{Failure, Figures, Sizes};

pub use timers::fill as fill_timers;

/// What a scenario is run with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How much.
    pub sizes: Sizes,
    /// Where folders for databases are made.
    pub dir: PathBuf,
    /// The program that fills a database in a process of its own, so that this one's memory stays clean; none to do it
    /// here.
    pub program: Option<PathBuf>,
    /// The program `punctual`, for scenarios that measure a whole node.
    pub punctual: Option<PathBuf>,
}

/// A scenario.
pub type Scenario = fn(&Setup) -> Figures;

/// Every scenario by its name.
pub const ALL: &[(&str, Scenario)] = &[
    ("insert", insert::run),
    ("load_close", load_close::run),
    ("plan", plan::run),
    ("wheel", wheel::run),
    ("timers", timers::run),
    ("cron", cron::run),
    ("engine", engine::run),
    ("herd", herd::herd),
    ("execute", herd::execute),
    ("xxl", executors::xxl),
    ("native", executors::native),
];

/// Runs a future on this thread. What is measured has its own threads; the loops need no more than one.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

//! The scenarios, one file each.

mod abuse;
mod backlog;
mod browse;
mod cancel;
mod cron;
mod engine;
mod executors;
mod flood;
mod herd;
mod insert;
mod lag;
mod load_close;
mod plan;
mod restart;
mod scaling;
mod stage;
mod starve;
mod stored;
mod submit;
mod tick;
mod timers;
mod wheel;

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use crate::database::{Database, Wanted};
use crate::place::Place;
use crate::rows::Order;
use crate::{Failure, Figures, Sizes};

pub use timers::fill as fill_timers;

/// What a scenario is run with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How much.
    pub sizes: Sizes,
    /// Where runs are kept, for scenarios that can be asked.
    pub database: Wanted,
    /// In which order one-shots are due, for scenarios that can be asked.
    pub orders: Vec<Order>,
    /// Where folders for databases are made.
    pub dir: PathBuf,
    /// The program that fills a database in a process of its own, so that this one's memory stays clean; none to do it
    /// here.
    pub program: Option<PathBuf>,
    /// The program `punctual`, for scenarios that measure a whole node.
    pub punctual: Option<PathBuf>,
}

impl Setup {
    /// The smallest there is, on the embedded store: for tests.
    pub fn tiny(dir: PathBuf) -> Setup {
        Setup {
            sizes: Sizes::tiny(),
            database: Wanted::Embedded,
            orders: Order::ALL.to_vec(),
            dir,
            program: None,
            punctual: None,
        }
    }

    /// Makes the database ready that was asked for.
    fn start(&self, name: &str) -> Result<Database, Failure> {
        Database::start(&self.database, Place::make(&self.dir, name)?)
    }

    /// How long it takes at most to fill a store with so many one-shots. An idle machine with two cores writes half a million a
    /// second to a file, and a server that shares it takes a hundred and twenty thousand.
    fn filling(&self, count: u64) -> Duration {
        let rate = if matches!(self.database, Wanted::Embedded) { 200_000 } else { 50_000 };
        Duration::from_secs(count / rate)
    }

    /// Runs a future as long as it takes. What is embedded has its own threads; who asks a server has as many as a node.
    fn block_on<T>(&self, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        match self.database {
            Wanted::Embedded => block_on(future),
            _ => tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future),
        }
    }
}

/// A scenario.
pub type Scenario = fn(&Setup) -> Figures;

/// Every scenario by its name.
pub const ALL: &[(&str, Scenario)] = &[
    ("insert", insert::run),
    ("load_close", load_close::run),
    ("plan", plan::run),
    ("tick", tick::run),
    ("wheel", wheel::run),
    ("timers", timers::run),
    ("cron", cron::run),
    ("engine", engine::run),
    ("herd", herd::herd),
    ("execute", herd::execute),
    ("xxl", executors::xxl),
    ("native", executors::native),
    ("submit", submit::run),
    ("lag", lag::run),
    ("cancel", cancel::run),
    ("restart", restart::run),
    ("stored", stored::run),
    ("sustained", stored::sustained),
    ("flood", flood::run),
    ("backlog", backlog::run),
    ("starve", starve::run),
    ("browse", browse::run),
    ("scaling", scaling::run),
    ("abuse", abuse::run),
];

/// Runs a future on this thread. What is measured has its own threads; the loops need no more than one.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

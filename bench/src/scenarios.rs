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

use crate::database::{Database, DatabaseChoice};
use crate::place::DatabaseFolder;
use crate::rows::Order;
use crate::{BenchError, Figures, Sizes};

pub use timers::fill as fill_timers;

/// What a scenario is run with.
#[derive(Clone, Debug)]
pub struct BenchSetup {
    /// The sizes.
    pub sizes: Sizes,
    /// The database, for scenarios that take one.
    pub database: DatabaseChoice,
    /// The orders of due times, for scenarios that take them.
    pub orders: Vec<Order>,
    /// The parent of the folders for databases.
    pub dir: PathBuf,
    /// The program that fills a database in a process of its own, so that the memory of this one is not counted; none to fill
    /// it in this process.
    pub program: Option<PathBuf>,
    /// The program `punctual`, for scenarios that measure a whole node.
    pub punctual: Option<PathBuf>,
}

impl BenchSetup {
    /// The smallest sizes on the embedded store, for tests.
    pub fn tiny(dir: PathBuf) -> BenchSetup {
        BenchSetup {
            sizes: Sizes::tiny(),
            database: DatabaseChoice::Embedded,
            orders: Order::ALL.to_vec(),
            dir,
            program: None,
            punctual: None,
        }
    }

    /// Starts the database.
    fn start(&self, name: &str) -> Result<Database, BenchError> {
        Database::start(&self.database, DatabaseFolder::make(&self.dir, name)?)
    }

    /// An upper bound of the time to fill a store with `count` one-shots. An idle machine with two cores writes half a million
    /// a second to a file; a server on the same machine takes 120,000.
    fn filling(&self, count: u64) -> Duration {
        let rate = if matches!(self.database, DatabaseChoice::Embedded) { 200_000 } else { 50_000 };
        Duration::from_secs(count / rate)
    }

    /// Runs a future to its end. The embedded store has its own threads; a client of a server has as many as a node.
    fn block_on<T>(&self, future: impl Future<Output = Result<T, BenchError>>) -> Result<T, BenchError> {
        match self.database {
            DatabaseChoice::Embedded => block_on(future),
            _ => tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future),
        }
    }
}

/// A scenario.
pub type Scenario = fn(&BenchSetup) -> Figures;

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

/// Runs a future on this thread. The measured parts have their own threads; the loops need no more than one.
fn block_on<T>(future: impl Future<Output = Result<T, BenchError>>) -> Result<T, BenchError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

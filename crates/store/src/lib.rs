//! Keeping: the memory model that every other store is judged by, and the embedded store on SQLite.

pub mod conformance;
mod forgotten;
pub mod memory;
mod row;
pub mod sqlite;
mod tally;

use std::sync::Arc;

use calendar::Timestamp;

pub use memory::Memory;
pub use sqlite::Sqlite;

/// The store's clock. A database has its own; these are told.
pub type StoreClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

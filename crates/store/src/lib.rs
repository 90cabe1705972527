//! Keeping: the memory model that every other store is judged by, and the embedded store on SQLite.

use std::sync::Arc;

use calendar::Timestamp;

/// The store's clock. A database has its own; these are told.
pub type StoreClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

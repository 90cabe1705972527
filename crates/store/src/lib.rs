//! Keeping: the memory model that every other store is judged by, the embedded store on SQLite, and the stores of
//! clusters on PostgreSQL and on MySQL or MariaDB.

mod clock;
mod code;
mod dialect;
mod hint;
mod idle;
pub mod memory;
mod migrations;
pub mod mysql;
pub mod postgres;
mod progress;
pub mod redis;
mod row;
mod rows;
mod rules;
mod sql;
pub mod sqlite;
mod together;
mod totals;
mod verbs;

use std::sync::Arc;

use calendar::Timestamp;

pub use memory::Memory;
pub use postgres::Postgres;
pub use sql::{Inspection, Migrated, Options, Setting};
pub use sqlite::Sqlite;

/// The store's clock. A database has its own; these are told.
pub type StoreClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

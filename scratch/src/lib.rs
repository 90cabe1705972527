//! Real servers from the system's packages, in temporary folders on free loopback ports: PostgreSQL, MariaDB, Redis,
//! PgBouncer. They end when their value is dropped, and also when the process that started them is killed.
//!
//! They touch no packaged service, no configuration file, and no data folder but their own.
#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

mod account;
mod folder;
mod mariadb;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod redis;
mod server;
mod waiting;
mod watchdog;

pub use folder::Folder;
pub use mariadb::MariaDb;
pub use pgbouncer::PgBouncer;
pub use port::free_port;
pub use postgres::Postgres;
pub use process::Process;
pub use redis::Redis;
pub use rustix::process::Signal;
pub use server::Server;
pub use waiting::until;
pub use watchdog::Watchdog;

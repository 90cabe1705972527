//! What the two stores of clusters, PostgreSQL and MySQL, have in common before any statement is sent: what they are
//! opened with, and what is told about a database.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::model::Text;
use tokio::time::Instant;

use crate::StoreClock;
use crate::clock;

/// What a store in a database server is opened with.
#[derive(Clone)]
pub struct Options {
    /// How many shards; fixed when the database is created, and then it must be the same.
    pub shards: u16,
    /// How long a key is kept at least, from when the run that came with it was written down.
    pub key_ttl: Duration,
    /// The store's clock, told; none for the database's own.
    pub clock: Option<StoreClock>,
    /// Whether a missing or older schema is brought up to date while opening.
    pub auto_migrate: bool,
    /// How long a question of the engine may take; people's questions may take twice as long.
    pub deadline: Duration,
    /// Where people's questions are asked while the primary is away.
    pub read_url: Option<String>,
    /// How many connections the engine has.
    pub connections: usize,
    /// How many connections people's questions have.
    pub readers: usize,
    /// Whether statements may be prepared by name; off behind PgBouncer in transaction mode. PostgreSQL only.
    pub prepared: bool,
    /// A file of certificates, in PEM, that are trusted beside the public ones.
    pub ca_file: Option<String>,
    /// What the server calls these connections in its lists.
    pub application: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            shards: 64,
            key_ttl: Duration::from_secs(24 * 60 * 60),
            clock: None,
            auto_migrate: true,
            deadline: Duration::from_secs(5),
            read_url: None,
            connections: 6,
            readers: 4,
            prepared: true,
            ca_file: None,
            application: "punctual".to_owned(),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No URL: it may carry a password.
        f.debug_struct("Options")
            .field("shards", &self.shards)
            .field("auto_migrate", &self.auto_migrate)
            .field("deadline", &self.deadline)
            .field("connections", &self.connections)
            .field("readers", &self.readers)
            .field("prepared", &self.prepared)
            .finish_non_exhaustive()
    }
}

/// What a migration did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// The schema's version before; 0 if there was none.
    pub from: u32,
    /// The schema's version now.
    pub to: u32,
    /// The names of the migrations that were applied, in order.
    pub applied: Vec<Text>,
}

/// What is told about a database before a node uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The server's own name and version.
    pub server: Text,
    /// Its clock, in milliseconds since 1970.
    pub now: i64,
    /// The schema's version; none if there is no schema.
    pub schema_version: Option<u32>,
    /// The number of shards it was created with; none if there is no schema.
    pub shards: Option<u16>,
    /// Whether it takes no writes.
    pub is_read_only: bool,
    /// Why nodes refuse to use it; none if they would.
    pub refusal: Option<Text>,
    /// Settings worth telling.
    pub settings: Vec<Setting>,
}

/// A setting of the server, and what we would change about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: Text,
    /// Its value.
    pub value: Text,
    /// What to do, if there is something to do.
    pub advice: Option<Text>,
}

/// How often the primary is tried while it is away.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// Whether people's questions go to the copy for now, because the primary did not answer.
#[derive(Debug, Default)]
pub(crate) struct Detour {
    /// When the primary was last tried.
    tried_at: Mutex<Option<Instant>>,
}

impl Detour {
    /// Whether to ask the copy at once. Now and then one question goes to the primary, and finds out for all.
    pub(crate) fn is_next(&self) -> bool {
        let mut tried_at = self.tried_at();
        let is_time = tried_at.is_some_and(|at| clock::since(at) >= TRY_EVERY);
        if is_time {
            *tried_at = Some(clock::instant());
        }
        tried_at.is_some() && !is_time
    }

    /// Whether the last answer came from the copy.
    pub(crate) fn is_on(&self) -> bool {
        self.tried_at().is_some()
    }

    /// The primary is away.
    pub(crate) fn begin(&self) {
        *self.tried_at() = Some(clock::instant());
    }

    /// The primary answers.
    pub(crate) fn end(&self) {
        *self.tried_at() = None;
    }

    fn tried_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.tried_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

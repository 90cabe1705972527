//! Where a scenario keeps its runs: the embedded store, or a database server; and what that server counts.
//!
//! A scratch server is started for the scenario with everything that makes an acknowledgement durable switched on. At the
//! address of somebody's own server, databases of our own are made and dropped again.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use punctual_node::ports::{Browse, Store};
use punctual_scratch::{MariaDb, Postgres, Server};
use punctual_store::mysql::MySql;
use punctual_store::{Options, StoreClock};

use crate::Failure;
use crate::bare::{Bare, mariadb, postgres};
use crate::machine::cpu_seconds_of_all;
use crate::place::{Place, SHARDS, open};

/// Which database is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The embedded store.
    #[default]
    Embedded,
    /// A PostgreSQL that is started for it.
    ScratchPostgres,
    /// A MariaDB that is started for it.
    ScratchMariaDb,
    /// Somebody's server.
    Url(String),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        match text {
            "sqlite" | "embedded" => Ok(Wanted::Embedded),
            "scratch-postgres" => Ok(Wanted::ScratchPostgres),
            "scratch-mariadb" => Ok(Wanted::ScratchMariaDb),
            url if scheme(url).is_some() => Ok(Wanted::Url(url.to_owned())),
            other => Err(format!(
                "--database wants sqlite, scratch-postgres, scratch-mariadb or an address such as \
                 postgres://user@host/database, not {other:?}"
            )),
        }
    }
}

/// Which program keeps the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MariaDb,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "PostgreSQL",
            Kind::MariaDb => "MariaDB",
        }
    }
}

fn scheme(url: &str) -> Option<Kind> {
    match url.split_once("://")?.0 {
        "postgres" | "postgresql" => Some(Kind::Postgres),
        "mysql" | "mariadb" => Some(Kind::MariaDb),
        _ => None,
    }
}

/// A store with the views that people have of it.
pub(crate) trait Kept: Store + Browse {}

impl<S: Store + Browse> Kept for S {}

/// A server, or the folder for files.
pub(crate) struct Database {
    pub(crate) kind: Kind,
    server: Option<Server>,
    url: String,
    place: Place,
}

/// What scratch servers of PostgreSQL are started with beyond their defaults. Everything that decides about durability stays on.
const POSTGRES: &[(&str, &str)] = &[
    ("shared_buffers", "512MB"),
    ("max_wal_size", "8GB"),
    ("wal_compression", "lz4"),
    ("shared_preload_libraries", "pg_stat_statements"),
];

/// The same for MariaDB.
const MARIADB: &[(&str, &str)] = &[("innodb-buffer-pool-size", "1G"), ("innodb-log-file-size", "1G")];

fn pairs(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Database {
    /// Makes ready what is wanted.
    pub(crate) fn start(wanted: &Wanted, place: Place) -> Result<Database, Failure> {
        let (kind, server) = match wanted {
            Wanted::Embedded => (Kind::Sqlite, None),
            Wanted::ScratchPostgres => {
                let wanted = Postgres {
                    fsync: true,
                    connections: 200,
                    settings: pairs(POSTGRES),
                    ..Postgres::default()
                };
                (Kind::Postgres, Some(wanted.start()?))
            }
            Wanted::ScratchMariaDb => {
                let wanted = MariaDb { fsync: true, connections: 200, settings: pairs(MARIADB) };
                (Kind::MariaDb, Some(wanted.start()?))
            }
            Wanted::Url(url) => (scheme(url).ok_or("what kind of database is that?")?, None),
        };
        let url = match (&server, wanted) {
            (Some(server), _) => server.url(),
            (None, Wanted::Url(url)) => url.clone(),
            _ => String::new(),
        };
        Ok(Database { kind, server, url, place })
    }

    /// Where the server is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The folder for files.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// An empty database of this name; one that was there is gone.
    pub(crate) async fn empty(&self, name: &str) -> Result<Home, Failure> {
        self.drop(name).await?;
        let base = self.url.rsplit_once('/').map_or("", |(base, _)| base);
        let address = format!("{base}/{}", made(name));
        match self.kind {
            Kind::Sqlite => {}
            Kind::Postgres => {
                postgres::say(&self.url, &format!("create database {}", made(name))).await?;
                // Where it is not installed, statements are not counted.
                let _ = postgres::say(&address, "create extension pg_stat_statements").await;
            }
            Kind::MariaDb => mariadb::say(&self.url, &format!("create database {}", made(name))).await?,
        }
        Ok(Home { kind: self.kind, address, file: self.place.file(&format!("{name}.db")) })
    }

    /// Throws a database away.
    pub(crate) async fn drop(&self, name: &str) -> Result<(), Failure> {
        match self.kind {
            Kind::Sqlite => self.place.delete(&format!("{name}.db")),
            Kind::Postgres => {
                postgres::say(&self.url, &format!("drop database if exists {} with (force)", made(name)))
                    .await?;
                // So that what the last one left to be written is not paid by the next.
                let _ = postgres::say(&self.url, "checkpoint").await;
            }
            Kind::MariaDb => {
                mariadb::say(&self.url, &format!("drop database if exists {}", made(name))).await?;
            }
        }
        Ok(())
    }

    /// The seconds of CPU that a scratch server has taken so far; none for somebody's own.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        self.server.as_ref()?.id().map(cpu_seconds_of_all)
    }
}

/// The name of a database of ours on a server.
fn made(name: &str) -> String {
    format!("punctual_bench_{}", name.replace('-', "_"))
}

/// One database, and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) kind: Kind,
    pub(crate) address: String,
    pub(crate) file: PathBuf,
}

impl Home {
    /// Opens it as a server would. A told clock, or the machine's and the database's own.
    pub(crate) async fn open(&self, clock: StoreClock, is_told: bool) -> Result<Arc<dyn Kept>, Failure> {
        let options =
            Options { shards: SHARDS, clock: is_told.then(|| Arc::clone(&clock)), ..Options::default() };
        Ok(match self.kind {
            Kind::Sqlite => open(&self.file, clock)?,
            Kind::Postgres => Arc::new(punctual_store::Postgres::open(&self.address, options).await?),
            Kind::MariaDb => Arc::new(MySql::open(&self.address, options).await?),
        })
    }

    /// A connection that knows nothing of runs.
    pub(crate) async fn bare(&self) -> Result<Bare, Failure> {
        Bare::open(self).await
    }

    /// What the server has counted so far; nothing where nobody counts.
    pub(crate) async fn counts(&self) -> Result<Counts, Failure> {
        match self.kind {
            Kind::Sqlite => Ok(Counts::default()),
            Kind::Postgres => postgres::counts(&self.address).await,
            Kind::MariaDb => mariadb::counts(&self.address).await,
        }
    }
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) statements: Option<f64>,
    pub(crate) rows_read: Option<f64>,
    pub(crate) commits: Option<f64>,
    pub(crate) log_bytes: Option<f64>,
}

impl Counts {
    /// What came on top since `before`, for each of so many.
    pub(crate) fn since(self, before: Counts, each: f64) -> Counts {
        let less = |now: Option<f64>, then: Option<f64>| Some((now? - then?) / each.max(1.0));
        Counts {
            statements: less(self.statements, before.statements),
            rows_read: less(self.rows_read, before.rows_read),
            commits: less(self.commits, before.commits),
            log_bytes: less(self.log_bytes, before.log_bytes),
        }
    }
}

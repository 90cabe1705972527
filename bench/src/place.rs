//! The folder for the databases of one scenario, which is deleted afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual_store::sqlite::{Limits, Options};
use punctual_store::{Sqlite, StoreClock};

use crate::BenchError;

/// Number of shards of a store.
pub(crate) const SHARDS: u16 = 64;

/// A folder for databases.
pub struct DatabaseFolder {
    dir: PathBuf,
}

impl DatabaseFolder {
    /// Creates a folder of this name.
    pub fn make(parent: &Path, name: &str) -> Result<DatabaseFolder, BenchError> {
        let dir = parent.join(format!("punctual-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(DatabaseFolder { dir })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The path of a database in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Deletes a database with its write-ahead log.
    pub(crate) fn delete(&self, name: &str) {
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let _ = fs::remove_file(self.dir.join(format!("{name}{suffix}")));
        }
    }
}

impl Drop for DatabaseFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Opens a store as a node does.
pub(crate) fn open(path: &Path, clock: StoreClock) -> Result<Arc<Sqlite>, BenchError> {
    let options = Options {
        shards: SHARDS,
        key_ttl: Duration::from_secs(86_400),
        clock,
        ends_leases: true,
        limits: Limits::default(),
    };
    Ok(Arc::new(Sqlite::open(path, options)?))
}

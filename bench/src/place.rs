//! Where the databases of one scenario lie: a folder of their own that is gone afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual_store::sqlite::{Limits, Options};
use punctual_store::{Sqlite, StoreClock};

use crate::Failure;

/// How many shards a store of the bench has.
pub(crate) const SHARDS: u16 = 64;

/// A folder for databases.
pub struct Place {
    dir: PathBuf,
}

impl Place {
    /// Makes a folder of this name.
    pub fn make(parent: &Path, name: &str) -> Result<Place, Failure> {
        let dir = parent.join(format!("punctual-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Place { dir })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// A database in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Deletes a database and what lies beside it.
    pub(crate) fn delete(&self, name: &str) {
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let _ = fs::remove_file(self.dir.join(format!("{name}{suffix}")));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Opens a store as a server would.
pub(crate) fn open(path: &Path, clock: StoreClock) -> Result<Arc<Sqlite>, Failure> {
    let options = Options {
        shards: SHARDS,
        key_ttl: Duration::from_secs(86_400),
        clock,
        ends_leases: true,
        limits: Limits::default(),
    };
    Ok(Arc::new(Sqlite::open(path, options)?))
}

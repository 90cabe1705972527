//! Moving committed pages from the log into the file, beside the writer and not in its way.
//!
//! A thread of its own does the bulk of it. While the writer goes on writing, such a sweep never reaches the end of the
//! log, and the log could never begin anew; so when only little is left the writer does that itself, between two
//! rounds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use punctual_node::ports::StoreError;
use rusqlite::Connection;

use super::file::open_sweeper;

/// Pages in the log (8 KiB each) at which a sweep begins: 16 MiB.
const SWEEP_FROM: i64 = 2_048;

/// So few pages (2 MiB) the writer moves itself.
const REST_MAX: i64 = 256;

/// A log of so many pages (256 MiB) the writer sweeps whatever it costs: a reader keeps it from beginning anew.
const LOG_MAX: i64 = 32_768;

/// The thread that sweeps, as the writer sees it.
pub(super) struct Sweeper {
    wake: Option<SyncSender<()>>,
    is_sweeping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    pub(super) fn start(path: &Path) -> Result<Sweeper, StoreError> {
        let conn = open_sweeper(path)?;
        let (wake, woken) = sync_channel::<()>(1);
        let is_sweeping = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_sweeping);
        let sweep = move || {
            while woken.recv().is_ok() {
                // Nothing is lost if this fails: the pages stay in the log, and the next sweep takes them.
                let _ = checkpoint(&conn, "pragma wal_checkpoint(passive)");
                done.store(false, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new()
            .name("punctual-sweep".into())
            .spawn(sweep)
            .map_err(|error| StoreError::Unknown(error.to_string().into()))?;
        Ok(Sweeper { wake: Some(wake), is_sweeping, thread: Some(thread) })
    }

    /// Looks after a round at how long the log is. Reading that costs a few microseconds.
    pub(super) fn sweep(&self, conn: &Connection) {
        if self.is_sweeping.load(Ordering::Acquire) {
            return;
        }
        let Ok((log, moved)) = checkpoint(conn, "pragma wal_checkpoint(noop)") else { return };
        if log < SWEEP_FROM {
            return;
        }
        if log - moved <= REST_MAX || log >= LOG_MAX {
            let _ = checkpoint(conn, "pragma wal_checkpoint(passive)");
            return;
        }
        if let Some(wake) = &self.wake {
            self.is_sweeping.store(true, Ordering::Release);
            let _ = wake.try_send(());
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The pages in the log, and how many of them are in the file.
fn checkpoint(conn: &Connection, pragma: &str) -> rusqlite::Result<(i64, i64)> {
    conn.prepare_cached(pragma)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}

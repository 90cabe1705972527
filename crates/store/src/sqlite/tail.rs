//! The tail of closes: which runs were closed and are not in the index of closes yet.
//!
//! It is read by the readers too, so it is published with the commit: the lock is held over both, and a reader that
//! begins its snapshot under the lock sees either a close in the tail or its index entry in the snapshot, never neither.

use std::mem;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use punctual_core::model::RunId;
use rustc_hash::FxHashMap;

/// The closes that are not in their index: run to place.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) young: FxHashMap<u64, i64>,
    pub(super) old: FxHashMap<u64, i64>,
}

impl Shared {
    /// Where the close of a run lies.
    pub(super) fn place(&self, run: RunId) -> Option<i64> {
        self.young.get(&run.0).or_else(|| self.old.get(&run.0)).copied()
    }
}

/// The tail of closes as the readers have it.
pub(super) type SharedCloses = Arc<RwLock<Shared>>;

/// The tail of closes as the writer has it.
#[derive(Default)]
pub(super) struct CloseTail {
    shared: SharedCloses,
    /// Closes of this round, which no reader may see before it is committed.
    pub(super) pending: Vec<(u64, i64)>,
    /// Days that this round dropped.
    pub(super) dropped: Vec<u32>,
    /// What the flush that is under way writes, sorted by run, and how far it is.
    pub(super) flushing: Vec<(u64, i64)>,
    pub(super) flushed: usize,
    is_flushing: bool,
    /// Everything is written and its layers are listed; with the commit it leaves the tail.
    is_indexed: bool,
}

impl CloseTail {
    /// A tail that goes on where readers look already.
    pub(super) fn with_shared(shared: SharedCloses) -> CloseTail {
        CloseTail { shared, ..CloseTail::default() }
    }

    pub(super) fn shared(&self) -> SharedCloses {
        Arc::clone(&self.shared)
    }

    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().expect("nothing panics under this lock")
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().expect("nothing panics under this lock")
    }

    /// Makes everything in the tail what the next flush writes, sorted by run.
    pub(super) fn begin_flush(&mut self) {
        let mut shared = self.shared.write().expect("nothing panics under this lock");
        shared.old = mem::take(&mut shared.young);
        self.flushing = shared.old.iter().map(|(run, place)| (*run, *place)).collect();
        drop(shared);
        self.flushing.sort_unstable();
        self.flushed = 0;
        self.is_flushing = true;
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.is_flushing
    }

    /// Says that the flush that is under way has written everything.
    pub(super) fn end_flush(&mut self) {
        self.is_indexed = true;
    }

    /// Commits, and shows the readers what the round closed, indexed and dropped, in one step for them.
    pub(super) fn publish(&mut self, commit: impl FnOnce() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let mut shared = self.shared.write().expect("nothing panics under this lock");
        commit()?;
        if !self.dropped.is_empty() {
            let stays = |run: &u64, _: &mut i64| !self.dropped.contains(&RunId(*run).day());
            shared.young.retain(stays);
            shared.old.retain(stays);
            self.dropped.clear();
        }
        // After that: a day that was dropped may have been begun anew in the same round.
        shared.young.extend(self.pending.drain(..));
        if self.is_indexed {
            shared.old = FxHashMap::default();
            (self.flushing, self.flushed) = (Vec::new(), 0);
            (self.is_flushing, self.is_indexed) = (false, false);
        }
        Ok(())
    }

    /// Where the close of a run lies, this round's included. Slow for many of one round; they are looked for last.
    pub(super) fn place(&self, run: RunId) -> Option<i64> {
        let pending = || self.pending.iter().find(|(closed, _)| *closed == run.0).map(|(_, place)| *place);
        self.read().place(run).or_else(pending)
    }
}

//! The writer thread: takes what is asked in the order of arrival, in rounds of one transaction each.
//!
//! While a round is synced to disk the next one gathers, so the more is asked the more shares one sync. Nobody is answered
//! before the commit, reads neither: they may have seen what their round wrote.

use std::mem;

use punctual_node::ports::StoreError;
use tokio::sync::{mpsc, oneshot};

use super::flush::Flush;
use super::keeper::Keeper;
use super::sweep::Sweeper;
use super::trouble::{Trouble, is_full, told};

/// How much a round takes on at most.
const ROUND_REQUESTS: usize = 1_000;
const ROUND_ROWS: usize = 20_000;

/// For how many rounds the indexes are left alone that could not be written.
const CHORES_PAUSE: u32 = 20;

/// Something that was asked.
pub(super) trait Work: Send {
    fn size(&self) -> Size;
    /// Does it, and keeps the answer; may be done again after a rollback.
    fn run(&mut self, keeper: &mut Keeper) -> rusqlite::Result<()>;
    /// Sends the answer, or this error in its place.
    fn answer(self: Box<Self>, error: Option<StoreError>);
}

/// What a request is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// It only looks.
    Look,
    /// It writes about so many rows.
    Write(usize),
}

impl Size {
    fn rows(self) -> usize {
        match self {
            Size::Look => 1,
            Size::Write(rows) => rows,
        }
    }
}

struct Ask<F, T> {
    size: Size,
    work: F,
    reply: oneshot::Sender<Result<T, StoreError>>,
    answer: Option<Result<T, StoreError>>,
}

impl<F, T> Work for Ask<F, T>
where
    F: FnMut(&mut Keeper) -> Result<T, Trouble> + Send,
    T: Send,
{
    fn size(&self) -> Size {
        self.size
    }

    fn run(&mut self, keeper: &mut Keeper) -> rusqlite::Result<()> {
        self.answer = match (self.work)(keeper) {
            Ok(answer) => Some(Ok(answer)),
            Err(Trouble::Refused(error)) => Some(Err(error)),
            Err(Trouble::Sql(error)) => return Err(error),
        };
        Ok(())
    }

    fn answer(self: Box<Self>, error: Option<StoreError>) {
        let answer = match error {
            Some(error) => Err(error),
            None => self.answer.expect("every request of a committed round was run"),
        };
        // A caller that has stopped waiting does not want to know.
        let _ = self.reply.send(answer);
    }
}

/// The way to the writer.
pub(super) struct Requests {
    sender: mpsc::Sender<Box<dyn Work>>,
}

impl Requests {
    /// A queue with backpressure: it is bounded, so callers that ask faster than is written have to wait.
    pub(super) fn new() -> (Requests, mpsc::Receiver<Box<dyn Work>>) {
        let (sender, receiver) = mpsc::channel(2 * ROUND_REQUESTS);
        (Requests { sender }, receiver)
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask<F, T>(&self, size: Size, work: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut Keeper) -> Result<T, Trouble> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let gone = || StoreError::Unknown("the writer has ended".into());
        let asked = Box::new(Ask { size, work, reply, answer: None });
        self.sender.send(asked).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Where a round failed.
enum WriteFailure {
    /// Before the commit: surely nothing of it is there.
    Before(rusqlite::Error),
    /// In the commit: SQLite rolls back, but what it had written may yet be found after a crash.
    Commit(rusqlite::Error),
}

impl WriteFailure {
    fn error(&self) -> &rusqlite::Error {
        match self {
            WriteFailure::Before(error) | WriteFailure::Commit(error) => error,
        }
    }
}

/// The thread's state.
pub(super) struct Writer {
    keeper: Keeper,
    requests: mpsc::Receiver<Box<dyn Work>>,
    sweeper: Sweeper,
    tail_max: usize,
    /// Memory does not follow the database: it could not be read again.
    is_lost: bool,
    /// The indexes could not be written, and are left alone for so many rounds.
    chores_pause: u32,
    /// How many rows the connection had changed at the last commit.
    changes: u64,
}

impl Writer {
    pub(super) fn new(
        keeper: Keeper,
        requests: mpsc::Receiver<Box<dyn Work>>,
        sweeper: Sweeper,
        tail_max: usize,
    ) -> Writer {
        Writer { keeper, requests, sweeper, tail_max, is_lost: false, chores_pause: 0, changes: 0 }
    }

    /// Works until the last handle of the store is dropped, then leaves the file tidy.
    pub(super) fn run(mut self) {
        let mut round = Vec::new();
        while self.gather(&mut round) {
            self.round(mem::take(&mut round));
            self.keeper.side.begin_flush(Flush::Longer(self.tail_max));
            self.keeper.side.shrink();
            self.sweeper.sweep(&self.keeper.conn);
        }
        self.finish();
    }

    /// Waits for something to do: false when the last handle of the store is dropped.
    fn gather(&mut self, round: &mut Vec<Box<dyn Work>>) -> bool {
        let Some(first) = self.requests.blocking_recv() else { return false };
        let mut rows = first.size().rows();
        round.push(first);
        while round.len() < ROUND_REQUESTS && rows < ROUND_ROWS {
            let Ok(work) = self.requests.try_recv() else { break };
            rows += work.size().rows();
            round.push(work);
        }
        true
    }

    fn round(&mut self, mut works: Vec<Box<dyn Work>>) {
        if self.is_lost
            && let Err(error) = self.recover()
        {
            return answer_all(works, &told(&error));
        }
        let has_chores = self.chores_pause == 0 && self.keeper.side.is_flushing();
        self.chores_pause = self.chores_pause.saturating_sub(1);
        match self.transact(&mut works, has_chores) {
            Ok(()) => works.into_iter().for_each(|work| work.answer(None)),
            Err(failure) => {
                if has_chores {
                    self.chores_pause = CHORES_PAUSE;
                }
                if let Err(error) = self.recover() {
                    return answer_all(works, &told(&error));
                }
                match failure {
                    WriteFailure::Commit(error) if !is_full(&error) => answer_all(works, &told(&error)),
                    _ => self.replay(works),
                }
            }
        }
    }

    /// After a failed round: each alone, so that one which cannot be done does not hold up the others.
    fn replay(&mut self, works: Vec<Box<dyn Work>>) {
        let mut full: Option<(usize, StoreError)> = None;
        for work in works {
            if self.is_lost
                && let Err(error) = self.recover()
            {
                work.answer(Some(told(&error)));
                continue;
            }
            // Where one found no room, a larger one would not either, and each try means to read memory anew.
            let rows = work.size().rows();
            if let Some((_, error)) =
                full.as_ref().filter(|(tried, _)| work.size() != Size::Look && rows >= *tried)
            {
                work.answer(Some(error.clone()));
                continue;
            }
            let mut alone = [work];
            let failure = self.transact(&mut alone, false).err();
            let error = failure.as_ref().map(|failure| match self.recover() {
                Ok(()) => told(failure.error()),
                Err(error) => told(&error),
            });
            if failure.is_some_and(|failure| is_full(failure.error())) {
                full = error.clone().map(|error| (rows, error));
            }
            let [work] = alone;
            work.answer(error);
        }
    }

    fn transact(&mut self, works: &mut [Box<dyn Work>], chores: bool) -> Result<(), WriteFailure> {
        self.apply(works, chores).map_err(WriteFailure::Before)?;
        let Keeper { conn, side, .. } = &mut self.keeper;
        let commit = || conn.prepare_cached("commit")?.execute([]).map(drop);
        side.closes.publish(commit).map_err(WriteFailure::Commit)?;
        self.changes = conn.total_changes();
        Ok(())
    }

    fn apply(&mut self, works: &mut [Box<dyn Work>], chores: bool) -> rusqlite::Result<()> {
        self.keeper.conn.prepare_cached("begin immediate")?.execute([])?;
        let mut rows = 0;
        for work in works.iter_mut() {
            work.run(&mut self.keeper)?;
            rows += work.size().rows();
        }
        // Indexes are written in rounds that have to be synced anyway. Measured: in rounds of their own, and in those
        // that only read, they cost the next request the time of a sync, and a third of the loads a second.
        let is_synced = works.is_empty() || self.keeper.conn.total_changes() > self.changes;
        let Keeper { conn, side, .. } = &mut self.keeper;
        if chores && is_synced {
            side.flush_some(conn, rows, self.tail_max)?;
        }
        side.write_back(conn)
    }

    /// Undoes a failed round, in the database and in memory.
    fn recover(&mut self) -> rusqlite::Result<()> {
        self.is_lost = true;
        if !self.keeper.conn.is_autocommit() {
            self.keeper.conn.execute_batch("rollback")?;
        }
        self.keeper.refresh()?;
        self.changes = self.keeper.conn.total_changes();
        self.is_lost = false;
        Ok(())
    }

    /// Writes the indexes out and empties the log. What fails here is done at the next start.
    fn finish(mut self) {
        self.sweeper.stop();
        loop {
            self.keeper.side.begin_flush(Flush::All);
            if self.is_lost || !self.keeper.side.is_flushing() {
                break;
            }
            if self.transact(&mut [], true).is_err() {
                let _ = self.recover();
                break;
            }
        }
        let _ = self.keeper.conn.execute_batch("pragma wal_checkpoint(truncate)");
    }
}

fn answer_all(works: Vec<Box<dyn Work>>, error: &StoreError) {
    works.into_iter().for_each(|work| work.answer(Some(error.clone())));
}

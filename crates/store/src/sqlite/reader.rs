//! The reader threads: what people look at is read beside the writer, from committed snapshots.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use punctual_node::ports::StoreError;
use rusqlite::{Connection, Transaction};
use tokio::sync::{mpsc, oneshot};

use super::alarm::Alarm;
use super::file::open_reader;
use super::tail::{Shared, SharedCloses};
use super::trouble::{Trouble, told};
use crate::StoreClock;

/// How many threads read.
const READERS: usize = 2;

type Errand = Box<dyn FnOnce(&mut Reader) + Send>;

/// One thread's hands.
pub(super) struct Reader {
    pub(super) conn: Connection,
    pub(super) clock: StoreClock,
    closes: SharedCloses,
}

impl Reader {
    /// A snapshot, and what `look` read in it together with the closes that are not in their index. No close can fall
    /// between the two: the writer publishes and commits under the lock that is held here. So `look` must be short.
    pub(super) fn snapshot<T>(
        &self,
        look: impl FnOnce(&Connection, &Shared) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<(Transaction<'_>, T)> {
        let shared = self.closes.read().unwrap_or_else(PoisonError::into_inner);
        let transaction = self.conn.unchecked_transaction()?;
        let looked = look(&transaction, &shared)?;
        Ok((transaction, looked))
    }
}

/// The threads, as the store sees them.
pub(super) struct Readers {
    errands: Option<mpsc::Sender<Errand>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(
        path: &Path,
        closes: &SharedCloses,
        clock: &StoreClock,
        alarm: &Alarm,
    ) -> Result<Readers, StoreError> {
        let (errands, receiver) = mpsc::channel::<Errand>(64);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for _ in 0..READERS {
            let (clock, closes) = (StoreClock::clone(clock), SharedCloses::clone(closes));
            let mut reader = Reader { conn: open_reader(path)?, clock, closes };
            let receiver = Arc::clone(&receiver);
            // One of them waits for the next errand, the others for their turn to wait.
            let next = move || receiver.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
            let alarm = alarm.of("reads");
            let work = move || {
                let _alarm = alarm;
                while let Some(errand) = next() {
                    errand(&mut reader);
                }
            };
            let thread = std::thread::Builder::new().name("punctual-read".into()).spawn(work);
            threads.push(thread.map_err(|error| StoreError::Unknown(error.to_string().into()))?);
        }
        Ok(Readers { errands: Some(errands), threads })
    }

    /// Reads, and waits for the answer.
    pub(super) async fn read<F, T>(&self, read: F) -> Result<T, StoreError>
    where
        F: FnOnce(&mut Reader) -> Result<T, Trouble> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let gone = || StoreError::Unknown("the readers have ended".into());
        let errand: Errand = Box::new(move |reader| {
            let answer = read(reader).map_err(|trouble| match trouble {
                Trouble::Refused(error) => error,
                Trouble::Sql(error) => told(&error),
            });
            // A caller that has stopped waiting does not want to know.
            let _ = reply.send(answer);
        });
        let errands = self.errands.as_ref().expect("taken only by drop");
        errands.send(errand).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.errands = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

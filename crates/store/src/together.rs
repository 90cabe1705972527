//! Handing over together: callers that come while others are being written wait, and are then written in one transaction, at the
//! price of one. What a server spends on a run that comes alone is nearly all for the transaction around it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::future::{Either, select};
use punctual_core::model::{NewRun, ShardId, Text};
use punctual_node::ports::{Accepted, ArrivalKind, StoreError};
use tokio::sync::{Semaphore, oneshot};

/// A call with more runs than this is written alone: there is little to gain.
const SMALL: usize = 100;

/// How many runs are written together.
const MOST: usize = 1_000;

/// While one transaction is on its way, another may be: behind them the next comes together.
const TURNS: usize = 2;

/// What is said to a caller.
pub(crate) type AcceptAnswer = Result<Vec<Accepted>, StoreError>;

/// Writes runs and what is left for holders, all or none.
#[async_trait]
pub(crate) trait Writer: Send + Sync {
    async fn write(&self, runs: &[NewRun], left: &[(ShardId, ArrivalKind)]) -> AcceptAnswer;
}

/// Callers that wait for each other.
pub(crate) struct Together {
    waiting: Mutex<VecDeque<Waiting>>,
    turns: Semaphore,
}

#[derive(Clone)]
struct Call {
    runs: Vec<NewRun>,
    left: Vec<(ShardId, ArrivalKind)>,
}

struct Waiting {
    call: Call,
    tell: oneshot::Sender<AcceptAnswer>,
}

impl Default for Together {
    fn default() -> Together {
        Together { waiting: Mutex::default(), turns: Semaphore::new(TURNS) }
    }
}

impl Together {
    /// Writes what a caller brings, with what others bring.
    pub(crate) async fn accept(
        &self,
        writer: &dyn Writer,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> AcceptAnswer {
        if runs.len() > SMALL {
            return writer.write(&runs, &left).await;
        }
        let call = Call { runs, left };
        if let Some(answer) = self.ask(writer, &call).await {
            return answer;
        }
        // The caller that wrote this batch was stopped in the middle, so the runs may be there. A duplicate with our own id
        // is ours.
        let stopped = || {
            StoreError::Unknown(Text::Borrowed(
                "the request whose transaction included these runs was cancelled",
            ))
        };
        let answer = self.ask(writer, &call).await.unwrap_or_else(|| Err(stopped()))?;
        let ours = |(run, said): (&NewRun, Accepted)| match said {
            Accepted::Duplicate(id) if id == run.id => Accepted::New(id),
            said => said,
        };
        Ok(call.runs.iter().zip(answer).map(ours).collect())
    }

    /// Waits until another caller has written it, or until it is this caller's turn to write for all that wait. None if that
    /// other caller was stopped.
    async fn ask(&self, writer: &dyn Writer, call: &Call) -> Option<AcceptAnswer> {
        let (tell, mut told) = oneshot::channel();
        self.waiting().push_back(Waiting { call: call.clone(), tell });
        loop {
            let turn = match select(&mut told, std::pin::pin!(self.turns.acquire())).await {
                Either::Left((answer, _)) => return answer.ok(),
                Either::Right((turn, _)) => turn.expect("it is never closed"),
            };
            let is_any = self.write_some(writer).await;
            drop(turn);
            if !is_any {
                // Another caller is writing it, and will answer.
                return told.await.ok();
            }
        }
    }

    /// Writes for the callers that wait; whether there was one.
    async fn write_some(&self, writer: &dyn Writer) -> bool {
        let taken = self.take();
        if taken.is_empty() {
            return false;
        }
        let runs: Vec<NewRun> = taken.iter().flat_map(|waiting| waiting.call.runs.iter().cloned()).collect();
        let left: Vec<_> = taken.iter().flat_map(|waiting| waiting.call.left.iter().copied()).collect();
        match writer.write(&runs, &left).await {
            Ok(mut answers) => {
                for Waiting { call, tell } in taken {
                    let rest = answers.split_off(call.runs.len());
                    // The caller may have gone.
                    let _ = tell.send(Ok(std::mem::replace(&mut answers, rest)));
                }
            }
            Err(error)
                if taken.len() == 1 || matches!(error, StoreError::Unknown(_) | StoreError::Away(_)) =>
            {
                taken.into_iter().for_each(|waiting| drop(waiting.tell.send(Err(error.clone()))));
            }
            // Nothing was written. Whose fault that is shows when each is written alone.
            Err(_) => {
                for Waiting { call, tell } in taken {
                    let _ = tell.send(writer.write(&call.runs, &call.left).await);
                }
            }
        }
        true
    }

    /// The callers that came first, as many as are written together. Runs of a caller that has gone are not written.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting();
        let (mut taken, mut count) = (Vec::new(), 0);
        while count < MOST
            && let Some(next) = waiting.pop_front()
        {
            if !next.tell.is_closed() {
                count += next.call.runs.len().max(1);
                taken.push(next);
            }
        }
        taken
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use calendar::Timestamp;
    use futures_util::future::{join_all, poll_immediate};
    use punctual_core::model::{JobId, RunId};
    use tokio::sync::Notify;

    use super::*;

    /// A store that writes when it is let, and keeps what it was asked.
    #[derive(Default)]
    struct Slow {
        let_go: Notify,
        asked: Mutex<Vec<Vec<u64>>>,
        /// As if what was asked first had been written although nobody was there to hear it.
        has_first: AtomicBool,
    }

    const REFUSED: u64 = 13;

    #[async_trait]
    impl Writer for Slow {
        async fn write(&self, runs: &[NewRun], _: &[(ShardId, ArrivalKind)]) -> AcceptAnswer {
            self.asked.lock().unwrap().push(runs.iter().map(|run| run.id.0).collect());
            self.let_go.notified().await;
            if runs.iter().any(|run| run.id.0 == REFUSED) {
                return Err(StoreError::Conflict("refused".into()));
            }
            let is_there = self.has_first.load(Ordering::SeqCst);
            let said =
                |run: &NewRun| if is_there { Accepted::Duplicate(run.id) } else { Accepted::New(run.id) };
            Ok(runs.iter().map(said).collect())
        }
    }

    fn run(id: u64) -> Vec<NewRun> {
        let at = Timestamp::from_millis(0);
        vec![NewRun::one_shot(RunId(id), JobId(1), ShardId(0), at)]
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// Lets everything be written, as often as a caller waits for it.
    async fn let_all_go(slow: &Slow) {
        loop {
            slow.let_go.notify_one();
            tokio::task::yield_now().await;
        }
    }

    async fn meanwhile<T>(slow: &Slow, asked: impl Future<Output = T>) -> T {
        match select(std::pin::pin!(asked), std::pin::pin!(let_all_go(slow))).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), _)) => unreachable!("it lets go for ever"),
        }
    }

    #[test]
    fn who_comes_while_others_are_written_is_written_with_those_who_wait() {
        block_on(async {
            let (together, slow) = (Together::default(), Slow::default());
            let calls = (1..=9).map(|id| together.accept(&slow, run(id), Vec::new()));
            let answers = meanwhile(&slow, join_all(calls)).await;
            let expected: Vec<AcceptAnswer> = (1..=9).map(|id| Ok(vec![Accepted::New(RunId(id))])).collect();
            assert_eq!(answers, expected);
            let asked = slow.asked.lock().unwrap();
            assert!(asked.len() <= 3, "{asked:?}");
        });
    }

    #[test]
    fn one_that_is_refused_does_not_take_the_others_with_it() {
        block_on(async {
            let (together, slow) = (Together::default(), Slow::default());
            let calls = (10..=15).map(|id| together.accept(&slow, run(id), Vec::new()));
            let answers = meanwhile(&slow, join_all(calls)).await;
            let refused: Vec<bool> = answers.iter().map(Result::is_err).collect();
            assert_eq!(refused, [false, false, false, true, false, false]);
        });
    }

    #[test]
    fn who_writes_for_others_and_is_stopped_leaves_nobody_without_an_answer() {
        block_on(async {
            for was_written in [false, true] {
                let (together, slow) = (Together::default(), Slow::default());
                let mut first = Box::pin(together.accept(&slow, run(1), Vec::new()));
                let mut second = Box::pin(together.accept(&slow, run(2), Vec::new()));
                assert!(poll_immediate(&mut first).await.is_none());
                assert!(poll_immediate(&mut second).await.is_none());
                let mut third = Box::pin(together.accept(&slow, run(3), Vec::new()));
                assert!(poll_immediate(&mut third).await.is_none(), "two are at it, so it waits");
                drop((first, second));
                slow.has_first.store(was_written, Ordering::SeqCst);
                let answer = meanwhile(&slow, third).await;
                let expected =
                    if was_written { Accepted::Duplicate(RunId(3)) } else { Accepted::New(RunId(3)) };
                assert_eq!(answer, Ok(vec![expected]), "nobody had begun to write it");
            }
        });
    }

    #[test]
    fn what_a_stopped_writer_has_written_all_the_same_is_new_to_who_brought_it() {
        block_on(async {
            let (together, slow) = (Together::default(), Slow::default());
            // Both turns are taken, so that two come together behind them.
            let turns = together.turns.acquire_many(TURNS as u32).await.unwrap();
            let mut first = Box::pin(together.accept(&slow, run(1), Vec::new()));
            let mut second = Box::pin(together.accept(&slow, run(2), Vec::new()));
            assert!(poll_immediate(&mut first).await.is_none());
            assert!(poll_immediate(&mut second).await.is_none());
            drop(turns);
            assert!(poll_immediate(&mut first).await.is_none());
            assert_eq!(*slow.asked.lock().unwrap(), [vec![1, 2]], "the first writes for both");
            drop(first);
            slow.has_first.store(true, Ordering::SeqCst);
            assert_eq!(meanwhile(&slow, second).await, Ok(vec![Accepted::New(RunId(2))]));
        });
    }
}

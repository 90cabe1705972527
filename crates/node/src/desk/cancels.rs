//! Concurrent cancels of single runs are batched into one transaction (group commit). Nearly all that a database spends on a
//! run that is cancelled alone is for the transaction around it, and the transactions of one job wait for each other, because
//! they count in one row.
//!
//! The desk spawns no tasks: one of the callers writes for all who wait, and when its own run is done, another caller does.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use futures_util::lock;
use punctual_core::model::{RunId, Text};

use super::{Cancelled, DeskError};
use crate::Node;

/// How many runs are cancelled together.
const MOST: usize = 1_000;

type CancelAnswer = Result<Cancelled, DeskError>;

/// What cancels runs. Tests have another one than the node.
trait CancelAll: Sync {
    /// What became of each of them.
    fn cancel_all(&self, runs: &[RunId]) -> impl Future<Output = Result<Vec<Cancelled>, DeskError>> + Send;
}

impl CancelAll for Node {
    async fn cancel_all(&self, runs: &[RunId]) -> Result<Vec<Cancelled>, DeskError> {
        Node::cancel_all(self, runs).await
    }
}

impl Node {
    /// Ends a run as [`Node::cancel_all`] does, in one transaction with those that other callers want to end at the same time.
    /// Dropping the future does not withdraw the request: another caller carries it out.
    pub async fn cancel_batched(&self, run: RunId) -> Result<Cancelled, DeskError> {
        self.cancels.cancel(self, run).await
    }
}

/// Requests that wait to be written together.
#[derive(Default)]
pub(crate) struct Cancels {
    waiting: Mutex<VecDeque<CancelRequest>>,
    /// Held by the caller that writes for all.
    turn: lock::Mutex<()>,
}

struct CancelRequest {
    run: RunId,
    answer: oneshot::Sender<CancelAnswer>,
    /// It was in a batch whose caller went away in the middle, so it may be done already.
    may_be_done: bool,
}

impl Cancels {
    async fn cancel(&self, desk: &impl CancelAll, run: RunId) -> CancelAnswer {
        let (answer, mut answered) = oneshot::channel();
        self.waiting().push_back(CancelRequest { run, answer, may_be_done: false });
        let stopped = || Err(DeskError::Unknown(Text::Borrowed("the batch that it was in was broken off")));
        let _turn = match select(&mut answered, self.turn.lock()).await {
            Either::Left((answer, _)) => return answer.unwrap_or_else(|_| stopped()),
            Either::Right((turn, _)) => turn,
        };
        // While this caller has the turn nobody else writes: its request is waiting, or was answered just now.
        let answer = loop {
            match answered.try_recv() {
                Ok(Some(answer)) => break answer,
                Ok(None) => Batch::of(self).carry_out(desk).await,
                Err(oneshot::Canceled) => break stopped(),
            }
        };
        while self.is_abandoned() {
            Batch::of(self).carry_out(desk).await;
        }
        answer
    }

    /// Whether requests are waiting whose callers have all gone, so that none of them will write.
    fn is_abandoned(&self) -> bool {
        let waiting = self.waiting();
        !waiting.is_empty() && waiting.iter().all(|request| request.answer.is_canceled())
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<CancelRequest>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests that are being carried out: the first ones, up to [`MOST`].
struct Batch<'a> {
    cancels: &'a Cancels,
    requests: VecDeque<CancelRequest>,
}

impl Batch<'_> {
    fn of(cancels: &Cancels) -> Batch<'_> {
        let mut waiting = cancels.waiting();
        let count = waiting.len().min(MOST);
        Batch { cancels, requests: waiting.drain(..count).collect() }
    }

    async fn carry_out(mut self, desk: &impl CancelAll) {
        let runs: Vec<RunId> = self.requests.iter().map(|request| request.run).collect();
        match desk.cancel_all(&runs).await {
            Ok(became) => {
                for (request, became) in self.requests.drain(..).zip(became) {
                    request.tell(Ok(became));
                }
            }
            Err(error) if runs.len() == 1 || matches!(error, DeskError::Unknown(_) | DeskError::Away(_)) => {
                self.requests.drain(..).for_each(|request| request.tell(Err(error.clone())));
            }
            // Which of them was at fault shows when each is cancelled alone. Those that it was too late for now may have been
            // ended by this very batch.
            Err(_) => {
                self.requests.iter_mut().for_each(|request| request.may_be_done = true);
                while let Some(request) = self.requests.front() {
                    let answer = desk.cancel_all(&[request.run]).await;
                    let one = |became: Vec<Cancelled>| became.first().copied().unwrap_or(Cancelled::Asked);
                    if let Some(request) = self.requests.pop_front() {
                        request.tell(answer.map(one));
                    }
                }
            }
        }
    }
}

impl Drop for Batch<'_> {
    /// The caller that was writing has gone: another one writes. After a panic nobody does, because it would meet the same bug.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut waiting = self.cancels.waiting();
        for request in mem::take(&mut self.requests).into_iter().rev() {
            waiting.push_front(CancelRequest { may_be_done: true, ..request });
        }
    }
}

impl CancelRequest {
    fn tell(self, answer: CancelAnswer) {
        let answer = match answer {
            // The caller has to look at the run.
            Ok(Cancelled::TooLate) if self.may_be_done => Ok(Cancelled::Asked),
            answer => answer,
        };
        // The caller may have gone.
        let _ = self.answer.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use futures_util::future::{BoxFuture, FutureExt};
    use futures_util::stream::{FuturesUnordered, StreamExt};

    use super::*;

    /// A desk that cancels runs as often as the test lets it, and remembers what it was asked.
    #[derive(Default)]
    struct Slow {
        permits: Mutex<(usize, Vec<Waker>)>,
        asked: Mutex<Vec<Vec<u64>>>,
        ended: Mutex<BTreeSet<RunId>>,
    }

    /// A run whose row cannot be read, one that meets a bug, and one that the store does not answer about.
    const BROKEN: u64 = 13;
    const FATAL: u64 = 66;
    const AWAY: u64 = 77;

    impl Slow {
        fn asked(&self) -> Vec<Vec<u64>> {
            self.asked.lock().unwrap().clone()
        }

        fn permit(&self, count: usize) {
            let mut permits = self.permits.lock().unwrap();
            permits.0 += count;
            permits.1.drain(..).for_each(Waker::wake);
        }
    }

    impl CancelAll for Slow {
        async fn cancel_all(&self, runs: &[RunId]) -> Result<Vec<Cancelled>, DeskError> {
            self.asked.lock().unwrap().push(runs.iter().map(|run| run.0).collect());
            poll_fn(|context| {
                let mut permits = self.permits.lock().unwrap();
                match permits.0.checked_sub(1) {
                    Some(left) => permits.0 = left,
                    None => {
                        permits.1.push(context.waker().clone());
                        return Poll::Pending;
                    }
                }
                Poll::Ready(())
            })
            .await;
            let mut ended = self.ended.lock().unwrap();
            let became: Vec<Cancelled> = runs
                .iter()
                .map(|run| if ended.insert(*run) { Cancelled::InTime } else { Cancelled::TooLate })
                .collect();
            drop(ended);
            let has = |id: u64| runs.contains(&RunId(id));
            assert!(!has(FATAL), "a bug");
            match (has(BROKEN), has(AWAY)) {
                (true, _) => Err(DeskError::Conflict("broken".into())),
                (_, true) => Err(DeskError::Unknown("away".into())),
                (false, false) => Ok(became),
            }
        }
    }

    type Caller<'a> = BoxFuture<'a, (u64, CancelAnswer)>;

    fn caller<'a>(cancels: &'a Cancels, desk: &'a Slow, id: u64) -> Caller<'a> {
        async move { (id, cancels.cancel(desk, RunId(id)).await) }.boxed()
    }

    fn poll(caller: &mut Caller<'_>) -> Poll<(u64, CancelAnswer)> {
        caller.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A caller that has begun to wait.
    fn waiting<'a>(cancels: &'a Cancels, desk: &'a Slow, id: u64) -> Caller<'a> {
        let mut caller = caller(cancels, desk, id);
        assert!(poll(&mut caller).is_pending());
        caller
    }

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// The answers by run. Each caller is polled like a task: at first, and when it was woken; its panic is its own.
    fn answers<'a>(callers: impl IntoIterator<Item = Caller<'a>>) -> Vec<(u64, CancelAnswer)> {
        let survive = |mut caller: Caller<'a>| {
            poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| caller.as_mut().poll(context))) {
                Ok(answer) => answer.map(Some),
                Err(_) => Poll::Ready(None),
            })
        };
        let callers: FuturesUnordered<_> = callers.into_iter().map(survive).collect();
        let mut all = pin!(callers.collect::<Vec<_>>());
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        while woken.0.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(answers) = all.as_mut().poll(&mut Context::from_waker(&waker)) {
                let mut answers: Vec<_> = answers.into_iter().flatten().collect();
                answers.sort_unstable_by_key(|(id, _)| *id);
                return answers;
            }
        }
        panic!("a caller waits that nobody will wake");
    }

    /// The answers for run 1, and for the others, which come while it is being cancelled.
    fn cancel(cancels: &Cancels, desk: &Slow, others: &[u64]) -> Vec<(u64, CancelAnswer)> {
        let ids = [1].iter().chain(others);
        let callers: Vec<Caller<'_>> = ids.map(|id| waiting(cancels, desk, *id)).collect();
        assert_eq!(desk.asked(), [[1]], "the others wait");
        desk.permit(100);
        answers(callers)
    }

    #[test]
    fn cancels_that_come_while_others_are_written_are_written_together() {
        let (cancels, desk) = (Cancels::default(), Slow::default());
        let became = cancel(&cancels, &desk, &[2, 3, 4]);
        assert_eq!(became, [1, 2, 3, 4].map(|id| (id, Ok(Cancelled::InTime))));
        assert_eq!(desk.asked(), [vec![1], vec![2, 3, 4]]);
        assert_eq!(answers([caller(&cancels, &desk, 4)]), [(4, Ok(Cancelled::TooLate))]);
    }

    #[test]
    fn one_that_cannot_be_cancelled_does_not_take_the_others_with_it() {
        let (cancels, desk) = (Cancels::default(), Slow::default());
        let became = cancel(&cancels, &desk, &[2, BROKEN, 14]);
        // They were cancelled together after all, which the caller sees when it looks.
        assert_eq!((&became[1].1, &became[3].1), (&Ok(Cancelled::Asked), &Ok(Cancelled::Asked)));
        assert_eq!(became[2].1, Err(DeskError::Conflict("broken".into())));
    }

    #[test]
    fn a_store_that_is_away_is_asked_once_for_all() {
        let (cancels, desk) = (Cancels::default(), Slow::default());
        let became = cancel(&cancels, &desk, &[2, AWAY]);
        assert!(became[1..].iter().all(|(_, became)| matches!(became, Err(DeskError::Unknown(_)))));
        assert_eq!(desk.asked().len(), 2);
    }

    #[test]
    fn after_a_bug_every_caller_is_answered_and_the_next_is_carried_out() {
        let (cancels, desk) = (Cancels::default(), Slow::default());
        let became = cancel(&cancels, &desk, &[2, FATAL, 67]);
        assert_eq!(became.len(), 3, "the bug itself answers one of them: {became:?}");
        assert!(became[1..].iter().all(|(_, became)| matches!(became, Err(DeskError::Unknown(_)))));
        assert_eq!(answers([caller(&cancels, &desk, 5)]), [(5, Ok(Cancelled::InTime))]);
    }

    #[test]
    fn a_caller_that_goes_away_has_not_withdrawn_its_request() {
        let (cancels, desk) = (Cancels::default(), Slow::default());
        let first = waiting(&cancels, &desk, 1);
        drop(waiting(&cancels, &desk, 2));
        let third = waiting(&cancels, &desk, 3);
        drop(waiting(&cancels, &desk, 4));
        desk.permit(100);
        assert_eq!(answers([first, third]), [1, 3].map(|id| (id, Ok(Cancelled::InTime))));
        assert_eq!(desk.asked(), [vec![1], vec![2, 3, 4]]);
        assert_eq!(desk.ended.lock().unwrap().len(), 4);
    }

    #[test]
    fn requests_whose_callers_have_all_gone_are_carried_out_by_the_one_that_is_writing() {
        let (cancels, desk) = (Cancels::default(), Slow::default());
        let first = waiting(&cancels, &desk, 1);
        drop(waiting(&cancels, &desk, 2));
        desk.permit(100);
        assert_eq!(answers([first]), [(1, Ok(Cancelled::InTime))]);
        assert_eq!(desk.asked(), [[1], [2]]);
    }

    #[test]
    fn when_the_one_that_is_writing_goes_away_the_next_caller_writes_for_all() {
        let (cancels, desk) = (Cancels::default(), Slow::default());
        let mut first = waiting(&cancels, &desk, 1);
        let mut second = waiting(&cancels, &desk, 2);
        let third = waiting(&cancels, &desk, 3);
        desk.permit(1);
        assert_eq!(poll(&mut first), Poll::Ready((1, Ok(Cancelled::InTime))));
        assert!(poll(&mut second).is_pending());
        // It has ended one of the two when it is broken off.
        desk.ended.lock().unwrap().insert(RunId(3));
        drop(second);
        desk.permit(100);
        assert_eq!(answers([third]), [(3, Ok(Cancelled::Asked))], "its caller has to look at it");
        assert_eq!(desk.asked(), [vec![1], vec![2, 3], vec![2, 3]]);
        assert_eq!(desk.ended.lock().unwrap().len(), 3);
    }
}

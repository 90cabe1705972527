//! Wishes that single runs end. Those that come while others are carried out wait, and are then carried out together, at the
//! price of one: what a database spends on a run that is cancelled alone is nearly all for the transaction around it, and the
//! transactions of one job wait for each other, because they count in one row.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_core::model::{RunId, Text};
use punctual_node::{Cancelled, DeskError, Node};
use tokio::sync::oneshot;

/// How many are carried out together.
const MOST: usize = 1_000;

/// What is said to who wished.
type Became = Result<Cancelled, DeskError>;

/// Who carries wishes out.
pub(crate) trait Desk: Send + Sync + 'static {
    /// What became of each of them.
    fn cancel_all(&self, runs: &[RunId]) -> impl Future<Output = Result<Vec<Cancelled>, DeskError>> + Send;
}

impl Desk for Node {
    async fn cancel_all(&self, runs: &[RunId]) -> Result<Vec<Cancelled>, DeskError> {
        Node::cancel_all(self, runs).await
    }
}

/// Wishes that wait for each other.
#[derive(Clone, Default)]
pub(crate) struct Cancels(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    waiting: Vec<(RunId, oneshot::Sender<Became>)>,
    /// Whether somebody sees to those who wait.
    is_attended: bool,
}

impl Cancels {
    /// Ends a run, with those that others wish to end. Whoever gives up waiting has wished all the same.
    pub(crate) async fn cancel(&self, desk: &Arc<impl Desk>, run: RunId) -> Became {
        let (tell, told) = oneshot::channel();
        let was_attended = {
            let mut queue = self.queue();
            queue.waiting.push((run, tell));
            std::mem::replace(&mut queue.is_attended, true)
        };
        if !was_attended {
            tokio::spawn(Attendant(self.clone()).attend(Arc::clone(desk)));
        }
        let unsaid = || DeskError::Unknown(Text::Borrowed("whoever was cancelling it was stopped"));
        told.await.unwrap_or_else(|_| Err(unsaid()))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees to those who wait, until nobody does.
struct Attendant(Cancels);

impl Attendant {
    async fn attend(self, desk: Arc<impl Desk>) {
        loop {
            let taken = self.take();
            if taken.is_empty() {
                return;
            }
            let runs: Vec<RunId> = taken.iter().map(|(run, _)| *run).collect();
            match desk.cancel_all(&runs).await {
                Ok(became) => {
                    for ((_, tell), became) in taken.into_iter().zip(became) {
                        // Nobody may be there any more to hear it.
                        let _ = tell.send(Ok(became));
                    }
                }
                Err(error)
                    if taken.len() == 1 || matches!(error, DeskError::Unknown(_) | DeskError::Away(_)) =>
                {
                    taken.into_iter().for_each(|(_, tell)| drop(tell.send(Err(error.clone()))));
                }
                Err(_) => {
                    for (run, tell) in taken {
                        let _ = tell.send(alone(&*desk, run).await);
                    }
                }
            }
        }
    }

    /// Those who came first. When nobody waits it is over, and whoever comes next finds nobody in attendance.
    fn take(&self) -> Vec<(RunId, oneshot::Sender<Became>)> {
        let mut queue = self.0.queue();
        let count = queue.waiting.len().min(MOST);
        queue.is_attended = count > 0;
        queue.waiting.drain(..count).collect()
    }
}

impl Drop for Attendant {
    /// After a panic nobody is left waiting for it. Otherwise somebody else may be in attendance by now.
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0.queue() = Queue::default();
        }
    }
}

/// Ends one of several that could not be ended together. Where it is too late now it may have been those very wishes that ended
/// it, so whoever wished has to look.
async fn alone(desk: &impl Desk, run: RunId) -> Became {
    let became = desk.cancel_all(&[run]).await?.pop();
    Ok(became.filter(|became| *became != Cancelled::TooLate).unwrap_or(Cancelled::Asked))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;

    use super::*;

    /// A desk that ends runs when it is let, and keeps what it was asked.
    struct Slow {
        let_go: Semaphore,
        asked: Mutex<Vec<Vec<u64>>>,
        ended: Mutex<BTreeSet<RunId>>,
    }

    /// A run whose row cannot be read, one that brings the desk down, and one that the store does not answer about.
    const BROKEN: u64 = 13;
    const FATAL: u64 = 66;
    const AWAY: u64 = 77;

    impl Slow {
        fn new() -> Arc<Slow> {
            Arc::new(Slow { let_go: Semaphore::new(0), asked: Mutex::default(), ended: Mutex::default() })
        }

        fn asked(&self) -> Vec<Vec<u64>> {
            self.asked.lock().unwrap().clone()
        }
    }

    impl Desk for Slow {
        async fn cancel_all(&self, runs: &[RunId]) -> Result<Vec<Cancelled>, DeskError> {
            self.asked.lock().unwrap().push(runs.iter().map(|run| run.0).collect());
            self.let_go.acquire().await.unwrap().forget();
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

    /// Wishes for 1, and for the others while the desk is at it; what became of all, by their numbers.
    async fn wish(cancels: &Cancels, desk: &Arc<Slow>, others: &[u64]) -> Vec<(u64, Became)> {
        let mut wishes = JoinSet::new();
        let mut wish = |id: u64| {
            let (cancels, desk) = (cancels.clone(), Arc::clone(desk));
            wishes.spawn(async move { (id, cancels.cancel(&desk, RunId(id)).await) });
        };
        wish(1);
        while desk.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        others.iter().for_each(|id| wish(*id));
        while cancels.queue().waiting.len() < others.len() {
            tokio::task::yield_now().await;
        }
        desk.let_go.add_permits(100);
        let mut became = wishes.join_all().await;
        became.sort_unstable_by_key(|(id, _)| *id);
        became
    }

    #[tokio::test]
    async fn who_comes_while_others_are_ended_is_ended_with_those_who_wait() {
        let (cancels, desk) = (Cancels::default(), Slow::new());
        let became = wish(&cancels, &desk, &[2, 3, 4]).await;
        assert!(became.iter().all(|(_, became)| *became == Ok(Cancelled::InTime)), "{became:?}");
        assert_eq!(desk.asked(), [vec![1], vec![2, 3, 4]]);
        assert_eq!(cancels.cancel(&desk, RunId(4)).await, Ok(Cancelled::TooLate));
    }

    #[tokio::test]
    async fn one_that_cannot_be_ended_does_not_take_the_others_with_it() {
        let (cancels, desk) = (Cancels::default(), Slow::new());
        let became = wish(&cancels, &desk, &[2, BROKEN, 14]).await;
        // They were ended together after all, which shows to who looks.
        assert_eq!((&became[1].1, &became[3].1), (&Ok(Cancelled::Asked), &Ok(Cancelled::Asked)));
        assert_eq!(became[2].1, Err(DeskError::Conflict("broken".into())));
    }

    #[tokio::test]
    async fn a_store_that_is_away_is_asked_once_for_all() {
        let (cancels, desk) = (Cancels::default(), Slow::new());
        let became = wish(&cancels, &desk, &[2, AWAY]).await;
        assert!(became[1..].iter().all(|(_, became)| matches!(became, Err(DeskError::Unknown(_)))));
        assert_eq!(desk.asked().len(), 2);
    }

    #[tokio::test]
    async fn after_a_bug_everybody_is_answered_and_the_next_is_seen_to() {
        let (cancels, desk) = (Cancels::default(), Slow::new());
        let became = wish(&cancels, &desk, &[2, FATAL]).await;
        assert!(became[1..].iter().all(|(_, became)| matches!(became, Err(DeskError::Unknown(_)))));
        assert_eq!(cancels.cancel(&desk, RunId(5)).await, Ok(Cancelled::InTime));
    }
}

//! Looks for an order of the verbs, one after the other, in which the model answers what was answered. A verb that was answered
//! before another was asked comes before it; one that nobody knows the fate of comes at any moment after it was asked, or
//! never (Wing and Gong's search, which does not come twice to the same state with the same verbs done).

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use punctual_store::Memory;
use rustc_hash::FxHasher;

use super::history::{Event, History, Scene};
use super::model;

/// The order, as places in the history; none if there is none.
pub(crate) async fn explain(scene: &Scene, history: &History) -> Option<Vec<usize>> {
    let mut search = Search { scene, events: &history.events, seen: BTreeSet::new() };
    search.go_on(Vec::new()).await
}

struct Search<'h> {
    scene: &'h Scene,
    events: &'h [Event],
    /// Which verbs were done, and what was stored then.
    seen: BTreeSet<(u64, u64)>,
}

impl Search<'_> {
    async fn go_on(&mut self, order: Vec<usize>) -> Option<Vec<usize>> {
        let done: u64 = order.iter().map(|place| 1 << place).sum();
        let is_open = |place: usize| done >> place & 1 == 0;
        let known = |place: usize| self.events[place].answer.is_some();
        let open: Vec<usize> = (0..self.events.len()).filter(|place| is_open(*place)).collect();
        if !open.iter().any(|place| known(*place)) {
            return Some(order);
        }
        // Nobody can come after one that was answered before he asked.
        let first_answered =
            open.iter().filter(|place| known(**place)).map(|place| self.events[*place].answered).min()?;
        for place in open {
            if self.events[place].asked > first_answered {
                continue;
            }
            let order: Vec<usize> = order.iter().copied().chain([place]).collect();
            let Some(stored) = self.replay(&order).await else { continue };
            if self.seen.insert((done | 1 << place, stored))
                && let Some(order) = Box::pin(self.go_on(order)).await
            {
                return Some(order);
            }
        }
        None
    }

    /// Performs verbs on the model; what is stored then, if the last of them was answered as it was.
    async fn replay(&self, order: &[usize]) -> Option<u64> {
        let memory: Memory = model();
        let scene = Scene::set(&memory).await;
        assert_eq!(scene.leases, self.scene.leases, "every store begins with the same leases");
        let mut is_so = true;
        for place in order {
            let Event { verb, answer, .. } = &self.events[*place];
            let said = verb.ask(&memory, self.scene).await.expect("the model always knows");
            is_so = answer.as_ref().is_none_or(|answer| *answer == said);
        }
        is_so.then(|| {
            let mut hasher = FxHasher::default();
            format!("{:?}", memory.dump()).hash(&mut hasher);
            hasher.finish()
        })
    }
}

mod tests {
    //! The judge itself: it finds orders that are there, and refuses answers that no order gives.

    use punctual_core::model::{NodeId, ShardId};

    use super::*;
    use crate::serial::history::Draw;
    use crate::serial::verb::Verb;
    use crate::suite::Whole;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    async fn scene() -> Scene {
        Scene::set(&model()).await
    }

    fn event(verb: &Verb, answer: Option<&str>, asked: u64, answered: u64) -> Event {
        Event { verb: verb.clone(), answer: answer.map(str::to_owned), asked, answered }
    }

    /// What the model answers to verbs in this order.
    async fn answers(verbs: &[&Verb]) -> Vec<String> {
        let memory = model();
        let scene = Scene::set(&memory).await;
        let mut answers = Vec::new();
        for verb in verbs {
            answers.push(verb.ask(&memory, &scene).await.unwrap());
        }
        answers
    }

    /// Two who want the same shard, once it was given back.
    fn rivals(scene: &Scene) -> (Verb, Verb) {
        let give_back = Verb::Release(NodeId(1), vec![scene.leases[0]]);
        (give_back, Verb::Acquire(NodeId(2), vec![ShardId(0)]))
    }

    #[test]
    fn what_overlaps_may_have_happened_in_either_order() {
        block_on(async {
            let scene = scene().await;
            let (release, acquire) = rivals(&scene);
            let after = answers(&[&release, &acquire]).await;
            let before = answers(&[&acquire, &release]).await;
            assert_ne!(after[1], before[0], "the order matters");
            for taken in [&after[1], &before[0]] {
                let events = vec![event(&acquire, Some(taken), 0, 2), event(&release, Some("()"), 1, 3)];
                assert!(explain(&scene, &History { events }).await.is_some(), "{taken}");
            }
        });
    }

    #[test]
    fn what_was_answered_before_cannot_have_come_after() {
        block_on(async {
            let scene = scene().await;
            let (release, acquire) = rivals(&scene);
            let after = answers(&[&release, &acquire]).await;
            let events = vec![event(&acquire, Some(&after[1]), 0, 1), event(&release, Some("()"), 2, 3)];
            assert_eq!(explain(&scene, &History { events }).await, None);
        });
    }

    #[test]
    fn what_nobody_knows_may_have_happened_or_not() {
        block_on(async {
            let scene = scene().await;
            let (release, acquire) = rivals(&scene);
            let after = answers(&[&release, &acquire]).await;
            let before = answers(&[&acquire, &release]).await;
            for taken in [&after[1], &before[0]] {
                let events = vec![event(&release, None, 0, 1), event(&acquire, Some(taken), 2, 3)];
                assert!(explain(&scene, &History { events }).await.is_some(), "{taken}");
            }
        });
    }

    #[test]
    fn a_wrong_answer_is_refused_wherever_it_stands() {
        block_on(async {
            for seed in 0..8 {
                let memory = model();
                let scene = Scene::set(&memory).await;
                let clients: Vec<&dyn Whole> = vec![&memory; 3];
                let killer = std::future::pending();
                let history = History::record(&scene, &mut Draw::new(seed), &clients, killer).await;
                assert!(explain(&scene, &history).await.is_some());
                for place in 0..history.events.len() {
                    let mut wrong = history.clone();
                    let answer = wrong.events[place].answer.as_mut().expect("the model always knows");
                    answer.push_str(" and more");
                    assert_eq!(explain(&scene, &wrong).await, None, "{seed}, {place}");
                }
            }
        });
    }

    #[test]
    fn a_write_that_was_acknowledged_and_lost_is_found_out() {
        block_on(async {
            let mut found = 0;
            for seed in 0..20 {
                let memory = model();
                let scene = Scene::set(&memory).await;
                let untouched = Verb::Look.ask(&memory, &scene).await.unwrap();
                let clients: Vec<&dyn Whole> = vec![&memory; 3];
                let killer = std::future::pending();
                let mut history = History::record(&scene, &mut Draw::new(seed), &clients, killer).await;
                // What was looked at last is as if nothing had ever been written.
                let look = history.events.last_mut().expect("it looks at last");
                if look.answer.as_ref() != Some(&untouched) {
                    look.answer = Some(untouched);
                    assert_eq!(explain(&scene, &history).await, None, "{seed}");
                    found += 1;
                }
            }
            assert!(found > 0, "some history writes something");
        });
    }
}

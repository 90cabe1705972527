//! A few things at once, without tasks: steps and the desk spawn nothing.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Starts `work` for each item, at most `max` at a time, and hands each result to `done` as soon as it is there.
pub(crate) async fn few_at_once<T, F: Future>(
    items: impl IntoIterator<Item = T>,
    max: usize,
    work: impl Fn(T) -> F,
    mut done: impl FnMut(F::Output),
) {
    let mut waiting = items.into_iter().map(work);
    let mut going: Vec<Pin<Box<F>>> = Vec::with_capacity(max);
    poll_fn(|context| {
        loop {
            going.extend(waiting.by_ref().take(max - going.len()).map(Box::pin));
            let before = going.len();
            going.retain_mut(|one| match one.as_mut().poll(context) {
                Poll::Ready(output) => {
                    done(output);
                    false
                }
                Poll::Pending => true,
            });
            if going.is_empty() && before == 0 {
                return Poll::Ready(());
            }
            // A future that took the place of one that ended was not asked yet, so nothing would wake it.
            if going.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_few_go_at_once_and_each_is_done_once() {
        let (going, most) = (Cell::new(0), Cell::new(0));
        let work = |number: u32| {
            let (going, most) = (&going, &most);
            let mut turns = 1 + number % 3;
            let mut is_new = true;
            poll_fn(move |context| {
                if std::mem::take(&mut is_new) {
                    going.set(going.get() + 1);
                    most.set(most.get().max(going.get()));
                }
                if turns > 0 {
                    turns -= 1;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                going.set(going.get() - 1);
                Poll::Ready(number)
            })
        };
        let mut done = Vec::new();
        {
            let mut all = std::pin::pin!(few_at_once(0..100, 8, work, |number| done.push(number)));
            let mut context = Context::from_waker(Waker::noop());
            while all.as_mut().poll(&mut context).is_pending() {}
        }
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<u32>>());
        assert_eq!((most.get(), going.get()), (8, 0));
    }
}

//! Commands that are carried out to their end even if their caller hangs up: a command that is half done would have
//! to be found and finished later.
//!
//! The task of the caller's request carries the command out itself. Only if that task is dropped in the middle, the
//! rest becomes a task of its own. A task for every command would cost each of them two wake-ups: one to begin, one
//! for the answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::StatusCode;
use tokio::runtime::Handle;

use crate::problem::Problem;

/// Carries out a command, whether or not its caller waits for the end. A panic becomes an error like any other.
pub(crate) async fn uncut<T: Send + 'static>(
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    Uncut(Some(Box::pin(work))).await
}

/// Work that is carried out to its end.
struct Uncut<F: Future + Send + 'static>(Option<Pin<Box<F>>>);

impl<T, F: Future<Output = Result<T, Problem>> + Send + 'static> Future for Uncut<F> {
    type Output = Result<T, Problem>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Problem>> {
        let work = self.0.as_mut().expect("nobody asks for an answer twice");
        // What it leaves behind is dropped right after.
        let answer = match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answer)) => answer,
            Err(_) => Err(bug()),
        };
        self.0 = None;
        Poll::Ready(answer)
    }
}

impl<F: Future + Send + 'static> Drop for Uncut<F> {
    fn drop(&mut self) {
        // Without a runtime the node is ending too.
        if let (Some(work), Ok(threads)) = (self.0.take(), Handle::try_current()) {
            threads.spawn(async move { drop(work.await) });
        }
    }
}

fn bug() -> Problem {
    tracing::error!("a request met a bug");
    let said = "a bug was met; the log has more under this request's number";
    Problem { may_be_done: true, ..Problem::new(StatusCode::INTERNAL_SERVER_ERROR, said) }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_was_begun_is_done_also_when_whoever_asked_has_gone() {
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let mut asked = Box::pin(uncut(async move {
            may_go_on.await.expect("it is let go on");
            tell.send("done").expect("somebody listens");
            Ok(())
        }));
        let begun = poll_fn(|context| Poll::Ready(asked.as_mut().poll(context))).await;
        assert!(begun.is_pending());
        drop(asked);
        go_on.send(()).expect("it waits");
        assert_eq!(told.await, Ok("done"));
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let problem = uncut::<()>(async { panic!("a bug") }).await.unwrap_err();
        assert_eq!((problem.status.as_u16(), problem.may_be_done), (500, true));
    }
}

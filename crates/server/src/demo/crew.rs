//! The crew of a demo: simulated executors in this very process, for as long as the demo lives.

use std::sync::Arc;

use punctual_executor::{Context, Executor, Failure};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::jobs::{APPS, DemoWork, WORKS};
use crate::clock;

pub(super) struct Crew {
    stop: watch::Sender<bool>,
    executors: JoinSet<()>,
}

impl Crew {
    /// Starts the executors; they connect as soon as the node listens.
    pub(super) fn start(runtime: &Runtime, url: &str) -> Crew {
        let (stop, stopped) = watch::channel(false);
        let mut executors = JoinSet::new();
        for (app, count) in APPS {
            for number in 1..=count {
                let executor = executor(app, number, url);
                let mut stopped = stopped.clone();
                let task = async move {
                    // The sender outlives this task: `stop` drops it only after all executors have ended.
                    let end = async { drop(stopped.wait_for(|is_stopped| *is_stopped).await) };
                    if let Err(error) = executor.run_until(end).await {
                        tracing::error!(%error, "an executor of the demo did not start");
                    }
                };
                executors.spawn_on(task, runtime.handle());
            }
        }
        Crew { stop, executors }
    }

    /// Stops the executors.
    pub(super) fn stop(mut self, runtime: &Runtime) {
        self.stop.send_replace(true);
        self.executors.abort_all();
        runtime.block_on(async { while self.executors.join_next().await.is_some() {} });
    }
}

fn executor(app: &'static str, number: usize, url: &str) -> Executor {
    let own = WORKS.iter().filter(|work| work.app == app);
    let executor = Executor::new(app).url(url).name(format!("{app}-worker-{number}")).capacity(8);
    own.fold(executor, |executor, work| {
        executor.handler(work.name, move |context: Context| act(work, Arc::new(context)))
    })
}

async fn act(work: &'static DemoWork, context: Arc<Context>) -> Result<String, Failure> {
    let deed = work.deed(context.run(), context.attempt());
    let pieces = u32::try_from(deed.lines.len() + 1).unwrap_or(1);
    for (number, line) in (1_u32..).zip(&deed.lines) {
        context.log(line.as_str());
        context.progress(u8::try_from(100 * (number - 1) / pieces).unwrap_or(0), line.as_str());
        tokio::select! {
            () = clock::sleep(deed.takes / pieces) => {}
            () = context.cancelled() => return Err(Failure::cancelled()),
        }
    }
    clock::sleep(deed.takes / pieces).await;
    deed.end.map_err(|said| {
        context.log(format!("\u{1b}[31merror\u{1b}[0m {said}"));
        Failure::new(said)
    })
}

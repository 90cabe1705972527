//! Figures about everything the caller reaches.

use std::sync::Arc;

use calendar::Timestamp;
use punctual_node::ports::{Counts, JobFilter};
use punctual_protocol::{Forecast, History, Past, Role, Stats};

use super::jobs::catch_up;
use super::ok;
use crate::app::Front;
use crate::forecast;
use crate::ledger::{STEP_MS, Step};
use crate::problem::Problem;
use crate::query::{Kind, Param};
use crate::table::{Answer, Call, Operation, Permission};

const HOURS: Param = Param {
    name: "hours",
    kind: Kind::Count { max: 168, usual: 24 },
    about: "How many hours, at most a week.",
};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/stats", "getStats", |front, call| Box::pin(stats(front, call)))
            .about(
                "stats",
                "Counts jobs and runs, and says what this node has in hand if the token reaches all apps.",
            )
            .needs(Permission::Role(Role::Viewer))
            .answers::<Stats>(200, "The figures."),
        Operation::get("/api/v1/stats/history", "getHistory", |front, call| Box::pin(history(front, call)))
            .about("stats", "Says what has become of runs in the last hours, as far as this node saw it.")
            .needs(Permission::Whole(Role::Viewer))
            .query(&[HOURS])
            .answers::<History>(200, "Stretches of time, the oldest first."),
        Operation::get("/api/v1/forecast", "getForecast", |front, call| Box::pin(forecast(front, call)))
            .about("stats", "Says what is due in the next hours, by the schedules of jobs.")
            .needs(Permission::Role(Role::Viewer))
            .query(&[HOURS])
            .answers::<Forecast>(200, "What is due, and the busiest seconds."),
    ]
}

/// Steps of so many five minutes, the first that makes few enough stretches of what was asked for.
const STEPS: [i64; 5] = [1, 3, 6, 12, 24];
const STRETCHES_MAX: i64 = 96;

async fn history(front: Arc<Front>, call: Call) -> Answer {
    let hours = i64::from(call.query.count("hours").unwrap_or(24));
    let count = |step: i64| hours * 12 / step;
    let step = STEPS.into_iter().find(|step| count(*step) <= STRETCHES_MAX).unwrap_or(24);
    let now = front.now()?;
    catch_up(&front, now).await;
    let (since, steps) = front.events.ledger().history(now, step, count(step));
    let nodes = front.node.nodes();
    let own = nodes.iter().find(|node| node.is_self);
    Ok(ok(&History {
        step_ms: (step * STEP_MS) as u64,
        since: since.map(|at| at.to_string()),
        node: own.map(|node| node.name.to_string()).unwrap_or_default(),
        nodes: nodes.len() as u64,
        buckets: steps.iter().map(|(at, step)| past(*at, step)).collect(),
    }))
}

fn past(at: Timestamp, step: &Step) -> Past {
    let lag_p50_ms = step.lag_ms(50);
    Past {
        at: at.to_string(),
        succeeded: step.succeeded,
        failed: step.failed,
        not_run: step.not_run,
        sent: step.sent,
        late: step.late,
        lag_p50_ms,
        lag_p99_ms: step.lag_ms(99),
        lag_max_ms: lag_p50_ms.map(|_| step.lag_max_ms),
    }
}

async fn forecast(front: Arc<Front>, call: Call) -> Answer {
    let hours = call.query.count("hours").unwrap_or(24);
    Ok(ok(&*forecast::ask(&front, call.caller.apps_of(None), hours).await?))
}

async fn stats(front: Arc<Front>, call: Call) -> Answer {
    let apps = call.caller.apps_of(None);
    let filter = JobFilter { apps, ..JobFilter::default() };
    let (jobs, jobs_enabled) = front.browse.job_totals(&filter).await?;
    let counts = match call.caller.reaches_all() {
        true => front.browse.counts(None).await?,
        false => counts_of(&front, &filter).await?,
    };
    let (loaded, running) = front.node.load_figures();
    let backlog = call.caller.reaches_all().then(|| front.node.backlog());
    // What the node has in hand is everybody's.
    let of_all = |figure: usize| call.caller.reaches_all().then_some(figure as u64);
    Ok(ok(&Stats {
        jobs,
        jobs_enabled,
        succeeded: counts.succeeded,
        failed: counts.failed,
        not_run: counts.not_run,
        loaded: of_all(loaded),
        running: of_all(running),
        shards: of_all(front.node.shards_held()),
        due: backlog.map(|backlog| backlog.due),
        oldest_due_ms: backlog.and_then(|backlog| backlog.oldest).map(|age| age.as_millis() as u64),
        now: front.now()?.to_string(),
    }))
}

/// What has become of the runs of some jobs.
async fn counts_of(front: &Front, filter: &JobFilter) -> Result<Counts, Problem> {
    let (mut sum, mut after) = (Counts::default(), None);
    loop {
        let page = front.browse.job_list(filter, after, 1_000).await?;
        for job in &page.items {
            sum.succeeded += job.counts.succeeded;
            sum.failed += job.counts.failed;
            sum.not_run += job.counts.not_run;
        }
        after = page.next;
        if after.is_none() {
            return Ok(sum);
        }
    }
}

//! Figures about everything the caller reaches.

use std::sync::Arc;

use calendar::Timestamp;
use punctual_node::ports::{Counts, JobFilter};
use punctual_observe::{OutcomeTally, STEP_MS, Stretches, together};
use punctual_protocol::{Forecast, History, Past, PeerFiguresAsked, PeerLoad, Role, Stats};

use super::jobs::catch_up;
use super::ok;
use crate::app::Front;
use crate::forecast;
use crate::others::{self, tell_stretches};
use crate::problem::Problem;
use crate::query::{Param, ParamKind};
use crate::table::{Answer, Call, Operation, Permission};

const HOURS: Param = Param {
    name: "hours",
    kind: ParamKind::Count { max: 168, usual: 24 },
    about: "How many hours, at most a week.",
};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/stats", "getStats", |front, call| Box::pin(stats(front, call)))
            .about(
                "stats",
                "Counts jobs and runs, and says what the nodes have in hand if the token reaches all apps.",
            )
            .needs(Permission::Role(Role::Viewer))
            .answers::<Stats>(200, "The figures."),
        Operation::get("/api/v1/stats/history", "getHistory", |front, call| Box::pin(history(front, call)))
            .about(
                "stats",
                "Says what has become of runs in the last hours, as far as the nodes that live saw it.",
            )
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

/// Stretch lengths, in steps of five minutes: the first that divides the requested range into few enough stretches is
/// used.
const STEPS: [i64; 5] = [1, 3, 6, 12, 24];
const STRETCHES_MAX: i64 = 96;

async fn history(front: Arc<Front>, call: Call) -> Answer {
    let hours = i64::from(call.query.count("hours").unwrap_or(24));
    let count = |step: i64| hours * 12 / step;
    let step = STEPS.into_iter().find(|step| count(*step) <= STRETCHES_MAX).unwrap_or(24);
    let now = front.now()?;
    catch_up(&front, now).await;
    let stretches = Stretches::until(now, step, count(step));
    let asked = PeerFiguresAsked { stretches: Some(tell_stretches(stretches)), jobs: vec![] };
    let gathered = front.figures.gather(&front, asked).await;
    let own = front.events.rollup().figures(stretches);
    let (since, tallies) = together(gathered.figures.iter().cloned().chain([own]).collect());
    let nodes = front.node.nodes();
    let own = nodes.iter().find(|node| node.is_self);
    Ok(ok(&History {
        step_ms: (step * STEP_MS) as u64,
        since: since.map(|at| at.to_string()),
        node: own.map(|node| node.name.to_string()).unwrap_or_default(),
        nodes: nodes.len() as u64,
        missing: gathered.missing.clone(),
        buckets: stretches.begins().zip(&tallies).map(|(at, tally)| past(at, tally)).collect(),
    }))
}

fn past(at: Timestamp, tally: &OutcomeTally) -> Past {
    let lag_p50_ms = tally.lag_ms(50);
    Past {
        at: at.to_string(),
        succeeded: tally.succeeded,
        failed: tally.failed,
        not_run: tally.not_run,
        sent: tally.sent,
        late: tally.late,
        lag_p50_ms,
        lag_p99_ms: tally.lag_ms(99),
        lag_max_ms: lag_p50_ms.map(|_| tally.lag_max_ms),
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
    // The load of nodes spans all apps.
    let of_all = match call.caller.reaches_all() {
        true => Some(Loads::of(&front).await),
        false => None,
    };
    let figure = |one: fn(&PeerLoad) -> u64| {
        of_all.as_ref().map(|loads| loads.items.iter().map(one).fold(0, u64::saturating_add))
    };
    Ok(ok(&Stats {
        jobs,
        jobs_enabled,
        succeeded: counts.succeeded,
        failed: counts.failed,
        not_run: counts.not_run,
        loaded: figure(|load| load.loaded),
        running: figure(|load| load.running),
        shards: figure(|load| load.shards),
        due: figure(|load| load.due),
        oldest_due_ms: of_all
            .as_ref()
            .and_then(|loads| loads.items.iter().filter_map(|load| load.oldest_due_ms).max()),
        missing: of_all.map(|loads| loads.missing).unwrap_or_default(),
        now: front.now()?.to_string(),
    }))
}

/// The load of each node, and the nodes that did not answer.
struct Loads {
    items: Vec<PeerLoad>,
    missing: Vec<String>,
}

impl Loads {
    async fn of(front: &Front) -> Loads {
        let gathered = front.figures.gather(front, PeerFiguresAsked::default()).await;
        let items = gathered.loads.iter().copied().chain([others::load(front)]).collect();
        Loads { items, missing: gathered.missing.clone() }
    }
}

/// The counts of the runs of some jobs.
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

//! What is done with a job: started, stopped, run, backfilled; and what comes next of it.

use std::sync::Arc;

use http::StatusCode;
use punctual_core::model::{JobMove, StoppedReason};
use punctual_protocol::{BackfillRange, Backfilled, FireTimes, Job, Page, Role, Run, RunCreated, RunNow};

use super::jobs::shown;
use super::runs::{self, RUN_PARAMS};
use super::{TAG, by, job, json, ok};
use crate::app::Front;
use crate::body;
use crate::convert::fields::{Faults, Spot};
use crate::convert::show_job::fire_times;
use crate::convert::submission::read_now;
use crate::problem::Problem;
use crate::query::{Param, ParamKind};
use crate::table::{Answer, Call, Operation, Permission};

const COUNT: Param =
    Param { name: "count", kind: ParamKind::Count { max: 1_000, usual: 10 }, about: "How many fire times." };

pub(super) fn operations() -> Vec<Operation> {
    let operator = Permission::Role(Role::Operator);
    let viewer = Permission::Role(Role::Viewer);
    vec![
        Operation::post("/api/v1/jobs/{id}/start", "startJob", |front, call| Box::pin(start(front, call)))
            .about("jobs", "Lets a job fire by itself.")
            .needs(operator)
            .answers_with::<Job>(200, "The job.", &[TAG]),
        Operation::post("/api/v1/jobs/{id}/stop", "stopJob", |front, call| Box::pin(stop(front, call)))
            .about("jobs", "Stops a job from firing by itself.")
            .needs(operator)
            .answers_with::<Job>(200, "The job; no send of it begins any more.", &[TAG]),
        Operation::post("/api/v1/jobs/{id}/run", "runJob", |front, call| Box::pin(run_now(front, call)))
            .about("jobs", "Runs a job now, whether it is stopped or not.")
            .needs(operator)
            .takes_optional::<RunNow>()
            .answers::<RunCreated>(202, "The run."),
        Operation::post("/api/v1/jobs/{id}/backfill", "backfillJob", |front, call| {
            Box::pin(backfill(front, call))
        })
        .about("jobs", "Runs the fire times of a past range that have no run; with dry_run counts them.")
        .needs(operator)
        .takes::<BackfillRange>()
        .answers::<Backfilled>(200, "What was done, or would be."),
        Operation::get("/api/v1/jobs/{id}/next", "nextFireTimes", |front, call| Box::pin(next(front, call)))
            .about("jobs", "Says when a job fires next, its windows obeyed, as if it were not stopped.")
            .needs(viewer)
            .query(&[COUNT])
            .answers::<FireTimes>(200, "Fire times."),
        Operation::get("/api/v1/jobs/{id}/runs", "listJobRuns", |front, call| Box::pin(history(front, call)))
            .about("jobs", "Lists the runs of a job, the newest first.")
            .needs(viewer)
            .query(RUN_PARAMS)
            .answers::<Page<Run>>(200, "A page of runs."),
    ]
}

async fn start(front: Arc<Front>, call: Call) -> Answer {
    alter(&front, &call, JobMove::Start).await
}

async fn stop(front: Arc<Front>, call: Call) -> Answer {
    alter(&front, &call, JobMove::Stop(StoppedReason::Asked)).await
}

async fn alter(front: &Front, call: &Call, asked: JobMove) -> Answer {
    let view = job(front, call).await?;
    let changed = front.node.edit(view.id, None, None, Some(asked), by(&call.caller)).await?;
    front.wait_in_force(changed.change).await?;
    shown(front, StatusCode::OK, &job(front, call).await?).await
}

async fn run_now(front: Arc<Front>, call: Call) -> Answer {
    let brings = read_now(&call.body, front.settings.payload_max)?;
    let view = job(&front, &call).await?;
    let run = front.node.run_now(view.id, brings).await?;
    (front.nudge)();
    Ok(json(StatusCode::ACCEPTED, &RunCreated { run: run.0 }))
}

async fn backfill(front: Arc<Front>, call: Call) -> Answer {
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let range = Spot::whole(&value, &faults).object().and_then(|object| {
        let from = object.must("from").and_then(|spot| spot.time());
        let to = object.must("to").and_then(|spot| spot.time());
        let dry_run = object.may("dry_run").map_or(Some(false), |spot| spot.flag());
        object.end();
        let (from, to) = (from?, to?);
        if to < from {
            object.spot.faults_at("/to", "is before from");
        }
        Some((from, to, dry_run?))
    });
    let (from, to, dry_run) = faults.unless(range)?;
    let view = job(&front, &call).await?;
    let done = front.node.backfill(view.id, from, to, dry_run).await?;
    (front.nudge)();
    let fire_times = done.fire_times.iter().map(|at| at.to_string()).collect();
    Ok(ok(&Backfilled { count: done.count, fire_times, created: done.created }))
}

async fn next(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    let count = call.query.count("count").unwrap_or(10) as usize;
    let is_delay = view.definition.schedule.is_delay();
    // Only the clock knows when the last run of a fixed delay ended.
    let times = match view.next_fire.filter(|_| is_delay) {
        Some(at) => vec![at],
        None => fire_times(&view.definition, &front.zones, front.now()?, count),
    };
    Ok(ok(&FireTimes { fire_times: times.iter().map(|at| at.to_string()).collect() }))
}

async fn history(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    let filter = runs::filter(&front, &call, Some(view.id)).await?;
    let filter = filter.ok_or_else(|| Problem::not_found(format!("job {}", view.id)))?;
    runs::page(&front, &call, filter).await
}

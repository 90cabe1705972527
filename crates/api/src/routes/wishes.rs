//! Requests about one run: cancel it, reschedule it, or run it again.

use std::sync::Arc;

use calendar::Timestamp;
use http::StatusCode;
use punctual_core::model::{Origin, RunId, RunState};
use punctual_node::Cancelled;
use punctual_node::ports::RunView;
use punctual_protocol::{Reschedule, Role, RunCreated, WishDone};

use super::{json, run, run_id};
use crate::app::Front;
use crate::body;
use crate::convert::fields::{Faults, Spot};
use crate::problem::Problem;
use crate::query::DRY_RUN;
use crate::table::{Answer, Call, Operation, Permission};

pub(super) fn operations() -> Vec<Operation> {
    let operator = Permission::Role(Role::Operator);
    vec![
        Operation::post("/api/v1/runs/{id}/cancel", "cancelRun", |front, call| Box::pin(cancel(front, call)))
            .about("runs", "Ends a run, and says whether it came in time.")
            .needs(operator)
            .query(&[DRY_RUN])
            .answers::<WishDone>(202, "What became of it.")
            .answers::<WishDone>(200, "What would become of it: dry_run."),
        Operation::post("/api/v1/runs/{id}/retry", "retryRun", |front, call| Box::pin(retry(front, call)))
            .about("runs", "Runs an ended run again, as a new run for the same fire time.")
            .needs(operator)
            .answers::<RunCreated>(202, "The new run."),
        Operation::post("/api/v1/runs/{id}/reschedule", "rescheduleRun", |front, call| {
            Box::pin(reschedule(front, call))
        })
        .about("runs", "Lets a one-shot that was not sent wait for another time.")
        .needs(operator)
        .takes::<Reschedule>()
        .answers::<WishDone>(202, "It waits for that time."),
    ]
}

async fn cancel(front: Arc<Front>, call: Call) -> Answer {
    if call.query.flag("dry_run") {
        let view = run(&front, &call).await?;
        let result = if view.state.is_open() { "done" } else { "too_late" };
        return Ok(json(StatusCode::OK, &WishDone { run: view.id.0, result: result.into() }));
    }
    // A caller that reaches every run needs no check of this one first.
    let id = match call.caller.reaches_all() {
        true => run_id(&call)?,
        false => run(&front, &call).await?.id,
    };
    let cancelled = front.node.cancel_batched(id).await?;
    (front.nudge)();
    let result = match cancelled {
        Cancelled::InTime => "done",
        // It is too late for a run that does not exist as well, but that is answered with 404.
        Cancelled::TooLate => run(&front, &call).await.map(|_| "too_late")?,
        Cancelled::Asked => match settled(&front, id, |view| !view.state.is_open()).await? {
            Some(view) if view.state == RunState::Cancelled => "done",
            Some(_) => "too_late",
            None => return Err(not_yet()),
        },
    };
    Ok(json(StatusCode::ACCEPTED, &WishDone { run: id.0, result: result.into() }))
}

/// The run, once the node that holds it has carried out the request.
async fn settled(
    front: &Front,
    id: RunId,
    is_done: impl Fn(&RunView) -> bool,
) -> Result<Option<RunView>, Problem> {
    front.wait_for(|| async { Ok(front.browse.run(id).await?.filter(&is_done)) }).await
}

fn not_yet() -> Problem {
    Problem::unavailable("the node that holds the run was asked and has not done it yet; repeating is safe")
}

async fn retry(front: Arc<Front>, call: Call) -> Answer {
    let view = run(&front, &call).await?;
    let again = front.node.retry(view.id).await?;
    (front.nudge)();
    Ok(json(StatusCode::ACCEPTED, &RunCreated { run: again.0 }))
}

async fn reschedule(front: Arc<Front>, call: Call) -> Answer {
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let at = Spot::whole(&value, &faults).object().and_then(|object| {
        let at = object.must("at").and_then(|spot| spot.time());
        object.end();
        at
    });
    let at: Timestamp = faults.unless(at)?;
    let view = run(&front, &call).await?;
    let too_late = || Problem::conflict(format!("run {} has ended or is on its way", view.id));
    if view.origin == Origin::OneShot && !view.state.is_open() {
        return Err(too_late());
    }
    let done = front.node.reschedule(view.id, at).await?;
    (front.nudge)();
    match done {
        Cancelled::InTime => {}
        Cancelled::TooLate => return Err(too_late()),
        Cancelled::Asked => {
            let wish = [(view.id, at)];
            let became = || async { Ok(front.node.rescheduled(&wish).await?.into_iter().flatten().next()) };
            match front.wait_for(became).await?.ok_or_else(not_yet)? {
                Cancelled::TooLate => return Err(too_late()),
                Cancelled::InTime | Cancelled::Asked => {}
            }
        }
    }
    Ok(json(StatusCode::ACCEPTED, &WishDone { run: view.id.0, result: "done".into() }))
}

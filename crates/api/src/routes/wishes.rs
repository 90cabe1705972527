//! Wishes about runs: that they end, wait, or run again.

use std::sync::Arc;

use calendar::Timestamp;
use http::StatusCode;
use punctual_core::model::{Origin, RunId, RunState};
use punctual_node::Cancelled;
use punctual_node::ports::{Page, RunFilter, RunView};
use punctual_protocol::{BulkCancel, BulkCancelled, Reschedule, Role, RunCreated, WishDone};

use super::{json, named_job, ok, reaches_job, run};
use crate::app::Front;
use crate::body;
use crate::caller::Caller;
use crate::convert::fields::{Faults, Object, Spot};
use crate::convert::job_ref::JobRef;
use crate::problem::Problem;
use crate::query::DRY_RUN;
use crate::table::{Answer, Call, Operation, Permission};

/// How many runs are cancelled at once.
const PAGE: usize = 1_000;

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
        Operation::post("/api/v1/runs/cancel", "cancelRuns", |front, call| {
            Box::pin(cancel_many(front, call))
        })
        .about("runs", "Ends all runs that a filter names; with dry_run counts them.")
        .needs(operator)
        .takes::<BulkCancel>()
        .answers::<BulkCancelled>(200, "How many there were, and how many were cancelled."),
    ]
}

async fn cancel(front: Arc<Front>, call: Call) -> Answer {
    let view = run(&front, &call).await?;
    if call.query.flag("dry_run") {
        let result = if view.state.is_open() { "done" } else { "too_late" };
        return Ok(json(StatusCode::OK, &WishDone { run: view.id.0, result: result.into() }));
    }
    let cancelled = front.node.cancel(view.id).await?;
    (front.nudge)();
    let result = match cancelled {
        Cancelled::InTime => "done",
        Cancelled::TooLate => "too_late",
        Cancelled::Asked => match settled(&front, view.id, |view| !view.state.is_open()).await? {
            Some(view) if view.state == RunState::Cancelled => "done",
            Some(_) => "too_late",
            None => return Err(not_yet()),
        },
    };
    Ok(json(StatusCode::ACCEPTED, &WishDone { run: view.id.0, result: result.into() }))
}

/// The run, once the node that holds it has done what it was asked.
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
            let is_done =
                |view: &RunView| !view.state.is_open() || view.ready_at.is_some_and(|ready| ready >= at);
            let view = settled(&front, view.id, is_done).await?.ok_or_else(not_yet)?;
            if !view.state.is_open() {
                return Err(too_late());
            }
        }
    }
    Ok(json(StatusCode::ACCEPTED, &WishDone { run: view.id.0, result: "done".into() }))
}

/// What a bulk cancel is about.
struct Asked {
    filter: RunFilter,
    job: Option<String>,
    app: Option<String>,
    dry_run: bool,
}

async fn cancel_many(front: Arc<Front>, call: Call) -> Answer {
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let asked = Spot::whole(&value, &faults).object().and_then(|object| {
        let filter = object.must("filter").and_then(|spot| spot.object()).and_then(|object| filter(&object));
        let dry_run = object.may("dry_run").map_or(Some(false), |spot| spot.flag());
        object.end();
        Some(Asked { dry_run: dry_run?, ..filter? })
    });
    let asked = faults.unless(asked)?;
    let dry_run = asked.dry_run;
    let Some(filter) = narrowed(&front, &call.caller, asked).await? else {
        return Ok(ok(&BulkCancelled { matched: 0, cancelled: 0 }));
    };
    let states =
        filter.state.map_or(vec![RunState::Pending, RunState::Retrying, RunState::Running], |one| vec![one]);
    let mut done = BulkCancelled { matched: 0, cancelled: 0 };
    for state in states {
        let filter = RunFilter { state: Some(state), ..filter.clone() };
        let mut page = Some(front.browse.run_list(&filter, None, PAGE).await?);
        while let Some(Page { items, next }) = page {
            done.matched += items.len() as u64;
            // While one page is being cancelled the next is read.
            let cancelling = async { if dry_run { Ok(0) } else { cancel_all(&front, items).await } };
            let reading = async {
                match next {
                    Some(before) => front.browse.run_list(&filter, Some(before), PAGE).await.map(Some),
                    None => Ok(None),
                }
            };
            let (cancelled, read) = tokio::join!(cancelling, reading);
            done.cancelled += cancelled?;
            page = read?;
        }
    }
    (front.nudge)();
    Ok(ok(&done))
}

fn filter(object: &Object<'_>) -> Option<Asked> {
    let job = object.may_null("job").map(|spot| match JobRef::of(spot.raw()) {
        Ok(JobRef::Id(id)) => Some(id.to_string()),
        Ok(JobRef::Name(name)) => Some(name.into_owned()),
        Err(detail) => spot.refuse(detail),
    });
    let app = object.may_null("app").map(|spot| spot.name());
    let state = object.may_null("state").map(|spot| {
        let state = spot.word::<RunState>()?;
        if state.is_open() {
            Some(state)
        } else {
            spot.refuse("has ended; expected pending, running or retrying")
        }
    });
    let from = object.may_null("from").map(|spot| spot.time());
    let to = object.may_null("to").map(|spot| spot.time());
    let key = object.may_null("key").map(|spot| spot.name());
    object.end();
    let is_empty =
        job.is_none() && app.is_none() && state.is_none() && from.is_none() && to.is_none() && key.is_none();
    if is_empty {
        return object.spot.refuse("is empty and would cancel every run there is; say at least which state");
    }
    let (state, from, to, key) = (flat(state)?, flat(from)?, flat(to)?, flat(key)?);
    let filter = RunFilter { job: None, apps: None, state, from, to, key };
    Some(Asked { filter, job: flat(job)?, app: flat(app)?, dry_run: false })
}

/// A field that was not given, or was given and read.
fn flat<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    read.map_or(Some(None), |read| read.map(Some))
}

/// The filter, kept to what the caller reaches; none if that is nothing.
async fn narrowed(front: &Front, caller: &Caller, asked: Asked) -> Result<Option<RunFilter>, Problem> {
    let apps = caller.apps_of(asked.app.as_deref());
    if apps.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    let named = asked.job.as_deref().map(JobRef::parse).transpose().map_err(Problem::malformed)?;
    let job = match &named {
        None => None,
        Some(JobRef::Id(id)) => Some(*id),
        Some(named) => match named_job(front, caller, named).await? {
            Some(view) => Some(view.id),
            None => return Ok(None),
        },
    };
    if let Some(job) = job
        && !caller.reaches_all()
        && !reaches_job(front, caller, job).await?
    {
        return Ok(None);
    }
    Ok(Some(RunFilter { job, apps, ..asked.filter }))
}

/// Cancels a page of runs; says how many it was in time for, or whose holders were asked.
async fn cancel_all(front: &Front, views: Vec<RunView>) -> Result<u64, Problem> {
    let runs: Vec<RunId> = views.into_iter().map(|view| view.id).collect();
    let became = front.node.cancel_all(&runs).await?;
    Ok(became.iter().filter(|became| **became != Cancelled::TooLate).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: &Value) -> Result<Asked, Problem> {
        let faults = Faults::default();
        let asked = Spot::whole(value, &faults).object().and_then(|object| filter(&object));
        faults.unless(asked)
    }

    #[test]
    fn a_filter_names_open_runs_and_never_all_by_accident() {
        let asked = read(&json!({"job": 17, "state": "pending"})).unwrap();
        assert_eq!((asked.job.as_deref(), asked.filter.state), (Some("17"), Some(RunState::Pending)));
        for value in [
            json!({}),
            json!({"job": null}),
            json!({"state": "failed"}),
            json!({"jobs": 3}),
            json!({"job": []}),
        ] {
            assert!(read(&value).is_err(), "{value}");
        }
    }
}

//! Runs: listed, shown, and explained.

use std::sync::Arc;

use axum::response::Response;
use punctual_core::model::{JobId, RunId, RunState};
use punctual_node::ports::{JobName, RunFilter};
use punctual_protocol::{Page, Role, Run, Why};

use super::{named_job, ok, run};
use crate::app::Front;
use crate::convert::job_ref::JobRef;
use crate::convert::run::{add_kills, show, show_part};
use crate::convert::why::{lack, why};
use crate::cursor;
use crate::problem::Problem;
use crate::query::{CURSOR, LIMIT, Param, ParamKind};
use crate::table::{Answer, Call, Operation, Permission};

const STATE: Param = Param { name: "state", kind: ParamKind::State, about: "In this state." };
const FROM: Param = Param { name: "from", kind: ParamKind::Time, about: "From this fire time on." };
const TO: Param = Param { name: "to", kind: ParamKind::Time, about: "Before this fire time." };
const KEY: Param = Param { name: "key", kind: ParamKind::Text, about: "With this key." };

/// The parameters that filter the runs of one job.
pub(super) const RUN_PARAMS: &[Param] = &[STATE, FROM, TO, KEY, LIMIT, CURSOR];

const LIST: &[Param] = &[
    Param { name: "job", kind: ParamKind::Job, about: "Of this job: its number, or app/name." },
    Param { name: "app", kind: ParamKind::Text, about: "Of jobs of this app." },
    STATE,
    FROM,
    TO,
    KEY,
    LIMIT,
    CURSOR,
];

pub(super) fn operations() -> Vec<Operation> {
    let viewer = Permission::Role(Role::Viewer);
    vec![
        Operation::get("/api/v1/runs", "listRuns", |front, call| Box::pin(list(front, call)))
            .about("runs", "Lists runs, the newest first.")
            .needs(viewer)
            .query(LIST)
            .answers::<Page<Run>>(200, "A page of runs."),
        Operation::get("/api/v1/runs/{id}", "getRun", |front, call| Box::pin(get(front, call)))
            .about("runs", "Shows a run with its attempts, and the parts of a broadcast.")
            .needs(viewer)
            .answers::<Run>(200, "The run."),
        Operation::get("/api/v1/runs/{id}/why", "explainRun", |front, call| Box::pin(explain(front, call)))
            .about("runs", "Says in one sentence why a run ran, waits, was late or was skipped.")
            .needs(viewer)
            .answers::<Why>(200, "The sentence and what it rests on."),
    ]
}

async fn list(front: Arc<Front>, call: Call) -> Answer {
    let named = call.query.text("job").map(JobRef::parse).transpose().map_err(Problem::malformed)?;
    let job = match &named {
        None => None,
        // A deleted job has a number and a history, but no name.
        Some(JobRef::Id(id)) => Some(*id),
        Some(named) => match named_job(&front, &call.caller, named).await? {
            Some(view) => Some(view.id),
            None => return Ok(nothing()),
        },
    };
    match filter(&front, &call, job).await? {
        Some(filter) => page(&front, &call, filter).await,
        None => Ok(nothing()),
    }
}

fn nothing() -> Response {
    ok(&Page::<Run> { items: Vec::new(), next_cursor: None })
}

/// The filter of a list; none if the caller reaches nothing of it.
pub(super) async fn filter(
    front: &Front,
    call: &Call,
    job: Option<JobId>,
) -> Result<Option<RunFilter>, Problem> {
    let apps = call.caller.apps_of(call.query.text("app"));
    if apps.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    if let Some(job) = job
        && !call.caller.reaches_all()
        && !super::reaches_job(front, &call.caller, job).await?
    {
        return Ok(None);
    }
    let state = call.query.text("state").and_then(|state| state.parse::<RunState>().ok());
    let (from, to, key) = (call.query.time("from"), call.query.time("to"), call.query.owned("key"));
    Ok(Some(RunFilter { job, apps, state, from, to, key }))
}

pub(super) async fn page(front: &Front, call: &Call, filter: RunFilter) -> Answer {
    let before = cursor::read('r', &call.query)?.map(RunId);
    let page = front.browse.run_list(&filter, before, call.query.limit()).await?;
    let next_cursor = page.next.map(|id| cursor::write('r', id.0));
    let names = front.names.get(&*front.browse, page.items.iter().map(|view| view.job)).await?;
    let items = page.items.iter().map(|view| named(show(view), names.get(&view.job))).collect();
    Ok(ok(&Page { items, next_cursor }))
}

/// A run with the name of its job.
fn named(run: Run, name: Option<&Arc<JobName>>) -> Run {
    let (app, job_name) = name.map(|name| (name.app.clone(), name.name.clone())).unzip();
    Run { app, job_name, ..run }
}

async fn get(front: Arc<Front>, call: Call) -> Answer {
    let view = run(&front, &call).await?;
    let names = front.names.get(&*front.browse, [view.job]).await?;
    let mut shown = named(show(&view), names.get(&view.job));
    if !view.attempts.is_empty() {
        add_kills(&mut shown.attempts, &front.logs.kills(view.id).await?);
    }
    if view.part.is_none() {
        for part in front.browse.parts(view.id).await? {
            let kills = front.logs.kills(part.id).await?;
            shown.parts.extend(show_part(&part, &kills));
        }
    }
    Ok(ok(&shown))
}

async fn explain(front: Arc<Front>, call: Call) -> Answer {
    let view = run(&front, &call).await?;
    let handler = match view.state.is_open() {
        true => front.logbook().handler_of(view.job).await?,
        false => None,
    };
    let lack = handler.and_then(|(app, handler)| lack(&app, &handler, front.executors.app(&app).as_ref()));
    Ok(ok(&why(&view, front.now()?, lack.as_deref())))
}

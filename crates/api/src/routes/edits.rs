//! Jobs: made, changed, deleted.

use std::sync::Arc;

use axum::response::IntoResponse;
use http::{StatusCode, header};
use punctual_core::model::{
    Definition, Job as Compiled, JobId, JobMove, JobState, ShardId, StoppedReason, Target,
};
use punctual_node::DeskError;
use punctual_node::ports::{Changed, Counts, JobView};
use punctual_protocol::{Job, JobByName, JobPatch, JobPlan, NewJob, Role};
use serde_json::Value;

use super::after::resolve;
use super::jobs::shown;
use super::{TAG, WantedVersions, by, job, ok};
use crate::app::Front;
use crate::body;
use crate::caller::Caller;
use crate::convert::fields::{Faults, Spot, check_name};
use crate::convert::job::{Context, Draft, WRITTEN, merge, read};
use crate::convert::show_job::{self, fire_times, names_for};
use crate::convert::why::lacks_handler;
use crate::problem::Problem;
use crate::query::DRY_RUN;
use crate::table::{Answer, Call, Operation, Permission};

const PLACE: (&str, &str) = ("Location", "Where the job is.");

/// How often a patch that met another change is merged again.
const TRIES: usize = 5;

pub(super) fn operations() -> Vec<Operation> {
    let editor = Permission::Role(Role::Editor);
    vec![
        Operation::post("/api/v1/jobs", "createJob", |front, call| Box::pin(create(front, call)))
            .about("jobs", "Makes a job; with dry_run says what it would be.")
            .needs(editor)
            .query(&[DRY_RUN])
            .takes::<NewJob>()
            .answers_with::<Job>(201, "The job was made.", &[TAG, PLACE])
            .answers::<JobPlan>(200, "The job as it would be: dry_run.")
            .refuses(&[409]),
        Operation::put("/api/v1/jobs/by-name/{app}/{name}", "putJob", |front, call| Box::pin(put(front, call)))
            .about(
                "jobs",
                "Makes a job or replaces it. Nothing changes if it is as it should be; without `enabled` a job that is \
                 there stays started or stopped.",
            )
            .needs(editor)
            .query(&[DRY_RUN])
            .if_match()
            .takes::<JobByName>()
            .answers_with::<Job>(200, "The job as it is now; or as it would be: dry_run.", &[TAG])
            .answers_with::<Job>(201, "The job was made.", &[TAG, PLACE])
            .refuses(&[409]),
        Operation::patch("/api/v1/jobs/{id}", "patchJob", |front, call| Box::pin(patch(front, call)))
            .about("jobs", "Changes some fields of a job (RFC 7396).")
            .needs(editor)
            .query(&[DRY_RUN])
            .if_match()
            .takes_patch::<JobPatch>()
            .answers_with::<Job>(200, "The job as it is now; or as it would be: dry_run.", &[TAG])
            .refuses(&[409]),
        Operation::delete("/api/v1/jobs/{id}", "deleteJob", |front, call| Box::pin(delete(front, call)))
            .about("jobs", "Deletes a job. Its pending runs are cancelled, its history stays for a while.")
            .needs(editor)
            .if_match()
            .answers_nothing(204, "It is deleted; no send of it begins any more.")
            .refuses(&[409]),
    ]
}

async fn create(front: Arc<Front>, call: Call) -> Answer {
    let value = body::json(&call.body)?;
    let draft = understand(&front, &value, None, None)?;
    call.caller.check_app(&draft.definition.app)?;
    let enabled = draft.enabled.unwrap_or(true);
    let definition = resolve(&front, &call.caller, draft, None).await?;
    if call.query.flag("dry_run") {
        check_free(&front, &definition).await?;
        return planned(&front, imagined(definition, enabled)).await;
    }
    made(&front, &call.caller, definition, enabled).await
}

async fn made(front: &Front, caller: &Caller, definition: Definition, enabled: bool) -> Answer {
    let (app, name) = (definition.app.clone(), definition.name.clone());
    let changed = match front.node.create(definition, enabled, by(caller)).await {
        Err(DeskError::Conflict(_)) if front.browse.job_named(&app, &name).await?.is_some() => {
            return Err(taken(&app, &name));
        }
        changed => changed?,
    };
    (front.nudge)();
    let view = read_back(front, changed).await?;
    let place = format!("/api/v1/jobs/{}", view.id);
    let mut response = shown(front, StatusCode::CREATED, &view).await?;
    response.headers_mut().insert(header::LOCATION, place.try_into().expect("a path is plain text"));
    Ok(response)
}

fn taken(app: &str, name: &str) -> Problem {
    Problem::conflict(format!(
        "the app `{app}` has a job `{name}` already; change that one, or take another name"
    ))
}

async fn check_free(front: &Front, definition: &Definition) -> Result<(), Problem> {
    let Definition { app, name, .. } = definition;
    let is_taken = front.browse.job_named(app, name).await?.is_some();
    if is_taken { Err(taken(app, name)) } else { Ok(()) }
}

async fn put(front: Arc<Front>, call: Call) -> Answer {
    let place = |name: &str| call.path.get(name).cloned().unwrap_or_default();
    let (app, name) = (place("app"), place("name"));
    for (field, text) in [("app", &app), ("name", &name)] {
        check_name(text).map_err(|detail| Problem::field("", format!("the {field} in the path {detail}")))?;
    }
    if app.contains('/') {
        return Err(Problem::field("", "the app in the path has a `/`, which stands between app and name"));
    }
    call.caller.check_app(&app)?;
    let wanted = WantedVersions::read(&call.headers)?;
    let value = body::json(&call.body)?;
    let view = front.browse.job_named(&app, &name).await?;
    let before = view.as_ref().map(|view| &view.definition);
    let draft = understand(&front, &value, before, Some((&app, &name)))?;
    let enabled = draft.enabled;
    let definition = resolve(&front, &call.caller, draft, view.as_ref().map(|view| view.id)).await?;
    match (view, wanted) {
        (None, Some(_)) => {
            Err(Problem::stale(format!("there is no job {app}/{name} that If-Match could match")))
        }
        (None, None) if call.query.flag("dry_run") => {
            planned(&front, imagined(definition, enabled.unwrap_or(true))).await
        }
        (None, None) => made(&front, &call.caller, definition, enabled.unwrap_or(true)).await,
        (Some(view), wanted) => {
            if let Some(wanted) = &wanted {
                wanted.check_job(&view)?;
            }
            let guard = wanted.is_some().then_some(view.version);
            replace(&front, &call, view, definition, enabled, guard).await
        }
    }
}

async fn patch(front: Arc<Front>, call: Call) -> Answer {
    let wanted = WantedVersions::read(&call.headers)?;
    let patch = body::json(&call.body)?;
    check_patch(&patch)?;
    let patch = patch.as_object().cloned().unwrap_or_default();
    for _ in 0..TRIES {
        let view = job(&front, &call).await?;
        if let Some(wanted) = &wanted {
            wanted.check_job(&view)?;
        }
        let names = names_for(&*front.browse, std::iter::once(&view.definition)).await?;
        let shown = show_job::draft(&view.definition, view.state.is_enabled(), &names);
        let mut value = serde_json::to_value(shown).expect("a job is plain data");
        merge(&mut value, &patch);
        let draft = understand(&front, &value, Some(&view.definition), None)?;
        call.caller.check_app(&draft.definition.app)?;
        let enabled = draft.enabled.filter(|_| patch.contains_key("enabled"));
        let (id, version) = (view.id, view.version);
        let definition = resolve(&front, &call.caller, draft, Some(id)).await?;
        match replace(&front, &call, view, definition, enabled, Some(version)).await {
            Err(problem) if problem.status == StatusCode::PRECONDITION_FAILED && wanted.is_none() => {}
            answer => return answer,
        }
    }
    Err(Problem::conflict("the job is being changed by others; try again"))
}
/// The merged job is checked as a whole, so faults of the patch alone are looked for here: U+0000, and unknown fields
/// that are set to null.
fn check_patch(patch: &Value) -> Result<(), Problem> {
    let faults = Faults::default();
    if let Some(object) = Spot::whole(patch, &faults).object() {
        object.ignore(&WRITTEN);
        object.ignore(&Job::READ_ONLY);
        object.end();
    }
    faults.unless(Some(()))
}

/// Gives a job another definition and state, if they differ.
async fn replace(
    front: &Front,
    call: &Call,
    view: JobView,
    definition: Definition,
    enabled: Option<bool>,
    guard: Option<u64>,
) -> Answer {
    let is_changed = definition != view.definition;
    let asked = move_to(&view.state, enabled, is_changed);
    if call.query.flag("dry_run") {
        let version = view.version + u64::from(is_changed || asked.is_some());
        let state = asked.and_then(|asked| view.state.after(asked)).unwrap_or(view.state);
        return planned(front, JobView { definition, state, version, ..view }).await;
    }
    if !is_changed && asked.is_none() {
        return shown(front, StatusCode::OK, &view).await;
    }
    let (app, name) = (definition.app.clone(), definition.name.clone());
    let edited =
        front.node.edit(view.id, guard, is_changed.then_some(definition), asked, by(&call.caller)).await;
    let changed = match edited {
        Err(DeskError::Conflict(reason)) => {
            return Err(why_not(front, &view, guard, (&app, &name), reason.into()).await?);
        }
        changed => changed?,
    };
    front.apps.forget(view.id);
    front.names.forget(view.id);
    front.wait_in_force(changed.change).await?;
    let view = read_back(front, changed).await?;
    shown(front, StatusCode::OK, &view).await
}

/// How the state changes. If a person changes the definition of a job that had come to its end, the job is enabled
/// again, unless the change says that it is to be stopped.
fn move_to(state: &JobState, enabled: Option<bool>, is_changed: bool) -> Option<JobMove> {
    let is_at_end =
        matches!(state, JobState::Stopped(StoppedReason::Finished | StoppedReason::Quarantined(_)));
    match enabled {
        Some(true) if !state.is_enabled() => Some(JobMove::Start),
        Some(false) if state.is_enabled() || is_changed && is_at_end => {
            Some(JobMove::Stop(StoppedReason::Asked))
        }
        _ => None,
    }
}

/// Why a write failed: the job was changed meanwhile, or its new name is taken.
async fn why_not(
    front: &Front,
    view: &JobView,
    guard: Option<u64>,
    (app, name): (&str, &str),
    reason: String,
) -> Result<Problem, Problem> {
    let current = front.browse.job(view.id).await?;
    if guard.is_some() && current.is_none_or(|current| Some(current.version) != guard) {
        return Ok(Problem::stale(format!("job {} was changed meanwhile; read it again", view.id)));
    }
    let other = front.browse.job_named(app, name).await?.filter(|other| other.id != view.id);
    Ok(if other.is_some() { taken(app, name) } else { Problem::conflict(reason) })
}

async fn delete(front: Arc<Front>, call: Call) -> Answer {
    let wanted = WantedVersions::read(&call.headers)?;
    let view = job(&front, &call).await?;
    if let Some(wanted) = &wanted {
        wanted.check_job(&view)?;
    }
    let guard = wanted.map(|_| view.version);
    let edited = front.node.edit(view.id, guard, None, Some(JobMove::Delete), by(&call.caller)).await;
    let changed = match edited {
        Err(DeskError::Conflict(reason)) => {
            return Err(why_not(&front, &view, guard, ("", ""), reason.into()).await?);
        }
        changed => changed?,
    };
    front.apps.forget(view.id);
    front.names.forget(view.id);
    front.wait_in_force(changed.change).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn understand(
    front: &Front,
    value: &Value,
    before: Option<&Definition>,
    place: Option<(&str, &str)>,
) -> Result<Draft, Problem> {
    let now = front.now()?;
    let (check, settings) = (&*front.check_target, &front.settings);
    let (allows_scripts, classes) = (settings.allows_scripts, &settings.classes);
    read(value, &Context { zones: &front.zones, now, before, place, check, allows_scripts, classes })
}

/// The job as it was just written. Reads may be a little behind writes.
pub(super) async fn read_back(front: &Front, changed: Changed) -> Result<JobView, Problem> {
    let ask = || async {
        let view = front.browse.job(changed.job).await?;
        Ok(view.filter(|view| view.version >= changed.version))
    };
    let said = "the change is written, but cannot be read yet; read the job in a moment";
    front.wait_for(ask).await?.ok_or_else(|| Problem::unavailable(said))
}

/// A job that is not there yet.
fn imagined(definition: Definition, enabled: bool) -> JobView {
    let state = if enabled { JobState::Enabled } else { JobState::Stopped(StoppedReason::Asked) };
    let (shard, counts) = (ShardId(0), Counts::default());
    JobView { id: JobId(0), version: 1, state, definition, next_fire: None, shard, counts }
}

/// The answer to a dry run: the job as it would be.
async fn planned(front: &Front, view: JobView) -> Answer {
    let now = front.now()?;
    let names = names_for(&*front.browse, std::iter::once(&view.definition)).await?;
    let job = show_job::show(&view, &names, &front.zones, now, &[]);
    let times = fire_times(&view.definition, &front.zones, now, 10);
    let unoffered = unoffered(front, &view.definition);
    let compiled =
        Compiled::compile(view.id, 1, now, JobState::Enabled, view.definition, vec![], &front.zones);
    let warnings = compiled.map(|job| job.rule.warnings(now)).unwrap_or_default();
    Ok(ok(&JobPlan {
        job,
        next_fire_times: times.iter().map(|at| at.to_string()).collect(),
        warnings: warnings.iter().map(|warning| warning.to_string()).chain(unoffered).collect(),
    }))
}

/// A warning if a job names a handler that none of the present executors offers.
fn unoffered(front: &Front, definition: &Definition) -> Option<String> {
    let Target::Executor(executor) = &definition.target else { return None };
    let view = front.executors.app(&definition.app)?;
    lacks_handler(&definition.app, &executor.handler, &view.executors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_state_changes_only_when_somebody_says_so_or_its_end_is_over() {
        let (enabled, asked) = (JobState::Enabled, JobState::Stopped(StoppedReason::Asked));
        let finished = JobState::Stopped(StoppedReason::Finished);
        let (start, stop) = (Some(JobMove::Start), Some(JobMove::Stop(StoppedReason::Asked)));
        for (state, wish, is_changed, expected) in [
            (&enabled, None, true, None),
            (&enabled, Some(true), true, None),
            (&enabled, Some(false), false, stop.clone()),
            (&asked, None, true, None),
            (&asked, Some(true), false, start.clone()),
            (&asked, Some(false), true, None),
            (&finished, Some(false), false, None),
            (&finished, Some(false), true, stop),
            (&finished, Some(true), true, start),
        ] {
            assert_eq!(move_to(state, wish, is_changed), expected, "{state:?} {wish:?} {is_changed}");
        }
    }

    #[test]
    fn a_patch_may_name_every_field_of_a_job_and_no_other() {
        assert!(check_patch(&json!({"id": null, "name": "x"})).is_ok());
        for (patch, pointer) in
            [(json!({"nmae": null}), "/nmae"), (json!({"name": "\0"}), "/name"), (json!([]), "")]
        {
            assert_eq!(check_patch(&patch).unwrap_err().errors[0].pointer, pointer);
        }
    }
}

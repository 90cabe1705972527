//! Jobs: made, read, changed, deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use punctual_core::model::{Child, Definition, Job as Compiled, JobId, JobMove, JobState, StoppedReason};
use punctual_node::DeskError;
use punctual_node::ports::{Changed, Counts, JobFilter, JobView};
use punctual_protocol::{Job, JobByName, JobPatch, JobPlan, JobStats, NewJob, Page, Revisions, Role};
use serde_json::Value;

use super::{Wanted, by, etag, job, json, named_job, ok};
use crate::app::Front;
use crate::body;
use crate::caller::Caller;
use crate::convert::fields::{Faults, check_name};
use crate::convert::job::{Context, Draft, merge, read};
use crate::convert::job_ref::JobRef;
use crate::convert::show_job::{self, Names, fire_times, names_for};
use crate::cursor;
use crate::problem::Problem;
use crate::query::{CURSOR, DRY_RUN, Kind, LIMIT, Param};
use crate::table::{Answer, Call, Operation, Permission};

const TAG: (&str, &str) = ("ETag", "The version of the job.");
const PLACE: (&str, &str) = ("Location", "Where the job is.");

const LIST: &[Param] = &[
    Param { name: "app", kind: Kind::Text, about: "Of this app." },
    Param { name: "tag", kind: Kind::Text, about: "With this tag." },
    Param { name: "q", kind: Kind::Text, about: "Whose name or description contains this." },
    Param { name: "enabled", kind: Kind::Flag, about: "Enabled ones, or stopped ones." },
    LIMIT,
    CURSOR,
];

/// A patch that meets others is merged again.
const TRIES: usize = 5;

/// How many jobs are looked at to find a circle.
const CIRCLE_MAX: usize = 1_000;

pub(super) fn operations() -> Vec<Operation> {
    let editor = Permission::Role(Role::Editor);
    let viewer = Permission::Role(Role::Viewer);
    vec![
        Operation::post("/api/v1/jobs", "createJob", |front, call| Box::pin(create(front, call)))
            .about("jobs", "Makes a job; with dry_run says what it would be.")
            .needs(editor)
            .query(&[DRY_RUN])
            .takes::<NewJob>()
            .answers_with::<Job>(201, "The job was made.", &[TAG, PLACE])
            .answers::<JobPlan>(200, "The job as it would be: dry_run.")
            .refuses(&[409]),
        Operation::get("/api/v1/jobs", "listJobs", |front, call| Box::pin(list(front, call)))
            .about("jobs", "Lists jobs by number.")
            .needs(viewer)
            .query(LIST)
            .answers::<Page<Job>>(200, "A page of jobs."),
        Operation::get("/api/v1/jobs/by-name/{app}/{name}", "getJobByName", |front, call| {
            Box::pin(get_named(front, call))
        })
        .about("jobs", "Shows a job by its app and name.")
        .needs(viewer)
        .answers_with::<Job>(200, "The job.", &[TAG]),
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
        Operation::get("/api/v1/jobs/{id}", "getJob", |front, call| Box::pin(get(front, call)))
            .about("jobs", "Shows a job.")
            .needs(viewer)
            .answers_with::<Job>(200, "The job.", &[TAG]),
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
        Operation::get("/api/v1/jobs/{id}/revisions", "listRevisions", |front, call| {
            Box::pin(revisions(front, call))
        })
        .about("jobs", "Lists the versions of a job, oldest first.")
        .needs(viewer)
        .answers::<Revisions>(200, "The versions."),
        Operation::get("/api/v1/jobs/{id}/stats", "getJobStats", |front, call| Box::pin(stats(front, call)))
            .about("jobs", "Counts what has become of a job's runs.")
            .needs(viewer)
            .answers::<JobStats>(200, "The counts."),
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
    let wanted = Wanted::read(&call.headers)?;
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
                wanted.check(&view)?;
            }
            let guard = wanted.is_some().then_some(view.version);
            replace(&front, &call, view, definition, enabled, guard).await
        }
    }
}

async fn patch(front: Arc<Front>, call: Call) -> Answer {
    let wanted = Wanted::read(&call.headers)?;
    let patch = body::json(&call.body)?;
    let Some(patch) = patch.as_object() else {
        return Err(Problem::field("", "expected an object of the fields to change"));
    };
    check_patch(patch)?;
    for _ in 0..TRIES {
        let view = job(&front, &call).await?;
        if let Some(wanted) = &wanted {
            wanted.check(&view)?;
        }
        let names = names_for(&*front.browse, std::iter::once(&view.definition)).await?;
        let shown = show_job::draft(&view.definition, view.state.is_enabled(), &names);
        let mut value = serde_json::to_value(shown).expect("a job is plain data");
        merge(&mut value, patch);
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

/// What is read is the whole job, so U+0000 and fields that removing leaves unknown are looked for in the patch.
fn check_patch(patch: &serde_json::Map<String, Value>) -> Result<(), Problem> {
    let (faults, value) = (Faults::default(), Value::Object(patch.clone()));
    crate::convert::fields::Spot::whole(&value, &faults);
    let known = serde_json::to_value(known_fields()).unwrap_or_default();
    for name in patch.keys().filter(|name| known.get(name.as_str()).is_none()) {
        faults.add(format!("/{}", name.replace('~', "~0").replace('/', "~1")), "unknown field");
    }
    faults.unless(Some(()))
}

/// Every field that a patch may name.
fn known_fields() -> std::collections::BTreeMap<&'static str, bool> {
    const WRITTEN: [&str; 19] = [
        "name",
        "app",
        "description",
        "tags",
        "enabled",
        "schedule",
        "target",
        "misfire",
        "retry",
        "timeout",
        "delivery",
        "priority",
        "class",
        "lane",
        "windows",
        "calendar",
        "jitter",
        "after",
        "failure_limit",
    ];
    WRITTEN.into_iter().chain(Job::READ_ONLY).map(|name| (name, true)).collect()
}

/// Gives a job another definition and state, if they are others.
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
    front.wait_in_force(changed.change).await?;
    let view = read_back(front, changed).await?;
    shown(front, StatusCode::OK, &view).await
}

/// What has to happen to the state. A definition that a person changes wakes a job that had come to its end, unless
/// they say that it is to be stopped.
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

/// Why a change met another: the job was changed meanwhile, or its new name is taken.
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
    let wanted = Wanted::read(&call.headers)?;
    let view = job(&front, &call).await?;
    if let Some(wanted) = &wanted {
        wanted.check(&view)?;
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
    front.wait_in_force(changed.change).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn get(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    shown(&front, StatusCode::OK, &view).await
}

async fn get_named(front: Arc<Front>, call: Call) -> Answer {
    let place = |name: &str| call.path.get(name).cloned().unwrap_or_default();
    let (app, name) = (place("app"), place("name"));
    let view = front.browse.job_named(&app, &name).await?.filter(|_| call.caller.reaches(&app));
    let view = view.ok_or_else(|| Problem::not_found(format!("job {app}/{name}")))?;
    shown(&front, StatusCode::OK, &view).await
}

async fn list(front: Arc<Front>, call: Call) -> Answer {
    let after = cursor::read('j', &call.query)?.map(|place| JobId(u32::try_from(place).unwrap_or(u32::MAX)));
    let filter = JobFilter {
        apps: call.caller.apps_of(call.query.text("app")),
        tag: call.query.owned("tag"),
        text: call.query.owned("q"),
        enabled: call.query.is_flag("enabled"),
    };
    let page = front.browse.job_list(&filter, after, call.query.limit()).await?;
    let names = names_for(&*front.browse, page.items.iter().map(|view| &view.definition)).await?;
    let now = front.now()?;
    let items = page.items.iter().map(|view| show_job::show(view, &names, &front.zones, now)).collect();
    let next_cursor = page.next.map(|id| cursor::write('j', u64::from(id.0)));
    Ok(ok(&Page { items, next_cursor }))
}

async fn revisions(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    let revisions = front.browse.revisions(view.id).await?;
    let names = names_for(&*front.browse, revisions.iter().map(|revision| &revision.definition)).await?;
    let items = revisions.iter().map(|revision| show_job::revision(revision, &names)).collect();
    Ok(ok(&Revisions { items }))
}

async fn stats(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    Ok(ok(&show_job::stats(&front.browse.counts(Some(view.id)).await?)))
}

fn understand(
    front: &Front,
    value: &Value,
    before: Option<&Definition>,
    place: Option<(&str, &str)>,
) -> Result<Draft, Problem> {
    let now = front.now()?;
    read(value, &Context { zones: &front.zones, now, before, place, check: &*front.check_target })
}

/// Finds the jobs that it comes after.
async fn resolve(
    front: &Front,
    caller: &Caller,
    draft: Draft,
    own: Option<JobId>,
) -> Result<Definition, Problem> {
    let mut after = Vec::new();
    let mut wrong = Vec::new();
    for before in draft.after {
        let named =
            JobRef::parse(&before.job).map_err(|detail| Problem::field(before.pointer.clone(), detail))?;
        let detail = match named_job(front, caller, &named).await? {
            None => format!("{named} is not there"),
            Some(view) if is_circle(front, view.id, own).await? => {
                format!("{named} comes after this job itself")
            }
            Some(view) => {
                after.push(Child { job: view.id, when: before.when });
                continue;
            }
        };
        wrong.push(punctual_protocol::FieldError { pointer: before.pointer, detail });
    }
    if !wrong.is_empty() {
        return Err(Problem::invalid(wrong));
    }
    Ok(Definition { after, ..draft.definition })
}

/// Whether a job comes after `own`, in however many steps.
async fn is_circle(front: &Front, job: JobId, own: Option<JobId>) -> Result<bool, Problem> {
    let Some(own) = own else { return Ok(false) };
    let (mut seen, mut open) = (BTreeSet::from([job]), vec![job]);
    while let Some(id) = open.pop() {
        if id == own {
            return Ok(true);
        }
        let before = front.browse.job(id).await?.map(|view| view.definition.after).unwrap_or_default();
        open.extend(before.iter().map(|before| before.job).filter(|job| seen.insert(*job)));
        if seen.len() > CIRCLE_MAX {
            break;
        }
    }
    Ok(false)
}

/// The job as it was just written. Reading may be a little behind writing.
async fn read_back(front: &Front, changed: Changed) -> Result<JobView, Problem> {
    let ask = || async {
        let view = front.browse.job(changed.job).await?;
        Ok(view.filter(|view| view.version >= changed.version))
    };
    let said = "the change is written, but cannot be read yet; read the job in a moment";
    front.wait_for(ask).await?.ok_or_else(|| Problem::unavailable(said))
}

pub(super) async fn shown(front: &Front, status: StatusCode, view: &JobView) -> Result<Response, Problem> {
    let names = names_for(&*front.browse, std::iter::once(&view.definition)).await?;
    let shown = show_job::show(view, &names, &front.zones, front.now()?);
    let mut response = json(status, &shown);
    response.headers_mut().insert(header::ETAG, etag(view.version).try_into().expect("a tag is plain text"));
    Ok(response)
}

/// A job that is not there yet.
fn imagined(definition: Definition, enabled: bool) -> JobView {
    let state = if enabled { JobState::Enabled } else { JobState::Stopped(StoppedReason::Asked) };
    let (shard, counts) = (punctual_core::model::ShardId(0), Counts::default());
    JobView { id: JobId(0), version: 1, state, definition, next_fire: None, shard, counts }
}

/// What a job would be.
async fn planned(front: &Front, view: JobView) -> Answer {
    let now = front.now()?;
    let names: Names = names_for(&*front.browse, std::iter::once(&view.definition)).await?;
    let job = show_job::show(&view, &names, &front.zones, now);
    let times = fire_times(&view.definition, &front.zones, now, 10);
    let compiled =
        Compiled::compile(view.id, 1, now, JobState::Enabled, view.definition, vec![], &front.zones);
    let warnings = compiled.map(|job| job.rule.warnings(now)).unwrap_or_default();
    Ok(ok(&JobPlan {
        job,
        next_fire_times: times.iter().map(|at| at.to_string()).collect(),
        warnings: warnings.iter().map(|warning| warning.to_string()).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(check_patch(&serde_json::Map::from_iter([("id".into(), Value::Null)])).is_ok());
        let problem = check_patch(&serde_json::Map::from_iter([("nmae".into(), Value::Null)])).unwrap_err();
        assert_eq!(problem.errors[0].pointer, "/nmae");
    }
}

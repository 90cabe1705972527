//! The routes, one file per resource, and what their handlers share.

mod after;
mod apps;
mod bulk;
mod cluster;
mod commands;
mod connect;
pub(crate) mod doors;
mod edits;
mod events;
mod glue;
mod jobs;
mod logs;
mod many;
mod pause;
mod peers;
mod runs;
mod schedules;
mod service;
mod session;
mod stats;
mod submit;
mod tokens;
mod wishes;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use punctual_core::model::{JobId, RunId, Text};
use punctual_node::ports::{JobView, RunView};
use serde::Serialize;

use crate::app::Front;
use crate::caller::Caller;
use crate::convert::apps::look_up;
use crate::convert::job_ref::JobRef;
use crate::problem::Problem;
use crate::table::{Call, Operation};

/// The header of answers with a job.
const TAG: (&str, &str) = ("ETag", "The version of the job.");

/// Every operation there is.
pub(crate) fn all() -> Vec<Operation> {
    let by_resource = [
        jobs::operations(),
        edits::operations(),
        commands::operations(),
        bulk::operations(),
        glue::operations(),
        schedules::operations(),
        submit::operations(),
        runs::operations(),
        logs::operations(),
        wishes::operations(),
        many::operations(),
        apps::operations(),
        pause::operations(),
        stats::operations(),
        events::operations(),
        session::operations(),
        tokens::operations(),
        cluster::operations(),
        peers::operations(),
        service::operations(),
        connect::operations(),
        doors::operations(),
    ];
    by_resource.into_iter().flatten().collect()
}

/// An answer in JSON.
fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let body = serde_json::to_vec(value).expect("what we answer is plain data");
    (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
}

fn ok<T: Serialize>(value: &T) -> Response {
    json(StatusCode::OK, value)
}

/// The name of the caller, for the record.
fn by(caller: &Caller) -> Text {
    caller.name.clone()
}

/// The number in the path; any other text is not found.
fn number(call: &Call) -> Result<u64, Problem> {
    let text = call.path.get("id").map(String::as_str).unwrap_or_default();
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let shown: String = text.chars().take(40).collect();
    text.parse().ok().filter(|_| is_plain).ok_or_else(|| Problem::not_found(format!("{shown:?}")))
}

fn job_id(call: &Call) -> Result<JobId, Problem> {
    let number = number(call)?;
    let is_job = i32::try_from(number).is_ok();
    is_job.then_some(JobId(number as u32)).ok_or_else(|| Problem::not_found(format!("job {number}")))
}

/// The job in the path, if the caller may see it. A job of an app out of reach is answered like one that does not
/// exist.
async fn job(front: &Front, call: &Call) -> Result<JobView, Problem> {
    visible_job(front, &call.caller, job_id(call)?).await
}

async fn visible_job(front: &Front, caller: &Caller, id: JobId) -> Result<JobView, Problem> {
    let view = front.browse.job(id).await?.filter(|view| caller.reaches(&view.definition.app));
    view.ok_or_else(|| Problem::not_found(format!("job {id}")))
}

/// The job that a caller refers to, if the caller may see it.
async fn named_job(front: &Front, caller: &Caller, named: &JobRef<'_>) -> Result<Option<JobView>, Problem> {
    let view = match (named, named.parts()) {
        (JobRef::Id(id), _) => front.browse.job(*id).await?,
        (JobRef::Name(_), Some((app, name))) => front.browse.job_named(app, name).await?,
        (JobRef::Name(_), None) => None,
    };
    Ok(view.filter(|view| caller.reaches(&view.definition.app)))
}

/// The number of the run in the path.
fn run_id(call: &Call) -> Result<RunId, Problem> {
    let number = number(call)?;
    let is_run = number < 1 << 53;
    is_run.then_some(RunId(number)).ok_or_else(|| Problem::not_found(format!("run {number}")))
}

/// The run in the path, if the caller may see it.
async fn run(front: &Front, call: &Call) -> Result<RunView, Problem> {
    let id = run_id(call)?;
    let gone = || Problem::not_found(format!("run {id}"));
    let view = front.browse.run(id).await?.ok_or_else(gone)?;
    match call.caller.reaches_all() || reaches_job(front, &call.caller, view.job).await? {
        true => Ok(view),
        false => Err(gone()),
    }
}

/// Whether the caller reaches a job. Read from the store and not from the cache, because access is decided by it.
async fn reaches_job(front: &Front, caller: &Caller, job: JobId) -> Result<bool, Problem> {
    let app = look_up(&*front.browse, job).await?;
    Ok(app.is_some_and(|app| caller.reaches(&app)))
}

/// The tag of a version.
fn etag(version: u64) -> String {
    format!("\"{version}\"")
}

/// Which versions `If-Match` allows.
enum WantedVersions {
    Any,
    Versions(Vec<u64>),
}

impl WantedVersions {
    fn read(headers: &HeaderMap) -> Result<Option<WantedVersions>, Problem> {
        let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
        let wrong = || Problem::malformed("If-Match: expected an ETag, such as \"3\", or *");
        let text = value.to_str().map_err(|_| wrong())?.trim();
        if text == "*" {
            return Ok(Some(WantedVersions::Any));
        }
        let version = |tag: &str| {
            let tag = tag.trim();
            // A weak tag never matches strongly, but it is not malformed.
            if tag.starts_with("W/\"") {
                return Some(u64::MAX);
            }
            let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let versions: Option<Vec<u64>> = text.split(',').map(version).collect();
        versions.map(|versions| Some(WantedVersions::Versions(versions))).ok_or_else(wrong)
    }

    fn check(&self, what: &str, version: u64) -> Result<(), Problem> {
        match self {
            WantedVersions::Any => Ok(()),
            WantedVersions::Versions(versions) if versions.contains(&version) => Ok(()),
            WantedVersions::Versions(_) => {
                Err(Problem::stale(format!("{what} has version {version} by now; read it again")))
            }
        }
    }

    fn check_job(&self, view: &JobView) -> Result<(), Problem> {
        self.check(&format!("job {}", view.id), view.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<WantedVersions>, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_MATCH, text.parse().unwrap());
        WantedVersions::read(&headers)
    }

    #[test]
    fn if_match_is_read_as_tags_or_a_star() {
        assert!(matches!(read("*"), Ok(Some(WantedVersions::Any))));
        for (text, expected) in
            [("\"3\"", vec![3]), ("\"3\", \"4\"", vec![3, 4]), ("W/\"3\"", vec![u64::MAX])]
        {
            let Ok(Some(WantedVersions::Versions(versions))) = read(text) else { panic!("{text}") };
            assert_eq!(versions, expected);
        }
        for text in ["3", "\"x\"", "", "\"3", "\"-1\""] {
            assert_eq!(read(text).err().map(|problem| problem.status.as_u16()), Some(400), "{text}");
        }
        assert!(matches!(WantedVersions::read(&HeaderMap::new()), Ok(None)));
    }
}

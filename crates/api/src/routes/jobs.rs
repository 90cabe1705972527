//! Jobs: listed and shown.

use std::sync::Arc;

use axum::response::Response;
use http::{StatusCode, header};
use punctual_core::model::JobId;
use punctual_node::ports::{JobFilter, JobView};
use punctual_protocol::{Job, JobStats, Page, Revisions, Role};

use super::{TAG, etag, job, json, ok};
use crate::app::Front;
use crate::convert::show_job::{self, names_for};
use crate::cursor;
use crate::problem::Problem;
use crate::query::{CURSOR, Kind, LIMIT, Param};
use crate::table::{Answer, Call, Operation, Permission};

const LIST: &[Param] = &[
    Param { name: "app", kind: Kind::Text, about: "Of this app." },
    Param { name: "tag", kind: Kind::Text, about: "With this tag." },
    Param { name: "q", kind: Kind::Text, about: "Whose name or description contains this." },
    Param { name: "enabled", kind: Kind::Flag, about: "Enabled ones, or stopped ones." },
    LIMIT,
    CURSOR,
];

pub(super) fn operations() -> Vec<Operation> {
    let viewer = Permission::Role(Role::Viewer);
    vec![
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
        Operation::get("/api/v1/jobs/{id}", "getJob", |front, call| Box::pin(get(front, call)))
            .about("jobs", "Shows a job.")
            .needs(viewer)
            .answers_with::<Job>(200, "The job.", &[TAG]),
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

pub(super) async fn shown(front: &Front, status: StatusCode, view: &JobView) -> Result<Response, Problem> {
    let names = names_for(&*front.browse, std::iter::once(&view.definition)).await?;
    let shown = show_job::show(view, &names, &front.zones, front.now()?);
    let mut response = json(status, &shown);
    response.headers_mut().insert(header::ETAG, etag(view.version).try_into().expect("a tag is plain text"));
    Ok(response)
}

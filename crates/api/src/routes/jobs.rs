//! Jobs: listed and shown.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use calendar::Timestamp;
use http::{StatusCode, header};
use punctual_core::model::JobId;
use punctual_node::ports::{JobFilter, JobView, REVISIONS_MAX, RunFilter};
use punctual_observe::{Behind, EndedRun};
use punctual_protocol::{Job, JobPage, JobStats, PeerFiguresAsked, Revisions, Role};

use super::{TAG, etag, job, json, ok};
use crate::app::Front;
use crate::convert::show_job::{self, names_for};
use crate::cursor;
use crate::others::NodeAnswers;
use crate::problem::Problem;
use crate::query::{CURSOR, LIMIT, Param, ParamKind};
use crate::table::{Answer, Call, Operation, Permission};

const LIST: &[Param] = &[
    Param { name: "app", kind: ParamKind::Text, about: "Of this app." },
    Param { name: "tag", kind: ParamKind::Text, about: "With this tag." },
    Param { name: "q", kind: ParamKind::Text, about: "Whose name or description contains this." },
    Param { name: "enabled", kind: ParamKind::Flag, about: "Enabled ones, or stopped ones." },
    Param { name: "failing", kind: ParamKind::Flag, about: "Those whose last run failed or was lost." },
    Param { name: "stopped", kind: ParamKind::Flag, about: "Those that stopped without a person's wish." },
    Param {
        name: "sort",
        kind: ParamKind::Word(&["id", "next_fire_time"]),
        about: "By number, or enabled ones by the next instant that is not planned yet, soonest first.",
    },
    Param { name: "count", kind: ParamKind::Flag, about: "Says how many there are, as `total`." },
    LIMIT,
    CURSOR,
];

/// All kept versions by default: the newest matter most, and they come last.
const REVISIONS: Param = Param {
    name: "limit",
    kind: ParamKind::Count { max: REVISIONS_MAX as u32, usual: REVISIONS_MAX as u32 },
    about: "How many versions at most.",
};

pub(super) fn operations() -> Vec<Operation> {
    let viewer = Permission::Role(Role::Viewer);
    vec![
        Operation::get("/api/v1/jobs", "listJobs", |front, call| Box::pin(list(front, call)))
            .about("jobs", "Lists jobs, by number or by when they fire.")
            .needs(viewer)
            .query(LIST)
            .answers::<JobPage>(200, "A page of jobs."),
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
        .about("jobs", "Lists the versions of a job, oldest first; the last 1,000 are kept.")
        .needs(viewer)
        .query(&[REVISIONS, CURSOR])
        .answers::<Revisions>(200, "The versions."),
        Operation::get("/api/v1/jobs/{id}/stats", "getJobStats", |front, call| Box::pin(stats(front, call)))
            .about("jobs", "Counts what has become of a job's runs.")
            .needs(viewer)
            .answers::<JobStats>(200, "The counts."),
    ]
}

async fn get(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    shown_by_all(&front, &view).await
}

async fn get_named(front: Arc<Front>, call: Call) -> Answer {
    let place = |name: &str| call.path.get(name).cloned().unwrap_or_default();
    let (app, name) = (place("app"), place("name"));
    let view = front.browse.job_named(&app, &name).await?.filter(|_| call.caller.reaches(&app));
    let view = view.ok_or_else(|| Problem::not_found(format!("job {app}/{name}")))?;
    shown_by_all(&front, &view).await
}

async fn list(front: Arc<Front>, call: Call) -> Answer {
    let filter = JobFilter {
        apps: call.caller.apps_of(call.query.text("app")),
        tag: call.query.owned("tag"),
        text: call.query.owned("q"),
        enabled: call.query.is_flag("enabled"),
        is_failing: call.query.flag("failing"),
        is_given_up: call.query.flag("stopped"),
    };
    let (views, next_cursor) = match call.query.text("sort") {
        Some("next_fire_time") => by_next_fire(&front, &call, &filter).await?,
        _ => by_number(&front, &call, &filter).await?,
    };
    let total = match call.query.flag("count") {
        true => Some(front.browse.job_totals(&filter).await?.0),
        false => None,
    };
    let names = names_for(&*front.browse, views.iter().map(|view| &view.definition)).await?;
    let now = front.now()?;
    catch_up(&front, now).await;
    let recent = Recent::of(&front, views.iter().map(|view| view.id)).await;
    let show =
        |view: &JobView| show_job::show(view, &names, &front.zones, now, &recent.runs(&front, view.id));
    Ok(ok(&JobPage { items: views.iter().map(show).collect(), next_cursor, total }))
}

/// A page of jobs, and the cursor of the next page.
type Listed = (Vec<JobView>, Option<String>);

async fn by_number(front: &Front, call: &Call, filter: &JobFilter) -> Result<Listed, Problem> {
    let after = cursor::read('j', &call.query)?.map(|place| JobId(u32::try_from(place).unwrap_or(u32::MAX)));
    let page = front.browse.job_list(filter, after, call.query.limit()).await?;
    Ok((page.items, page.next.map(|id| cursor::write('j', u64::from(id.0)))))
}

async fn by_next_fire(front: &Front, call: &Call, filter: &JobFilter) -> Result<Listed, Problem> {
    let after = cursor::read_pair('n', &call.query)?
        .map(|(at, job)| (Timestamp::from_millis(at), JobId(u32::try_from(job).unwrap_or(u32::MAX))));
    let page = front.browse.job_soonest(filter, after, call.query.limit()).await?;
    let next = page.next.map(|(at, job)| cursor::write_pair('n', at.as_millis(), u64::from(job.0)));
    Ok((page.items, next))
}

/// How many pages of runs are read after a start; later it is one, to learn which runs other nodes ended.
const BEGINNING_PAGES: usize = 5;
const PAGE: usize = 1_000;

/// How often that is done where there are other nodes: a node that is gone reports no figures any more.
const CATCH_UP_EVERY: Duration = Duration::from_secs(10);

/// How long an answer waits for that.
const CATCH_UP_WITHIN: Duration = Duration::from_millis(30);

/// The last runs of some jobs, on all nodes.
struct Recent(Arc<NodeAnswers>);

impl Recent {
    async fn of(front: &Front, jobs: impl Iterator<Item = JobId>) -> Recent {
        let jobs = jobs.map(|job| job.0).collect();
        Recent(front.figures.gather(front, PeerFiguresAsked { stretches: None, jobs }).await)
    }

    fn runs(&self, front: &Front, job: JobId) -> Vec<EndedRun> {
        self.0.recent(job, front.events.rollup().recent(job))
    }
}

/// Adds the latest runs to the rollup that it did not see end. An answer does not wait long for that: what comes too
/// late is in the next answer.
pub(super) async fn catch_up(front: &Arc<Front>, now: Timestamp) {
    let has_others = front.node.nodes().len() > 1;
    let Some(behind) = front.events.rollup().is_behind(now, has_others, CATCH_UP_EVERY) else { return };
    let front = Arc::clone(front);
    let reading = tokio::spawn(async move {
        let (filter, mut before) = (RunFilter { to: Some(now), ..RunFilter::default() }, None);
        let pages = if behind == Behind::Beginning { BEGINNING_PAGES } else { 1 };
        for _ in 0..pages {
            let Ok(page) = front.browse.run_list(&filter, before, PAGE).await else { return };
            let rollup = front.events.rollup();
            page.items.iter().for_each(|run| match behind {
                Behind::Beginning => rollup.restore(run),
                Behind::Others => rollup.take_run(run),
            });
            before = page.next;
            if before.is_none() {
                return;
            }
        }
    });
    let _ = tokio::time::timeout(CATCH_UP_WITHIN, reading).await;
}

async fn revisions(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    let after = cursor::read('v', &call.query)?.unwrap_or(0);
    let limit = call.query.count("limit").map_or(REVISIONS_MAX, |limit| limit as usize);
    let mut revisions = front.browse.revisions(view.id, after, limit + 1).await?;
    let has_more = revisions.len() > limit;
    revisions.truncate(limit);
    let names = names_for(&*front.browse, revisions.iter().map(|revision| &revision.definition)).await?;
    let items = revisions.iter().map(|revision| show_job::revision(revision, &names)).collect();
    let last = revisions.last().filter(|_| has_more);
    Ok(ok(&Revisions { items, next_cursor: last.map(|revision| cursor::write('v', revision.version)) }))
}

async fn stats(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    Ok(ok(&show_job::stats(&front.browse.counts(Some(view.id)).await?)))
}

/// A job with its last runs on all nodes.
async fn shown_by_all(front: &Front, view: &JobView) -> Result<Response, Problem> {
    let recent = Recent::of(front, std::iter::once(view.id)).await;
    answer(front, StatusCode::OK, view, &recent.runs(front, view.id)).await
}

/// A job that was just written, with its last runs as this node knows them: other nodes are not asked for every
/// write.
pub(super) async fn shown(front: &Front, status: StatusCode, view: &JobView) -> Result<Response, Problem> {
    answer(front, status, view, &front.events.rollup().recent(view.id)).await
}

async fn answer(
    front: &Front,
    status: StatusCode,
    view: &JobView,
    recent: &[EndedRun],
) -> Result<Response, Problem> {
    let names = names_for(&*front.browse, std::iter::once(&view.definition)).await?;
    let shown = show_job::show(view, &names, &front.zones, front.now()?, recent);
    let mut response = json(status, &shown);
    response.headers_mut().insert(header::ETAG, etag(view.version).try_into().expect("a tag is plain text"));
    Ok(response)
}

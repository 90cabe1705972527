//! Actions over many jobs: counted, begun, looked at, stopped.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use punctual_core::model::JobId;
use punctual_node::ports::{JobFilter, JobName};
use punctual_protocol::{Bulk, BulkAction, BulkAsked, BulkList, BulkPreview, Role};

use super::{json, number, ok};
use crate::app::Front;
use crate::body;
use crate::bulk::{BulkWork, named};
use crate::caller::Caller;
use crate::convert::fields::{Faults, Object, Spot};
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

/// How many jobs a request may list by number.
const IDS_MAX: usize = 10_000;

/// How many actions run at once.
const RUNNING_MAX: usize = 4;

/// How many jobs a preview names.
const SAMPLE: usize = 10;

/// How long an answer waits for the action to end, so that a short action is answered as done.
const PATIENCE: Duration = Duration::from_millis(250);

pub(super) fn operations() -> Vec<Operation> {
    let operator = Permission::Role(Role::Operator);
    let viewer = Permission::Role(Role::Viewer);
    vec![
        Operation::post("/api/v1/jobs/bulk", "changeJobs", |front, call| Box::pin(begin(front, call)))
            .about(
                "jobs",
                "Starts, stops, runs or deletes many jobs in the background; deleting needs an editor.",
            )
            .needs(operator)
            .takes::<BulkAsked>()
            .answers::<BulkPreview>(200, "What it would be done to: the answer to dry_run.")
            .answers::<Bulk>(202, "It goes on, or is over already.")
            .refuses(&[409]),
        Operation::get("/api/v1/jobs/bulk", "listBulks", |front, call| Box::pin(list(front, call)))
            .about("jobs", "Lists the last actions over many jobs that this node carried out.")
            .needs(viewer)
            .answers::<BulkList>(200, "The newest first."),
        Operation::get("/api/v1/jobs/bulk/{id}", "getBulk", |front, call| Box::pin(get(front, call)))
            .about("jobs", "Says how far an action over many jobs is; asked of the node that carries it out.")
            .needs(viewer)
            .answers::<Bulk>(200, "How far it is."),
        Operation::post("/api/v1/jobs/bulk/{id}/stop", "stopBulk", |front, call| Box::pin(stop(front, call)))
            .about("jobs", "Ends an action over many jobs after what is under way; what is done stays done.")
            .needs(operator)
            .answers::<Bulk>(200, "How far it came."),
    ]
}

/// Which jobs the action applies to.
enum Which {
    Ids(Vec<JobId>),
    Filter(JobFilter),
}

struct JobsAsked {
    action: BulkAction,
    which: Which,
    dry_run: bool,
    expect: Option<u64>,
}

async fn begin(front: Arc<Front>, call: Call) -> Answer {
    let asked = read(&call)?;
    if asked.action == BulkAction::Delete {
        call.caller.check(Permission::Role(Role::Editor))?;
    }
    if asked.dry_run {
        return Ok(ok(&preview(&front, &call.caller, &asked.which).await?));
    }
    let jobs = find(&front, &call.caller, &asked.which).await?;
    if let Some(expected) = asked.expect.filter(|expected| *expected != jobs.len() as u64) {
        let said = format!("{} jobs match by now, not {expected}; look again with dry_run", jobs.len());
        return Err(Problem::conflict(said).at("/expect"));
    }
    if front.bulks.running() >= RUNNING_MAX {
        let said =
            format!("{RUNNING_MAX} actions over many jobs go on already; wait for one to end, or stop it");
        return Err(Problem::conflict(said));
    }
    let work = front.bulks.begin(&front, &call.caller, asked.action, jobs, front.now()?);
    let _ = tokio::time::timeout(PATIENCE, work.over()).await;
    Ok(json(StatusCode::ACCEPTED, &work.show()))
}

fn read(call: &Call) -> Result<JobsAsked, Problem> {
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let asked = Spot::whole(&value, &faults).object().and_then(|object| {
        let action = object.must("action").and_then(|spot| action(&spot));
        let ids = object.may_null("ids").map(|spot| ids(&spot));
        let filter = object.may_null("filter").map(|spot| filter(spot, &call.caller));
        let dry_run = object.may("dry_run").map_or(Some(false), |spot| spot.flag());
        let expect = object.may_null("expect").map(|spot| spot.number(0..=u64::from(u32::MAX)));
        object.end();
        let which = match (ids, filter) {
            (Some(ids), None) => ids.map(Which::Ids),
            (None, Some(filter)) => filter.map(Which::Filter),
            (None, None) => object.spot.refuse("say which jobs: either ids or filter; {} means all"),
            (Some(_), Some(_)) => object.spot.refuse("ids and filter exclude each other"),
        };
        Some(JobsAsked { action: action?, which: which?, dry_run: dry_run?, expect: expect.transpose()? })
    });
    faults.unless(asked)
}

/// Swaps the two options of a field that may be absent and may be wrong.
trait Transpose<T> {
    fn transpose(self) -> Option<Option<T>>;
}

impl<T> Transpose<T> for Option<Option<T>> {
    fn transpose(self) -> Option<Option<T>> {
        self.map_or(Some(None), |read| read.map(Some))
    }
}

fn action(spot: &Spot<'_>) -> Option<BulkAction> {
    match spot.text()? {
        "start" => Some(BulkAction::Start),
        "stop" => Some(BulkAction::Stop),
        "run" => Some(BulkAction::Run),
        "delete" => Some(BulkAction::Delete),
        _ => spot.refuse("unknown action; expected start, stop, run or delete"),
    }
}

fn ids(spot: &Spot<'_>) -> Option<Vec<JobId>> {
    let items = spot.list(IDS_MAX)?;
    if items.is_empty() {
        return spot.refuse("is empty, so there is nothing to do");
    }
    let read: Vec<Option<JobId>> =
        items.iter().map(|item| item.number(1..=i32::MAX as u64).map(|id| JobId(id as u32))).collect();
    let mut ids: Vec<JobId> = read.into_iter().collect::<Option<_>>()?;
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

fn filter(spot: Spot<'_>, caller: &Caller) -> Option<JobFilter> {
    let object = spot.object()?;
    let text = |name| object.may_null(name).map(|spot| spot.name());
    let (app, tag, q) = (text("app"), text("tag"), text("q"));
    let enabled = object.may_null("enabled").map(|spot| spot.flag());
    let (failing, stopped) = (flag(&object, "failing"), flag(&object, "stopped"));
    object.end();
    Some(JobFilter {
        apps: caller.apps_of(app.transpose()?.as_deref()),
        tag: tag.transpose()?,
        text: q.transpose()?,
        enabled: enabled.transpose()?,
        is_failing: failing?,
        is_given_up: stopped?,
    })
}

fn flag(object: &Object<'_>, name: &'static str) -> Option<bool> {
    object.may(name).map_or(Some(false), |spot| spot.flag())
}

async fn preview(front: &Front, caller: &Caller, which: &Which) -> Result<BulkPreview, Problem> {
    match which {
        Which::Ids(_) => {
            let jobs = find(front, caller, which).await?;
            let sample = jobs.iter().take(SAMPLE).map(named).collect();
            Ok(BulkPreview { matched: jobs.len() as u64, sample })
        }
        Which::Filter(filter) => {
            let (matched, _) = front.browse.job_totals(filter).await?;
            let page = front.browse.job_list(filter, None, SAMPLE).await?;
            let sample = page.items.into_iter().map(|view| {
                named(&JobName { id: view.id, app: view.definition.app, name: view.definition.name })
            });
            Ok(BulkPreview { matched, sample: sample.collect() })
        }
    }
}

/// The requested jobs that the caller reaches. Jobs that do not exist are skipped.
async fn find(front: &Front, caller: &Caller, which: &Which) -> Result<Vec<JobName>, Problem> {
    let filter = match which {
        Which::Ids(ids) => {
            let mut jobs = front.browse.job_names(ids).await?;
            jobs.retain(|job| caller.reaches(&job.app));
            jobs.sort_by_key(|job| job.id);
            return Ok(jobs);
        }
        Which::Filter(filter) => filter,
    };
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = front.browse.job_list(filter, after, 1_000).await?;
        jobs.extend(page.items.into_iter().map(|view| JobName {
            id: view.id,
            app: view.definition.app,
            name: view.definition.name,
        }));
        after = page.next;
        if after.is_none() {
            return Ok(jobs);
        }
    }
}

async fn list(front: Arc<Front>, call: Call) -> Answer {
    let items = front.bulks.all(&call.caller).iter().map(|work| work.show()).collect();
    Ok(ok(&BulkList { items }))
}

async fn get(front: Arc<Front>, call: Call) -> Answer {
    Ok(ok(&work(&front, &call)?.show()))
}

async fn stop(front: Arc<Front>, call: Call) -> Answer {
    let work = work(&front, &call)?;
    work.stop();
    let _ = tokio::time::timeout(PATIENCE, work.over()).await;
    Ok(ok(&work.show()))
}

fn work(front: &Front, call: &Call) -> Result<Arc<BulkWork>, Problem> {
    let id = number(call)?;
    let gone = || Problem::not_found(format!("an action with the number {id} on this node"));
    front.bulks.get(&call.caller, id).ok_or_else(gone)
}

//! Bulk actions on runs: counted first, then carried out page by page, each page durable before the next, with
//! progress.
//!
//! Runs are visited in the order of their numbers, the highest first, and no action changes a number: one request
//! visits no run twice.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Origin, RunId, RunState};
use punctual_node::Cancelled;
use punctual_node::ports::{Page, RunFilter, RunView};
use punctual_protocol::{BulkCancel, BulkCancelled, BulkReschedule, BulkRescheduled, Role, Span};

use super::{named_job, reaches_job};
use crate::app::Front;
use crate::body::{self, LINES};
use crate::caller::Caller;
use crate::convert::fields::{Faults, Object, Spot, TIME_MAX};
use crate::convert::job_ref::JobRef;
use crate::problem::Problem;
use crate::progress::{self, Teller};
use crate::table::{Answer, Call, Operation, Permission, schema_of};

/// How many runs a page has: enough for the store to write them together, few enough for other requests to get their
/// turn.
const PAGE: usize = 1_000;

pub(super) fn operations() -> Vec<Operation> {
    let operator = Permission::Role(Role::Operator);
    vec![
        Operation::post("/api/v1/runs/cancel", "cancelRuns", |front, call| Box::pin(cancel(front, call)))
            .about(
                "runs",
                "Ends all runs that a filter names; with dry_run counts them. Send `Accept: application/x-ndjson` to receive progress.",
            )
            .needs(operator)
            .takes::<BulkCancel>()
            .answers_as(
                200,
                "How many there were, and how many were cancelled.",
                vec![("application/json", Some(schema_of::<BulkCancelled>)), (LINES, None)],
                &[],
            ),
        Operation::post("/api/v1/runs/reschedule", "rescheduleRuns", |front, call| {
            Box::pin(reschedule(front, call))
        })
        .about(
            "runs",
            "Lets all one-shots that a filter names and that have not begun wait for another time; with dry_run counts \
             them. Send `Accept: application/x-ndjson` to receive progress.",
        )
        .needs(operator)
        .takes::<BulkReschedule>()
        .answers_as(
            200,
            "How many there were, and how many wait for their new time.",
            vec![("application/json", Some(schema_of::<BulkRescheduled>)), (LINES, None)],
            &[],
        ),
    ]
}

/// Which runs the action applies to, by the fields of the request.
struct RunsAsked {
    filter: RunFilter,
    job: Option<String>,
    app: Option<String>,
}

async fn cancel(front: Arc<Front>, call: Call) -> Answer {
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let asked = Spot::whole(&value, &faults).object().and_then(|object| {
        let filter =
            object.must("filter").and_then(|spot| spot.object()).and_then(|object| open_filter(&object));
        let dry_run = object.may("dry_run").map_or(Some(false), |spot| spot.flag());
        object.end();
        Some((filter?, dry_run?))
    });
    let (asked, dry_run) = faults.unless(asked)?;
    let filter = narrowed(&front, &call.caller, asked).await?;
    progress::told(&call, |teller| async move {
        let Some(filter) = filter else { return Ok(BulkCancelled::default()) };
        cancel_all(&front, &filter, dry_run, &teller).await
    })
    .await
}

async fn cancel_all(
    front: &Front,
    filter: &RunFilter,
    dry_run: bool,
    teller: &Teller,
) -> Result<BulkCancelled, Problem> {
    let states =
        filter.state.map_or(vec![RunState::Pending, RunState::Retrying, RunState::Running], |one| vec![one]);
    let mut done = BulkCancelled::default();
    for state in states {
        let filter = RunFilter { state: Some(state), ..filter.clone() };
        let mut pages = Pages::of(front, &filter).await?;
        while let Some(page) = pages.page.take() {
            done.matched += page.items.len() as u64;
            let runs: Vec<RunId> = page.items.iter().map(|view| view.id).collect();
            let cancelling = async {
                match dry_run {
                    true => Ok(0),
                    false => cancel_page(front, &runs).await,
                }
            };
            let (cancelled, next) = tokio::join!(cancelling, pages.after(page.next));
            done.cancelled += cancelled?;
            pages.page = next?;
            if !teller.tell(&done) {
                return Ok(done);
            }
        }
    }
    (front.nudge)();
    Ok(done)
}

/// Cancels a page of runs; returns how many were cancelled in time, or whose holders were asked to.
async fn cancel_page(front: &Front, runs: &[RunId]) -> Result<u64, Problem> {
    let became = front.node.cancel_all(runs).await?;
    Ok(became.iter().filter(|became| **became != Cancelled::TooLate).count() as u64)
}

/// The pages of a list, read one ahead: while one is carried out, the next is being read.
struct Pages<'a> {
    front: &'a Front,
    filter: &'a RunFilter,
    page: Option<Page<RunView, RunId>>,
}

impl<'a> Pages<'a> {
    /// The first page. A job has at most one open run with a given key, and it is found by the key, not by a search
    /// through all runs.
    async fn of(front: &'a Front, filter: &'a RunFilter) -> Result<Pages<'a>, Problem> {
        let page = match (filter.job, &filter.key, &filter.apps) {
            (Some(job), Some(key), None) => {
                let run = front.browse.run_keyed(job, key).await?;
                let view = match run {
                    Some(run) => front.browse.run(run).await?,
                    None => None,
                };
                Page { items: view.into_iter().filter(|view| takes(filter, view)).collect(), next: None }
            }
            _ => front.browse.run_list(filter, None, PAGE).await?,
        };
        Ok(Pages { front, filter, page: Some(page) })
    }

    async fn after(&self, before: Option<RunId>) -> Result<Option<Page<RunView, RunId>>, Problem> {
        let Some(before) = before else { return Ok(None) };
        Ok(Some(self.front.browse.run_list(self.filter, Some(before), PAGE).await?))
    }
}

/// Whether a filter lets through a run of its job with its key.
fn takes(filter: &RunFilter, view: &RunView) -> bool {
    filter.state.is_none_or(|state| state == view.state)
        && filter.from.is_none_or(|from| from <= view.fire_time)
        && filter.to.is_none_or(|to| view.fire_time < to)
}

/// The new due time of rescheduled runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Aim {
    At(Timestamp),
    Later(Duration),
    Sooner(Duration),
}

impl Aim {
    /// The new due time of a run that is due at `due` now.
    fn from(self, due: Timestamp) -> Timestamp {
        let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        match self {
            Aim::At(at) => at,
            Aim::Later(span) => due.saturating_add(span).min(TIME_MAX),
            Aim::Sooner(span) => Timestamp::from_millis(due.as_millis().saturating_sub(millis(span))),
        }
    }
}

/// The request for a bulk reschedule.
struct Moves {
    asked: RunsAsked,
    moved: Option<bool>,
    aim: Aim,
    dry_run: bool,
}

async fn reschedule(front: Arc<Front>, call: Call) -> Answer {
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let moves = Spot::whole(&value, &faults).object().and_then(|object| moves(&object));
    let Moves { asked, moved, aim, dry_run } = faults.unless(moves)?;
    let filter = narrowed(&front, &call.caller, asked).await?;
    progress::told(&call, |teller| async move {
        let Some(filter) = filter else { return Ok(BulkRescheduled::default()) };
        let mut done = BulkRescheduled::default();
        let mut pages = Pages::of(&front, &filter).await?;
        while let Some(page) = pages.page.take() {
            let wishes: Vec<(RunId, Timestamp)> =
                page.items.iter().filter(|view| is_meant(view, moved)).map(|view| wish(view, aim)).collect();
            done.matched += wishes.len() as u64;
            let moving = async {
                match dry_run {
                    true => Ok(0),
                    false => move_page(&front, &wishes).await,
                }
            };
            let (rescheduled, next) = tokio::join!(moving, pages.after(page.next));
            done.rescheduled += rescheduled?;
            pages.page = next?;
            if !teller.tell(&done) {
                break;
            }
        }
        (front.nudge)();
        Ok(done)
    })
    .await
}

fn is_meant(view: &RunView, moved: Option<bool>) -> bool {
    let is_moved = view.ready_at.is_some_and(|ready_at| ready_at != view.due);
    view.origin == Origin::OneShot && moved.is_none_or(|moved| moved == is_moved)
}

fn wish(view: &RunView, aim: Aim) -> (RunId, Timestamp) {
    (view.id, aim.from(view.ready_at.unwrap_or(view.due)))
}

/// Reschedules a page of runs; returns how many were moved in time. The holders of the other runs are waited for, so
/// that they are not given more than they can carry out. Runs that they have not decided by then count as moved,
/// because they will be.
async fn move_page(front: &Front, wishes: &[(RunId, Timestamp)]) -> Result<u64, Problem> {
    let became = front.node.reschedule_all(wishes).await?;
    let count = |wanted: Cancelled| became.iter().filter(|became| **became == wanted).count() as u64;
    let (in_time, asked_count) = (count(Cancelled::InTime), count(Cancelled::Asked));
    let is_asked = |(_, became): &(&(RunId, Timestamp), &Cancelled)| **became == Cancelled::Asked;
    let asked: Vec<(RunId, Timestamp)> =
        wishes.iter().zip(&became).filter(is_asked).map(|(wish, _)| *wish).collect();
    if asked.is_empty() {
        return Ok(in_time);
    }
    (front.nudge)();
    let late = |became: &Vec<Option<Cancelled>>| {
        became.iter().filter(|became| **became == Some(Cancelled::TooLate)).count() as u64
    };
    let seen_to = front.wait_for(|| async {
        let became = front.node.rescheduled(&asked).await?;
        Ok(became.iter().all(Option::is_some).then_some(became))
    });
    let became = match seen_to.await? {
        Some(became) => became,
        None => front.node.rescheduled(&asked).await?,
    };
    Ok(in_time + asked_count - late(&became))
}

fn moves(object: &Object<'_>) -> Option<Moves> {
    let filter = object.must("filter").and_then(|spot| spot.object()).and_then(|object| {
        let moved = flat(object.may_null("moved").map(|spot| spot.flag()));
        let asked = pending_filter(&object);
        Some((asked?, moved?))
    });
    let at = object.may_null("at").map(|spot| spot.time().map(Aim::At));
    let by = object.may_null("by").map(|spot| shift(&spot));
    let dry_run = object.may("dry_run").map_or(Some(false), |spot| spot.flag());
    object.end();
    let aim = match (at, by) {
        (Some(aim), None) | (None, Some(aim)) => aim,
        (None, None) => object.spot.refuse("say when: at, or by how much: by"),
        (Some(_), Some(_)) => object.spot.refuse("at and by exclude each other"),
    };
    let (asked, moved) = filter?;
    Some(Moves { asked, moved, aim: aim?, dry_run: dry_run? })
}

/// A duration, forwards or backwards.
fn shift(spot: &Spot<'_>) -> Option<Aim> {
    let text = spot.text()?;
    let (is_back, length) = text.strip_prefix('-').map_or((false, text), |length| (true, length));
    match length.parse::<Span>() {
        Err(error) => spot.refuse(error.to_string()),
        Ok(Span(span)) if span.is_zero() => spot.refuse("moves nothing"),
        Ok(Span(span)) => Some(if is_back { Aim::Sooner(span) } else { Aim::Later(span) }),
    }
}

/// Filters runs that have not ended.
fn open_filter(object: &Object<'_>) -> Option<RunsAsked> {
    let state = object.may_null("state").map(|spot| {
        let state = spot.word::<RunState>()?;
        if state.is_open() {
            Some(state)
        } else {
            spot.refuse("has ended; expected pending, running or retrying")
        }
    });
    let asked = fields(object);
    let state = flat(state)?;
    let RunsAsked { filter, job, app } = asked?;
    let filter = RunFilter { state, ..filter };
    if filter == RunFilter::default() && job.is_none() && app.is_none() {
        return object.spot.refuse("is empty and would cancel every run there is; say at least which state");
    }
    Some(RunsAsked { filter, job, app })
}

/// Filters runs that have not begun.
fn pending_filter(object: &Object<'_>) -> Option<RunsAsked> {
    let RunsAsked { filter, job, app } = fields(object)?;
    if job.is_none() && app.is_none() && filter.key.is_none() {
        return object.spot.refuse("would move one-shots of every app; say which job, app or key");
    }
    let filter = RunFilter { state: Some(RunState::Pending), ..filter };
    Some(RunsAsked { filter, job, app })
}

/// The fields that both kinds of filters have; any other field is refused.
fn fields(object: &Object<'_>) -> Option<RunsAsked> {
    let job = object.may_null("job").map(|spot| match JobRef::of(spot.raw()) {
        Ok(JobRef::Id(id)) => Some(id.to_string()),
        Ok(JobRef::Name(name)) => Some(name.into_owned()),
        Err(detail) => spot.refuse(detail),
    });
    let app = object.may_null("app").map(|spot| spot.name());
    let from = object.may_null("from").map(|spot| spot.time());
    let to = object.may_null("to").map(|spot| spot.time());
    let key = object.may_null("key").map(|spot| spot.name());
    object.end();
    let (from, to, key) = (flat(from)?, flat(to)?, flat(key)?);
    let filter = RunFilter { job: None, apps: None, state: None, from, to, key };
    Some(RunsAsked { filter, job: flat(job)?, app: flat(app)? })
}

/// A field that was not given, or was given and read.
fn flat<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    read.map_or(Some(None), |read| read.map(Some))
}

/// The filter, limited to what the caller reaches; none if nothing is left.
async fn narrowed(front: &Front, caller: &Caller, asked: RunsAsked) -> Result<Option<RunFilter>, Problem> {
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
    // The caller reaches the job, and so its app.
    let apps = apps.filter(|_| job.is_none() || asked.app.is_some());
    Ok(Some(RunFilter { job, apps, ..asked.filter }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read<T>(value: &Value, read: impl Fn(&Object<'_>) -> Option<T>) -> Result<T, Vec<String>> {
        let faults = Faults::default();
        let asked = Spot::whole(value, &faults).object().and_then(|object| read(&object));
        faults
            .unless(asked)
            .map_err(|problem| problem.errors.into_iter().map(|error| error.pointer).collect())
    }

    #[test]
    fn a_filter_names_open_runs_and_never_all_by_accident() {
        let asked = read(&json!({"job": 17, "state": "pending"}), open_filter).unwrap();
        assert_eq!((asked.job.as_deref(), asked.filter.state), (Some("17"), Some(RunState::Pending)));
        for value in [
            json!({}),
            json!({"job": null}),
            json!({"state": "failed"}),
            json!({"jobs": 3}),
            json!({"job": []}),
        ] {
            assert!(read(&value, open_filter).is_err(), "{value}");
        }
    }

    #[test]
    fn one_shots_are_moved_to_an_instant_or_by_a_duration() {
        let aim = |more: Value| {
            let mut value = json!({"filter": {"app": "mail"}});
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read(&value, moves).map(|moves| moves.aim)
        };
        let hour = Duration::from_secs(3_600);
        let noon: Timestamp = "2026-03-08T12:00:00Z".parse().unwrap();
        assert_eq!(aim(json!({"at": "2026-03-08T12:00:00Z"})), Ok(Aim::At(noon)));
        assert_eq!(aim(json!({"by": "1h"})), Ok(Aim::Later(hour)));
        assert_eq!(aim(json!({"by": "-1h"})), Ok(Aim::Sooner(hour)));
        assert_eq!(Aim::Later(hour).from(noon).to_string(), "2026-03-08T13:00:00Z");
        assert_eq!(Aim::Sooner(hour).from(noon).to_string(), "2026-03-08T11:00:00Z");
        assert_eq!(Aim::Later(hour).from(TIME_MAX), TIME_MAX);
        for (more, pointer) in [
            (json!({}), ""),
            (json!({"at": "2026-03-08T12:00:00Z", "by": "1h"}), ""),
            (json!({"by": "0s"}), "/by"),
            (json!({"by": "--1h"}), "/by"),
            (json!({"by": "an hour"}), "/by"),
            (json!({"at": "noon"}), "/at"),
            (json!({"by": "1h", "bye": 1}), "/bye"),
        ] {
            assert_eq!(aim(more.clone()).unwrap_err(), [pointer], "{more}");
        }
    }

    #[test]
    fn a_filter_that_would_move_everything_is_refused() {
        for filter in [json!({"job": "a/b"}), json!({"app": "a"}), json!({"key": "k"})] {
            let value = json!({"filter": filter, "by": "1h"});
            let asked = read(&value, moves).unwrap().asked;
            assert_eq!(asked.filter.state, Some(RunState::Pending));
        }
        for (filter, pointer) in [
            (json!({}), "/filter"),
            (json!({"from": "2026-03-08T12:00:00Z"}), "/filter"),
            (json!({"moved": false}), "/filter"),
            (json!({"job": "a/b", "state": "running"}), "/filter/state"),
            (json!({"job": "a/b", "moved": "no"}), "/filter/moved"),
        ] {
            let value = json!({"filter": filter, "by": "1h"});
            assert_eq!(read(&value, moves).err().unwrap(), [pointer], "{value}");
        }
    }
}

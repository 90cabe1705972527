//! Pausing an app, and going on with it: that is written down first, then its jobs are stopped, or started, page by page.
//! What was broken off is finished by asking again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual_core::model::{ChangeId, JobId, JobMove, StoppedReason, Text};
use punctual_node::DeskError;
use punctual_node::ports::{JobFilter, JobView};
use punctual_protocol::{AppPause, AppPaused, Role};
use tokio::task::JoinSet;

use super::apps::{name, no_app};
use super::by;
use crate::app::Front;
use crate::body::{self, LINES};
use crate::convert::fields::{Faults, Spot};
use crate::problem::Problem;
use crate::progress::{self, Teller};
use crate::table::{Answer, Call, Operation, Permission, schema_of};

/// How many jobs are read at once.
const PAGE: usize = 1_000;

/// How many of them are changed at once: enough that a store writes them together, few enough that others get their turn.
const AT_ONCE: usize = 32;

/// The longest reason, in characters.
const REASON_MAX: usize = 4_096;

pub(super) fn operations() -> Vec<Operation> {
    let operator = Permission::Role(Role::Operator);
    let content = || vec![("application/json", Some(schema_of::<AppPaused> as _)), (LINES, None)];
    vec![
        Operation::post("/api/v1/apps/{name}/pause", "pauseApp", |front, call| Box::pin(pause(front, call)))
            .about(
                "apps",
                "Stops every job of an app until it is resumed; what is stored for them waits. Repeating is safe. Who \
                 accepts only lines is told how far it is.",
            )
            .needs(operator)
            .takes_optional::<AppPause>()
            .answers_as(200, "No send of its jobs begins any more.", content(), &[]),
        Operation::post("/api/v1/apps/{name}/resume", "resumeApp", |front, call| {
            Box::pin(resume(front, call))
        })
        .about(
            "apps",
            "Starts those jobs of an app that its pause has stopped, and no others; what waited follows their misfire \
             policy. Repeating is safe. Who accepts only lines is told how far it is.",
        )
        .needs(operator)
        .answers_as(200, "Its jobs go on.", content(), &[])
        .refuses(&[409]),
    ]
}

async fn pause(front: Arc<Front>, call: Call) -> Answer {
    let reason = reason(&call)?;
    let name = reached(&call)?;
    front.node.pause_app(&name, by(&call.caller), reason.into()).await?;
    carry_out(front, &call, name, true).await
}

async fn resume(front: Arc<Front>, call: Call) -> Answer {
    let name = reached(&call)?;
    front.node.resume_app(&name).await?;
    carry_out(front, &call, name, false).await
}

fn reason(call: &Call) -> Result<String, Problem> {
    if call.body.is_empty() {
        return Ok(String::new());
    }
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let reason = Spot::whole(&value, &faults).object().and_then(|object| {
        let reason = object.may_null("reason").map_or(Some(String::new()), |spot| spot.prose(REASON_MAX));
        object.end();
        reason
    });
    faults.unless(reason)
}

/// The app in the path, if the caller may see it.
fn reached(call: &Call) -> Result<String, Problem> {
    let name = name(call);
    if call.caller.reaches(&name) { Ok(name) } else { Err(no_app(&name)) }
}

async fn carry_out(front: Arc<Front>, call: &Call, app: String, paused: bool) -> Answer {
    let by = by(&call.caller);
    progress::told(call, |teller| async move {
        let mut done = AppPaused { paused, ..AppPaused::default() };
        let mut latest = None;
        // What came while the jobs were read is found by the next round; the last finds nothing.
        let mut before = u64::MAX;
        while before != done.jobs && teller.tell(&done) {
            before = done.jobs;
            latest = latest.max(round(&front, &app, &by, &mut done, &teller).await?);
        }
        if let Some(change) = latest {
            front.wait_in_force(change).await?;
        }
        Ok(done)
    })
    .await
}

/// Goes through the app's jobs once; says which was the last change.
async fn round(
    front: &Arc<Front>,
    app: &str,
    by: &Text,
    done: &mut AppPaused,
    teller: &Teller,
) -> Result<Option<ChangeId>, Problem> {
    let filter =
        JobFilter { apps: Some(vec![app.to_owned()]), enabled: Some(done.paused), ..JobFilter::default() };
    let asked = match done.paused {
        true => JobMove::Stop(StoppedReason::AppPaused),
        false => JobMove::Resume,
    };
    let is_meant = |view: &JobView| view.state.is_enabled() || view.state.is_paused();
    let (mut latest, mut after) = (None, None);
    done.refused = 0;
    loop {
        let page = front.browse.job_list(&filter, after, PAGE).await?;
        let jobs: Vec<JobId> = page.items.iter().filter(|view| is_meant(view)).map(|view| view.id).collect();
        for moved in move_jobs(front, jobs, &asked, by).await {
            match moved {
                Ok(change) => {
                    done.jobs += 1;
                    latest = latest.max(Some(change));
                }
                // It was deleted meanwhile.
                Err(DeskError::NotFound(_)) => {}
                Err(DeskError::Conflict(_) | DeskError::Invalid { .. }) => done.refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
        (front.nudge)();
        after = page.next;
        if after.is_none() || !teller.tell(done) {
            return Ok(latest);
        }
    }
}

/// Changes jobs, a few at a time.
async fn move_jobs(
    front: &Arc<Front>,
    jobs: Vec<JobId>,
    asked: &JobMove,
    by: &Text,
) -> Vec<Result<ChangeId, DeskError>> {
    let (jobs, next) = (Arc::new(jobs), Arc::new(AtomicUsize::new(0)));
    let mut hands = JoinSet::new();
    for _ in 0..AT_ONCE.min(jobs.len()) {
        let (front, jobs, next) = (Arc::clone(front), Arc::clone(&jobs), Arc::clone(&next));
        let (asked, by) = (asked.clone(), by.clone());
        hands.spawn(async move {
            let mut moved = Vec::new();
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let changed = front.node.edit(*job, None, None, Some(asked.clone()), by.clone()).await;
                moved.push(changed.map(|changed| changed.change));
            }
            moved
        });
    }
    hands.join_all().await.into_iter().flatten().collect()
}

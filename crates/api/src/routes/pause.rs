//! Pausing and resuming an app. The node does the work; the caller here waits for it and gets its progress.

use std::sync::Arc;

use punctual_node::Following;
use punctual_protocol::{AppPause, AppPaused, Role};

use super::apps::{name, no_app};
use super::by;
use crate::app::Front;
use crate::body::{self, LINES};
use crate::convert::fields::{Faults, Spot};
use crate::problem::Problem;
use crate::progress;
use crate::table::{Answer, Call, Operation, Permission, schema_of};

/// The longest reason, in characters.
const REASON_MAX: usize = 4_096;

pub(super) fn operations() -> Vec<Operation> {
    let operator = Permission::Role(Role::Operator);
    let content = || vec![("application/json", Some(schema_of::<AppPaused> as _)), (LINES, None)];
    vec![
        Operation::post("/api/v1/apps/{name}/pause", "pauseApp", |front, call| Box::pin(pause(front, call)))
            .about(
                "apps",
                "Stops every job of an app until it is resumed; what is stored for them waits. Repeating is safe, and what is \
                 cut off is finished by the nodes. Send `Accept: application/x-ndjson` to receive progress.",
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
             policy. Repeating is safe, and what is cut off is finished by the nodes. Send `Accept: application/x-ndjson` \
             to receive progress.",
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

/// Stops or starts the jobs with their app, and waits until that is in force on every node.
async fn carry_out(front: Arc<Front>, call: &Call, app: String, paused: bool) -> Answer {
    let by = by(&call.caller);
    progress::told(call, |teller| async move {
        let shown = |done: Following| AppPaused { paused, jobs: done.jobs, refused: done.refused };
        let is_wanted = |done| {
            (front.nudge)();
            teller.tell(&shown(done))
        };
        let done = front.node.follow_app(&*front.browse, &app, paused, by, &is_wanted).await?;
        if let Some(change) = done.latest {
            front.wait_in_force(change).await?;
        }
        Ok(shown(done))
    })
    .await
}

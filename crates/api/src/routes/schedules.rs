//! Questions about schedules, with or without a job.

use std::sync::Arc;

use punctual_protocol::{Preview, PreviewAsked, Role};

use super::ok;
use crate::app::Front;
use crate::body;
use crate::convert::fields::{Faults, Spot};
use crate::convert::schedule;
use crate::convert::upcoming::upcoming;
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/api/v1/schedules/preview", "previewSchedule", |front, call| {
            Box::pin(preview(front, call))
        })
        .about("schedules", "Says what a schedule means: in words, and when it would fire.")
        .needs(Permission::Role(Role::Viewer))
        .takes::<PreviewAsked>()
        .answers::<Preview>(200, "What it means."),
    ]
}

async fn preview(front: Arc<Front>, call: Call) -> Answer {
    let value = body::json(&call.body)?;
    let now = front.now()?;
    let faults = Faults::default();
    let asked = Spot::whole(&value, &faults).object().and_then(|object| {
        let times = schedule::Context { zones: &front.zones, now, before: None };
        let schedule = object.must("schedule").and_then(|spot| schedule::read(spot, &times));
        let after = object.may_null("after").map_or(Some(now), |spot| spot.time());
        let count = object.may_null("count").map_or(Some(10), |spot| spot.number(1..=1_000));
        object.end();
        Some((schedule?, after?, count?))
    });
    let (schedule, after, count) = faults.unless(asked)?;
    let rule = schedule
        .compile(&front.zones, "preview")
        .map_err(|poison| Problem::field(poison.pointer, poison.reason))?;
    // The second fire time of a fixed delay depends on the end of the first run.
    let count = if schedule.is_delay() { 1 } else { count as usize };
    let times = upcoming(&rule, &Default::default(), after, count);
    Ok(ok(&Preview {
        fire_times: times.iter().map(|at| at.to_string()).collect(),
        in_words: rule.describe(),
        warnings: rule.warnings(now).iter().map(|warning| warning.to_string()).collect(),
    }))
}

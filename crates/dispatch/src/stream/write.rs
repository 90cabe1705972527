//! What is said to executors, as text.

use std::borrow::Cow;

use punctual_node::ports::Dispatched;
use punctual_protocol::native::{FromNode, Kept, Nodes, Part, RUNS_MAX, Run, Want};
use serde_json::value::RawValue;

use super::outbox::Gathered;
use crate::request::with_millis;

/// About how long a message with runs becomes.
const RUNS_BYTES: usize = 1 << 20;

/// How many kept reports are told in one message.
const KEPT_MAX: usize = 1_000;

/// The messages for what has gathered, in their order.
pub(super) fn messages(gathered: &Gathered) -> Vec<String> {
    let mut all = Vec::new();
    for kept in gathered.kept.chunks(KEPT_MAX) {
        all.push(text(&FromNode::Kept(Kept { reports: kept.to_vec() })));
    }
    if !gathered.cancels.is_empty() {
        let runs = gathered.cancels.clone();
        all.push(text(&FromNode::Cancel(punctual_protocol::native::Cancels { runs })));
    }
    all.extend(gathered.nodes.clone().map(|nodes| text(&FromNode::Nodes(Nodes { nodes }))));
    all.extend(gathered.want.map(|runs| text(&FromNode::Want(Want { runs }))));
    let own: Vec<Option<Box<RawValue>>> = gathered.runs.iter().map(params).collect();
    let pairs = gathered.runs.iter().zip(&own);
    let written: Vec<String> = pairs.map(|(one, own)| written(one, own.as_deref())).collect();
    let mut left = &written[..];
    while !left.is_empty() {
        let (now, later) = left.split_at(fitting(left));
        all.push(format!(r#"{{"type":"runs","runs":[{}]}}"#, now.join(",")));
        left = later;
    }
    all.extend(gathered.carried.iter().cloned());
    all
}

pub(super) fn text(message: &FromNode<'_>) -> String {
    // These types have no value that cannot be written as JSON.
    serde_json::to_string(message).unwrap_or_default()
}

/// How many of these fit into a message; at least one.
fn fitting(runs: &[String]) -> usize {
    let mut bytes = 0;
    let is_too_much = |run: &String| {
        bytes += run.len();
        bytes > RUNS_BYTES
    };
    let count = runs.iter().take(RUNS_MAX).position(is_too_much);
    count.unwrap_or(runs.len().min(RUNS_MAX)).max(1)
}

fn written(run: &Dispatched, own: Option<&RawValue>) -> String {
    serde_json::to_string(&piece(run, own)).unwrap_or_default()
}

/// What the job has for runs that bring nothing.
fn params(run: &Dispatched) -> Option<Box<RawValue>> {
    let own = run.job.executor()?.params.as_deref().filter(|_| run.payload.is_none())?;
    serde_json::value::to_raw_value(own).ok()
}

fn piece<'a>(run: &'a Dispatched, own: Option<&'a RawValue>) -> Run<'a> {
    let definition = &run.job.definition;
    let executor = run.job.executor();
    let brought = run.payload.as_deref().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    Run {
        run: run.run.0,
        job: run.job.id.0,
        name: Cow::Borrowed(&definition.name),
        handler: Cow::Borrowed(executor.map_or("", |executor| &executor.handler)),
        fire_time: Cow::Owned(with_millis(run.fire_time)),
        attempt: run.attempt.0,
        token: run.token.0,
        timeout_ms: u64::try_from(run.timeout.as_millis()).unwrap_or(u64::MAX).min(1 << 52),
        payload: brought.or(own),
        possible_duplicate: run.possible_duplicate,
        part: run.part.as_ref().map(|part| Part { index: part.index, total: part.total }),
    }
}

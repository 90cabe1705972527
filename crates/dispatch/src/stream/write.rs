//! What is said to executors, as text.

use std::borrow::Cow;

use calendar::Timestamp;
use punctual_node::ports::Dispatched;
use punctual_protocol::native::{FromNode, Kept, Nodes, Part, RUNS_MAX, Run, Want};
use serde_json::value::RawValue;

use super::outbox::Gathered;
use crate::http::request::with_millis;

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
    let mut runs = Runs::default();
    gathered.runs.iter().for_each(|run| runs.push(run));
    all.extend(runs.finish());
    all.extend(gathered.carried.iter().cloned());
    all
}

pub(super) fn text(message: &FromNode<'_>) -> String {
    // These types have no value that cannot be written as JSON.
    serde_json::to_string(message).unwrap_or_default()
}

/// Runs as text, in as few messages as hold them.
#[derive(Default)]
struct Runs {
    full: Vec<String>,
    open: Vec<u8>,
    count: usize,
    /// The last fire time that was written: runs in one batch often share it.
    stamp: Option<(Timestamp, String)>,
}

impl Runs {
    fn push(&mut self, run: &Dispatched) {
        if self.count == RUNS_MAX {
            self.close();
        }
        let before = self.open.len();
        self.write(run);
        if self.open.len() > RUNS_BYTES && self.count > 1 {
            self.open.truncate(before);
            self.count -= 1;
            self.close();
            self.write(run);
        }
    }

    fn write(&mut self, run: &Dispatched) {
        let opening: &[u8] = if self.count == 0 { br#"{"type":"runs","runs":["# } else { b"," };
        self.open.extend_from_slice(opening);
        let (own, stamp) = (params(run), self.stamp.take().filter(|(at, _)| *at == run.fire_time));
        let (_, stamp) =
            self.stamp.insert(stamp.unwrap_or_else(|| (run.fire_time, with_millis(run.fire_time))));
        // These types have no value that cannot be written as JSON.
        let _ = serde_json::to_writer(&mut self.open, &piece(run, own.as_deref(), stamp));
        self.count += 1;
    }

    fn close(&mut self) {
        let mut message = std::mem::take(&mut self.open);
        message.extend_from_slice(b"]}");
        self.full.extend(String::from_utf8(message));
        self.count = 0;
    }

    fn finish(mut self) -> Vec<String> {
        if self.count > 0 {
            self.close();
        }
        self.full
    }
}

/// The job's parameters, for runs without a payload.
fn params(run: &Dispatched) -> Option<Box<RawValue>> {
    let own = run.job.executor()?.params.as_deref().filter(|_| run.payload.is_none())?;
    serde_json::value::to_raw_value(own).ok()
}

fn piece<'a>(run: &'a Dispatched, own: Option<&'a RawValue>, fire_time: &'a str) -> Run<'a> {
    let definition = &run.job.definition;
    let executor = run.job.executor();
    let brought = run.payload.as_deref().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    Run {
        run: run.run.0,
        job: run.job.id.0,
        name: Cow::Borrowed(&definition.name),
        handler: Cow::Borrowed(executor.map_or("", |executor| &executor.handler)),
        fire_time: Cow::Borrowed(fire_time),
        attempt: run.attempt.0,
        token: run.token.0,
        timeout_ms: u64::try_from(run.timeout.as_millis()).unwrap_or(u64::MAX).min(1 << 52),
        payload: brought.or(own),
        possible_duplicate: run.possible_duplicate,
        part: run.part.as_ref().map(|part| Part { index: part.index, total: part.total }),
    }
}

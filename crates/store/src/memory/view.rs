//! A run as it is seen from outside: by the wheel, and by people.

use std::collections::BTreeMap;

use punctual_core::model::{Attempt, RunState};
use punctual_node::ports::{AttemptRow, RunView, Waiting};

use super::state::{GateKey, StoredRun};

/// A run as the wheel needs it. One that waits for nothing is at the last attempt that was gated, or at the first.
pub(super) fn waiting(run: &StoredRun) -> Waiting {
    let gated = run.last_send().map(|(attempt, _)| attempt);
    let attempt = run.wait.map(|wait| wait.attempt).or(gated).unwrap_or(Attempt::FIRST);
    let ready_at = run.wait.and_then(|wait| wait.ready_at).unwrap_or(run.new.due);
    Waiting {
        run: run.new.id,
        job: run.new.job,
        shard: run.new.shard,
        fire_time: run.new.fire_time,
        ready_at,
        attempt,
        priority: run.new.priority,
        origin: run.new.origin,
        decided: run.new.decided,
        has_payload: run.new.payload.is_some(),
        is_called_back: run.wait.is_some_and(|wait| wait.is_called_back),
        overrides: run.new.overrides.clone(),
    }
}

pub(super) fn state(run: &StoredRun) -> RunState {
    match (&run.close, run.wait) {
        (Some(close), _) => close.outcome.into(),
        (None, Some(wait)) if wait.attempt > Attempt::FIRST => RunState::Retrying,
        (None, Some(_)) => RunState::Pending,
        (None, None) if run.gates.is_empty() => RunState::Pending,
        (None, None) => RunState::Running,
    }
}

/// A run as people see it.
pub(super) fn run_view(run: &StoredRun) -> RunView {
    RunView {
        id: run.new.id,
        job: run.new.job,
        shard: run.new.shard,
        fire_time: run.new.fire_time,
        due: run.new.due,
        origin: run.new.origin,
        state: state(run),
        reason: run.close.as_ref().map(|close| close.reason.clone()).unwrap_or_default(),
        closed_at: run.close.as_ref().map(|close| close.closed_at),
        range: run.close.as_ref().and_then(|close| close.range),
        priority: run.new.priority,
        payload: run.new.payload.clone(),
        key: run.new.key.clone(),
        of: run.new.of,
        ready_at: run.wait.and_then(|wait| wait.ready_at),
        attempts: attempts(run),
        part: run.part.clone(),
        overrides: run.new.overrides.clone(),
    }
}

fn attempts(run: &StoredRun) -> Vec<AttemptRow> {
    let mut rows: BTreeMap<Attempt, AttemptRow> = BTreeMap::new();
    for (number, key) in &run.gates {
        if let GateKey::Sent(send) = key {
            let row = AttemptRow::Open {
                number: *number,
                token: send.token,
                log: send.log,
                started_at: send.sent_at,
                executor: send.executor.clone(),
            };
            rows.insert(*number, row);
        }
    }
    rows.extend(run.attempts.iter().map(|(number, record)| (*number, AttemptRow::Ended(record.clone()))));
    rows.into_values().collect()
}

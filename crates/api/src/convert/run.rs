//! Runs as they are shown.

use calendar::Timestamp;
use punctual_core::model::{self as house, AttemptRecord};
use punctual_node::ports::{AttemptRow, RunView};
use punctual_protocol as wire;
use serde_json::Value;

/// A run with its attempts.
pub(crate) fn show(view: &RunView) -> wire::Run {
    let attempts: Vec<wire::Attempt> = view.attempts.iter().map(attempt).collect();
    let of = |origin| view.of.filter(|_| view.origin == origin).map(|run| run.0);
    wire::Run {
        id: view.id.0,
        job: view.job.0,
        fire_time: view.fire_time.to_string(),
        origin: origin(view.origin),
        state: state(view.state),
        reason: view.reason.to_string(),
        lag_ms: lag_ms(view),
        possible_duplicate: attempts.iter().any(|attempt| attempt.possible_duplicate),
        key: view.key.as_ref().map(|key| key.to_string()),
        payload: view.payload.as_deref().map(payload),
        priority: view.priority,
        retry_of: of(house::Origin::Retry),
        parent: of(house::Origin::Parent),
        ready_at: view.ready_at.map(|at| at.to_string()),
        closed_at: view.closed_at.map(|at| at.to_string()),
        count: view.range.map(|(_, count)| count),
        until: view.range.map(|(until, _)| until.to_string()),
        attempts,
        parts: Vec::new(),
    }
}

/// JSON that cannot be read any more is shown as the text that it is.
fn payload(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into()))
}

/// How long after it was due its first attempt began.
pub(crate) fn lag_ms(view: &RunView) -> Option<i64> {
    let began = view.attempts.iter().map(started_at).min()?;
    Some(began.as_millis().saturating_sub(view.due.as_millis()).max(0))
}

pub(crate) fn started_at(row: &AttemptRow) -> Timestamp {
    match row {
        AttemptRow::Ended(record) => record.started_at,
        AttemptRow::Open { started_at, .. } => *started_at,
    }
}

fn attempt(row: &AttemptRow) -> wire::Attempt {
    match row {
        AttemptRow::Ended(AttemptRecord {
            number,
            executor,
            started_at,
            ended_at,
            outcome,
            message,
            possible_duplicate,
            ..
        }) => wire::Attempt {
            number: number.0,
            executor: executor.to_string(),
            started_at: started_at.to_string(),
            ended_at: Some(ended_at.to_string()),
            outcome: Some(attempt_outcome(*outcome)),
            message: message.to_string(),
            possible_duplicate: *possible_duplicate,
        },
        AttemptRow::Open { number, started_at, executor, .. } => wire::Attempt {
            number: number.0,
            executor: executor.to_string(),
            started_at: started_at.to_string(),
            ended_at: None,
            outcome: None,
            message: String::new(),
            possible_duplicate: false,
        },
    }
}

fn origin(origin: house::Origin) -> wire::Origin {
    match origin {
        house::Origin::Schedule => wire::Origin::Schedule,
        house::Origin::Manual => wire::Origin::Manual,
        house::Origin::OneShot => wire::Origin::OneShot,
        house::Origin::Backfill => wire::Origin::Backfill,
        house::Origin::Retry => wire::Origin::Retry,
        house::Origin::Parent => wire::Origin::Parent,
    }
}

fn state(state: house::RunState) -> wire::RunState {
    match state {
        house::RunState::Pending => wire::RunState::Pending,
        house::RunState::Running => wire::RunState::Running,
        house::RunState::Retrying => wire::RunState::Retrying,
        house::RunState::Succeeded => wire::RunState::Succeeded,
        house::RunState::Failed => wire::RunState::Failed,
        house::RunState::Lost => wire::RunState::Lost,
        house::RunState::Cancelled => wire::RunState::Cancelled,
        house::RunState::Skipped => wire::RunState::Skipped,
    }
}

fn attempt_outcome(outcome: house::AttemptOutcome) -> wire::AttemptOutcome {
    match outcome {
        house::AttemptOutcome::Succeeded => wire::AttemptOutcome::Succeeded,
        house::AttemptOutcome::Failed => wire::AttemptOutcome::Failed,
        house::AttemptOutcome::TimedOut => wire::AttemptOutcome::TimedOut,
        house::AttemptOutcome::Refused => wire::AttemptOutcome::Refused,
        house::AttemptOutcome::Lost => wire::AttemptOutcome::Lost,
        house::AttemptOutcome::Cancelled => wire::AttemptOutcome::Cancelled,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use punctual_core::model::{Attempt, AttemptOutcome, JobId, RunId, ShardId, Token};

    pub(crate) fn at(second: &str) -> Timestamp {
        format!("2026-03-08T07:00:{second}Z").parse().unwrap()
    }

    pub(crate) fn ended(
        number: u32,
        begin: &str,
        end: &str,
        outcome: AttemptOutcome,
        message: &str,
    ) -> AttemptRow {
        AttemptRow::Ended(AttemptRecord {
            number: Attempt(number),
            token: Token(1),
            executor: "http://agent".into(),
            started_at: at(begin),
            ended_at: at(end),
            outcome,
            message: message.to_owned().into(),
            possible_duplicate: false,
        })
    }

    pub(crate) fn run(state: house::RunState, attempts: Vec<AttemptRow>) -> RunView {
        RunView {
            id: RunId::new(100, 7),
            job: JobId(17),
            shard: ShardId(0),
            fire_time: at("00"),
            due: at("00"),
            origin: house::Origin::Schedule,
            state,
            reason: "".into(),
            closed_at: (!state.is_open()).then(|| at("09")),
            range: None,
            priority: 5,
            payload: None,
            key: None,
            of: None,
            ready_at: None,
            attempts,
        }
    }

    #[test]
    fn lag_is_counted_from_when_it_was_due_to_the_first_attempt() {
        let attempts = vec![
            ended(1, "00.012", "01", AttemptOutcome::Failed, "500"),
            ended(2, "02", "03", AttemptOutcome::Succeeded, "200"),
        ];
        let shown = show(&run(house::RunState::Succeeded, attempts));
        assert_eq!((shown.lag_ms, shown.attempts.len()), (Some(12), 2));
        assert_eq!(show(&run(house::RunState::Pending, vec![])).lag_ms, None);
    }

    #[test]
    fn what_it_follows_has_a_name_by_its_origin() {
        let mut view = run(house::RunState::Pending, vec![]);
        view.of = Some(RunId(5));
        let shown = |origin| {
            let shown = show(&RunView { origin, ..view.clone() });
            (shown.retry_of, shown.parent)
        };
        assert_eq!(shown(house::Origin::Retry), (Some(5), None));
        assert_eq!(shown(house::Origin::Parent), (None, Some(5)));
        assert_eq!(shown(house::Origin::Schedule), (None, None));
    }
}

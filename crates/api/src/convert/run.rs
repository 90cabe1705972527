//! Runs as they are shown.

use calendar::Timestamp;
use punctual_core::model::{self as house, AttemptRecord};
use punctual_node::ports::{AttemptRow, KillNote, RunView};
use punctual_protocol as wire;
use serde_json::Value;

use super::show_job;

/// A run with its attempts.
pub(crate) fn show(view: &RunView) -> wire::Run {
    let attempts: Vec<wire::Attempt> = view.attempts.iter().map(attempt).collect();
    let of = |origin| view.of.filter(|_| view.origin == origin).map(|run| run.0);
    let overrides = view.overrides.as_deref().unwrap_or(house::Overrides::none());
    wire::Run {
        id: view.id.0,
        job: view.job.0,
        job_name: None,
        app: None,
        fire_time: view.fire_time.to_string(),
        origin: origin(view.origin),
        state: state(view.state),
        reason: view.reason.to_string(),
        lag_ms: lag_ms(view),
        possible_duplicate: attempts.iter().any(|attempt| attempt.possible_duplicate),
        key: view.key.as_ref().map(|key| key.to_string()),
        payload: view.payload.as_deref().map(payload),
        priority: view.priority,
        timeout: overrides.timeout.map(wire::Span),
        retry: overrides.retry.as_ref().map(show_job::retry),
        exclusive: overrides.exclusive.as_ref().map(show_job::keys),
        retry_of: of(house::Origin::Retry),
        parent: of(house::Origin::Parent),
        ready_at: view.ready_at.map(|at| at.to_string()),
        closed_at: view.closed_at.map(|at| at.to_string()),
        count: view.range.map(|(_, count)| count),
        until: view.range.map(|(until, _)| until.to_string()),
        attempts,
        parts: Vec::new(),
        part: view.part.as_ref().zip(view.of).map(|(part, of)| wire::PartOf {
            run: of.0,
            index: part.index,
            total: part.total,
            executor: part.address.to_string(),
        }),
    }
}

/// One part of a broadcast; none if the run is no part.
pub(crate) fn show_part(view: &RunView, kills: &[KillNote]) -> Option<wire::RunPart> {
    let part = view.part.as_ref()?;
    let mut attempts: Vec<wire::Attempt> = view.attempts.iter().map(attempt).collect();
    add_kills(&mut attempts, kills);
    Some(wire::RunPart {
        index: part.index,
        total: part.total,
        run: view.id.0,
        executor: part.address.to_string(),
        state: state(view.state),
        reason: view.reason.to_string(),
        attempts,
    })
}

/// Adds the outcome of kills to their attempts.
pub(crate) fn add_kills(attempts: &mut [wire::Attempt], kills: &[KillNote]) {
    for attempt in attempts {
        let note = kills.iter().find(|note| note.attempt.0 == attempt.number);
        attempt.kill = note.map(|note| wire::Kill {
            state: match note.is_confirmed {
                None => wire::KillState::Requested,
                Some(true) => wire::KillState::Confirmed,
                Some(false) => wire::KillState::Refused,
            },
            at: note.at.to_string(),
            said: note.said.to_string(),
        });
    }
}

/// A payload that cannot be read as JSON any more is shown as text.
fn payload(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into()))
}

/// How long after it was due its first attempt began. A supposed attempt says nothing about that.
pub(crate) fn lag_ms(view: &RunView) -> Option<i64> {
    let began = view.attempts.iter().filter(|row| !is_supposed(row)).map(started_at).min()?;
    Some(began.as_millis().saturating_sub(view.due.as_millis()).max(0))
}

/// Whether no node knows that the attempt was ever sent.
pub(crate) fn is_supposed(row: &AttemptRow) -> bool {
    matches!(row, AttemptRow::Ended(record) if record.is_supposed())
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
            supposed: is_supposed(row),
            kill: None,
        },
        AttemptRow::Open { number, started_at, executor, .. } => wire::Attempt {
            number: number.0,
            executor: executor.to_string(),
            started_at: started_at.to_string(),
            ended_at: None,
            outcome: None,
            message: String::new(),
            possible_duplicate: false,
            supposed: false,
            kill: None,
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
        house::Origin::Part => wire::Origin::Part,
    }
}

pub(crate) fn state(state: house::RunState) -> wire::RunState {
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
            part: None,
            overrides: None,
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
    fn what_a_run_has_of_its_own_is_shown_beside_its_payload() {
        let overrides = house::Overrides {
            timeout: Some(std::time::Duration::from_secs(90)),
            retry: Some(punctual_core::policy::Retry::default()),
            exclusive: None,
            executor: Some("http://e".into()),
        };
        let mut view = run(house::RunState::Pending, vec![]);
        view.payload = Some("{\"a\":1}".into());
        view.overrides = overrides.kept();
        let shown = serde_json::to_value(show(&view)).unwrap();
        let retry = serde_json::json!({
            "max_attempts": 3, "initial_delay": "1s", "multiplier": 2.0, "max_delay": "30s"
        });
        assert_eq!((&shown["timeout"], &shown["retry"]), (&Value::from("90s"), &retry));
        assert_eq!(shown["payload"], serde_json::json!({"a": 1}));
        let plain = serde_json::to_value(show(&run(house::RunState::Pending, vec![]))).unwrap();
        assert!(plain.get("timeout").is_none() && plain.get("retry").is_none(), "they are its job's");
    }

    #[test]
    fn a_part_says_what_it_is_a_part_of_and_an_attempt_what_came_of_a_kill() {
        let mut view =
            run(house::RunState::Running, vec![ended(1, "00", "01", AttemptOutcome::Cancelled, "")]);
        assert!(show_part(&view, &[]).is_none());
        view.of = Some(RunId(5));
        view.part = Some(house::Part { index: 1, total: 3, address: "http://e".into() });
        assert_eq!(show(&view).part.map(|part| (part.run, part.index, part.total)), Some((5, 1, 3)));
        let note =
            |is_confirmed| KillNote { attempt: Attempt(1), at: at("02"), is_confirmed, said: "ok".into() };
        for (is_confirmed, state) in [
            (None, wire::KillState::Requested),
            (Some(true), wire::KillState::Confirmed),
            (Some(false), wire::KillState::Refused),
        ] {
            let part = show_part(&view, &[note(is_confirmed)]).unwrap();
            assert_eq!(part.attempts[0].kill.as_ref().map(|kill| kill.state), Some(state));
        }
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

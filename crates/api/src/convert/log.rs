//! The log of a run as this node can tell it: for each attempt where it went, how it ended, and its message.

use punctual_node::ports::{AttemptRow, RunView};
use punctual_protocol::Log;

/// The lines of a run, or of one of its attempts.
fn lines(view: &RunView, attempt: Option<u32>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &view.attempts {
        match row {
            AttemptRow::Ended(record) if attempt.is_none_or(|wanted| wanted == record.number.0) => {
                let (number, executor, outcome) = (record.number, &record.executor, record.outcome);
                lines.push(format!("{} attempt {number} to {executor}", record.started_at));
                lines.extend(record.message.lines().map(str::to_owned));
                lines.push(format!("{} attempt {number} {outcome}", record.ended_at));
            }
            AttemptRow::Open { number, started_at, executor, .. }
                if attempt.is_none_or(|wanted| wanted == number.0) =>
            {
                lines.push(format!("{started_at} attempt {number} to {executor}"));
            }
            _ => {}
        }
    }
    lines
}

/// The lines from number `from` (from 1) on; a note comes after the last.
pub(crate) fn log(view: &RunView, attempt: Option<u32>, from: u64, note: Option<&str>) -> Log {
    let mut lines = lines(view, attempt);
    lines.extend(note.map(str::to_owned));
    let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut text = String::new();
    for line in lines.iter().skip(skipped) {
        text.push_str(line);
        text.push('\n');
    }
    let next = (lines.len() as u64 + 1).max(from);
    Log { text, next, end: !view.state.is_open(), attempt }
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::{ended, run};
    use super::*;
    use punctual_core::model::{AttemptOutcome, RunState};

    #[test]
    fn a_log_goes_on_where_it_was_left() {
        let failed = ended(1, "00", "01", AttemptOutcome::Failed, "500\nno database");
        let mut view = run(RunState::Retrying, vec![failed]);
        let first = log(&view, None, 1, None);
        assert_eq!(first.text.lines().count(), 4);
        assert_eq!((first.next, first.end), (5, false));
        view.attempts.push(ended(2, "02", "03", AttemptOutcome::Succeeded, ""));
        view.state = RunState::Succeeded;
        let rest = log(&view, None, first.next, None);
        let (to, done) =
            ("2026-03-08T07:00:02Z attempt 2 to http://agent", "2026-03-08T07:00:03Z attempt 2 succeeded");
        assert_eq!(rest, Log { text: format!("{to}\n{done}\n"), next: 7, end: true, attempt: None });
        assert_eq!(log(&view, Some(2), 1, None).text, rest.text);
        assert_eq!(
            log(&view, Some(3), 9, None),
            Log { text: String::new(), next: 9, end: true, attempt: Some(3) }
        );
    }
}

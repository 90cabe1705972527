//! Why a run is in its state: one sentence, and the evidence for it.

use std::collections::BTreeSet;

use calendar::Timestamp;
use punctual_core::model::{AttemptOutcome, AttemptRecord, Origin, RunState, Skip, Text};
use punctual_node::ports::{AttemptRow, RunView};
use punctual_node::{AppView, ExecutorView};
use punctual_protocol::{Evidence, Span, Why};

use super::run::{is_supposed, lag_ms, started_at};

/// How many handlers of an app are named.
const HANDLERS_NAMED: usize = 10;

/// The sentence about a run, as of `now`; `lack` says what its executors lack, if it goes to executors.
pub(crate) fn why(view: &RunView, now: Timestamp, lack: Option<&str>) -> Why {
    Why { sentence: sentence(view, now, lack), evidence: evidence(view) }
}

/// What the executors of an app lack to run this handler; none if one of them may run it.
pub(crate) fn lack(app: &str, handler: &str, view: Option<&AppView>) -> Option<String> {
    let executors = view.map(|view| view.executors.as_slice()).unwrap_or_default();
    match executors.len() {
        _ if executors.iter().any(|executor| executor.is_routable) => lacks_handler(app, handler, executors),
        0 => Some(format!("no executor of app {app} is registered")),
        1 => Some(format!("the only executor of app {app} does not answer")),
        count => Some(format!("none of the {count} executors of app {app} answers")),
    }
}

/// Whether all executors list their handlers, and none lists this one; a script needs none.
pub(crate) fn lacks_handler(app: &str, handler: &str, executors: &[ExecutorView]) -> Option<String> {
    let routable = executors.iter().filter(|executor| executor.is_routable);
    let offered: Option<Vec<&Vec<Text>>> = routable.map(|executor| executor.handlers.as_ref()).collect();
    let offered: BTreeSet<&str> = offered?.into_iter().flatten().map(|name| &**name).collect();
    if offered.is_empty() || handler.is_empty() || offered.contains(handler) {
        return None;
    }
    let names: Vec<String> = offered.iter().take(HANDLERS_NAMED).map(|name| format!("`{name}`")).collect();
    let more = if offered.len() > HANDLERS_NAMED { " and others" } else { "" };
    Some(format!(
        "no executor of app {app} has the handler `{handler}`; they have {}{more}",
        names.join(", ")
    ))
}

fn sentence(view: &RunView, now: Timestamp, lack: Option<&str>) -> String {
    let origin = origin(view);
    match view.state {
        RunState::Pending => pending(view, now, origin, lack),
        RunState::Running => format!("It {origin}{} and is running: {}.", lateness(view), last_word(view)),
        RunState::Retrying => {
            let when = match (view.ready_at, lack) {
                (Some(at), _) => format!("at {at}"),
                (None, Some(lack)) => format!("when it can be ({lack})"),
                (None, None) => "when there is room".into(),
            };
            format!("It {origin}{} and will be tried again {when}: {}.", lateness(view), last_word(view))
        }
        RunState::Succeeded => format!("It {origin}{} and succeeded {}.", lateness(view), tries(view)),
        RunState::Failed | RunState::Lost if view.attempts.is_empty() => {
            format!("It {origin} and {} without an attempt: {}.", view.state, reason(view))
        }
        RunState::Failed => {
            format!("It {origin}{} and failed {}: {}.", lateness(view), tries(view), reason(view))
        }
        RunState::Lost => {
            let said = "was lost: nobody knows whether it was done";
            format!("It {origin}{} and {said} ({}).", lateness(view), reason(view))
        }
        RunState::Cancelled => {
            let sent = if view.attempts.is_empty() { "before it was sent" } else { "after it was sent" };
            let because = if view.reason == "job deleted" { ", because its job was deleted" } else { "" };
            format!("It {origin} and was cancelled {sent}{because}.")
        }
        RunState::Skipped => skipped(view, origin),
    }
}

fn origin(view: &RunView) -> String {
    match view.origin {
        Origin::Schedule => format!("was named by its schedule for {}", view.fire_time),
        Origin::Manual => format!("was started by hand for {}", view.fire_time),
        Origin::OneShot => format!("was handed over for {}", view.fire_time),
        Origin::Backfill => format!("was asked for to fill the gap at {}", view.fire_time),
        Origin::Retry => match view.of {
            Some(run) => format!("repeats run {run}"),
            None => "repeats another run".into(),
        },
        Origin::Parent => match view.of {
            Some(run) => format!("was brought about by the end of run {run}"),
            None => "was brought about by the end of another job".into(),
        },
        Origin::Part => match (&view.part, view.of) {
            (Some(part), Some(run)) => {
                format!("is part {} of {} of run {run}, for {}", part.index + 1, part.total, part.address)
            }
            _ => "is a part of another run".into(),
        },
    }
}

fn pending(view: &RunView, now: Timestamp, origin: String, lack: Option<&str>) -> String {
    let due = view.ready_at.unwrap_or(view.due);
    if due > now {
        return format!("It {origin} and waits until {due}.");
    }
    let late = length(now.as_millis() - due.as_millis());
    let because = lack.unwrap_or("its job is stopped or busy, or there is no room to send it");
    format!("It {origin}, is due since {late}, and waits: {because}.")
}

fn skipped(view: &RunView, origin: String) -> String {
    let why = match view.reason.parse::<Skip>() {
        Ok(skip) => skip_words(skip),
        // A node of a later version wrote a reason that this one does not know.
        Err(_) => &*view.reason,
    };
    match view.range {
        Some((until, count)) => {
            format!(
                "It stands for {count} instants from {} to {until} that were skipped: {why}.",
                view.fire_time
            )
        }
        None => format!("It {origin} and was skipped: {why}."),
    }
}

fn skip_words(skip: Skip) -> &'static str {
    match skip {
        Skip::Misfire => "nobody was there to start it in time, and its job skips what it missed",
        Skip::Coalesced => "it was missed, and a later instant of its schedule stands for it",
        Skip::TooMany => "more instants were missed than may be caught up with",
        Skip::OutsideWindows => "it lies outside the job's windows",
        Skip::OutsideCalendar => "the job's calendar leaves out its date",
        Skip::JobStopped => "its job was stopped before it was due",
        Skip::JobEdited => "its job was edited and no longer names this instant",
        Skip::JobDeleted => "its job was deleted",
        Skip::Blocked => "another run of its job was still running, and the job discards newcomers",
        Skip::QueueFull => "there was no room to wait for a send",
    }
}

/// `, ran 12 ms after it was due`.
fn lateness(view: &RunView) -> String {
    let due = if view.due == view.fire_time { "its fire time" } else { "it was due" };
    lag_ms(view).map_or(String::new(), |lag| format!(", ran {} after {due}", length(lag)))
}

fn tries(view: &RunView) -> String {
    let all: Vec<&AttemptRecord> = ended(view).collect();
    match all.as_slice() {
        [] | [_] => "at the first attempt".into(),
        [first, .., last] => {
            let (number, outcome) = (last.number, words(first));
            format!("at attempt {number}; the first {outcome}{}", quoted(&first.message))
        }
    }
}

fn reason(view: &RunView) -> String {
    let last =
        ended(view).last().map(|record| format!("the last {}{}", words(record), quoted(&record.message)));
    match (&*view.reason, last) {
        ("", Some(last)) => last,
        ("", None) => "the reason was not kept".into(),
        (reason, _) => reason.to_owned(),
    }
}

fn last_word(view: &RunView) -> String {
    match view.attempts.last() {
        None => "its first attempt is being sent".into(),
        Some(AttemptRow::Open { number, executor, started_at, .. }) => {
            format!("attempt {number} went to {executor} at {started_at}")
        }
        Some(AttemptRow::Ended(record)) => {
            format!("attempt {} {}{}", record.number, words(record), quoted(&record.message))
        }
    }
}

fn words(record: &AttemptRecord) -> &'static str {
    match record.outcome {
        _ if record.is_supposed() => "may have been sent or not",
        AttemptOutcome::Succeeded => "succeeded",
        AttemptOutcome::Failed => "failed",
        AttemptOutcome::TimedOut => "did not end in time",
        AttemptOutcome::Refused => "was not taken",
        AttemptOutcome::Lost => "was never heard of again",
        AttemptOutcome::Cancelled => "was cancelled",
    }
}

fn quoted(message: &str) -> String {
    let line: String = message.lines().next().unwrap_or_default().chars().take(120).collect();
    if line.is_empty() { line } else { format!(" ({line})") }
}

fn length(millis: i64) -> String {
    let millis = u64::try_from(millis).unwrap_or(0);
    match millis {
        0..1_000 => format!("{millis} ms"),
        // Longer durations are shown without milliseconds.
        _ => Span(std::time::Duration::from_secs(millis / 1_000)).to_string(),
    }
}

fn ended(view: &RunView) -> impl Iterator<Item = &AttemptRecord> {
    view.attempts.iter().filter_map(|row| match row {
        AttemptRow::Ended(record) => Some(record),
        AttemptRow::Open { .. } => None,
    })
}

fn evidence(view: &RunView) -> Vec<Evidence> {
    let said = |at: Option<Timestamp>, what: String| Evidence { at: at.map(|at| at.to_string()), what };
    let mut all = vec![said(Some(view.fire_time), format!("fire time, {}", view.origin))];
    if view.due != view.fire_time {
        all.push(said(Some(view.due), "due".into()));
    }
    for row in &view.attempts {
        let (number, executor) = match row {
            AttemptRow::Ended(record) => (record.number, &record.executor),
            AttemptRow::Open { number, executor, .. } => (*number, executor),
        };
        let went = if is_supposed(row) { "may have gone" } else { "went" };
        all.push(said(Some(started_at(row)), format!("attempt {number} {went} to {executor}")));
        if let AttemptRow::Ended(record) = row {
            let what = format!("attempt {number} {}{}", words(record), quoted(&record.message));
            all.push(said(Some(record.ended_at), what));
        }
    }
    if let Some(at) = view.ready_at {
        all.push(said(Some(at), "goes on".into()));
    }
    if let Some(at) = view.closed_at {
        let because = if view.reason.is_empty() { String::new() } else { format!(": {}", view.reason) };
        all.push(said(Some(at), format!("closed as {}{because}", view.state)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::{at, ended, run};
    use super::*;

    fn check(view: &RunView, sentence: &str) {
        assert_eq!(why(view, at("30"), None).sentence, sentence);
    }

    #[test]
    fn each_state_has_its_sentence() {
        let named = "It was named by its schedule for 2026-03-08T07:00:00Z";
        let failed = || ended(1, "00.012", "01", AttemptOutcome::Failed, "500");
        let succeeded = ended(2, "02", "03", AttemptOutcome::Succeeded, "");
        check(
            &run(RunState::Succeeded, vec![failed(), succeeded]),
            &format!(
                "{named}, ran 12 ms after its fire time and succeeded at attempt 2; the first failed (500)."
            ),
        );
        check(
            &run(RunState::Failed, vec![failed()]),
            &format!(
                "{named}, ran 12 ms after its fire time and failed at the first attempt: the last failed (500)."
            ),
        );
        check(
            &run(RunState::Pending, vec![]),
            &format!(
                "{named}, is due since 30s, and waits: its job is stopped or busy, or there is no room to send it."
            ),
        );
        check(
            &RunView { reason: "blocked".into(), ..run(RunState::Skipped, vec![]) },
            &format!(
                "{named} and was skipped: another run of its job was still running, and the job discards newcomers."
            ),
        );
        check(&run(RunState::Cancelled, vec![]), &format!("{named} and was cancelled before it was sent."));
        check(
            &RunView { reason: "job deleted".into(), ..run(RunState::Cancelled, vec![]) },
            &format!("{named} and was cancelled before it was sent, because its job was deleted."),
        );
    }

    #[test]
    fn what_may_have_been_sent_is_told_so_and_lateness_counts_from_what_was() {
        let mut supposed =
            ended(1, "00", "04", AttemptOutcome::Lost, "its node is gone; it may have been sent");
        let AttemptRow::Ended(record) = &mut supposed else { panic!("it has ended") };
        record.token = punctual_core::model::Token::SUPPOSED;
        let view =
            run(RunState::Succeeded, vec![supposed, ended(2, "04", "05", AttemptOutcome::Succeeded, "")]);
        let named = "It was named by its schedule for 2026-03-08T07:00:00Z";
        let first = "the first may have been sent or not (its node is gone; it may have been sent)";
        check(&view, &format!("{named}, ran 4s after its fire time and succeeded at attempt 2; {first}."));
        let evidence = why(&view, at("30"), None).evidence;
        assert!(
            evidence.iter().any(|one| one.what.starts_with("attempt 1 may have gone to ")),
            "{evidence:?}"
        );
    }

    #[test]
    fn who_waits_for_executors_is_told_so() {
        let lack = lack("reports", "slow", None).unwrap();
        let sentence = why(&run(RunState::Pending, vec![]), at("30"), Some(&lack)).sentence;
        assert!(sentence.ends_with("and waits: no executor of app reports is registered."), "{sentence}");
    }

    #[test]
    fn a_handler_that_no_executor_has_is_told_with_those_they_have() {
        let executor = |handlers: Option<&[&'static str]>| ExecutorView {
            address: "native:reports/1".into(),
            dialect: punctual_core::registry::Dialect::Native,
            beat_at: None,
            is_routable: true,
            is_suspect: false,
            in_flight: 0,
            handlers: handlers.map(|all| all.iter().map(|name| Text::Borrowed(name)).collect()),
        };
        let told = |handler, executors: &[ExecutorView]| lacks_handler("reports", handler, executors);
        let known = [executor(Some(&["slow", "fail"])), executor(Some(&["slow"]))];
        let said = "no executor of app reports has the handler `slwo`; they have `fail`, `slow`";
        assert_eq!(told("slwo", &known).as_deref(), Some(said));
        assert_eq!(told("slow", &known), None);
        assert_eq!(told("", &known), None, "a script");
        let [one, _] = known;
        assert_eq!(told("slwo", &[one, executor(None)]), None, "one of them takes everything");
        assert_eq!(told("slwo", &[executor(Some(&[]))]), None, "it drains, and others may come");
    }

    #[test]
    fn a_run_outside_its_calendar_is_told_in_words() {
        let view = RunView { reason: "outside calendar".into(), ..run(RunState::Skipped, vec![]) };
        let named = "It was named by its schedule for 2026-03-08T07:00:00Z";
        check(&view, &format!("{named} and was skipped: the job's calendar leaves out its date."));
    }

    #[test]
    fn a_range_says_what_it_stands_for() {
        let view = RunView {
            reason: "coalesced".into(),
            range: Some((at("20"), 20)),
            ..run(RunState::Skipped, vec![])
        };
        let from_to = "from 2026-03-08T07:00:00Z to 2026-03-08T07:00:20Z";
        check(
            &view,
            &format!(
                "It stands for 20 instants {from_to} that were skipped: it was missed, and a later instant of its schedule stands for it."
            ),
        );
    }

    #[test]
    fn evidence_is_in_order_and_ends_with_the_close() {
        let evidence = why(
            &run(RunState::Failed, vec![ended(1, "00", "01", AttemptOutcome::Failed, "x")]),
            at("30"),
            None,
        )
        .evidence;
        assert_eq!(evidence.len(), 4);
        assert!(evidence[3].what.starts_with("closed as failed"));
    }
}

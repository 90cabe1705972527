//! Runs for people: in a table, alone, and with the reason for their state.

use serde_json::Value;

use crate::client::Route;
use crate::failure::Failure;
use crate::session::ClientSession;
use crate::table::{Column, TextTable, cell, details, printable};

/// A table of runs.
pub(crate) fn table(runs: &[Value]) -> TextTable {
    let columns = [
        Column::Whole("ID"),
        Column::Whole("JOB"),
        Column::Whole("FIRE TIME"),
        Column::Whole("STATE"),
        Column::Whole("ORIGIN"),
        Column::Whole("LAG"),
        Column::Whole("TRIES"),
        Column::Cut("REASON"),
    ];
    let mut table = TextTable::new(&columns);
    for run in runs {
        table.row([
            cell(run, "/id"),
            cell(run, "/job"),
            cell(run, "/fire_time"),
            cell(run, "/state"),
            cell(run, "/origin"),
            lag(run),
            tries(run),
            cell(run, "/reason"),
        ]);
    }
    table
}

fn lag(run: &Value) -> String {
    run["lag_ms"].as_i64().map(|lag| format!("{lag}ms")).unwrap_or_default()
}

fn tries(run: &Value) -> String {
    run["attempts"].as_array().map(|attempts| attempts.len().to_string()).unwrap_or_default()
}

/// One run with its attempts.
pub(super) async fn run(session: &mut ClientSession, run: u64) -> Result<(), Failure> {
    let run = session.client.get(Route::to(["runs", &run.to_string()])).await?;
    if session.wants_json() {
        session.print_json(&run);
        return Ok(());
    }
    let may_be_double = run["possible_duplicate"] == true;
    let text = details(&[
        ("id", cell(&run, "/id")),
        ("job", cell(&run, "/job")),
        ("state", cell(&run, "/state")),
        ("reason", cell(&run, "/reason")),
        ("fire time", cell(&run, "/fire_time")),
        ("origin", cell(&run, "/origin")),
        ("lag", lag(&run)),
        ("ready at", cell(&run, "/ready_at")),
        ("ended at", cell(&run, "/closed_at")),
        ("until", cell(&run, "/until")),
        ("count", cell(&run, "/count")),
        ("key", cell(&run, "/key")),
        ("priority", cell(&run, "/priority")),
        ("timeout", cell(&run, "/timeout")),
        ("attempts", cell(&run, "/retry/max_attempts")),
        ("retry of", cell(&run, "/retry_of")),
        ("parent", cell(&run, "/parent")),
        ("part of", cell(&run, "/part/run")),
        ("payload", cell(&run, "/payload")),
        ("duplicate", if may_be_double { "possible".into() } else { String::new() }),
    ]);
    session.print_text(&text);
    let attempts = run["attempts"].as_array().cloned().unwrap_or_default();
    if !attempts.is_empty() {
        let width = session.surroundings.width;
        session.print(format!("\n{}", attempts_table(&attempts).show(width).trim_end()));
    }
    attempts.iter().filter_map(kill).for_each(|line| session.print(printable(&line)));
    let parts = run["parts"].as_array().cloned().unwrap_or_default();
    if !parts.is_empty() {
        let width = session.surroundings.width;
        session.print(format!("\n{}", parts_table(&parts).show(width).trim_end()));
    }
    Ok(())
}

/// The outcome of a kill.
fn kill(attempt: &Value) -> Option<String> {
    let kill = attempt.get("kill").filter(|kill| !kill.is_null())?;
    let said = Some(cell(kill, "/said")).filter(|said| !said.is_empty());
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    Some(format!(
        "kill of attempt {} {} at {}{said}",
        cell(attempt, "/number"),
        cell(kill, "/state"),
        cell(kill, "/at")
    ))
}

fn parts_table(parts: &[Value]) -> TextTable {
    let columns = [
        Column::Whole("PART"),
        Column::Whole("RUN"),
        Column::Whole("STATE"),
        Column::Whole("TRIES"),
        Column::Cut("EXECUTOR"),
        Column::Cut("REASON"),
    ];
    let mut table = TextTable::new(&columns);
    for part in parts {
        let [index, run, state] = ["/index", "/run", "/state"].map(|field| cell(part, field));
        table.row([index, run, state, tries(part), cell(part, "/executor"), cell(part, "/reason")]);
    }
    table
}

fn attempts_table(attempts: &[Value]) -> TextTable {
    let columns = [
        Column::Whole("TRY"),
        Column::Whole("STARTED"),
        Column::Whole("ENDED"),
        Column::Whole("OUTCOME"),
        Column::Cut("EXECUTOR"),
        Column::Cut("MESSAGE"),
    ];
    let mut table = TextTable::new(&columns);
    let fields = ["/number", "/started_at", "/ended_at", "/outcome", "/executor", "/message"];
    for attempt in attempts {
        let mut row = fields.map(|field| cell(attempt, field));
        if attempt["supposed"] == true {
            // No node knows that it was sent, so it neither ended nor was lost.
            (row[2], row[3]) = (String::new(), "may have been sent".into());
        }
        table.row(row);
    }
    table
}

/// One sentence, and the evidence for it.
pub(super) async fn why(session: &mut ClientSession, run: u64) -> Result<(), Failure> {
    let why = session.client.get(Route::to(["runs", &run.to_string(), "why"])).await?;
    if session.wants_json() {
        session.print_json(&why);
        return Ok(());
    }
    session.print(printable(&cell(&why, "/sentence")));
    for evidence in why["evidence"].as_array().into_iter().flatten() {
        let line = format!("  {:<24}  {}", cell(evidence, "/at"), cell(evidence, "/what"));
        session.print(printable(&line).trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_attempt_that_may_have_been_sent_is_not_shown_as_lost() {
        let supposed = json!({
            "number": 1, "started_at": "10:00:00Z", "ended_at": "10:00:04Z", "outcome": "lost", "supposed": true,
        });
        let sent = json!({
            "number": 2, "started_at": "10:00:05Z", "ended_at": "10:00:06Z", "outcome": "succeeded",
        });
        let text = attempts_table(&[supposed, sent]).show(None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("may have been sent") && !lines[1].contains("lost"), "{text}");
        assert!(!lines[1].contains("10:00:04Z"), "nobody knows of an end: {text}");
        assert!(lines[2].contains("10:00:06Z") && lines[2].contains("succeeded"), "{text}");
    }
}

//! `punctual run log`: the lines of a run, also those that are still to come.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::client::Route;
use crate::clock;
use crate::failure::Failure;
use crate::session::ClientSession;

/// How often a followed log is asked for more.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How many requests in a row may fail: a server that restarts is back by then.
const MISSES: u32 = 60;

#[derive(Args)]
pub(super) struct LogArguments {
    /// Its number
    run: u64,
    /// Of this attempt, from 1 [default: an executor's latest, all of an agent's]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Of this part of a broadcast, from 0
    #[arg(long, value_name = "N")]
    part: Option<u32>,
    /// The first line, from 1
    #[arg(long, value_name = "LINE", default_value_t = 1)]
    from: u64,
    /// Go on until the log has ended
    #[arg(long, short)]
    follow: bool,
}

/// A piece of the log, as the server gives it.
struct Piece {
    text: String,
    next: u64,
    is_last: bool,
    attempt: Option<u32>,
}

impl LogArguments {
    pub(super) async fn answer(mut self, session: &mut ClientSession) -> Result<(), Failure> {
        let (mut from, mut misses, mut whole) = (self.from, 0, String::new());
        loop {
            let piece = match self.piece(session, from).await {
                Err(failure) if self.follow && failure.may_pass() && misses < MISSES => {
                    misses += 1;
                    clock::sleep(LOOK_EVERY).await;
                    continue;
                }
                piece => piece?,
            };
            misses = 0;
            // From the first piece on, the attempt stays the same: the lines of another attempt begin with 1 again.
            self.attempt = self.attempt.or(piece.attempt);
            let is_new = piece.next > from;
            from = piece.next.max(from);
            if is_new && session.wants_json() {
                whole.push_str(&piece.text);
            } else if is_new {
                session.print_text(&tamed(&piece.text, session.surroundings.is_coloured));
                session.flush()?;
            }
            if piece.is_last || !(is_new || self.follow) {
                if session.wants_json() {
                    session.print_json(&json!({"text": whole, "next": from, "end": piece.is_last}));
                }
                return Ok(());
            }
            if !is_new {
                clock::sleep(LOOK_EVERY).await;
            }
        }
    }

    async fn piece(&self, session: &ClientSession, from: u64) -> Result<Piece, Failure> {
        let route = Route::to(["runs", &self.run.to_string(), "log"])
            .with_any("attempt", self.attempt)
            .with_any("part", self.part)
            .with("from", from);
        let piece = session.client.get(route).await?;
        let mut text = piece["text"].as_str().unwrap_or_default().to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let next = piece["next"].as_u64().unwrap_or(from);
        let attempt = piece["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok());
        Ok(Piece { text, next, is_last: piece["end"] == Value::Bool(true), attempt })
    }
}

/// On a terminal, log lines must not move the cursor. A file gets them as they were written.
fn tamed(text: &str, is_terminal: bool) -> String {
    let is_harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if !is_terminal {
        return text.to_owned();
    }
    text.chars().map(|c| if is_harmless(c) { c } else { ' ' }).collect()
}

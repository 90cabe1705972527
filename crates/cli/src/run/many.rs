//! Actions on many runs: counted, confirmed, and carried out with progress.

use serde_json::{Value, json};

use crate::client::Route;
use crate::failure::Failure;
use crate::lines;
use crate::session::ClientSession;

/// An action on all runs that a filter names.
pub(super) struct Many {
    /// The action, as the last part of the path.
    pub(super) verb: &'static str,
    /// The state of the runs afterwards, as the answer counts it.
    pub(super) done: &'static str,
    /// Whether to count them only.
    pub(super) dry_run: bool,
    /// Whether to go on without asking.
    pub(super) yes: bool,
}

impl Many {
    pub(super) async fn carry_out(&self, session: &mut ClientSession, body: &Value) -> Result<(), Failure> {
        let Many { verb, done, .. } = self;
        let mut counted = 0;
        if !self.yes {
            let count = |told: &Value| format!("{} runs counted", number(told, "matched"));
            let preview = lines::follow(session, self.route(), with_dry_run(body, true), count).await?;
            let matched = number(&preview, "matched");
            if self.dry_run || matched == 0 {
                let word = if self.dry_run { format!("would be {done}") } else { format!("to {verb}") };
                tell(session, &preview, &format!("{matched} runs {word}"));
                return Ok(());
            }
            session.confirm(false, &format!("{verb} {matched} runs"))?;
            counted = matched;
        }
        let sentence = |told: &Value| progress(told, done, counted);
        let answer = lines::follow(session, self.route(), with_dry_run(body, false), sentence).await?;
        tell(session, &answer, &sentence(&answer));
        Ok(())
    }

    fn route(&self) -> Route {
        Route::to(["runs", self.verb])
    }
}

/// The progress: out of all runs that were counted before while it goes on; out of all that were found at its end.
fn progress(told: &Value, done: &str, counted: u64) -> String {
    let matched = number(told, "matched");
    let all = if told["done"] == true { matched } else { matched.max(counted) };
    format!("{} of {} runs {done}", grouped(number(told, done)), grouped(all))
}

/// A number with commas, which people read faster.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let is_end = |index: usize| index > 0 && (digits.len() - index).is_multiple_of(3);
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if is_end(index) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn with_dry_run(body: &Value, dry_run: bool) -> Value {
    let mut body = body.clone();
    body["dry_run"] = json!(dry_run);
    body
}

fn number(told: &Value, field: &str) -> u64 {
    told[field].as_u64().unwrap_or_default()
}

fn tell(session: &mut ClientSession, answer: &Value, sentence: &str) {
    if session.wants_json() {
        session.print_json(answer);
    }
    session.say(sentence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_of_what_was_counted_before() {
        let told = json!({"matched": 48_000, "cancelled": 47_999});
        assert_eq!(progress(&told, "cancelled", 225_001), "47,999 of 225,001 runs cancelled");
        assert_eq!(progress(&told, "cancelled", 0), "47,999 of 48,000 runs cancelled", "nobody counted");
        let last = json!({"matched": 224_990, "cancelled": 224_990, "done": true});
        assert_eq!(progress(&last, "cancelled", 225_001), "224,990 of 224,990 runs cancelled");
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}

//! What is done to many runs: counted, asked about, and carried out with progress.

use serde_json::{Value, json};

use crate::cli::client::Route;
use crate::cli::failure::Failure;
use crate::cli::lines;
use crate::cli::session::Session;

/// A wish about all runs that a filter names.
pub(super) struct Many {
    /// What is done, as the last part of the path.
    pub(super) verb: &'static str,
    /// What they are afterwards, as the answer counts it.
    pub(super) done: &'static str,
    /// Whether only to count them.
    pub(super) dry_run: bool,
    /// Whether not to ask.
    pub(super) yes: bool,
}

impl Many {
    pub(super) async fn carry_out(&self, session: &mut Session, body: &Value) -> Result<(), Failure> {
        let Many { verb, done, .. } = self;
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
        }
        let sentence =
            |told: &Value| format!("{} of {} runs {done}", number(told, done), number(told, "matched"));
        let answer = lines::follow(session, self.route(), with_dry_run(body, false), sentence).await?;
        tell(session, &answer, &sentence(&answer));
        Ok(())
    }

    fn route(&self) -> Route {
        Route::to(["runs", self.verb])
    }
}

fn with_dry_run(body: &Value, dry_run: bool) -> Value {
    let mut body = body.clone();
    body["dry_run"] = json!(dry_run);
    body
}

fn number(told: &Value, field: &str) -> u64 {
    told[field].as_u64().unwrap_or_default()
}

fn tell(session: &mut Session, answer: &Value, sentence: &str) {
    if session.wants_json() {
        session.print_json(answer);
    }
    session.say(sentence);
}

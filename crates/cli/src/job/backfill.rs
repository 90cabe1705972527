//! `punctual job backfill`: the instants of a past range, shown first and then run.

use clap::Args;
use serde_json::{Value, json};

use super::find::{self, JobReference};
use crate::client::Route;
use crate::failure::Failure;
use crate::session::ClientSession;

/// How many instants a preview shows.
const SHOWN: usize = 10;

#[derive(Args)]
pub(super) struct Backfill {
    /// Its id, or app/name
    job: JobReference,
    /// The first instant of the range (RFC 3339)
    #[arg(long, value_name = "T")]
    from: String,
    /// The first instant behind it (RFC 3339)
    #[arg(long, value_name = "T")]
    to: String,
    /// Only show which instants they are
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Backfill {
    pub(super) async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let id = find::id(&session.client, &self.job).await?.to_string();
        let route = Route::to(["jobs", &id, "backfill"]);
        let range = |is_dry: bool| json!({"from": self.from, "to": self.to, "dry_run": is_dry});
        if !self.yes {
            let preview = session.client.post(route.clone(), range(true)).await?;
            let count = preview["count"].as_u64().unwrap_or_default();
            if self.dry_run {
                print(session, &preview);
                session.say(format!("{count} instants (dry run: nothing was started)"));
                return Ok(());
            }
            say_first(session, &preview, count);
            session.confirm(false, &format!("run {count} instants of {}", self.job))?;
        }
        let done = session.client.post(route, range(false)).await?;
        if session.wants_json() {
            session.print_json(&done);
        }
        let number = |field: &str| done[field].as_u64().unwrap_or_default();
        let (created, count) = (number("created"), number("count"));
        session.say(format!("{created} runs created, {} were there", count.saturating_sub(created)));
        Ok(())
    }
}

/// The requested preview: data.
fn print(session: &mut ClientSession, preview: &Value) {
    if session.wants_json() {
        return session.print_json(preview);
    }
    fire_times(preview).for_each(|at| session.print(at));
}

/// The preview before the question: a message.
fn say_first(session: &mut ClientSession, preview: &Value, count: u64) {
    fire_times(preview).take(SHOWN).for_each(|at| session.say(at));
    let left = count.saturating_sub(SHOWN as u64);
    if left > 0 {
        session.say(format!("… and {left} more"));
    }
}

fn fire_times(preview: &Value) -> impl Iterator<Item = &str> {
    preview["fire_times"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

//! `punctual run cancel`: by number, or by filter with a count first.

use clap::Args;
use serde_json::{Value, json};

use super::{Filter, tell_wish, wish};
use crate::cli::client::Route;
use crate::cli::failure::Failure;
use crate::cli::session::Session;

#[derive(Args)]
pub(super) struct Cancel {
    /// Their numbers
    #[arg(conflicts_with_all = ["job", "app", "state", "from", "to", "key"])]
    runs: Vec<u64>,
    #[command(flatten)]
    filter: Filter,
    /// Only say how many they are
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Cancel {
    pub(super) async fn answer(self, session: &mut Session) -> Result<(), Failure> {
        if self.runs.is_empty() && self.filter.is_empty() {
            return Err(Failure::usage("which runs? give their numbers, or a filter such as --job app/name"));
        }
        if !self.runs.is_empty() && self.dry_run {
            return Err(Failure::usage("--dry-run counts what a filter names; numbers need no counting"));
        }
        if self.runs.is_empty() {
            self.by_filter(session).await
        } else {
            by_number(session, &self.runs).await
        }
    }

    async fn by_filter(self, session: &mut Session) -> Result<(), Failure> {
        let filter = fields(&self.filter, session).await?;
        let route = Route::to(["runs", "cancel"]);
        let body = |is_dry: bool| json!({"filter": filter, "dry_run": is_dry});
        if !self.yes {
            let preview = session.client.post(route.clone(), body(true)).await?;
            let matched = preview["matched"].as_u64().unwrap_or_default();
            if self.dry_run || matched == 0 {
                let word = if self.dry_run { "would be cancelled" } else { "to cancel" };
                tell(session, &preview, &format!("{matched} runs {word}"));
                return Ok(());
            }
            session.confirm(false, &format!("cancel {matched} runs"))?;
        }
        let done = session.client.post(route, body(false)).await?;
        let count = |field: &str| done[field].as_u64().unwrap_or_default();
        let sentence = format!("{} of {} runs cancelled", count("cancelled"), count("matched"));
        tell(session, &done, &sentence);
        Ok(())
    }
}

fn tell(session: &mut Session, answer: &Value, sentence: &str) {
    if session.wants_json() {
        session.print_json(answer);
    }
    session.say(sentence);
}

/// Tries all of them, and fails with the first that could not be cancelled.
async fn by_number(session: &mut Session, runs: &[u64]) -> Result<(), Failure> {
    let mut first_failure = None;
    for run in runs {
        let cancelled = match session.client.post(wish(*run, "cancel"), json!({})).await {
            Ok(done) => tell_wish(session, *run, &done, "cancelled"),
            Err(failure) => Err(failure),
        };
        match cancelled {
            Err(failure) if first_failure.is_none() => first_failure = Some(failure),
            Err(failure) => session.say(failure.message().trim_end()),
            Ok(()) => {}
        }
    }
    first_failure.map_or(Ok(()), Err)
}

async fn fields(filter: &Filter, session: &Session) -> Result<Value, Failure> {
    let job = filter.job_id(session).await?;
    let Filter { app, state, from, to, key, .. } = filter;
    let mut fields = json!({"job": job, "app": app, "state": state, "from": from, "to": to, "key": key});
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(fields)
}

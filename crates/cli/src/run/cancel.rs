//! `punctual run cancel`: by number, or by filter with a count first.

use clap::Args;
use serde_json::json;

use super::many::Many;
use super::{Filter, tell_wish, wish};
use crate::failure::Failure;
use crate::session::ClientSession;

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
    pub(super) async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
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

    async fn by_filter(self, session: &mut ClientSession) -> Result<(), Failure> {
        let filter = self.filter.fields(session).await?;
        let many = Many { verb: "cancel", done: "cancelled", dry_run: self.dry_run, yes: self.yes };
        many.carry_out(session, &json!({"filter": filter})).await
    }
}

/// Tries all of them, and fails with the first that could not be cancelled.
async fn by_number(session: &mut ClientSession, runs: &[u64]) -> Result<(), Failure> {
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

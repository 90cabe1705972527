//! `punctual run reschedule`: one run by number, or all one-shots that a filter names, with a count first.

use clap::{ArgGroup, Args};
use punctual_protocol::Span;
use serde_json::{Value, json};

use super::many::Many;
use super::{DueTime, tell_wish, wish};
use crate::failure::Failure;
use crate::job::find::{self, JobReference};
use crate::session::ClientSession;

#[derive(Args)]
#[command(group = ArgGroup::new("when").args(["at", "after", "by"]).required(true))]
pub(super) struct Reschedule {
    /// Its number
    #[arg(conflicts_with_all = ["job", "app", "key", "from", "to", "moved", "unmoved", "by", "dry_run", "yes"])]
    run: Option<u64>,
    /// One-shots of this job: its id, or app/name
    #[arg(long)]
    job: Option<JobReference>,
    /// Of this app
    #[arg(long)]
    app: Option<String>,
    /// With this key
    #[arg(long)]
    key: Option<String>,
    /// From this fire time on (RFC 3339)
    #[arg(long, value_name = "T")]
    from: Option<String>,
    /// Before this fire time (RFC 3339)
    #[arg(long, value_name = "T")]
    to: Option<String>,
    /// Only those that were put off before
    #[arg(long, conflicts_with = "unmoved")]
    moved: bool,
    /// Only those that still wait for their fire time
    #[arg(long)]
    unmoved: bool,
    #[command(flatten)]
    moment: DueTime,
    /// Each by so much; with a - before it, sooner
    #[arg(long, value_name = "SPAN", value_parser = shift, allow_hyphen_values = true)]
    by: Option<String>,
    /// Only say how many they are
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// A duration, forwards or backwards.
fn shift(text: &str) -> Result<String, String> {
    let length = text.strip_prefix('-').unwrap_or(text);
    length.parse::<Span>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl Reschedule {
    pub(super) async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        match self.run {
            Some(run) => {
                let done =
                    session.client.post(wish(run, "reschedule"), json!({"at": self.moment.text()})).await?;
                tell_wish(session, run, &done, "rescheduled")
            }
            None if self.job.is_none() && self.app.is_none() && self.key.is_none() => {
                Err(Failure::usage("which runs? give a number, or --job app/name, --app or --key"))
            }
            None => self.by_filter(session).await,
        }
    }

    async fn by_filter(self, session: &mut ClientSession) -> Result<(), Failure> {
        let job = match &self.job {
            Some(job) => Some(find::id(&session.client, job).await?),
            None => None,
        };
        let moved = (self.moved || self.unmoved).then_some(self.moved);
        let filter = json!({
            "job": job, "app": self.app, "key": self.key, "from": self.from, "to": self.to, "moved": moved,
        });
        let body = json!({"filter": said(filter), "at": self.moment.text(), "by": self.by});
        let many = Many { verb: "reschedule", done: "rescheduled", dry_run: self.dry_run, yes: self.yes };
        many.carry_out(session, &said(body)).await
    }
}

/// The fields that were given.
fn said(mut fields: Value) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_goes_forwards_or_backwards() {
        assert_eq!(shift("1h30m").as_deref(), Ok("1h30m"));
        assert_eq!(shift("-30m").as_deref(), Ok("-30m"));
        for wrong in ["", "-", "--1h", "soon"] {
            assert!(shift(wrong).is_err(), "{wrong}");
        }
    }
}

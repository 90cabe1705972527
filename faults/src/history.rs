//! The recorded history of a campaign: what clients, the agent and, at the end, the cluster itself recorded. The checker
//! knows nothing else.

use serde::{Deserialize, Deserializer, Serialize};

/// Milliseconds since 1970 by the machine's clock, which all parts share.
pub type Millis = i64;

/// All evidence of one campaign.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The jobs that clients created.
    pub jobs: Vec<JobFact>,
    /// The one-shots that clients submitted.
    pub submissions: Vec<Submission>,
    /// What the agent received, in the order of arrival.
    pub receipts: Vec<Receipt>,
    /// Every run in the cluster at the end.
    pub runs: Vec<RunRecord>,
    /// Whether a node was paused, or cut off from its database: only then may it send late what another node has sent
    /// meanwhile.
    pub had_pauses: bool,
    /// Whether a node was killed, paused, or cut off from a database that the others reached: results that it had not
    /// written down may be lost.
    pub had_losses: bool,
    /// Whether a node was paused: what it had decided to send was sent when it went on.
    pub had_holds: bool,
}

/// A job as the client that created it knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobFact {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its schedule; none for a job that only takes one-shots.
    pub every: Option<Every>,
    /// Whether it is sent at most once.
    pub at_most_once: bool,
    /// Whether its runs follow each other.
    pub is_serial: bool,
    /// Whether every instant runs, however late.
    pub fires_all: bool,
    /// When its creation was requested, and answered.
    pub created: (Millis, Millis),
    /// When its stop was requested, and answered.
    pub stopped: Option<(Millis, Millis)>,
}

/// A fixed rate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Every {
    /// One of its fire times.
    pub anchor: Millis,
    /// The time between two fire times.
    pub interval: Millis,
}

impl Every {
    /// Whether this is one of its fire times.
    pub fn names(self, at: Millis) -> bool {
        (at - self.anchor).rem_euclid(self.interval) == 0
    }

    /// Its fire times from `from` to `to`, both included.
    pub fn between(self, from: Millis, to: Millis) -> impl Iterator<Item = Millis> {
        let first = from + (self.anchor - from).rem_euclid(self.interval);
        (0..).map(move |n| first + n * self.interval).take_while(move |at| *at <= to)
    }
}

/// A one-shot that a client submitted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// The idempotency key.
    pub key: String,
    /// Its job.
    pub job: u64,
    /// The due time.
    pub at: Millis,
    /// The id in the answer; none without an answer, and then the run may exist or not.
    pub id: Option<u64>,
}

/// A request that the agent received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Receipt {
    pub run: u64,
    pub job: u64,
    pub fire_time: Millis,
    pub attempt: u32,
    pub token: u64,
    pub possible_duplicate: bool,
    pub received_at: Millis,
    /// Whether the agent had seen a greater token for this run, and refused the request.
    pub is_refused: bool,
    /// When the agent finished the work.
    pub done_at: Option<Millis>,
}

/// A run as the cluster shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: u64,
    pub job: u64,
    #[serde(deserialize_with = "time")]
    pub fire_time: Millis,
    pub origin: String,
    pub state: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub possible_duplicate: bool,
    /// How late its first certain attempt began.
    #[serde(default)]
    pub lag_ms: Option<Millis>,
    #[serde(default)]
    pub key: Option<String>,
    /// For a record of several instants: their number.
    #[serde(default)]
    pub count: Option<u64>,
    /// For a record of several instants: the last of them.
    #[serde(default, deserialize_with = "maybe_time")]
    pub until: Option<Millis>,
    #[serde(default)]
    pub attempts: Vec<AttemptRecord>,
}

/// An attempt as the cluster shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttemptRecord {
    pub number: u32,
    #[serde(deserialize_with = "time")]
    pub started_at: Millis,
    #[serde(default, deserialize_with = "maybe_time")]
    pub ended_at: Option<Millis>,
    #[serde(default)]
    pub outcome: Option<String>,
    #[serde(default)]
    pub possible_duplicate: bool,
    /// Whether it is unknown if it was sent.
    #[serde(default)]
    pub supposed: bool,
}

impl RunRecord {
    /// Whether it has neither ended nor been skipped.
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "pending" | "running" | "retrying")
    }

    /// Whether it was skipped.
    pub fn is_skipped(&self) -> bool {
        self.state == "skipped"
    }

    /// The last instant that the record stands for.
    pub fn last(&self) -> Millis {
        self.until.unwrap_or(self.fire_time)
    }

    /// The attempt of this number.
    pub fn attempt(&self, number: u32) -> Option<&AttemptRecord> {
        self.attempts.iter().find(|attempt| attempt.number == number)
    }
}

/// Parses a time of the API.
pub fn millis(text: &str) -> Option<Millis> {
    text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond())
}

/// Formats a time for the API.
pub fn text(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map(|time| format!("{time:.3}")).unwrap_or_default()
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Millis, D::Error> {
    maybe_time(from)?.ok_or_else(|| serde::de::Error::custom("expected a time"))
}

fn maybe_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Millis>, D::Error> {
    let told = Option::<String>::deserialize(from)?;
    let read = |told: String| {
        millis(&told).ok_or_else(|| serde::de::Error::custom(format!("{told:?} is not a time")))
    };
    told.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_rate_names_its_instants_before_and_after_the_anchor() {
        let every = Every { anchor: 10_250, interval: 1_000 };
        assert_eq!(every.between(8_000, 11_250).collect::<Vec<_>>(), [8_250, 9_250, 10_250, 11_250]);
        assert!(every.names(250) && every.names(99_250) && !every.names(99_251));
        assert_eq!(every.between(11_251, 12_249).count(), 0);
    }

    #[test]
    fn a_run_is_read_as_the_api_shows_it() {
        let shown = r#"{"id": 7, "job": 3, "fire_time": "2026-03-01T10:00:00.500Z", "origin": "schedule",
            "state": "skipped", "reason": "misfire: coalesced", "lag_ms": null, "count": 3,
            "until": "2026-03-01T10:00:02.500Z", "attempts": []}"#;
        let run: RunRecord = serde_json::from_str(shown).expect("a run");
        assert_eq!((run.last() - run.fire_time, run.count), (2_000, Some(3)));
        assert_eq!(text(run.fire_time), "2026-03-01T10:00:00.500Z");
    }
}

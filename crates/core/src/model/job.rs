//! Jobs: what people define once and keep.

use std::fmt;
use std::time::Duration;

use calendar::{Exclusions, Outside, Rule, Timestamp, Window, Zones};

use super::names::names;
use super::{FlowControl, JobId, Origin, Outcome, Schedule, Text};
use crate::policy::{Block, Misfire, Retry, Route, jitter};

/// The longest payload or body that is kept and sent.
pub const PAYLOAD_MAX: usize = 1 << 20;

/// A job as people write it and as it is kept. Anything can stand in a row, so what it means, and whether it
/// means anything, [`Job::compile`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The group of executors, or any name that jobs are grouped by.
    pub app: String,
    /// Unique within the app.
    pub name: String,
    /// For people.
    pub description: String,
    /// For people to filter by.
    pub tags: Vec<String>,
    /// When.
    pub schedule: Schedule,
    /// Where.
    pub target: Target,
    /// What becomes of missed instants.
    pub misfire: Misfire,
    /// How often it is tried.
    pub retry: Retry,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// How often an attempt may arrive.
    pub delivery: Delivery,
    /// 0 goes first, 9 last.
    pub priority: u8,
    /// What becomes of runs that meet.
    pub block: Block,
    /// When it is allowed to run at all.
    pub windows: Vec<WindowSpec>,
    /// Jobs whose end starts this one.
    pub after: Vec<Child>,
    /// How many failed runs in a row stop it; 0 means never.
    pub failure_limit: u32,
    /// How its runs share what they use with runs of other jobs.
    pub flow: FlowControl,
}

/// Hours of some days, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSpec {
    /// Such as `mon-fri`.
    pub days: String,
    /// Such as `09:00-17:00`.
    pub hours: String,
    /// The zone's IANA name.
    pub zone: String,
    /// What becomes of instants outside.
    pub outside: Outside,
}

/// Where a job's work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An HTTP endpoint.
    Http(Http),
    /// A handler of the app's executors.
    Executor(Executor),
}

/// What executors are asked to do, and which of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executor {
    /// The name of the handler; empty for a script.
    pub handler: String,
    /// What the handler gets when the run brings no payload, as JSON: a string goes out as plain text, anything else as it
    /// is.
    pub params: Option<String>,
    /// Which executor of the app.
    pub route: Route,
    /// The script that is sent along instead of naming a handler.
    pub glue: Option<Glue>,
}

impl Executor {
    /// A handler of any executor, each in its turn.
    pub fn of(handler: impl Into<String>) -> Executor {
        Executor { handler: handler.into(), params: None, route: Route::default(), glue: None }
    }
}

/// A script that travels with the run. XXL-JOB calls it GLUE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glue {
    /// What runs it.
    pub kind: GlueKind,
    /// Its text.
    pub source: String,
    /// What its author says about this version.
    pub remark: String,
    /// When kind or source last changed. Executors compare it for equality, so it changes with them and never else.
    pub changed_at: Timestamp,
}

/// What runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GlueKind {
    /// Java source, compiled by the executor.
    Groovy,
    /// bash.
    Shell,
    /// Python 3.
    Python,
    /// Python 2.
    Python2,
    /// node.
    NodeJs,
    /// PowerShell.
    PowerShell,
    /// PHP.
    Php,
}

names!(
    GlueKind,
    "script kind",
    Groovy = "groovy",
    Shell = "shell",
    Python = "python",
    Python2 = "python2",
    NodeJs = "nodejs",
    PowerShell = "powershell",
    Php = "php",
);

/// A request to an HTTP agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Such as `POST`.
    pub method: String,
    /// The whole address.
    pub url: String,
    /// Beyond those that we add.
    pub headers: Vec<(String, String)>,
    /// What is sent when the run brings no payload, as JSON: a string goes out as plain text, anything else as it is.
    pub body: Option<String>,
    /// Answers that count as success; any 2xx if there are none.
    pub success_codes: Vec<u16>,
    /// Whether a redirect is followed, and its target guarded like the first one.
    pub follows_redirects: bool,
    /// What requests are signed with, as `whsec_` and base64.
    pub signing_secret: Option<String>,
}

impl Http {
    /// A plain POST.
    pub fn post(url: impl Into<String>) -> Http {
        Http {
            method: "POST".into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            success_codes: Vec::new(),
            follows_redirects: false,
            signing_secret: None,
        }
    }
}

/// How often an attempt may arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// Once or more: what may have been lost is sent again.
    #[default]
    AtLeastOnce,
    /// Once or not at all: what may have arrived is never sent again.
    AtMostOnce,
}

names!(Delivery, "delivery", AtLeastOnce = "at_least_once", AtMostOnce = "at_most_once");

/// Which ends of the other job count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// It succeeded.
    Succeeded,
    /// It failed, or it is not known how it ended.
    Failed,
    /// It ended, whatever the outcome.
    Ended,
}

names!(When, "when", Succeeded = "succeeded", Failed = "failed", Ended = "ended");

impl When {
    /// Whether an outcome counts. A run that was never begun brings nothing about.
    pub fn holds(self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Succeeded => self != When::Failed,
            Outcome::Failed | Outcome::Lost => self != When::Succeeded,
            Outcome::Cancelled | Outcome::Skipped => false,
        }
    }
}

/// A bond between two jobs, seen from either end: the other job, and which of the parent's ends count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Child {
    /// The other job: the parent in [`Definition::after`], the child in [`Job::children`].
    pub job: JobId,
    /// Which ends of the parent start the child.
    pub when: When,
}

/// Why a job does not fire by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoppedReason {
    /// A person stopped it.
    Asked,
    /// Its app was paused; it goes on when the app is resumed.
    AppPaused,
    /// Its schedule names no further instant.
    Finished,
    /// It failed too often in a row.
    FailureLimit,
    /// Its agent said that it is gone for good.
    Gone,
    /// Its row cannot be understood.
    Quarantined(Text),
}

impl StoppedReason {
    /// Reads what [`fmt::Display`] wrote.
    pub fn from_text(text: &str) -> StoppedReason {
        match text {
            "app paused" => StoppedReason::AppPaused,
            "no further fire time" => StoppedReason::Finished,
            "failure limit" => StoppedReason::FailureLimit,
            "the agent answered 410 Gone" => StoppedReason::Gone,
            _ => match text.strip_prefix("quarantined: ") {
                Some(reason) => StoppedReason::Quarantined(reason.to_owned().into()),
                None => StoppedReason::Asked,
            },
        }
    }
}

impl fmt::Display for StoppedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoppedReason::Asked => f.write_str("asked"),
            StoppedReason::AppPaused => f.write_str("app paused"),
            StoppedReason::Finished => f.write_str("no further fire time"),
            StoppedReason::FailureLimit => f.write_str("failure limit"),
            StoppedReason::Gone => f.write_str("the agent answered 410 Gone"),
            StoppedReason::Quarantined(reason) => write!(f, "quarantined: {reason}"),
        }
    }
}

/// Whether a job fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// By itself.
    Enabled,
    /// Only when told to.
    Stopped(StoppedReason),
    /// Never again.
    Deleted,
}

/// What can happen to a job's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobMove {
    /// It fires again.
    Start,
    /// It fires again, if it was the pause of its app that stopped it.
    Resume,
    /// It stops firing.
    Stop(StoppedReason),
    /// It goes.
    Delete,
}

impl JobState {
    /// The state after a move; nothing if the move is illegal, which only a deleted job's are.
    pub fn after(&self, asked: JobMove) -> Option<JobState> {
        match (self, asked) {
            (JobState::Deleted, _) => None,
            (_, JobMove::Start) => Some(JobState::Enabled),
            (JobState::Stopped(StoppedReason::AppPaused), JobMove::Resume) => Some(JobState::Enabled),
            (stays, JobMove::Resume) => Some(stays.clone()),
            // People want to know who stopped it first, except that a person's word stands over ours.
            (JobState::Stopped(first), JobMove::Stop(reason)) if reason != StoppedReason::Asked => {
                Some(JobState::Stopped(first.clone()))
            }
            (_, JobMove::Stop(reason)) => Some(JobState::Stopped(reason)),
            (_, JobMove::Delete) => Some(JobState::Deleted),
        }
    }

    /// Whether it fires by itself.
    pub fn is_enabled(&self) -> bool {
        *self == JobState::Enabled
    }

    /// Whether the pause of its app keeps it from firing.
    pub fn is_paused(&self) -> bool {
        *self == JobState::Stopped(StoppedReason::AppPaused)
    }
}

/// Something in a definition that means nothing, with the place of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poison {
    /// A JSON pointer into the job as people write it.
    pub pointer: &'static str,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl Poison {
    /// What is wrong at a place.
    pub fn new(pointer: &'static str, reason: &dyn fmt::Display) -> Poison {
        Poison { pointer, reason: reason.to_string() }
    }
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pointer, self.reason)
    }
}

impl std::error::Error for Poison {}

/// A job ready to be asked: its definition, understood.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its identity.
    pub id: JobId,
    /// Grows with every change of definition or state.
    pub version: u64,
    /// When that was.
    pub changed_at: Timestamp,
    /// Whether it fires.
    pub state: JobState,
    /// What people wrote.
    pub definition: Definition,
    /// The schedule, understood.
    pub rule: Rule,
    /// The windows, understood.
    pub exclusions: Exclusions,
    /// Jobs that its end starts.
    pub children: Vec<Child>,
}

impl Job {
    /// The version of a job that was made and never changed.
    pub const FIRST_VERSION: u64 = 1;

    /// Understands a definition, or says what is wrong with it.
    pub fn compile(
        id: JobId,
        version: u64,
        changed_at: Timestamp,
        state: JobState,
        definition: Definition,
        children: Vec<Child>,
        zones: &Zones,
    ) -> Result<Job, Poison> {
        definition.check()?;
        let seed = format!("{}/{}", definition.app, definition.name);
        let rule = definition.schedule.compile(zones, &seed)?;
        let exclusions = definition.exclusions(zones)?;
        Ok(Job { id, version, changed_at, state, definition, rule, exclusions, children })
    }

    /// Whether it was never changed since it was made, so that no node ever knew it otherwise.
    pub fn is_as_made(&self) -> bool {
        self.version == Job::FIRST_VERSION
    }

    /// Whether an attempt is written down before it is sent, as far as the job can say. Attempts for executors are,
    /// because executors report later, to whichever node they reach, and by the number of the gate; executors with a
    /// session need no number.
    pub fn is_gated(&self) -> bool {
        self.executor().is_some() || self.must_be_gated()
    }

    /// Whether an attempt is written down before it is sent, whichever executor or agent gets it.
    pub fn must_be_gated(&self) -> bool {
        self.definition.delivery == Delivery::AtMostOnce
            || self.is_limited()
            || !self.definition.flow.exclusive.is_empty()
    }

    /// When a run for a fire time is due: after a delay that is always the same.
    pub fn due(&self, fire_time: Timestamp) -> Timestamp {
        let jitter = self.definition.flow.jitter;
        match jitter.is_zero() {
            true => fire_time,
            false => fire_time.saturating_add(jitter::delay(self.id, fire_time, jitter)),
        }
    }

    /// What it asks of executors, if it is for them.
    pub fn executor(&self) -> Option<&Executor> {
        match &self.definition.target {
            Target::Executor(executor) => Some(executor),
            Target::Http(_) => None,
        }
    }

    /// Whether each of its runs goes to every executor of the app, in parts.
    pub fn is_broadcast(&self) -> bool {
        self.executor().is_some_and(|executor| executor.route == Route::ShardingBroadcast)
    }

    /// Whether its runs must be counted, and so live on one shard.
    pub fn is_limited(&self) -> bool {
        self.definition.block != Block::Concurrent(None)
    }

    /// Whether calendar arithmetic is needed to say what it wants done with a run.
    pub fn needs_calendar(&self, origin: Origin) -> bool {
        origin == Origin::Schedule
            || !self.exclusions.windows.is_empty()
            || self.exclusions.calendar.is_some()
    }

    /// Whether the schedule names this instant. A fixed delay counts from ends that only the runs know; every
    /// change of the job starts it anew, so what it named before the last change is no longer named.
    pub fn names(&self, fire_time: Timestamp) -> bool {
        if self.definition.schedule.is_delay() {
            return self.rule.next_after(self.changed_at).is_some_and(|first| first <= fire_time);
        }
        let just_before = Timestamp::from_millis(fire_time.as_millis().saturating_sub(1));
        self.rule.next_after(just_before) == Some(fire_time)
    }
}

impl Definition {
    fn check(&self) -> Result<(), Poison> {
        let texts = match &self.target {
            Target::Http(http) => [("/target/body", http.body.as_deref()), ("", None)],
            Target::Executor(executor) => [
                ("/target/params", executor.params.as_deref()),
                ("/target/glue/source", executor.glue.as_ref().map(|glue| glue.source.as_str())),
            ],
        };
        for (pointer, text) in texts {
            let length = text.map_or(0, str::len);
            if length > PAYLOAD_MAX {
                let said = format!("{length} bytes: at most {PAYLOAD_MAX} are sent");
                return Err(Poison::new(pointer, &said));
            }
        }
        if self.priority > 9 {
            return Err(Poison::new("/priority", &format!("{}: expected 0 to 9", self.priority)));
        }
        if self.timeout.is_zero() {
            return Err(Poison::new("/timeout", &"0: an attempt needs some time"));
        }
        self.flow.check()
    }

    fn exclusions(&self, zones: &Zones) -> Result<Exclusions, Poison> {
        let poison = |error: &dyn fmt::Display| Poison::new("/windows", error);
        let window = |spec: &WindowSpec| {
            let zone = zones.get(&spec.zone).map_err(|e| poison(&e))?;
            Window::parse(&spec.days, &spec.hours, zone, spec.outside).map_err(|e| poison(&e))
        };
        let windows = self.windows.iter().map(window).collect::<Result<_, _>>()?;
        Ok(Exclusions { windows, ..Exclusions::default() })
    }
}

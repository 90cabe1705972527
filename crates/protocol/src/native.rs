//! The native executor protocol of `docs/protocol/executor.md`: the messages of both sides and their limits. The SDK and
//! the node share it; nothing here waits or connects.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// The path of the WebSocket.
pub const PATH: &str = "/api/v1/executors/connect";

/// The longest message, in bytes.
pub const FRAME_MAX: usize = 4 << 20;

/// The most runs in a message.
pub const RUNS_MAX: usize = 500;

/// The most reports in a message.
pub const REPORTS_MAX: usize = 1_000;

/// The most handlers of an executor.
pub const HANDLERS_MAX: usize = 20_000;

/// The most runs that an executor may hold.
pub const HOLDS_MAX: usize = 50_000;

/// The most lines in a message.
pub const LINES_MAX: usize = 10_000;

/// The longest name of an executor or a handler, in characters.
pub const NAME_MAX: usize = 200;

/// The longest name of an app, in characters.
pub const APP_MAX: usize = 128;

/// The greatest integer that every client reads exactly, also one that reads numbers as floats.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The most credits that are given at once, and the largest capacity.
pub const CREDITS_MAX: u32 = 40_000;

/// The identity of an attempt on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Held {
    /// The run.
    pub run: u64,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The fencing token, by which an older send of the same run can be refused.
    pub token: u64,
}

impl Held {
    fn check(&self) -> Result<(), String> {
        within("run", self.run, 0, NUMBER_MAX)?;
        within("attempt", u64::from(self.attempt), 1, u64::from(u32::MAX))?;
        within("token", self.token, 0, NUMBER_MAX)
    }
}

/// A message from an executor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromExecutor {
    /// The first message: the executor introduces itself.
    Hello(Hello),
    /// More credits.
    Credit(Credit),
    /// Ends of attempts.
    Reports(Reports),
    /// Log lines of an attempt.
    Log(Log),
    /// Progress of an attempt.
    Progress(Progress),
    /// The executor takes no more runs.
    Drain,
    /// The executor leaves; the attempts that it holds are lost.
    Goodbye,
    /// The session ends with an error.
    Error(Refusal),
    /// A type that this version does not know.
    Unknown,
}

/// More credits for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// Number of new credits.
    pub more: u32,
}

/// Ends of attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    /// The reports.
    pub reports: Vec<Report>,
    /// Number of new credits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub credits: u32,
}

/// Log lines of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// The run.
    pub run: u64,
    /// The attempt's number.
    pub attempt: u32,
    /// The number of the first of the lines, from 1.
    pub from: u64,
    /// The lines, without line ends.
    pub lines: Vec<String>,
}

/// Progress of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The run.
    pub run: u64,
    /// The attempt's number.
    pub attempt: u32,
    /// Per cent, 0 to 100.
    pub percent: u8,
    /// A note for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The first message of an executor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that it speaks.
    pub version: u32,
    /// The app that it belongs to.
    pub app: String,
    /// Its name, for people.
    pub executor: String,
    /// A random id of its process.
    pub instance: String,
    /// The handlers that it offers; any handler if empty.
    #[serde(default)]
    pub handlers: Vec<String>,
    /// How many runs it takes at once, from all nodes together.
    pub capacity: u32,
    /// The client library and its version.
    #[serde(default)]
    pub client: String,
    /// The attempts that it holds: those whose report no node has kept.
    #[serde(default)]
    pub holds: Vec<Held>,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The run.
    pub run: u64,
    /// The attempt's number.
    pub attempt: u32,
    /// The token that it was sent with.
    pub token: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// The result, or what went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the handler began; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// How long before this message the attempt ended, in milliseconds; none if it ended just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms_ago: Option<u64>,
    /// Whether another attempt may help.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub retry: bool,
}

impl Report {
    /// The identity of the attempt.
    pub fn held(&self) -> Held {
        Held { run: self.run, attempt: self.attempt, token: self.token }
    }

    fn check(&self) -> Result<(), String> {
        self.held().check()?;
        within("ended_ms_ago", self.ended_ms_ago.unwrap_or(0), 0, NUMBER_MAX)
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The handler succeeded.
    Succeeded,
    /// The handler failed or panicked.
    Failed,
    /// It took too long.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// It was never started.
    Refused,
}

/// A message from a node.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromNode<'a> {
    /// The session is open.
    Welcome(Welcome),
    /// Runs to start.
    Runs(Runs<'a>),
    /// Reports that are written to disk.
    Kept(Kept),
    /// Attempts that should end.
    Cancel(Cancels),
    /// Runs wait for credits.
    Want(Want),
    /// The list of nodes has changed.
    Nodes(Nodes),
    /// The node stops.
    Goodbye(Goodbye),
    /// The session ends with an error.
    Error(Refusal),
    /// A type that this version does not know.
    Unknown,
}

/// Runs to start. Each uses up a credit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Runs<'a> {
    /// The runs, in the order in which they should start.
    #[serde(borrow)]
    pub runs: Vec<Run<'a>>,
}

/// Reports that are written to disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The attempts that were reported.
    pub reports: Vec<Held>,
}

/// Attempts that should end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancels {
    /// The attempts.
    pub runs: Vec<Cancel>,
}

/// Runs wait for credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// Number of waiting runs.
    pub runs: u64,
}

/// The list of nodes has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// The addresses of all nodes.
    pub nodes: Vec<String>,
}

/// The node stops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// The reason.
    #[serde(default)]
    pub reason: String,
}

/// The first message of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that is spoken.
    pub version: u32,
    /// The node's name.
    #[serde(default)]
    pub node: String,
    /// The interval of its pings.
    pub ping_ms: u64,
    /// The silence after which a session ends.
    pub silence_ms: u64,
    /// How long after a break a session can be resumed.
    pub resume_ms: u64,
    /// The longest message that it reads, in bytes.
    pub frame_max: u64,
    /// The addresses of all nodes.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Of the attempts in the hello, those that are no longer current.
    #[serde(default)]
    pub stale: Vec<Held>,
}

/// A run to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run<'a> {
    /// The run.
    pub run: u64,
    /// Its job.
    pub job: u32,
    /// The job's name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The handler.
    #[serde(borrow)]
    pub handler: Cow<'a, str>,
    /// The fire time; RFC 3339.
    #[serde(borrow)]
    pub fire_time: Cow<'a, str>,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The fencing token: greater than that of any earlier send of the run.
    pub token: u64,
    /// How long it may take, in milliseconds; 0 for any.
    pub timeout_ms: u64,
    /// The payload.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// Whether an earlier send of it may have arrived.
    #[serde(default, skip_serializing_if = "is_false")]
    pub possible_duplicate: bool,
    /// The part of a broadcast that it is, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

impl Run<'_> {
    /// The identity of the attempt.
    pub fn held(&self) -> Held {
        Held { run: self.run, attempt: self.attempt, token: self.token }
    }
}

/// A part of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number, from 0.
    pub index: u32,
    /// Number of parts.
    pub total: u32,
}

/// An attempt that should end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// The run.
    pub run: u64,
    /// The attempt's number.
    pub attempt: u32,
    /// The fencing token.
    pub token: u64,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason, for programs.
    pub code: Code,
    /// The reason, for people.
    pub reason: String,
}

/// Why a session ends, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The version is not known.
    Version,
    /// A message is invalid or out of order.
    Malformed,
    /// A message was too long.
    TooLarge,
    /// The token does not reach this app.
    Refused,
    /// Another session of the same instance was opened.
    Replaced,
    /// The other side did not read fast enough.
    TooSlow,
    /// The node cannot serve executors now.
    Unavailable,
    /// A type that this version does not know.
    #[serde(other)]
    Other,
}

impl Refusal {
    /// The refusal of an invalid message.
    pub fn malformed(reason: impl Into<String>) -> Refusal {
        Refusal { code: Code::Malformed, reason: reason.into() }
    }
}

impl FromExecutor {
    /// Reads a message of an executor, and refuses what breaks the limits.
    pub fn read(text: &str) -> Result<FromExecutor, Refusal> {
        let said = match kind(text)?.as_ref() {
            "hello" => FromExecutor::Hello(of(text)?),
            "credit" => FromExecutor::Credit(of(text)?),
            "reports" => FromExecutor::Reports(of(text)?),
            "log" => FromExecutor::Log(of(text)?),
            "progress" => FromExecutor::Progress(of(text)?),
            "drain" => FromExecutor::Drain,
            "goodbye" => FromExecutor::Goodbye,
            "error" => FromExecutor::Error(of(text)?),
            _ => FromExecutor::Unknown,
        };
        said.check().map_err(Refusal::malformed)?;
        Ok(said)
    }

    fn check(&self) -> Result<(), String> {
        match self {
            FromExecutor::Hello(hello) => hello.check(),
            FromExecutor::Credit(Credit { more }) => {
                within("more", u64::from(*more), 1, u64::from(CREDITS_MAX))
            }
            FromExecutor::Reports(Reports { reports, credits }) => {
                within("reports", reports.len() as u64, 1, REPORTS_MAX as u64)?;
                within("credits", u64::from(*credits), 0, u64::from(CREDITS_MAX))?;
                reports.iter().try_for_each(Report::check)
            }
            FromExecutor::Log(Log { run, attempt, from, lines }) => {
                Held { run: *run, attempt: *attempt, token: 0 }.check()?;
                within("from", *from, 1, NUMBER_MAX)?;
                within("lines", lines.len() as u64, 1, LINES_MAX as u64)
            }
            FromExecutor::Progress(Progress { run, attempt, percent, .. }) => {
                Held { run: *run, attempt: *attempt, token: 0 }.check()?;
                within("percent", u64::from(*percent), 0, 100)
            }
            _ => Ok(()),
        }
    }
}

impl<'a> FromNode<'a> {
    /// Reads a message of a node.
    pub fn read(text: &'a str) -> Result<FromNode<'a>, Refusal> {
        Ok(match kind(text)?.as_ref() {
            "welcome" => FromNode::Welcome(of(text)?),
            "runs" => FromNode::Runs(of(text)?),
            "kept" => FromNode::Kept(of(text)?),
            "cancel" => FromNode::Cancel(of(text)?),
            "want" => FromNode::Want(of(text)?),
            "nodes" => FromNode::Nodes(of(text)?),
            "goodbye" => FromNode::Goodbye(of(text)?),
            "error" => FromNode::Error(of(text)?),
            _ => FromNode::Unknown,
        })
    }
}

/// The type of a message. It is read on its own, because reading a tagged enum would parse payloads, which have to stay
/// the text that they are.
fn kind(text: &str) -> Result<Cow<'_, str>, Refusal> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    if text.len() > FRAME_MAX {
        let reason = format!("a message of {} bytes; at most {FRAME_MAX} are read", text.len());
        return Err(Refusal { code: Code::TooLarge, reason });
    }
    of(text).map(|Typed { kind }| kind)
}

fn of<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Refusal> {
    serde_json::from_str(text).map_err(|error| Refusal::malformed(error.to_string()))
}

impl Hello {
    /// The executor's address in the registry.
    pub fn address(&self) -> String {
        format!("native:{}/{}", self.executor, self.instance)
    }

    fn check(&self) -> Result<(), String> {
        is_app("app", &self.app)?;
        is_word("executor", &self.executor, NAME_MAX)?;
        is_word("instance", &self.instance, 64)?;
        within("handlers", self.handlers.len() as u64, 0, HANDLERS_MAX as u64)?;
        within("capacity", u64::from(self.capacity), 1, u64::from(CREDITS_MAX))?;
        within("holds", self.holds.len() as u64, 0, HOLDS_MAX as u64)?;
        self.holds.iter().try_for_each(Held::check)?;
        self.handlers.iter().try_for_each(|handler| is_text("handlers", handler))
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    let is_within = (least..=most).contains(&value);
    is_within.then_some(()).ok_or_else(|| format!("{name}: {value}, expected {least} to {most}"))
}

fn is_text(name: &str, text: &str) -> Result<(), String> {
    let is_fit = (1..=NAME_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    is_fit
        .then_some(())
        .ok_or_else(|| format!("{name}: expected 1 to {NAME_MAX} characters, none of control"))
}

fn is_app(name: &str, text: &str) -> Result<(), String> {
    is_text(name, text)?;
    within(name, text.chars().count() as u64, 1, APP_MAX as u64)?;
    if text.contains('/') { Err(format!("{name}: has a `/`")) } else { Ok(()) }
}

fn is_word(name: &str, text: &str, most: usize) -> Result<(), String> {
    let is_in = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_fit = (1..=most).contains(&text.len()) && text.chars().all(is_in);
    is_fit
        .then_some(())
        .ok_or_else(|| format!("{name}: expected 1 to {most} letters, digits, `.`, `_` or `-`"))
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> FromExecutor {
        FromExecutor::read(text).unwrap()
    }

    fn refused(text: &str) -> Refusal {
        FromExecutor::read(text).unwrap_err()
    }

    const HELLO: &str = r#"{"type":"hello","version":1,"app":"reports","executor":"worker-7","instance":"5f0c","capacity":9}"#;

    #[test]
    fn what_an_executor_says_is_read_as_it_was_written() {
        let report = Report {
            run: 7,
            attempt: 1,
            token: 1_048_577,
            outcome: Outcome::TimedOut,
            message: "late".into(),
            started_at: None,
            ended_ms_ago: Some(2_000),
            retry: false,
        };
        for one in [
            said(HELLO),
            FromExecutor::Credit(Credit { more: 50 }),
            FromExecutor::Reports(Reports { reports: vec![report], credits: 2 }),
            FromExecutor::Log(Log { run: 7, attempt: 1, from: 1, lines: vec!["a".into()] }),
            FromExecutor::Progress(Progress { run: 7, attempt: 1, percent: 40, note: String::new() }),
            FromExecutor::Drain,
            FromExecutor::Goodbye,
        ] {
            assert_eq!(said(&serde_json::to_string(&one).unwrap()), one);
        }
    }

    #[test]
    fn a_type_and_fields_that_are_newer_are_ignored() {
        assert_eq!(said(r#"{"type":"sing","song":1}"#), FromExecutor::Unknown);
        assert_eq!(
            said(r#"{"type":"credit","more":1,"colour":"red"}"#),
            said(r#"{"more":1,"type":"credit"}"#)
        );
        assert!(matches!(FromNode::read(r#"{"type":"sing"}"#), Ok(FromNode::Unknown)));
        let error = FromNode::read(r#"{"type":"error","code":"hungry","reason":"r"}"#).unwrap();
        assert!(matches!(error, FromNode::Error(Refusal { code: Code::Other, .. })));
    }

    #[test]
    fn what_breaks_a_limit_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "EOF"),
            ("[]", "invalid"),
            ("{}", "type"),
            (r#"{"type":7}"#, "string"),
            (r#"{"type":"credit"}"#, "more"),
            (r#"{"type":"credit","more":0}"#, "more: 0, expected 1 to 40000"),
            (r#"{"type":"credit","more":-1}"#, "-1"),
            (r#"{"type":"reports","reports":[]}"#, "reports: 0"),
            (r#"{"type":"progress","run":1,"attempt":1,"percent":101}"#, "percent: 101"),
            (r#"{"type":"log","run":1,"attempt":1,"from":0,"lines":["a"]}"#, "from: 0"),
            (
                r#"{"type":"log","run":9007199254740992,"attempt":1,"from":1,"lines":["a"]}"#,
                "run: 9007199254740992",
            ),
            (r#"{"type":"log","run":1,"attempt":0,"from":1,"lines":["a"]}"#, "attempt: 0"),
            (
                r#"{"type":"progress","run":9007199254740992,"attempt":1,"percent":1}"#,
                "run: 9007199254740992",
            ),
            (
                r#"{"type":"reports","reports":[{"run":1,"attempt":1,"token":9007199254740992,"outcome":"failed"}]}"#,
                "token: 9007199254740992, expected 0 to 9007199254740991",
            ),
            (
                r#"{"type":"reports","reports":[{"run":1,"attempt":1,"token":1,"outcome":"failed","ended_ms_ago":9007199254740992}]}"#,
                "ended_ms_ago: 9007199254740992",
            ),
        ] {
            let refusal = refused(text);
            assert!(
                refusal.code == Code::Malformed && refusal.reason.contains(reason),
                "{text}: {refusal:?}"
            );
        }
        let long = "a".repeat(APP_MAX + 1);
        for (field, value) in
            [("app", "a/b"), ("app", ""), ("app", long.as_str()), ("executor", "a b"), ("instance", "")]
        {
            let mut hello: serde_json::Value = serde_json::from_str(HELLO).unwrap();
            hello[field] = value.into();
            assert!(refused(&hello.to_string()).reason.starts_with(field), "{field}");
        }
        for held in [(1_u64 << 53, 1, 1), (1, 0, 1), (1, 1, u64::MAX)] {
            let mut hello: serde_json::Value = serde_json::from_str(HELLO).unwrap();
            hello["holds"] = serde_json::json!([{"run": held.0, "attempt": held.1, "token": held.2}]);
            assert!(refused(&hello.to_string()).reason.contains("expected"), "{held:?}");
        }
        let long = format!(r#"{{"type":"sing","song":"{}"}}"#, "a".repeat(FRAME_MAX));
        assert_eq!(refused(&long).code, Code::TooLarge);
    }

    #[test]
    fn what_a_run_brings_stays_the_text_that_it_is() {
        let text = r#"{"type":"runs","runs":[{"run":7,"job":1,"name":"n","handler":"h","fire_time":"2026-11-15T09:00:00.000Z","attempt":1,"token":9,"timeout_ms":5,"payload":{"a": 123456789012345678901234567890}}]}"#;
        let FromNode::Runs(Runs { runs }) = FromNode::read(text).unwrap() else { panic!() };
        assert_eq!(runs[0].payload.unwrap().get(), r#"{"a": 123456789012345678901234567890}"#);
        assert_eq!(serde_json::to_string(&FromNode::Runs(Runs { runs })).unwrap(), text);
    }
}

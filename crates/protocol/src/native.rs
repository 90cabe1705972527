//! The native executor protocol, as `docs/protocol/executor.md` specifies it: the messages of both sides, and what makes
//! one malformed. Nothing here waits or connects; the SDK and the node share it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version that is spoken here.
pub const VERSION: u32 = 1;

/// Where executors connect.
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

/// The longest name of an app, in characters: as everywhere else.
pub const APP_MAX: usize = 128;

/// The greatest number that every client reads as it was written.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The most credits that are given at once, and the largest capacity.
pub const CREDITS_MAX: u32 = 40_000;

/// An attempt of a run, by what names it on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Held {
    /// The run.
    pub run: u64,
    /// Which try, from 1.
    pub attempt: u32,
    /// What makes an older send of the same run refusable.
    pub token: u64,
}

impl Held {
    fn check(&self) -> Result<(), String> {
        within("run", self.run, 0, NUMBER_MAX)?;
        within("attempt", u64::from(self.attempt), 1, u64::from(u32::MAX))?;
        within("token", self.token, 0, NUMBER_MAX)
    }
}

/// What an executor says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromExecutor {
    /// Who it is. The first message.
    Hello(Hello),
    /// It takes more.
    Credit(Credit),
    /// How attempts ended.
    Reports(Reports),
    /// What an attempt wrote.
    Log(Log),
    /// How far an attempt is.
    Progress(Progress),
    /// It takes nothing more.
    Drain,
    /// It goes; what it holds is lost.
    Goodbye,
    /// Why it ends the session.
    Error(Refusal),
    /// Something newer than this.
    Unknown,
}

/// An executor takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// How many more.
    pub more: u32,
}

/// How attempts ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    /// Each.
    pub reports: Vec<Report>,
    /// How many more the executor takes now.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub credits: u32,
}

/// What an attempt wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// The run.
    pub run: u64,
    /// Which try.
    pub attempt: u32,
    /// The number of the first of the lines, from 1.
    pub from: u64,
    /// The lines, without their ends.
    pub lines: Vec<String>,
}

/// How far an attempt is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The run.
    pub run: u64,
    /// Which try.
    pub attempt: u32,
    /// 0 to 100.
    pub percent: u8,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What an executor says first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that it speaks.
    pub version: u32,
    /// The app that it belongs to.
    pub app: String,
    /// Its name, for people.
    pub executor: String,
    /// Drawn when its process started.
    pub instance: String,
    /// What it offers; anything, if empty.
    #[serde(default)]
    pub handlers: Vec<String>,
    /// How many runs it takes at once, from all nodes together.
    pub capacity: u32,
    /// What it is written with.
    #[serde(default)]
    pub client: String,
    /// What it was given and has not reported.
    #[serde(default)]
    pub holds: Vec<Held>,
}

/// How an attempt ended, as its executor says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The run.
    pub run: u64,
    /// Which try.
    pub attempt: u32,
    /// The token that it was sent with.
    pub token: u64,
    /// How.
    pub outcome: Outcome,
    /// The result, or what went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the handler began; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Whether another attempt may help.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub retry: bool,
}

impl Report {
    /// The attempt that it is about.
    pub fn held(&self) -> Held {
        Held { run: self.run, attempt: self.attempt, token: self.token }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should.
    Succeeded,
    /// The handler said so, or broke.
    Failed,
    /// It took too long.
    TimedOut,
    /// Somebody asked for it.
    Cancelled,
    /// It was never started.
    Refused,
}

/// What a node says.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromNode<'a> {
    /// The session is open.
    Welcome(Welcome),
    /// Work.
    Runs(Runs<'a>),
    /// These reports are written to disk.
    Kept(Kept),
    /// These should end.
    Cancel(Cancels),
    /// So many wait for credits.
    Want(Want),
    /// The nodes have changed.
    Nodes(Nodes),
    /// The node stops.
    Goodbye(Goodbye),
    /// Why it ends the session.
    Error(Refusal),
    /// Something newer than this.
    Unknown,
}

/// Work. Each run uses up a credit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Runs<'a> {
    /// In the order in which they are to be started.
    #[serde(borrow)]
    pub runs: Vec<Run<'a>>,
}

/// Reports that are written to disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What they are about.
    pub reports: Vec<Held>,
}

/// Attempts that should end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancels {
    /// Each.
    pub runs: Vec<Cancel>,
}

/// A node waits for credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// How many runs wait.
    pub runs: u64,
}

/// The nodes have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// All of them.
    pub nodes: Vec<String>,
}

/// A node stops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// What a node says first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that is spoken.
    pub version: u32,
    /// The node's name.
    #[serde(default)]
    pub node: String,
    /// How often it pings.
    pub ping_ms: u64,
    /// How long a silence ends a session.
    pub silence_ms: u64,
    /// How long a broken session may be resumed.
    pub resume_ms: u64,
    /// The longest message.
    pub frame_max: u64,
    /// Where nodes are.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Of what is held, what is over.
    #[serde(default)]
    pub stale: Vec<Held>,
}

/// A piece of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run<'a> {
    /// The run.
    pub run: u64,
    /// Its job.
    pub job: u32,
    /// The job's name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Which handler.
    #[serde(borrow)]
    pub handler: Cow<'a, str>,
    /// The instant that was named for it; RFC 3339.
    #[serde(borrow)]
    pub fire_time: Cow<'a, str>,
    /// Which try, from 1.
    pub attempt: u32,
    /// Greater than that of any earlier send of the run.
    pub token: u64,
    /// When it is given up.
    pub timeout_ms: u64,
    /// What it brings.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// Whether an earlier send of it may have arrived.
    #[serde(default, skip_serializing_if = "is_false")]
    pub possible_duplicate: bool,
    /// Which part of a broadcast it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

impl Run<'_> {
    /// The attempt that it is.
    pub fn held(&self) -> Held {
        Held { run: self.run, attempt: self.attempt, token: self.token }
    }
}

/// Which part of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// From 0.
    pub index: u32,
    /// Of how many.
    pub total: u32,
}

/// An attempt that should end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// The run.
    pub run: u64,
    /// Which try.
    pub attempt: u32,
    /// Its token.
    pub token: u64,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people.
    pub reason: String,
}

/// Why a session ends, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The version is not known.
    Version,
    /// A message means nothing, or came out of order.
    Malformed,
    /// A message was too long.
    TooLarge,
    /// The token does not reach this app.
    Refused,
    /// Another session of the same instance came.
    Replaced,
    /// What was sent was not read.
    TooSlow,
    /// The node cannot.
    Unavailable,
    /// Something newer than this.
    #[serde(other)]
    Other,
}

impl Refusal {
    /// A message that means nothing.
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
                reports.iter().try_for_each(|report| report.held().check())
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

/// The type of a message. It is read by itself, because what a run brings has to stay the text that it is, and what is
/// read as one of many kinds at once does not.
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
    /// Its address: where runs are sent, and what people see.
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

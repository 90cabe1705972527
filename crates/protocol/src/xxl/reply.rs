//! Answers of executors. Their content types are unreliable, and their shapes vary.

use std::fmt;

use serde_json::Value;

use super::{OK, callback, value};

/// The most characters of an invalid answer that are shown.
const SHOWN: usize = 200;
/// The most characters of a message that are kept.
const MESSAGE_MAX: usize = 4_000;

/// An answer with a code.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
    pub(super) payload: Value,
}

/// An answer without a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// An empty answer.
    Empty,
    /// A web page: something other than an executor answered.
    Html(String),
    /// Text that is not JSON.
    Text(String),
    /// JSON of another shape.
    Shape(String),
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nonsense::Empty => f.write_str("the answer is empty"),
            Nonsense::Html(said) => write!(f, "the answer is a web page: {said}"),
            Nonsense::Text(said) => write!(f, "the answer is no JSON: {said}"),
            Nonsense::Shape(said) => write!(f, "the answer has no code: {said}"),
        }
    }
}

impl std::error::Error for Nonsense {}

impl Reply {
    /// Reads a body. One executor refuses with a list of reports in place of an answer.
    pub fn read(body: &[u8]) -> Result<Reply, Nonsense> {
        if body.trim_ascii().is_empty() {
            return Err(Nonsense::Empty);
        }
        let shown = || shown(body);
        let Ok(mut said) = value::read(body) else {
            let is_page = body.trim_ascii_start().starts_with(b"<");
            return Err(if is_page { Nonsense::Html(shown()) } else { Nonsense::Text(shown()) });
        };
        let said = match &mut said {
            Value::Array(reports) => reports.first_mut().ok_or_else(|| Nonsense::Shape(shown()))?,
            said => said,
        };
        let code = code(said).ok_or_else(|| Nonsense::Shape(shown()))?;
        Ok(Reply { code, message: message(said), payload: payload(said) })
    }

    /// Whether the request succeeded.
    pub fn is_ok(&self) -> bool {
        self.code == OK
    }

    /// Whether the executor does not know the path, and may know it by another name.
    pub fn is_unknown_path(&self) -> bool {
        !self.is_ok() && self.message.contains("uri-mapping") && self.message.contains("not found")
    }

    /// Whether the request was refused before the executor looked at the run.
    pub fn is_about_the_call(&self) -> bool {
        let message = self.message.to_ascii_lowercase();
        self.is_unknown_path() || message.contains("access token") || message.contains("invalid request")
    }
}

fn code(said: &Value) -> Option<i64> {
    let code = said.get("code").and_then(value::integer);
    code.or_else(|| Some(callback::code(said)).filter(|code| *code > 0))
}

fn message(said: &Value) -> String {
    match value::first(said, &["msg", "message"]) {
        Value::Null => value::bounded(&callback::message(said), MESSAGE_MAX),
        message => value::bounded(&value::text(message), MESSAGE_MAX),
    }
}

/// Takes out the log, which has an old and a new name and can be long.
fn payload(said: &mut Value) -> Value {
    let mut names = ["content", "data"].into_iter();
    let found = names.find(|name| said.get(name).is_some_and(|value| !value.is_null()));
    found.and_then(|name| said.get_mut(name)).map(Value::take).unwrap_or_default()
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
    value::bounded(text.trim(), SHOWN)
}

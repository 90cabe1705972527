//! `callback`: executors report how attempts ended.

use serde_json::Value;

use super::{OK, TIMED_OUT, answer, value};

/// How many letters of a message are kept.
pub const MESSAGE_MAX: usize = 15_000;

/// The end of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The number that it was sent with.
    pub log: u64,
    /// How it ended; 0 if the executor did not say.
    pub code: i64,
    /// What it said.
    pub message: String,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Succeeded,
    /// Not in its time.
    TimedOut,
    /// In any other way.
    Failed,
}

impl Callback {
    /// How it ended.
    pub fn ending(&self) -> Ending {
        match self.code {
            OK => Ending::Succeeded,
            TIMED_OUT => Ending::TimedOut,
            _ => Ending::Failed,
        }
    }

    fn of(item: &Value) -> Option<Callback> {
        let log = value::integer(item.get("logId")?)?;
        let log = u64::try_from(log).ok().filter(|log| *log > 0)?;
        Some(Callback { log, code: code(item), message: message(item) })
    }
}

/// What one request brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callbacks {
    /// The ends.
    pub items: Vec<Callback>,
    /// How many more there were that name no attempt. To refuse the request for them would only bring them back.
    pub unreadable: usize,
}

impl Callbacks {
    /// Reads a body, whichever shape it has, or says what to answer.
    pub fn read(body: &[u8]) -> Result<Callbacks, String> {
        if body.trim_ascii().is_empty() {
            return Err(answer::NO_BODY.to_owned());
        }
        let said = value::read(body).map_err(|error| format!("the body is no JSON: {error}"))?;
        match (&said, said.get("callbackList")) {
            (Value::Array(items), _) | (_, Some(Value::Array(items))) => Ok(Callbacks::of(items)),
            (item, _) => {
                let item = Callback::of(item).ok_or_else(|| answer::ILLEGAL_ARGUMENT.to_owned())?;
                Ok(Callbacks { items: vec![item], unreadable: 0 })
            }
        }
    }

    fn of(all: &[Value]) -> Callbacks {
        let items: Vec<Callback> = all.iter().filter_map(Callback::of).collect();
        Callbacks { unreadable: all.len() - items.len(), items }
    }
}

/// From 2.3 on it is beside the log id; before, inside a result. Some send both, and then the outer one may be 0.
pub(super) fn code(item: &Value) -> i64 {
    let outer = item.get("handleCode").and_then(value::integer).filter(|code| *code > 0);
    let inner = || item.get("executeResult")?.get("code").and_then(value::integer);
    outer.or_else(inner).unwrap_or(0)
}

pub(super) fn message(item: &Value) -> String {
    let inner = item.get("executeResult").unwrap_or(&Value::Null);
    let said = match value::first(item, &["handleMsg"]) {
        Value::Null => value::first(inner, &["msg", "content"]),
        said => said,
    };
    value::bounded(&value::text(said), MESSAGE_MAX)
}

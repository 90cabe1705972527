//! `callback`: executors report how attempts ended.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{OK, TIMED_OUT, answer, value};

/// The most characters of a message that are kept.
pub const MESSAGE_MAX: usize = 15_000;

/// The most results in one callback.
pub const ITEMS_MAX: usize = 10_000;

/// The longest result in bytes, many times [`MESSAGE_MAX`].
const ITEM_MAX: usize = 1 << 20;

/// The end of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The number that the attempt was sent with.
    pub log: u64,
    /// The code of its end; 0 if the executor sent none.
    pub code: i64,
    /// The message.
    pub message: String,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It succeeded.
    Succeeded,
    /// It took too long.
    TimedOut,
    /// Any other end.
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

/// The results in one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callbacks {
    /// The results.
    pub items: Vec<Callback>,
    /// Number of results that name no attempt. They are dropped: refusing the request would only make the executor repeat it.
    pub unreadable: usize,
}

impl Callbacks {
    /// Reads a body of any shape; the error is the answer to send.
    pub fn read(body: &[u8]) -> Result<Callbacks, String> {
        let body = value::without_mark(body).trim_ascii();
        if body.is_empty() {
            return Err(answer::NO_BODY.to_owned());
        }
        let broken = |error: serde_json::Error| match error.to_string() {
            said if said.starts_with(answer::TOO_MANY) => answer::TOO_MANY.to_owned(),
            said => format!("the body is no JSON: {said}"),
        };
        let list = match body[0] {
            b'[' => Some(serde_json::from_slice::<Items>(body).map_err(broken)?),
            _ => serde_json::from_slice::<Outer>(body).map_err(broken)?.0,
        };
        match list {
            Some(Items(list)) => Ok(Callbacks::of(&list)),
            None => {
                let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= ITEM_MAX);
                let item = text.and_then(understood).ok_or_else(|| answer::ILLEGAL_ARGUMENT.to_owned())?;
                Ok(Callbacks { items: vec![item], unreadable: 0 })
            }
        }
    }

    fn of(all: &[&RawValue]) -> Callbacks {
        let items: Vec<Callback> = all.iter().filter_map(|item| understood(item.get())).collect();
        Callbacks { unreadable: all.len() - items.len(), items }
    }
}

/// Reads one result; none if it names no attempt.
fn understood(item: &str) -> Option<Callback> {
    if item.len() > ITEM_MAX {
        return None;
    }
    Callback::of(&serde_json::from_str(item).ok()?)
}

/// The items of a list as raw text: parsing all of them at once would take many times the memory of the body.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Items<'de>, D::Error> {
        deserializer.deserialize_seq(Few)
    }
}

/// Reads a list, and refuses one with more than [`ITEMS_MAX`] items without reading further.
struct Few;

impl<'de> Visitor<'de> for Few {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of results")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Items<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = all.next_element()? {
            if items.len() >= ITEMS_MAX {
                return Err(serde::de::Error::custom(answer::TOO_MANY));
            }
            items.push(item);
        }
        Ok(Items(items))
    }
}

/// A body that is not a list: its `callbackList`, if that is one.
struct Outer<'a>(Option<Items<'a>>);

impl<'de> Deserialize<'de> for Outer<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Outer<'de>, D::Error> {
        let whole = <&RawValue>::deserialize(deserializer)?.get();
        if !whole.starts_with('{') {
            return Ok(Outer(None));
        }
        let fields: Fields = serde_json::from_str(whole).map_err(serde::de::Error::custom)?;
        let list = fields.list.filter(|list| list.get().starts_with('['));
        let list = list.map(|list| serde_json::from_str(list.get())).transpose();
        list.map(Outer).map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, rename = "callbackList")]
    list: Option<&'a RawValue>,
}

/// The code of a result. From 2.3 on it is beside the log id, before inside a result. Some executors send both, and the
/// outer one may then be 0.
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

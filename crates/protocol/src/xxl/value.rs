//! JSON values, tolerant of the types that executors give them.

use std::borrow::Cow;

use serde_json::Value;

/// A body as JSON.
pub(super) fn read(body: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(without_mark(body))
}

/// A body without the byte order mark that some executors send.
pub(super) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// An integer, also if it was written as text or with a fraction of zero.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15)?;
            Some(whole as i64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A value for people: text as it is, nothing for null, anything else as JSON.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "".into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

/// At most `letters` characters of a text, and no U+0000, which some databases cannot hold.
pub(super) fn bounded(text: &str, letters: usize) -> String {
    text.chars().filter(|letter| *letter != '\0').take(letters).collect()
}

/// The first of these fields that is present and not null.
pub(super) fn first<'a>(value: &'a Value, fields: &[&str]) -> &'a Value {
    let found = fields.iter().filter_map(|field| value.get(field)).find(|value| !value.is_null());
    found.unwrap_or(&Value::Null)
}

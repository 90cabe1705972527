//! Reading JSON field by field: all faults are collected, each with a pointer to its place.

use std::cell::RefCell;
use std::str::FromStr;

use calendar::Timestamp;
use punctual_protocol::{FieldError, Span};
use serde_json::{Map, Value};

use crate::problem::Problem;

/// The last instant that we accept: the end of the years that rules support.
pub(crate) const TIME_MAX: Timestamp = Timestamp::from_millis(7_258_118_399_999);

/// How many faults are reported. A body with more is hostile, or its author fixes these first.
const FAULTS_MAX: usize = 100;

/// The longest name of a field for which a known one is suggested.
const SUGGESTED_MAX: usize = 64;

/// The faults of a body, at most [`FAULTS_MAX`].
#[derive(Default)]
pub(crate) struct Faults(RefCell<Vec<FieldError>>);

impl Faults {
    pub(crate) fn add(&self, pointer: impl Into<String>, detail: impl Into<String>) {
        let mut faults = self.0.borrow_mut();
        if faults.len() < FAULTS_MAX {
            faults.push(FieldError { pointer: pointer.into(), detail: detail.into() });
        }
    }

    /// Whether no more faults are reported.
    fn is_full(&self) -> bool {
        self.0.borrow().len() >= FAULTS_MAX
    }

    /// The value that was read, if there are no faults.
    pub(crate) fn unless<T>(self, read: Option<T>) -> Result<T, Problem> {
        let faults = self.0.into_inner();
        match read {
            Some(read) if faults.is_empty() => Ok(read),
            _ if faults.len() < FAULTS_MAX => Err(Problem::invalid(faults)),
            _ => {
                let detail = format!("{FAULTS_MAX} fields or more are wrong; errors names the first ones");
                Err(Problem { detail, ..Problem::invalid(faults) })
            }
        }
    }
}

/// A value at its place.
#[derive(Clone)]
pub(crate) struct Spot<'a> {
    value: &'a Value,
    pub(crate) pointer: String,
    faults: &'a Faults,
}

impl<'a> Spot<'a> {
    /// A whole body. U+0000 is refused wherever it occurs: databases and C programs end their texts with it.
    pub(crate) fn whole(value: &'a Value, faults: &'a Faults) -> Spot<'a> {
        let spot = Spot { value, pointer: String::new(), faults };
        spot.refuse_nul();
        spot
    }

    /// A value inside a body that is not read field by field.
    pub(crate) fn at(pointer: String, value: &'a Value, faults: &'a Faults) -> Spot<'a> {
        Spot { value, pointer, faults }
    }

    fn refuse_nul(&self) {
        match self.value {
            Value::String(text) if text.contains('\0') => self.fault("U+0000 is not allowed"),
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(index, item)| self.below(&index.to_string(), item).refuse_nul());
            }
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                if name.contains('\0') {
                    self.fault("U+0000 is not allowed in the name of a field");
                }
                self.below(name, value).refuse_nul();
            }),
            _ => {}
        }
    }

    fn below(&self, name: &str, value: &'a Value) -> Spot<'a> {
        let name = name.replace('~', "~0").replace('/', "~1");
        Spot { value, pointer: format!("{}/{name}", self.pointer), faults: self.faults }
    }

    pub(crate) fn fault(&self, detail: impl Into<String>) {
        self.faults.add(self.pointer.clone(), detail);
    }

    /// Adds a fault and returns none, for the end of a chain.
    pub(crate) fn refuse<T>(&self, detail: impl Into<String>) -> Option<T> {
        self.fault(detail);
        None
    }

    /// Adds a fault at another place.
    pub(crate) fn faults_at(&self, pointer: &str, detail: &str) {
        self.faults.add(pointer, detail);
    }

    /// The fields of an object whose names are chosen by its author.
    pub(crate) fn entries(&self) -> Vec<(&'a str, Spot<'a>)> {
        let fields = self.value.as_object().into_iter().flatten();
        fields.map(|(name, value)| (name.as_str(), self.below(name, value))).collect()
    }

    pub(crate) fn raw(&self) -> &'a Value {
        self.value
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    pub(crate) fn object(self) -> Option<Object<'a>> {
        match self.value {
            Value::Object(fields) => Some(Object { fields, spot: self, known: RefCell::default() }),
            _ => self.refuse(format!("expected an object, not {}", kind(self.value))),
        }
    }

    /// The items of a list of at most `max`.
    pub(crate) fn list(&self, max: usize) -> Option<Vec<Spot<'a>>> {
        match self.value {
            Value::Array(items) if items.len() > max => {
                self.refuse(format!("has {} items; at most {max} are allowed", items.len()))
            }
            Value::Array(items) => Some(
                items.iter().enumerate().map(|(index, item)| self.below(&index.to_string(), item)).collect(),
            ),
            _ => self.refuse(format!("expected a list, not {}", kind(self.value))),
        }
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        match self.value {
            Value::String(text) => Some(text),
            _ => self.refuse(format!("expected text, not {}", kind(self.value))),
        }
    }

    /// Text of at most `max` bytes.
    pub(crate) fn prose(&self, max: usize) -> Option<String> {
        let text = self.text()?;
        match text.chars().count() {
            length if length > max => self.refuse(format!("has {length} characters; at most {max} are kept")),
            _ => Some(text.into()),
        }
    }

    /// A name: 1 to 128 characters, none of them a control character.
    pub(crate) fn name(&self) -> Option<String> {
        let text = self.text()?;
        match check_name(text) {
            Ok(()) => Some(text.into()),
            Err(detail) => self.refuse(detail),
        }
    }

    /// A name without `/`, which stands between app and name.
    pub(crate) fn app(&self) -> Option<String> {
        let name = self.name()?;
        match name.contains('/') {
            true => self.refuse("an app's name has no `/`: it stands before the one of app/name"),
            false => Some(name),
        }
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        self.value
            .as_bool()
            .or_else(|| self.refuse(format!("expected true or false, not {}", kind(self.value))))
    }

    /// A whole number in a range.
    pub(crate) fn number(&self, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let whole = match self.value.as_f64() {
            // 5.0 is the same number as 5, also to JSON Schema.
            Some(float) if self.value.as_u64().is_none() && float.fract() == 0.0 && float >= 0.0 => {
                Some(float as u64)
            }
            _ => self.value.as_u64(),
        };
        let said = || format!("expected a whole number from {} to {}", range.start(), range.end());
        whole.filter(|number| range.contains(number)).or_else(|| self.refuse(said()))
    }

    pub(crate) fn float(&self) -> Option<f64> {
        self.value.as_f64().or_else(|| self.refuse(format!("expected a number, not {}", kind(self.value))))
    }

    /// RFC 3339.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        match self.text()?.parse::<Timestamp>() {
            Ok(at) if at > TIME_MAX => self.refuse("is after the year 2199"),
            Ok(at) => Some(at),
            Err(error) => self.refuse(error.to_string()),
        }
    }

    /// A duration with units.
    pub(crate) fn span(&self) -> Option<std::time::Duration> {
        self.word::<Span>().map(|span| span.0)
    }

    /// A word that means one of several things.
    pub(crate) fn word<T: FromStr<Err: std::fmt::Display>>(&self) -> Option<T> {
        match self.text()?.parse() {
            Ok(value) => Some(value),
            Err(error) => self.refuse(error.to_string()),
        }
    }
}

/// An object whose fields are asked for one by one; a field that was never asked for is unknown.
pub(crate) struct Object<'a> {
    fields: &'a Map<String, Value>,
    pub(crate) spot: Spot<'a>,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Object<'a> {
    /// A field that may be left out.
    pub(crate) fn may(&self, name: &'static str) -> Option<Spot<'a>> {
        self.known.borrow_mut().push(name);
        self.fields.get(name).map(|value| self.spot.below(name, value))
    }

    /// A field that may be left out or null.
    pub(crate) fn may_null(&self, name: &'static str) -> Option<Spot<'a>> {
        self.may(name).filter(|spot| !spot.is_null())
    }

    /// A field that must be there.
    pub(crate) fn must(&self, name: &'static str) -> Option<Spot<'a>> {
        self.may(name).or_else(|| {
            self.spot.faults.add(format!("{}/{name}", self.spot.pointer), "is missing");
            None
        })
    }

    /// A field of a later version, which may only be null until then.
    pub(crate) fn later(&self, name: &'static str) {
        if let Some(spot) = self.may_null(name) {
            spot.fault(format!("`{name}` comes with a later version; leave it out, or null"));
        }
    }

    /// Names fields that are not looked at.
    pub(crate) fn ignore(&self, names: &[&'static str]) {
        self.known.borrow_mut().extend(names);
    }

    /// Refuses every field that was never asked for.
    pub(crate) fn end(&self) {
        let known = self.known.borrow();
        for (name, value) in self.fields.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            if self.spot.faults.is_full() {
                return;
            }
            let hint = match suggest(name, &known) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("known are {}", known.join(", ")),
            };
            self.spot.below(name, value).fault(format!("unknown field; {hint}"));
        }
    }
}

/// Why a text is no valid name.
pub(crate) fn check_name(text: &str) -> Result<(), String> {
    match text.chars().count() {
        1..=128 if text.chars().any(char::is_control) => {
            Err("has a control character; a name has none".into())
        }
        1..=128 => Ok(()),
        0 => Err("is empty; a name has 1 to 128 characters".into()),
        length => Err(format!("has {length} characters; a name has 1 to 128")),
    }
}

/// The name that was probably meant.
pub(crate) fn suggest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if name.len() > SUGGESTED_MAX {
        return None;
    }
    let near = |known: &&str| strsim::damerau_levenshtein(known, &name.to_lowercase());
    known.iter().copied().filter(|known| near(known) <= 1 + known.len() / 4).min_by_key(near)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(value: &Value, read: impl Fn(&Object<'_>)) -> Vec<String> {
        let faults = Faults::default();
        if let Some(object) = Spot::whole(value, &faults).object() {
            read(&object);
            object.end();
        }
        let problem = faults.unless(None::<()>).unwrap_err();
        problem.errors.iter().map(|error| format!("{} {}", error.pointer, error.detail)).collect()
    }

    #[test]
    fn no_more_than_a_hundred_faults_are_told_and_long_names_are_not_compared() {
        let fields: Map<String, Value> = (0..5_000).map(|n| (format!("x{n}"), json!(1))).collect();
        let faults = Faults::default();
        let value = Value::Object(fields);
        Spot::whole(&value, &faults).object().unwrap().end();
        let problem = faults.unless(None::<()>).unwrap_err();
        assert_eq!(problem.errors.len(), 100);
        assert!(problem.detail.contains("100 fields or more"), "{}", problem.detail);
        assert_eq!(suggest("flga", &["flag"]), Some("flag"));
        let long = "a".repeat(65);
        assert_eq!(suggest(&long, &[&long]), None);
    }

    #[test]
    fn everything_that_is_wrong_is_said_with_its_place() {
        let value = json!({"count": 11, "flga": true, "tags": ["a", "", 3], "at": "soon", "x/y": 1});
        let said = faults(&value, |object| {
            object.must("name").and_then(|spot| spot.name());
            object.may("count").and_then(|spot| spot.number(1..=10));
            object.may("flag").and_then(|spot| spot.flag());
            object.may("at").and_then(|spot| spot.time());
            for tag in object.may("tags").and_then(|spot| spot.list(5)).unwrap_or_default() {
                tag.name();
            }
        });
        assert_eq!(
            said,
            [
                "/name is missing",
                "/count expected a whole number from 1 to 10",
                "/at \"soon\" is no instant: expected one such as 2026-03-08T07:00:00Z",
                "/tags/1 is empty; a name has 1 to 128 characters",
                "/tags/2 expected text, not a number",
                "/flga unknown field; did you mean flag?",
                "/x~1y unknown field; known are name, count, flag, at, tags",
            ]
        );
    }

    #[test]
    fn nul_is_refused_wherever_it_stands() {
        let said = faults(&json!({"a": {"b": ["x\0"]}, "c\0": 1}), |object| object.ignore(&["a", "c\0"]));
        assert_eq!(said, ["/a/b/0 U+0000 is not allowed", " U+0000 is not allowed in the name of a field"]);
    }

    #[test]
    fn what_comes_later_may_be_null_and_nothing_else() {
        assert!(faults(&json!({"lane": null}), |object| object.later("lane")).is_empty());
        let said = faults(&json!({"lane": "fast"}), |object| object.later("lane"));
        assert_eq!(said, ["/lane `lane` comes with a later version; leave it out, or null"]);
    }
}

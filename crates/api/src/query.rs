//! Query parameters: declared with their bounds, read by their declaration, refused by name.

use std::collections::BTreeMap;

use axum::extract::Query as Pairs;
use calendar::Timestamp;
use http::Uri;
use punctual_core::model::RunState;
use punctual_protocol::FieldError;
use serde_json::{Value, json};

use crate::convert::fields::suggest;
use crate::problem::Problem;

/// A query parameter.
#[derive(Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: ParamKind,
    pub(crate) about: &'static str,
}

/// The values of a parameter.
#[derive(Clone, Copy)]
pub(crate) enum ParamKind {
    /// 1 to 128 characters.
    Text,
    /// From 1 to `max`, and the default.
    Count { max: u32, usual: u32 },
    /// From 0 to a number.
    Index { max: u32 },
    /// `true` or `false`.
    Flag,
    /// RFC 3339.
    Time,
    /// A state of a run.
    State,
    /// One of several words; the first is the default.
    Word(&'static [&'static str]),
    /// A number, or `app/name`.
    Job,
    /// The cursor of an earlier page.
    Cursor,
}

/// How many rows a page has at most.
pub(crate) const PAGE_MAX: u32 = 1_000;

pub(crate) const LIMIT: Param = Param {
    name: "limit",
    kind: ParamKind::Count { max: PAGE_MAX, usual: 100 },
    about: "How many rows at most.",
};
pub(crate) const CURSOR: Param =
    Param { name: "cursor", kind: ParamKind::Cursor, about: "`next_cursor` of the page before." };
pub(crate) const DRY_RUN: Param =
    Param { name: "dry_run", kind: ParamKind::Flag, about: "Checks everything and writes nothing." };

impl ParamKind {
    pub(crate) fn schema(self) -> Value {
        match self {
            ParamKind::Text => json!({"type": "string", "minLength": 1, "maxLength": 128}),
            ParamKind::Count { max, usual } => {
                json!({"type": "integer", "minimum": 1, "maximum": max, "default": usual})
            }
            ParamKind::Index { max } => json!({"type": "integer", "minimum": 0, "maximum": max}),
            ParamKind::Flag => json!({"type": "boolean", "default": false}),
            ParamKind::Time => json!({"type": "string", "format": "date-time"}),
            ParamKind::State => {
                let names: Vec<_> = RunState::ALL.iter().map(|state| state.name()).collect();
                json!({"type": "string", "enum": names})
            }
            ParamKind::Word(words) => json!({"type": "string", "enum": words, "default": words[0]}),
            ParamKind::Job => {
                json!({"type": "string", "maxLength": 257, "pattern": "^([1-9][0-9]{0,9}|[^/]+/.+)$"})
            }
            ParamKind::Cursor => json!({"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": 100}),
        }
    }

    fn check(self, text: &str) -> Result<(), String> {
        match self {
            ParamKind::Text => check_text(text),
            ParamKind::Count { max, .. } => check_number(text, 1..=max),
            ParamKind::Index { max } => check_number(text, 0..=max),
            ParamKind::Flag => match text {
                "true" | "false" => Ok(()),
                _ => Err("expected true or false".into()),
            },
            ParamKind::Time => text.parse::<Timestamp>().map(|_| ()).map_err(|error| error.to_string()),
            ParamKind::State => text.parse::<RunState>().map(|_| ()).map_err(|error| error.to_string()),
            ParamKind::Word(words) if words.contains(&text) => Ok(()),
            ParamKind::Word(words) => Err(format!("expected {}", words.join(" or "))),
            ParamKind::Job => crate::convert::job_ref::JobRef::parse(text).map(|_| ()),
            ParamKind::Cursor => Ok(()),
        }
    }
}

fn check_number(text: &str, range: std::ops::RangeInclusive<u32>) -> Result<(), String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_plain && range.contains(number));
    let said = || format!("expected a whole number from {} to {}", range.start(), range.end());
    number.map(|_: u32| ()).ok_or_else(said)
}

fn check_text(text: &str) -> Result<(), String> {
    match text.chars().count() {
        1..=128 if text.contains('\0') => Err("U+0000 is not allowed".into()),
        1..=128 => Ok(()),
        length => Err(format!("has {length} characters; expected 1 to 128")),
    }
}

/// The parameters of a request, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the parameters that the operation declares, and refuses any other.
    pub(crate) fn read(uri: &Uri, known: &[Param]) -> Result<Query, Problem> {
        if uri.query().is_none() {
            return Ok(Query::default());
        }
        let Pairs(pairs) = Pairs::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| {
            Problem::malformed("the query cannot be read; write it as ?name=value&name=value")
        })?;
        let mut query = BTreeMap::new();
        let mut errors = Vec::new();
        for (name, text) in pairs {
            let checked = match known.iter().find(|param| param.name == name) {
                None => Err(unknown(&name, known)),
                Some(_) if query.contains_key(&name) => Err("is given twice".into()),
                Some(param) => param.kind.check(&text),
            };
            match checked {
                Ok(()) => _ = query.insert(name, text),
                Err(detail) => errors.push(FieldError { pointer: format!("?{name}"), detail }),
            }
        }
        if errors.is_empty() { Ok(Query(query)) } else { Err(Problem::parameters(errors)) }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn owned(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    pub(crate) fn count(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    pub(crate) fn is_flag(&self, name: &str) -> Option<bool> {
        self.text(name).map(|text| text == "true")
    }

    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        self.text(name)?.parse().ok()
    }

    pub(crate) fn limit(&self) -> usize {
        self.count("limit").unwrap_or(100) as usize
    }
}

fn unknown(name: &str, known: &[Param]) -> String {
    let names: Vec<&str> = known.iter().map(|param| param.name).collect();
    match suggest(name, &names) {
        Some(meant) => format!("unknown parameter; did you mean {meant}?"),
        None if names.is_empty() => "unknown parameter; this operation takes none".into(),
        None => format!("unknown parameter; known are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Query, Problem> {
        let known = [LIMIT, CURSOR, DRY_RUN, Param { name: "state", kind: ParamKind::State, about: "" }];
        Query::read(&format!("/x?{query}").parse().unwrap(), &known)
    }

    #[test]
    fn what_is_declared_is_read() {
        let query = read("limit=7&dry_run=true&state=pending").unwrap();
        assert_eq!((query.limit(), query.flag("dry_run"), query.text("state")), (7, true, Some("pending")));
        assert_eq!(read("").unwrap().limit(), 100);
    }

    #[test]
    fn what_is_not_declared_or_out_of_bounds_is_refused_by_name() {
        for (query, said) in [
            ("limt=7", "?limt: unknown parameter; did you mean limit?"),
            ("limit=0", "?limit: expected a whole number from 1 to 1000"),
            ("limit=1001", "?limit: expected a whole number from 1 to 1000"),
            ("limit=%2B1", "?limit: expected a whole number from 1 to 1000"),
            ("limit=1&limit=2", "?limit: is given twice"),
            ("dry_run=yes", "?dry_run: expected true or false"),
        ] {
            let problem = read(query).unwrap_err();
            assert_eq!((problem.status.as_u16(), problem.detail.as_str()), (400, said));
        }
        assert!(read("state=done").unwrap_err().detail.contains("unknown state"));
    }
}

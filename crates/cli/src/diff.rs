//! The difference between two jobs: the fields that differ, each with its old and new value.

use std::collections::BTreeSet;

use punctual_protocol::{MASKED_HEADER, MASKED_SECRET, is_secret_header};
use serde_json::Value;

use super::table::printable;

/// A field that differs; none on the side that does not have it.
#[derive(Debug, PartialEq)]
pub(crate) struct Change {
    path: String,
    before: Option<Value>,
    after: Option<Value>,
}

/// Fields that are never shown, because they are secrets.
const SECRET: &str = "target.signing_secret";
const HEADERS: &str = "target.headers.";

/// The fields that differ, in order. Null counts as absent.
pub(crate) fn between(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare("", Some(before), Some(after), &mut changes);
    changes
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Change>) {
    let before = before.filter(|value| !value.is_null());
    let after = after.filter(|value| !value.is_null());
    if before == after {
        return;
    }
    let fields = |value: Option<&Value>| match value {
        Some(Value::Object(fields)) => fields.keys().cloned().collect(),
        _ => BTreeSet::new(),
    };
    let is_branch = |value: Option<&Value>| value.is_none_or(|value| value.is_object());
    if is_branch(before) && is_branch(after) {
        for name in &fields(before) | &fields(after) {
            let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let field = |value: Option<&'_ Value>| value.and_then(|value| value.get(&name)).cloned();
            compare(&inner, field(before).as_ref(), field(after).as_ref(), changes);
        }
        return;
    }
    changes.push(Change { path: path.to_owned(), before: before.cloned(), after: after.cloned() });
}

impl Change {
    /// Secrets that may have changed: those that are written out in the job. The server does not show which of them
    /// did.
    pub(crate) fn of_secrets(wanted: &Value) -> Vec<Change> {
        let (target, written) = (&wanted["target"], |value: &&Value| value.as_str().is_some());
        let headers = target["headers"].as_object().into_iter().flatten();
        let named = headers.map(|(name, value)| (format!("{HEADERS}{name}"), value));
        let all = named.chain([(SECRET.to_owned(), &target["signing_secret"])]);
        let replaced = all.filter_map(|(path, value)| {
            let mask = Value::from(mask(&path)?);
            let is_replaced = written(&value) && *value != mask;
            is_replaced.then(|| Change { path, before: Some(mask.clone()), after: Some(mask) })
        });
        let mut replaced: Vec<Change> = replaced.collect();
        if replaced.is_empty() {
            // The server sees a difference that is not shown, so the job is written.
            let mask = || Some(Value::from(MASKED_SECRET));
            replaced.push(Change { path: SECRET.into(), before: mask(), after: mask() });
        }
        replaced
    }

    /// For programs.
    pub(crate) fn as_json(&self) -> Value {
        let shown = |value: &Option<Value>| value.as_ref().map(|value| self.shown(value));
        serde_json::json!({"field": self.path, "before": shown(&self.before), "after": shown(&self.after)})
    }

    fn shown(&self, value: &Value) -> Value {
        mask(&self.path).map_or_else(|| value.clone(), Value::from)
    }

    fn lines(&self, is_coloured: bool) -> String {
        let line = |sign: &str, colour: &str, value: &Option<Value>| match value {
            None => String::new(),
            Some(value) => {
                let value = self.shown(value).to_string();
                let text = format!("  {sign} {}: {}", printable(&self.path), printable(&value));
                format!("{}\n", painted(&text, colour, is_coloured))
            }
        };
        line("-", RED, &self.before) + &line("+", GREEN, &self.after)
    }
}

/// The text that is shown in place of a secret field.
fn mask(path: &str) -> Option<&'static str> {
    if path == SECRET {
        return Some(MASKED_SECRET);
    }
    path.strip_prefix(HEADERS).filter(|name| is_secret_header(name)).map(|_| MASKED_HEADER)
}

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// What happens to one job, in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Created,
    Changed,
}

/// A job's name and the fields that differ.
pub(crate) fn show(name: &str, fate: Fate, changes: &[Change], is_coloured: bool) -> String {
    let (sign, colour) = match fate {
        Fate::Created => ("+", GREEN),
        Fate::Changed => ("~", YELLOW),
    };
    let heading = painted(&format!("{sign} {}", printable(name)), colour, is_coloured);
    let lines = changes.iter().map(|change| change.lines(is_coloured));
    format!("{heading}\n{}", lines.collect::<String>())
}

fn painted(text: &str, colour: &str, is_coloured: bool) -> String {
    if is_coloured { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(before: Value, after: Value) -> String {
        show("a/b", Fate::Changed, &between(&before, &after), false)
    }

    #[test]
    fn only_what_differs_is_shown_each_field_by_itself() {
        let before =
            json!({"timeout": "30s", "retry": {"max_attempts": 3, "multiplier": 2.0}, "tags": ["a"]});
        let after =
            json!({"timeout": "30s", "retry": {"max_attempts": 5, "multiplier": 2.0}, "tags": ["a", "b"]});
        let expected = "~ a/b\n  - retry.max_attempts: 3\n  + retry.max_attempts: 5\n  - tags: [\"a\"]\n  + tags: [\"a\",\"b\"]\n";
        assert_eq!(shown(before, after), expected);
    }

    #[test]
    fn what_comes_and_goes_has_one_side() {
        let before = json!({"schedule": {"kind": "manual", "from": "x"}});
        let after = json!({"schedule": {"kind": "every", "interval": "30s"}});
        let expected = "~ a/b\n  - schedule.from: \"x\"\n  + schedule.interval: \"30s\"\n  - schedule.kind: \"manual\"\n  + schedule.kind: \"every\"\n";
        assert_eq!(shown(before, after), expected);
    }

    #[test]
    fn null_is_the_same_as_not_being_there() {
        assert!(between(&json!({"lane": null, "a": {"b": null}}), &json!({"a": {}})).is_empty());
        assert_eq!(between(&json!({"body": null}), &json!({"body": {"x": 1}})).len(), 1);
        assert_eq!(between(&json!({"body": "text"}), &json!({"body": {"x": 1}})).len(), 1);
    }

    #[test]
    fn a_secret_is_never_shown() {
        let written = json!({"target": {"signing_secret": "whsec_c2VjcmV0"}});
        let expected = "~ a/b\n  + target.signing_secret: \"whsec_…\"\n";
        assert_eq!(shown(json!({}), written.clone()), expected);
        assert_eq!(between(&json!({}), &written)[0].as_json()["after"], "whsec_…");
        let replaced = show("a/b", Fate::Changed, &Change::of_secrets(&written), false);
        assert_eq!(replaced.matches("whsec_…").count(), 2);
    }

    #[test]
    fn headers_that_open_doors_are_never_shown() {
        let written = json!({"target": {"headers": {"X-Tenant": "a", "X-Api-Key": "b", "Cookie": "…"}}});
        let expected = "~ a/b\n  + target.headers.Cookie: \"…\"\n  + target.headers.X-Api-Key: \"…\"\n  \
                        + target.headers.X-Tenant: \"a\"\n";
        assert_eq!(shown(json!({}), written.clone()), expected);
        let replaced = show("a/b", Fate::Changed, &Change::of_secrets(&written), false);
        let expected = "~ a/b\n  - target.headers.X-Api-Key: \"…\"\n  + target.headers.X-Api-Key: \"…\"\n";
        assert_eq!(replaced, expected);
    }

    #[test]
    fn colours_are_put_around_lines() {
        let changes = between(&json!({}), &json!({"a": 1}));
        let expected = "\u{1b}[32m+ a/b\u{1b}[0m\n\u{1b}[32m  + a: 1\u{1b}[0m\n";
        assert_eq!(show("a/b", Fate::Created, &changes, true), expected);
    }
}

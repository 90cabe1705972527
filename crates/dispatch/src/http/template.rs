//! Templates: `${run.id}` and its like inside urls, headers and bodies.
//!
//! `$${` stands for a plain `${`. An unknown name is an error when the job is written, not when it runs.

use std::fmt::{self, Write as _};

use punctual_core::model::{Job, Origin};
use punctual_node::ports::Dispatched;

/// What can stand between `${` and `}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    RunId,
    RunFireTime,
    RunAttempt,
    JobId,
    JobName,
    JobApp,
    ParentRun,
    ParentJob,
    ParentResult,
}

const NAMES: &[(&str, Slot)] = &[
    ("run.id", Slot::RunId),
    ("run.fire_time", Slot::RunFireTime),
    ("run.attempt", Slot::RunAttempt),
    ("job.id", Slot::JobId),
    ("job.name", Slot::JobName),
    ("job.app", Slot::JobApp),
    ("parent.run", Slot::ParentRun),
    ("parent.job", Slot::ParentJob),
    ("parent.result", Slot::ParentResult),
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Name(Slot),
}

/// Text with names in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

/// What the names of a run stand for.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) run: u64,
    pub(crate) fire_time: String,
    pub(crate) attempt: u32,
    pub(crate) parent: Parent,
}

/// The parent run, as described in the payload of the run that it started; empty if there is none.
#[derive(Debug, Default)]
pub(crate) struct Parent {
    run: String,
    job: String,
    pub(crate) result: String,
}

impl Parent {
    /// Reads it from what the run brings.
    pub(crate) fn of(run: &Dispatched) -> Parent {
        let payload = run.payload.as_deref().filter(|_| run.origin == Origin::Parent);
        let brought = payload.and_then(|payload| serde_json::from_str::<serde_json::Value>(payload).ok());
        let Some(brought) = brought else { return Parent::default() };
        let text = |name: &str| match &brought["parent"][name] {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => String::new(),
            other => other.to_string(),
        };
        Parent { run: text("run"), job: text("job"), result: text("result") }
    }

    /// Fills its names into any text.
    pub(crate) fn fill(&self, text: &str) -> String {
        let text = text.replace("${parent.run}", &self.run).replace("${parent.job}", &self.job);
        text.replace("${parent.result}", &self.result)
    }
}

/// How a value is escaped where it is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Nothing.
    Plain,
    /// Characters with a meaning in a url are written as `%XX`.
    Percent,
    /// Characters that could end a JSON string are written with a backslash.
    Json,
}

impl Template {
    /// Reads a text.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let mut template = Template::default();
        template.read(text)?;
        Ok(template)
    }

    /// Reads JSON, where names count only inside string values: what is filled in can then never change the structure
    /// of the JSON. The rest is kept as it was written, down to the digits of a number.
    pub(crate) fn parse_json(json: &str) -> Result<Template, String> {
        serde_json::from_str::<&serde_json::value::RawValue>(json)
            .map_err(|error| format!("this is no JSON: {error}"))?;
        let mut template = Template::default();
        let mut rest = json;
        while let Some(quote) = rest.find('"') {
            let (before, string) = rest.split_at(quote + 1);
            template.push_text(before);
            let end = end_of_string(string);
            let (inside, after) = string.split_at(end);
            match after[1..].trim_start().starts_with(':') {
                true => template.push_text(inside),
                false => template.read(inside)?,
            }
            template.push_text("\"");
            rest = &after[1..];
        }
        template.push_text(rest);
        Ok(template)
    }

    /// Splits `text` at marks that stand for the names of a template that was taken apart by [`Template::mark`].
    pub(crate) fn at_marks(&self, text: &str, mark: &Mark) -> Template {
        let mut template = Template::default();
        let mut rest = text;
        for (index, name) in self.names().enumerate() {
            let Some((before, after)) = rest.split_once(&mark.nth(index)) else { continue };
            template.push_text(before);
            template.0.push(Piece::Name(name));
            rest = after;
        }
        template.push_text(rest);
        template
    }

    /// The text with a mark in place of every name, for parsers that would change `${`.
    pub(crate) fn mark(&self, mark: &Mark) -> String {
        let mut count = 0;
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Name(_) => {
                    text.push_str(&mark.nth(count));
                    count += 1;
                }
            }
        }
        text
    }

    /// The same with the names of the job filled in, which are the same for all its runs.
    pub(crate) fn bind(&self, job: &Job, escape: Escape) -> Template {
        let mut bound = Template::default();
        for piece in &self.0 {
            let value = match piece {
                Piece::Text(text) => {
                    bound.push_text(text);
                    continue;
                }
                Piece::Name(Slot::JobId) => job.id.to_string(),
                Piece::Name(Slot::JobName) => job.definition.name.clone(),
                Piece::Name(Slot::JobApp) => job.definition.app.clone(),
                Piece::Name(name) => {
                    bound.0.push(Piece::Name(*name));
                    continue;
                }
            };
            let mut escaped = String::new();
            put(&mut escaped, &value, escape);
            bound.push_text(&escaped);
        }
        bound
    }

    /// The text, if nothing is left to fill in.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The text of one run. The job's names must be bound.
    pub(crate) fn fill(&self, facts: &Facts, escape: Escape) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Name(Slot::RunId) => put(&mut text, &facts.run, escape),
                Piece::Name(Slot::RunFireTime) => put(&mut text, &facts.fire_time, escape),
                Piece::Name(Slot::RunAttempt) => put(&mut text, &facts.attempt, escape),
                Piece::Name(Slot::ParentRun) => put(&mut text, &facts.parent.run, escape),
                Piece::Name(Slot::ParentJob) => put(&mut text, &facts.parent.job, escape),
                Piece::Name(Slot::ParentResult) => put(&mut text, &facts.parent.result, escape),
                Piece::Name(name) => unreachable!("{name:?} is bound with the job"),
            }
        }
        text
    }

    fn names(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Name(name) => Some(*name),
            Piece::Text(_) => None,
        })
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            let (before, from) = rest.split_at(dollar);
            self.push_text(before);
            if let Some(after) = from.strip_prefix("$${") {
                self.push_text("${");
                rest = after;
            } else if let Some(inside) = from.strip_prefix("${") {
                let (name, after) =
                    inside.split_once('}').ok_or("`${` has no `}`; a plain `${` is written `$${`")?;
                self.0.push(Piece::Name(known(name)?));
                rest = after;
            } else {
                self.push_text("$");
                rest = &from[1..];
            }
        }
        self.push_text(rest);
        Ok(())
    }

    fn push_text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.0.push(Piece::Text(text.to_owned())),
        }
    }
}

/// A word that does not occur in a text, to stand for a name while a parser reads the text.
pub(crate) struct Mark(String);

impl Mark {
    /// A mark that does not occur in `text`.
    pub(crate) fn unlike(text: &str) -> Mark {
        let text = text.to_ascii_lowercase();
        let mark = (0..).map(|salt| format!("mark{salt}x")).find(|mark| !text.contains(mark));
        Mark(mark.expect("a text holds finitely many words"))
    }

    /// Whether `text` contains the mark.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        text.contains(&self.0)
    }

    fn nth(&self, index: usize) -> String {
        format!("{}{index}z", self.0)
    }
}

fn known(name: &str) -> Result<Slot, String> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
    let shown: String = name.chars().take(40).collect();
    let wrong = || {
        format!("`${{{shown}}}` is not known: expected {}; a plain `${{` is written `$${{`", known.join(", "))
    };
    found.map(|(_, name)| *name).ok_or_else(wrong)
}

/// Where the string that begins here ends: the position of the first quote that is not escaped.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.expect("the JSON was read before")
}

fn put(text: &mut String, value: &dyn fmt::Display, escape: Escape) {
    match escape {
        Escape::Plain => write!(text, "{value}").expect("a string takes everything"),
        Escape::Percent => value.to_string().bytes().for_each(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            _ => write!(text, "%{byte:02X}").expect("a string takes everything"),
        }),
        Escape::Json => {
            let quoted = serde_json::Value::String(value.to_string()).to_string();
            text.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { run: 42, fire_time: "2026-03-08T07:00:00.000Z".into(), attempt: 2, parent: Parent::default() }
    }

    fn fill(text: &str) -> String {
        Template::parse(text).unwrap().fill(&facts(), Escape::Plain)
    }

    fn fill_json(text: &str) -> String {
        Template::parse_json(text).unwrap().fill(&facts(), Escape::Json)
    }

    #[test]
    fn names_are_filled_and_everything_else_is_left_alone() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("${run.id}", "42"),
            ("a${run.id}b${run.attempt}c", "a42b2c"),
            ("at ${run.fire_time}", "at 2026-03-08T07:00:00.000Z"),
            ("$5, $, $$, {run.id}", "$5, $, $$, {run.id}"),
            ("$${run.id}", "${run.id}"),
            ("$$${run.id}", "$${run.id}"),
            ("$${${run.id}}", "${42}"),
        ] {
            assert_eq!(fill(text), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_or_unfinished_name_is_an_error_that_says_what_is_known() {
        for text in ["${run.number}", "${}", "${ run.id }", "${secret:key}", "${RUN.ID}"] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains("is not known: expected run.id, "), "{error}");
        }
        assert!(Template::parse("x ${run.id").unwrap_err().contains("has no `}`"));
    }

    #[test]
    fn json_is_filled_inside_string_values_only() {
        for (text, expected) in [
            (r#"{"id": "${run.id}"}"#, r#"{"id": "42"}"#),
            (r#"["${run.id}", {"a":"x${run.attempt}y"}]"#, r#"["42", {"a":"x2y"}]"#),
            (r#"{"${run.id}" : 1}"#, r#"{"${run.id}" : 1}"#),
            (r#"{"${no.such}": "$${x}"}"#, r#"{"${no.such}": "${x}"}"#),
            (r#"{"a":"\"${run.id}\\","b":1e400}"#, r#"{"a":"\"42\\","b":1e400}"#),
            (r#"{"z":12345678901234567890123,"a":null}"#, r#"{"z":12345678901234567890123,"a":null}"#),
        ] {
            assert_eq!(fill_json(text), expected, "{text}");
        }
        assert!(Template::parse_json(r#"{"a": ${run.id}}"#).unwrap_err().contains("no JSON"));
        assert!(Template::parse_json(r#"{"a": "${x}"}"#).unwrap_err().contains("is not known"));
    }

    #[test]
    fn values_are_escaped_for_where_they_go() {
        let put = |value: &str, escape| {
            let mut text = String::new();
            put(&mut text, &value, escape);
            text
        };
        assert_eq!(put("a b/ü?&", Escape::Percent), "a%20b%2F%C3%BC%3F%26");
        assert_eq!(put("a\"b\\c\n", Escape::Json), r#"a\"b\\c\n"#);
        assert_eq!(put("a\"b", Escape::Plain), "a\"b");
    }

    #[test]
    fn marks_stand_for_names_while_somebody_else_reads() {
        let text = "mark0x/${run.id}/${run.attempt}";
        let template = Template::parse(text).unwrap();
        let mark = Mark::unlike(text);
        let marked = template.mark(&mark);
        assert!(!marked.contains('$') && mark.is_in(&marked), "{marked}");
        assert_eq!(template.at_marks(&marked, &mark), template);
    }
}

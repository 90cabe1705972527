//! Files that hold jobs: TOML or JSON, one job or many.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::failure::Failure;

/// The jobs of a file, and whether it is a list: then its answer is a list too.
#[derive(Debug, PartialEq)]
pub(crate) struct JobFile {
    pub(crate) jobs: Vec<Value>,
    pub(crate) is_list: bool,
}

/// The jobs in the file at `path`; `-` is stdin.
pub(crate) fn read_jobs(path: &Path) -> Result<JobFile, Failure> {
    let text = read_text(path)?;
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Format::Json,
        Some("toml") => Format::Toml,
        _ => guess(&text),
    };
    let place = place(path);
    let value = parse(&text, format).map_err(|reason| Failure::usage(format!("{place}: {reason}")))?;
    jobs_in(value).map_err(|reason| Failure::usage(format!("{place}: {reason}")))
}

/// The text of the file at `path`; `-` is stdin.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::usage(format!("cannot read {}: {error}", place(path))))
}

/// JSON that was given directly, or as `@file`.
pub(crate) fn json_argument(option: &str, text: &str) -> Result<Value, Failure> {
    let (text, place) = match text.strip_prefix('@') {
        Some(path) => (read_text(Path::new(path))?, format!("{option}: {}", self::place(Path::new(path)))),
        None => (text.to_owned(), option.to_owned()),
    };
    serde_json::from_str(&text).map_err(|error| {
        let advice = "a text is JSON with its quotes, such as '\"hello\"'";
        Failure::usage(format!("{place}: this is not JSON: {error} ({advice})"))
    })
}

fn place(path: &Path) -> String {
    if path == Path::new("-") { "stdin".into() } else { path.display().to_string() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Toml,
}

/// An object or an array of objects is JSON; `[[job]]` is TOML, and so is everything else.
fn guess(text: &str) -> Format {
    let text = text.trim_start();
    let inner = text.strip_prefix('[').map(str::trim_start);
    let is_array = inner.is_some_and(|inner| inner.starts_with(['{', ']']));
    if text.starts_with('{') || is_array { Format::Json } else { Format::Toml }
}

fn parse(text: &str, format: Format) -> Result<Value, String> {
    match format {
        Format::Json => serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}")),
        Format::Toml => {
            let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
            Ok(Value::Object(table.into_iter().map(|(name, value)| (name, as_json(value))).collect()))
        }
    }
}

/// TOML's dates become texts, as the API has them; values that JSON cannot express are left for the server to refuse.
fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(at) => Value::String(at.to_string()),
        toml::Value::Array(values) => Value::Array(values.into_iter().map(as_json).collect()),
        toml::Value::Table(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, as_json(value))).collect())
        }
    }
}

/// One job, or many: an array, or everything under `job`.
fn jobs_in(value: Value) -> Result<JobFile, String> {
    let jobs = match value {
        Value::Array(jobs) => JobFile { jobs, is_list: true },
        Value::Object(mut fields) => match fields.remove("job") {
            Some(Value::Array(jobs)) if fields.is_empty() => JobFile { jobs, is_list: true },
            Some(_) if fields.is_empty() => return Err("`job` is a list: write [[job]]".into()),
            Some(_) => {
                let other = fields.keys().next().cloned().unwrap_or_default();
                return Err(format!("`{other}` stands beside the list of jobs: move it into one of them"));
            }
            None if fields.get("jobs").is_some_and(Value::is_array) => {
                return Err("`jobs` is no field of a job; a list of jobs is written [[job]]".into());
            }
            None => JobFile { jobs: vec![Value::Object(fields)], is_list: false },
        },
        _ => return Err("a job is an object with name, app, schedule and target".into()),
    };
    match jobs.jobs.iter().position(|job| !job.is_object()) {
        Some(index) => {
            Err(format!("job {}: a job is an object with name, app, schedule and target", index + 1))
        }
        None => Ok(jobs),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<JobFile, String> {
        parse(text, guess(text)).and_then(jobs_in)
    }

    #[test]
    fn one_job_is_one_job_in_either_format() {
        let expected =
            JobFile { jobs: vec![json!({"name": "b", "schedule": {"kind": "manual"}})], is_list: false };
        assert_eq!(read("name = \"b\"\n[schedule]\nkind = \"manual\"\n").unwrap(), expected);
        assert_eq!(read("\n {\"name\": \"b\", \"schedule\": {\"kind\": \"manual\"}}").unwrap(), expected);
    }

    #[test]
    fn many_jobs_are_a_list_in_either_format() {
        let expected = JobFile { jobs: vec![json!({"name": "a"}), json!({"name": "b"})], is_list: true };
        for text in [
            "[[job]]\nname = \"a\"\n[[job]]\nname = \"b\"\n",
            r#"[{"name": "a"}, {"name": "b"}]"#,
            r#"{"job": [{"name": "a"}, {"name": "b"}]}"#,
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        assert_eq!(read("[]").unwrap().jobs.len(), 0);
    }

    #[test]
    fn dates_of_toml_become_texts() {
        let jobs = read("at = 2026-12-24T18:00:00Z\nmultiplier = 1.5\ncount = 3\n").unwrap().jobs;
        assert_eq!(jobs[0], json!({"at": "2026-12-24T18:00:00Z", "multiplier": 1.5, "count": 3}));
    }

    #[test]
    fn what_is_neither_is_refused_with_the_place() {
        for (text, said) in [
            ("name = ", "line 1"),
            ("{\"name\": }", "line 1 column 10"),
            ("[1, 2]", "line 1"),
            ("[{}, 1]", "job 2"),
            ("job = 1", "[[job]]"),
            ("[[jobs]]\nname = \"x\"", "a list of jobs is written [[job]]"),
            ("name = \"x\"\n[[job]]\nname = \"y\"", "`name` stands beside"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_payload_is_json_with_advice_for_those_who_forget_the_quotes() {
        assert_eq!(json_argument("--payload", "{\"a\": 1}"), Ok(json!({"a": 1})));
        let refusal = json_argument("--payload", "hello").unwrap_err().message();
        assert!(
            refusal.contains("--payload: this is not JSON") && refusal.contains("'\"hello\"'"),
            "{refusal}"
        );
        assert!(
            json_argument("--payload", "@nowhere/at/all.json").unwrap_err().message().contains("nowhere")
        );
    }
}

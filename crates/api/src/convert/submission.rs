//! One-shots as programs submit them: read in one pass, without a tree of JSON values, because there may be many.

use std::borrow::Cow;
use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::model::{Overrides, Payload, Text};
use punctual_node::ByHand;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::fields::{Faults, Spot, TIME_MAX, check_name};
use super::job;
use super::job_ref::JobRef;
use crate::body::broken;
use crate::problem::Problem;

/// A one-shot as it was sent.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmissionLine<'a> {
    #[serde(borrow)]
    pub(crate) job: JobRef<'a>,
    #[serde(borrow, default)]
    at: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(default)]
    priority: Option<u8>,
    #[serde(borrow, default)]
    timeout: Option<&'a RawValue>,
    #[serde(borrow, default)]
    retry: Option<&'a RawValue>,
    #[serde(borrow, default)]
    exclusive: Option<&'a RawValue>,
    #[serde(default)]
    lane: Option<IgnoredAny>,
}

/// A body: one run, or many. Both are read as one object, because trying one form after the other would need a tree
/// of JSON values.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    runs: Option<Vec<Strict<SubmissionLine<'a>>>>,
    #[serde(borrow, default)]
    job: Option<JobRef<'a>>,
    #[serde(borrow, default)]
    at: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(default)]
    priority: Option<u8>,
    #[serde(borrow, default)]
    timeout: Option<&'a RawValue>,
    #[serde(borrow, default)]
    retry: Option<&'a RawValue>,
    #[serde(borrow, default)]
    exclusive: Option<&'a RawValue>,
    #[serde(default)]
    lane: Option<IgnoredAny>,
}

/// The submitted runs, and whether they came as a list.
pub(crate) struct Batch<'a> {
    pub(crate) lines: Vec<SubmissionLine<'a>>,
    pub(crate) is_list: bool,
}

impl Batch<'_> {
    /// The pointer to a field of a line in the body.
    pub(crate) fn pointer(&self, index: usize, field: &str) -> String {
        if self.is_list { format!("/runs/{index}{field}") } else { field.to_owned() }
    }
}

/// Reads a JSON body.
pub(crate) fn read(body: &[u8]) -> Result<Batch<'_>, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Problem::malformed("the body is empty; JSON is expected"));
    }
    let Strict(envelope): Strict<Envelope<'_>> = understood(body)?;
    let Envelope { runs, job, at, payload, key, priority, timeout, retry, exclusive, lane } = envelope;
    let is_bare = job.is_none() && at.is_none() && payload.is_none() && key.is_none() && priority.is_none();
    let has_overrides = timeout.is_some() || retry.is_some() || exclusive.is_some() || lane.is_some();
    match (runs, job) {
        (Some(lines), _) if is_bare && !has_overrides => {
            Ok(Batch { lines: lines.into_iter().map(|Strict(line)| line).collect(), is_list: true })
        }
        (Some(_), _) => Err(Problem::field("/runs", "stands alone; put the other fields into its items")),
        (None, Some(job)) => {
            let line = SubmissionLine { job, at, payload, key, priority, timeout, retry, exclusive, lane };
            Ok(Batch { lines: vec![line], is_list: false })
        }
        (None, None) => Err(Problem::field("/job", "is missing; for many, send {\"runs\": […]}")),
    }
}

/// Reads one line of a stream.
pub(crate) fn read_line(line: &[u8]) -> Result<SubmissionLine<'_>, Problem> {
    understood(line).map(|Strict(line)| line)
}

/// The longest address of an executor.
const EXECUTOR_MAX: usize = 1_024;

/// The body of a request that starts a run by hand.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Now<'a> {
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
    #[serde(borrow, default)]
    fire_time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    executor: Option<Cow<'a, str>>,
}

/// Reads the body of a request that starts a run by hand.
pub(crate) fn read_now(body: &[u8], payload_max: usize) -> Result<ByHand, Problem> {
    let Strict(now): Strict<Now<'_>> = match body.iter().all(u8::is_ascii_whitespace) {
        true => Strict(Now::default()),
        false => understood(body)?,
    };
    let fire_time =
        now.fire_time.map(|text| time(&text).map_err(|detail| Problem::field("/fire_time", detail)));
    let executor = now.executor.map(|text| address(&text)).transpose()?;
    let payload = bounded(now.payload, payload_max, |field| field.to_owned())?;
    Ok(ByHand { payload, fire_time: fire_time.transpose()?, executor })
}

/// The address of an executor. Whether there is such an executor is found out when the run is sent.
fn address(text: &str) -> Result<Text, Problem> {
    let is_fit =
        (1..=EXECUTOR_MAX).contains(&text.len()) && !text.contains(|c: char| c.is_control() || c == ' ');
    let why = "expected the address of an executor, as `punctual app executors` shows it";
    is_fit.then(|| Text::Owned(text.to_owned())).ok_or_else(|| Problem::field("/executor", why))
}

fn bounded(
    raw: Option<&RawValue>,
    max: usize,
    place: impl Fn(&str) -> String,
) -> Result<Option<Payload>, Problem> {
    let Some(raw) = raw else { return Ok(None) };
    if raw.get().len() > max {
        let said = format!("the payload has {} bytes; at most {max} are kept", raw.get().len());
        return Err(Problem::too_large(said).at(place("/payload")));
    }
    payload(raw.get()).map(Some).map_err(|detail| Problem::field(place("/payload"), detail))
}

fn understood<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| refused::<T>(body, &error))
}

/// An object and nothing else: derived readers would accept a list of its values too.
struct Strict<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Strict<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict<T>, D::Error> {
        struct Reading<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reading<T> {
            type Value = Strict<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Strict<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Strict)
            }
        }

        deserializer.deserialize_map(Reading(std::marker::PhantomData))
    }
}

/// Says what is wrong, and reads the body again to say where: that costs time only for bodies that are refused.
fn refused<'a, T: Deserialize<'a>>(body: &'a [u8], error: &serde_json::Error) -> Problem {
    if !error.is_data() {
        return broken(error);
    }
    // The body may be invalid JSON further on; that is reported first.
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        return broken(&error);
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut reader) else { return broken(error) };
    let pointer: String = error.path().iter().map(segment).collect();
    let text = error.inner().to_string();
    let detail = text.split(" at line ").next().unwrap_or(&text).to_owned();
    Problem::field(pointer, suggested(&detail))
}

fn segment(segment: &serde_path_to_error::Segment) -> String {
    match segment {
        serde_path_to_error::Segment::Seq { index } => format!("/{index}"),
        serde_path_to_error::Segment::Map { key } => {
            format!("/{}", key.replace('~', "~0").replace('/', "~1"))
        }
        _ => String::new(),
    }
}

/// Adds the name that was probably meant to the message about an unknown field.
fn suggested(detail: &str) -> String {
    let unknown = detail.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let known = [
        "job",
        "at",
        "payload",
        "key",
        "priority",
        "timeout",
        "retry",
        "exclusive",
        "lane",
        "runs",
        "fire_time",
        "executor",
    ];
    match unknown.and_then(|(name, _)| super::fields::suggest(name, &known)) {
        Some(meant) => format!("{detail}; did you mean {meant}?"),
        None => detail.to_owned(),
    }
}

/// The content of a line, without its job.
pub(crate) struct Meant {
    pub(crate) at: Option<Timestamp>,
    pub(crate) payload: Option<Payload>,
    pub(crate) key: Option<Cow<'static, str>>,
    pub(crate) priority: Option<u8>,
    pub(crate) overrides: Overrides,
}

impl SubmissionLine<'_> {
    /// Its content, or the field that is wrong. Payloads may have `payload_max` bytes.
    pub(crate) fn meant(&self, payload_max: usize, place: impl Fn(&str) -> String) -> Result<Meant, Problem> {
        let wrong = |field: &str, detail: String| Problem::field(place(field), detail);
        if self.lane.is_some() {
            return Err(wrong("/lane", "`lane` comes with a later version; leave it out, or null".into()));
        }
        let at = match &self.at {
            None => None,
            Some(text) => Some(time(text).map_err(|detail| wrong("/at", detail))?),
        };
        if let Some(key) = &self.key {
            check_name(key).map_err(|detail| wrong("/key", detail))?;
        }
        if self.priority.is_some_and(|priority| priority > 9) {
            return Err(wrong("/priority", "expected a whole number from 0 to 9".into()));
        }
        let payload = bounded(self.payload, payload_max, &place)?;
        let overrides = overrides(self.timeout, self.retry, self.exclusive, &place)?;
        let key = self.key.as_ref().map(|key| Cow::Owned(key.clone().into_owned()));
        Ok(Meant { at, payload, key, priority: self.priority, overrides })
    }
}

/// The overrides of a one-shot: the same fields, and the same refusals, as in a job.
fn overrides(
    timeout: Option<&RawValue>,
    retry: Option<&RawValue>,
    exclusive: Option<&RawValue>,
    place: impl Fn(&str) -> String,
) -> Result<Overrides, Problem> {
    let read = |raw: &RawValue, field: &str| {
        let value: Result<Value, _> = serde_json::from_str(raw.get());
        value.map_err(|error| Problem::field(place(field), error.to_string()))
    };
    let faults = Faults::default();
    let mut overrides = Overrides::default();
    if let Some(raw) = timeout {
        let value = read(raw, "/timeout")?;
        overrides.timeout = job::timeout(&Spot::at(place("/timeout"), &value, &faults));
    }
    if let Some(raw) = retry {
        let value = read(raw, "/retry")?;
        overrides.retry = job::retry(Spot::at(place("/retry"), &value, &faults));
    }
    if let Some(raw) = exclusive {
        let value = read(raw, "/exclusive")?;
        overrides.exclusive = job::exclusive(&Spot::at(place("/exclusive"), &value, &faults));
    }
    faults.unless(Some(overrides))
}

fn time(text: &str) -> Result<Timestamp, String> {
    match text.parse::<Timestamp>() {
        Ok(at) if at > TIME_MAX => Err("is after the year 2199".into()),
        Ok(at) => Ok(at),
        Err(error) => Err(error.to_string()),
    }
}

/// Compact JSON that can be read again, without U+0000.
pub(crate) fn payload(text: &str) -> Result<Payload, String> {
    let sound: Result<Sound, _> = serde_json::from_str(text);
    match sound {
        Ok(Sound) => Ok(compact(text)),
        Err(error) => {
            let text = error.to_string();
            Err(text.split(" at line ").next().unwrap_or(&text).to_owned())
        }
    }
}

/// The same JSON without blanks between its parts.
fn compact(text: &str) -> Arc<str> {
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    if !text.bytes().any(is_blank) {
        return text.into();
    }
    let (mut short, mut in_text, mut is_escaped) = (String::with_capacity(text.len()), false, false);
    let mut kept_from = 0;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if !in_text && is_blank(byte) => {
                short.push_str(&text[kept_from..index]);
                kept_from = index + 1;
            }
            _ => {}
        }
    }
    short.push_str(&text[kept_from..]);
    short.into()
}

/// Checks that JSON can be read: raw text is accepted without a check of its escapes, numbers and depth, and would
/// fail the program that reads it later.
struct Sound;

impl<'de> Deserialize<'de> for Sound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sound, D::Error> {
        deserializer.deserialize_any(Sound)
    }
}

impl<'de> Visitor<'de> for Sound {
    type Value = Sound;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_unit<E>(self) -> Result<Sound, E> {
        Ok(Sound)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Sound, E> {
        if text.contains('\0') { Err(E::custom("U+0000 is not allowed")) } else { Ok(Sound) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Sound, A::Error> {
        while items.next_element::<Sound>()?.is_some() {}
        Ok(Sound)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Sound, A::Error> {
        while fields.next_entry::<Sound, Sound>()?.is_some() {}
        Ok(Sound)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use punctual_core::policy::Retry;

    #[test]
    fn one_and_many_are_read_alike() {
        let one = read(br#"{"job": "a/b", "payload": {"x": [1, 2]}, "key": "k"}"#).unwrap();
        assert!(!one.is_list && one.lines.len() == 1);
        let meant = one.lines[0].meant(100, str::to_owned).unwrap();
        assert_eq!(meant.payload.as_deref(), Some(r#"{"x":[1,2]}"#));
        let many = read(br#"{"runs": [{"job": 1}, {"job": "2", "at": "2026-03-08T07:00:00Z"}]}"#).unwrap();
        assert!(many.is_list && many.lines.len() == 2);
        assert_eq!(many.pointer(1, "/at"), "/runs/1/at");
    }

    fn refusal(body: &str) -> (u16, String, String) {
        let problem = match read(body.as_bytes()) {
            Ok(batch) => {
                let place = |field: &str| batch.pointer(batch.lines.len() - 1, field);
                batch.lines.last().unwrap().meant(20, place).err().unwrap()
            }
            Err(problem) => problem,
        };
        let pointer = problem.errors.first().map_or(String::new(), |error| error.pointer.clone());
        (problem.status.as_u16(), pointer, problem.detail)
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (body, status, pointer, detail) in [
            ("", 400, "", "empty"),
            ("{", 400, "", "line 1 column 1"),
            (r#"{"job": 1} x"#, 400, "", "trailing"),
            ("[]", 422, "", "an object"),
            ("[null, 1]", 422, "", "an object"),
            (r#"{"runs": [[1]]}"#, 422, "/runs/0", "an object"),
            ("{}", 422, "/job", "missing"),
            (r#"{"job": "x"}"#, 422, "/job", "app/name"),
            (r#"{"job": 1, "payloda": 1}"#, 422, "/payloda", "did you mean payload?"),
            (r#"{"runs": [{"job": 1}, {"job": null}]}"#, 422, "/runs/1/job", ""),
            (r#"{"runs": [{}]}"#, 422, "/runs/0", "missing field `job`"),
            (r#"{"runs": [], "job": 1}"#, 422, "/runs", "stands alone"),
            (r#"{"job": 1, "at": "soon"}"#, 422, "/at", "no instant"),
            (r#"{"job": 1, "at": "2222-01-01T00:00:00Z"}"#, 422, "/at", "2199"),
            (r#"{"job": 1, "priority": 10}"#, 422, "/priority", "0 to 9"),
            (r#"{"job": 1, "priority": 300}"#, 422, "/priority", "300"),
            (r#"{"job": 1, "timeout": "soon"}"#, 422, "/timeout", "no duration"),
            (r#"{"job": 1, "timeout": "0s"}"#, 422, "/timeout", "needs some time"),
            (r#"{"job": 1, "timeout": 30}"#, 422, "/timeout", "expected text, not a number"),
            (r#"{"job": 1, "timeout": "\ud800"}"#, 422, "/timeout", "hex escape"),
            (r#"{"job": 1, "retry": 3}"#, 422, "/retry", "expected an object"),
            (r#"{"job": 1, "retry": {"max_attempts": 0}}"#, 422, "/retry/max_attempts", "1 to 10000"),
            (r#"{"job": 1, "retry": {"max_delay": "-1s"}}"#, 422, "/retry/max_delay", "no duration"),
            (
                r#"{"runs": [{"job": 1}, {"job": 1, "retry": {"multiplier": 0.5}}]}"#,
                422,
                "/runs/1/retry/multiplier",
                "1 to 1000",
            ),
            (
                r#"{"job": 1, "retry": {"max_atempts": 2}}"#,
                422,
                "/retry/max_atempts",
                "did you mean max_attempts?",
            ),
            (r#"{"job": 1, "timout": "3s"}"#, 422, "/timout", "did you mean timeout?"),
            (r#"{"runs": [], "timeout": "3s"}"#, 422, "/runs", "stands alone"),
            (r#"{"job": 1, "lane": "x"}"#, 422, "/lane", "later version"),
            (r#"{"job": 1, "key": ""}"#, 422, "/key", "empty"),
            (r#"{"job": 1, "payload": "\u0000"}"#, 422, "/payload", "U+0000"),
            (r#"{"job": 1, "payload": "\ud800"}"#, 422, "/payload", "hex escape"),
            (r#"{"job": 1, "payload": 1e999}"#, 422, "/payload", "out of range"),
            (
                r#"{"runs": [{"job": 1, "payload": "012345678901234567890"}]}"#,
                413,
                "/runs/0/payload",
                "at most 20",
            ),
        ] {
            let said = refusal(body);
            assert_eq!((said.0, said.1.as_str()), (status, pointer), "{body}: {}", said.2);
            assert!(said.2.contains(detail), "{body}: {}", said.2);
        }
    }

    #[test]
    fn a_one_shot_has_its_own_timeout_and_retry_where_it_says_so() {
        let own =
            |body: &str| read(body.as_bytes()).unwrap().lines[0].meant(100, str::to_owned).unwrap().overrides;
        assert_eq!(own(r#"{"job": 1}"#), Overrides::default());
        assert_eq!(own(r#"{"job": 1, "timeout": null, "retry": null}"#), Overrides::default());
        let usual = Retry::default();
        let said = own(r#"{"job": 1, "timeout": "1m30s", "retry": {"max_attempts": 1}}"#);
        let retry = Some(Retry { max_attempts: 1, ..usual });
        assert_eq!(said, Overrides { timeout: Some(Duration::from_secs(90)), retry, ..Overrides::default() });
        let line = br#"{"job": 1, "retry": {"initial_delay": "5s", "multiplier": 1.5, "max_delay": "1h"}}"#;
        let retry = read_line(line).unwrap().meant(100, str::to_owned).unwrap().overrides.retry.unwrap();
        assert_eq!((retry.max_attempts, retry.initial_delay), (usual.max_attempts, Duration::from_secs(5)));
        assert_eq!((retry.multiplier.per_mille(), retry.max_delay), (1_500, Duration::from_secs(3_600)));
    }

    #[test]
    fn a_run_by_hand_brings_a_payload_a_fire_time_and_an_executor_or_nothing() {
        assert_eq!(read_now(b"", 100).unwrap(), ByHand::default());
        let executor = read_now(br#"{"executor": "http://10.0.0.5:9999/"}"#, 100).unwrap().executor;
        assert_eq!(executor.as_deref(), Some("http://10.0.0.5:9999/"));
        let body =
            br#"{"payload": {"a": 123456789012345678901234567890}, "fire_time": "2026-03-08T07:00:00Z"}"#;
        let ByHand { payload, fire_time, executor: None } = read_now(body, 100).unwrap() else { panic!() };
        assert_eq!(payload.as_deref(), Some(r#"{"a":123456789012345678901234567890}"#));
        assert_eq!(fire_time.unwrap().to_string(), "2026-03-08T07:00:00Z");
        for (body, status) in [
            (r#"{"executor": ""}"#, 422),
            (r#"{"executor": "http://a\nb"}"#, 422),
            (r#"{"executor": 3}"#, 422),
            (r#"{"payload": "01234567890"}"#, 413),
            (r#"{"fire_time": 3}"#, 422),
            (r#"{"x": 3}"#, 422),
            ("[", 400),
        ] {
            assert_eq!(read_now(body.as_bytes(), 10).unwrap_err().status.as_u16(), status, "{body}");
        }
    }

    #[test]
    fn blanks_between_parts_go_and_those_inside_texts_stay() {
        for (text, short) in [
            (" {\"a b\" : [ 1 ,\t2 ] }\n", r#"{"a b":[1,2]}"#),
            (r#""a \" b \\" "#, r#""a \" b \\""#),
            ("null", "null"),
            (r#"["é ü" , "x"]"#, r#"["é ü","x"]"#),
        ] {
            assert_eq!(&*compact(text), short);
        }
    }

    #[test]
    fn what_is_too_deep_to_be_read_again_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(payload(&deep).unwrap_err().contains("recursion"));
    }
}

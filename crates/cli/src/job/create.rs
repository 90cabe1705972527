//! `punctual job create`: a job from a file, or from flags.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use punctual_protocol::{Job, Span};
use serde_json::{Map, Value, json};

use super::{find, span};
use crate::client::Route;
use crate::failure::Failure;
use crate::file::{JobFile, json_argument, read_jobs};
use crate::session::ClientSession;
use crate::table::cell;

#[derive(Args)]
#[command(override_usage = "punctual job create -f FILE\n       \
    punctual job create --app APP --name NAME \
    (--cron EXPR | --every SPAN | --delay SPAN | --at T | --manual) (--url URL | --handler NAME)")]
#[command(group = ArgGroup::new("when").args(["cron", "every", "delay", "at", "manual", "file"]).required(true))]
#[command(group = ArgGroup::new("where").args(["url", "handler", "file"]).required(true))]
pub(super) struct Create {
    /// A file in TOML or JSON with one job or many; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["app", "name", "rest"])]
    file: Option<PathBuf>,
    /// The app that it belongs to
    #[arg(long, required_unless_present = "file")]
    app: Option<String>,
    /// Its name, unique within the app
    #[arg(long, required_unless_present = "file")]
    name: Option<String>,
    /// When, as a cron expression in quotes
    #[arg(long, value_name = "EXPR", help_heading = "When")]
    cron: Option<String>,
    /// How to read the expression: unix or quartz
    #[arg(long, conflicts_with_all = ["every", "delay", "at", "manual", "file"], help_heading = "When")]
    dialect: Option<String>,
    /// The IANA zone whose wall clock counts
    #[arg(long, conflicts_with_all = ["every", "delay", "at", "manual", "file"], help_heading = "When")]
    zone: Option<String>,
    /// At a fixed rate
    #[arg(long, value_name = "SPAN", value_parser = span, help_heading = "When")]
    every: Option<Span>,
    /// So long after the end of the last run
    #[arg(long, value_name = "SPAN", value_parser = span, help_heading = "When")]
    delay: Option<Span>,
    /// Once, at this instant (RFC 3339)
    #[arg(long, value_name = "T", help_heading = "When")]
    at: Option<String>,
    /// Never by itself
    #[arg(long, help_heading = "When")]
    manual: bool,
    /// The HTTP agent to call
    #[arg(long, value_name = "URL", help_heading = "Where")]
    url: Option<String>,
    /// The HTTP method [default: POST]
    #[arg(long, conflicts_with_all = ["handler", "file"], help_heading = "Where")]
    method: Option<String>,
    /// A header of the request; may be repeated
    #[arg(long, value_name = "NAME: VALUE", conflicts_with_all = ["handler", "file"], value_parser = header, help_heading = "Where")]
    header: Vec<(String, String)>,
    /// The body of the request: JSON, or @file
    #[arg(long, value_name = "JSON|@FILE", conflicts_with_all = ["handler", "file"], help_heading = "Where")]
    body: Option<String>,
    /// The handler of the app's executors to call
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    handler: Option<String>,
    /// Which executor: first, last, round, random, consistent_hash, least_frequently_used, least_recently_used, failover,
    /// busyover or sharding_broadcast [default: round]
    #[arg(long, conflicts_with_all = ["url", "file"], help_heading = "Where")]
    route: Option<String>,
    /// What the handler gets when the run brings no payload, as it is
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["url", "file"], help_heading = "Where")]
    params: Option<String>,
    /// What becomes of runs that meet: serial, discard, cover or concurrent(N)
    #[arg(long, conflicts_with = "file", help_heading = "Where")]
    block: Option<String>,
    #[command(flatten)]
    rest: Rest,
    /// Make nothing: print when it would fire
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
#[group(id = "rest", multiple = true)]
struct Rest {
    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// For people to filter by; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// How often a run is tried, the first time included [default: 3]
    #[arg(long, value_name = "N")]
    retry_max: Option<u32>,
    /// How long an attempt may take [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    timeout: Option<Span>,
    /// 0 goes first, 9 last [default: 5]
    #[arg(long, value_name = "0-9")]
    priority: Option<u8>,
    /// What becomes of missed instants: skip, fire_once or fire_all [default: fire_once]
    #[arg(long, value_name = "POLICY")]
    misfire: Option<String>,
    /// at_least_once or at_most_once [default: at_least_once]
    #[arg(long)]
    delivery: Option<String>,
    /// Make it without starting it
    #[arg(long)]
    stopped: bool,
}

impl Create {
    pub(super) async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let JobFile { jobs, is_list } = match &self.file {
            Some(path) => read_jobs(path)?,
            None => JobFile { jobs: vec![self.draft()?], is_list: false },
        };
        let mut answers = Vec::new();
        for (index, draft) in jobs.into_iter().enumerate() {
            let place = if is_list { format!("job {}: ", index + 1) } else { String::new() };
            let route = Route::to(["jobs"]).with_any("dry_run", self.dry_run.then_some(true));
            let answer = session.client.post(route, writable(draft)).await;
            let answer = answer.map_err(|failure| at(&place, failure))?;
            self.tell(session, &answer);
            answers.push(answer);
        }
        match session.wants_json() {
            true if is_list => session.print_json(&Value::Array(answers)),
            true => answers.iter().for_each(|answer| session.print_json(answer)),
            false => {}
        }
        Ok(())
    }

    fn tell(&self, session: &mut ClientSession, answer: &Value) {
        let name = find::name(answer);
        warnings(answer).iter().for_each(|warning| session.say(format!("warning: {name}: {warning}")));
        let word = if self.dry_run { "would create" } else { "created" };
        session.say(format!("{word} {name}"));
        if session.wants_json() {
            return;
        }
        if !self.dry_run {
            return session.print(cell(answer, "/id"));
        }
        let times = answer["next_fire_times"].as_array().into_iter().flatten();
        times.filter_map(Value::as_str).for_each(|at| session.print(at));
    }

    fn draft(&self) -> Result<Value, Failure> {
        let mut draft = Map::new();
        draft.insert("app".into(), json!(self.app));
        draft.insert("name".into(), json!(self.name));
        draft.insert("schedule".into(), self.schedule());
        draft.insert("target".into(), self.target()?);
        draft.extend(self.rest.fields());
        Ok(Value::Object(draft))
    }

    fn schedule(&self) -> Value {
        match self {
            Create { cron: Some(expression), .. } => given(
                "cron",
                [
                    ("expression", Some(json!(expression))),
                    ("dialect", self.dialect.as_ref().map(|dialect| json!(dialect))),
                    ("zone", self.zone.as_ref().map(|zone| json!(zone))),
                ],
            ),
            Create { every: Some(interval), .. } => json!({"kind": "every", "interval": interval}),
            Create { delay: Some(delay), .. } => json!({"kind": "delay", "delay": delay}),
            Create { at: Some(at), .. } => json!({"kind": "once", "at": at}),
            _ => json!({"kind": "manual"}),
        }
    }

    fn target(&self) -> Result<Value, Failure> {
        if let Some(handler) = &self.handler {
            return Ok(given(
                "executor",
                [
                    ("handler", Some(json!(handler))),
                    ("params", self.params.as_ref().map(|params| json!(params))),
                    ("route", self.route.as_ref().map(|route| json!(route))),
                    ("block", self.block.as_ref().map(|block| json!(block))),
                ],
            ));
        }
        let headers: Map<String, Value> =
            self.header.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let body = self.body.as_ref().map(|body| json_argument("--body", body)).transpose()?;
        Ok(given(
            "http",
            [
                ("url", self.url.as_ref().map(|url| json!(url))),
                ("method", self.method.as_ref().map(|method| json!(method))),
                ("headers", (!headers.is_empty()).then_some(Value::Object(headers))),
                ("body", body),
                ("block", self.block.as_ref().map(|block| json!(block))),
            ],
        ))
    }
}

impl Rest {
    fn fields(&self) -> Map<String, Value> {
        let fields = [
            ("description", self.description.as_ref().map(|text| json!(text))),
            ("tags", (!self.tags.is_empty()).then(|| json!(self.tags))),
            ("retry", self.retry_max.map(|max| json!({"max_attempts": max}))),
            ("timeout", self.timeout.map(|timeout| json!(timeout))),
            ("priority", self.priority.map(|priority| json!(priority))),
            ("misfire", self.misfire.as_ref().map(|policy| json!({"policy": policy}))),
            ("delivery", self.delivery.as_ref().map(|delivery| json!(delivery))),
            ("enabled", self.stopped.then_some(json!(false))),
        ];
        let said = |(name, value): (&str, Option<Value>)| Some((name.to_owned(), value?));
        fields.into_iter().filter_map(said).collect()
    }
}

/// An object of that kind with the fields that were given.
fn given<const N: usize>(kind: &str, fields: [(&str, Option<Value>); N]) -> Value {
    let said = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(std::iter::once(("kind".to_owned(), json!(kind))).chain(said).collect())
}

/// A job as it was read, ready to be written back: without the fields that only an answer has.
pub(super) fn writable(mut job: Value) -> Value {
    if let Some(fields) = job.as_object_mut() {
        let only_read = Job::READ_ONLY.iter().chain(&["next_fire_times", "warnings"]);
        only_read.for_each(|name| drop(fields.remove(*name)));
    }
    job
}

/// The server's warnings about a job in a dry run.
pub(super) fn warnings(plan: &Value) -> Vec<String> {
    let warnings = plan["warnings"].as_array().into_iter().flatten();
    warnings.filter_map(Value::as_str).map(String::from).collect()
}

/// A failure, with the job of a file that it is about.
pub(super) fn at(place: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Refused { status, said } => Failure::Refused { status, said: format!("{place}{said}") },
        other => other,
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is written 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

//! Requests, byte for byte: header names in exactly the case that executors look them up in, and always a length.

use std::borrow::Cow;
use std::io::Write as _;
use std::time::Duration;

use punctual_core::model::{Executor, GlueKind, Origin};
use punctual_core::policy::Block;
use punctual_core::registry::{Dialect, Secret};
use punctual_node::ports::{Address, Dispatched};
use punctual_protocol::xxl::{self, GlueType, Orth, Strategy, Trigger};

use super::place::{Place, RunPath, token};
use crate::http::template::Parent;

/// How many runs of a job Orth's executors run at the same time at most.
const CONCURRENCY_MAX: u32 = 64;

const USER_AGENT: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

/// Where a request goes, and for whom.
pub(super) struct Letter<'a> {
    pub(super) place: &'a Place,
    pub(super) address: &'a Address,
    pub(super) global: Option<&'a Secret>,
    /// What follows the address.
    pub(super) path: &'a str,
}

impl Letter<'_> {
    /// Writes the whole request, or says why it cannot be.
    pub(super) fn write(&self, request: &mut Vec<u8>, body: &[u8]) -> Result<(), String> {
        request.clear();
        let Place { host, prefix, .. } = self.place;
        put(request, format_args!("POST {prefix}{} HTTP/1.1\r\nHost: {host}\r\n", self.path));
        put(request, format_args!("User-Agent: {USER_AGENT}\r\nContent-Type: {}\r\n", xxl::CONTENT_TYPE));
        if let Some(token) = token(self.address, self.global) {
            let is_orth = self.address.dialect == Dialect::Orth;
            let name = if is_orth { xxl::ORTH_ACCESS_TOKEN } else { xxl::ACCESS_TOKEN };
            put_header(request, name, token)?;
        }
        if self.names_app() {
            put_header(request, xxl::APP_NAME, &self.address.app)?;
        }
        put(request, format_args!("Content-Length: {}\r\n\r\n", body.len()));
        request.extend_from_slice(body);
        Ok(())
    }

    /// From 3.5 on, executors expect the app's name with every request.
    fn names_app(&self) -> bool {
        self.address.dialect == Dialect::Trigger
            || self.place.run_path(self.address) == RunPath::Trigger
            || self.path == RunPath::Trigger.path()
    }
}

fn put(request: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    request.write_fmt(text).expect("memory takes everything");
}

/// A value that could end its line could begin another header, or another request, so it is refused.
fn put_header(request: &mut Vec<u8>, name: &str, value: &str) -> Result<(), String> {
    if value.chars().any(char::is_control) {
        return Err(format!("what {name} should say cannot be sent in a header"));
    }
    put(request, format_args!("{name}: {value}\r\n"));
    Ok(())
}

/// Writes the body that asks an executor to run an attempt, or says why it cannot be written.
pub(super) fn write_trigger(body: &mut Vec<u8>, run: &Dispatched, dialect: Dialect) -> Result<(), String> {
    body.clear();
    let executor = run.job.executor().ok_or("the job is not for executors")?;
    let log = run.log.ok_or("the attempt has no number to report under")?.0;
    let definition = &run.job.definition;
    let glue = executor.glue.as_ref();
    let (index, total) = run.part.as_ref().map_or((0, 1), |part| (part.index, part.total));
    let (strategy, concurrency) = strategy(definition.block, dialect);
    let trigger = Trigger {
        job: run.job.id.0,
        handler: handler(executor),
        params: &params(run, executor),
        strategy,
        timeout: seconds(run.timeout),
        log,
        sent_at: run.sent_at.as_millis(),
        glue: glue.map_or(GlueType::Bean, |glue| glue_type(glue.kind)),
        source: glue.map_or("", |glue| &glue.source),
        glue_changed_at: glue.map_or(0, |glue| glue.changed_at.as_millis()),
        index,
        total,
        orth: (dialect == Dialect::Orth).then(|| Orth { concurrency, scheduled_at: scheduled_at(run) }),
    };
    trigger.write(body);
    Ok(())
}

fn handler(executor: &Executor) -> &str {
    if executor.glue.is_some() { "" } else { &executor.handler }
}

/// The run's payload, or else its job's parameters. A run that a parent started gets the job's parameters with the
/// parent's values filled in, and without parameters the parent's result as it is.
fn params<'a>(run: &'a Dispatched, executor: &'a Executor) -> Cow<'a, str> {
    let own = executor.params.as_deref();
    if run.origin == Origin::Parent {
        let parent = Parent::of(run);
        return own.map_or(parent.result.clone(), |own| parent.fill(&plain(own))).into();
    }
    run.payload.as_deref().or(own).map_or("".into(), plain)
}

/// JSON as executors take it: a string as plain text, anything else as JSON.
fn plain(json: &str) -> Cow<'_, str> {
    let text = if json.starts_with('"') { serde_json::from_str::<String>(json).ok() } else { None };
    text.map_or(json.into(), Cow::from)
}

/// Only the job's own limit can be enforced by the executor too; an executor without such a strategy is told to
/// queue.
fn strategy(block: Block, dialect: Dialect) -> (Strategy, u32) {
    match block {
        Block::Discard => (Strategy::Discard, 1),
        Block::Cover => (Strategy::Cover, 1),
        Block::Concurrent(Some(limit)) if dialect == Dialect::Orth => {
            (Strategy::Concurrent, limit.get().min(CONCURRENCY_MAX))
        }
        Block::Serial | Block::Concurrent(_) => (Strategy::Serial, 1),
    }
}

fn seconds(timeout: Duration) -> u32 {
    let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
    seconds.min(i32::MAX as u64) as u32
}

/// A run that was started by hand has no scheduled instant.
fn scheduled_at(run: &Dispatched) -> Option<i64> {
    (run.origin != Origin::Manual).then(|| run.fire_time.as_millis())
}

fn glue_type(kind: GlueKind) -> GlueType {
    match kind {
        GlueKind::Groovy => GlueType::Groovy,
        GlueKind::Shell => GlueType::Shell,
        GlueKind::Python => GlueType::Python,
        GlueKind::Python2 => GlueType::Python2,
        GlueKind::NodeJs => GlueType::NodeJs,
        GlueKind::PowerShell => GlueType::PowerShell,
        GlueKind::Php => GlueType::Php,
    }
}

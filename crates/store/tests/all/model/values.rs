//! What the small numbers of the model test stand for, as far as no store is asked.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Child, Definition, Delivery, Executor, FlowControl, Hold, JobId, JobState, Overrides, Schedule,
    ScheduleKind, ShardId, StoppedReason, Target, When,
};
use punctual_core::policy::{Block, Misfire, Retry};
use punctual_node::ports::RequestKey;

use super::verbs::NewJob;
use super::{BEGIN_MS, SHARDS};

/// One of few instants, on three days.
pub(crate) fn at(number: u8) -> Timestamp {
    const SECONDS: [i64; 8] = [-90_000, -1, 0, 1, 2, 60, 86_400, 86_401];
    SECONDS
        .get(usize::from(number))
        .map_or(Timestamp::MAX, |seconds| Timestamp::from_millis(BEGIN_MS + seconds * 1_000))
}

pub(crate) fn pick<T>(rows: &[T], number: u8) -> Option<&T> {
    // The last number stands for something that is not there.
    let is_there = number < u8::MAX && !rows.is_empty();
    is_there.then(|| &rows[usize::from(number) % rows.len()])
}

pub(crate) fn shard_ids(shards: u8) -> Vec<ShardId> {
    (0..SHARDS).filter(|shard| shards >> shard & 1 == 1).map(ShardId).collect()
}

pub(crate) fn key_of(number: u8) -> Option<&'static str> {
    ["a", "b"].get(usize::from(number)).copied()
}

pub(crate) fn name_of(number: u8) -> String {
    format!("Job {}", char::from(b'a' + number))
}

pub(crate) fn job_state(number: u8) -> JobState {
    match number {
        0 => JobState::Stopped(StoppedReason::Asked),
        1 => JobState::Stopped(StoppedReason::FailureLimit),
        2 => JobState::Deleted,
        _ => JobState::Enabled,
    }
}

pub(crate) fn definition(job: &NewJob) -> Definition {
    let after = job.after.map(|(parent, when)| Child {
        job: JobId(u32::from(parent) + 1),
        when: When::ALL[usize::from(when)],
    });
    Definition {
        app: ["shop", "mail"][usize::from(job.name % 2)].into(),
        name: name_of(job.name),
        description: String::new(),
        tags: Vec::new(),
        schedule: Schedule::from(match job.name % 2 {
            0 => ScheduleKind::Delay { delay: Duration::from_secs(1) },
            _ => ScheduleKind::Manual,
        }),
        target: Target::Executor(Executor::of("work")),
        misfire: Misfire::default(),
        retry: Retry::default(),
        timeout: Duration::from_secs(30),
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: Vec::new(),
        after: after.into_iter().collect(),
        failure_limit: 0,
        flow: FlowControl::default(),
    }
}

pub(crate) fn apps_of(number: u8) -> Option<Vec<String>> {
    let apps: &[&str] = match number {
        4 => &["shop"],
        5 => &["mail"],
        6 => &["shop", "mail"],
        7 => &["none"],
        _ => return None,
    };
    Some(apps.iter().map(|app| (*app).to_owned()).collect())
}

pub(crate) fn app_of(number: u8) -> &'static str {
    ["shop", "mail", "none"][usize::from(number)]
}

pub(crate) fn address_of(number: u8) -> &'static str {
    ["http://one/", "http://two/", "three"][usize::from(number)]
}

pub(crate) fn request(key: u8) -> RequestKey {
    RequestKey { by: ["1", "2"][usize::from(key % 2)].into(), key: ["a", "b"][usize::from(key / 2)].into() }
}

/// A place of a resource; one of the resources takes turns.
pub(super) fn place(resource: &'static str, slots: u32) -> Hold {
    Hold { resource: resource.into(), slots, takes_turns: resource == "b" }
}

/// What every third run has in place of its job's.
pub(super) fn overrides(sequence: u64) -> Option<Arc<Overrides>> {
    let overrides = Overrides {
        timeout: sequence.is_multiple_of(6).then(|| Duration::from_millis(sequence * 500)),
        retry: sequence.is_multiple_of(9).then(Retry::default),
        exclusive: None,
        executor: sequence.is_multiple_of(15).then(|| format!("http://e{sequence}/ ?").into()),
    };
    overrides.kept()
}

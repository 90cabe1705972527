//! Jobs for the engine's tests.

use std::time::Duration;

use calendar::{Timestamp, Zones};

use crate::model::{
    Definition, Delivery, FlowControl, Http, Job, JobId, JobState, Schedule, ScheduleKind, Target,
};
use crate::policy::{Block, Misfire, Retry};

pub(super) fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}Z").parse().unwrap()
}

pub(super) fn every(seconds: u64) -> ScheduleKind {
    ScheduleKind::Every { interval: Duration::from_secs(seconds), anchor: at("00:00:00") }
}

pub(super) fn delay(seconds: u64) -> ScheduleKind {
    ScheduleKind::Delay { delay: Duration::from_secs(seconds) }
}

pub(super) fn definition(schedule: impl Into<Schedule>) -> Definition {
    let http = Http::post("http://agent");
    Definition {
        app: "app".into(),
        name: "name".into(),
        description: String::new(),
        tags: vec![],
        schedule: schedule.into(),
        target: Target::Http(http),
        misfire: Misfire::default(),
        retry: Retry::default(),
        timeout: Duration::from_secs(30),
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: vec![],
        after: vec![],
        failure_limit: 0,
        flow: FlowControl::default(),
    }
}

pub(super) fn compile(definition: Definition) -> Job {
    let (state, zones) = (JobState::Enabled, Zones::bundled());
    Job::compile(JobId(7), 3, at("00:00:00"), state, definition, vec![], &zones).unwrap()
}

pub(super) fn job(schedule: impl Into<Schedule>) -> Job {
    compile(definition(schedule))
}

//! Between the wire and the house: each file reads or shows one thing, and knows both languages.

pub(crate) mod app;
pub(crate) mod apps;
pub(crate) mod executor;
pub(crate) mod fields;
pub(crate) mod job;
pub(crate) mod job_ref;
pub(crate) mod log;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod show_job;
pub(crate) mod submission;
pub(crate) mod target;
pub(crate) mod upcoming;
pub(crate) mod why;
pub(crate) mod window;

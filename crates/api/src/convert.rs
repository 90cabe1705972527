//! Between the wire and the model: each file reads or shows one kind of thing.

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

//! Requests to executors: bodies in exactly the shape that all of them take.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::names::{GlueType, Strategy};

/// `/run`, or `/trigger` from 3.5 on: twelve fields, none of them null. An unknown one crashes some executors, and a
/// missing one others.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger<'a> {
    /// The job. Executors keep a thread for each.
    pub job: u32,
    /// The name of the handler; empty for a script.
    pub handler: &'a str,
    /// The payload; empty for none.
    pub params: &'a str,
    /// What the executor does if it is busy with the job.
    pub strategy: Strategy,
    /// The timeout in seconds; 0 for none.
    pub timeout: u32,
    /// The number that the callback names.
    pub log: u64,
    /// When it was sent, in milliseconds. Executors file the log under that day.
    pub sent_at: i64,
    /// The kind of the script, or a handler.
    pub glue: GlueType,
    /// The script; empty for a handler.
    pub source: &'a str,
    /// The script's version, in milliseconds. With a new version the executor ends what the job is doing.
    pub glue_changed_at: i64,
    /// The number of the part of a broadcast, from 0.
    pub index: u32,
    /// Number of parts; 1 for a run that is no broadcast.
    pub total: u32,
    /// The fields for Orth's executors.
    pub orth: Option<Orth>,
}

/// The two fields that Orth adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orth {
    /// How many runs of the job may run at once.
    pub concurrency: u32,
    /// The fire time, in milliseconds; none for a manual run without one.
    pub scheduled_at: Option<i64>,
}

impl Serialize for Trigger<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let length = if self.orth.is_some() { 14 } else { 12 };
        let mut fields = serializer.serialize_struct("Trigger", length)?;
        fields.serialize_field("jobId", &self.job)?;
        fields.serialize_field("executorHandler", self.handler)?;
        fields.serialize_field("executorParams", self.params)?;
        fields.serialize_field("executorBlockStrategy", self.strategy.name())?;
        fields.serialize_field("executorTimeout", &self.timeout)?;
        fields.serialize_field("logId", &self.log)?;
        fields.serialize_field("logDateTime", &self.sent_at)?;
        fields.serialize_field("glueType", self.glue.name())?;
        fields.serialize_field("glueSource", self.source)?;
        fields.serialize_field("glueUpdatetime", &self.glue_changed_at)?;
        fields.serialize_field("broadcastIndex", &self.index)?;
        fields.serialize_field("broadcastTotal", &self.total)?;
        if let Some(orth) = self.orth {
            fields.serialize_field("executorConcurrency", &orth.concurrency)?;
            fields.serialize_field("scheduleTime", &orth.scheduled_at)?;
        }
        fields.end()
    }
}

impl Trigger<'_> {
    /// Writes it to a body.
    pub fn write(&self, body: &mut Vec<u8>) {
        serde_json::to_writer(body, self).expect("memory takes everything");
    }
}

/// The other requests to executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Asks whether the executor is alive.
    Beat,
    /// Asks whether the executor is running nothing of this job.
    IdleBeat {
        /// The job.
        job: u32,
    },
    /// Ends everything that the executor is running of this job.
    Kill {
        /// The job.
        job: u32,
    },
    /// Asks for a part of an attempt's log.
    Log {
        /// The number that the attempt was sent with.
        log: u64,
        /// When the attempt was sent, in milliseconds.
        sent_at: i64,
        /// The first line that is wanted, from 1.
        from_line: u64,
    },
}

impl Question {
    /// The path below the executor's address.
    pub fn path(self) -> &'static str {
        match self {
            Question::Beat => "/beat",
            Question::IdleBeat { .. } => "/idleBeat",
            Question::Kill { .. } => "/kill",
            Question::Log { .. } => "/log",
        }
    }

    /// The body. A beat sends `{}`, because some executors fail on an empty body and others on an empty text. The time of a
    /// log has two names, the older of which is misspelt.
    pub fn body(self) -> String {
        match self {
            Question::Beat => "{}".to_owned(),
            Question::IdleBeat { job } | Question::Kill { job } => format!(r#"{{"jobId":{job}}}"#),
            Question::Log { log, sent_at, from_line } => format!(
                r#"{{"logDateTim":{sent_at},"logDateTime":{sent_at},"logId":{log},"fromLineNum":{from_line}}}"#
            ),
        }
    }
}

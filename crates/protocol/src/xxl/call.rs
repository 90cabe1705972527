//! What executors are asked: bodies in exactly the shape that all of them take.

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
    /// What the run brings; empty for nothing.
    pub params: &'a str,
    /// What becomes of runs that meet.
    pub strategy: Strategy,
    /// How many seconds it may take; 0 for any.
    pub timeout: u32,
    /// The number that the callback names.
    pub log: u64,
    /// When it was sent, in milliseconds. Executors file its log under the day of it.
    pub sent_at: i64,
    /// What runs it.
    pub glue: GlueType,
    /// The script; empty for a handler.
    pub source: &'a str,
    /// The script's version, in milliseconds. A change ends whatever the job is doing.
    pub glue_changed_at: i64,
    /// Which part of a broadcast run it is, from 0.
    pub index: u32,
    /// How many parts there are; 1 for a run that has none.
    pub total: u32,
    /// What only Orth's executors know.
    pub orth: Option<Orth>,
}

/// The two fields that Orth adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orth {
    /// How many runs of the job may be beside each other.
    pub concurrency: u32,
    /// The instant that was named for the run, in milliseconds; none if nobody named one.
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
    /// Adds it to what is sent.
    pub fn write(&self, body: &mut Vec<u8>) {
        serde_json::to_writer(body, self).expect("memory takes everything");
    }
}

/// What else executors are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it is there.
    Beat,
    /// Whether it has nothing of this job.
    IdleBeat {
        /// The job.
        job: u32,
    },
    /// To end everything of this job.
    Kill {
        /// The job.
        job: u32,
    },
    /// For a part of an attempt's log.
    Log {
        /// The number that it was sent with.
        log: u64,
        /// When it was sent, to the millisecond.
        sent_at: i64,
        /// The first line that is wanted, from 1.
        from_line: u64,
    },
}

impl Question {
    /// What follows the executor's address.
    pub fn path(self) -> &'static str {
        match self {
            Question::Beat => "/beat",
            Question::IdleBeat { .. } => "/idleBeat",
            Question::Kill { .. } => "/kill",
            Question::Log { .. } => "/log",
        }
    }

    /// What is sent. A beat says `{}`, because nothing at all and an empty text both trip over somebody's JSON reader. The
    /// log's time goes by two names, the older of which is misspelt.
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

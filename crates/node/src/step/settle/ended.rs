//! The end of an attempt or a run, before it is written.

use punctual_core::engine::settle::children;
use punctual_core::model::{
    AttemptOutcome, AttemptRecord, Child, Fence, Job, Origin, RunId, Settlement, Then,
};

use crate::keep::ReportOrigin;
use crate::memory::{Flight, Run};

/// An end that is to be written, and what is to be told about it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(super) settlement: Settlement,
    /// Where the report of it came from, if there is one.
    pub(super) origin: Option<ReportOrigin>,
    /// Jobs whose runs it brings about.
    pub(super) children: Vec<Child>,
    pub(super) failure_limit: u32,
    /// Whether its target said that it is gone for good.
    pub(super) is_gone: bool,
    pub(super) is_part: bool,
}

impl Ended {
    pub(crate) fn new(
        id: RunId,
        run: &Run,
        fence: Fence,
        attempt: Option<AttemptRecord>,
        then: Then,
    ) -> Ended {
        let settlement = Settlement {
            run: id,
            job: run.job,
            shard: run.shard,
            is_foreign: false,
            fence,
            attempt,
            then,
            children: Vec::new(),
            named: None,
            part_of: None,
        };
        let is_part = run.origin == Origin::Part;
        Ended { settlement, origin: None, children: Vec::new(), failure_limit: 0, is_gone: false, is_part }
    }

    /// The end, or the waiting, of a run whose attempt was never sent.
    pub(crate) fn unsent(id: RunId, run: &Run, then: Then) -> Ended {
        Ended::new(id, run, Fence::Unsent(run.attempt), None, then)
    }

    /// The end of an attempt that was sent.
    pub(crate) fn sent(id: RunId, run: &Run, attempt: AttemptRecord, then: Then) -> Ended {
        Ended::new(id, run, Fence::Sent(attempt.number, attempt.token), Some(attempt), then)
    }

    /// The end of an attempt in flight that was not reported. Its record may say less than the key under which it is
    /// written.
    pub(crate) fn by_us(id: RunId, run: &Run, flight: &Flight, attempt: AttemptRecord, then: Then) -> Ended {
        Ended::new(id, run, Fence::Sent(flight.attempt, flight.token), Some(attempt), then)
    }

    /// Adds what its job wants to follow.
    #[must_use]
    pub(crate) fn following(mut self, job: &Job, run: &Run) -> Ended {
        if self.is_part {
            // What follows is decided for the whole.
            return self;
        }
        self.settlement.named = (run.origin == Origin::Schedule).then_some(run.fire_time);
        if let Then::Close(close) = &self.settlement.then {
            self.children = children(job, close.outcome).copied().collect();
        }
        self.failure_limit = job.definition.failure_limit;
        self
    }

    /// Whether an attempt is given up although its end was not reported.
    pub(super) fn gives_up(&self) -> bool {
        let outcome = self.settlement.attempt.as_ref().map(|attempt| attempt.outcome);
        self.origin.is_none() && matches!(outcome, Some(AttemptOutcome::Lost | AttemptOutcome::TimedOut))
    }

    pub(crate) fn foreign(mut self, is_foreign: bool) -> Ended {
        self.settlement.is_foreign = is_foreign;
        self
    }
}

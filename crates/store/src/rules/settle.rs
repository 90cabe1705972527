//! Settling: the end of an attempt or of a run, with all that follows.

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, Fence, JobId, Join, RunId, Schedule, Settlement, StoppedReason, Then,
};
use punctual_node::ports::{ArrivalKind, Counts, Settled};

use super::run_progress::WaitRow;
use super::unit_of_work::{CloseRow, UnitOfWork};

/// What was decided about a settlement.
#[derive(Debug)]
pub(crate) enum SettleVerdict {
    Stale,
    Done {
        job: JobId,
        /// Failures in a row among the counts that the unit of work knows.
        failures: u32,
        /// Whether these follow a success, so that earlier failures do not count.
        is_after_success: bool,
        is_over: bool,
        joined: Option<(RunId, Join)>,
    },
}

impl SettleVerdict {
    /// The job whose failures the answer tells.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            SettleVerdict::Stale => None,
            SettleVerdict::Done { job, .. } => Some(*job),
        }
    }

    /// The answer. `unread_failures` counts the failures in a row before this batch, which the unit of work did not read.
    pub(crate) fn answer(self, unread_failures: impl FnOnce(JobId) -> u32) -> Settled {
        let SettleVerdict::Done { job, failures, is_after_success, is_over, joined } = self else {
            return Settled::Stale;
        };
        let unread = if is_after_success { 0 } else { unread_failures(job) };
        Settled::Done { consecutive_failures: unread + failures, is_over, joined }
    }
}

/// The attempt that a run is closed in place of, if the run was not sent.
pub(crate) fn unsent(fence: Fence) -> Option<Attempt> {
    match fence {
        Fence::Unsent(attempt) => Some(attempt),
        Fence::Sent(_, _) => None,
    }
}

/// The instant that a settlement brings to its end, and when: the clock of a fixed delay may wait for it. The end of a part is
/// not that of its instant: the clock waits for the whole.
pub(crate) fn ended_instant(settlement: &Settlement) -> Option<(Timestamp, Timestamp)> {
    match (settlement.named, &settlement.then) {
        (Some(named), Then::Close(close)) if settlement.part_of.is_none() => Some((named, close.closed_at)),
        _ => None,
    }
}

/// Where a fixed delay goes from the end of its run, and nowhere if it is over; none for any other schedule.
pub(crate) fn next_of_delay(schedule: &Schedule, closed_at: Timestamp) -> Option<Option<Timestamp>> {
    schedule.is_delay().then(|| schedule.after_end(closed_at))
}

impl<'v> UnitOfWork<'v> {
    pub(crate) fn settle(&mut self, settlement: &'v Settlement) -> SettleVerdict {
        let Settlement { run: id, fence, attempt, then, children, is_foreign, part_of, .. } = settlement;
        let (id, attempt) = (*id, attempt.as_ref());
        let Some(run) = self.runs.get(&id).filter(|run| run.progress.admits(*fence)) else {
            return SettleVerdict::Stale;
        };
        let (job, shard) = (run.job, run.shard);
        if let Then::Park { version, .. } = then
            && self.clocks.get(&job).is_none_or(|clock| clock.version != *version)
        {
            return SettleVerdict::Stale;
        }
        let mut joined = None;
        match then {
            Then::Close(close) => {
                let row = CloseRow { run: id, close, unsent: unsent(*fence), attempt };
                match part_of {
                    Some(whole) => joined = self.close_part(row, *whole),
                    None => self.close(row),
                }
            }
            // A run that goes on keeps the key free: the attempt that was put off is still to be gated.
            Then::Wait { ready_at, attempt: next } => {
                self.keep_attempt(id, attempt);
                if self.has_only_turns(id) {
                    self.free_holds(id);
                }
                let wait = WaitRow { ready_at: Some(*ready_at), attempt: *next, is_called_back: false };
                self.edit(id, |progress| progress.wait = Some(wait));
            }
            // When the run is called back, its next gate asks for places again.
            Then::Park { attempt: next, .. } => {
                self.keep_attempt(id, attempt);
                self.free_holds(id);
                let wait = WaitRow { ready_at: None, attempt: *next, is_called_back: false };
                self.edit(id, |progress| progress.wait = Some(wait));
            }
        }
        if *is_foreign {
            self.leave(shard, ArrivalKind::Run(id));
        }
        for child in children {
            if let Ok(id) = self.insert(child) {
                self.leave(child.shard, ArrivalKind::Run(id));
            }
        }
        let is_over =
            ended_instant(settlement).is_some_and(|(named, closed_at)| self.go_on(job, named, closed_at));
        let counts = self.counts.get(&job).cloned().unwrap_or_default();
        let Counts { consecutive_failures: failures, last_success, .. } = counts;
        SettleVerdict::Done { job, failures, is_after_success: last_success.is_some(), is_over, joined }
    }

    /// Whether a run was never sent. It has no places then, only turns, and others need not wait until it asks again.
    fn has_only_turns(&self, id: RunId) -> bool {
        self.runs.get(&id).is_some_and(|run| run.progress.gates.is_empty())
    }

    fn keep_attempt(&mut self, id: RunId, attempt: Option<&'v AttemptRecord>) {
        if let Some(record) = attempt {
            self.writes.attempts.insert((id, record.number), record);
        }
    }

    /// Sets the clock of a fixed delay that waits for the end of just this run, or says that it is over and stops it.
    fn go_on(&mut self, id: JobId, named: Timestamp, closed_at: Timestamp) -> bool {
        let Some(clock) = self.clocks.get_mut(&id) else { return false };
        let is_awaited = clock.is_enabled && clock.next_fire.is_none() && clock.reserved == named;
        let Some(definition) = clock.definition.as_ref().filter(|_| is_awaited) else { return false };
        let Some(next) = next_of_delay(&definition.schedule, closed_at) else { return false };
        clock.next_fire = next;
        self.writes.clocks.insert(id);
        if next.is_none() {
            self.stop(id, StoppedReason::Finished);
        }
        next.is_none()
    }
}

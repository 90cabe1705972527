//! Settling: the end of an attempt or of a run, with all that follows.

use calendar::Timestamp;
use punctual_core::model::{Fence, JobId, NewRun, Settlement, StoppedReason, Then};
use punctual_node::ports::{ArrivalKind, Settled};

use super::state::{GateKey, State, StoredRun, Wait};

impl State {
    pub(super) fn settle(&mut self, now: Timestamp, settlement: Settlement) -> Settled {
        let Settlement { run: id, fence, attempt, then, children, named, is_foreign, part_of, .. } =
            settlement;
        let closed_at = match &then {
            Then::Close(close) => Some(close.closed_at),
            Then::Wait { .. } | Then::Park { .. } => None,
        };
        let Some(run) = self.runs.get(&id).filter(|run| holds(run, fence)) else { return Settled::Stale };
        let NewRun { job, shard, .. } = run.new;
        if let Then::Park { version, .. } = then
            && self.jobs.get(&job).is_none_or(|job| job.version != version)
        {
            return Settled::Stale;
        }
        if let Some(record) = attempt {
            self.edit_run(id, |run| drop(run.attempts.insert(record.number, record)));
        }
        let mut joined = None;
        match then {
            Then::Close(close) => {
                if let Fence::Unsent(attempt) = fence {
                    self.edit_run(id, |run| drop(run.gates.insert(attempt, GateKey::Unsent)));
                }
                match part_of {
                    Some(whole) => joined = self.close_part(id, close, whole),
                    None => self.close(id, close),
                }
            }
            // A run that goes on keeps the key free: the attempt that was put off is still to be gated.
            Then::Wait { ready_at, attempt } => {
                // It was never sent, so it waits in lines at most.
                if self.runs[&id].gates.is_empty() {
                    self.free_holds(id);
                }
                self.edit_run(id, |run| {
                    run.wait = Some(Wait { ready_at: Some(ready_at), attempt, is_called_back: false })
                });
            }
            // Whatever it is called back for, it will ask for its places again.
            Then::Park { attempt, .. } => {
                self.free_holds(id);
                self.edit_run(id, |run| {
                    run.wait = Some(Wait { ready_at: None, attempt, is_called_back: false })
                });
            }
        }
        if is_foreign {
            self.leave(shard, ArrivalKind::Run(id));
        }
        for child in children {
            let shard = child.shard;
            if let Ok(id) = self.insert(now, child) {
                self.leave(shard, ArrivalKind::Run(id));
            }
        }
        // The clock of a delay waits for the end of the whole.
        let named = named.filter(|_| part_of.is_none());
        let is_over =
            named.zip(closed_at).is_some_and(|(named, closed_at)| self.go_on(job, named, closed_at));
        let consecutive_failures = self.counts.get(&job).map_or(0, |counts| counts.consecutive_failures);
        Settled::Done { consecutive_failures, is_over, joined }
    }

    /// Sets the clock of a fixed delay that waits for the end of just this run, or says that it is over and stops it.
    fn go_on(&mut self, id: JobId, named: Timestamp, closed_at: Timestamp) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        let is_awaited = job.state.is_enabled() && job.next_fire.is_none() && job.planned.reserved == named;
        if !is_awaited || !job.definition.schedule.is_delay() {
            return false;
        }
        let next = job.definition.schedule.after_end(closed_at);
        match next {
            Some(_) => self.edit_job(id, |job| job.next_fire = next),
            None => self.stop(id, StoppedReason::Finished),
        }
        next.is_none()
    }
}

fn holds(run: &StoredRun, fence: Fence) -> bool {
    if run.close.is_some() || run.is_beyond(fence.attempt()) {
        return false;
    }
    match fence {
        Fence::Unsent(attempt) => !run.gates.contains_key(&attempt),
        Fence::Sent(attempt, token) => match run.gates.get(&attempt) {
            Some(GateKey::Sent(send)) => send.token == token,
            Some(GateKey::Unsent) => false,
            None => run.reaches(attempt),
        },
    }
}

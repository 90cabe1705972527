//! Settling: the end of an attempt or of a run, with all that follows.

use calendar::Timestamp;
use punctual_core::model::{Fence, JobId, Settlement, StoppedReason, Then};
use punctual_node::ports::{ArrivalKind, Settled};

use super::Postgres;
use super::gather::Wanted;
use super::line::Line;
use super::sheet::{Key, RunNow, Sheet, Wait};
use super::trouble::Trouble;

impl Postgres {
    pub(super) async fn try_settle(
        &self,
        line: &Line<'_>,
        settlements: &[Settlement],
    ) -> Result<Vec<Settled>, Trouble> {
        let mut wanted = Wanted::default();
        for settlement in settlements {
            wanted.runs.insert(settlement.run);
            wanted.counts.insert(settlement.job);
            wanted.fresh.extend(&settlement.children);
            wanted.wholes.extend(settlement.part_of);
            // The run may be one that only comes with this batch.
            wanted.counts.extend(settlement.children.iter().map(|child| child.job));
            if settlement.named.is_some() || matches!(settlement.then, Then::Park { .. }) {
                wanted.clocks_of.insert(settlement.run);
                wanted.clocks.extend(settlement.children.iter().map(|child| child.job));
            }
        }
        let mut sheet = self.gather(line, &wanted).await?;
        if sheet.runs.values().any(|run| !wanted.counts.contains(&run.job)) {
            // Somebody is mistaken about the job of a run. What is counted is what the run says.
            line.run("rollback").await?;
            wanted.counts_of_runs = true;
            sheet = self.gather(line, &wanted).await?;
        }
        let answers = settlements.iter().map(|settlement| sheet.settle(settlement.clone())).collect();
        self.flush(line, &sheet).await?;
        Ok(answers)
    }
}

impl Sheet {
    fn settle(&mut self, settlement: Settlement) -> Settled {
        let Settlement { run: id, fence, attempt, then, children, named, is_foreign, part_of, .. } =
            settlement;
        let closed_at = match &then {
            Then::Close(close) => Some(close.closed_at),
            Then::Wait { .. } | Then::Park { .. } => None,
        };
        let Some(run) = self.runs.get(&id).filter(|run| holds(run, fence)) else { return Settled::Stale };
        let (job, shard) = (run.job, run.shard);
        if let Then::Park { version, .. } = then
            && self.clocks.get(&job).is_none_or(|clock| clock.version != version)
        {
            return Settled::Stale;
        }
        let mut joined = None;
        match then {
            Then::Close(close) => {
                let unsent = match fence {
                    Fence::Unsent(attempt) => Some(attempt),
                    Fence::Sent(_, _) => None,
                };
                match part_of {
                    Some(whole) => joined = self.close_part(id, close, unsent, attempt, whole),
                    None => self.close(id, close, unsent, attempt),
                }
            }
            // A run that goes on keeps the key free: the attempt that was put off is still to be gated.
            Then::Wait { ready_at, attempt: next } => {
                self.keep_attempt(id, attempt);
                let wait = Wait { ready_at: Some(ready_at), attempt: next, is_called_back: false };
                self.edit(id, |run| run.wait = Some(wait));
            }
            // Whatever it is called back for, it will ask for its places again.
            Then::Park { attempt: next, .. } => {
                self.keep_attempt(id, attempt);
                self.free_holds(id);
                let wait = Wait { ready_at: None, attempt: next, is_called_back: false };
                self.edit(id, |run| run.wait = Some(wait));
            }
        }
        if is_foreign {
            self.leave(shard, ArrivalKind::Run(id));
        }
        for child in children {
            let shard = child.shard;
            if let Ok(id) = self.insert(child) {
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

    fn keep_attempt(
        &mut self,
        id: punctual_core::model::RunId,
        attempt: Option<punctual_core::model::AttemptRecord>,
    ) {
        if let Some(record) = attempt {
            self.writes.attempts.insert((id, record.number), record);
        }
    }

    /// Sets the clock of a fixed delay that waits for the end of just this run, or says that it is over and stops it.
    fn go_on(&mut self, id: JobId, named: Timestamp, closed_at: Timestamp) -> bool {
        let Some(clock) = self.clocks.get_mut(&id) else { return false };
        let is_awaited = clock.is_enabled && clock.next_fire.is_none() && clock.reserved == named;
        let Some(definition) = clock.definition.as_ref().filter(|_| is_awaited) else { return false };
        if !definition.schedule.is_delay() {
            return false;
        }
        let next = definition.schedule.after_end(closed_at);
        clock.next_fire = next;
        self.writes.clocks.insert(id);
        if next.is_none() {
            self.stop(id, StoppedReason::Finished);
        }
        next.is_none()
    }
}

fn holds(run: &RunNow, fence: Fence) -> bool {
    if run.is_closed || run.is_beyond(fence.attempt()) {
        return false;
    }
    match fence {
        Fence::Unsent(attempt) => !run.gates.contains_key(&attempt),
        Fence::Sent(attempt, token) => match run.gates.get(&attempt) {
            Some(Key::Sent(there, _)) => *there == token,
            Some(Key::Unsent) => false,
            None => run.reaches(attempt),
        },
    }
}

//! Loading: what a holder has to fire, what it has to adopt, and whole runs for sends.

use std::iter::successors;

use calendar::Timestamp;
use punctual_core::model::{JobId, RunId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Adopted, Lease, Loaded, OpenSend, RunRow, StoreError, Unpark, Waiting};

use super::leases::shards_of;
use super::merge::least;
use super::state::{State, StoredRun, Wait};
use super::view::waiting;

impl State {
    pub(super) fn load(
        &self,
        now: Timestamp,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError> {
        self.check(now, leases)?;
        if until <= from.due {
            return Ok(Loaded { runs: Vec::new(), rest: None });
        }
        let of_shard = |shard: ShardId| {
            let range = (shard, from.due, RunId(from.id))..(shard, until, RunId(0));
            let place = |(_, ready_at, run): &(ShardId, Timestamp, RunId)| (*ready_at, *run);
            [self.births.range(range.clone()).map(place), self.waits.range(range).map(place)]
        };
        let sources = shards_of(leases).into_iter().flat_map(of_shard).collect();
        // One more than asked for, to know where the rest begins.
        let mut places = least(sources, max.saturating_add(1));
        let rest = places.get(max).map(|(ready_at, run)| Mark { due: *ready_at, id: run.0 });
        places.truncate(max);
        Ok(Loaded { runs: places.iter().map(|(_, run)| waiting(&self.runs[run])).collect(), rest })
    }

    pub(super) fn adopt(&self, now: Timestamp, leases: &[Lease]) -> Result<Adopted, StoreError> {
        self.check(now, leases)?;
        let mut adopted = Adopted::default();
        for shard in shards_of(leases) {
            let sent = self.sent.range((shard, RunId(0))..=(shard, RunId(u64::MAX)));
            adopted.sends.extend(sent.filter_map(|(_, run)| open_send(&self.runs[run])));
            adopted.parked.extend(self.parked_jobs(shard));
        }
        Ok(adopted)
    }

    /// The jobs that have parked runs on a shard, at the cost of those jobs, not of the runs.
    fn parked_jobs(&self, shard: ShardId) -> impl Iterator<Item = (ShardId, JobId)> {
        let first_from = move |job: JobId| {
            let found = self.parked.range((shard, job, Timestamp::MIN, RunId(0))..).next()?;
            (found.0 == shard).then_some((shard, found.1))
        };
        successors(first_from(JobId(0)), move |(_, job)| first_from(JobId(job.0.checked_add(1)?)))
    }

    /// The earliest parked runs of some jobs on a shard, made ready.
    pub(super) fn unpark(&mut self, unpark: &Unpark) -> Vec<(JobId, RunId)> {
        let shard = unpark.lease.shard;
        let of_job = |(job, max): &(JobId, usize)| {
            let all =
                (shard, *job, Timestamp::MIN, RunId(0))..=(shard, *job, Timestamp::MAX, RunId(u64::MAX));
            self.parked.range(all).take(*max).map(|(_, job, due, run)| (*due, *run, *job)).collect::<Vec<_>>()
        };
        let mut earliest: Vec<(Timestamp, RunId, JobId)> = unpark.jobs.iter().flat_map(of_job).collect();
        earliest.sort_unstable();
        earliest.truncate(unpark.max);
        for (_, run, _) in &earliest {
            self.edit_run(*run, |run| {
                let at = unpark.at;
                run.wait = run.wait.map(|wait| Wait { ready_at: Some(at), is_called_back: true, ..wait });
            });
        }
        earliest.into_iter().map(|(_, run, job)| (job, run)).collect()
    }

    pub(super) fn run_row(&self, id: RunId) -> Option<RunRow> {
        let run = self.runs.get(&id)?;
        Some(RunRow {
            waiting: waiting(run),
            payload: run.new.payload.clone(),
            is_gated: run.last_send().is_some(),
            is_parked: run.wait.is_some_and(|wait| wait.ready_at.is_none()),
            is_closed: run.close.is_some(),
            part: run.new.of.zip(run.part.clone()),
        })
    }
}

fn open_send(run: &StoredRun) -> Option<OpenSend> {
    let (attempt, send) = run.last_send()?;
    Some(OpenSend {
        run: Waiting { attempt, ready_at: run.new.due, ..waiting(run) },
        token: send.token,
        log: send.log,
        sent_at: send.sent_at,
        executor: send.executor.clone(),
        retry: run.wait.and_then(|wait| Some((wait.ready_at?, wait.attempt))),
        join: run.join,
    })
}

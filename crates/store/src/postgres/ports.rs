//! The ports, each verb as a try that is repeated when others were faster, or asked of the copy when the primary is away.

use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{
    Attempt, ChangeId, JobId, LogId, NewRun, NodeId, RunId, Settlement, ShardId, Text,
};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Accepted, Acquired, Adopted, AppRow, Apps, Arrival, ArrivalKind, Beat, Begun, Browse, Bucket, Change,
    Changed, ClockRow, Counts, Digest, Door, Enqueued, Gate, Gated, JobFilter, JobName, JobRow, JobView,
    Keep, KeptAnswer, KeptLog, KillNote, Lease, Loaded, Logs, OpenRuns, Page, Paused, Plan, Planned, Pruned,
    Registered, Remain, Renewal, Renewed, RequestKey, Revision, RunFilter, RunRow, RunView, SentRow, Settled,
    Soonest, Split, Store, StoreError, Thinned, TokenRow, Unpark,
};

use super::Postgres;
use super::run_row::{OUTLINE, WHOLE};
use super::trouble::Trouble;
use crate::together::{Answer, Writer};

/// Tries a verb of the engine until it has an answer.
macro_rules! engine {
    ($store:ident, |$line:ident| $try:expr) => {{
        let mut tries = 0;
        loop {
            let $line = $store.engine.line().await.map_err(Trouble::told_undone)?;
            let answer = $try.await;
            if let Some(answer) = $store.judge($line, answer, &mut tries).await {
                break answer;
            }
        }
    }};
}

/// Asks a person's question of the primary, and of the copy if the primary is away.
macro_rules! people {
    ($store:ident, |$line:ident| $read:expr) => {{
        let mut tries = 0;
        let mut pool = match &$store.replica {
            Some(replica) if $store.detour.is_next() => replica,
            _ => &$store.readers,
        };
        loop {
            let answer = match pool.line().await {
                Err(trouble) => Err(trouble),
                Ok($line) => {
                    let answer = $read.await;
                    if answer.as_ref().is_err_and(Trouble::is_away) {
                        answer
                    } else if let Some(answer) = $store.judge($line, answer, &mut tries).await {
                        if std::ptr::eq(pool, &$store.readers) {
                            $store.detour.end();
                        }
                        break answer;
                    } else {
                        continue;
                    }
                }
            };
            match (answer, &$store.replica) {
                (Err(trouble), Some(replica)) if trouble.is_away() && std::ptr::eq(pool, &$store.readers) => {
                    $store.detour.begin();
                    pool = replica;
                }
                (answer, _) => break answer.map_err(Trouble::told),
            }
        }
    }};
}

#[async_trait]
impl Writer for Postgres {
    async fn write(&self, runs: &[NewRun], left: &[(ShardId, ArrivalKind)]) -> Answer {
        engine!(self, |line| self.try_accept(&line, runs, left))
    }
}

#[async_trait]
impl Store for Postgres {
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        engine!(self, |line| self.try_renew(&line, &renewal))
    }

    async fn acquire(&self, node: NodeId, shards: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError> {
        engine!(self, |line| self.try_acquire(&line, node, &shards))
    }

    async fn release(&self, node: NodeId, leases: Vec<Lease>, mark: Timestamp) -> Result<(), StoreError> {
        engine!(self, |line| self.try_release(&line, node, &leases, mark))
    }

    async fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Result<Vec<ClockRow>, StoreError> {
        engine!(self, |line| self.try_due(&line, leases, until, max))
    }

    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, StoreError> {
        engine!(self, |line| self.try_jobs(&line, ids))
    }

    async fn plan(&self, plans: Vec<Plan>) -> Result<Vec<Planned>, StoreError> {
        engine!(self, |line| self.try_plan(&line, &plans))
    }

    async fn load(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError> {
        engine!(self, |line| self.try_load(&line, leases, from, until, max))
    }

    async fn adopt(&self, leases: &[Lease]) -> Result<Adopted, StoreError> {
        engine!(self, |line| self.try_adopt(&line, leases))
    }

    async fn unpark(&self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError> {
        engine!(self, |line| self.try_unpark(&line, unpark))
    }

    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        engine!(self, |line| self.try_fetch(&line, runs, WHOLE))
    }

    async fn outline(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        engine!(self, |line| self.try_fetch(&line, runs, OUTLINE))
    }

    async fn gate(&self, gates: Vec<Gate>) -> Result<Vec<Gated>, StoreError> {
        engine!(self, |line| self.try_gate(&line, &gates))
    }

    async fn split(&self, splits: Vec<Split>) -> Result<Vec<Gated>, StoreError> {
        engine!(self, |line| self.try_split(&line, &splits))
    }

    async fn sent(&self, logs: &[LogId]) -> Result<Vec<SentRow>, StoreError> {
        engine!(self, |line| self.try_sent(&line, logs))
    }

    async fn open_parts(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        engine!(self, |line| self.try_open_parts(&line, run))
    }

    async fn open_runs(&self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, StoreError> {
        engine!(self, |line| self.try_open_runs(&line, job, after, max))
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        engine!(self, |line| self.try_settle(&line, &settlements))
    }

    async fn allot(&self, day: u32, count: u64) -> Result<u64, StoreError> {
        engine!(self, |line| self.try_allot(&line, day, count))
    }

    async fn accept(
        &self,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        self.together.accept(self, runs, left).await
    }

    async fn arrivals(&self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, StoreError> {
        engine!(self, |line| self.try_arrivals(&line, leases, max))
    }

    async fn consume(&self, arrivals: &[u64]) -> Result<(), StoreError> {
        engine!(self, |line| self.try_consume(&line, arrivals))
    }

    async fn enqueued(&self, max: usize) -> Result<Vec<Enqueued>, StoreError> {
        engine!(self, |line| self.try_enqueued(&line, max))
    }

    async fn refuse(&self, refused: Vec<(u64, Text)>) -> Result<(), StoreError> {
        engine!(self, |line| self.try_refuse(&line, &refused))
    }

    async fn change(&self, change: Change) -> Result<Changed, StoreError> {
        engine!(self, |line| self.try_change(&line, &change))
    }

    async fn is_in_force(&self, change: ChangeId) -> Result<bool, StoreError> {
        engine!(self, |line| self.try_is_in_force(&line, change))
    }

    async fn prune(&self, keep: &Keep) -> Result<Pruned, StoreError> {
        engine!(self, |line| self.try_prune(&line, keep))
    }

    async fn thin(&self, keep: &Keep, day: u32, from: RunId, max: usize) -> Result<Thinned, StoreError> {
        engine!(self, |line| self.try_thin(&line, keep, day, from, max))
    }
}

#[async_trait]
impl Browse for Postgres {
    fn has_copy(&self) -> bool {
        self.replica.is_some()
    }

    fn is_copy(&self) -> bool {
        self.detour.is_on()
    }

    async fn job(&self, id: JobId) -> Result<Option<JobView>, StoreError> {
        people!(self, |line| self.read_job(&line, id))
    }

    async fn job_named(&self, app: &str, name: &str) -> Result<Option<JobView>, StoreError> {
        people!(self, |line| self.read_job_named(&line, app, name))
    }

    async fn job_list(
        &self,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobView, JobId>, StoreError> {
        people!(self, |line| self.read_job_list(&line, filter, after, limit))
    }

    async fn job_soonest(
        &self,
        filter: &JobFilter,
        after: Option<Soonest>,
        limit: usize,
    ) -> Result<Page<JobView, Soonest>, StoreError> {
        people!(self, |line| self.read_job_soonest(&line, filter, after, limit))
    }

    async fn job_names(&self, ids: &[JobId]) -> Result<Vec<JobName>, StoreError> {
        people!(self, |line| self.read_job_names(&line, ids))
    }

    async fn revisions(&self, job: JobId, after: u64, max: usize) -> Result<Vec<Revision>, StoreError> {
        people!(self, |line| self.read_revisions(&line, job, after, max))
    }

    async fn parts(&self, run: RunId) -> Result<Vec<RunView>, StoreError> {
        people!(self, |line| self.read_parts(&line, run))
    }

    async fn sends(&self, run: RunId) -> Result<Vec<SentRow>, StoreError> {
        people!(self, |line| self.read_sends(&line, run))
    }

    async fn run(&self, id: RunId) -> Result<Option<RunView>, StoreError> {
        people!(self, |line| self.read_run(&line, id))
    }

    async fn run_keyed(&self, job: JobId, key: &str) -> Result<Option<RunId>, StoreError> {
        people!(self, |line| self.read_run_keyed(&line, job, key))
    }

    async fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, StoreError> {
        people!(self, |line| self.read_run_list(&line, filter, before, limit))
    }

    async fn counts(&self, job: Option<JobId>) -> Result<Counts, StoreError> {
        people!(self, |line| self.read_counts(&line, job))
    }

    async fn storage(&self) -> Result<Vec<Bucket>, StoreError> {
        people!(self, |line| self.read_storage(&line))
    }

    async fn job_totals(&self, filter: &JobFilter) -> Result<(u64, u64), StoreError> {
        if filter.is_plain() {
            return people!(self, |line| self.read_job_totals(&line, filter));
        }
        let (mut all, mut enabled, mut after) = (0, 0, None);
        loop {
            let page = self.job_list(filter, after, 1_000).await?;
            all += page.items.len() as u64;
            enabled += page.items.iter().filter(|job| job.state.is_enabled()).count() as u64;
            after = page.next;
            if after.is_none() {
                return Ok((all, enabled));
            }
        }
    }
}

#[async_trait]
impl Door for Postgres {
    async fn peer_secret(&self, drawn: Digest) -> Result<Digest, StoreError> {
        engine!(self, |line| self.try_peer_secret(&line, &drawn))
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        people!(self, |line| self.try_tokens(&line))
    }

    async fn revoke_token(&self, id: u32, remain: Option<&Remain>) -> Result<bool, StoreError> {
        engine!(self, |line| self.try_revoke_token(&line, id, remain))
    }

    async fn begin(&self, key: RequestKey, digest: Digest, now: Timestamp) -> Result<Begun, StoreError> {
        engine!(self, |line| self.try_begin(&line, &key, &digest, now))
    }

    async fn answer(&self, key: RequestKey, answer: Option<KeptAnswer>) -> Result<(), StoreError> {
        engine!(self, |line| self.try_answer(&line, &key, answer.as_ref()))
    }

    async fn add_token(&self, token: TokenRow) -> Result<u32, StoreError> {
        let added = engine!(self, |line| self.try_add_token(&line, &token, false))?;
        added.ok_or_else(|| StoreError::Full("no more token numbers".into()))
    }

    async fn add_first_token(&self, token: TokenRow) -> Result<bool, StoreError> {
        let added = engine!(self, |line| self.try_add_token(&line, &token, true))?;
        Ok(added.is_some())
    }

    async fn forget_requests(&self, before: Timestamp) -> Result<(), StoreError> {
        while engine!(self, |line| self.try_forget_requests(&line, before))? {}
        Ok(())
    }
}

#[async_trait]
impl Apps for Postgres {
    async fn registered(&self) -> Result<Registered, StoreError> {
        engine!(self, |line| self.try_registered(&line))
    }

    async fn beat(&self, beats: Vec<Beat>) -> Result<(), StoreError> {
        engine!(self, |line| self.try_beat(&line, &beats))
    }

    async fn leave(&self, app: &str, address: &str) -> Result<bool, StoreError> {
        engine!(self, |line| self.try_leave(&line, app, address))
    }

    async fn bury(&self, dead: Duration) -> Result<Vec<(Text, Text)>, StoreError> {
        engine!(self, |line| self.try_bury(&line, dead))
    }

    async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, StoreError> {
        engine!(self, |line| self.try_put_app(&line, &app, expected))
    }

    async fn app(&self, name: &str) -> Result<Option<AppRow>, StoreError> {
        engine!(self, |line| self.try_app(&line, name))
    }

    async fn pause_app(&self, name: &str, paused: Option<Paused>) -> Result<Option<AppRow>, StoreError> {
        engine!(self, |line| self.try_pause_app(&line, name, paused.as_ref()))
    }

    async fn remove_app(&self, name: &str) -> Result<bool, StoreError> {
        engine!(self, |line| self.try_remove_app(&line, name))
    }
}

#[async_trait]
impl Logs for Postgres {
    async fn keep_log(&self, run: RunId, attempt: Attempt, log: KeptLog) -> Result<(), StoreError> {
        engine!(self, |line| self.try_keep_log(&line, run, attempt, &log))
    }

    async fn note_kill(&self, run: RunId, note: KillNote) -> Result<(), StoreError> {
        engine!(self, |line| self.try_note_kill(&line, run, &note))
    }

    async fn log(&self, run: RunId, attempt: Attempt) -> Result<Option<KeptLog>, StoreError> {
        people!(self, |line| self.try_log(&line, run, attempt))
    }

    async fn kills(&self, run: RunId) -> Result<Vec<KillNote>, StoreError> {
        people!(self, |line| self.try_kills(&line, run))
    }
}

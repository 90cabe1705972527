//! Commands about jobs: create, change, start, stop, delete.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::cluster::home;
use punctual_core::engine::plan::{Passed, passed};
use punctual_core::event::Event;
use punctual_core::model::{
    ChangeId, Close, Decided, Definition, Job, JobId, JobMove, JobState, NewRun, Origin, Outcome, RunId,
    Schedule, ScheduleKind, ShardId, Skip, StoppedReason, Text,
};

use super::DeskError;
use super::pause::held_by;
use crate::Node;
use crate::ports::{Change, Changed, ClockEdit, Hint, JobRow, PlannedTo, StoreError};

/// Planning moves clocks all the time, so a change that meets it is tried again.
const TRIES: usize = 20;

impl Node {
    /// Creates a job.
    pub async fn create(
        &self,
        definition: Definition,
        enabled: bool,
        by: Text,
    ) -> Result<Changed, DeskError> {
        let now = self.told_time()?;
        let definition = Definition { schedule: not_past(definition.schedule, now), ..definition };
        let app = definition.app.clone();
        let state = match enabled {
            false => JobState::Stopped(StoppedReason::Asked),
            true if self.is_paused(&app).await? => JobState::Stopped(StoppedReason::AppPaused),
            true => JobState::Enabled,
        };
        let job = Job::compile(JobId(0), 1, now, state, definition.clone(), vec![], &self.zones)?;
        let (state, next_fire) = stand(&job, now);
        let clock = ClockEdit { expected: None, planned: PlannedTo::default(), next_fire, passed: vec![] };
        let definition = Some(definition);
        let change = Change { job: None, definition, state: state.clone(), clock, by: by.clone(), at: now };
        let changed = self.ports.store.change(change).await?;
        self.note_changed(changed);
        self.meet_app(&app).await;
        self.follow_own_app(&app, &state, changed, by).await
    }

    /// Gives a job another definition; refused if `version` is given and is not the job's.
    pub async fn change(
        &self,
        job: JobId,
        version: Option<u64>,
        definition: Definition,
        by: Text,
    ) -> Result<Changed, DeskError> {
        self.alter(job, version, Some(definition), None, by).await
    }

    /// Lets a job fire by itself.
    pub async fn start(&self, job: JobId, by: Text) -> Result<Changed, DeskError> {
        self.alter(job, None, None, Some(JobMove::Start), by).await
    }

    /// Stops a job from firing by itself.
    pub async fn stop(&self, job: JobId, by: Text) -> Result<Changed, DeskError> {
        self.alter(job, None, None, Some(JobMove::Stop(StoppedReason::Asked)), by).await
    }

    /// Deletes a job. Its pending runs are cancelled in the background, by the holder of its shard.
    pub async fn delete(&self, job: JobId, by: Text) -> Result<Changed, DeskError> {
        let changed = self.alter(job, None, None, Some(JobMove::Delete), by).await?;
        let shards = self.memory().shard_count();
        if shards > 0 {
            self.tell_holder(home(job, shards));
        }
        Ok(changed)
    }

    /// Gives a job another definition and another state in one change; what is not given stays. Refused if `version` is
    /// given and is not the job's.
    pub async fn edit(
        &self,
        job: JobId,
        version: Option<u64>,
        definition: Option<Definition>,
        asked: Option<JobMove>,
        by: Text,
    ) -> Result<Changed, DeskError> {
        self.alter(job, version, definition, asked, by).await
    }

    /// Whether a change is in force: no send begins any more under the version before it.
    pub async fn is_in_force(&self, change: ChangeId) -> Result<bool, DeskError> {
        Ok(self.ports.store.is_in_force(change).await?)
    }

    /// Stops a job that cannot or should not go on, unless it is stopped already.
    pub(crate) async fn stop_because(&self, job: JobId, reason: StoppedReason) -> Result<(), StoreError> {
        let by = Text::Borrowed("punctual");
        let is_enabled = |row: JobRow| row.state.is_enabled();
        let changed = match self.read_job(job).await.map(is_enabled) {
            Ok(true) => self.alter(job, None, None, Some(JobMove::Stop(reason.clone())), by).await,
            Ok(false) => return Ok(()),
            Err(error) => Err(error),
        };
        match changed {
            Ok(_) => {
                self.memory().outbox.events.push(Event::JobStopped { job, reason });
                Ok(())
            }
            // The cause of the stop will be met again.
            Err(DeskError::Unknown(reason)) => Err(StoreError::Unknown(reason)),
            Err(_) => Ok(()),
        }
    }

    async fn alter(
        &self,
        id: JobId,
        version: Option<u64>,
        definition: Option<Definition>,
        asked: Option<JobMove>,
        by: Text,
    ) -> Result<Changed, DeskError> {
        let (changed, (app, state)) = self.write_change(id, version, definition, asked, by.clone()).await?;
        self.follow_own_app(&app, &state, changed, by).await
    }

    /// Writes a change of a job; with it, the job's app and state from now on.
    pub(super) async fn write_change(
        &self,
        id: JobId,
        version: Option<u64>,
        definition: Option<Definition>,
        asked: Option<JobMove>,
        by: Text,
    ) -> Result<(Changed, (String, JobState)), DeskError> {
        for _ in 0..TRIES {
            let row = self.read_job(id).await?;
            let before = (row.version, row.next_fire, row.planned);
            if version.is_some_and(|version| version != row.version) {
                let said = format!("job {id} has version {}, not {}", row.version, version.unwrap_or(0));
                return Err(DeskError::Conflict(said.into()));
            }
            let now = self.told_time()?;
            let app = definition.as_ref().unwrap_or(&row.definition).app.clone();
            let change = self.draft_change(row, definition.clone(), asked.clone(), by.clone(), now).await?;
            let state = change.state.clone();
            match self.ports.store.change(change).await {
                Ok(changed) => {
                    self.note_changed(changed);
                    self.meet_app(&app).await;
                    return Ok((changed, (app, state)));
                }
                // The job may have been planned, or changed by another caller, since it was read: then another try
                // helps. If its row is as it was read, its name is taken, or the job would come after itself.
                Err(StoreError::Conflict(reason)) => {
                    let row = self.read_job(id).await?;
                    let is_as_it_was = before == (row.version, row.next_fire, row.planned);
                    if is_as_it_was || version.is_some_and(|version| version != row.version) {
                        return Err(DeskError::Conflict(reason));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(DeskError::Conflict(format!("job {id} is being changed by others; try again").into()))
    }

    async fn draft_change(
        &self,
        row: JobRow,
        definition: Option<Definition>,
        asked: Option<JobMove>,
        by: Text,
        now: Timestamp,
    ) -> Result<Change, DeskError> {
        let (id, version, shard, expected, planned) =
            (row.id, row.version, row.shard, row.next_fire, row.planned);
        // No two changes of a job carry the same instant, also while the clock is held.
        let now = now.max(row.changed_at.saturating_add(Duration::from_millis(1)));
        let gone = || DeskError::NotFound(format!("job {id}").into());
        let state = match asked.clone() {
            Some(asked) => row.state.after(asked).ok_or_else(gone)?,
            None if row.state == JobState::Deleted => return Err(gone()),
            // Whatever the job was stopped for, the new definition is understood or refused.
            None if matches!(
                row.state,
                JobState::Stopped(StoppedReason::Quarantined(_) | StoppedReason::Finished)
            ) =>
            {
                JobState::Enabled
            }
            None => row.state.clone(),
        };
        let state = self.held(state, asked.as_ref(), definition.as_ref().unwrap_or(&row.definition)).await?;
        let was_enabled = row.state.is_enabled();
        let old_definition = row.definition.clone();
        let after = now.max(planned.decided);
        // A new instant that is past means the moment of acceptance, as it does for a new job.
        let definition = definition.map(|new| match new.schedule == old_definition.schedule {
            true => new,
            false => Definition { schedule: not_past(new.schedule, after), ..new },
        });
        let before = self.compile(row).ok().filter(|_| was_enabled);
        let missed = match (&before, expected) {
            (Some(before), Some(next_fire)) => passed(before, next_fire, planned.reserved, now),
            _ => Passed::default(),
        };
        let reason = if definition.is_some() { Skip::JobEdited } else { Skip::JobStopped };
        let passed = self.record_passed(id, shard, missed, reason, now).await?;
        let (state, next_fire) = if state.is_enabled() {
            let wanted = definition.clone().unwrap_or(old_definition);
            stand(&Job::compile(id, version + 1, now, state, wanted, vec![], &self.zones)?, after)
        } else {
            if let Some(definition) = &definition {
                Job::compile(id, version + 1, now, state.clone(), definition.clone(), vec![], &self.zones)?;
            }
            (state, None)
        };
        let clock = ClockEdit { expected, planned, next_fire, passed };
        Ok(Change { job: Some((id, version)), definition, state, clock, by, at: now })
    }

    /// The state that a job may have, given that its app may be paused. Starting the job is refused then; any other
    /// change that would enable it leaves it stopped until the app goes on.
    async fn held(
        &self,
        state: JobState,
        asked: Option<&JobMove>,
        definition: &Definition,
    ) -> Result<JobState, DeskError> {
        if !state.is_enabled() || !self.is_paused(&definition.app).await? {
            return Ok(state);
        }
        match asked {
            Some(JobMove::Start) => Err(held_by(&definition.app)),
            _ => Ok(JobState::Stopped(StoppedReason::AppPaused)),
        }
    }

    /// Records of what passed unplanned, ready to be written with the change.
    async fn record_passed(
        &self,
        job: JobId,
        shard: ShardId,
        missed: Passed,
        reason: Skip,
        now: Timestamp,
    ) -> Result<Vec<(NewRun, Close)>, DeskError> {
        let day_of_range = missed.range.iter().map(|_| now);
        let days: Vec<u32> = missed.singles.iter().copied().chain(day_of_range).map(RunId::day_of).collect();
        let ids = self.draw_ids(&days).await?;
        let closed = |range| Close {
            outcome: Outcome::Skipped,
            reason: Text::Borrowed(reason.name()),
            closed_at: now,
            range,
        };
        let record = |fire_time, decided| NewRun {
            id: RunId::default(),
            job,
            shard,
            fire_time,
            due: fire_time,
            origin: Origin::Schedule,
            decided,
            priority: 9,
            payload: None,
            key: None,
            of: None,
            overrides: None,
        };
        let singles = missed.singles.iter().map(|at| (record(*at, Decided::NotYet), closed(None)));
        let ranges = missed.range.iter().map(|(from, until, count)| {
            let run = NewRun { due: now, ..record(*from, Decided::PassedOver) };
            (run, closed(Some((*until, *count))))
        });
        let named = |(id, (run, close))| (NewRun { id, ..run }, close);
        Ok(ids.into_iter().zip(singles.chain(ranges)).map(named).collect())
    }

    pub(crate) async fn read_job(&self, id: JobId) -> Result<JobRow, DeskError> {
        let mut rows = self.ports.store.jobs(&[id]).await?;
        match rows.pop() {
            Some((_, Ok(row))) if row.state != JobState::Deleted => Ok(row),
            Some((_, Err(error))) => Err(error.into()),
            _ => Err(DeskError::NotFound(format!("job {id}").into())),
        }
    }

    pub(crate) fn told_time(&self) -> Result<Timestamp, DeskError> {
        self.now().ok_or(DeskError::Unknown(Text::Borrowed("this node has not joined yet")))
    }

    /// Memory forgets what it knew of the job, and every other node is told.
    fn note_changed(&self, changed: Changed) {
        let others = {
            let mut memory = self.memory();
            memory.note_change(changed.job);
            memory.outbox.events.push(Event::JobChanged { job: changed.job, version: changed.version });
            memory.outbox.wakes.renew = true;
            memory.outbox.wakes.plan = true;
            let me = memory.cluster.id;
            memory.cluster.nodes.iter().map(|row| row.node).filter(|node| *node != me).collect::<Vec<_>>()
        };
        for node in others {
            self.ports.peers.tell(node, Hint::Changed(changed.change, changed.job));
        }
    }
}

/// The state in which a job begins or goes on, and its first fire time.
fn stand(job: &Job, now: Timestamp) -> (JobState, Option<Timestamp>) {
    if !job.state.is_enabled() {
        return (job.state.clone(), None);
    }
    if job.definition.schedule.kind == ScheduleKind::Manual {
        return (JobState::Enabled, None);
    }
    match job.rule.next_after(now) {
        Some(next) => (JobState::Enabled, Some(next)),
        None => (JobState::Stopped(StoppedReason::Finished), None),
    }
}

/// An instant in the past means the moment of acceptance: the first that comes after what is decided.
fn not_past(schedule: Schedule, now: Timestamp) -> Schedule {
    let soonest = now.saturating_add(Duration::from_millis(1));
    match schedule.kind {
        ScheduleKind::Once { at } => {
            Schedule { kind: ScheduleKind::Once { at: at.max(soonest) }, ..schedule }
        }
        _ => schedule,
    }
}

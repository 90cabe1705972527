//! Changes of jobs by people: definition, state, clock and revision together.

use std::collections::BTreeSet;

use calendar::Timestamp;
use punctual_core::cluster::home;
use punctual_core::model::{ChangeId, Definition, JobId, JobState, Text};
use punctual_node::ports::{ArrivalKind, Change, Changed, PlannedTo, REVISIONS_MAX, Revision, StoreError};

use super::state::{Job, State};

impl State {
    pub(super) fn change(&mut self, now: Timestamp, change: Change) -> Result<Changed, StoreError> {
        let parents = self.parents(&change);
        let id = match change.job {
            None => self.create(&change)?,
            Some((id, version)) => self.edit(id, version, &change)?,
        };
        for (run, close) in change.clock.passed {
            self.insert_closed(now, run, close);
        }
        for parent in parents {
            self.log_change(parent);
        }
        if self.jobs[&id].state == JobState::Deleted {
            self.leave(self.jobs[&id].shard, ArrivalKind::Deleted(id));
        }
        let change = ChangeId(self.log_change(id));
        Ok(Changed { job: id, version: self.jobs[&id].version, change })
    }

    /// The jobs that a job comes after, or came after before a change.
    fn parents(&self, change: &Change) -> BTreeSet<JobId> {
        let is_moved = change.definition.is_some() || change.state == JobState::Deleted;
        let before = change.job.and_then(|(id, _)| self.jobs.get(&id)).filter(|_| is_moved);
        let before = before.into_iter().flat_map(|job| &job.definition.after);
        let after = change.definition.iter().flat_map(|definition| &definition.after);
        before.chain(after).map(|parent| parent.job).collect()
    }

    fn create(&mut self, change: &Change) -> Result<JobId, StoreError> {
        let definition = change.definition.clone().ok_or_else(|| conflict("a new job needs a definition"))?;
        self.check_name(None, &definition)?;
        let id = JobId(self.jobs.last_key_value().map_or(0, |(last, _)| last.0) + 1);
        let job = Job {
            id,
            version: 0,
            shard: home(id, self.shards.len() as u16),
            next_fire: None,
            planned: PlannedTo::default(),
            changed_at: change.at,
            state: JobState::Deleted,
            definition,
            revisions: Vec::new(),
            defaced: None,
        };
        self.jobs.insert(id, job);
        self.write(id, change);
        Ok(id)
    }

    fn edit(&mut self, id: JobId, version: u64, change: &Change) -> Result<JobId, StoreError> {
        let job = self.jobs.get(&id).filter(|job| job.state != JobState::Deleted);
        let job = job.ok_or_else(|| conflict(format!("there is no job {id}")))?;
        if job.version != version {
            return Err(conflict(format!("job {id} has version {}, not {version}", job.version)));
        }
        if (job.next_fire, job.planned) != (change.clock.expected, change.clock.planned) {
            return Err(conflict(format!("the clock of job {id} was moved")));
        }
        if let Some(definition) = &change.definition {
            self.check_name(Some(id), definition)?;
        }
        self.check_circle(id, change)?;
        self.unlink(id);
        self.write(id, change);
        Ok(id)
    }

    fn check_name(&self, id: Option<JobId>, definition: &Definition) -> Result<(), StoreError> {
        let (app, name) = (&definition.app, &definition.name);
        match self.names.get(&(app.clone(), name.clone())) {
            Some(there) if Some(*there) != id => Err(conflict(format!("job {there} is named {app}/{name}"))),
            _ => Ok(()),
        }
    }

    /// Refuses to let a job come after itself, directly or through other jobs.
    fn check_circle(&self, id: JobId, change: &Change) -> Result<(), StoreError> {
        let Some(definition) = change.definition.as_ref().filter(|_| change.state != JobState::Deleted)
        else {
            return Ok(());
        };
        let mut before = BTreeSet::new();
        let mut definitions = vec![definition];
        while let Some(definition) = definitions.pop() {
            for parent in &definition.after {
                if before.insert(parent.job) {
                    let parent = self.jobs.get(&parent.job).filter(|job| job.state != JobState::Deleted);
                    definitions.extend(parent.map(|job| &job.definition));
                }
            }
        }
        if before.contains(&id) {
            let said = format!("job {id} would come after itself, directly or through other jobs");
            return Err(conflict(said));
        }
        Ok(())
    }

    fn write(&mut self, id: JobId, change: &Change) {
        self.edit_job(id, |job| {
            job.version += 1;
            job.changed_at = change.at;
            // What passed before it is recorded with it.
            job.planned.decided = job.planned.decided.max(change.at);
            job.state = change.state.clone();
            job.next_fire = change.clock.next_fire;
            if let Some(definition) = change.definition.clone() {
                let revision =
                    Revision { version: job.version, at: change.at, by: change.by.clone(), definition };
                job.definition = revision.definition.clone();
                job.revisions.push(revision);
                let old = job.revisions.len().saturating_sub(REVISIONS_MAX);
                job.revisions.drain(..old);
            }
        });
        self.link(id);
    }

    /// Makes a job findable by its name, by its parents and by its app; a deleted job is found by none of them.
    fn link(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        if job.state != JobState::Deleted {
            let app = job.definition.app.clone();
            self.names.insert((job.definition.app.clone(), job.definition.name.clone()), id);
            self.children.extend(job.definition.after.iter().map(|parent| (parent.job, id, parent.when)));
            self.ensure_app(&app);
        }
    }

    fn unlink(&mut self, id: JobId) {
        let definition = &self.jobs[&id].definition;
        self.names.remove(&(definition.app.clone(), definition.name.clone()));
        for parent in &definition.after {
            self.children.remove(&(parent.job, id, parent.when));
        }
    }

    pub(super) fn poison_job(&mut self, id: JobId, edit: impl FnOnce(&mut Definition)) {
        if self.jobs.contains_key(&id) {
            self.unlink(id);
            self.edit_job(id, |job| edit(&mut job.definition));
            self.link(id);
        }
    }
}

fn conflict(said: impl Into<Text>) -> StoreError {
    StoreError::Conflict(said.into())
}

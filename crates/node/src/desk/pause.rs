//! Pausing an app: its jobs stop, what is stored for them waits, and a job that would start meanwhile does not.
//!
//! First it is written that the app is paused, and then its jobs are stopped, one change each; whoever enables a job looks
//! at the app after that is written. So of the two, whoever comes second sees the other, and no job slips through.

use punctual_core::model::{JobMove, JobState, StoppedReason, Text};

use super::DeskError;
use crate::Node;
use crate::memory::Memory;
use crate::ports::{AppRow, Changed, Paused};

impl Node {
    /// Writes down that an app is paused. From now on no job of it starts; those that are enabled are stopped by whoever asks,
    /// with [`StoppedReason::AppPaused`].
    pub async fn pause_app(&self, name: &str, by: Text, reason: Text) -> Result<AppRow, DeskError> {
        let paused = Paused { since: self.told_time()?, by, reason };
        self.set_paused(name, Some(paused)).await
    }

    /// Writes down that an app is not paused. Its jobs may start from now on; those that the pause has stopped are started
    /// by whoever asks, with [`JobMove::Resume`].
    pub async fn resume_app(&self, name: &str) -> Result<AppRow, DeskError> {
        self.set_paused(name, None).await
    }

    async fn set_paused(&self, name: &str, paused: Option<Paused>) -> Result<AppRow, DeskError> {
        let app = self.ports.apps.pause_app(name, paused).await?;
        let app = app.ok_or_else(|| DeskError::NotFound(format!("app {name}").into()))?;
        self.note_app(&app);
        Ok(app)
    }

    /// Whether an app is paused. Memory learns late that it is no longer, so the store has the last word.
    pub(super) async fn is_paused(&self, app: &str) -> Result<bool, DeskError> {
        let may_be = self.memory().executors.paused.contains_key(app);
        Ok(may_be && self.is_surely_paused(app).await?)
    }

    async fn is_surely_paused(&self, app: &str) -> Result<bool, DeskError> {
        Ok(self.ports.apps.app(app).await?.is_some_and(|app| app.paused.is_some()))
    }

    /// After a job of an app was written in a state: the app may have been paused or resumed meanwhile, by who could not
    /// see the job yet.
    pub(super) async fn follow_app(
        &self,
        app: &str,
        state: &JobState,
        changed: Changed,
        by: Text,
    ) -> Result<Changed, DeskError> {
        if !state.is_enabled() && !state.is_paused() {
            return Ok(changed);
        }
        let asked = match self.is_surely_paused(app).await? {
            true if state.is_enabled() => JobMove::Stop(StoppedReason::AppPaused),
            false if state.is_paused() => JobMove::Resume,
            _ => return Ok(changed),
        };
        let (changed, _) = self.write_change(changed.job, None, None, Some(asked), by).await?;
        Ok(changed)
    }
}

impl Memory {
    /// Takes note of whether an app is paused.
    pub(super) fn note_paused(&mut self, app: &AppRow) {
        match &app.paused {
            Some(paused) => self.executors.paused.insert(app.name.clone(), paused.clone()),
            None => self.executors.paused.remove(&app.name),
        };
    }
}

/// What keeps a job of a paused app from starting.
pub(super) fn held_by(app: &str) -> DeskError {
    DeskError::Conflict(format!("app {app} is paused; resume it first, and its jobs go on").into())
}

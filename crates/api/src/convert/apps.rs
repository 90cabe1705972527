//! Whose a job is: its app, looked up once and remembered for a while.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::model::JobId;
use punctual_node::ports::{Browse, StoreError};

/// How many jobs are remembered.
const REMEMBERED_MAX: usize = 50_000;

/// The apps of jobs, deleted ones too.
#[derive(Default)]
pub(crate) struct AppNames(Mutex<BTreeMap<JobId, Arc<str>>>);

impl AppNames {
    /// The app of a job as it was when it was last looked up; for what is shown, not for what is decided.
    pub(crate) async fn get(&self, browse: &dyn Browse, job: JobId) -> Result<Option<Arc<str>>, StoreError> {
        if let Some(app) = self.known().get(&job) {
            return Ok(Some(Arc::clone(app)));
        }
        let Some(app) = look_up(browse, job).await? else { return Ok(None) };
        let mut known = self.known();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(job, Arc::clone(&app));
        Ok(Some(app))
    }

    /// A job was changed, so it may belong to another app now.
    pub(crate) fn forget(&self, job: JobId) {
        self.known().remove(&job);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<JobId, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The app of a job; of a deleted one, the last that it had.
pub(crate) async fn look_up(browse: &dyn Browse, job: JobId) -> Result<Option<Arc<str>>, StoreError> {
    if let Some(view) = browse.job(job).await? {
        return Ok(Some(view.definition.app.into()));
    }
    Ok(browse.revisions(job).await?.pop().map(|revision| revision.definition.app.into()))
}

//! The app of a job, looked up once and cached for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_core::model::JobId;
use punctual_node::ports::{Browse, JobName, REVISIONS_MAX, StoreError};
use tokio::time::Instant;

use crate::clock;

/// How many jobs are cached.
const REMEMBERED_MAX: usize = 50_000;

/// How long a cached name is used: another node may have changed it.
const BELIEVED: Duration = Duration::from_secs(30);

/// The apps of jobs, deleted ones too.
#[derive(Default)]
pub(crate) struct AppNames(Mutex<BTreeMap<JobId, (Instant, Arc<str>)>>);

impl AppNames {
    /// The app of a job at its last lookup; good enough to show, not to decide by.
    pub(crate) async fn get(&self, browse: &dyn Browse, job: JobId) -> Result<Option<Arc<str>>, StoreError> {
        let known = self.known().get(&job).cloned();
        if let Some((_, app)) = known.filter(|(at, _)| clock::since(*at) < BELIEVED) {
            return Ok(Some(app));
        }
        let Some(app) = look_up(browse, job).await? else { return Ok(None) };
        let mut known = self.known();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(job, (clock::instant(), Arc::clone(&app)));
        Ok(Some(app))
    }

    /// A job was changed, so it may belong to another app now.
    pub(crate) fn forget(&self, job: JobId) {
        self.known().remove(&job);
    }

    /// Other nodes may have changed jobs without this node hearing of it.
    pub(crate) fn forget_all(&self) {
        self.known().clear();
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<JobId, (Instant, Arc<str>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names of jobs, for rows that show them.
#[derive(Default)]
pub(crate) struct JobNames(Mutex<BTreeMap<JobId, (Instant, Arc<JobName>)>>);

impl JobNames {
    /// The names of these jobs, where known; those that are not cached are looked up together.
    pub(crate) async fn get(
        &self,
        browse: &dyn Browse,
        ids: impl IntoIterator<Item = JobId>,
    ) -> Result<BTreeMap<JobId, Arc<JobName>>, StoreError> {
        let mut found = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        for id in ids {
            match self.known().get(&id) {
                Some((at, name)) if clock::since(*at) < BELIEVED => _ = found.insert(id, Arc::clone(name)),
                _ => _ = unknown.insert(id),
            }
        }
        if unknown.is_empty() {
            return Ok(found);
        }
        let unknown: Vec<JobId> = unknown.into_iter().collect();
        let names = browse.job_names(&unknown).await?;
        let mut known = self.known();
        if known.len() + names.len() > REMEMBERED_MAX {
            known.clear();
        }
        for name in names {
            let name = Arc::new(name);
            known.insert(name.id, (clock::instant(), Arc::clone(&name)));
            found.insert(name.id, name);
        }
        Ok(found)
    }

    /// A job was changed, so it may have another name now.
    pub(crate) fn forget(&self, job: JobId) {
        self.known().remove(&job);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<JobId, (Instant, Arc<JobName>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The app of a job; of a deleted one, the last that it had.
pub(crate) async fn look_up(browse: &dyn Browse, job: JobId) -> Result<Option<Arc<str>>, StoreError> {
    if let Some(view) = browse.job(job).await? {
        return Ok(Some(view.definition.app.into()));
    }
    Ok(browse.revisions(job, 0, REVISIONS_MAX).await?.pop().map(|revision| revision.definition.app.into()))
}

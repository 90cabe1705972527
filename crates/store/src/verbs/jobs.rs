//! Jobs as people look at one of them. Lists are in the folders of the databases: how a page is found is where they differ.

use punctual_core::model::JobId;
use punctual_node::ports::{JobView, Revision};

use super::session::SqlSession;
use super::statement::sql;
use super::{Access, ColdVerb};
use crate::rows;

/// A job by its id or by its name.
pub(crate) enum OneJob {
    Id(JobId),
    Named { app: String, name: String },
}

macro_rules! select_job {
    ($which:literal) => {
        concat!(
            "select jobs.id, jobs.version, jobs.state, jobs.reason, jobs.definition, clocks.shard, clocks.next_fire,
                    n.succeeded, n.failed, n.not_run, n.consecutive_failures, n.last_outcome, n.last_success
             from jobs
             left join clocks on clocks.job = jobs.id
             left join {counts} n on n.job = jobs.id
             where jobs.state <> 2 and ",
            $which
        )
    };
}

impl ColdVerb for OneJob {
    type Answer = Option<JobView>;

    fn access(&self) -> Access {
        Access::Read
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Option<JobView>, S::Trouble> {
        let select = match self {
            OneJob::Id(id) => sql(select_job!("jobs.id = ?1")).with(id.0),
            OneJob::Named { app, name } => {
                sql(select_job!("same(app, name, ?1, ?2)")).with(&**app).with(&**name)
            }
        };
        let [job] = session.commit([select]).await?;
        Ok(job.first().map(rows::job_view).transpose()?)
    }
}

/// The definitions that a job has had.
pub(crate) struct Revisions {
    pub(crate) job: JobId,
    /// Those of later versions,
    pub(crate) after: u64,
    /// and no more than so many.
    pub(crate) max: usize,
}

impl ColdVerb for Revisions {
    type Answer = Vec<Revision>;

    fn access(&self) -> Access {
        Access::Read
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Vec<Revision>, S::Trouble> {
        // `by` is a word of MySQL's, unless it stands behind the name of its table.
        let select = sql("select version, at, revisions.by, definition
             from revisions
             where job = ?1 and version > ?2
             order by version
             limit ?3");
        let max = i64::try_from(self.max).unwrap_or(i64::MAX);
        let [found] = session.commit([select.with(self.job.0).with(self.after).with(max)]).await?;
        Ok(found.rows.iter().map(|row| rows::revision(row, self.job)).collect::<Result<_, _>>()?)
    }
}

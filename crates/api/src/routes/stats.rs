//! Figures about everything the caller reaches.

use std::sync::Arc;

use punctual_node::ports::{Counts, JobFilter};
use punctual_protocol::{Role, Stats};

use super::ok;
use crate::app::Front;
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/stats", "getStats", |front, call| Box::pin(stats(front, call)))
            .about("stats", "Counts jobs and runs, and says what this node has in hand.")
            .needs(Permission::Role(Role::Viewer))
            .answers::<Stats>(200, "The figures."),
    ]
}

async fn stats(front: Arc<Front>, call: Call) -> Answer {
    let apps = call.caller.apps_of(None);
    let filter = JobFilter { apps, ..JobFilter::default() };
    let (jobs, jobs_enabled) = front.browse.job_totals(&filter).await?;
    let counts = match call.caller.reaches_all() {
        true => front.browse.counts(None).await?,
        false => counts_of(&front, &filter).await?,
    };
    let (loaded, running) = front.node.load_figures();
    Ok(ok(&Stats {
        jobs,
        jobs_enabled,
        succeeded: counts.succeeded,
        failed: counts.failed,
        not_run: counts.not_run,
        loaded: loaded as u64,
        running: running as u64,
        shards: front.node.shards_held() as u64,
        now: front.now()?.to_string(),
    }))
}

/// What has become of the runs of some jobs.
async fn counts_of(front: &Front, filter: &JobFilter) -> Result<Counts, Problem> {
    let (mut sum, mut after) = (Counts::default(), None);
    loop {
        let page = front.browse.job_list(filter, after, 1_000).await?;
        for job in &page.items {
            sum.succeeded += job.counts.succeeded;
            sum.failed += job.counts.failed;
            sum.not_run += job.counts.not_run;
        }
        after = page.next;
        if after.is_none() {
            return Ok(sum);
        }
    }
}

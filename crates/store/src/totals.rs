//! How many jobs a filter lets through, where no index counts them: page by page.

use punctual_node::ports::{Browse, JobFilter, StoreError};

/// How many jobs are read at once.
const PAGE: usize = 1_000;

/// All jobs of a filter, and those of them that are enabled.
pub(crate) async fn by_page(store: &dyn Browse, filter: &JobFilter) -> Result<(u64, u64), StoreError> {
    let (mut all, mut enabled, mut after) = (0, 0, None);
    loop {
        let page = store.job_list(filter, after, PAGE).await?;
        all += page.items.len() as u64;
        enabled += page.items.iter().filter(|job| job.state.is_enabled()).count() as u64;
        after = page.next;
        if after.is_none() {
            return Ok((all, enabled));
        }
    }
}

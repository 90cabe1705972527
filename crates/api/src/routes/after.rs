//! Jobs that come after others: which jobs are named, and whether they form a circle.

use std::collections::BTreeSet;

use punctual_core::model::{Child, Definition, JobId};
use punctual_protocol::FieldError;

use super::named_job;
use crate::app::Front;
use crate::caller::Caller;
use crate::convert::job::Draft;
use crate::convert::job_ref::JobRef;
use crate::problem::Problem;

/// How many jobs are visited to find a circle.
const CIRCLE_MAX: usize = 1_000;

/// Finds the jobs that a draft comes after.
pub(super) async fn resolve(
    front: &Front,
    caller: &Caller,
    draft: Draft,
    own: Option<JobId>,
) -> Result<Definition, Problem> {
    let mut after = Vec::new();
    let mut wrong = Vec::new();
    for before in draft.after {
        let named =
            JobRef::parse(&before.job).map_err(|detail| Problem::field(before.pointer.clone(), detail))?;
        let detail = match named_job(front, caller, &named).await? {
            None => format!("{named} is not there"),
            Some(view) => match is_circle(front, view.id, own).await? {
                Some(true) => format!("{named} comes after this job itself"),
                None => {
                    format!("{named} comes after more than {CIRCLE_MAX} jobs, which is too many to look at")
                }
                Some(false) => {
                    after.push(Child { job: view.id, when: before.when });
                    continue;
                }
            },
        };
        wrong.push(FieldError { pointer: before.pointer, detail });
    }
    if !wrong.is_empty() {
        return Err(Problem::invalid(wrong));
    }
    Ok(Definition { after, ..draft.definition })
}

/// Whether `job` comes after `own`, in any number of steps; none if that takes too long to find out. A concurrent
/// change is not seen here: the store checks again when it writes.
async fn is_circle(front: &Front, job: JobId, own: Option<JobId>) -> Result<Option<bool>, Problem> {
    let Some(own) = own else { return Ok(Some(false)) };
    let (mut seen, mut open) = (BTreeSet::from([job]), vec![job]);
    while let Some(id) = open.pop() {
        if id == own {
            return Ok(Some(true));
        }
        let before = front.browse.job(id).await?.map(|view| view.definition.after).unwrap_or_default();
        open.extend(before.iter().map(|before| before.job).filter(|job| seen.insert(*job)));
        if seen.len() > CIRCLE_MAX {
            return Ok(None);
        }
    }
    Ok(Some(false))
}

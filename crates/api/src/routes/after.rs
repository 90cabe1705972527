//! Jobs that come after others: who is meant, and whether it is a circle.

use std::collections::BTreeSet;

use punctual_core::model::{Child, Definition, JobId};
use punctual_protocol::FieldError;

use super::named_job;
use crate::app::Front;
use crate::caller::Caller;
use crate::convert::job::Draft;
use crate::convert::job_ref::JobRef;
use crate::problem::Problem;

/// How many jobs are looked at to find a circle.
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
            Some(view) if is_circle(front, view.id, own).await? => {
                format!("{named} comes after this job itself")
            }
            Some(view) => {
                after.push(Child { job: view.id, when: before.when });
                continue;
            }
        };
        wrong.push(FieldError { pointer: before.pointer, detail });
    }
    if !wrong.is_empty() {
        return Err(Problem::invalid(wrong));
    }
    Ok(Definition { after, ..draft.definition })
}

/// Whether a job comes after `own`, in however many steps.
async fn is_circle(front: &Front, job: JobId, own: Option<JobId>) -> Result<bool, Problem> {
    let Some(own) = own else { return Ok(false) };
    let (mut seen, mut open) = (BTreeSet::from([job]), vec![job]);
    while let Some(id) = open.pop() {
        if id == own {
            return Ok(true);
        }
        let before = front.browse.job(id).await?.map(|view| view.definition.after).unwrap_or_default();
        open.extend(before.iter().map(|before| before.job).filter(|job| seen.insert(*job)));
        if seen.len() > CIRCLE_MAX {
            break;
        }
    }
    Ok(false)
}

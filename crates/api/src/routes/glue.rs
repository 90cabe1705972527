//! The scripts of jobs: their versions, and going back to one of them.

use std::sync::Arc;

use http::StatusCode;
use punctual_core::model::{Definition, Executor, Glue, Target};
use punctual_node::DeskError;
use punctual_node::ports::{JobView, REVISIONS_MAX, Revision};
use punctual_protocol::{GlueRollback, GlueVersion, GlueVersions, Job, Role};

use super::edits::read_back;
use super::jobs::shown;
use super::{TAG, by, job, ok};
use crate::app::Front;
use crate::body;
use crate::convert::executor::{NOT_ALLOWED, remark};
use crate::convert::fields::{Faults, Spot};
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

/// How many versions are listed.
const VERSIONS_MAX: usize = 30;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/jobs/{id}/glue", "listGlue", |front, call| Box::pin(list(front, call)))
            .about("jobs", "Lists the last versions of a job's script, the newest first.")
            .needs(Permission::Role(Role::Viewer))
            .answers::<GlueVersions>(200, "The versions; none if it never had a script."),
        Operation::post("/api/v1/jobs/{id}/glue/rollback", "rollBackGlue", |front, call| {
            Box::pin(roll_back(front, call))
        })
        .about("jobs", "Makes an earlier version of a job's script the current one again, as a new version.")
        .needs(Permission::Role(Role::Editor))
        .takes::<GlueRollback>()
        .answers_with::<Job>(200, "The job as it is now.", &[TAG])
        .refuses(&[409]),
    ]
}

async fn list(front: Arc<Front>, call: Call) -> Answer {
    let view = job(&front, &call).await?;
    let revisions = front.browse.revisions(view.id, 0, REVISIONS_MAX).await?;
    let items = versions(&revisions).into_iter().rev().take(VERSIONS_MAX).collect();
    Ok(ok(&GlueVersions { items }))
}

/// The versions of a script, oldest first. A version of the job with the same kind and text is not another version of
/// the script.
fn versions(revisions: &[Revision]) -> Vec<GlueVersion> {
    let mut all: Vec<GlueVersion> = Vec::new();
    let mut last: Option<&Glue> = None;
    for revision in revisions {
        let glue = glue_of(&revision.definition);
        match (glue, last) {
            (Some(glue), Some(last)) if glue.kind == last.kind && glue.source == last.source => {
                // The remark may have been changed alone.
                if let Some(version) = all.last_mut() {
                    version.remark.clone_from(&glue.remark);
                }
            }
            (Some(glue), _) => all.push(GlueVersion {
                version: revision.version,
                kind: glue.kind.name().into(),
                remark: glue.remark.clone(),
                at: revision.at.to_string(),
                by: revision.by.to_string(),
                source: glue.source.clone(),
            }),
            (None, _) => {}
        }
        last = glue;
    }
    all
}

fn glue_of(definition: &Definition) -> Option<&Glue> {
    match &definition.target {
        Target::Executor(executor) => executor.glue.as_ref(),
        Target::Http(_) => None,
    }
}

async fn roll_back(front: Arc<Front>, call: Call) -> Answer {
    let (version, remark) = read(&call)?;
    let view = job(&front, &call).await?;
    if !front.settings.allows_scripts {
        return Err(Problem::conflict(NOT_ALLOWED));
    }
    let revisions = front.browse.revisions(view.id, version - 1, 1).await?;
    let old = revisions.iter().find(|revision| revision.version == version);
    let old = old.and_then(|revision| glue_of(&revision.definition)).ok_or_else(|| {
        let (id, place) = (view.id, format!("/jobs/{}/glue", view.id));
        Problem::field(
            "/version",
            format!("job {id} has no script of version {version}; GET {place} lists them"),
        )
    })?;
    let remark = remark.unwrap_or_else(|| format!("back to version {version}"));
    let glue = Glue { remark, changed_at: front.now()?, ..old.clone() };
    put_back(&front, &call, view, glue).await
}

fn read(call: &Call) -> Result<(u64, Option<String>), Problem> {
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let read = Spot::whole(&value, &faults).object().and_then(|object| {
        let version = object.must("version").and_then(|spot| spot.number(1..=(1 << 53)));
        let remark = object.may_null("remark").map(|spot| remark(&spot));
        object.end();
        let remark = remark.map_or(Some(None), |remark| remark.map(Some))?;
        Some((version?, remark.filter(|remark| !remark.is_empty())))
    });
    faults.unless(read)
}

async fn put_back(front: &Front, call: &Call, view: JobView, glue: Glue) -> Answer {
    let Target::Executor(executor) = &view.definition.target else {
        return Err(Problem::conflict(format!("job {} does not go to executors any more", view.id)));
    };
    let is_current = |current: &Glue| current.kind == glue.kind && current.source == glue.source;
    if executor.glue.as_ref().is_some_and(is_current) {
        return shown(front, StatusCode::OK, &view).await;
    }
    let target = Executor { handler: String::new(), glue: Some(glue), ..executor.clone() };
    let definition = Definition { target: Target::Executor(target), ..view.definition.clone() };
    let edited = front.node.edit(view.id, Some(view.version), Some(definition), None, by(&call.caller)).await;
    let changed = match edited {
        Err(DeskError::Conflict(_)) => {
            return Err(Problem::conflict(format!("job {} was changed meanwhile; try again", view.id)));
        }
        changed => changed?,
    };
    front.wait_in_force(changed.change).await?;
    let view = read_back(front, changed).await?;
    shown(front, StatusCode::OK, &view).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::job::tests::{plain, try_read};
    use calendar::Timestamp;
    use punctual_core::model::GlueKind;

    fn revision(version: u64, script: Option<(&str, &str)>) -> Revision {
        let mut definition = try_read(&plain(), None).unwrap().definition;
        let glue = script.map(|(source, remark)| Glue {
            kind: GlueKind::Shell,
            source: source.into(),
            remark: remark.into(),
            changed_at: Timestamp::from_millis(0),
        });
        definition.target = Target::Executor(Executor { glue, ..Executor::of("") });
        Revision { version, at: Timestamp::from_millis(0), by: "ann".into(), definition }
    }

    #[test]
    fn only_what_changes_the_script_is_a_version_of_it() {
        let revisions = [
            revision(1, None),
            revision(2, Some(("a", "first"))),
            revision(3, Some(("a", "said better"))),
            revision(4, Some(("b", "second"))),
            revision(5, None),
            revision(6, Some(("b", "once more"))),
        ];
        let told: Vec<_> =
            versions(&revisions).into_iter().map(|it| (it.version, it.source, it.remark)).collect();
        let expected = [(2, "a", "said better"), (4, "b", "second"), (6, "b", "once more")]
            .map(|(version, source, remark)| (version, source.to_owned(), remark.to_owned()));
        assert_eq!(told, expected);
    }
}

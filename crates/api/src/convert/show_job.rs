//! Jobs as they are shown.

use std::collections::BTreeMap;

use calendar::{Timestamp, Zones};
use punctual_core::model::{Child, Definition, Delivery, ExclusiveKeys, Job, JobId, JobState, When};
use punctual_core::policy::Retry;
use punctual_core::policy::misfire::Policy;
use punctual_node::ports::{Browse, Counts, JobView, Revision, StoreError};
use punctual_observe::EndedRun;
use punctual_protocol as wire;
use punctual_protocol::Span;
use serde_json::{Value, json};

use super::upcoming::upcoming;
use super::{run, schedule, target, window};

/// `app/name` of the jobs that other jobs come after.
pub(crate) type Names = BTreeMap<JobId, String>;

/// The names of all jobs that these come after.
pub(crate) async fn names_for<'a>(
    browse: &dyn Browse,
    definitions: impl Iterator<Item = &'a Definition>,
) -> Result<Names, StoreError> {
    let wanted: std::collections::BTreeSet<JobId> =
        definitions.flat_map(|definition| definition.after.iter().map(|before| before.job)).collect();
    let mut names = Names::new();
    for id in wanted {
        if let Some(view) = browse.job(id).await? {
            names.insert(id, format!("{}/{}", view.definition.app, view.definition.name));
        }
    }
    Ok(names)
}

/// A job with everything that is known of it.
pub(crate) fn show(
    view: &JobView,
    names: &Names,
    zones: &Zones,
    now: Timestamp,
    recent: &[EndedRun],
) -> wire::Job {
    let compiled = compile(&view.definition, zones, now);
    let Counts { failed, consecutive_failures, last_outcome, last_success, .. } = &view.counts;
    let stopped_reason = match &view.state {
        JobState::Stopped(reason) => Some(reason.to_string()),
        JobState::Enabled | JobState::Deleted => None,
    };
    wire::Job {
        id: view.id.0,
        draft: draft(&view.definition, view.state.is_enabled(), names),
        version: view.version,
        next_fire_time: next_fire_time(view, compiled.as_ref(), now).map(|at| at.to_string()),
        stopped_reason,
        failure_count: *failed,
        consecutive_failures: *consecutive_failures,
        last_status: last_outcome.map(|outcome| outcome.name().into()),
        last_success: last_success.map(|at| at.to_string()),
        in_words: compiled.map(|job| job.rule.describe()).unwrap_or_default(),
        recent: recent.iter().map(recent_run).collect(),
        duration_p50_ms: duration_ms(recent, 50),
        duration_p95_ms: duration_ms(recent, 95),
    }
}

fn recent_run(ended: &EndedRun) -> wire::RecentRun {
    wire::RecentRun {
        run: ended.run.0,
        state: run::state(ended.outcome.into()),
        at: ended.at.to_string(),
        duration_ms: ended.took_ms.map(u64::from),
    }
}

/// The duration that this percentage of runs did not exceed; none if no duration is known.
fn duration_ms(recent: &[EndedRun], percent: usize) -> Option<u64> {
    let mut known: Vec<u32> = recent.iter().filter_map(|ended| ended.took_ms).collect();
    known.sort_unstable();
    let place = (known.len() * percent).div_ceil(100).saturating_sub(1);
    known.get(place).copied().map(u64::from)
}

fn next_fire_time(view: &JobView, compiled: Option<&Job>, now: Timestamp) -> Option<Timestamp> {
    if !view.state.is_enabled() {
        return None;
    }
    // Only the clock knows when the last run of a fixed delay ended.
    if view.definition.schedule.is_delay() {
        return view.next_fire;
    }
    compiled.and_then(|job| upcoming(&job.rule, &job.exclusions, now, 1).first().copied())
}

/// A job that can be asked when it fires; none if the definition is invalid.
fn compile(definition: &Definition, zones: &Zones, now: Timestamp) -> Option<Job> {
    Job::compile(JobId(0), 1, now, JobState::Enabled, definition.clone(), vec![], zones).ok()
}

/// The next fire times of a definition. Those of a fixed delay depend on runs, except for the first.
pub(crate) fn fire_times(
    definition: &Definition,
    zones: &Zones,
    after: Timestamp,
    count: usize,
) -> Vec<Timestamp> {
    let Some(job) = compile(definition, zones, after) else { return vec![] };
    let count = if definition.schedule.is_delay() { count.min(1) } else { count };
    upcoming(&job.rule, &job.exclusions, after, count)
}

/// The job as people write it, with every default.
pub(crate) fn draft(definition: &Definition, enabled: bool, names: &Names) -> wire::JobDraft {
    wire::JobDraft {
        name: definition.name.clone(),
        app: definition.app.clone(),
        description: definition.description.clone(),
        tags: definition.tags.clone(),
        enabled,
        schedule: schedule::show(&definition.schedule),
        target: target::show(&definition.target, definition.block),
        misfire: wire::Misfire {
            policy: match definition.misfire.policy {
                Policy::Skip => wire::MisfirePolicy::Skip,
                Policy::FireOnce => wire::MisfirePolicy::FireOnce,
                Policy::FireAll => wire::MisfirePolicy::FireAll,
            },
            threshold: Span(definition.misfire.threshold),
        },
        retry: retry(&definition.retry),
        timeout: Span(definition.timeout),
        delivery: match definition.delivery {
            Delivery::AtLeastOnce => wire::Delivery::AtLeastOnce,
            Delivery::AtMostOnce => wire::Delivery::AtMostOnce,
        },
        priority: definition.priority,
        class: definition.flow.class.as_deref().map(str::to_owned),
        lane: None,
        windows: definition.windows.iter().map(window::show).collect(),
        calendar: None,
        jitter: Span(definition.flow.jitter),
        exclusive: keys(&definition.flow.exclusive),
        after: definition.after.iter().map(|before| after(before, names)).collect(),
        failure_limit: definition.failure_limit,
    }
}

/// Exclusive keys of a job or run.
pub(crate) fn keys(keys: &ExclusiveKeys) -> Vec<String> {
    keys.iter().map(|key| key.clone().into_owned()).collect()
}

/// How often a run is tried.
pub(crate) fn retry(retry: &Retry) -> wire::Retry {
    wire::Retry {
        max_attempts: retry.max_attempts,
        initial_delay: Span(retry.initial_delay),
        multiplier: retry.multiplier.as_f64(),
        max_delay: Span(retry.max_delay),
    }
}

fn after(before: &Child, names: &Names) -> wire::After {
    // A deleted job is shown by its number.
    let job: Value = names.get(&before.job).map_or_else(|| json!(before.job.0), |name| json!(name));
    let when = match before.when {
        When::Succeeded => wire::When::Succeeded,
        When::Failed => wire::When::Failed,
        When::Ended => wire::When::Ended,
    };
    wire::After { job, when }
}

/// One version of a job. Whether the job was enabled is not part of a version.
pub(crate) fn revision(revision: &Revision, names: &Names) -> wire::Revision {
    wire::Revision {
        version: revision.version,
        at: revision.at.to_string(),
        by: revision.by.to_string(),
        job: draft(&revision.definition, true, names),
    }
}

/// What has become of a job's runs.
pub(crate) fn stats(counts: &Counts) -> wire::JobStats {
    wire::JobStats {
        succeeded: counts.succeeded,
        failed: counts.failed,
        not_run: counts.not_run,
        consecutive_failures: counts.consecutive_failures,
        last_status: counts.last_outcome.map(|outcome| outcome.name().into()),
        last_success: counts.last_success.map(|at| at.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::{plain, try_read};
    use super::*;
    use punctual_core::model::{Outcome, RunId, ShardId, StoppedReason};

    fn view(state: JobState) -> JobView {
        JobView {
            id: JobId(17),
            version: 3,
            state,
            definition: try_read(&plain(), None).unwrap().definition,
            next_fire: None,
            shard: ShardId(0),
            counts: Counts::default(),
        }
    }

    fn shown(view: &JobView) -> Value {
        let now = "2026-03-08T07:00:00Z".parse().unwrap();
        serde_json::to_value(show(view, &Names::new(), &Zones::bundled(), now, &[])).unwrap()
    }

    #[test]
    fn a_job_is_shown_as_the_contract_shows_it() {
        let expected = json!({
            "id": 17, "name": "nightly-report", "app": "reports", "description": "", "tags": [], "enabled": true,
            "schedule": {"kind": "cron", "expression": "0 9 * * *", "dialect": "unix", "zone": "America/Toronto",
                         "gap": "default", "overlap": "default"},
            "target": {"kind": "http", "method": "POST", "url": "https://example.com/agent", "headers": {},
                       "body": {"type": "daily"}},
            "misfire": {"policy": "fire_once", "threshold": "5s"},
            "retry": {"max_attempts": 3, "initial_delay": "1s", "multiplier": 2.0, "max_delay": "30s"},
            "timeout": "30s", "delivery": "at_least_once", "priority": 5, "class": null, "lane": null, "windows": [],
            "calendar": null, "jitter": "0s", "after": [], "failure_limit": 0, "version": 3,
            "next_fire_time": "2026-03-08T13:00:00Z", "stopped_reason": null, "failure_count": 0,
            "consecutive_failures": 0, "last_status": null, "last_success": null,
            "in_words": "at 09:00 every day, America/Toronto time", "recent": [], "duration_p50_ms": null,
            "duration_p95_ms": null,
        });
        assert_eq!(shown(&view(JobState::Enabled)), expected);
    }

    #[test]
    fn the_last_runs_are_shown_with_how_long_they_take() {
        let ended = |run: u64, outcome, took_ms| EndedRun {
            run: RunId(run),
            outcome,
            at: Timestamp::from_millis(0),
            took_ms,
        };
        let mut recent: Vec<EndedRun> =
            (1..=20).map(|run| ended(run, Outcome::Succeeded, Some(run as u32 * 10))).collect();
        let now = Timestamp::from_millis(0);
        let shown = show(&view(JobState::Enabled), &Names::new(), &Zones::bundled(), now, &recent);
        assert_eq!((shown.duration_p50_ms, shown.duration_p95_ms), (Some(100), Some(190)));
        recent = vec![ended(1, Outcome::Skipped, None)];
        let shown = show(&view(JobState::Enabled), &Names::new(), &Zones::bundled(), now, &recent);
        assert_eq!((shown.duration_p50_ms, shown.duration_p95_ms), (None, None));
        assert_eq!((shown.recent[0].run, shown.recent[0].state), (1, wire::RunState::Skipped));
    }

    #[test]
    fn what_is_shown_can_be_written_back() {
        let view = view(JobState::Enabled);
        let again = try_read(&shown(&view), Some(&view.definition)).unwrap();
        assert_eq!((again.definition, again.enabled), (view.definition, Some(true)));
    }

    #[test]
    fn a_stopped_job_says_why_and_names_no_next_instant() {
        let shown = shown(&view(JobState::Stopped(StoppedReason::FailureLimit)));
        assert_eq!((&shown["enabled"], &shown["next_fire_time"]), (&json!(false), &Value::Null));
        assert_eq!(shown["stopped_reason"], "failure limit");
    }
}

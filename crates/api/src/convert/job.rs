//! Jobs as people write them: from JSON to a definition, with all faults reported at once.

use std::time::Duration;

use calendar::{Timestamp, Zones};
use punctual_core::model::{
    Definition, Delivery, ExclusiveKeys, FlowControl, JITTER_MAX, Job, JobId, JobState, KEYS_MAX,
    ScheduleKind, Text, When,
};
use punctual_core::policy::{Classes, Misfire, Multiplier, Retry, misfire};
use punctual_protocol as wire;
use serde_json::{Map, Value};

use super::executor::Scripts;
use super::fields::{Faults, Object, Spot};
use super::job_ref::JobRef;
use super::target::CheckHttp;
use super::{schedule, target, window};
use crate::problem::Problem;

/// How many windows, and how many jobs before it, a job may have.
const LIST_MAX: usize = 32;

/// The longest description, in characters.
const DESCRIPTION_MAX: usize = 4_096;

/// Every field that can be written.
pub(crate) const WRITTEN: [&str; 20] = [
    "name",
    "app",
    "description",
    "tags",
    "enabled",
    "schedule",
    "target",
    "misfire",
    "retry",
    "timeout",
    "delivery",
    "priority",
    "class",
    "lane",
    "windows",
    "calendar",
    "jitter",
    "exclusive",
    "after",
    "failure_limit",
];

/// What reading a job depends on.
pub(crate) struct Context<'a> {
    pub(crate) zones: &'a Zones,
    pub(crate) now: Timestamp,
    /// The definition that is replaced.
    pub(crate) before: Option<&'a Definition>,
    /// App and name, where the path names them.
    pub(crate) place: Option<(&'a str, &'a str)>,
    pub(crate) check: CheckHttp<'a>,
    pub(crate) allows_scripts: bool,
    pub(crate) classes: &'a Classes,
}

/// A job as it was read. Which jobs `after` refers to, only the store knows.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) definition: Definition,
    pub(crate) enabled: Option<bool>,
    pub(crate) after: Vec<Before>,
}

/// A job whose end is to start this one.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) pointer: String,
    pub(crate) job: String,
    pub(crate) when: When,
}

/// Reads a job.
pub(crate) fn read(value: &Value, context: &Context<'_>) -> Result<Draft, Problem> {
    let faults = Faults::default();
    let draft = Spot::whole(value, &faults).object().and_then(|object| draft(&object, context));
    let draft = faults.unless(draft)?;
    // The compiler has the last word, because the engine works with its result.
    let (id, definition) = (JobId(0), draft.definition.clone());
    Job::compile(id, 1, context.now, JobState::Enabled, definition, vec![], context.zones)
        .map_err(|poison| Problem::field(poison.pointer, poison.reason))?;
    Ok(draft)
}

fn draft(object: &Object<'_>, context: &Context<'_>) -> Option<Draft> {
    object.ignore(&wire::Job::READ_ONLY);
    let app = placed(object, "app", context.place.map(|place| place.0), |spot| spot.app());
    let name = placed(object, "name", context.place.map(|place| place.1), |spot| spot.name());
    let description =
        object.may("description").map_or(Some(String::new()), |spot| spot.prose(DESCRIPTION_MAX));
    let tags = object.may("tags").map_or(Some(Vec::new()), |spot| tags(&spot));
    let enabled = object.may("enabled").map(|spot| spot.flag());
    let before = context.before.map(|before| &before.schedule);
    let times = schedule::Context { zones: context.zones, now: context.now, before };
    let schedule = object.must("schedule").and_then(|spot| schedule::read(spot, &times));
    let old_target = context.before.map(|before| &before.target);
    let stays = context.before.is_some_and(|before| app.as_ref() == Some(&before.app));
    let scripts = Scripts {
        are_allowed: context.allows_scripts,
        before: old_target.filter(|_| stays || context.allows_scripts),
        now: context.now,
    };
    let target =
        object.must("target").and_then(|spot| target::read(spot, old_target, context.check, scripts));
    let misfire = object.may("misfire").map_or(Some(Misfire::default()), misfire);
    let retry = object.may("retry").map_or(Some(Retry::default()), retry);
    let half_a_minute = Duration::from_secs(30);
    let timeout = object.may("timeout").map_or(Some(half_a_minute), |spot| timeout(&spot));
    let delivery = object.may("delivery").map_or(Some(Delivery::default()), |spot| spot.word());
    let priority = object.may("priority").map_or(Some(5), |spot| spot.number(0..=9));
    let zone = match schedule.as_ref().map(|schedule| &schedule.kind) {
        Some(ScheduleKind::Cron { zone, .. }) => zone.as_str(),
        _ => "UTC",
    };
    let windows = object.may("windows").map_or(Some(Vec::new()), |spot| {
        let read: Vec<_> =
            spot.list(LIST_MAX)?.into_iter().map(|spot| window::read(spot, zone, context.zones)).collect();
        read.into_iter().collect()
    });
    let after = object.may("after").map_or(Some(Vec::new()), |spot| {
        let read: Vec<_> = spot.list(LIST_MAX)?.into_iter().map(before_of).collect();
        read.into_iter().collect()
    });
    let failure_limit =
        object.may("failure_limit").map_or(Some(0), |spot| spot.number(0..=u64::from(u32::MAX)));
    let flow = flow(object, context);
    comes_later(object);
    object.end();
    let (target, block) = target?;
    let definition = Definition {
        app: app?,
        name: name?,
        description: description?,
        tags: tags?,
        schedule: schedule?,
        target,
        misfire: misfire?,
        retry: retry?,
        timeout: timeout?,
        delivery: delivery?,
        priority: priority? as u8,
        block,
        windows: windows?,
        after: Vec::new(),
        failure_limit: failure_limit? as u32,
        flow: flow?,
    };
    let enabled = enabled.map_or(Some(None), |enabled| enabled.map(Some))?;
    Some(Draft { definition, enabled, after: after? })
}

/// A name that the path may give already.
fn placed(
    object: &Object<'_>,
    field: &'static str,
    place: Option<&str>,
    read: fn(&Spot<'_>) -> Option<String>,
) -> Option<String> {
    let Some(place) = place else { return object.must(field).and_then(|spot| read(&spot)) };
    let Some(spot) = object.may(field) else { return Some(place.into()) };
    let said = read(&spot)?;
    if said == place {
        Some(said)
    } else {
        spot.refuse(format!("is not what the path says, which is {place:?}"))
    }
}

/// How the runs of the job share what they use with those of others.
fn flow(object: &Object<'_>, context: &Context<'_>) -> Option<FlowControl> {
    let before = context.before.and_then(|before| before.flow.class.as_ref());
    let class = object.may_null("class").map(|spot| class(&spot, context.classes, before));
    let jitter = object.may("jitter").map_or(Some(Duration::ZERO), |spot| jitter(&spot));
    let exclusive = object.may("exclusive").map_or(Some(ExclusiveKeys::default()), |spot| exclusive(&spot));
    Some(FlowControl {
        class: class.map_or(Some(None), |class| class.map(Some))?,
        jitter: jitter?,
        exclusive: exclusive?,
    })
}

/// A class that this node does not know is refused, unless the job has it already.
fn class(spot: &Spot<'_>, classes: &Classes, before: Option<&Text>) -> Option<Text> {
    let class = spot.name()?;
    if classes.has(&class) || before.is_some_and(|before| *before == *class) {
        return Some(class.into());
    }
    let known: Vec<&str> = classes.names().map(|name| &**name).filter(|name| classes.has(name)).collect();
    spot.refuse(format!("{class:?} is no class of this node; known are {}", known.join(", ")))
}

fn jitter(spot: &Spot<'_>) -> Option<Duration> {
    let jitter = spot.span()?;
    if jitter > JITTER_MAX { spot.refuse("at most 24h") } else { Some(jitter) }
}

/// Exclusive keys of a job or run.
pub(super) fn exclusive(spot: &Spot<'_>) -> Option<ExclusiveKeys> {
    let keys: Vec<Option<&str>> = spot.list(KEYS_MAX)?.iter().map(Spot::text).collect();
    let keys: Option<Vec<&str>> = keys.into_iter().collect();
    let keys = keys?.into_iter().map(|key| Text::Owned(key.to_owned()));
    ExclusiveKeys::new(keys).map_or_else(|reason| spot.refuse(reason), Some)
}

fn comes_later(object: &Object<'_>) {
    for field in ["lane", "calendar"] {
        object.later(field);
    }
}

fn tags(spot: &Spot<'_>) -> Option<Vec<String>> {
    let read: Vec<Option<String>> = spot.list(LIST_MAX)?.iter().map(Spot::name).collect();
    read.into_iter().collect()
}

/// How long an attempt may take.
pub(super) fn timeout(spot: &Spot<'_>) -> Option<Duration> {
    let timeout = spot.span()?;
    if timeout.is_zero() { spot.refuse("an attempt needs some time") } else { Some(timeout) }
}

fn misfire(spot: Spot<'_>) -> Option<Misfire> {
    let object = spot.object()?;
    let usual = Misfire::default();
    let policy = object.may("policy").map_or(Some(usual.policy), |spot| spot.word::<misfire::Policy>());
    let threshold = object.may("threshold").map_or(Some(usual.threshold), |spot| spot.span());
    object.end();
    Some(Misfire { policy: policy?, threshold: threshold? })
}

/// How often a run is tried; fields that are left out have their defaults.
pub(super) fn retry(spot: Spot<'_>) -> Option<Retry> {
    let object = spot.object()?;
    let usual = Retry::default();
    let max_attempts = object
        .may("max_attempts")
        .map_or(Some(u64::from(usual.max_attempts)), |spot| spot.number(1..=10_000));
    let initial_delay = object.may("initial_delay").map_or(Some(usual.initial_delay), |spot| spot.span());
    let max_delay = object.may("max_delay").map_or(Some(usual.max_delay), |spot| spot.span());
    let multiplier = object.may("multiplier").map_or(Some(usual.multiplier), |spot| {
        Multiplier::try_from(spot.float()?).ok().or_else(|| spot.refuse("expected a factor from 1 to 1000"))
    });
    object.end();
    Some(Retry {
        max_attempts: max_attempts? as u32,
        initial_delay: initial_delay?,
        multiplier: multiplier?,
        max_delay: max_delay?,
    })
}

fn before_of(spot: Spot<'_>) -> Option<Before> {
    let object = spot.object()?;
    let job = object.must("job").and_then(|spot| match JobRef::of(spot.raw()) {
        Ok(JobRef::Id(id)) => Some((spot.pointer, id.to_string())),
        Ok(JobRef::Name(name)) => Some((spot.pointer, name.into_owned())),
        Err(reason) => spot.refuse(reason),
    });
    let when = object.may("when").map_or(Some(When::Succeeded), |spot| spot.word());
    object.end();
    let (pointer, job) = job?;
    Some(Before { pointer, job, when: when? })
}

/// Merges a patch into a job, by RFC 7396. But a schedule or target of another kind replaces the old one whole,
/// because fields of one kind mean nothing to another.
pub(crate) fn merge(job: &mut Value, patch: &Map<String, Value>) {
    for field in ["schedule", "target"] {
        let wanted = patch.get(field).and_then(|patch| patch.get("kind"));
        if wanted.is_some() && wanted != job[field].get("kind") {
            job[field] = Value::Null;
        }
    }
    merge_object(job, patch);
}

fn merge_object(value: &mut Value, patch: &Map<String, Value>) {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Some(fields) = value.as_object_mut() else { return };
    for (name, patch) in patch {
        match patch {
            Value::Null => _ = fields.remove(name),
            Value::Object(patch) => merge_object(fields.entry(name.as_str()).or_insert(Value::Null), patch),
            _ => _ = fields.insert(name.clone(), patch.clone()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) fn try_read(value: &Value, before: Option<&Definition>) -> Result<Draft, Problem> {
        let zones = Zones::bundled();
        let now = "2026-03-08T07:00:00Z".parse().unwrap();
        let (place, check) = (None, &|_: &_| vec![]);
        read(
            value,
            &Context {
                zones: &zones,
                now,
                before,
                place,
                check,
                allows_scripts: false,
                classes: &Classes::default(),
            },
        )
    }

    pub(crate) fn plain() -> Value {
        json!({
            "name": "nightly-report", "app": "reports",
            "schedule": {"kind": "cron", "expression": "0 9 * * *", "zone": "America/Toronto"},
            "target": {"kind": "http", "url": "https://example.com/agent", "body": {"type": "daily"}},
        })
    }

    fn places(value: &Value) -> Vec<String> {
        try_read(value, None).unwrap_err().errors.into_iter().map(|error| error.pointer).collect()
    }

    #[test]
    fn four_fields_make_a_job_and_the_rest_is_as_the_contract_says() {
        let Draft { definition, enabled, after } = try_read(&plain(), None).unwrap();
        assert_eq!((definition.app.as_str(), definition.name.as_str()), ("reports", "nightly-report"));
        assert_eq!((definition.timeout.as_secs(), definition.priority, definition.failure_limit), (30, 5, 0));
        assert_eq!((definition.retry, definition.misfire), (Retry::default(), Misfire::default()));
        assert_eq!((enabled, after.len()), (None, 0));
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let wrong = json!({
            "name": "", "app": "a/b", "description": 3, "tags": ["x", ""], "enabled": "yes",
            "schedule": {"kind": "cron", "expression": "x"}, "target": {"kind": "http"},
            "misfire": {"policy": "never"}, "retry": {"max_attempts": 0, "multiplier": 0.5}, "timeout": "0s",
            "delivery": "twice", "priority": 10, "class": "outptu", "lane": "x", "calendar": "y", "jitter": "25h",
            "windows": [{"days": "x"}], "after": [{"job": "x"}], "failure_limit": -1, "exclusive": ["a b"],
        });
        let expected = [
            "/app",
            "/name",
            "/description",
            "/tags/1",
            "/enabled",
            "/schedule/expression",
            "/target/url",
            "/misfire/policy",
            "/retry/max_attempts",
            "/retry/multiplier",
            "/timeout",
            "/delivery",
            "/priority",
            "/windows/0",
            "/after/0/job",
            "/failure_limit",
            "/class",
            "/jitter",
            "/exclusive",
            "/lane",
            "/calendar",
        ];
        assert_eq!(places(&wrong), expected);
        assert_eq!(places(&json!({})), ["/app", "/name", "/schedule", "/target"]);
        assert_eq!(places(&json!([])), [""]);
    }

    #[test]
    fn fields_that_only_the_answer_has_are_not_looked_at() {
        let mut job = plain();
        for field in wire::Job::READ_ONLY {
            job[field] = json!({"any": "thing"});
        }
        assert!(try_read(&job, None).is_ok());
    }

    #[test]
    fn the_path_says_app_and_name_and_the_body_may_only_repeat_them() {
        let zones = Zones::bundled();
        let read = |value: &Value| {
            let now = Timestamp::from_millis(0);
            let place = Some(("reports", "nightly-report"));
            let (before, check) = (None, &|_: &_| vec![]);
            read(
                value,
                &Context {
                    zones: &zones,
                    now,
                    before,
                    place,
                    check,
                    allows_scripts: false,
                    classes: &Classes::default(),
                },
            )
        };
        let mut job = plain();
        assert!(read(&job).is_ok());
        job["name"] = json!("other");
        assert_eq!(read(&job).unwrap_err().errors[0].pointer, "/name");
        job.as_object_mut().unwrap().retain(|field, _| field != "name" && field != "app");
        assert_eq!(read(&job).unwrap().definition.name, "nightly-report");
    }

    #[test]
    fn where_scripts_are_not_allowed_a_job_with_one_stays_in_its_app() {
        let mut job = plain();
        job["target"] = json!({"kind": "executor", "glue": {"kind": "shell", "source": "echo 1"}});
        let zones = Zones::bundled();
        let read = |value: &Value, before: Option<&Definition>, allows_scripts| {
            let (now, place, check) = (Timestamp::from_millis(0), None, &|_: &_| vec![]);
            read(
                value,
                &Context {
                    zones: &zones,
                    now,
                    before,
                    place,
                    check,
                    allows_scripts,
                    classes: &Classes::default(),
                },
            )
        };
        let before = read(&job, None, true).unwrap().definition;
        job["description"] = json!("edited");
        assert!(read(&job, Some(&before), false).is_ok());
        job["app"] = json!("billing");
        let problem = read(&job, Some(&before), false).unwrap_err();
        assert_eq!(problem.errors[0].pointer, "/target/glue", "other executors would run it");
        let moved = read(&job, Some(&before), true).unwrap().definition;
        assert_eq!(moved.target, before.target);
    }

    #[test]
    fn a_patch_replaces_removes_and_goes_inside() {
        let mut job = plain();
        let patch = json!({"description": "x", "target": {"body": null, "url": "http://b/"}, "retry": {"max_attempts": 1}});
        merge(&mut job, patch.as_object().unwrap());
        assert_eq!(job["target"], json!({"kind": "http", "url": "http://b/"}));
        assert_eq!((&job["retry"], &job["description"]), (&json!({"max_attempts": 1}), &json!("x")));
        merge(&mut job, json!({"schedule": {"kind": "every", "interval": "5s"}}).as_object().unwrap());
        assert_eq!(job["schedule"], json!({"kind": "every", "interval": "5s"}));
    }
}

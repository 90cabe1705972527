//! Targets that are executors: the handler, and the script that is sent along if there is one.

use calendar::Timestamp;
use punctual_core::model::{Executor, Glue, GlueKind, PAYLOAD_MAX, Target};
use punctual_core::policy::Route;
use punctual_protocol as wire;

use super::fields::{Object, Spot};
use super::target::json;

/// How long a remark about a version of a script is, in characters.
const REMARK: std::ops::RangeInclusive<usize> = 4..=100;

/// What reading a script depends on.
#[derive(Clone, Copy)]
pub(crate) struct Scripts<'a> {
    /// Whether scripts are allowed.
    pub(crate) are_allowed: bool,
    /// The target that is replaced, unless the job moves to another app: a script that moves runs on other executors.
    pub(crate) before: Option<&'a Target>,
    pub(crate) now: Timestamp,
}

impl Scripts<'_> {
    fn before(&self) -> Option<&Glue> {
        match self.before? {
            Target::Executor(executor) => executor.glue.as_ref(),
            Target::Http(_) => None,
        }
    }
}

pub(super) fn read(object: &Object<'_>, scripts: Scripts<'_>) -> Option<Executor> {
    let handler = object.may("handler");
    let route = object.may("route").map_or(Some(Route::default()), |spot| spot.word());
    let glue = object.may_null("glue");
    let (handler, glue) = match (handler, glue) {
        (None, None) => (object.must("handler").and_then(|spot| spot.name()), Some(None)),
        (Some(handler), None) => (handler.name(), Some(None)),
        (None, Some(glue)) => (Some(String::new()), script(glue, scripts).map(Some)),
        (Some(handler), Some(_)) => {
            let said = "a script is sent instead of naming a handler; leave out one of them (in a patch, null takes it away)";
            (handler.refuse(said), None)
        }
    };
    let params = object.may_null("params").map_or(Some(None), |spot| json(&spot).map(Some));
    Some(Executor { handler: handler?, params: params?, route: route?, glue: glue? })
}

fn script(spot: Spot<'_>, scripts: Scripts<'_>) -> Option<Glue> {
    let place = spot.clone();
    let object = spot.object()?;
    object.ignore(&["changed_at"]);
    let kind = object.must("kind").and_then(|spot| spot.word::<GlueKind>());
    let source = object.must("source").and_then(|spot| source(&spot, kind));
    let remark = object.may("remark").map_or(Some(String::new()), |spot| remark(&spot));
    object.end();
    let (kind, source, remark) = (kind?, source?, remark?);
    let same = scripts.before().filter(|before| before.kind == kind && before.source == source);
    if same.is_none() && !scripts.are_allowed {
        return place.refuse(NOT_ALLOWED);
    }
    let changed_at = same.map_or(scripts.now, |before| before.changed_at);
    Some(Glue { kind, source, remark, changed_at })
}

/// Why a script is refused where scripts are not allowed.
pub(crate) const NOT_ALLOWED: &str = "this node does not accept scripts, because they let every caller that may change a job run \
                                      any command on its executors; to accept them, set [executors] scripts = true";

fn source(spot: &Spot<'_>, kind: Option<GlueKind>) -> Option<String> {
    let text = spot.text()?;
    // A shell would take the carriage return of a Windows editor as a part of the command.
    let text = if kind == Some(GlueKind::Shell) { text.replace('\r', "") } else { text.to_owned() };
    match text.len() {
        0 => spot.refuse("is empty; expected the text of a script"),
        length if length > PAYLOAD_MAX => {
            spot.refuse(format!("has {length} bytes; at most {PAYLOAD_MAX} are sent"))
        }
        _ => Some(text),
    }
}

pub(crate) fn remark(spot: &Spot<'_>) -> Option<String> {
    let text = spot.text()?;
    match text.chars().count() {
        0 => Some(String::new()),
        length if REMARK.contains(&length) => Some(text.into()),
        length => spot.refuse(format!("has {length} characters; a remark has 4 to 100, or is left out")),
    }
}

pub(super) fn show(executor: &Executor, block: Option<String>, concurrency: Option<u32>) -> wire::Executor {
    wire::Executor {
        handler: executor.handler.clone(),
        params: executor.params.as_deref().and_then(|params| serde_json::from_str(params).ok()),
        route: executor.route.name().into(),
        glue: executor.glue.as_ref().map(show_script),
        block,
        concurrency,
    }
}

fn show_script(glue: &Glue) -> wire::Glue {
    wire::Glue {
        kind: glue.kind.name().into(),
        source: glue.source.clone(),
        remark: glue.remark.clone(),
        changed_at: Some(glue.changed_at.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Faults;
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::from_millis(5_000);

    fn try_read(value: &Value, before: Option<&Target>, are_allowed: bool) -> Result<Executor, Vec<String>> {
        let faults = Faults::default();
        let read = Spot::whole(value, &faults).object().and_then(|object| {
            let executor = read(&object, Scripts { are_allowed, before, now: NOW });
            object.end();
            executor
        });
        faults.unless(read).map_err(|problem| problem.errors.into_iter().map(|error| error.pointer).collect())
    }

    fn glue(source: &str, remark: &str) -> Value {
        json!({"glue": {"kind": "shell", "source": source, "remark": remark}})
    }

    #[test]
    fn every_route_has_its_name() {
        for route in Route::ALL {
            let read = try_read(&json!({"handler": "h", "route": route.name()}), None, false).unwrap();
            assert_eq!((read.route, show(&read, None, None).route.as_str()), (*route, route.name()));
        }
        assert_eq!(Route::ALL.len(), 10);
        assert_eq!(try_read(&json!({"handler": "h"}), None, false).unwrap().route, Route::Round);
        assert_eq!(
            try_read(&json!({"handler": "h", "route": "nearest"}), None, false),
            Err(vec!["/route".into()])
        );
    }

    #[test]
    fn a_script_keeps_its_stamp_until_its_text_changes() {
        let first = try_read(&glue("echo 1\r\n", ""), None, true).unwrap();
        let kept = first.glue.clone().unwrap();
        assert_eq!((kept.source.as_str(), kept.changed_at), ("echo 1\n", NOW));
        let old = Glue { changed_at: Timestamp::from_millis(1), ..kept };
        let before = Target::Executor(Executor { glue: Some(old), ..first });
        let stamp = |value: &Value| {
            try_read(value, Some(&before), true).unwrap().glue.unwrap().changed_at.as_millis()
        };
        assert_eq!(stamp(&glue("echo 1\n", "said anew")), 1);
        assert_eq!(stamp(&glue("echo 2\n", "said anew")), 5_000);
        let python = json!({"glue": {"kind": "python", "source": "echo 1\n"}});
        assert_eq!(stamp(&python), 5_000);
    }

    #[test]
    fn where_scripts_are_not_allowed_those_that_are_there_stay() {
        assert_eq!(try_read(&glue("echo 1", ""), None, false), Err(vec!["/glue".into()]));
        let before = Target::Executor(try_read(&glue("echo 1", ""), None, true).unwrap());
        assert!(try_read(&glue("echo 1", "another remark"), Some(&before), false).is_ok());
        assert_eq!(try_read(&glue("echo 2", ""), Some(&before), false), Err(vec!["/glue".into()]));
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_place() {
        for (value, places) in [
            (json!({}), vec!["/handler"]),
            (json!({"handler": ""}), vec!["/handler"]),
            (json!({"handler": "h", "glue": {"kind": "shell", "source": "x"}}), vec!["/handler"]),
            (glue("", ""), vec!["/glue/source"]),
            (glue("x", "abc"), vec!["/glue/remark"]),
            (glue("x", &"x".repeat(101)), vec!["/glue/remark"]),
            (json!({"glue": {"kind": "perl", "source": "x"}}), vec!["/glue/kind"]),
            (json!({"glue": {"kind": "php", "source": "x", "sauce": 1}}), vec!["/glue/sauce"]),
        ] {
            assert_eq!(try_read(&value, None, true).unwrap_err(), places, "{value}");
        }
    }
}

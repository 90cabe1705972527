//! The JSON text that a job's definition is kept as: its own shape, so that neither a renamed field in the model nor
//! a changed public API moves what lies in databases.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Child, Definition, ExclusiveKeys, Executor, FlowControl, Glue, Http, JobId, Schedule, ScheduleKind,
    Target, Text, WindowSpec,
};
use punctual_core::policy::{Misfire, Multiplier, Retry, Route};
use serde::{Deserialize, Serialize};

/// A definition as text.
pub(crate) fn definition_to_text(definition: &Definition) -> String {
    let form = DefinitionForm::from(definition);
    serde_json::to_string(&form).expect("texts, numbers and lists always serialize")
}

/// A definition from text, or what is wrong with the text. Whether the definition means anything is not asked here.
pub(crate) fn definition_from_text(text: &str) -> Result<Definition, String> {
    let form: DefinitionForm = serde_json::from_str(text).map_err(|error| error.to_string())?;
    form.understand()
}

#[derive(Serialize, Deserialize)]
struct DefinitionForm {
    app: String,
    name: String,
    description: String,
    tags: Vec<String>,
    schedule: ScheduleForm,
    target: TargetForm,
    misfire: MisfireForm,
    retry: RetryForm,
    timeout: Duration,
    delivery: String,
    priority: u8,
    block: String,
    windows: Vec<WindowForm>,
    after: Vec<BondForm>,
    failure_limit: u32,
    #[serde(default, skip_serializing_if = "FlowForm::is_default")]
    flow: FlowForm,
}

/// Rows from before flow control have none of its fields.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct FlowForm {
    class: Option<String>,
    jitter: Duration,
    exclusive: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct ScheduleForm {
    #[serde(flatten)]
    kind: KindForm,
    from: Option<i64>,
    until: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum KindForm {
    Cron { expression: String, dialect: String, zone: String, gap: String, overlap: String },
    Every { interval: Duration, anchor: i64 },
    Delay { delay: Duration },
    Once { at: i64 },
    Manual,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum TargetForm {
    Http {
        method: String,
        url: String,
        headers: Vec<(String, String)>,
        body: Option<String>,
        #[serde(default)]
        success_codes: Vec<u16>,
        #[serde(default)]
        follows_redirects: bool,
        #[serde(default)]
        signing_secret: Option<String>,
    },
    Executor {
        handler: String,
        #[serde(default)]
        params: Option<String>,
        #[serde(default)]
        route: Option<String>,
        #[serde(default)]
        glue: Option<GlueForm>,
    },
}

#[derive(Serialize, Deserialize)]
struct GlueForm {
    kind: String,
    source: String,
    remark: String,
    changed_at: i64,
}

#[derive(Serialize, Deserialize)]
struct MisfireForm {
    policy: String,
    threshold: Duration,
}

#[derive(Serialize, Deserialize)]
struct RetryForm {
    max_attempts: u32,
    initial_delay: Duration,
    multiplier_per_mille: u32,
    max_delay: Duration,
}

#[derive(Serialize, Deserialize)]
struct WindowForm {
    days: String,
    hours: String,
    zone: String,
    outside: String,
}

#[derive(Serialize, Deserialize)]
struct BondForm {
    job: u32,
    when: String,
}

impl From<&Definition> for DefinitionForm {
    fn from(definition: &Definition) -> DefinitionForm {
        let window = |spec: &WindowSpec| WindowForm {
            days: spec.days.clone(),
            hours: spec.hours.clone(),
            zone: spec.zone.clone(),
            outside: spec.outside.to_string(),
        };
        let bond = |child: &Child| BondForm { job: child.job.0, when: child.when.to_string() };
        DefinitionForm {
            app: definition.app.clone(),
            name: definition.name.clone(),
            description: definition.description.clone(),
            tags: definition.tags.clone(),
            schedule: ScheduleForm::from(&definition.schedule),
            target: TargetForm::from(&definition.target),
            misfire: MisfireForm {
                policy: definition.misfire.policy.to_string(),
                threshold: definition.misfire.threshold,
            },
            retry: RetryForm {
                max_attempts: definition.retry.max_attempts,
                initial_delay: definition.retry.initial_delay,
                multiplier_per_mille: definition.retry.multiplier.per_mille(),
                max_delay: definition.retry.max_delay,
            },
            timeout: definition.timeout,
            delivery: definition.delivery.to_string(),
            priority: definition.priority,
            block: definition.block.to_string(),
            windows: definition.windows.iter().map(window).collect(),
            after: definition.after.iter().map(bond).collect(),
            failure_limit: definition.failure_limit,
            flow: FlowForm::from(&definition.flow),
        }
    }
}

impl From<&Schedule> for ScheduleForm {
    fn from(schedule: &Schedule) -> ScheduleForm {
        let kind = match &schedule.kind {
            ScheduleKind::Cron { expression, dialect, zone, gap, overlap } => KindForm::Cron {
                expression: expression.clone(),
                dialect: dialect.to_string(),
                zone: zone.clone(),
                gap: gap.to_string(),
                overlap: overlap.to_string(),
            },
            ScheduleKind::Every { interval, anchor } => {
                KindForm::Every { interval: *interval, anchor: anchor.as_millis() }
            }
            ScheduleKind::Delay { delay } => KindForm::Delay { delay: *delay },
            ScheduleKind::Once { at } => KindForm::Once { at: at.as_millis() },
            ScheduleKind::Manual => KindForm::Manual,
        };
        ScheduleForm {
            kind,
            from: schedule.from.map(Timestamp::as_millis),
            until: schedule.until.map(Timestamp::as_millis),
        }
    }
}

impl From<&Target> for TargetForm {
    fn from(target: &Target) -> TargetForm {
        match target {
            Target::Http(http) => TargetForm::Http {
                method: http.method.clone(),
                url: http.url.clone(),
                headers: http.headers.clone(),
                body: http.body.clone(),
                success_codes: http.success_codes.clone(),
                follows_redirects: http.follows_redirects,
                signing_secret: http.signing_secret.clone(),
            },
            Target::Executor(executor) => TargetForm::Executor {
                handler: executor.handler.clone(),
                params: executor.params.clone(),
                route: Some(executor.route.to_string()),
                glue: executor.glue.as_ref().map(GlueForm::from),
            },
        }
    }
}

impl From<&Glue> for GlueForm {
    fn from(glue: &Glue) -> GlueForm {
        GlueForm {
            kind: glue.kind.to_string(),
            source: glue.source.clone(),
            remark: glue.remark.clone(),
            changed_at: glue.changed_at.as_millis(),
        }
    }
}

impl DefinitionForm {
    fn understand(self) -> Result<Definition, String> {
        let window = |form: WindowForm| -> Result<WindowSpec, String> {
            Ok(WindowSpec {
                days: form.days,
                hours: form.hours,
                zone: form.zone,
                outside: word(&form.outside)?,
            })
        };
        let bond = |form: BondForm| -> Result<Child, String> {
            Ok(Child { job: JobId(form.job), when: word(&form.when)? })
        };
        let multiplier = Multiplier::from_per_mille(self.retry.multiplier_per_mille);
        Ok(Definition {
            app: self.app,
            name: self.name,
            description: self.description,
            tags: self.tags,
            schedule: self.schedule.understand()?,
            target: self.target.understand()?,
            misfire: Misfire { policy: word(&self.misfire.policy)?, threshold: self.misfire.threshold },
            retry: Retry {
                max_attempts: self.retry.max_attempts,
                initial_delay: self.retry.initial_delay,
                multiplier: multiplier.map_err(|error| error.to_string())?,
                max_delay: self.retry.max_delay,
            },
            timeout: self.timeout,
            delivery: word(&self.delivery)?,
            priority: self.priority,
            block: word(&self.block)?,
            windows: self.windows.into_iter().map(window).collect::<Result<_, _>>()?,
            after: self.after.into_iter().map(bond).collect::<Result<_, _>>()?,
            failure_limit: self.failure_limit,
            flow: self.flow.understand()?,
        })
    }
}

impl From<&FlowControl> for FlowForm {
    fn from(flow: &FlowControl) -> FlowForm {
        FlowForm {
            class: flow.class.as_deref().map(str::to_owned),
            jitter: flow.jitter,
            exclusive: flow.exclusive.iter().map(|key| key.clone().into_owned()).collect(),
        }
    }
}

impl FlowForm {
    fn is_default(&self) -> bool {
        *self == FlowForm::default()
    }

    fn understand(self) -> Result<FlowControl, String> {
        Ok(FlowControl {
            class: self.class.map(Text::Owned),
            jitter: self.jitter,
            exclusive: ExclusiveKeys::new(self.exclusive.into_iter().map(Text::Owned))?,
        })
    }
}

impl ScheduleForm {
    fn understand(self) -> Result<Schedule, String> {
        let kind = match self.kind {
            KindForm::Cron { expression, dialect, zone, gap, overlap } => ScheduleKind::Cron {
                expression,
                dialect: word(&dialect)?,
                zone,
                gap: word(&gap)?,
                overlap: word(&overlap)?,
            },
            KindForm::Every { interval, anchor } => {
                ScheduleKind::Every { interval, anchor: Timestamp::from_millis(anchor) }
            }
            KindForm::Delay { delay } => ScheduleKind::Delay { delay },
            KindForm::Once { at } => ScheduleKind::Once { at: Timestamp::from_millis(at) },
            KindForm::Manual => ScheduleKind::Manual,
        };
        let (from, until) = (self.from.map(Timestamp::from_millis), self.until.map(Timestamp::from_millis));
        Ok(Schedule { kind, from, until })
    }
}

impl TargetForm {
    fn understand(self) -> Result<Target, String> {
        Ok(match self {
            TargetForm::Http {
                method,
                url,
                headers,
                body,
                success_codes,
                follows_redirects,
                signing_secret,
            } => Target::Http(Http {
                method,
                url,
                headers,
                body,
                success_codes,
                follows_redirects,
                signing_secret,
            }),
            // Before there were routes, each executor had its turn.
            TargetForm::Executor { handler, params, route, glue } => Target::Executor(Executor {
                handler,
                params,
                route: route.as_deref().map(word).transpose()?.unwrap_or(Route::Round),
                glue: glue.map(GlueForm::understand).transpose()?,
            }),
        })
    }
}

impl GlueForm {
    fn understand(self) -> Result<Glue, String> {
        Ok(Glue {
            kind: word(&self.kind)?,
            source: self.source,
            remark: self.remark,
            changed_at: Timestamp::from_millis(self.changed_at),
        })
    }
}

fn word<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use calendar::{Dialect, Gap, Outside, Overlap};
    use punctual_core::model::{Delivery, GlueKind, When};
    use punctual_core::policy::{Block, misfire};

    use super::*;

    fn definition(kind: ScheduleKind, target: Target) -> Definition {
        Definition {
            app: "billing".into(),
            name: "nightly \"close\"".into(),
            description: "ünïcode\n".into(),
            tags: vec!["money".into(), "".into()],
            schedule: Schedule {
                kind,
                from: Some(Timestamp::MIN),
                until: Some(Timestamp::from_millis(1_700_000_000_001)),
            },
            target,
            misfire: Misfire { policy: misfire::Policy::FireAll, threshold: Duration::from_nanos(7) },
            retry: Retry {
                max_attempts: u32::MAX,
                initial_delay: Duration::MAX,
                multiplier: Multiplier::from_per_mille(1_500).unwrap(),
                max_delay: Duration::ZERO,
            },
            timeout: Duration::from_millis(1_001),
            delivery: Delivery::AtMostOnce,
            priority: 9,
            block: Block::Concurrent(NonZeroU32::new(3)),
            windows: vec![WindowSpec {
                days: "mon-fri".into(),
                hours: "09:00-17:00".into(),
                zone: "Europe/Berlin".into(),
                outside: Outside::Defer,
            }],
            after: vec![Child { job: JobId(7), when: When::Ended }],
            failure_limit: 5,
            flow: FlowControl {
                class: Some("output".into()),
                jitter: Duration::from_millis(1_500),
                exclusive: ExclusiveKeys::new(["b".into(), "a".into()]).unwrap(),
            },
        }
    }

    #[test]
    fn every_kind_of_definition_reads_back_as_it_was() {
        let kinds = [
            ScheduleKind::Cron {
                expression: "0 0 * * *".into(),
                dialect: Dialect::Quartz,
                zone: "No/Where".into(),
                gap: Gap::Shift,
                overlap: Overlap::Both,
            },
            ScheduleKind::Every { interval: Duration::ZERO, anchor: Timestamp::MAX },
            ScheduleKind::Delay { delay: Duration::from_secs(1) },
            ScheduleKind::Once { at: Timestamp::from_millis(-1) },
            ScheduleKind::Manual,
        ];
        let glue = |kind: &GlueKind| Glue {
            kind: *kind,
            source: "#!/bin/sh\necho \"定时\"\r\n".into(),
            remark: "".into(),
            changed_at: Timestamp::from_millis(-1),
        };
        let scripts = GlueKind::ALL.iter().map(|kind| Executor {
            glue: Some(glue(kind)),
            params: Some("[1]".into()),
            ..Executor::of("")
        });
        let routes = Route::ALL.iter().map(|route| Executor { route: *route, ..Executor::of("h") });
        let executors = scripts.chain(routes).map(Target::Executor);
        let targets = [Target::Http(Http {
            method: "POST".into(),
            url: "http://localhost/".into(),
            headers: vec![("a".into(), "b".into())],
            body: None,
            success_codes: vec![200, 404],
            follows_redirects: true,
            signing_secret: Some("whsec_AAAA".into()),
        })];
        let targets: Vec<Target> = executors.chain(targets).collect();
        for kind in kinds {
            for target in &targets {
                let definition = definition(kind.clone(), target.clone());
                let text = definition_to_text(&definition);
                assert_eq!(definition_from_text(&text).as_ref(), Ok(&definition), "{text}");
            }
        }
    }

    #[test]
    fn a_target_from_before_success_codes_redirects_and_signing_still_reads() {
        let old =
            r#"{"kind":"http","method":"PUT","url":"http://localhost/","headers":[["a","b"]],"body":"{}"}"#;
        let http = Http {
            method: "PUT".into(),
            headers: vec![("a".into(), "b".into())],
            body: Some("{}".into()),
            success_codes: Vec::new(),
            follows_redirects: false,
            signing_secret: None,
            ..Http::post("http://localhost/")
        };
        check_old_target(old, Target::Http(http));
    }

    #[test]
    fn a_target_from_before_routes_and_scripts_still_reads() {
        let executor = Executor { handler: "h".into(), params: None, route: Route::Round, glue: None };
        check_old_target(r#"{"kind":"executor","handler":"h"}"#, Target::Executor(executor));
    }

    fn check_old_target(old: &str, target: Target) {
        let expected = definition(ScheduleKind::Manual, target);
        let new = definition_to_text(&expected);
        let (before, rest) = new.split_once("\"target\":").unwrap();
        let (_, after) = rest.split_once("},\"misfire\"").unwrap();
        let text = format!("{before}\"target\":{old},\"misfire\"{after}");
        assert_eq!(definition_from_text(&text), Ok(expected), "{text}");
    }

    #[test]
    fn text_that_is_no_definition_is_refused_with_the_reason() {
        let good = definition_to_text(&definition(ScheduleKind::Manual, Target::Executor(Executor::of("h"))));
        for (from, to, said) in [
            ("{", "", "expected"),
            ("\"at_most_once\"", "\"sometimes\"", "sometimes"),
            ("\"multiplier_per_mille\":1500", "\"multiplier_per_mille\":0", "multiplier"),
            ("\"name\"", "\"nome\"", "name"),
            ("\"round\"", "\"nearest\"", "nearest"),
        ] {
            let error = definition_from_text(&good.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}

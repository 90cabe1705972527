//! Schemas of fields whose Rust type says too little. They match what the API checks.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{
    Addresses, App, AppDraft, Executor, Http, Job, JobByName, JobDraft, JobPatch, NewJob, PutApp, Target,
};

/// A name: 1 to 128 characters, none of them a control character.
const NAME: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

/// An exclusive key is one word.
const KEY: &str = "^[^\\s,\\u0000-\\u001f\\u007f-\\u009f]+$";

/// An app stands before the `/` of `app/name`.
const APP: &str = "^[^/\\u0000-\\u001f\\u007f-\\u009f]+$";

pub(crate) fn name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": NAME})
}

pub(crate) fn maybe_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "minLength": 1, "maxLength": 128, "pattern": NAME})
}

pub(crate) fn app(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": APP})
}

pub(crate) fn apps(_: &mut SchemaGenerator) -> Schema {
    let app = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": APP});
    json_schema!({"type": "array", "minItems": 1, "maxItems": 100, "items": app})
}

pub(crate) fn tags(_: &mut SchemaGenerator) -> Schema {
    let tag = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": NAME});
    json_schema!({"type": "array", "maxItems": 32, "items": tag})
}

pub(crate) fn prose(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 4096, "pattern": "^[^\\u0000]*$"})
}

pub(crate) fn maybe_prose(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "maxLength": 4096, "pattern": "^[^\\u0000]*$"})
}

pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "examples": ["2026-03-08T07:00:00Z"]})
}

pub(crate) fn maybe_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "format": "date-time", "examples": ["2026-03-08T07:00:00Z"]})
}

pub(crate) fn only_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "null"})
}

pub(crate) fn keys(_: &mut SchemaGenerator) -> Schema {
    let key = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": KEY});
    json_schema!({"type": "array", "maxItems": 16, "items": key})
}

pub(crate) fn maybe_keys(_: &mut SchemaGenerator) -> Schema {
    let key = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": KEY});
    json_schema!({"type": ["array", "null"], "maxItems": 16, "items": key})
}

pub(crate) fn job(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": job_forms()})
}

pub(crate) fn maybe_job(_: &mut SchemaGenerator) -> Schema {
    let mut forms = job_forms();
    forms.push(json!({"type": "null"}));
    json_schema!({"anyOf": forms})
}

fn job_forms() -> Vec<Value> {
    vec![
        json!({"type": "integer", "minimum": 1, "maximum": i32::MAX}),
        json!({"type": "string", "maxLength": 257, "pattern": "^[^/\\u0000-\\u001f\\u007f-\\u009f]+/[^\\u0000-\\u001f\\u007f-\\u009f]+$"}),
    ]
}

pub(crate) fn open_state(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "enum": ["pending", "running", "retrying", null]})
}

/// A duration, forwards or backwards.
pub(crate) fn shift(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": "^-?([0-9]{1,5}d)?([0-9]{1,7}h)?([0-9]{1,8}m)?([0-9]{1,9}s)?([0-9]{1,12}ms)?$",
        "minLength": 2,
        "examples": ["1h", "-30m"],
    })
}

pub(crate) fn method(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]})
}

pub(crate) fn headers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$"},
        "additionalProperties": {"type": "string", "maxLength": 8192, "pattern": "^([\\t\\x20-\\x7e]*|\u{2026})$"},
    })
}

pub(crate) fn secret(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "pattern": "^whsec_(\u{2026}|[A-Za-z0-9+/]{32,86}={0,2})$"})
}

pub(crate) fn block(_: &mut SchemaGenerator) -> Schema {
    let pattern = r"^(serial|discard|cover|concurrent(\([1-9][0-9]{0,8}\))?)$";
    json_schema!({"type": ["string", "null"], "pattern": pattern})
}

pub(crate) fn route(_: &mut SchemaGenerator) -> Schema {
    let names = [
        "first",
        "last",
        "round",
        "random",
        "consistent_hash",
        "least_frequently_used",
        "least_recently_used",
        "failover",
        "busyover",
        "sharding_broadcast",
    ];
    json_schema!({"type": "string", "enum": names})
}

pub(crate) fn glue_kind(_: &mut SchemaGenerator) -> Schema {
    let names = ["groovy", "shell", "python", "python2", "nodejs", "powershell", "php"];
    json_schema!({"type": "string", "enum": names})
}

pub(crate) fn source(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 1 << 20, "pattern": "^[^\\u0000]*$"})
}

pub(crate) fn remark(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^([^\\u0000]{4,100})?$"})
}

pub(crate) fn maybe_remark(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "pattern": "^([^\\u0000]{4,100})?$"})
}

pub(crate) fn access_token(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "pattern": "^(\u{2026}|[!-~]([ -~]{0,254}[!-~])?)$"})
}

pub(crate) fn outside(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "enum": ["skip", "defer", null]})
}

pub(crate) fn days_of_week(_: &mut SchemaGenerator) -> Schema {
    let day = json!({"type": "integer", "minimum": 1, "maximum": 7});
    json_schema!({"type": ["array", "null"], "minItems": 1, "maxItems": 7, "items": day})
}

pub(crate) fn hours_of_day(_: &mut SchemaGenerator) -> Schema {
    let hour = json!({"type": "integer", "minimum": 0, "maximum": 23});
    json_schema!({"type": ["array", "null"], "minItems": 1, "maxItems": 24, "items": hour})
}

/// Written by hand: what is derived for a tagged enum of strict structs allows no `kind`.
impl JsonSchema for Target {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Target".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let http = with_kind(Http::json_schema(generator), "http");
        let mut executor = with_kind(Executor::json_schema(generator), "executor");
        let either = json!([{"required": ["handler"]}, {"required": ["glue"]}]);
        executor.ensure_object().insert("oneOf".into(), either);
        json_schema!({"description": "What a job calls.", "oneOf": [http, executor]})
    }
}

fn with_kind(mut schema: Schema, kind: &str) -> Schema {
    let object = schema.ensure_object();
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.insert("kind".into(), json!({"type": "string", "const": kind}));
    }
    match object.entry("required").or_insert_with(|| json!([])) {
        Value::Array(required) => required.insert(0, json!("kind")),
        other => *other = json!(["kind"]),
    }
    schema
}

/// Written by hand: a word or a list.
impl JsonSchema for Addresses {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Addresses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let address = json!({"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^https?://"});
        let listed =
            json!({"type": "array", "minItems": 1, "maxItems": 1000, "uniqueItems": true, "items": address});
        json_schema!({"anyOf": [{"type": "string", "const": "auto"}, listed]})
    }
}

impl JsonSchema for PutApp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PutApp".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = AppDraft::json_schema(generator);
        let object = schema.ensure_object();
        if let Some(Value::Object(properties)) = object.get_mut("properties") {
            for field in App::READ_ONLY {
                properties.insert(field.into(), json!({"readOnly": true, "description": "Not looked at."}));
            }
        }
        schema
    }
}

impl JsonSchema for NewJob {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NewJob".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        writable(generator)
    }
}

impl JsonSchema for JobByName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JobByName".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = writable(generator);
        let object = schema.ensure_object();
        object.insert("description".into(), json!("A job whose app and name are in the path."));
        if let Some(Value::Array(required)) = object.get_mut("required") {
            required.retain(|field| field != "name" && field != "app");
        }
        schema
    }
}

/// A merge patch goes inside objects, so only the outline of those is promised.
impl JsonSchema for JobPatch {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JobPatch".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = writable(generator);
        let object = schema.ensure_object();
        let said = "A change of some fields: what is given replaces what was, by RFC 7396. Another kind of schedule \
                    or target replaces the old one whole.";
        object.insert("description".into(), json!(said));
        object.remove("required");
        if let Some(Value::Object(properties)) = object.get_mut("properties") {
            for (field, property) in properties.iter_mut() {
                let is_merged = ["schedule", "target", "misfire", "retry"].contains(&field.as_str());
                *property = match is_merged {
                    true => json!({"type": "object"}),
                    false => without_default(property.take()),
                };
            }
        }
        schema
    }
}

fn without_default(mut property: Value) -> Value {
    if let Some(object) = property.as_object_mut() {
        object.remove("default");
    }
    property
}

/// The schema of a request body: the draft, plus the read-only fields, which are ignored.
fn writable(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = JobDraft::json_schema(generator);
    if let Some(Value::Object(properties)) = schema.ensure_object().get_mut("properties") {
        for field in Job::READ_ONLY {
            properties.insert(field.into(), json!({"readOnly": true, "description": "Not looked at."}));
        }
    }
    schema
}

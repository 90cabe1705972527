//! The OpenAPI 3.1 document, made from the table that the router is made from.

use std::collections::BTreeSet;

use punctual_protocol::Problem;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::body::LINES;
use crate::problem::title;
use crate::query::Param;
use crate::routes;
use crate::table::{Answered, Operation, Permission, SchemaOf, Takes, schema_of};

/// The document, as `docs/protocol/openapi.json` holds it.
pub fn document() -> String {
    written(&routes::all())
}

pub(crate) fn written(operations: &[Operation]) -> String {
    let mut text = serde_json::to_string_pretty(&described(operations)).expect("the document is plain data");
    text.push('\n');
    text
}

/// Requests and answers differ in which fields are required, so there are two generators. References of request types
/// use a prefix of their own until it is known which of the types need another name.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

const READ: &str = "#/components/read/";
const WRITTEN: &str = "#/components/schemas/";

fn described(operations: &[Operation]) -> Value {
    let at = |path: &'static str| SchemaSettings::draft2020_12().with(|it| it.definitions_path = path.into());
    let mut schemas = Schemas {
        read: at("/components/read").for_deserialize().into_generator(),
        written: at("/components/schemas").for_serialize().into_generator(),
    };
    let mut paths = Map::new();
    for operation in operations.iter().filter(|operation| operation.is_documented()) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = describe(operation, &mut schemas);
    }
    let (definitions, differing) = joined(schemas);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Jobs, runs and schedules.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": definitions,
        },
    });
    refer(&mut document, &differing);
    document
}

/// All types in one place: a type that is the same in requests and answers occurs once; one that differs is called
/// `…Input` in requests.
fn joined(mut schemas: Schemas) -> (Map<String, Value>, BTreeSet<String>) {
    let mut all = schemas.written.take_definitions(true);
    let read = schemas.read.take_definitions(true);
    let mut differing = BTreeSet::new();
    // A type also differs if one that it refers to does.
    loop {
        let before = differing.len();
        for (name, schema) in &read {
            let text = schema.to_string();
            let refers = differing.iter().any(|other| text.contains(&format!("\"{READ}{other}\"")));
            let written = all.get(name).map(Value::to_string);
            if written.is_some_and(|written| refers || written != text.replace(READ, WRITTEN)) {
                differing.insert(name.clone());
            }
        }
        if differing.len() == before {
            break;
        }
    }
    for (name, schema) in read {
        let name = if differing.contains(&name) { format!("{name}Input") } else { name };
        all.insert(name, schema);
    }
    (all, differing)
}

/// Rewrites references to request types to their final names.
fn refer(value: &mut Value, differing: &BTreeSet<String>) {
    match value {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix(READ) {
                let suffix = if differing.contains(name) { "Input" } else { "" };
                *text = format!("{WRITTEN}{name}{suffix}");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, differing)),
        Value::Object(fields) => fields.values_mut().for_each(|field| refer(field, differing)),
        _ => {}
    }
}

fn describe(operation: &Operation, schemas: &mut Schemas) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": parameters(operation),
        "responses": responses(operation, schemas),
    });
    match operation.permission {
        Some(Permission::Open | Permission::Executor | Permission::Session | Permission::Peer) | None => {
            described["security"] = json!([])
        }
        Some(Permission::Role(role)) => described["x-role"] = json!(role.name()),
        Some(Permission::Whole(role)) => {
            described["x-role"] = json!(role.name());
            described["x-all-apps"] = json!(true);
        }
    }
    if let Some(body) = request_body(operation.takes, schemas) {
        described["requestBody"] = body;
    }
    described
}

fn request_body(takes: Takes, schemas: &mut Schemas) -> Option<Value> {
    let mut read = |schema: SchemaOf| schema(&mut schemas.read).to_value();
    match takes {
        Takes::Nothing | Takes::Anything => None,
        Takes::Json { schema, media, is_optional } => {
            let schema = read(schema);
            let content: Map<String, Value> =
                media.iter().map(|media| ((*media).into(), json!({"schema": schema}))).collect();
            Some(json!({"required": !is_optional, "content": content}))
        }
        Takes::Batch { schema, line } => {
            let (schema, line) = (read(schema), read(line));
            let lines = json!({"schema": {"type": "string"}, "x-line": line});
            Some(json!({
                "required": true,
                "content": {"application/json": {"schema": schema}, LINES: lines},
            }))
        }
    }
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let mut all: Vec<Value> = path_parameters(operation.path);
    all.extend(operation.query.iter().map(query_parameter));
    if operation.has_if_match {
        let about = "The ETag that it must have; `*` stands for any.";
        let schema = json!({"type": "string", "pattern": r#"^(\*|"[0-9]{1,19}")$"#});
        all.push(json!({"name": "If-Match", "in": "header", "description": about, "schema": schema}));
    }
    if operation.is_resumed {
        let about =
            "The id of the last event that was received. After one that is not known here comes a `reset`.";
        let schema = json!({"type": "string"});
        all.push(json!({"name": "Last-Event-ID", "in": "header", "description": about, "schema": schema}));
    }
    if operation.has_idempotency() {
        let about = "Makes a repetition of this request the same request: it gets the first one's answer.";
        let schema =
            json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]([ -~]*[!-~])?$"});
        all.push(json!({"name": "Idempotency-Key", "in": "header", "description": about, "schema": schema}));
    }
    all
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let described = |name: &str| {
        let max: u64 = if path.contains("/runs/{id}") { (1 << 53) - 1 } else { i32::MAX as u64 };
        let schema = match name {
            "id" => json!({"type": "integer", "minimum": 1, "maximum": max}),
            _ => json!({"type": "string", "minLength": 1, "maxLength": 128}),
        };
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    };
    names.map(described).collect()
}

fn query_parameter(param: &Param) -> Value {
    let Param { name, kind, about } = param;
    json!({"name": name, "in": "query", "description": about, "schema": kind.schema()})
}

fn responses(operation: &Operation, schemas: &mut Schemas) -> Value {
    let mut all = Map::new();
    for Answered { status, about, content, headers } in &operation.answers {
        let mut described = json!({"description": about});
        let content: Map<String, Value> = content
            .iter()
            .map(|(media, schema)| {
                let described = match schema {
                    Some(schema) => json!({"schema": schema(&mut schemas.written).to_value()}),
                    // A stream has pieces, and OpenAPI 3.1 has no way to describe them.
                    None if *media == "text/event-stream" => json!({}),
                    None => json!({"schema": {"type": "string"}}),
                };
                ((*media).into(), described)
            })
            .collect();
        if !content.is_empty() {
            described["content"] = Value::Object(content);
        }
        for (name, about) in *headers {
            described["headers"][name] = json!({"description": about, "schema": {"type": "string"}});
        }
        all.insert(status.to_string(), described);
    }
    let problem = schema_of::<Problem>(&mut schemas.written).to_value();
    for status in operation.all_refusals() {
        let content = json!({"application/problem+json": {"schema": problem}});
        let refusal = json!({"description": title(status), "content": content});
        all.entry(status.to_string()).or_insert(refusal);
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_document_is_the_one_that_the_table_makes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol/openapi.json");
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let said = "docs/protocol/openapi.json is not up to date: \
                    cargo run -p punctual-api --example openapi > docs/protocol/openapi.json";
        assert!(committed == document(), "{said}");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document: Value = serde_json::from_str(&document()).unwrap();
        let mut wanted = BTreeSet::new();
        references(&document, &mut wanted);
        assert!(wanted.len() > 20, "{}", wanted.len());
        for name in wanted {
            assert!(document["components"]["schemas"][&name].is_object(), "{name}");
        }
    }

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::String(text) => {
                assert!(!text.starts_with(READ), "{text}");
                found.extend(text.strip_prefix(WRITTEN).map(str::to_owned));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Object(fields) => fields.values().for_each(|field| references(field, found)),
            _ => {}
        }
    }

    #[test]
    fn every_operation_says_what_it_does_and_answers() {
        for operation in routes::all() {
            assert!(!operation.summary.is_empty() && !operation.answers.is_empty(), "{}", operation.id);
        }
    }
}

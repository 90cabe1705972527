//! Operations: each route, declared once. The router, the permissions and the document are made from these.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method};
use hyper::upgrade::OnUpgrade;
use punctual_protocol::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::{Front, Settings};
use crate::approach::Approach;
use crate::budget::Room;
use crate::caller::Caller;
use crate::credential::Credential;
use crate::place::Seat;
use crate::problem::Problem;
use crate::query::{Param, Query};

/// The answer to a request.
pub(crate) type Answer = Result<Response, Problem>;

/// Carries a request out.
pub(crate) type Handler = fn(Arc<Front>, Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A request that has passed the gate.
pub(crate) struct Call {
    pub(crate) caller: Caller,
    /// The caller's credential, which long answers check again.
    pub(crate) credential: Credential,
    pub(crate) path: BTreeMap<String, String>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    /// The body; empty where the operation takes a stream and was given one.
    pub(crate) body: Bytes,
    /// The body that is still to be read. Never locked: the mutex only makes it `Sync`, and the handler takes it out.
    pub(crate) stream: Option<Mutex<Body>>,
    /// The memory budget that the body takes from.
    pub(crate) room: Room,
    pub(crate) request_id: String,
    pub(crate) peer: Approach,
    /// The place of the connection; none where connections are not counted.
    pub(crate) seat: Option<Seat>,
    /// The connection itself, for a handler that upgrades it. Never locked, like the body.
    pub(crate) upgrade: Option<Mutex<OnUpgrade>>,
}

/// The permission that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// None.
    Open,
    /// Tokens with this role, each for its apps.
    Role(Role),
    /// Tokens with this role that reach all apps.
    Whole(Role),
    /// Executors, each for its app: the handler checks their badge. Such a route is not in the document, and answers
    /// in the way that executors expect, refusals too.
    Executor,
    /// Executors that open a session, each for its app: the handler checks their credentials. OpenAPI cannot describe
    /// the protocol of a session, so such a route is not in the document.
    Session,
    /// Other nodes, by the secret in the store. Their messages are internal, so such a route is not in the document.
    Peer,
}

/// The body that an operation takes.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    /// None; a body is ignored.
    Nothing,
    /// JSON, or nothing at all if it is optional.
    Json { schema: SchemaOf, media: &'static [&'static str], is_optional: bool },
    /// JSON, or a stream of lines.
    Batch { schema: SchemaOf, line: SchemaOf },
    /// Any body; the handler reads it.
    Anything,
}

/// One of the answers of a successful request.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) content: Vec<(&'static str, Option<SchemaOf>)>,
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

/// A route: method, path, and everything about them.
pub(crate) struct Operation {
    pub(crate) id: &'static str,
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) permission: Option<Permission>,
    /// Settings that open it to callers without a token.
    pub(crate) is_opened: fn(&Settings) -> bool,
    pub(crate) query: &'static [Param],
    pub(crate) has_if_match: bool,
    /// Whether its stream can be resumed where it was cut.
    pub(crate) is_resumed: bool,
    /// Whether its answer must never be stored.
    pub(crate) answers_secret: bool,
    pub(crate) takes: Takes,
    /// The longest body; none for the one in the settings.
    pub(crate) body_max: Option<usize>,
    pub(crate) answers: Vec<Answered>,
    pub(crate) refusals: &'static [u16],
    pub(crate) handler: Handler,
}

impl Operation {
    fn new(method: Method, path: &'static str, id: &'static str, handler: Handler) -> Operation {
        Operation {
            id,
            method,
            path,
            tag: "",
            summary: "",
            permission: None,
            is_opened: |_| false,
            query: &[],
            has_if_match: false,
            is_resumed: false,
            answers_secret: false,
            takes: Takes::Nothing,
            body_max: None,
            answers: Vec::new(),
            refusals: &[],
            handler,
        }
    }

    pub(crate) fn get(path: &'static str, id: &'static str, handler: Handler) -> Operation {
        Operation::new(Method::GET, path, id, handler)
    }

    pub(crate) fn post(path: &'static str, id: &'static str, handler: Handler) -> Operation {
        Operation::new(Method::POST, path, id, handler)
    }

    pub(crate) fn put(path: &'static str, id: &'static str, handler: Handler) -> Operation {
        Operation::new(Method::PUT, path, id, handler)
    }

    pub(crate) fn patch(path: &'static str, id: &'static str, handler: Handler) -> Operation {
        Operation::new(Method::PATCH, path, id, handler)
    }

    pub(crate) fn delete(path: &'static str, id: &'static str, handler: Handler) -> Operation {
        Operation::new(Method::DELETE, path, id, handler)
    }

    pub(crate) fn about(mut self, tag: &'static str, summary: &'static str) -> Operation {
        (self.tag, self.summary) = (tag, summary);
        self
    }

    pub(crate) fn needs(mut self, permission: Permission) -> Operation {
        self.permission = Some(permission);
        self
    }

    pub(crate) fn opened_by(mut self, is_opened: fn(&Settings) -> bool) -> Operation {
        self.is_opened = is_opened;
        self
    }

    pub(crate) fn query(mut self, query: &'static [Param]) -> Operation {
        self.query = query;
        self
    }

    pub(crate) fn if_match(mut self) -> Operation {
        self.has_if_match = true;
        self
    }

    pub(crate) fn resumed(mut self) -> Operation {
        self.is_resumed = true;
        self
    }

    pub(crate) fn shown_once(mut self) -> Operation {
        self.answers_secret = true;
        self
    }

    pub(crate) fn takes<T: JsonSchema>(mut self) -> Operation {
        let media = &["application/json"];
        self.takes = Takes::Json { schema: schema_of::<T>, media, is_optional: false };
        self
    }

    /// Limits the body to fewer bytes than the settings do.
    pub(crate) fn body_max(mut self, bytes: usize) -> Operation {
        self.body_max = Some(bytes);
        self
    }

    pub(crate) fn takes_anything(mut self) -> Operation {
        self.takes = Takes::Anything;
        self
    }

    pub(crate) fn takes_optional<T: JsonSchema>(mut self) -> Operation {
        let media = &["application/json"];
        self.takes = Takes::Json { schema: schema_of::<T>, media, is_optional: true };
        self
    }

    pub(crate) fn takes_patch<T: JsonSchema>(mut self) -> Operation {
        let media = &["application/json", "application/merge-patch+json"];
        self.takes = Takes::Json { schema: schema_of::<T>, media, is_optional: false };
        self
    }

    pub(crate) fn takes_batch<T: JsonSchema, L: JsonSchema>(mut self) -> Operation {
        self.takes = Takes::Batch { schema: schema_of::<T>, line: schema_of::<L> };
        self
    }

    pub(crate) fn answers<T: JsonSchema>(self, status: u16, about: &'static str) -> Operation {
        self.answers_as(status, about, vec![("application/json", Some(schema_of::<T>))], &[])
    }

    pub(crate) fn answers_with<T: JsonSchema>(
        self,
        status: u16,
        about: &'static str,
        headers: &'static [(&'static str, &'static str)],
    ) -> Operation {
        self.answers_as(status, about, vec![("application/json", Some(schema_of::<T>))], headers)
    }

    pub(crate) fn answers_nothing(self, status: u16, about: &'static str) -> Operation {
        self.answers_as(status, about, Vec::new(), &[])
    }

    pub(crate) fn answers_as(
        mut self,
        status: u16,
        about: &'static str,
        content: Vec<(&'static str, Option<SchemaOf>)>,
        headers: &'static [(&'static str, &'static str)],
    ) -> Operation {
        self.answers.push(Answered { status, about, content, headers });
        self
    }

    pub(crate) fn refuses(mut self, refusals: &'static [u16]) -> Operation {
        self.refusals = refusals;
        self
    }

    /// Every status that refuses it: those of the gate, and those that its handler adds.
    pub(crate) fn all_refusals(&self) -> Vec<u16> {
        let is_open = self.permission == Some(Permission::Open);
        let takes_body = !matches!(self.takes, Takes::Nothing);
        let by_gate = [
            (400, true),
            (401, !is_open),
            (403, !is_open),
            (404, self.path.contains('{')),
            (409, self.has_idempotency()),
            (412, self.has_if_match),
            (413, takes_body),
            (415, takes_body),
            (422, takes_body || self.has_idempotency()),
            (429, !is_open),
            (503, true),
        ];
        let mut all: Vec<u16> =
            by_gate.iter().filter(|(_, applies)| *applies).map(|(status, _)| *status).collect();
        all.extend(self.refusals);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether an idempotency key makes a repetition the same request.
    pub(crate) fn has_idempotency(&self) -> bool {
        // A caller that signs in is not authenticated yet, so the key would belong to no token.
        let is_somebodys = !matches!(self.permission, Some(Permission::Peer | Permission::Open));
        self.method == Method::POST && !self.is_for_executors() && is_somebodys
    }

    /// Whether it is a route of executors.
    pub(crate) fn is_for_executors(&self) -> bool {
        self.permission == Some(Permission::Executor)
    }

    /// Whether it cannot be answered without the store; reads can, where there is a copy.
    pub(crate) fn needs_store(&self, has_copy: bool) -> bool {
        let is_peoples = matches!(self.permission, Some(Permission::Role(_) | Permission::Whole(_)));
        is_peoples && self.path.starts_with("/api/") && !(has_copy && self.method == Method::GET)
    }

    /// Whether the document can describe it as a request and an answer.
    pub(crate) fn is_documented(&self) -> bool {
        let is_between_programs = matches!(self.permission, Some(Permission::Session | Permission::Peer));
        !self.is_for_executors() && !is_between_programs
    }
}

pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

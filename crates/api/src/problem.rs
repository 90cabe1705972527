//! Refusals: the only place that maps them to status codes.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use punctual_node::DeskError;
use punctual_node::ports::StoreError;
use punctual_protocol::FieldError;

/// Why a request was not carried out. Small, because every function that may refuse carries it.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    pub(crate) errors: Vec<FieldError>,
    /// A header of the answer.
    pub(crate) header: Option<Box<(HeaderName, HeaderValue)>>,
    /// Whether it may have been carried out all the same.
    pub(crate) may_be_done: bool,
}

/// Every status that a refusal can have, with its kind and its title.
const KINDS: &[(u16, &str, &str)] = &[
    (400, "malformed", "The request cannot be read"),
    (401, "unauthenticated", "A token is needed"),
    (403, "forbidden", "The token does not allow this"),
    (404, "not-found", "It is not there"),
    (405, "method-not-allowed", "This path does not know the method"),
    (409, "conflict", "Its state does not allow this"),
    (412, "stale", "Another client changed it meanwhile"),
    (413, "too-large", "It is too large"),
    (415, "unsupported-media-type", "The content type is not understood"),
    (422, "invalid", "A value is not valid"),
    (429, "too-many-requests", "Too much at once, or too often without a valid token"),
    (500, "internal", "Something is broken here"),
    (503, "unavailable", "It cannot be done at the moment; try again later"),
];

/// The kind and the title of a status.
fn kind_and_title(status: u16) -> (&'static str, &'static str) {
    let known = KINDS.iter().find(|(known, ..)| *known == status);
    known.map_or(("internal", "Something is broken here"), |(_, kind, title)| (kind, title))
}

/// The title of a status.
pub(crate) fn title(status: u16) -> &'static str {
    kind_and_title(status).1
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), errors: Vec::new(), header: None, may_be_done: false }
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn unauthenticated(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, detail)
            .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"punctual\""))
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn not_found(what: impl std::fmt::Display) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, format!("{what} is not there"))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn stale(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PRECONDITION_FAILED, detail)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            .with(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// All fields that are wrong.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Problem {
        let detail = match &errors[..] {
            [one] if one.pointer.is_empty() => one.detail.clone(),
            [one] => format!("{}: {}", one.pointer, one.detail),
            many => format!("{} fields are wrong; errors says which and why", many.len()),
        };
        Problem { errors, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// One field that is wrong.
    pub(crate) fn field(pointer: impl Into<String>, detail: impl Into<String>) -> Problem {
        Problem::invalid(vec![FieldError { pointer: pointer.into(), detail: detail.into() }])
    }

    /// Parameters that are wrong.
    pub(crate) fn parameters(errors: Vec<FieldError>) -> Problem {
        let detail = errors.first().map(|one| format!("{}: {}", one.pointer, one.detail)).unwrap_or_default();
        Problem { errors, ..Problem::malformed(detail) }
    }

    /// The same refusal, with a pointer to its place in the request.
    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Problem {
        if self.errors.is_empty() {
            self.errors.push(FieldError { pointer: pointer.into(), detail: self.detail.clone() });
        }
        self
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// As it goes over the wire.
    pub(crate) fn shown(&self, request_id: Option<&str>) -> punctual_protocol::Problem {
        let (kind, title) = kind_and_title(self.status.as_u16());
        punctual_protocol::Problem {
            kind: format!("urn:punctual:problem:{kind}"),
            title: title.into(),
            status: self.status.as_u16(),
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            request_id: request_id.map(str::to_owned),
        }
    }

    pub(crate) fn answer(self, request_id: &str) -> Response {
        let shown = serde_json::to_vec(&self.shown(Some(request_id))).expect("a problem is plain data");
        let media = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, media, Body::from(shown)).into_response();
        if let Some(header) = self.header {
            response.headers_mut().insert(header.0, header.1);
        }
        response
    }
}

impl From<DeskError> for Problem {
    fn from(error: DeskError) -> Problem {
        match error {
            DeskError::NotFound(what) => Problem::not_found(what),
            DeskError::Conflict(reason) => Problem::conflict(reason),
            DeskError::Invalid { pointer, reason } => Problem::field(pointer, reason),
            DeskError::Busy(reason) => {
                let said = format!("{reason}; come again in a second, or bring many in one request");
                Problem::new(StatusCode::TOO_MANY_REQUESTS, said)
                    .with(header::RETRY_AFTER, HeaderValue::from(1))
            }
            DeskError::Full(reason) => Problem::unavailable(format!("there is no room: {reason}")),
            DeskError::Away(reason) => Problem::unavailable(format!(
                "the store cannot be used at the moment; nothing was done: {reason}"
            )),
            DeskError::Unknown(reason) => {
                let said = format!("the store did not answer, so it may have been done or not: {reason}");
                Problem { may_be_done: true, ..Problem::unavailable(said) }
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        Problem::from(DeskError::from(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_the_desk_has_its_status() {
        for (error, status) in [
            (DeskError::NotFound("job 3".into()), 404),
            (DeskError::Conflict("job 3 is stopped".into()), 409),
            (DeskError::Invalid { pointer: "/from".into(), reason: "too old".into() }, 422),
            (DeskError::Busy("a million wait".into()), 429),
            (DeskError::Full("disk".into()), 503),
            (DeskError::Away("read-only".into()), 503),
            (DeskError::Unknown("timeout".into()), 503),
        ] {
            assert_eq!(Problem::from(error).status.as_u16(), status);
        }
    }

    #[test]
    fn only_an_unknown_outcome_may_have_been_carried_out() {
        assert!(Problem::from(DeskError::Unknown("timeout".into())).may_be_done);
        assert!(!Problem::from(DeskError::Full("disk".into())).may_be_done);
        assert!(!Problem::from(DeskError::Away("read-only".into())).may_be_done);
    }

    #[test]
    fn what_is_shown_names_fields_request_and_kind() {
        let shown = serde_json::to_value(Problem::field("/name", "is missing").shown(Some("r1"))).unwrap();
        let expected = serde_json::json!({
            "type": "urn:punctual:problem:invalid",
            "title": "A value is not valid",
            "status": 422,
            "detail": "/name: is missing",
            "errors": [{"pointer": "/name", "detail": "is missing"}],
            "request_id": "r1",
        });
        assert_eq!(shown, expected);
    }
}

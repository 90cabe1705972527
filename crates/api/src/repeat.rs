//! Repeatable requests: a second request with the same key is not carried out, but gets the answer of the first.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::BodyExt;
use punctual_node::ports::{Begun, Digest, KeptAnswer, RequestKey};

use crate::app::Front;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation};

/// The header that carries the key.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Marks an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The headers of an answer that are kept with it.
const KEPT: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::ETAG];

/// The refusal of a repeated request whose answer held a secret.
const SHOWN_ONCE: &str = "the first request with this Idempotency-Key was carried out; its answer held a secret, so it was \
     shown once and not kept. If it was lost, revoke what it made, and ask again with a new key";

/// The key of a request, if it has one.
pub(crate) fn key_of(headers: &HeaderMap, caller: &Caller) -> Result<Option<RequestKey>, Problem> {
    let Some(value) = headers.get(KEY) else { return Ok(None) };
    let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let is_key = |text: &&str| (1..=128).contains(&text.len()) && text.bytes().all(is_plain);
    let said = "Idempotency-Key: expected 1 to 128 visible ASCII characters";
    let key = value.to_str().ok().filter(is_key).ok_or_else(|| Problem::malformed(said))?;
    Ok(Some(RequestKey { by: format!("token:{}", caller.id).into(), key: key.to_owned().into() }))
}

/// The digest of a request.
pub(crate) fn sum(method: &Method, uri: &Uri, body: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in [method.as_str(), uri.path(), uri.query().unwrap_or_default()] {
        context.update(part.as_bytes());
        context.update(b"\n");
    }
    context.update(body);
    let mut digest = Digest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// Carries out a request, unless it was carried out before.
pub(crate) async fn once(
    front: &Arc<Front>,
    operation: &Operation,
    key: RequestKey,
    digest: Digest,
    call: Call,
) -> Answer {
    match begin(front, &key, digest).await? {
        // An answer that an older version kept is not shown either.
        Some(_) if operation.answers_secret => return Err(Problem::conflict(SHOWN_ONCE)),
        Some(answer) => return Ok(answer),
        None => {}
    }
    let answer = (operation.handler)(Arc::clone(front), call).await;
    keep(front, key, answer, operation.answers_secret).await
}

/// The answer that was given before; none if the request has to be carried out.
async fn begin(front: &Front, key: &RequestKey, digest: Digest) -> Result<Option<Response>, Problem> {
    match front.door.begin(key.clone(), digest, front.now()?).await? {
        Begun::New => Ok(None),
        Begun::Answered(kept) => Ok(Some(unpack(&kept))),
        Begun::Other => {
            Err(Problem::field("", "Idempotency-Key came with another request before; use a new key"))
        }
        Begun::Open => Err(Problem::conflict(
            "a request with this Idempotency-Key was begun and not answered: it is being carried out, or was cut off \
             in the middle. Ask again in a moment; if it stays so, look whether it was done, and use a new key",
        )),
    }
}

/// Keeps an answer, or forgets the request if it was not carried out. Of a secret answer only the fact is kept.
async fn keep(front: &Front, key: RequestKey, answer: Answer, is_secret: bool) -> Answer {
    match answer {
        Ok(response) => {
            let (response, kept) = match is_secret {
                true => (response, KeptAnswer { status: StatusCode::OK.as_u16(), body: "\n".into() }),
                false => pack(response).await,
            };
            // The work is done, so a store that fails now must not turn it into a failure.
            if let Err(error) = front.door.answer(key, Some(kept)).await {
                tracing::warn!(%error, "an answer was not kept; its repetition will be refused as open");
            }
            Ok(response)
        }
        // Whether it was carried out is not known: while the key stays open, a repetition is refused.
        Err(problem) if problem.may_be_done => Err(problem),
        Err(problem) => {
            if let Err(error) = front.door.answer(key, None).await {
                tracing::warn!(%error, "a refused request was not forgotten; its repetition will be refused as open");
            }
            Err(problem)
        }
    }
}

/// An answer as it is kept: its headers, an empty line, its body.
async fn pack(response: Response) -> (Response, KeptAnswer) {
    let (parts, body) = response.into_parts();
    let body: Bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut text = String::new();
    for name in KEPT {
        if let Some(value) = parts.headers.get(&name).and_then(|value| value.to_str().ok()) {
            text.push_str(&format!("{name}: {value}\n"));
        }
    }
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&body));
    let kept = KeptAnswer { status: parts.status.as_u16(), body: text.into() };
    (Response::from_parts(parts, Body::from(body)), kept)
}

fn unpack(kept: &KeptAnswer) -> Response {
    let (head, body) = match kept.body.strip_prefix('\n') {
        Some(body) => ("", body),
        None => kept.body.split_once("\n\n").unwrap_or_default(),
    };
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    let mut response = (status, body.to_owned()).into_response();
    response.headers_mut().remove(header::CONTENT_TYPE);
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_comes_back_as_it_was_and_says_so() {
        let headers = [(header::CONTENT_TYPE, "application/json"), (header::LOCATION, "/api/v1/jobs/17")];
        let (first, kept) = pack((StatusCode::CREATED, headers, "{\n\n}").into_response()).await;
        let again = unpack(&kept);
        assert_eq!((first.status(), again.status()), (StatusCode::CREATED, StatusCode::CREATED));
        assert_eq!(again.headers()[header::LOCATION], "/api/v1/jobs/17");
        assert_eq!(again.headers()[REPLAYED], "true");
        assert_eq!(&again.into_body().collect().await.unwrap().to_bytes()[..], b"{\n\n}");
    }

    #[tokio::test]
    async fn an_answer_without_headers_keeps_its_body() {
        let (_, kept) = pack(Response::new(Body::from("a\n\nb"))).await;
        assert_eq!(&unpack(&kept).into_body().collect().await.unwrap().to_bytes()[..], b"a\n\nb");
    }

    #[test]
    fn the_sum_tells_paths_queries_and_bodies_apart() {
        let sum = |uri: &str, body: &str| sum(&Method::POST, &uri.parse().unwrap(), body.as_bytes());
        let all = [sum("/a", ""), sum("/b", ""), sum("/a?x=1", ""), sum("/a", "x")];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one));
        }
        assert_eq!(sum("/a", "x"), all[3]);
    }
}

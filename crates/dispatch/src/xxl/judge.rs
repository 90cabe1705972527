//! What an executor's answer means.

use http::StatusCode;
use punctual_protocol::xxl::Reply;

use super::http::Answer;
use crate::http::answer::{self, Rest};

/// How much of what an executor said is told.
const TOLD_BYTES: usize = 4 << 10;

/// What an executor said.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// Yes.
    Yes(Reply),
    /// No, in the words of the protocol.
    No(Reply),
    /// The executor, or a proxy before it, refused: the request went no further.
    Refused(String),
    /// Nothing that could be understood; the request may have arrived.
    Unclear(String),
}

impl Said {
    /// The text that is reported.
    pub(super) fn message(&self) -> String {
        let text = match self {
            Said::Yes(reply) if reply.message.is_empty() => "ok".to_owned(),
            Said::Yes(reply) => reply.message.clone(),
            Said::No(reply) if reply.message.is_empty() => format!("code {}", reply.code),
            Said::No(reply) => format!("code {}: {}", reply.code, reply.message),
            Said::Refused(reason) | Said::Unclear(reason) => reason.clone(),
        };
        printable(&text)
    }
}

/// Judges an answer. An answer outside of the protocol does not come from the executor but from something before it,
/// and of those only gateways can have passed the request on.
pub(super) fn judge(answer: &Answer) -> Said {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let read = match answer.rest {
        Rest::Read => Reply::read(&answer.body).map_err(|nonsense| nonsense.to_string()),
        Rest::Cut => Err(format!("the answer is longer than {} bytes", answer.body.len())),
        Rest::Broken => Err("the answer broke off".to_owned()),
    };
    let is_gateway = matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT);
    match read {
        Ok(reply) if !reply.is_ok() => Said::No(reply),
        Ok(reply) if status.is_success() => Said::Yes(reply),
        Ok(_) => Said::Unclear(answer::explained(status, "the answer says both yes and no")),
        Err(reason) if status.is_success() || is_gateway => Said::Unclear(answer::explained(status, &reason)),
        Err(reason) => Said::Refused(answer::explained(status, &reason)),
    }
}

/// A text in a form that is safe to print.
pub(super) fn printable(text: &str) -> String {
    let mut told = String::new();
    if !answer::put_printable(&mut told, text, TOLD_BYTES) {
        told.push('…');
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, body: &str) -> Said {
        judge(&Answer { status, body: body.into(), rest: Rest::Read })
    }

    #[test]
    fn the_code_counts_and_then_the_status() {
        assert!(matches!(said(200, r#"{"code":200}"#), Said::Yes(_)));
        assert!(matches!(said(201, r#"{"code":200}"#), Said::Yes(_)));
        assert!(matches!(said(200, r#"{"code":500}"#), Said::No(_)));
        assert!(matches!(said(401, r#"{"code":401,"msg":"token"}"#), Said::No(_)));
        assert!(matches!(said(500, r#"{"code":200}"#), Said::Unclear(_)));
        for status in [301, 400, 401, 404, 500, 503] {
            assert!(matches!(said(status, "<html>"), Said::Refused(_)), "{status}");
        }
        for status in [200, 204, 502, 504] {
            assert!(matches!(said(status, "<html>"), Said::Unclear(_)), "{status}");
        }
    }

    #[test]
    fn what_is_told_is_short_and_printable() {
        assert_eq!(said(200, r#"{"code":500,"msg":"a\nb"}"#).message(), "code 500: a\\nb");
        assert_eq!(said(404, "nope").message(), "404 Not Found: the answer is no JSON: nope");
        assert!(
            said(200, &format!(r#"{{"code":500,"msg":"{}"}}"#, "x".repeat(9_000))).message().len() < 5_000
        );
    }
}

//! The log of a run: what its executor wrote, or what this node knows.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use punctual_core::model::{Attempt, Text};
use punctual_node::ports::RunView;
use punctual_protocol::{Log, Role};
use serde_json::json;
use tokio::sync::mpsc::Sender;

use super::{ok, run};
use crate::app::Front;
use crate::clock;
use crate::convert::log::log;
use crate::credential::OVER;
use crate::logs::latest;
use crate::problem::Problem;
use crate::query::{Param, ParamKind};
use crate::stream::{self, sent_event};
use crate::table::{Answer, Call, Operation, Permission, schema_of};

const LOG: &[Param] = &[
    Param {
        name: "attempt",
        kind: ParamKind::Count { max: 1_048_575, usual: 1 },
        about: "Of this attempt. If it is not said: of the latest one of an executor's, of all of an agent's.",
    },
    Param {
        name: "part",
        kind: ParamKind::Index { max: 1_000_000 },
        about: "Of this part of a broadcast, from 0.",
    },
    Param { name: "from", kind: ParamKind::Count { max: u32::MAX, usual: 1 }, about: "From this line on." },
    Param {
        name: "follow",
        kind: ParamKind::Flag,
        about: "Streams server-sent events until the end of the log.",
    },
];

/// How often a followed log is read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// After how many reads without news a listener gets a sign of life.
const BEAT: u32 = 30;

/// How long, and how many bytes of, a log can be followed by one request. A client that wants more continues where it
/// was cut.
const FOLLOWED_FOR: Duration = Duration::from_secs(3_600);
const FOLLOWED_MAX: usize = 64 << 20;

/// How many times in a row an executor may fail to give its log before the listener is told.
const MISSES: u32 = 20;

pub(super) fn operations() -> Vec<Operation> {
    let forms = vec![
        ("application/json", Some(schema_of::<Log> as _)),
        ("text/plain", None),
        ("text/event-stream", None),
    ];
    vec![
        Operation::get("/api/v1/runs/{id}/log", "getRunLog", |front, call| Box::pin(read_log(front, call)))
            .about(
                "runs",
                "Shows what a run wrote, or what was said about it; as text where Accept asks for text/plain. What executors \
                 wrote comes a page at a time: `next` says where to go on, `end` that nothing will follow.",
            )
            .needs(Permission::Role(Role::Viewer))
            .query(LOG)
            .answers_as(200, "The log, or a piece of it.", forms, &[]),
    ]
}

/// Which lines are requested.
struct Wish {
    view: RunView,
    attempt: Option<u32>,
    /// The app of the run's executors, if it goes to executors.
    app: Option<Text>,
}

impl Wish {
    async fn read(front: &Front, call: &Call) -> Result<Wish, Problem> {
        let whole = run(front, call).await?;
        let app = front.logbook().executors_of(whole.job).await?;
        let view = match app.is_some() {
            true => part(front, call, whole).await?,
            false => whole,
        };
        Ok(Wish { view, attempt: call.query.count("attempt"), app })
    }

    async fn page(&self, front: &Front, from: u64) -> Result<Log, Problem> {
        let Some(app) = &self.app else { return Ok(log(&self.view, self.attempt, from, None)) };
        let Some(attempt) = self.attempt.map(Attempt).or_else(|| latest(&self.view)) else {
            let end = !self.view.state.is_open();
            return Ok(Log { text: String::new(), next: from, end, attempt: None });
        };
        front.logbook().read(&self.view, app, attempt, from).await
    }
}

/// The part of a run that is requested, or the run itself if it has no parts.
async fn part(front: &Front, call: &Call, whole: RunView) -> Result<RunView, Problem> {
    let mut parts = if whole.part.is_none() { front.browse.parts(whole.id).await? } else { Vec::new() };
    let asked = call.query.count("part").map(|part| part as usize);
    match (asked, parts.len()) {
        (None, 0) => Ok(whole),
        (Some(_), 0) => Err(Problem::malformed("?part: this run has no parts")),
        (Some(part), count) if part < count => Ok(parts.swap_remove(part)),
        (_, count) => {
            let last = count - 1;
            Err(Problem::malformed(format!("?part: this run has {count} parts; say which, from 0 to {last}")))
        }
    }
}

async fn read_log(front: Arc<Front>, call: Call) -> Answer {
    let wish = Wish::read(&front, &call).await?;
    let from = u64::from(call.query.count("from").unwrap_or(1));
    if call.query.flag("follow") {
        return follow(front, call, wish, from);
    }
    let log = wish.page(&front, from).await?;
    if wants_text(&call.headers) {
        let media = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        return Ok((StatusCode::OK, media, Body::from(log.text)).into_response());
    }
    Ok(ok(&log))
}

/// Whether the caller accepts text, and does not name JSON before it.
fn wants_text(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut media = accepted.split(',').map(|media| media.split(';').next().unwrap_or_default().trim());
    media.find(|media| ["text/plain", "application/json", "*/*"].contains(media)) == Some("text/plain")
}

/// The log as server-sent events, until it has ended or the listener hangs up.
fn follow(front: Arc<Front>, call: Call, wish: Wish, mut from: u64) -> Answer {
    let place = front.budgets.stream(call.caller.id)?;
    let (pieces, body) = stream::open(4);
    tokio::spawn(async move {
        let Call { caller, credential, .. } = call;
        let is_over = tokio::select! {
            () = tell(&front, wish, &mut from, &pieces) => false,
            () = credential.over(&front, &caller) => true,
        };
        if is_over {
            let _ = pieces.try_send(cut_piece(from, OVER));
        }
        drop(place);
    });
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// Sends the log from line `from` on, and moves `from` along.
async fn tell(front: &Front, mut wish: Wish, from: &mut u64, pieces: &Sender<Bytes>) {
    let late = clock::instant() + FOLLOWED_FOR;
    let (mut silence, mut misses, mut told) = (0, 0, 0);
    loop {
        let piece = match wish.page(front, *from).await {
            Ok(piece) => piece,
            Err(problem) if misses >= MISSES => return cut(pieces, *from, &problem.detail).await,
            Err(_) => {
                misses += 1;
                Log { text: String::new(), next: *from, end: false, attempt: None }
            }
        };
        if piece.end || !piece.text.is_empty() {
            (*from, silence, misses) = (piece.next, 0, 0);
            told += piece.text.len();
            // From the first line on, the attempt stays the same.
            wish.attempt = wish.attempt.or(piece.attempt);
            let data = serde_json::to_string(&piece).expect("a log is plain data");
            let is_heard = pieces.send(Bytes::from(sent_event(None, "log", &data))).await.is_ok();
            if piece.end || !is_heard {
                return;
            }
        }
        if told > FOLLOWED_MAX || clock::instant() >= late {
            return cut(pieces, *from, "it has been followed for long enough; go on from here").await;
        }
        silence += 1;
        if silence % BEAT == 0 && pieces.send(Bytes::from_static(b":\n\n")).await.is_err() {
            return;
        }
        tokio::select! {
            () = clock::sleep(LOOK_EVERY) => {}
            () = pieces.closed() => return,
        }
        if front.events.is_closed() {
            return;
        }
        match front.browse.run(wish.view.id).await {
            Ok(Some(now)) => wish.view = now,
            // The run was dropped with its day, or the store cannot be read for the moment; in both cases asking
            // again loses nothing.
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

/// Says why the stream does not go on, and from which line it can be resumed.
async fn cut(pieces: &Sender<Bytes>, next: u64, reason: &str) {
    let _ = pieces.send(cut_piece(next, reason)).await;
}

fn cut_piece(next: u64, reason: &str) -> Bytes {
    let data = json!({"next": next, "reason": reason}).to_string();
    Bytes::from(sent_event(None, "cut", &data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_given_to_those_who_ask_for_it() {
        let wants = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            wants_text(&headers)
        };
        assert!(wants("text/plain") && wants("text/html, text/plain;q=0.9, */*"));
        assert!(!wants("application/json") && !wants("*/*") && !wants("application/json, text/plain"));
        assert!(!wants_text(&HeaderMap::new()));
    }
}

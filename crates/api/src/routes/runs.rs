//! Runs: listed, shown, and explained.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use punctual_core::model::{JobId, RunId, RunState};
use punctual_node::ports::{RunFilter, RunView};
use punctual_protocol::{Log, Page, Role, Run, Why};

use super::{named_job, ok, run};
use crate::app::Front;
use crate::convert::job_ref::JobRef;
use crate::convert::log::log;
use crate::convert::run::show;
use crate::convert::why::why;
use crate::cursor;
use crate::problem::Problem;
use crate::query::{CURSOR, Kind, LIMIT, Param};
use crate::stream::{self, sent_event};
use crate::table::{Answer, Call, Operation, Permission, schema_of};

const STATE: Param = Param { name: "state", kind: Kind::State, about: "In this state." };
const FROM: Param = Param { name: "from", kind: Kind::Time, about: "From this fire time on." };
const TO: Param = Param { name: "to", kind: Kind::Time, about: "Before this fire time." };
const KEY: Param = Param { name: "key", kind: Kind::Text, about: "With this key." };

/// What the runs of one job are filtered by.
pub(super) const RUN_PARAMS: &[Param] = &[STATE, FROM, TO, KEY, LIMIT, CURSOR];

const LIST: &[Param] = &[
    Param { name: "job", kind: Kind::Job, about: "Of this job: its number, or app/name." },
    Param { name: "app", kind: Kind::Text, about: "Of jobs of this app." },
    STATE,
    FROM,
    TO,
    KEY,
    LIMIT,
    CURSOR,
];

const LOG: &[Param] = &[
    Param { name: "attempt", kind: Kind::Count { max: 1_048_575, usual: 1 }, about: "Of this attempt only." },
    Param { name: "from", kind: Kind::Count { max: u32::MAX, usual: 1 }, about: "From this line on." },
    Param { name: "follow", kind: Kind::Flag, about: "Streams server-sent events until the run has ended." },
];

/// How often a run that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often a listener hears that the connection lives.
const BEAT: u32 = 30;

pub(super) fn operations() -> Vec<Operation> {
    let viewer = Permission::Role(Role::Viewer);
    let log_forms = vec![
        ("application/json", Some(schema_of::<Log> as _)),
        ("text/plain", None),
        ("text/event-stream", None),
    ];
    vec![
        Operation::get("/api/v1/runs", "listRuns", |front, call| Box::pin(list(front, call)))
            .about("runs", "Lists runs, the newest first.")
            .needs(viewer)
            .query(LIST)
            .answers::<Page<Run>>(200, "A page of runs."),
        Operation::get("/api/v1/runs/{id}", "getRun", |front, call| Box::pin(get(front, call)))
            .about("runs", "Shows a run with its attempts.")
            .needs(viewer)
            .answers::<Run>(200, "The run."),
        Operation::get("/api/v1/runs/{id}/log", "getRunLog", |front, call| Box::pin(read_log(front, call)))
            .about("runs", "Shows what was said about a run; as text where Accept asks for text/plain.")
            .needs(viewer)
            .query(LOG)
            .answers_as(200, "The log, or a piece of it.", log_forms, &[]),
        Operation::get("/api/v1/runs/{id}/why", "explainRun", |front, call| Box::pin(explain(front, call)))
            .about("runs", "Says in one sentence why a run ran, waits, was late or was skipped.")
            .needs(viewer)
            .answers::<Why>(200, "The sentence and what it rests on."),
    ]
}

async fn list(front: Arc<Front>, call: Call) -> Answer {
    let named = call.query.text("job").map(JobRef::parse).transpose().map_err(Problem::malformed)?;
    let job = match &named {
        None => None,
        // A deleted job has a number and a history, but no name.
        Some(JobRef::Id(id)) => Some(*id),
        Some(named) => match named_job(&front, &call.caller, named).await? {
            Some(view) => Some(view.id),
            None => return Ok(nothing()),
        },
    };
    match filter(&front, &call, job).await? {
        Some(filter) => page(&front, &call, filter).await,
        None => Ok(nothing()),
    }
}

fn nothing() -> Response {
    ok(&Page::<Run> { items: Vec::new(), next_cursor: None })
}

/// What a list is filtered by; none if the caller reaches nothing of it.
pub(super) async fn filter(
    front: &Front,
    call: &Call,
    job: Option<JobId>,
) -> Result<Option<RunFilter>, Problem> {
    let apps = call.caller.apps_of(call.query.text("app"));
    if apps.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    if let Some(job) = job
        && !call.caller.reaches_all()
        && !super::reaches_job(front, &call.caller, job).await?
    {
        return Ok(None);
    }
    let state = call.query.text("state").and_then(|state| state.parse::<RunState>().ok());
    let (from, to, key) = (call.query.time("from"), call.query.time("to"), call.query.owned("key"));
    Ok(Some(RunFilter { job, apps, state, from, to, key }))
}

pub(super) async fn page(front: &Front, call: &Call, filter: RunFilter) -> Answer {
    let before = cursor::read('r', &call.query)?.map(RunId);
    let page = front.browse.run_list(&filter, before, call.query.limit()).await?;
    let next_cursor = page.next.map(|id| cursor::write('r', id.0));
    Ok(ok(&Page { items: page.items.iter().map(show).collect(), next_cursor }))
}

async fn get(front: Arc<Front>, call: Call) -> Answer {
    Ok(ok(&show(&run(&front, &call).await?)))
}

async fn explain(front: Arc<Front>, call: Call) -> Answer {
    let view = run(&front, &call).await?;
    Ok(ok(&why(&view, front.now()?)))
}

async fn read_log(front: Arc<Front>, call: Call) -> Answer {
    let view = run(&front, &call).await?;
    let attempt = call.query.count("attempt");
    let from = u64::from(call.query.count("from").unwrap_or(1));
    if call.query.flag("follow") {
        return Ok(follow(front, view, attempt, from));
    }
    let log = log(&view, attempt, from);
    if wants_text(&call.headers) {
        let media = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        return Ok((StatusCode::OK, media, Body::from(log.text)).into_response());
    }
    Ok(ok(&log))
}

/// Whether text is wished for, and JSON is not named before it.
fn wants_text(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut media = accepted.split(',').map(|media| media.split(';').next().unwrap_or_default().trim());
    media.find(|media| ["text/plain", "application/json", "*/*"].contains(media)) == Some("text/plain")
}

/// The log as server-sent events, until the run has ended or nobody listens.
fn follow(front: Arc<Front>, view: RunView, attempt: Option<u32>, from: u64) -> Response {
    let (pieces, body) = stream::open(4);
    let told = async move {
        let (id, mut view, mut from, mut silence) = (view.id, view, from, 0);
        loop {
            let piece = log(&view, attempt, from);
            if piece.end || !piece.text.is_empty() {
                from = piece.next;
                silence = 0;
                let data = serde_json::to_string(&piece).expect("a log is plain data");
                let is_heard = pieces.send(Bytes::from(sent_event(None, "log", &data))).await.is_ok();
                if piece.end || !is_heard {
                    return;
                }
            }
            silence += 1;
            if silence % BEAT == 0 && pieces.send(Bytes::from_static(b":\n\n")).await.is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = pieces.closed() => return,
            }
            if front.events.is_closed() {
                return;
            }
            match front.browse.run(id).await {
                Ok(Some(now)) => view = now,
                // Dropped with its day, or not to be read for the moment; in both cases nothing is lost by asking again.
                Ok(None) => return,
                Err(_) => {}
            }
        }
    };
    tokio::spawn(told);
    (StatusCode::OK, [(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
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

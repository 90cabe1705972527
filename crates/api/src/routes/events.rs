//! Live events, as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::{StatusCode, header};
use punctual_core::event::Event;
use punctual_core::model::JobId;
use punctual_observe::{RingEntry, Told, app_of, job_of};
use punctual_protocol::Role;
use tokio::sync::mpsc::Sender;

use crate::app::Front;
use crate::caller::Caller;
use crate::clock;
use crate::credential::OVER;
use crate::events::show;
use crate::stream::{self, sent_event};
use crate::table::{Answer, Call, Operation, Permission};

/// How many events go out in one piece.
pub(super) const PIECE: usize = 256;

/// How long a connection is silent at most.
const BEAT: Duration = Duration::from_secs(15);

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/api/v1/events", "listen", |front, call| Box::pin(listen(front, call)))
            .about(
                "events",
                "Streams what happens on all nodes as server-sent events. Last-Event-ID goes on where a connection was cut; \
                 a `reset` event says that some were missed.",
            )
            .needs(Permission::Role(Role::Viewer))
            .resumed()
            .answers_as(200, "Events, until the connection is closed.", vec![("text/event-stream", None)], &[]),
    ]
}

async fn listen(front: Arc<Front>, call: Call) -> Answer {
    // Refusing a foreign id would end the listening of a browser for good; a reset lets it go on.
    let last = call.headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let resumed = last.map(|last| front.events.after(last));
    let place = front.budgets.stream(call.caller.id)?;
    // Before the answer: what the caller reads after the answer is then at least as new as the first event.
    let listening = front.relays.listen(&front).await;
    let first = front.events.now();
    let (pieces, body) = stream::open(4);
    tokio::spawn(async move {
        let Call { caller, credential, .. } = call;
        tokio::select! {
            () = tell(&front, &caller, resumed, first, &pieces) => {}
            // The comment says why; a new stream is refused with the same reason.
            () = credential.over(&front, &caller) => {
                let _ = pieces.try_send(Bytes::from(format!(": {OVER}\n\n")));
            }
        }
        drop((place, listening));
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((StatusCode::OK, headers, body).into_response())
}

/// Sends events to a listener, until it hangs up or the node stops.
async fn tell(
    front: &Front,
    caller: &Caller,
    resumed: Option<Option<u64>>,
    first: u64,
    pieces: &Sender<Bytes>,
) {
    let mut news = front.events.listen();
    let mut place = resumed.flatten().unwrap_or(first);
    let hello = if resumed == Some(None) { reset(front, place) } else { String::new() };
    if pieces.send(Bytes::from(format!("retry: 2000\n\n{hello}"))).await.is_err() {
        return;
    }
    loop {
        let told = front.events.read(place, PIECE);
        let piece = piece(front, caller, &told).await;
        let is_behind = told.next < front.events.now();
        place = told.next;
        if !piece.is_empty() && pieces.send(Bytes::from(piece)).await.is_err() || front.events.is_closed() {
            return;
        }
        if is_behind {
            continue;
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = pieces.closed() => return,
            () = clock::sleep(BEAT) => {
                if pieces.send(Bytes::from_static(b":\n\n")).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Says that events were missed, and names the place from which the stream goes on.
fn reset(front: &Front, place: u64) -> String {
    let id = place.checked_sub(1).map(|last| front.events.id(last));
    sent_event(id.as_deref(), "reset", "{}")
}

async fn piece(front: &Front, caller: &Caller, told: &Told) -> String {
    let mut piece = if told.is_reset { reset(front, told.next) } else { String::new() };
    for (number, heard) in &told.events {
        match heard {
            RingEntry::Here(at, event) if may_hear(front, caller, event).await => {
                let (name, data) = show(event, *at);
                piece.push_str(&sent_event(Some(&front.events.id(*number)), name, &data.to_string()));
            }
            RingEntry::Elsewhere(event) if reaches(front, caller, event.app.as_deref(), event.job).await => {
                piece.push_str(&sent_event(Some(&front.events.id(*number)), &event.name, &event.data));
            }
            RingEntry::Gap => piece.push_str(&reset(front, number + 1)),
            RingEntry::Here(..) | RingEntry::Elsewhere(_) => {}
        }
    }
    piece
}

async fn may_hear(front: &Front, caller: &Caller, event: &Event) -> bool {
    if let Event::JobChanged { job, .. } = event {
        front.apps.forget(*job);
    }
    reaches(front, caller, app_of(event), job_of(event)).await
}

/// Whether the caller reaches what an event is about. An event without app and job is for callers that reach all of
/// them.
async fn reaches(front: &Front, caller: &Caller, app: Option<&str>, job: Option<JobId>) -> bool {
    if caller.reaches_all() {
        return true;
    }
    if let Some(app) = app {
        return caller.reaches(app);
    }
    let Some(job) = job else { return false };
    let app = front.apps.get(&*front.browse, job).await;
    app.is_ok_and(|app| app.is_some_and(|app| caller.reaches(&app)))
}

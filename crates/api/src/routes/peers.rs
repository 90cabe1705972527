//! The routes by which nodes ask each other for figures and events. Each node answers for itself alone.

use std::sync::Arc;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::{StatusCode, header};
use punctual_observe::{RingEntry, Told, app_of, job_of};
use punctual_protocol::{EVENTS_PATH, FIGURES_PATH, PeerEvent, PeerFiguresAsked, PeerSaid};
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use super::events::PIECE;
use super::jobs::catch_up;
use super::ok;
use crate::app::Front;
use crate::clock;
use crate::events::show;
use crate::problem::Problem;
use crate::relay::BEAT;
use crate::table::{Answer, Call, Operation, Permission};
use crate::{body, others, stream};

/// The size of a page of jobs.
const JOBS_MAX: usize = 1_000;

/// At least as many as a node ever asks for; see `routes/stats.rs`.
const STRETCHES_MAX: i64 = 200;

/// Room for the ids of a page of jobs.
const BODY_MAX: usize = 64 << 10;

/// The longest stretch, in steps of five minutes: a week.
const STEPS_MAX: i64 = 7 * 24 * 12;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post(FIGURES_PATH, "tellFigures", |front, call| Box::pin(figures(front, call)))
            .about("cluster", "Tells another node the figures of this one.")
            .needs(Permission::Peer)
            .takes::<Value>()
            .body_max(BODY_MAX)
            .answers_nothing(200, "The figures."),
        Operation::get(EVENTS_PATH, "tellEvents", |front, call| Box::pin(listen(front, call)))
            .about("cluster", "Tells another node what happens at this one.")
            .needs(Permission::Peer)
            .answers_nothing(200, "Events, until the connection is closed."),
    ]
}

async fn figures(front: Arc<Front>, call: Call) -> Answer {
    let asked: PeerFiguresAsked = serde_json::from_slice(&call.body).map_err(|error| body::broken(&error))?;
    let fits = asked.stretches.is_none_or(|stretches| {
        (1..=STRETCHES_MAX).contains(&stretches.count)
            && (1..=STEPS_MAX).contains(&stretches.step)
            && stretches.first.abs() < 1 << 40
    });
    if !fits || asked.jobs.len() > JOBS_MAX {
        return Err(Problem::malformed("more figures than there are"));
    }
    catch_up(&front, front.now()?).await;
    Ok(ok(&others::told(&front, &asked)))
}

async fn listen(front: Arc<Front>, call: Call) -> Answer {
    let last = call.headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let resumed = last.map(|last| front.events.after(last));
    let place = resumed.flatten().unwrap_or_else(|| front.events.now());
    let (pieces, body) = stream::open(4);
    tokio::spawn(async move {
        let seat = call.seat;
        tell(&front, place, resumed == Some(None), &pieces).await;
        drop(seat);
    });
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Sends all events of this node to another node, until that hangs up or this node stops.
async fn tell(front: &Front, mut place: u64, is_reset: bool, pieces: &Sender<Bytes>) {
    let mut news = front.events.listen();
    let mut piece = line(&PeerSaid::Begin { id: before(front, place), is_reset });
    loop {
        let told = front.events.read(place, PIECE);
        place = told.next;
        piece.push_str(&lines(front, &told));
        if !piece.is_empty() && pieces.send(Bytes::from(std::mem::take(&mut piece))).await.is_err()
            || front.events.is_closed()
        {
            return;
        }
        if place < front.events.now() {
            continue;
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = pieces.closed() => return,
            () = clock::sleep(BEAT) => piece.push_str(&line(&PeerSaid::Beat)),
        }
    }
}

/// The id of the place before an event.
fn before(front: &Front, place: u64) -> String {
    place.checked_sub(1).map_or_else(|| "start".into(), |last| front.events.id(last))
}

/// The events of this node; other nodes send their own.
fn lines(front: &Front, told: &Told) -> String {
    let mut lines = String::new();
    if told.is_reset {
        lines.push_str(&line(&PeerSaid::Missed { id: before(front, told.next) }));
    }
    for (number, heard) in &told.events {
        let RingEntry::Here(at, event) = heard else { continue };
        let (name, data) = show(event, *at);
        let Value::Object(data) = data else { continue };
        lines.push_str(&line(&PeerSaid::Event(PeerEvent {
            id: front.events.id(*number),
            name: name.into(),
            app: app_of(event).map(str::to_owned),
            job: job_of(event).map(|job| job.0),
            data,
        })));
    }
    lines
}

fn line(said: &PeerSaid) -> String {
    let mut line = serde_json::to_string(said).expect("what nodes say is plain data");
    line.push('\n');
    line
}

//! One executor's session: its hello, what it reports, what it is sent, and its end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::{Heard, Progress};
use punctual_protocol::native::{
    Code, FRAME_MAX, FromExecutor, FromNode, Goodbye, Hello, Refusal, VERSION, Welcome,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::budget::{FrameMeter, Metered};
use super::hub::{Hub, Session};
use super::outbox::End;
use super::write::{messages, text};
use super::{Reception, carry};
use crate::clock;

/// How long an executor that has stopped reading is given to receive the reason for the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The longest progress note, in bytes.
const NOTE_MAX: usize = 1 << 10;

type Socket<S> = WebSocketStream<S>;

/// How an executor's side of a session ended.
enum Ended {
    /// It said goodbye: it holds no attempts any more.
    Goodbye,
    /// It may come back.
    Broken,
    /// It did something that ends the session.
    Wrong(Refusal),
}

/// Speaks with an executor until one side ends it.
pub(super) async fn attend<S>(hub: Arc<Hub>, socket: S, reception: Arc<dyn Reception>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let config = WebSocketConfig::default().max_message_size(Some(FRAME_MAX)).max_frame_size(Some(FRAME_MAX));
    let meter = hub.meter();
    let socket = Metered::new(socket, Arc::clone(&meter));
    let mut socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await;
    let hello = match timeout(hub.options().hello, greeting(&mut socket, &meter)).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(refusal)) => return refuse(&hub, &mut socket, refusal).await,
        Err(_) => {
            let reason = "no hello came in time".to_owned();
            return refuse(&hub, &mut socket, Refusal { code: Code::Malformed, reason }).await;
        }
    };
    let stale = match reception.welcome(&hello).await {
        Ok(stale) => stale,
        Err(refusal) => return refuse(&hub, &mut socket, refusal).await,
    };
    let session = hub.open(&hello, &stale, reception.is_carrier(), meter);
    carry::set_out(&hub, &session, &hello);
    let is_final = converse(&hub, &session, socket, &hello, stale, &reception).await;
    // A session that was replaced has a successor, so its executor is not gone.
    if hub.close_session(&session) {
        reception.farewell(&hello.app, &session.of.url, is_final).await;
    }
}

/// The first message.
async fn greeting<S>(socket: &mut Socket<S>, meter: &FrameMeter) -> Result<Hello, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let said = socket.next().await;
        if let Some(Ok(message)) = &said {
            meter.completed(message);
        }
        match said {
            Some(Ok(Message::Text(said))) => match FromExecutor::read(&said)? {
                FromExecutor::Hello(hello) if hello.version == VERSION => return Ok(hello),
                FromExecutor::Hello(Hello { version, .. }) => {
                    let reason = format!("version {version} is not known; this node speaks {VERSION}");
                    return Err(Refusal { code: Code::Version, reason });
                }
                _ => return Err(Refusal::malformed("the first message must be hello")),
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(_)) | None => return Err(Refusal::malformed("expected hello, as text")),
            Some(Err(error)) => return Err(broken(&error, meter)),
        }
    }
}

/// Whether the executor said goodbye.
async fn converse<S>(
    hub: &Arc<Hub>,
    session: &Arc<Session>,
    mut socket: Socket<S>,
    hello: &Hello,
    stale: Vec<punctual_protocol::native::Held>,
    reception: &Arc<dyn Reception>,
) -> bool
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let options = *hub.options();
    let welcome = FromNode::Welcome(Welcome {
        version: VERSION,
        node: hub.node().to_owned(),
        ping_ms: options.ping.as_millis() as u64,
        silence_ms: options.silence.as_millis() as u64,
        resume_ms: options.resume.as_millis() as u64,
        frame_max: FRAME_MAX as u64,
        nodes: hub.nodes(),
        stale,
    });
    if timeout(options.unread, socket.send(Message::text(text(&welcome)))).await.is_err() {
        return false;
    }
    let (sink, stream) = socket.split();
    let mut writer = hub.runtime().spawn(write(Arc::clone(hub), Arc::clone(session), sink));
    let ended = tokio::select! {
        ended = read(hub, session, stream) => ended,
        _ = &mut writer => Ended::Broken,
        ended = tell_progress(hub, session) => ended,
        () = until_unwelcome(hub, reception, &hello.app) => {
            let reason = "its token is no longer valid".to_owned();
            Ended::Wrong(Refusal { code: Code::Refused, reason })
        }
    };
    let is_final = matches!(ended, Ended::Goodbye);
    if let Ended::Wrong(refusal) = ended {
        if let Some(count) = hub.refusals.note(clock::instant()) {
            let (url, reason) = (&*session.of.url, &refusal.reason);
            tracing::warn!(url, count, reason, "executors were refused; this one's session is ended");
        }
        session.outbox.end(End::Refused(refusal));
        let _ = timeout(options.unread, writer).await;
    } else {
        writer.abort();
    }
    is_final
}

/// Passes on the progress that was held back, for as long as the session lasts.
async fn tell_progress(hub: &Hub, session: &Session) -> Ended {
    loop {
        let due = session.progress.due().await;
        hub.tell(due.into_iter().map(Heard::Progress).collect());
    }
}

/// Waits until the reception would no longer let the executor in.
async fn until_unwelcome(hub: &Hub, reception: &Arc<dyn Reception>, app: &str) {
    loop {
        clock::sleep(hub.options().check).await;
        if !reception.is_welcome(app).await {
            return;
        }
    }
}

/// Hears what an executor says, until it ends.
async fn read<S>(hub: &Arc<Hub>, session: &Arc<Session>, mut stream: SplitStream<Socket<S>>) -> Ended
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let said = match timeout(hub.options().silence, stream.next()).await {
            Ok(Some(Ok(said))) => said,
            Ok(Some(Err(error))) if is_wrong(&error, &session.meter) => {
                return Ended::Wrong(broken(&error, &session.meter));
            }
            Ok(Some(Err(_)) | None) | Err(_) => return Ended::Broken,
        };
        session.meter.completed(&said);
        match said {
            Message::Text(said) => match FromExecutor::read(&said) {
                Ok(said) => match hear(hub, session, said) {
                    None => {}
                    Some(ended) => return ended,
                },
                Err(refusal) => return Ended::Wrong(refusal),
            },
            Message::Binary(_) => return Ended::Wrong(Refusal::malformed("messages are text")),
            Message::Close(_) => return Ended::Broken,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

fn hear(hub: &Arc<Hub>, session: &Arc<Session>, said: FromExecutor) -> Option<Ended> {
    match session.carriages.pass_on(said)? {
        FromExecutor::Reports(said) => {
            if let Err(reason) = hub.hear_reports(session, said.reports, said.credits) {
                return Some(Ended::Wrong(Refusal { code: Code::Unavailable, reason }));
            }
        }
        FromExecutor::Credit(credit) => {
            hub.hear_credit(session, credit.more);
        }
        FromExecutor::Log(log) if session.has(RunId(log.run), Attempt(log.attempt)) => {
            hub.scrolls().write(&session.of.app, RunId(log.run), Attempt(log.attempt), log.from, &log.lines);
        }
        FromExecutor::Progress(mut said) if session.has(RunId(said.run), Attempt(said.attempt)) => {
            said.note.truncate(said.note.floor_char_boundary(NOTE_MAX));
            let (run, attempt, note) = (RunId(said.run), Attempt(said.attempt), said.note.into());
            let progress = Progress { run, attempt, percent: said.percent, note };
            hub.tell(session.progress.admit(progress).map(Heard::Progress).into_iter().collect());
        }
        FromExecutor::Drain => {
            session.carriages.tell_all(&FromExecutor::Drain);
            hub.tell(vec![Heard::Draining { of: session.of.clone() }]);
        }
        FromExecutor::Goodbye => {
            session.carriages.tell_all(&FromExecutor::Goodbye);
            return Some(Ended::Goodbye);
        }
        FromExecutor::Error(refusal) => {
            tracing::warn!(url = &*session.of.url, reason = refusal.reason, "an executor ends its session");
            return Some(Ended::Broken);
        }
        FromExecutor::Hello(_) => return Some(Ended::Wrong(Refusal::malformed("a second hello"))),
        // Messages of later versions, and messages about attempts that this executor does not have.
        FromExecutor::Log(_) | FromExecutor::Progress(_) | FromExecutor::Unknown => {}
    }
    None
}

/// Sends what has gathered, again and again, and pings.
async fn write<S>(hub: Arc<Hub>, session: Arc<Session>, mut sink: SplitSink<Socket<S>, Message>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let options = *hub.options();
    let mut pings = clock::interval_at(clock::instant() + options.ping, options.ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (said, end) = tokio::select! {
            gathered = session.outbox.take() => {
                let said = messages(&gathered).into_iter().map(Message::text).collect();
                (said, gathered.end)
            }
            _ = pings.tick() => (vec![Message::Ping(Vec::new().into())], None),
        };
        let sending = async {
            for one in said {
                sink.feed(one).await?;
            }
            sink.flush().await
        };
        match timeout(options.unread, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => {
                let reason = "what was sent was not read in time".to_owned();
                let end = End::Refused(Refusal { code: Code::TooSlow, reason });
                let _ = timeout(LAST_WORDS, close(&mut sink, end)).await;
                return;
            }
        }
        if let Some(end) = end {
            let _ = timeout(options.unread, close(&mut sink, end)).await;
            return;
        }
    }
}

/// The last words, and the end of the connection.
async fn close<S>(sink: &mut SplitSink<Socket<S>, Message>, end: End) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (last, code) = match end {
        End::Goodbye(reason) => (FromNode::Goodbye(Goodbye { reason }), CloseCode::Away),
        End::Refused(refusal) => {
            let code = if refusal.code == Code::TooLarge { CloseCode::Size } else { CloseCode::Policy };
            (FromNode::Error(refusal), code)
        }
    };
    sink.send(Message::text(text(&last))).await?;
    sink.send(Message::Close(Some(CloseFrame { code, reason: "".into() }))).await
}

async fn refuse<S>(hub: &Hub, socket: &mut Socket<S>, refusal: Refusal)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Some(count) = hub.refusals.note(clock::instant()) {
        tracing::warn!(count, reason = refusal.reason, "executors were not let in; the last for this reason");
    }
    let code = if refusal.code == Code::TooLarge { CloseCode::Size } else { CloseCode::Policy };
    let last = text(&FromNode::Error(refusal));
    let refusing = async {
        socket.send(Message::text(last)).await?;
        socket.close(Some(CloseFrame { code, reason: "".into() })).await?;
        // The executor must have read the refusal before the connection is closed.
        while socket.next().await.is_some_and(|said| said.is_ok()) {}
        Ok::<(), Error>(())
    };
    let _ = timeout(hub.options().hello, refusing).await;
}

fn is_wrong(error: &Error, meter: &FrameMeter) -> bool {
    meter.refusal().is_some() || matches!(error, Error::Capacity(_) | Error::Protocol(_) | Error::Utf8(_))
}

fn broken(error: &Error, meter: &FrameMeter) -> Refusal {
    if let Some(reason) = meter.refusal() {
        return Refusal { code: Code::Unavailable, reason };
    }
    let code = if matches!(error, Error::Capacity(_)) { Code::TooLarge } else { Code::Malformed };
    Refusal { code, reason: error.to_string() }
}

//! One session with a node, and the loop that opens sessions: reading, writing, silence and backoff.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use punctual_protocol::native::{
    Code, FRAME_MAX, FromExecutor, FromNode, Goodbye, Hello, Kept, Nodes, Refusal, Want, Welcome,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header::AUTHORIZATION};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::context::ReceivedRun;
use crate::coordinator::{ConnectDecision, Event};
use crate::frames;
use crate::handler::Rules;
use crate::surroundings;
use crate::url::Url;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const WELCOME_WITHIN: Duration = Duration::from_secs(10);
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// The pause between two tries; it doubles after each.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The pause after a refusal that only a change of settings can end, such as a wrong token.
const PAUSE_REFUSED: Duration = Duration::from_secs(30);
/// A session ends after this silence, even if the node allows more.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// What all links of an executor have in common.
pub(crate) struct Identity {
    pub(crate) hello: Hello,
    pub(crate) token: Option<HeaderValue>,
    pub(crate) tls: TlsConnector,
    pub(crate) rules: Arc<Rules>,
    pub(crate) events: UnboundedSender<Event>,
}

/// Keeps a session with a node until it is told to stop.
pub(crate) async fn keep(link: usize, url: Url, identity: Arc<Identity>, mut stop: watch::Receiver<bool>) {
    let mut pause = PAUSE_MIN;
    while !*stop.borrow() {
        let Some(answer) = ask(link, &identity).await else { return };
        let waits = match answer {
            ConnectDecision::Stop => return,
            ConnectDecision::Later => PAUSE_MAX,
            ConnectDecision::Go(_) => {
                let tried = tokio::select! {
                    connected = connect(&url, &identity) => connected,
                    _ = stop.wait_for(|is_over| *is_over) => return,
                };
                // Asked again, because claims may have changed while the connection was made.
                let Some(ConnectDecision::Go(holds)) = ask(link, &identity).await else { continue };
                let began = surroundings::instant();
                let over = match tried {
                    Ok(socket) => session(link, socket, holds, &identity).await,
                    Err(over) => over,
                };
                // The backoff starts anew only after a session that lasted.
                if surroundings::since(began) >= PAUSE_MAX {
                    pause = PAUSE_MIN;
                }
                let waits = if over.is_final { PAUSE_REFUSED } else { jittered(pause) };
                pause = PAUSE_MAX.min(pause * 2);
                let SessionEnd { reason, is_replaced, .. } = over;
                let _ = identity.events.send(Event::Closed { link, reason, is_replaced });
                waits
            }
        };
        tokio::select! {
            () = surroundings::sleep(waits) => {}
            _ = stop.wait_for(|is_over| *is_over) => return,
        }
    }
}

async fn ask(link: usize, identity: &Identity) -> Option<ConnectDecision> {
    let (answer, answered) = oneshot::channel();
    identity.events.send(Event::Connecting { link, answer }).ok()?;
    answered.await.ok()
}

/// Between half of the pause and all of it, so that executors which lost a node together do not reconnect together.
fn jittered(pause: Duration) -> Duration {
    let half = pause / 2;
    half + half.mul_f64((surroundings::bits() >> 11) as f64 / (1_u64 << 53) as f64)
}

/// Why a session ended, or could not be opened.
struct SessionEnd {
    reason: String,
    /// The error to send to the node.
    refusal: Option<Refusal>,
    /// Whether the executor ends the session: then the node gets time to read the reason.
    is_ours: bool,
    is_replaced: bool,
    /// Whether the next try would be refused too.
    is_final: bool,
}

impl SessionEnd {
    fn new(reason: impl Into<String>) -> SessionEnd {
        SessionEnd {
            reason: reason.into(),
            refusal: None,
            is_ours: false,
            is_replaced: false,
            is_final: false,
        }
    }

    fn refusing(refusal: Refusal) -> SessionEnd {
        SessionEnd { refusal: Some(refusal.clone()), is_ours: true, ..SessionEnd::new(refusal.reason) }
    }

    fn malformed(reason: impl Into<String>) -> SessionEnd {
        SessionEnd::refusing(Refusal::malformed(reason))
    }

    /// The reason that a node gave.
    fn said(refusal: Refusal) -> SessionEnd {
        let is_final = matches!(refusal.code, Code::Version | Code::Refused);
        let is_replaced = refusal.code == Code::Replaced;
        SessionEnd { is_final, is_replaced, ..SessionEnd::new(format!("the node says: {}", refusal.reason)) }
    }

    fn broken(error: Error) -> SessionEnd {
        match error {
            Error::Capacity(CapacityError::MessageTooLong { size, .. }) => {
                let reason = format!("a message of {size} bytes; at most {FRAME_MAX} are read");
                SessionEnd::refusing(Refusal { code: Code::TooLarge, reason })
            }
            Error::Utf8(reason) => SessionEnd::malformed(reason),
            Error::Http(response) => {
                let status = response.status();
                let reason = match status.as_u16() {
                    401 | 403 => format!("the node answered {status}: is the token right?"),
                    404 => format!("the node answered {status}: is it a Punctual node, and new enough?"),
                    _ => format!("the node answered {status}"),
                };
                SessionEnd { is_final: status.is_client_error(), ..SessionEnd::new(reason) }
            }
            error => SessionEnd::new(error.to_string()),
        }
    }
}

/// A stream to a node, encrypted or not.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

type Socket = WebSocketStream<Box<dyn ByteStream>>;

async fn connect(url: &Url, identity: &Identity) -> Result<Socket, SessionEnd> {
    let connected = timeout(CONNECT_WITHIN, dial(url, identity)).await;
    connected.unwrap_or_else(|_| Err(SessionEnd::new("it took too long to connect")))
}

async fn dial(url: &Url, identity: &Identity) -> Result<Socket, SessionEnd> {
    let cannot = |error: io::Error| SessionEnd::new(format!("cannot connect: {error}"));
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(cannot)?;
    stream.set_nodelay(true).map_err(cannot)?;
    let stream: Box<dyn ByteStream> = if url.is_secure {
        let name =
            ServerName::try_from(url.host.clone()).map_err(|error| SessionEnd::new(error.to_string()))?;
        Box::new(identity.tls.connect(name, stream).await.map_err(cannot)?)
    } else {
        Box::new(stream)
    };
    let mut request = url.request().into_client_request().map_err(SessionEnd::broken)?;
    if let Some(token) = &identity.token {
        request.headers_mut().insert(AUTHORIZATION, token.clone());
    }
    let config = WebSocketConfig::default().max_message_size(Some(FRAME_MAX)).max_frame_size(Some(FRAME_MAX));
    let (socket, _) =
        client_async_with_config(request, stream, Some(config)).await.map_err(SessionEnd::broken)?;
    Ok(socket)
}

async fn session(
    link: usize,
    socket: Socket,
    holds: Vec<punctual_protocol::native::Held>,
    identity: &Identity,
) -> SessionEnd {
    let (mut sink, mut stream) = socket.split();
    let over = match open(&mut sink, &mut stream, holds, identity).await {
        Ok(welcome) => {
            let silence = Duration::from_millis(welcome.silence_ms).clamp(PAUSE_MIN, SILENCE_MAX);
            let (outbox, outgoing) = unbounded_channel();
            let opened = Event::Opened { link, welcome: Box::new(welcome), outbox };
            let _ = identity.events.send(opened);
            // One task reads and writes, so neither waits for the other and no message changes threads.
            tokio::select! {
                over = read(link, &mut stream, silence, identity) => over,
                over = write(&mut sink, outgoing) => over,
            }
        }
        Err(over) => over,
    };
    let closed = async {
        close(&mut sink, &over).await;
        // A socket that is dropped with unread data discards what was sent last. A node that closes its side has read it.
        while over.is_ours && matches!(stream.next().await, Some(Ok(message)) if !message.is_close()) {}
    };
    let _ = timeout(CLOSE_WITHIN, closed).await;
    over
}

async fn open(
    sink: &mut SplitSink<Socket, Message>,
    stream: &mut SplitStream<Socket>,
    holds: Vec<punctual_protocol::native::Held>,
    identity: &Identity,
) -> Result<Welcome, SessionEnd> {
    let hello = frames::text(&FromExecutor::Hello(Hello { holds, ..identity.hello.clone() }));
    let greet = async {
        sink.send(Message::text(hello)).await.map_err(SessionEnd::broken)?;
        loop {
            let Some(message) = stream.next().await else { return Err(SessionEnd::new("the node closed")) };
            let message = message.map_err(SessionEnd::broken)?;
            let Some(text) = text_of(&message)? else { continue };
            match FromNode::read(text).map_err(SessionEnd::refusing)? {
                FromNode::Welcome(welcome) => return Ok(welcome),
                FromNode::Error(refusal) => return Err(SessionEnd::said(refusal)),
                FromNode::Goodbye(Goodbye { reason }) => return Err(SessionEnd::new(leaves(&reason))),
                FromNode::Unknown => {}
                _ => return Err(SessionEnd::malformed("the first message is no welcome")),
            }
        }
    };
    timeout(WELCOME_WITHIN, greet).await.unwrap_or_else(|_| Err(SessionEnd::new("the node says nothing")))
}

/// The text of a message; none of a ping or pong.
fn text_of(message: &Message) -> Result<Option<&str>, SessionEnd> {
    match message {
        Message::Text(text) => Ok(Some(text.as_str())),
        Message::Binary(_) => Err(SessionEnd::malformed("a binary message")),
        Message::Close(frame) => {
            let reason =
                frame.as_ref().map(|frame| frame.reason.as_str()).filter(|reason| !reason.is_empty());
            Err(SessionEnd::new(format!("the node closed: {}", reason.unwrap_or("without a reason"))))
        }
        _ => Ok(None),
    }
}

async fn read(
    link: usize,
    stream: &mut SplitStream<Socket>,
    silence: Duration,
    identity: &Identity,
) -> SessionEnd {
    loop {
        let message = match timeout(silence, stream.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(error))) => return SessionEnd::broken(error),
            Ok(None) => return SessionEnd::new("the node closed"),
            Err(_) => return SessionEnd::new(format!("nothing was heard for {} ms", silence.as_millis())),
        };
        let told = text_of(&message).and_then(|text| match text {
            Some(text) => understand(link, text, identity),
            None => Ok(()),
        });
        if let Err(over) = told {
            return over;
        }
    }
}

/// Passes a message of a node on to the coordinator.
fn understand(link: usize, text: &str, identity: &Identity) -> Result<(), SessionEnd> {
    let event = match FromNode::read(text).map_err(SessionEnd::refusing)? {
        FromNode::Runs(said) => {
            let runs = said.runs.iter().map(|run| ReceivedRun::of(run, &identity.rules)).collect();
            Event::Runs { link, runs }
        }
        FromNode::Kept(Kept { reports }) => Event::Kept(reports),
        FromNode::Cancel(said) => Event::Cancel(said.runs),
        FromNode::Want(Want { runs }) => Event::Want { link, runs },
        FromNode::Nodes(Nodes { nodes }) => Event::Nodes(nodes),
        FromNode::Goodbye(Goodbye { reason }) => return Err(SessionEnd::new(leaves(&reason))),
        FromNode::Error(refusal) => return Err(SessionEnd::said(refusal)),
        FromNode::Welcome(_) => return Err(SessionEnd::malformed("a second welcome")),
        FromNode::Unknown => return Ok(()),
    };
    let _ = identity.events.send(event);
    Ok(())
}

fn leaves(reason: &str) -> String {
    if reason.is_empty() { "the node stops".into() } else { format!("the node stops: {reason}") }
}

/// Sends the messages in the outbox until the coordinator closes it.
async fn write(sink: &mut SplitSink<Socket, Message>, mut outgoing: UnboundedReceiver<String>) -> SessionEnd {
    const MOST: usize = 64;
    let mut messages = Vec::with_capacity(MOST);
    while outgoing.recv_many(&mut messages, MOST).await > 0 {
        for message in messages.drain(..) {
            if let Err(error) = sink.feed(Message::text(message)).await {
                return SessionEnd::broken(error);
            }
        }
        if let Err(error) = sink.flush().await {
            return SessionEnd::broken(error);
        }
    }
    SessionEnd { is_ours: true, ..SessionEnd::new("goodbye") }
}

/// Closes a session, with an error first if the node broke the protocol.
async fn close(sink: &mut SplitSink<Socket, Message>, over: &SessionEnd) {
    let mut status = CloseCode::Normal;
    if let Some(refusal) = &over.refusal {
        status = if refusal.code == Code::TooLarge { CloseCode::Size } else { CloseCode::Policy };
        let _ = sink.send(Message::text(frames::text(&FromExecutor::Error(refusal.clone())))).await;
    }
    let frame = CloseFrame { code: status, reason: "".into() };
    let _ = sink.send(Message::Close(Some(frame))).await;
    let _ = sink.close().await;
}

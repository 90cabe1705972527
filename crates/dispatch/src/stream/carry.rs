//! Carrying: this node speaks for an executor that cannot reach another node. To that node, this one looks like the
//! executor: it opens a session at the same door, with the executor's own hello, and passes messages on in both
//! directions.
//!
//! ```text
//! other node ◄─ session, as the executor ─► carriage ◄─ session of the executor ─► executor
//! ```
//!
//! A carriage lives as long as the session that it belongs to. So the hello that opens it lists all attempts that the
//! executor holds, and when one of the two connections breaks, everything in flight is asked for anew. For the same
//! reason the executor is asked to open its session again before a carriage begins.
//!
//! Credits of the executor are lent: the other node asks for some, and this node passes on what it has or is given.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use punctual_core::model::Text;
use punctual_node::ports::{Heard, SessionKey};
use punctual_protocol::native::{Credit, FromExecutor, FromNode, Hello, Report, Reports};
use rustc_hash::FxHashSet;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::PeerSocket;
use super::hub::{Hub, Session};
use super::outbox::End;
use crate::clock;

/// How long another node may take to open its door.
const DIAL_WITHIN: Duration = Duration::from_secs(5);

/// After a failed dial or a refusal by the other node: how long until the next try.
const PAUSE: Duration = Duration::from_secs(5);

/// How long lent credits may go unused.
const IDLE: Duration = Duration::from_secs(10);

/// How long a line waits for the executor's hello.
const HELLO_WITHIN: Duration = Duration::from_secs(3);

/// A line to another node that waits for its executor to come again.
struct Waiting {
    node: Text,
    socket: PeerSocket,
    until: Instant,
}

/// All waiting lines.
#[derive(Default)]
pub(super) struct Yard {
    lines: Mutex<BTreeMap<SessionKey, Vec<Waiting>>>,
    /// By executor and node: none while the node is being dialled, else until when it is not dialled again.
    asked: Mutex<BTreeMap<(SessionKey, Text), Option<Instant>>>,
}

impl Yard {
    /// Whether the node should be dialled now. If so, it is marked and not dialled again meanwhile.
    fn begin(&self, of: &SessionKey, node: &Text) -> bool {
        let mut asked = locked(&self.asked);
        let now = clock::instant();
        asked.retain(|_, until| until.is_none_or(|until| until > now));
        let key = (of.clone(), node.clone());
        let is_new = !asked.contains_key(&key);
        asked.entry(key).or_insert(None);
        is_new
    }

    /// The node is not dialled again until the pause is over.
    fn end(&self, of: &SessionKey, node: &Text, pause: Duration) {
        locked(&self.asked).insert((of.clone(), node.clone()), Some(clock::instant() + pause));
    }

    /// Hangs up lines whose executor has not come again in time.
    fn clear(&self) {
        let now = clock::instant();
        locked(&self.lines).retain(|_, lines| {
            lines.retain(|line| line.until > now);
            !lines.is_empty()
        });
    }
}

/// Begins to carry for an executor, unless a carriage to that node exists or is being prepared.
pub(super) fn start(hub: &Arc<Hub>, of: SessionKey, node: Text) {
    let is_carried = hub.session(&of).is_none_or(|session| session.carriages.reach(&node));
    if is_carried || !hub.yard.begin(&of, &node) {
        return;
    }
    let hub = Arc::clone(hub);
    hub.runtime().clone().spawn(async move {
        let dialled = timeout(DIAL_WITHIN, hub.dial(node.clone())).await;
        let socket = dialled.unwrap_or_else(|_| Err("it took too long".into()));
        match (socket, hub.session(&of)) {
            (Ok(socket), Some(session)) => {
                let until = clock::instant() + HELLO_WITHIN;
                locked(&hub.yard.lines).entry(of.clone()).or_default().push(Waiting {
                    node: node.clone(),
                    socket,
                    until,
                });
                session.outbox.end(End::Goodbye("say what you hold: another node does not reach you".into()));
                hub.yard.end(&of, &node, HELLO_WITHIN);
                clock::sleep_until(until).await;
                hub.yard.clear();
            }
            (Ok(_), None) => hub.yard.end(&of, &node, Duration::ZERO),
            (Err(error), _) => {
                tracing::debug!(url = &*of.url, node = &*node, error, "cannot carry for an executor");
                hub.yard.end(&of, &node, PAUSE);
            }
        }
    });
}

/// An executor has opened its session again: the lines that wait for it become carriages.
pub(super) fn set_out(hub: &Arc<Hub>, session: &Arc<Session>, hello: &Hello) {
    let lines = locked(&hub.yard.lines).remove(&session.of).unwrap_or_default();
    let now = clock::instant();
    for Waiting { node, socket, .. } in lines.into_iter().filter(|line| line.until > now) {
        if session.carriages.reach(&node) {
            continue;
        }
        let (carriage, said) = session.carriages.add(node);
        let trip = Trip { hub: Arc::clone(hub), session: Arc::clone(session), carriage };
        hub.runtime().spawn(trip.make(socket, hello.clone(), said));
    }
}

/// The nodes that an executor is carried to.
#[derive(Default)]
pub(super) struct Carriages {
    all: Mutex<Vec<Arc<Carriage>>>,
    /// Whether there are any. Most executors have none, and this is read with every message.
    is_used: AtomicBool,
    /// Which carriage gets the remainder when credits cannot be shared evenly.
    turn: AtomicUsize,
}

/// The session of one executor with one other node.
struct Carriage {
    node: Text,
    inside: Mutex<Inside>,
}

struct Inside {
    /// None when the session is over.
    to_node: Option<UnboundedSender<FromExecutor>>,
    /// The attempts that came through it and are not reported.
    given: FxHashSet<(u64, u32)>,
    /// How many credits the node asks for, and how many it has and has not used.
    wanted: u64,
    lent: u64,
    /// When `lent` last grew or shrank.
    lent_at: Instant,
}

impl Carriages {
    fn add(&self, node: Text) -> (Arc<Carriage>, UnboundedReceiver<FromExecutor>) {
        let (to_node, said) = unbounded_channel();
        let inside = Inside {
            to_node: Some(to_node),
            given: FxHashSet::default(),
            wanted: 0,
            lent: 0,
            lent_at: clock::instant(),
        };
        let carriage = Arc::new(Carriage { node, inside: Mutex::new(inside) });
        locked(&self.all).push(Arc::clone(&carriage));
        self.is_used.store(true, Ordering::Release);
        (carriage, said)
    }

    fn all(&self) -> Vec<Arc<Carriage>> {
        match self.is_used.load(Ordering::Acquire) {
            true => locked(&self.all).clone(),
            false => Vec::new(),
        }
    }

    /// Whether one of them goes to this node.
    fn reach(&self, node: &Text) -> bool {
        self.all().iter().any(|carriage| carriage.node == *node)
    }

    fn remove(&self, carriage: &Arc<Carriage>) {
        locked(&self.all).retain(|one| !Arc::ptr_eq(one, carriage));
    }

    /// The session is over, and its carriages end with it.
    pub(super) fn end(&self) {
        for carriage in locked(&self.all).drain(..) {
            carriage.inside().to_node = None;
        }
    }

    /// Passes on a message about an attempt that came from another node; a message about any other attempt is
    /// returned.
    pub(super) fn pass_on(&self, said: FromExecutor) -> Option<FromExecutor> {
        let (run, attempt) = match &said {
            FromExecutor::Log(log) => (log.run, log.attempt),
            FromExecutor::Progress(progress) => (progress.run, progress.attempt),
            _ => return Some(said),
        };
        let Some(carriage) = self.all().into_iter().find(|carriage| carriage.has(run, attempt)) else {
            return Some(said);
        };
        carriage.say(said);
        None
    }

    pub(super) fn tell_all(&self, said: &FromExecutor) {
        self.all().iter().for_each(|carriage| carriage.say(said.clone()));
    }

    /// Passes on the reports of attempts that came from other nodes; returns the rest.
    pub(super) fn sort_out(&self, mut said: Vec<Report>) -> Vec<Report> {
        for carriage in self.all() {
            let (theirs, rest) = said.into_iter().partition::<Vec<_>, _>(|report| carriage.end_of(report));
            if !theirs.is_empty() {
                carriage.say(FromExecutor::Reports(Reports { reports: theirs, credits: 0 }));
            }
            said = rest;
        }
        said
    }

    /// Shares an executor's credits evenly among this node and the nodes that ask for some; returns what is left for
    /// this node.
    pub(super) fn share(&self, more: u32) -> u32 {
        let wanting: Vec<Arc<Carriage>> =
            self.all().into_iter().filter(|carriage| carriage.inside().wanted > 0).collect();
        if wanting.is_empty() {
            return more;
        }
        let parties = wanting.len() as u32 + 1;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as u32 % parties;
        let part = |place: u32| more / parties + u32::from((place + turn) % parties < more % parties);
        let lent = wanting.iter().zip(1..).map(|(carriage, place)| carriage.lend(part(place)));
        more - lent.sum::<u32>()
    }

    /// Lends credits to the nodes that ask for some; returns how many are left.
    pub(super) fn lend(&self, places: u32) -> u32 {
        self.all().iter().fold(places, |left, carriage| left - carriage.lend(left))
    }
}

impl Carriage {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        locked(&self.inside)
    }

    fn has(&self, run: u64, attempt: u32) -> bool {
        self.inside().given.contains(&(run, attempt))
    }

    fn end_of(&self, report: &Report) -> bool {
        self.inside().given.remove(&(report.run, report.attempt))
    }

    /// A failed send means that the carriage has ended; the message is then sent again in a new session.
    fn say(&self, said: FromExecutor) {
        if let Some(to_node) = &self.inside().to_node {
            let _ = to_node.send(said);
        }
    }

    /// Whether the node has not used its credits for a while. Checked with every ping.
    fn is_idle(&self) -> bool {
        let inside = self.inside();
        inside.lent > 0 && clock::since(inside.lent_at) > IDLE
    }

    /// Lends at most as many as the node asks for; returns how many.
    fn lend(&self, places: u32) -> u32 {
        let more = {
            let mut inside = self.inside();
            let more = u64::from(places).min(inside.wanted);
            inside.wanted -= more;
            inside.lent += more;
            inside.lent_at = clock::instant();
            more as u32
        };
        if more > 0 {
            self.say(FromExecutor::Credit(Credit { more }));
        }
        more
    }
}

/// A carriage under way.
struct Trip {
    hub: Arc<Hub>,
    session: Arc<Session>,
    carriage: Arc<Carriage>,
}

impl Trip {
    async fn make(self, mut socket: PeerSocket, hello: Hello, said: UnboundedReceiver<FromExecutor>) {
        let of = &self.session.of;
        tracing::info!(url = &*of.url, node = &*self.carriage.node, "carrying for an executor");
        let silence = match self.open(&mut socket, hello).await {
            Ok(silence) => silence,
            Err(why) => {
                tracing::info!(
                    url = &*of.url,
                    node = &*self.carriage.node,
                    why,
                    "not let in for an executor"
                );
                self.session.carriages.remove(&self.carriage);
                return self.hub.yard.end(of, &self.carriage.node, PAUSE);
            }
        };
        let why = self.go(&mut socket, silence, said).await;
        let _ = timeout(HELLO_WITHIN, socket.close(None)).await;
        tracing::info!(
            url = &*of.url,
            node = &*self.carriage.node,
            why,
            "no longer carrying for an executor"
        );
        // What was in flight is known once the executor has listed its attempts again.
        self.session.outbox.end(End::Goodbye("say what you hold: another node is no longer reached".into()));
    }

    /// Sends the executor's hello and waits for the welcome; returns the silence after which the node counts as gone.
    async fn open(&self, socket: &mut PeerSocket, hello: Hello) -> Result<Duration, String> {
        let opened = async {
            send(socket, &FromExecutor::Hello(hello)).await.map_err(|error| error.to_string())?;
            loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => match FromNode::read(&text) {
                        Ok(FromNode::Welcome(welcome)) => {
                            return Ok(Duration::from_millis(welcome.silence_ms.max(1_000)));
                        }
                        Ok(FromNode::Error(refusal)) | Err(refusal) => return Err(refusal.reason),
                        Ok(_) => return Err("it did not say welcome".into()),
                    },
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.to_string()),
                    None => return Err("it hung up".into()),
                }
            }
        };
        timeout(DIAL_WITHIN, opened).await.unwrap_or_else(|_| Err("it did not say welcome in time".into()))
    }

    /// Passes messages on in both directions until one side ends; returns why.
    async fn go(
        &self,
        socket: &mut PeerSocket,
        silence: Duration,
        mut said: UnboundedReceiver<FromExecutor>,
    ) -> String {
        let mut heard_at = clock::instant();
        loop {
            if self.carriage.is_idle() {
                return "it does not use what it was lent".into();
            }
            tokio::select! {
                heard = socket.next() => {
                    heard_at = clock::instant();
                    match heard {
                        Some(Ok(Message::Text(text))) => {
                            if let Err(why) = self.hear(text.as_str()) {
                                return why;
                            }
                        }
                        Some(Ok(Message::Close(_))) | None => return "it hung up".into(),
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return error.to_string(),
                    }
                }
                told = said.recv() => {
                    // The session has gone, and its carriages with it.
                    let Some(told) = told else { return "the executor's session is over".into() };
                    let is_last = told == FromExecutor::Goodbye;
                    // Messages that come meanwhile gather in memory, so the wait is short.
                    match timeout(self.hub.options().unread, send(socket, &told)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return error.to_string(),
                        Err(_) => return "it does not read what it is told".into(),
                    }
                    if is_last {
                        return "the executor has gone".into();
                    }
                }
                () = clock::sleep_until(heard_at + silence) => return "it is silent".into(),
            }
        }
    }

    /// Handles a message of the other node; an error ends the carriage.
    fn hear(&self, text: &str) -> Result<(), String> {
        let (session, of) = (&self.session, &self.session.of);
        match FromNode::read(text).map_err(|refusal| refusal.reason)? {
            FromNode::Runs(runs) => {
                let mut inside = self.carriage.inside();
                inside.lent = inside.lent.saturating_sub(runs.runs.len() as u64);
                inside.lent_at = clock::instant();
                inside.given.extend(runs.runs.iter().map(|run| (run.run, run.attempt)));
                drop(inside);
                session.outbox.carry(text.to_owned());
            }
            FromNode::Kept(_) | FromNode::Cancel(_) => session.outbox.carry(text.to_owned()),
            FromNode::Want(want) => {
                self.carriage.inside().wanted = want.runs;
                session.outbox.want(want.runs);
                self.hub.tell(vec![Heard::Borrow { of: of.clone(), runs: want.runs }]);
            }
            FromNode::Goodbye(goodbye) => return Err(goodbye.reason),
            FromNode::Error(refusal) => return Err(refusal.reason),
            FromNode::Nodes(_) | FromNode::Welcome(_) | FromNode::Unknown => {}
        }
        Ok(())
    }
}

async fn send(socket: &mut PeerSocket, said: &FromExecutor) -> Result<(), Error> {
    // These types have no value that cannot be written as JSON.
    socket.send(Message::text(serde_json::to_string(said).unwrap_or_default())).await
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Carriages to nodes that ask for this many credits.
    fn wanting(wanted: &[u64]) -> (Carriages, Vec<UnboundedReceiver<FromExecutor>>) {
        let carriages = Carriages::default();
        let mut told = Vec::new();
        for (place, wanted) in wanted.iter().enumerate() {
            let (carriage, said) = carriages.add(format!("node {place}").into());
            carriage.inside().wanted = *wanted;
            told.push(said);
        }
        (carriages, told)
    }

    fn credits(said: &mut UnboundedReceiver<FromExecutor>) -> u64 {
        let mut all = 0;
        while let Ok(FromExecutor::Credit(credit)) = said.try_recv() {
            all += u64::from(credit.more);
        }
        all
    }

    proptest! {
        #[test]
        fn no_place_is_lost_and_nobody_is_lent_more_than_it_wants(
            wanted in prop::collection::vec(0_u64..20, 0..5),
            given in prop::collection::vec(0_u32..40, 1..10),
        ) {
            let (carriages, mut told) = wanting(&wanted);
            let kept: u64 = given.iter().map(|more| u64::from(carriages.share(*more))).sum();
            let lent: Vec<u64> = told.iter_mut().map(credits).collect();
            prop_assert_eq!(kept + lent.iter().sum::<u64>(), given.iter().map(|more| u64::from(*more)).sum::<u64>());
            prop_assert!(lent.iter().zip(&wanted).all(|(lent, wanted)| lent <= wanted));
        }
    }

    #[test]
    fn places_that_come_one_by_one_go_round() {
        let (carriages, mut told) = wanting(&[100, 100]);
        let kept: u32 = (0..30).map(|_| carriages.share(1)).sum();
        assert_eq!((kept, credits(&mut told[0]), credits(&mut told[1])), (10, 10, 10));
    }

    #[test]
    fn what_is_about_others_is_given_back() {
        let (carriages, mut told) = wanting(&[1]);
        let about = |run| {
            FromExecutor::Progress(punctual_protocol::native::Progress {
                run,
                attempt: 1,
                percent: 50,
                note: String::new(),
            })
        };
        locked(&carriages.all)[0].inside().given.insert((7, 1));
        assert_eq!(carriages.pass_on(about(7)), None);
        assert_eq!(told[0].try_recv().ok(), Some(about(7)));
        assert_eq!(carriages.pass_on(about(8)), Some(about(8)));
    }
}

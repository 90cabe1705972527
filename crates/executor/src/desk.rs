//! The one place that knows what is held, what is owed and who was promised what. It decides and writes messages; it
//! never waits, so there is no lock anywhere.
//!
//! Sessions and handlers send [`Event`]s. They are taken in batches, and what follows from a batch goes out at its end:
//! that is what gathers the reports of many runs into one message, the more of them the busier the process is.
//!
//! Two rules are kept here. What was given is known until a node has kept its report: it is told in every hello, and its
//! report is repeated after every welcome. And what runs, together with the credits of all nodes, is never more than the
//! capacity.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::mem;
use std::time::Duration;

use punctual_protocol::native::{
    CREDITS_MAX, Cancel, Credit, FRAME_MAX, FromExecutor, HOLDS_MAX, Held, Outcome, Progress, Welcome,
};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::context::{Context, Why, Work};
use crate::executor::Notice;
use crate::frames::{self, LINE_MAX, Lines, MESSAGE_MAX, NOTE_MAX, Reports};
use crate::handler::End;
use crate::url::Url;

/// How long tokens are remembered after a report, and how many at most.
const REMEMBERED: Duration = Duration::from_secs(600);
const REMEMBERED_MAX: usize = 1_000_000;
/// What a node keeps of an attempt's log; more is not sent.
const LOG_MAX: usize = 4 << 20;
/// How much of a hello may be holds, and how long one of them is at most.
const HOLDS_BYTES: usize = FRAME_MAX / 2;
const HOLD_BYTES: usize = 72;
/// How long nodes get to keep the last reports of a process that stops.
const KEPT_WITHIN: Duration = Duration::from_secs(5);

/// The same order every time: nothing here is keyed by what a stranger chose.
type Map<K, V> = FxHashMap<K, V>;

/// What a session or a handler tells.
pub(crate) enum Event {
    /// A link wants to connect. The answer says whether to.
    Connecting { link: usize, answer: oneshot::Sender<Answer> },
    /// A session is open; what is put in its outbox is sent.
    Opened { link: usize, welcome: Box<Welcome>, outbox: UnboundedSender<String> },
    /// A session, or the attempt to open one, is over.
    Closed { link: usize, reason: String, is_replaced: bool },
    /// Runs came.
    Runs { link: usize, runs: Vec<Work> },
    /// Reports are written to disk.
    Kept(Vec<Held>),
    /// Attempts should end.
    Cancel(Vec<Cancel>),
    /// A node has more runs than credits.
    Want { link: usize, runs: u64 },
    /// Where nodes are.
    Nodes(Vec<String>),
    /// An attempt wrote something.
    Log { held: Held, line: String },
    /// An attempt says how far it is.
    Progress { held: Held, percent: u8, note: String },
    /// An attempt is over.
    Ended(Ended),
}

/// Whether to connect.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// Yes, and this is what we hold.
    Go(Vec<Held>),
    /// Later: the node is reached by another address.
    Later,
    /// Never again: there is no such node any more.
    Stop,
}

/// How an attempt ended, until a node has kept it.
#[derive(Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) held: Held,
    pub(crate) outcome: Outcome,
    pub(crate) message: String,
    pub(crate) started_ms: Option<u64>,
    pub(crate) retry: bool,
}

impl Ended {
    pub(crate) fn new(held: Held, end: End, started_ms: Option<u64>) -> Ended {
        let End { outcome, mut message, retry } = end;
        frames::cut_own(&mut message, MESSAGE_MAX);
        Ended { held, outcome, message, started_ms, retry }
    }
}

/// What the desk wants done.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Attempts to start.
    pub(crate) starts: Vec<Context>,
    /// Nodes to keep a session with.
    pub(crate) links: Vec<(usize, Url)>,
    /// What the program may want to know.
    pub(crate) notices: Vec<Notice>,
}

/// A node, as far as sessions with it go.
struct Link {
    url: Url,
    /// Learned nodes can be forgotten again, those that the program named cannot.
    is_learned: bool,
    is_retired: bool,
    /// What it calls itself, and whether it ended a session because we reach it by another address.
    node: String,
    is_replaced: bool,
    outbox: Option<UnboundedSender<String>>,
    /// The credits that it has, and what it gave us that runs.
    given: u32,
    running: u32,
    wanted: u64,
    reports: Reports,
}

impl Link {
    fn is_open(&self) -> bool {
        self.outbox.is_some()
    }

    fn send(&self, message: String) {
        // A session that is just ending takes nothing more; its reports are repeated elsewhere.
        let _ = self.outbox.as_ref().map(|outbox| outbox.send(message));
    }
}

/// An attempt that we were given.
struct Given {
    /// Where it came from or, once it is over, where its report was sent.
    link: usize,
    state: State,
}

enum State {
    Running { context: Context, lines: u64, logged: usize },
    Over(Ended),
}

/// How far the end of the process is.
struct Drain {
    next: Instant,
    is_ending: bool,
    is_over: bool,
}

pub(crate) struct Desk {
    capacity: u32,
    grace: Duration,
    drain_within: Duration,
    events: UnboundedSender<Event>,
    links: Vec<Link>,
    given: Map<Held, Given>,
    /// How many attempts of a run are known, and its greatest token.
    runs: Map<u64, (u32, u64)>,
    reported: VecDeque<(Instant, u64)>,
    running: u32,
    drain: Option<Drain>,
    /// When the batch that is being taken came.
    now: Instant,
    /// The log that is being gathered, and whose it is.
    lines: Lines,
    lines_of: Option<(usize, Held)>,
    wishes: Wishes,
}

impl Desk {
    pub(crate) fn new(
        capacity: u32,
        grace: Duration,
        drain_within: Duration,
        events: UnboundedSender<Event>,
    ) -> Desk {
        Desk {
            capacity,
            grace,
            drain_within,
            events,
            links: Vec::new(),
            given: Map::default(),
            runs: Map::default(),
            reported: VecDeque::new(),
            running: 0,
            drain: None,
            now: Instant::now(),
            lines: Lines::default(),
            lines_of: None,
            wishes: Wishes::default(),
        }
    }

    /// A node that the program named.
    pub(crate) fn name_node(&mut self, url: Url) {
        self.join(url, false);
    }

    pub(crate) fn take(&mut self, now: Instant, event: Event) {
        self.now = now;
        match event {
            Event::Connecting { link, answer } => {
                let _ = answer.send(self.connecting(link));
            }
            Event::Opened { link, welcome, outbox } => self.opened(link, *welcome, outbox),
            Event::Closed { link, reason, is_replaced } => self.closed(link, reason, is_replaced),
            Event::Runs { link, runs } => runs.into_iter().for_each(|work| self.arrived(link, work)),
            Event::Kept(reports) => reports.iter().for_each(|held| self.kept(held)),
            Event::Cancel(runs) => runs.into_iter().for_each(|cancel| self.cancel(cancel)),
            Event::Want { link, runs } => self.links[link].wanted = runs,
            Event::Nodes(nodes) => self.learn(&nodes),
            Event::Log { held, line } => self.log(held, &line),
            Event::Progress { held, percent, note } => self.progress(held, percent, note),
            Event::Ended(ended) => self.ended(ended),
        }
    }

    /// Sends what a batch of events has led to, and says what is left to do.
    pub(crate) fn finish(&mut self, now: Instant) -> Wishes {
        self.finish_lines();
        let grants = self.grants();
        for (link, mut more) in self.links.iter_mut().zip(grants) {
            link.given += more;
            link.wanted = link.wanted.saturating_sub(u64::from(more));
            for message in link.reports.finish(&mut more) {
                link.send(message);
            }
            if more > 0 {
                link.send(frames::text(&FromExecutor::Credit(Credit { more })));
            }
        }
        self.forget(now);
        mem::take(&mut self.wishes)
    }

    /// Takes nothing more from now on.
    pub(crate) fn drain(&mut self, now: Instant) {
        self.drain = Some(Drain { next: now + self.drain_within, is_ending: false, is_over: false });
        for link in &mut self.links {
            link.given = 0;
            link.send(frames::text(&FromExecutor::Drain));
        }
    }

    /// When the desk wants to be looked after though nothing happens.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.drain.as_ref().map(|drain| drain.next)
    }

    /// What has to happen by now: what was given time to end by itself no longer has it.
    pub(crate) fn wake(&mut self, now: Instant) {
        let Some(drain) = self.drain.as_mut().filter(|drain| drain.next <= now) else { return };
        if drain.is_ending {
            drain.is_over = true;
            return;
        }
        *drain = Drain { next: now + self.grace + KEPT_WITHIN, is_ending: true, is_over: false };
        self.end_all();
    }

    /// Whether there is nothing left to wait for.
    pub(crate) fn is_drained(&self) -> bool {
        let is_over = |drain: &Drain| drain.is_over || (self.given.is_empty() && self.running == 0);
        self.drain.as_ref().is_some_and(is_over)
    }

    /// Says goodbye to everybody. The sessions end when that is sent.
    pub(crate) fn leave(&mut self) {
        for link in &mut self.links {
            link.send(frames::text(&FromExecutor::Goodbye));
            link.outbox = None;
        }
    }

    fn end_all(&mut self) {
        for given in self.given.values() {
            if let State::Running { context, .. } = &given.state {
                context.end(Why::Stopping, "the executor stops");
            }
        }
    }

    fn connecting(&mut self, link: usize) -> Answer {
        let Link { is_retired, is_replaced, node, .. } = &self.links[link];
        if *is_retired {
            return Answer::Stop;
        }
        if *is_replaced && self.links.iter().any(|other| other.is_open() && other.node == *node) {
            return Answer::Later;
        }
        self.links[link].is_replaced = false;
        Answer::Go(self.holds())
    }

    /// What we were given and no node has kept: what runs comes first, because it can be told in no other way.
    fn holds(&self) -> Vec<Held> {
        let is_running = |given: &Given| matches!(&given.state, State::Running { context, .. } if context.why() != Some(Why::Stale));
        let is_over = |given: &Given| matches!(given.state, State::Over(_));
        let all = |is_it: fn(&Given) -> bool| self.given.iter().filter(move |(_, given)| is_it(given));
        let held = all(is_running).chain(all(is_over)).map(|(held, _)| *held);
        held.take(HOLDS_MAX.min(HOLDS_BYTES / HOLD_BYTES)).collect()
    }

    fn opened(&mut self, index: usize, welcome: Welcome, outbox: UnboundedSender<String>) {
        let link = &mut self.links[index];
        (link.outbox, link.node) = (Some(outbox), welcome.node);
        (link.given, link.wanted, link.reports) = (0, 0, Reports::default());
        let (url, node) = (link.url.to_string(), link.node.clone());
        self.wishes.notices.push(Notice::Connected { url, node });
        self.learn(&welcome.nodes);
        welcome.stale.iter().for_each(|held| self.stale(held));
        for given in self.given.values_mut() {
            if let State::Over(ended) = &given.state {
                given.link = index;
                self.links[index].reports.push(ended);
            }
        }
        if self.drain.is_some() {
            self.links[index].send(frames::text(&FromExecutor::Drain));
        }
    }

    fn closed(&mut self, index: usize, reason: String, is_replaced: bool) {
        let link = &mut self.links[index];
        let (was_open, url) = (link.outbox.take().is_some(), link.url.to_string());
        (link.given, link.wanted, link.is_replaced) = (0, 0, is_replaced);
        link.reports = Reports::default();
        if !was_open {
            return self.wishes.notices.push(Notice::Unreachable { url, reason });
        }
        self.wishes.notices.push(Notice::Disconnected { url, reason });
        // Whoever is there takes what this node may not have got.
        let Some(other) = self.open_or_any(index) else { return };
        for given in self.given.values_mut().filter(|given| given.link == index) {
            if let State::Over(ended) = &given.state {
                given.link = other;
                self.links[other].reports.push(ended);
            }
        }
    }

    /// That link if it is open, else another that is.
    fn open_or_any(&self, link: usize) -> Option<usize> {
        let is_open = |index: &usize| self.links[*index].is_open();
        Some(link).filter(is_open).or_else(|| (0..self.links.len()).find(is_open))
    }

    fn arrived(&mut self, link: usize, work: Work) {
        let has_credit = self.links[link].given > 0;
        self.links[link].given = self.links[link].given.saturating_sub(1);
        let held = work.held;
        let (known, token) = self.runs.get(&held.run).copied().unwrap_or_default();
        if held.token <= token {
            // If we hold it or have its report, that says everything. Otherwise nobody may wait for it here.
            return if known == 0 {
                self.refuse(link, held, "the token is not newer than one that was here")
            };
        }
        let handler = match work.handler.clone() {
            _ if self.drain.is_some() => return self.refuse(link, held, "the executor stops"),
            _ if !has_credit => return self.refuse(link, held, "there was no credit for it"),
            Err(name) => return self.refuse(link, held, format!("no handler `{}`", frames::cut(&name, 200))),
            Ok(handler) => handler,
        };
        let context = Context::new(work, handler, self.now, self.events.clone());
        self.wishes.starts.push(context.clone());
        self.running += 1;
        self.links[link].running += 1;
        self.hold(held, Given { link, state: State::Running { context, lines: 0, logged: 0 } });
    }

    fn hold(&mut self, held: Held, given: Given) {
        let (known, token) = self.runs.entry(held.run).or_default();
        (*known, *token) = (*known + 1, held.token.max(*token));
        self.given.insert(held, given);
    }

    fn refuse(&mut self, link: usize, held: Held, why: impl Into<String>) {
        let ended = Ended::new(held, End::new(Outcome::Refused, why), None);
        self.links[link].reports.push(&ended);
        self.hold(held, Given { link, state: State::Over(ended) });
    }

    fn ended(&mut self, ended: Ended) {
        self.finish_lines();
        let held = ended.held;
        let Some(given) = self.given.get_mut(&held) else { return };
        let State::Running { context, .. } = &given.state else { return };
        let (link, is_stale) = (given.link, context.why() == Some(Why::Stale));
        self.running -= 1;
        self.links[link].running -= 1;
        if is_stale {
            return self.release(&held);
        }
        let target = self.open_or_any(link).unwrap_or(link);
        if self.links[target].is_open() {
            self.links[target].reports.push(&ended);
        }
        // Looked up again, because the links are ours too.
        if let Some(given) = self.given.get_mut(&held) {
            *given = Given { link: target, state: State::Over(ended) };
        }
    }

    fn kept(&mut self, held: &Held) {
        if self.given.get(held).is_some_and(|given| matches!(given.state, State::Over(_))) {
            self.release(held);
        }
    }

    /// What a node says is over: it ends, and nothing more is said of it.
    fn stale(&mut self, held: &Held) {
        match self.given.get(held).map(|given| &given.state) {
            Some(State::Running { context, .. }) => {
                context.end(Why::Stale, "the run is somebody else's by now")
            }
            Some(State::Over(_)) => self.release(held),
            None => {}
        }
    }

    /// Lets an attempt go. Its token is remembered for some time yet.
    fn release(&mut self, held: &Held) {
        self.given.remove(held);
        if let Some((known, _)) = self.runs.get_mut(&held.run) {
            *known -= 1;
        }
        self.reported.push_back((self.now, held.run));
    }

    /// Forgets the tokens of runs that were reported long ago.
    fn forget(&mut self, now: Instant) {
        let is_old = |at: Instant| now.duration_since(at) >= REMEMBERED;
        while let Some((at, run)) = self.reported.front().copied() {
            if !is_old(at) && self.reported.len() <= REMEMBERED_MAX {
                return;
            }
            self.reported.pop_front();
            if let Entry::Occupied(known) = self.runs.entry(run)
                && known.get().0 == 0
            {
                known.remove();
            }
        }
    }

    fn cancel(&mut self, cancel: Cancel) {
        let held = Held { run: cancel.run, attempt: cancel.attempt, token: cancel.token };
        if let Some(State::Running { context, .. }) = self.given.get(&held).map(|given| &given.state) {
            context.end(Why::Asked, cancel.reason);
        }
    }

    /// Lines are numbered here, where they come one after the other. Those for which there is nobody are not.
    fn log(&mut self, held: Held, text: &str) {
        let Some(link) = self.given.get(&held).map(|given| given.link) else { return };
        let Some(target) = self.open_or_any(link) else { return };
        if self.lines_of != Some((target, held)) {
            self.finish_lines();
            self.lines_of = Some((target, held));
        }
        let Some(Given { state: State::Running { lines, logged, .. }, .. }) = self.given.get_mut(&held)
        else {
            return;
        };
        for line in text.split('\n') {
            if *logged > LOG_MAX {
                return;
            }
            let line = frames::cut(line.strip_suffix('\r').unwrap_or(line), LINE_MAX);
            (*lines, *logged) = (*lines + 1, *logged + line.len() + 1);
            if let Some(full) = self.lines.push(held.run, held.attempt, *lines, line) {
                self.links[target].send(full);
            }
        }
    }

    fn finish_lines(&mut self) {
        if let Some((link, _)) = self.lines_of.take()
            && let Some(message) = self.lines.finish()
        {
            self.links[link].send(message);
        }
    }

    fn progress(&mut self, held: Held, percent: u8, mut note: String) {
        let Some(link) = self.given.get(&held).map(|given| given.link) else { return };
        let Some(target) = self.open_or_any(link) else { return };
        self.finish_lines();
        frames::cut_own(&mut note, NOTE_MAX);
        let progress = Progress { run: held.run, attempt: held.attempt, percent, note };
        self.links[target].send(frames::text(&FromExecutor::Progress(progress)));
    }

    fn learn(&mut self, nodes: &[String]) {
        if nodes.is_empty() {
            return;
        }
        // A token that was given for an encrypted line is not sent over another because somebody says so.
        let is_secret = self.links.iter().filter(|link| !link.is_learned).all(|link| link.url.is_secure);
        let listed: Vec<Url> = nodes.iter().filter_map(|node| Url::parse(node).ok()).collect();
        let listed: Vec<Url> = listed.into_iter().filter(|url| url.is_secure || !is_secret).collect();
        for link in self.links.iter_mut().filter(|link| link.is_learned) {
            link.is_retired = !listed.contains(&link.url) && !link.is_open();
        }
        for url in listed {
            let is_known = |link: &Link| link.url == url && !link.is_retired;
            if !self.links.iter().any(is_known) {
                self.join(url, true);
            }
        }
    }

    fn join(&mut self, url: Url, is_learned: bool) {
        self.wishes.links.push((self.links.len(), url.clone()));
        self.links.push(Link {
            url,
            is_learned,
            is_retired: false,
            node: String::new(),
            is_replaced: false,
            outbox: None,
            given: 0,
            running: 0,
            wanted: 0,
            reports: Reports::default(),
        });
    }

    /// How many more credits each link gets. With one node that is everything. With several, each has a share even if it
    /// is idle, so that it can begin at once; the rest is for those who say that they want more.
    fn grants(&self) -> Vec<u32> {
        let mut grants = vec![0; self.links.len()];
        let mut free = self.free();
        if free == 0 || self.drain.is_some() {
            return grants;
        }
        let nodes = self.links.iter().filter(|link| !link.is_retired && !link.is_replaced).count() as u32;
        let share = if nodes <= 1 { self.capacity } else { (self.capacity / (nodes + 1)).max(1) };
        let mut give = |grants: &mut Vec<u32>, index: usize, most: u32| {
            let more = most.min(free).min(CREDITS_MAX - grants[index]);
            grants[index] += more;
            free -= more;
            free
        };
        for (index, link) in self.links.iter().enumerate().filter(|(_, link)| link.is_open()) {
            give(&mut grants, index, share.saturating_sub(link.given + link.running));
        }
        let is_wanting = |link: &Link| link.is_open() && link.wanted > 0;
        let mut wanting = self.links.iter().filter(|link| is_wanting(link)).count() as u32;
        let mut left = give(&mut grants, 0, 0);
        for (index, link) in self.links.iter().enumerate().filter(|(_, link)| is_wanting(link)) {
            let wanted = link.wanted.saturating_sub(u64::from(grants[index]));
            let part = left.div_ceil(wanting);
            left = give(&mut grants, index, u32::try_from(wanted).unwrap_or(u32::MAX).min(part));
            wanting -= 1;
        }
        grants
    }

    /// What may yet be promised. What is held has to fit into a hello, the reports that nobody has kept included.
    fn free(&self) -> u32 {
        let promised: u32 = self.links.iter().map(|link| link.given).sum();
        let room = (HOLDS_MAX.min(HOLDS_BYTES / HOLD_BYTES)).saturating_sub(self.given.len());
        let room = u32::try_from(room).unwrap_or(u32::MAX).saturating_sub(promised);
        self.capacity.saturating_sub(promised).saturating_sub(self.running).min(room)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.end_all();
    }
}

#[cfg(test)]
mod tests;

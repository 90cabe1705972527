//! The one owner of an executor's state: attempts, reports that no node has confirmed, and credits given to nodes. It
//! decides and writes messages, and never waits, so nothing needs a lock.
//!
//! Sessions and handlers send [`Event`]s. They are taken in batches, and messages are sent at the end of a batch. So the
//! reports of many runs share a message, the more of them the busier the process is.
//!
//! Two rules are kept here. An attempt is remembered until a node has kept its report: every hello lists it, and its
//! report is repeated after every welcome. And running attempts together with the credits of all nodes never exceed the
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

use crate::context::{Context, EndReason, ReceivedRun};
use crate::executor::Notice;
use crate::frames::{self, LINE_MAX, LogBatch, MESSAGE_MAX, NOTE_MAX, Reports};
use crate::handler::AttemptEnd;
use crate::surroundings;
use crate::url::Url;

/// How long tokens are remembered after a report, and the limit of their number.
const REMEMBERED: Duration = Duration::from_secs(600);
const REMEMBERED_MAX: usize = 1_000_000;
/// A node keeps this many bytes of an attempt's log; more is not sent.
const LOG_MAX: usize = 4 << 20;
/// The most bytes of a hello that may be claims, and the length of the longest claim.
const HOLDS_BYTES: usize = FRAME_MAX / 2;
const HOLD_BYTES: usize = 72;
/// How long an executor that stops waits for nodes to keep its last reports.
const KEPT_WITHIN: Duration = Duration::from_secs(5);

/// A hasher without a seed: no key here is chosen by a stranger, and the order is the same every time.
type Map<K, V> = FxHashMap<K, V>;

/// What a session or a handler reports.
pub(crate) enum Event {
    /// A link asks whether it should connect.
    Connecting { link: usize, answer: oneshot::Sender<ConnectDecision> },
    /// A session is open; messages put into the outbox are sent.
    Opened { link: usize, welcome: Box<Welcome>, outbox: UnboundedSender<String> },
    /// A session ended, or could not be opened.
    Closed { link: usize, reason: String, is_replaced: bool },
    /// A node sent runs.
    Runs { link: usize, runs: Vec<ReceivedRun> },
    /// A node has written these reports to disk.
    Kept(Vec<Held>),
    /// A node asks that these attempts end.
    Cancel(Vec<Cancel>),
    /// A node has more runs than credits.
    Want { link: usize, runs: u64 },
    /// The addresses of all nodes.
    Nodes(Vec<String>),
    /// An attempt wrote to its log.
    Log { held: Held, line: String },
    /// An attempt reported its progress.
    Progress { held: Held, percent: u8, note: String },
    /// An attempt ended.
    Ended(AttemptReport),
}

/// Whether a link should connect.
#[derive(Debug, PartialEq)]
pub(crate) enum ConnectDecision {
    /// Yes, and these attempts are claimed in the hello.
    Go(Vec<Held>),
    /// Later: a session with the node is open by another address.
    Later,
    /// Never again: no node has this address any more.
    Stop,
}

/// The end of an attempt, remembered until a node has kept it.
#[derive(Debug, PartialEq)]
pub(crate) struct AttemptReport {
    pub(crate) held: Held,
    pub(crate) outcome: Outcome,
    pub(crate) message: String,
    pub(crate) started_ms: Option<u64>,
    pub(crate) ended: Instant,
    pub(crate) retry: bool,
}

impl AttemptReport {
    pub(crate) fn new(held: Held, end: AttemptEnd, started_ms: Option<u64>, ended: Instant) -> AttemptReport {
        let AttemptEnd { outcome, mut message, retry } = end;
        frames::cut_own(&mut message, MESSAGE_MAX);
        AttemptReport { held, outcome, message, started_ms, ended, retry }
    }
}

/// What the caller of [`Coordinator::finish`] should do.
#[derive(Default)]
pub(crate) struct Actions {
    /// Attempts to start.
    pub(crate) starts: Vec<Context>,
    /// Nodes to keep a session with.
    pub(crate) links: Vec<(usize, Url)>,
    /// Notices for the program.
    pub(crate) notices: Vec<Notice>,
}

/// The link to one node.
struct NodeLink {
    url: Url,
    /// Learned from another node. Such a link can be retired; one that the program named cannot.
    is_learned: bool,
    is_retired: bool,
    /// The node's name, and whether it ended a session because another one of ours with it is open.
    node: String,
    is_replaced: bool,
    outbox: Option<UnboundedSender<String>>,
    /// Credits that the node holds, and its runs that are running.
    credits: u32,
    running: u32,
    wanted: u64,
    reports: Reports,
}

impl NodeLink {
    fn is_open(&self) -> bool {
        self.outbox.is_some()
    }

    fn send(&self, message: String) {
        // A session that is ending takes no more messages; its reports are repeated in another session.
        let _ = self.outbox.as_ref().map(|outbox| outbox.send(message));
    }
}

/// An attempt that a node gave to this executor.
struct HeldAttempt {
    /// The link that it came by or, once it has ended, the link that its report was sent by.
    link: usize,
    state: State,
}

enum State {
    Running { context: Context, lines: u64, logged: usize },
    Over(AttemptReport),
}

/// The state of a clean stop.
struct Drain {
    next: Instant,
    is_ending: bool,
    is_over: bool,
}

pub(crate) struct Coordinator {
    capacity: u32,
    grace: Duration,
    drain_within: Duration,
    events: UnboundedSender<Event>,
    links: Vec<NodeLink>,
    attempts: Map<Held, HeldAttempt>,
    /// For each run the number of its known attempts, and its greatest token.
    runs: Map<u64, (u32, u64)>,
    reported: VecDeque<(Instant, u64)>,
    running: u32,
    drain: Option<Drain>,
    /// When the current batch was received.
    now: Instant,
    /// The log lines that are being gathered, and their link and attempt.
    lines: LogBatch,
    lines_of: Option<(usize, Held)>,
    actions: Actions,
}

impl Coordinator {
    pub(crate) fn new(
        capacity: u32,
        grace: Duration,
        drain_within: Duration,
        events: UnboundedSender<Event>,
    ) -> Coordinator {
        Coordinator {
            capacity,
            grace,
            drain_within,
            events,
            links: Vec::new(),
            attempts: Map::default(),
            runs: Map::default(),
            reported: VecDeque::new(),
            running: 0,
            drain: None,
            now: surroundings::instant(),
            lines: LogBatch::default(),
            lines_of: None,
            actions: Actions::default(),
        }
    }

    /// Adds a node that the program named.
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

    /// Sends the messages that a batch of events has led to, and returns what is left to do.
    pub(crate) fn finish(&mut self, now: Instant) -> Actions {
        self.finish_lines();
        let grants = self.grants();
        for (link, mut more) in self.links.iter_mut().zip(grants) {
            link.credits += more;
            link.wanted = link.wanted.saturating_sub(u64::from(more));
            for message in link.reports.finish(&mut more) {
                link.send(message);
            }
            if more > 0 {
                link.send(frames::text(&FromExecutor::Credit(Credit { more })));
            }
        }
        self.forget(now);
        mem::take(&mut self.actions)
    }

    /// Takes no more runs.
    pub(crate) fn drain(&mut self, now: Instant) {
        self.drain = Some(Drain { next: now + self.drain_within, is_ending: false, is_over: false });
        for link in &mut self.links {
            link.credits = 0;
            link.send(frames::text(&FromExecutor::Drain));
        }
    }

    /// When to call [`Coordinator::wake`], if no event comes before.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.drain.as_ref().map(|drain| drain.next)
    }

    /// Continues a clean stop whose time for the current step has passed.
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
        let is_over = |drain: &Drain| drain.is_over || (self.attempts.is_empty() && self.running == 0);
        self.drain.as_ref().is_some_and(is_over)
    }

    /// Says goodbye to every node. The sessions end when that is sent.
    pub(crate) fn leave(&mut self) {
        for link in &mut self.links {
            link.send(frames::text(&FromExecutor::Goodbye));
            link.outbox = None;
        }
    }

    fn end_all(&mut self) {
        for given in self.attempts.values() {
            if let State::Running { context, .. } = &given.state {
                context.end(EndReason::Stopping, "the executor stops");
            }
        }
    }

    fn connecting(&mut self, link: usize) -> ConnectDecision {
        let NodeLink { is_retired, is_replaced, node, .. } = &self.links[link];
        if *is_retired {
            return ConnectDecision::Stop;
        }
        if *is_replaced && self.links.iter().any(|other| other.is_open() && other.node == *node) {
            return ConnectDecision::Later;
        }
        self.links[link].is_replaced = false;
        ConnectDecision::Go(self.holds())
    }

    /// The attempts to claim: those whose report no node has kept. Running ones come first, because nothing else tells a
    /// node of them.
    fn holds(&self) -> Vec<Held> {
        let is_running = |given: &HeldAttempt| matches!(&given.state, State::Running { context, .. } if context.why() != Some(EndReason::Stale));
        let is_over = |given: &HeldAttempt| matches!(given.state, State::Over(_));
        let all =
            |is_it: fn(&HeldAttempt) -> bool| self.attempts.iter().filter(move |(_, given)| is_it(given));
        let held = all(is_running).chain(all(is_over)).map(|(held, _)| *held);
        held.take(HOLDS_MAX.min(HOLDS_BYTES / HOLD_BYTES)).collect()
    }

    fn opened(&mut self, index: usize, welcome: Welcome, outbox: UnboundedSender<String>) {
        let link = &mut self.links[index];
        (link.outbox, link.node) = (Some(outbox), welcome.node);
        (link.credits, link.wanted, link.reports) = (0, 0, Reports::default());
        let (url, node) = (link.url.to_string(), link.node.clone());
        self.actions.notices.push(Notice::Connected { url, node });
        self.learn(&welcome.nodes);
        welcome.stale.iter().for_each(|held| self.stale(held));
        for given in self.attempts.values_mut() {
            if let State::Over(ended) = &given.state {
                given.link = index;
                self.links[index].reports.push(ended, self.now);
            }
        }
        if self.drain.is_some() {
            self.links[index].send(frames::text(&FromExecutor::Drain));
        }
    }

    fn closed(&mut self, index: usize, reason: String, is_replaced: bool) {
        let link = &mut self.links[index];
        let (was_open, url) = (link.outbox.take().is_some(), link.url.to_string());
        (link.credits, link.wanted, link.is_replaced) = (0, 0, is_replaced);
        link.reports = Reports::default();
        if !was_open {
            return self.actions.notices.push(Notice::Unreachable { url, reason });
        }
        self.actions.notices.push(Notice::Disconnected { url, reason });
        // Reports that this node may not have received are sent to another node.
        let Some(other) = self.open_or_any(index) else { return };
        for given in self.attempts.values_mut().filter(|given| given.link == index) {
            if let State::Over(ended) = &given.state {
                given.link = other;
                self.links[other].reports.push(ended, self.now);
            }
        }
    }

    /// That link if it is open, else another that is.
    fn open_or_any(&self, link: usize) -> Option<usize> {
        let is_open = |index: &usize| self.links[*index].is_open();
        Some(link).filter(is_open).or_else(|| (0..self.links.len()).find(is_open))
    }

    fn arrived(&mut self, link: usize, work: ReceivedRun) {
        let has_credit = self.links[link].credits > 0;
        self.links[link].credits = self.links[link].credits.saturating_sub(1);
        let held = work.held;
        let (known, token) = self.runs.get(&held.run).copied().unwrap_or_default();
        if held.token <= token {
            // A known attempt will be reported, or has been. Otherwise the node must not wait for it here.
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
        self.actions.starts.push(context.clone());
        self.running += 1;
        self.links[link].running += 1;
        self.hold(held, HeldAttempt { link, state: State::Running { context, lines: 0, logged: 0 } });
    }

    fn hold(&mut self, held: Held, given: HeldAttempt) {
        let (known, token) = self.runs.entry(held.run).or_default();
        (*known, *token) = (*known + 1, held.token.max(*token));
        self.attempts.insert(held, given);
    }

    fn refuse(&mut self, link: usize, held: Held, why: impl Into<String>) {
        let ended = AttemptReport::new(held, AttemptEnd::new(Outcome::Refused, why), None, self.now);
        self.links[link].reports.push(&ended, self.now);
        self.hold(held, HeldAttempt { link, state: State::Over(ended) });
    }

    fn ended(&mut self, ended: AttemptReport) {
        self.finish_lines();
        let held = ended.held;
        let Some(given) = self.attempts.get_mut(&held) else { return };
        let State::Running { context, .. } = &given.state else { return };
        let (link, is_stale) = (given.link, context.why() == Some(EndReason::Stale));
        self.running -= 1;
        self.links[link].running -= 1;
        if is_stale {
            return self.release(&held);
        }
        let target = self.open_or_any(link).unwrap_or(link);
        if self.links[target].is_open() {
            self.links[target].reports.push(&ended, self.now);
        }
        // Looked up again, because the code above borrows the links.
        if let Some(given) = self.attempts.get_mut(&held) {
            *given = HeldAttempt { link: target, state: State::Over(ended) };
        }
    }

    fn kept(&mut self, held: &Held) {
        if self.attempts.get(held).is_some_and(|given| matches!(given.state, State::Over(_))) {
            self.release(held);
        }
    }

    /// Ends an attempt that is no longer current according to a node, without a report.
    fn stale(&mut self, held: &Held) {
        match self.attempts.get(held).map(|given| &given.state) {
            Some(State::Running { context, .. }) => {
                context.end(EndReason::Stale, "another attempt of the run has taken over")
            }
            Some(State::Over(_)) => self.release(held),
            None => {}
        }
    }

    /// Forgets an attempt. Its token is remembered for [`REMEMBERED`].
    fn release(&mut self, held: &Held) {
        self.attempts.remove(held);
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
        if let Some(State::Running { context, .. }) = self.attempts.get(&held).map(|given| &given.state) {
            context.end(EndReason::Asked, cancel.reason);
        }
    }

    /// Numbers the lines of an attempt's log in order. Without an open session they are dropped without a number.
    fn log(&mut self, held: Held, text: &str) {
        let Some(link) = self.attempts.get(&held).map(|given| given.link) else { return };
        let Some(target) = self.open_or_any(link) else { return };
        if self.lines_of != Some((target, held)) {
            self.finish_lines();
            self.lines_of = Some((target, held));
        }
        let Some(HeldAttempt { state: State::Running { lines, logged, .. }, .. }) =
            self.attempts.get_mut(&held)
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
        let Some(link) = self.attempts.get(&held).map(|given| given.link) else { return };
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
        // A token that was configured for encrypted connections only is not sent over a plain one because a node lists it.
        let is_secret = self.links.iter().filter(|link| !link.is_learned).all(|link| link.url.is_secure);
        let listed: Vec<Url> = nodes.iter().filter_map(|node| Url::parse(node).ok()).collect();
        let listed: Vec<Url> = listed.into_iter().filter(|url| url.is_secure || !is_secret).collect();
        for link in self.links.iter_mut().filter(|link| link.is_learned) {
            link.is_retired = !listed.contains(&link.url) && !link.is_open();
        }
        for url in listed {
            let is_known = |link: &NodeLink| link.url == url && !link.is_retired;
            if !self.links.iter().any(is_known) {
                self.join(url, true);
            }
        }
    }

    fn join(&mut self, url: Url, is_learned: bool) {
        self.actions.links.push((self.links.len(), url.clone()));
        self.links.push(NodeLink {
            url,
            is_learned,
            is_retired: false,
            node: String::new(),
            is_replaced: false,
            outbox: None,
            credits: 0,
            running: 0,
            wanted: 0,
            reports: Reports::default(),
        });
    }

    /// The new credits for each link. A single node gets all of them. Of several, each gets a share even if it is idle, so
    /// that it can send at once; the rest goes to nodes that asked for more.
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
            give(&mut grants, index, share.saturating_sub(link.credits + link.running));
        }
        let is_wanting = |link: &NodeLink| link.is_open() && link.wanted > 0;
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

    /// Credits that may still be given. All claims, those of unconfirmed reports included, have to fit into a hello.
    fn free(&self) -> u32 {
        let promised: u32 = self.links.iter().map(|link| link.credits).sum();
        let room = (HOLDS_MAX.min(HOLDS_BYTES / HOLD_BYTES)).saturating_sub(self.attempts.len());
        let room = u32::try_from(room).unwrap_or(u32::MAX).saturating_sub(promised);
        self.capacity.saturating_sub(promised).saturating_sub(self.running).min(room)
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.end_all();
    }
}

#[cfg(test)]
mod tests;

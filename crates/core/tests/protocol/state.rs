//! Everything the model remembers: the store, the memory of each node, and the network.
//!
//! Fire times are 0, 1, 2; fire time `f` is due once `f < now`. Time is not counted further than that: a lease
//! and a node's belief hold what is *left* of them, so that a tick is the same step today and tomorrow.

pub(crate) const NODES: usize = 3;
pub(crate) const FIRES: usize = 3;
/// Ticks from asking for a lease to its end.
pub(crate) const TERM: u8 = 2;
/// No run is sent more often than this, which keeps the model finite.
pub(crate) const SENDS_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State {
    /// How many fire times are due by the store's clock.
    pub(crate) now: u8,
    pub(crate) lease: Lease,
    pub(crate) clock: Clock,
    pub(crate) runs: [Run; FIRES],
    pub(crate) nodes: [Node; NODES],
    pub(crate) wire: [Wire; FIRES],
    pub(crate) faults_left: u8,
}

/// The lease row. An epoch is given to one incarnation only, so it stands for its owner as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lease {
    pub(crate) epoch: u8,
    /// Ticks until it expires, by the store's clock; 0 is expired or released.
    pub(crate) left: u8,
    /// No holder so far was allowed to begin an ungated send of a fire time at or beyond this one.
    pub(crate) mark: u8,
}

/// The clock row of the one job, and its definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Clock {
    pub(crate) next: u8,
    pub(crate) version: u8,
    /// The schedule of every version so far, so that a node can hold an old one.
    pub(crate) schedules: [Schedule; 3],
    /// Fire times that no version named when they passed: they need no record.
    pub(crate) unnamed: [bool; FIRES],
    /// The epoch that was current when the last change was committed.
    pub(crate) changed_under: u8,
    /// The last version whose author was told "done".
    pub(crate) answered: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Schedule {
    #[default]
    All,
    WithoutSecond,
    Stopped,
}

impl Schedule {
    pub(crate) fn names(self, fire: usize) -> bool {
        match self {
            Schedule::All => true,
            Schedule::WithoutSecond => fire != 1,
            Schedule::Stopped => false,
        }
    }
}

/// The run row together with its `sends` and `closes` rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Run {
    pub(crate) phase: Phase,
    /// The last attempt whose gate key is taken; 0 for none.
    pub(crate) attempt: u8,
    /// The epoch in the token of that gate.
    pub(crate) gated_by: u8,
    /// That attempt was given up, and a next one is allowed.
    pub(crate) is_reaped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Absent,
    Open,
    Succeeded,
    Skipped,
    Lost,
}

impl Phase {
    pub(crate) fn is_closed(self) -> bool {
        !matches!(self, Phase::Absent | Phase::Open)
    }
}

/// One process. A crash empties it, and what starts again is another incarnation: nothing is left to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) epoch: u8,
    /// Ticks until its own deadline; it begins nothing at 0.
    pub(crate) left: u8,
    /// It may begin ungated sends of fire times before this one.
    pub(crate) mark: u8,
    /// Ungated runs of fire times before this one may have been sent by an earlier holder.
    pub(crate) inherited: u8,
    /// The version of the job that it knows.
    pub(crate) view: u8,
    pub(crate) wheel: [Entry; FIRES],
    pub(crate) effect: Effect,
    /// The effect was interrupted: everything else may happen before it goes on.
    pub(crate) is_paused: bool,
    pub(crate) request: Request,
    /// The request or its answer is late: everything else may happen before it arrives.
    pub(crate) is_late: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Entry {
    #[default]
    Out,
    /// Surely never sent.
    Fresh,
    /// Perhaps sent by an earlier holder.
    Doubtful,
    /// Sent, or being sent, by this node under this epoch.
    Sent,
}

/// Where the node stands between store, memory and network. One at a time: a shard's step is sequential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Effect {
    #[default]
    Idle,
    /// The plan statement is on its way, with the values it compares.
    Plan { next: u8, version: u8 },
    /// Planted bug only: the clock is advanced, the run not yet written.
    Insert { fire: u8 },
    /// The gate statement is on its way.
    Gate { fire: u8, attempt: u8 },
    /// The gate is committed, and the node knows.
    Gated { fire: u8, attempt: u8 },
    /// No answer came to the gate statement.
    Unsure { fire: u8, attempt: u8 },
    /// The last look at deadline and job was good; the bytes are not written. A send *begins* here.
    Send { fire: u8, sent: Sent },
}

/// A lease request on its way, aged from when the node asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Request {
    #[default]
    None,
    Acquired {
        age: u8,
        mark: u8,
    },
    RenewalAsked {
        age: u8,
    },
    /// Committed by the store, which put its mark and the job's version into the answer.
    RenewalApplied {
        age: u8,
        mark: u8,
        version: u8,
    },
}

/// What a receiver sees of a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sent {
    pub(crate) token: Token,
    pub(crate) is_possible_duplicate: bool,
}

/// The fencing token: compared by epoch, then by attempt. The default is smaller than any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token {
    pub(crate) epoch: u8,
    pub(crate) attempt: u8,
}

impl Token {
    /// Smaller than any that is sent, and not none.
    const LEAST: Token = Token { epoch: 0, attempt: 1 };
}

/// The network and the executor, for one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Wire {
    /// Sends that ever began.
    pub(crate) begun: u8,
    /// The greatest token that the executor accepted.
    pub(crate) accepted: Token,
    pub(crate) in_flight: [Option<Sent>; 2],
    /// Attempts whose result the executor keeps, because nobody acknowledged it.
    pub(crate) reports: [Option<u8>; SENDS_MAX as usize],
}

impl State {
    pub(crate) fn new(faults: u8) -> Self {
        State { faults_left: faults, ..State::default() }
    }

    pub(crate) fn schedule(&self) -> Schedule {
        self.schedule_of(self.clock.version)
    }

    pub(crate) fn schedule_of(&self, version: u8) -> Schedule {
        self.clock.schedules[version as usize]
    }

    /// Every fire time has passed, has its record, and nobody waits for an answer.
    pub(crate) fn is_finished(&self) -> bool {
        let is_planned = self.now as usize == FIRES && self.clock.next as usize == FIRES;
        let is_closed = self.runs.iter().all(|run| run.phase != Phase::Open);
        is_planned && is_closed && self.clock.answered == self.clock.version
    }

    /// One form for states that differ only in the names of the nodes.
    pub(crate) fn canonical(mut self) -> Self {
        self.nodes.sort_unstable();
        self
    }

    /// Without what no step can ever look at again.
    pub(crate) fn forgetful(mut self) -> Self {
        for node in &mut self.nodes {
            node.is_paused &= node.effect != Effect::Idle;
            node.is_late &= node.request != Request::None;
            if node.left == 0 && node.request == Request::None && node.effect == Effect::Idle {
                *node = Node { wheel: node.wheel, ..Node::default() };
            }
        }
        for fire in 0..FIRES {
            self.wire[fire].in_flight.sort_unstable();
            self.wire[fire].reports.sort_unstable();
            self.forget_run(fire);
        }
        // A mark says something only about runs that are not closed.
        let runs = self.runs;
        let lowered =
            |mark: u8| (0..mark).rev().find(|f| !runs[*f as usize].phase.is_closed()).map_or(0, |f| f + 1);
        self.lease.mark = lowered(self.lease.mark);
        for node in &mut self.nodes {
            node.inherited = lowered(node.inherited);
        }
        if self.clock.answered == self.clock.version {
            self.clock.changed_under = 0;
        }
        self
    }

    fn forget_run(&mut self, fire: usize) {
        let run = &mut self.runs[fire];
        let concerns = |node: &Node| node.effect.fire() == Some(fire);
        if !self.nodes.iter().any(|node| concerns(node) && node.epoch == run.gated_by) {
            run.gated_by = 0;
        }
        let wire = &mut self.wire[fire];
        let is_in_flight = wire.in_flight.iter().any(Option::is_some) || self.nodes.iter().any(concerns);
        let lease = self.lease;
        let is_stale =
            |node: &Node| node.epoch < lease.epoch && (node.left > 0 || node.request != Request::None);
        if !is_in_flight && !self.nodes.iter().any(is_stale) && wire.accepted > Token::LEAST {
            // Every token to come is greater, and by how much makes no difference.
            wire.accepted = Token::LEAST;
        }
        if !run.phase.is_closed() {
            return;
        }
        for node in &mut self.nodes {
            if node.wheel[fire] == Entry::Sent {
                node.wheel[fire] = Entry::Out;
            }
        }
        let is_quiet = !is_in_flight && wire.reports.iter().all(Option::is_none);
        if is_quiet && self.nodes.iter().all(|node| node.wheel[fire] == Entry::Out) {
            // Closed, and nobody can touch it again: how it ended and how it got there makes no difference.
            *run = Run { phase: Phase::Succeeded, attempt: u8::MAX, ..Run::default() };
            *wire = Wire::default();
        }
    }
}

impl Effect {
    pub(crate) fn fire(self) -> Option<usize> {
        match self {
            Effect::Idle => None,
            Effect::Plan { next: fire, .. }
            | Effect::Insert { fire }
            | Effect::Gate { fire, .. }
            | Effect::Gated { fire, .. }
            | Effect::Unsure { fire, .. }
            | Effect::Send { fire, .. } => Some(fire as usize),
        }
    }
}

impl Node {
    /// Is it in the middle of something that nothing has interrupted?
    pub(crate) fn is_busy(&self) -> bool {
        let is_acting = self.effect != Effect::Idle && !self.is_paused;
        is_acting || (self.request != Request::None && !self.is_late)
    }

    /// May it begin anything, by its own deadline?
    pub(crate) fn is_believing(&self) -> bool {
        self.left > 0
    }

    /// Gives the shard up. What is on its way stays on its way; nothing new begins.
    pub(crate) fn concede(&mut self, keeps_wheel: bool) {
        let wheel = if keeps_wheel { self.wheel } else { [Entry::Out; FIRES] };
        let (epoch, effect, is_paused) = (self.epoch, self.effect, self.is_paused);
        *self = Node { epoch, effect, is_paused, wheel, ..Node::default() };
    }
}

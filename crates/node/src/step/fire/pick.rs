//! Which of the due runs go now: in order of rank, as many as the pools have places for.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::engine::fire::{Rank, Wanted, wanted};
use punctual_core::model::{RunId, Target};
use punctual_core::policy::{Placement, Pool, pool};

use super::Help;
use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, Run};
use crate::ports::Boot;
use crate::settings::{Planted, Settings};

/// When caught-up runs had their share of a step, the rest of them waits this long.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(100);

/// When places are free and something is due, the next round comes this soon: by then more may be due.
const NEXT_ROUND: Duration = Duration::from_millis(1);

/// While payloads that should be here are being fetched, it is asked this often whether they are.
const NEXT_FETCH: Duration = Duration::from_millis(10);

/// How many go in one round where nothing has to be asked of the store: so few that executors begin with these while the
/// next are decided. Where the store is asked, a round is as large as may be, because asking takes as long for few.
const AT_ONCE_MAX: usize = 250;

/// What goes in this round.
#[derive(Default)]
pub(super) struct Picked {
    pub(super) runs: Vec<RunId>,
    /// Whether it is as many as go in one: there may be more.
    pub(super) is_full: bool,
}

/// What was chosen from the queue.
struct Choice {
    picked: Vec<RunId>,
    /// Whether the store has to be asked about one of them.
    asks_store: bool,
    /// See [`Memory::fast_below`].
    fast_below: Option<Rank>,
    /// Whether everything that was passed over so far waits for the fast pool.
    is_unbroken: bool,
}

impl Choice {
    fn pass_over(&mut self, rank: Rank, pool: Pool) {
        self.is_unbroken &= pool == Pool::Fast;
        if self.is_unbroken {
            self.fast_below = self.fast_below.max(Some(rank));
        }
    }
}

impl Settings {
    /// How many runs may be due and waiting for a place.
    pub(crate) fn ready_max(&self) -> usize {
        (self.limits.fast_queue as usize + self.limits.slow_queue as usize).max(self.fire_max)
    }
}

impl Node {
    /// Moves what is due from the wheel to the queue, and takes from the queue what may go now.
    pub(super) fn pick(&self, help: Help) -> Picked {
        let boot = self.boot();
        let mut memory = self.memory();
        if boot < memory.held_until {
            return Picked::default();
        }
        let Some(now) = memory.trusted_now(boot) else { return Picked::default() };
        memory.end_listening(boot);
        memory.call_stalled();
        self.let_out(&mut memory, now);
        while let Some((ready_at, id)) = memory.between.first().copied()
            && ready_at <= now
        {
            memory.between.pop_first();
            memory.make_ready(id);
        }
        memory.wakes.load |= memory.has_room_again();
        memory.wakes.load |= help == Help::Store && memory.fetches_at(boot).is_some_and(|at| at <= boot);
        let choice = self.choose(&memory, now, help);
        let is_full = choice.picked.len() >= self.round_max(&choice);
        let Choice { picked, fast_below, .. } = choice;
        memory.fast_below = fast_below;
        memory.wakes.tend |= memory.has_room_for_parked(&self.settings, picked.is_empty());
        let is_waiting = memory.waiting_count() > picked.len();
        memory.flow.note(boot, picked.len(), is_waiting);
        for id in &picked {
            memory.make_busy(*id);
        }
        Picked { runs: picked, is_full }
    }

    /// How many go in a round with these.
    fn round_max(&self, choice: &Choice) -> usize {
        if choice.asks_store { self.settings.fire_max } else { self.settings.fire_max.min(AT_ONCE_MAX) }
    }

    /// Lets what is due leave the wheel, as much as may wait for a place.
    fn let_out(&self, memory: &mut Memory, now: Timestamp) {
        if memory.waiting_count() == 0 {
            memory.turn = 0;
        }
        let room = self.settings.ready_max().saturating_sub(memory.waiting_count());
        let mut due = Vec::new();
        memory.wheel.advance(now, room, &mut due);
        let (is_short, turn) = (room > 0 && due.len() == room, memory.turn);
        for timer in due {
            let id = RunId(timer.id);
            if let Some(run) = memory.runs.get_mut(&id) {
                run.turn = turn;
            }
            if memory.has_planted(Planted::LooksBackOneSlot) && is_behind(timer.due, now) {
                leave_for_next_turn(memory, id);
            } else {
                memory.make_ready(id);
            }
        }
        // What had to stay goes behind these, however long it has been due: else one app's backlog would always be first.
        memory.turn = turn.saturating_add(u32::from(is_short));
    }

    /// The runs that may go now, in their order.
    fn choose(&self, memory: &Memory, now: Timestamp, help: Help) -> Choice {
        let fast_below = memory.fast_below;
        let mut choice = Choice { picked: Vec::new(), asks_store: false, fast_below, is_unbroken: true };
        let (mut taken, mut caught_up) = ([0_u32; 2], 0);
        let has_place = |pool: Pool, taken: &[u32; 2]| {
            let open = memory.open[pool as usize] + taken[pool as usize];
            pool::place(&self.settings.limits, pool, open, 0) == Placement::Send
        };
        let (mut ranks, mut has_jumped) = (memory.ready.range(..), false);
        while let Some(rank) = ranks.next() {
            let has_share = !rank.is_caught_up || caught_up < self.settings.catch_up_max;
            if choice.picked.len() >= self.round_max(&choice) || !has_share {
                break;
            }
            if !has_jumped && !has_place(Pool::Fast, &taken) {
                has_jumped = true;
                if let Some(below) = choice.fast_below.filter(|below| below > rank) {
                    ranks = memory.ready.range(below..);
                    continue;
                }
            }
            let Some(run) = memory.runs.get(&rank.run) else { continue };
            if help == Help::None && !memory.goes_alone(run, now) {
                choice.is_unbroken = false;
                continue;
            }
            if let Some(pool) = memory.pool_of(run, now) {
                if !has_place(pool, &taken) {
                    choice.pass_over(*rank, pool);
                    continue;
                }
                taken[pool as usize] += 1;
            }
            caught_up += usize::from(rank.is_caught_up);
            choice.asks_store |= memory.asks_store(rank.run, run);
            choice.picked.push(rank.run);
        }
        choice
    }

    /// When this step wants to be called again.
    pub(super) fn next_moment(&self) -> Boot {
        let boot = self.boot();
        let mut memory = self.memory();
        let idle = boot.plus(self.settings.load_ahead);
        let Some(now) = memory.trusted_now(boot) else { return idle };
        let held_until = memory.paused_until.max(memory.held_until);
        if held_until > boot {
            return held_until;
        }
        // Where no place is free, nothing is chosen: places become free by ends, and those wake this step.
        let in_queue = match memory.ready.first() {
            Some(first) if !self.choose(&memory, now, Help::Store).picked.is_empty() => {
                Some(boot.plus(if first.is_caught_up { CATCH_UP_PAUSE } else { NEXT_ROUND }))
            }
            _ => None,
        };
        let is_full = memory.is_ready_full(&self.settings);
        let in_wheel = memory.wheel.next_due().filter(|_| !is_full);
        let between = memory.between.first().map(|(ready_at, _)| *ready_at);
        let waiting = [in_wheel, between].into_iter().flatten().min();
        let waiting = waiting.map(|due| memory.time.moment_of(due).max(boot));
        // What cannot go may have to make way for what could.
        let overfull = is_full.then(|| memory.flow.next_look());
        let listened = memory.natives.listened();
        let fetches = memory.fetches_at(boot).map(|at| at.max(boot.plus(NEXT_FETCH)));
        [in_queue, waiting, overfull, listened, fetches].into_iter().flatten().fold(idle, Boot::min)
    }
}

impl Memory {
    /// Whether nothing more may leave the wheel before something that is due goes.
    pub(super) fn is_ready_full(&self, settings: &Settings) -> bool {
        self.waiting_count() >= settings.ready_max()
    }

    /// How many are due and cannot go yet: there is no place for them, or no executor takes more.
    pub(crate) fn waiting_count(&self) -> usize {
        self.ready.len() + self.seekers.stalled_count()
    }

    /// Whether nothing about a run has to be read or written before it is sent.
    fn goes_alone(&self, run: &Run, now: Timestamp) -> bool {
        let flags = run.flags;
        let is_plain = !(flags.has_payload || flags.is_doubtful || flags.may_be_gated);
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) if is_plain && !job.is_gated() => {
                matches!(wanted(job, &run.candidate(), now), Wanted::Start(_))
            }
            _ => false,
        }
    }

    /// Whether the store has to be asked before it can be sent, as far as can be said before its executor is chosen.
    fn asks_store(&self, id: RunId, run: &Run) -> bool {
        let flags = run.flags;
        let is_here = !flags.has_payload || self.ahead.has(id);
        let is_plain = is_here && !flags.is_doubtful && !flags.may_be_gated;
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) if is_plain && !job.must_be_gated() => {
                job.executor().is_some() && self.natives.is_empty()
            }
            _ => true,
        }
    }

    /// Whether parked runs may be called back that found no room: when much of it is free, or when nothing that is there
    /// can go and something else could.
    fn has_room_for_parked(&self, settings: &Settings, is_idle: bool) -> bool {
        let room = settings.ready_max() / if is_idle { 2 } else { 4 };
        self.waiting_count() < room.max(1) && self.parked.values().any(|parked| parked.is_due)
    }

    /// The pool whose places a send of the run takes; none for what is not sent over HTTP.
    pub(super) fn pool_of(&self, run: &Run, now: Timestamp) -> Option<Pool> {
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) if matches!(job.definition.target, Target::Http(_)) => {
                Some(self.paces.get(&run.job).map_or(Pool::Fast, |pace| pace.pool(now)))
            }
            _ => None,
        }
    }
}

fn is_behind(due: Timestamp, now: Timestamp) -> bool {
    now.as_millis().saturating_sub(due.as_millis()) > 1_000
}

/// The bug of a ring that looks back one slot: the rest waits for the ring to come round.
fn leave_for_next_turn(memory: &mut Memory, id: RunId) {
    if let Some(run) = memory.runs.get_mut(&id) {
        run.ready_at = run.ready_at.saturating_add(Duration::from_secs(60));
    }
    memory.arm(id);
}

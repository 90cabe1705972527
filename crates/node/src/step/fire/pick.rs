//! Which of the due runs go now: in order of rank, as many as the pools have places for.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::due::{AppNumber, DueHead as Next, PickVerdict as Verdict};
use punctual_core::engine::fire::{Rank, Wanted, decided_when_due};
use punctual_core::model::{JobId, Origin, RunId, Target};
use punctual_core::policy::misfire::GRACE;
use punctual_core::policy::pool::{is_within_app_share, is_within_job_share};
use punctual_core::policy::{ClassOrdinal, Places, Pool, Room};
use punctual_core::wheel::{Handed, Wheel};
use rustc_hash::FxHashMap;

use super::Help;
use super::calendars::Answers;
use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, Run, RunLocation};
use crate::ports::{Boot, StoreError};
use crate::settings::{Planted, Settings};

/// When caught-up runs had their share of a step, the rest of them waits this long.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(100);

/// When places are free and something is due, the next round comes this soon: by then more may be due.
const NEXT_ROUND: Duration = Duration::from_millis(1);

/// How often the step asks whether payloads that should be here have been fetched.
const NEXT_FETCH: Duration = Duration::from_millis(10);

/// How many runs go in one round where nothing has to be asked of the store: few enough that executors begin with these
/// while the next are decided. Where the store is asked, a round is as large as possible, because asking takes as long
/// for few.
const AT_ONCE_MAX: usize = 250;

/// What goes in this round.
#[derive(Default)]
pub(super) struct Picked {
    pub(super) runs: Vec<RunId>,
    /// Whether it is as many as go in one: there may be more.
    pub(super) is_full: bool,
    /// Jobs that have something due, and whose pool and app are not known yet.
    pub(super) unsorted: Vec<JobId>,
    /// Runs that may go without the store if their jobs want them, which takes a calendar to say.
    pub(super) unasked: Vec<RunId>,
}

/// The smallest step of time.
const MOMENT: Duration = Duration::from_millis(1);

/// How many runs leave the wheel in one round.
const LET_OUT_MAX: usize = 10_000;

/// How often the jobs in line for the slow pool are asked whether they belong there.
const PACE_EVERY_MS: i64 = 1_000;

/// A round of picking: what it is about, and what it has taken so far.
struct Round<'a> {
    memory: &'a Memory,
    settings: &'a Settings,
    now: Timestamp,
    help: Help<'a>,
    /// With the places of what this round takes.
    places: Places,
    taken: Vec<(Pool, AppNumber, JobId)>,
    /// How many runs this round takes of each class that has a limit.
    classes: FxHashMap<ClassOrdinal, u32>,
    picked: usize,
    caught_up: usize,
    /// Whether the store has to be asked about one of them.
    asks_store: bool,
    /// See [`Picked::unsorted`].
    unsorted: Vec<JobId>,
    /// The jobs of [`Picked::unasked`].
    unasked: Vec<JobId>,
}

impl Round<'_> {
    fn new<'a>(
        memory: &'a Memory,
        settings: &'a Settings,
        now: Timestamp,
        help: Help<'a>,
        places: Places,
    ) -> Round<'a> {
        let (taken, unsorted, unasked) = (Vec::new(), Vec::new(), Vec::new());
        let (picked, caught_up, asks_store) = (0, 0, false);
        let classes = FxHashMap::default();
        Round {
            memory,
            settings,
            now,
            help,
            places,
            taken,
            classes,
            picked,
            caught_up,
            asks_store,
            unsorted,
            unasked,
        }
    }

    /// How many runs go in a round with these.
    fn max(&self) -> usize {
        let max = self.settings.fire_max;
        if self.asks_store { max } else { max.min(AT_ONCE_MAX) }
    }

    fn judge(&mut self, next: &Next) -> Verdict {
        let memory = self.memory;
        if self.picked >= self.max() {
            return Verdict::Stop;
        }
        if next.rank.is_caught_up && self.caught_up >= self.settings.catch_up_max {
            // Behind it in this line there is nothing fresh.
            return Verdict::PassPool;
        }
        let Some(run) = memory.loaded.runs.get(&next.rank.run) else { return Verdict::Take };
        if let Help::None(answers) = self.help {
            match memory.goes_alone(next.rank.run, run, answers, self.now) {
                Some(true) => {}
                Some(false) => return Verdict::PassJob,
                None if self.unasked.len() >= AT_ONCE_MAX.max(answers.len()) => return Verdict::Stop,
                None => {
                    self.unasked.push(next.job);
                    return Verdict::PassJob;
                }
            }
        }
        let Some(app) = memory.jobs.app_number(next.job) else {
            self.unsorted.push(next.job);
            return Verdict::PassJob;
        };
        let pool = memory.pool_of(run, self.now);
        if (pool, app) != (next.pool, next.app) {
            return Verdict::Move(pool, app);
        }
        if self.is_class_full(next.job, run) {
            return Verdict::PassJob;
        }
        if let Some(verdict) = self.without_place(next) {
            return verdict;
        }
        self.count_class(next.job, run);
        self.caught_up += usize::from(next.rank.is_caught_up);
        self.asks_store |= memory.asks_store(next.rank.run, run);
        self.picked += 1;
        Verdict::Take
    }

    /// Whether as many runs of the job's class are under way as may be. A part is under way with its whole.
    fn is_class_full(&self, job: JobId, run: &Run) -> bool {
        let class = self.memory.jobs.class_of(job);
        let taken = || self.classes.get(&class).copied().unwrap_or(0);
        let in_flight = || self.memory.in_flight.classes.count(class);
        let limit = self.memory.jobs.limit_of(class).filter(|_| run.origin != Origin::Part);
        limit.is_some_and(|limit| in_flight() + taken() >= limit)
    }

    fn count_class(&mut self, job: JobId, run: &Run) {
        let class = self.memory.jobs.class_of(job);
        if self.memory.jobs.limit_of(class).is_some() && run.origin != Origin::Part {
            *self.classes.entry(class).or_default() += 1;
        }
    }

    /// Takes a place for the run; or returns which runs are passed over, because there is none.
    fn without_place(&mut self, next: &Next) -> Option<Verdict> {
        let Some(pool) = next.pool else {
            let free = self.settings.stalled_max().saturating_sub(self.memory.loaded.seekers.stalled_count());
            let held = self.memory.loaded.seekers.stalled_of(next.job);
            return (held > 0 && !is_within_job_share(held, free)).then_some(Verdict::PassJob);
        };
        let room = self.places.room(pool, next.app, next.job);
        let is_shared = !self.memory.has_planted(Planted::SharesIgnored);
        match room {
            Room::Full => return Some(Verdict::PassPool),
            Room::AppShare if is_shared => return Some(Verdict::PassApp),
            Room::JobShare if is_shared => return Some(Verdict::PassJob),
            Room::Free | Room::AppShare | Room::JobShare => {}
        }
        self.places.take(pool, next.app, next.job);
        self.taken.push((pool, next.app, next.job));
        None
    }

    /// The places as they were: each send takes its own when it goes out.
    fn end(mut self) -> Places {
        for (pool, app, job) in self.taken {
            self.places.give_back(pool, app, job);
        }
        self.places
    }
}

impl Settings {
    /// How many runs that are due may wait in memory for a place.
    pub(crate) fn ready_max(&self) -> usize {
        self.due_max.max(self.fire_max)
    }

    /// How many runs may wait in memory for executors that take no more.
    pub(crate) fn stalled_max(&self) -> usize {
        (self.limits.fast_queue as usize + self.limits.slow_queue as usize).max(self.fire_max)
    }
}

impl Node {
    /// Moves what is due from the wheel to the queue, and takes from the queue what may go now.
    pub(super) fn pick(&self, help: Help<'_>) -> Picked {
        let boot = self.boot();
        let mut memory = self.memory();
        if boot < memory.agenda.held_until {
            return Picked::default();
        }
        let Some(now) = memory.trusted_now(boot) else { return Picked::default() };
        memory.move_slow_calls(now);
        memory.end_listening(boot);
        memory.call_stalled();
        memory.ask_again_for_keys(boot);
        self.let_out(&mut memory, now);
        while let Some((ready_at, id)) = memory.loaded.between.first().copied()
            && ready_at <= now
        {
            memory.move_to(id, RunLocation::Ready);
        }
        memory.outbox.wakes.load |= memory.has_room_again();
        memory.outbox.wakes.load |=
            matches!(help, Help::Store) && memory.fetches_at(boot).is_some_and(|at| at <= boot);
        let Picked { runs: picked, is_full, unsorted, unasked } = self.choose(&mut memory, now, help);
        if memory.has_room_for_parked(&self.settings, picked.is_empty()) && memory.loaded.parked.find_room() {
            memory.outbox.wakes.tend = true;
        }
        let is_waiting = memory.waiting_count() > 0;
        memory.loaded.flow.note(boot, picked.len(), is_waiting);
        for id in &picked {
            memory.enter(*id, RunLocation::Busy);
        }
        Picked { runs: picked, is_full, unsorted, unasked }
    }

    /// Finds out which pool and app jobs belong to, and puts their runs in line there.
    pub(super) async fn sort_jobs(&self, jobs: &[JobId]) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        self.know_jobs(jobs.iter().copied()).await?;
        let boot = self.boot();
        let mut memory = self.memory();
        let Some(now) = memory.trusted_now(boot) else { return Ok(()) };
        for job in jobs {
            let app = memory.app_number(*job);
            let pool = memory.is_http(*job).then(|| memory.pool_for(*job, now));
            let (class, loaded) = (memory.jobs.class_of(*job), &mut memory.loaded);
            loaded.ready.rehome_ranked(*job, pool, app, |rank| {
                let Some(run) = loaded.runs.get_mut(&rank.run) else { return rank };
                run.class = class;
                run.rank(rank.run)
            });
        }
        Ok(())
    }

    /// Lets due runs leave the wheel, as many as may wait for a place. Where a job or an app has its share of the due
    /// queue, the rest of its runs stays in the wheel, and does not keep others in it.
    fn let_out(&self, memory: &mut Memory, now: Timestamp) {
        let room = self.settings.ready_max().saturating_sub(memory.waiting_count());
        let mut due = Vec::new();
        let wheel = &mut std::mem::replace(&mut memory.loaded.wheel, Wheel::new(1, Timestamp::MIN));
        let of_apps: RefCell<FxHashMap<AppNumber, usize>> = RefCell::default();
        let last: Cell<Option<(u32, InLine)>> = Cell::new(None);
        let may_have = |group: u32, handed: Handed| {
            // Runs of one job come one after the other, and nothing joins the queue before the round is over.
            let cached = last.get().filter(|(of, _)| *of == group).map(|(_, in_line)| in_line);
            let in_line = cached.unwrap_or_else(|| memory.in_line(JobId(group)));
            last.set(Some((group, in_line)));
            let mut of_apps = of_apps.borrow_mut();
            let of_app = of_apps.entry(in_line.app).or_default();
            let may_have = in_line.has_room(room, handed, *of_app);
            *of_app += usize::from(may_have);
            may_have
        };
        wheel.advance_within(now, room.min(LET_OUT_MAX), may_have, &mut due);
        std::mem::swap(&mut memory.loaded.wheel, wheel);
        for timer in due {
            let id = RunId(timer.id);
            memory.judge_lateness(id, now);
            if memory.has_planted(Planted::LooksBackOneSlot) && is_behind(timer.due, now) {
                leave_for_next_turn(memory, id);
            } else {
                memory.enter(id, RunLocation::Ready);
            }
        }
    }

    /// Takes the runs that may go now out of the due queue, in their order; and whether there may be more.
    fn choose(&self, memory: &mut Memory, now: Timestamp, help: Help<'_>) -> Picked {
        memory.sort_slow_jobs(now);
        let mut ready = std::mem::take(&mut memory.loaded.ready);
        let places = std::mem::take(&mut memory.in_flight.places);
        let mut round = Round::new(memory, &self.settings, now, help, places);
        let picked = ready.pick(|next| round.judge(next));
        let is_full = round.picked >= round.max();
        let (unsorted, jobs) = (std::mem::take(&mut round.unsorted), std::mem::take(&mut round.unasked));
        (memory.in_flight.places, memory.loaded.ready) = (round.end(), ready);
        // As many of each job as may go in a round with the others.
        let of_each = (AT_ONCE_MAX / jobs.len().max(1)).max(1);
        let behind = |job| memory.loaded.ready.of_job(job).take(of_each).map(|rank| rank.run);
        let unasked = jobs.into_iter().flat_map(behind).collect();
        Picked { runs: picked.into_iter().map(|(_, rank)| rank.run).collect(), is_full, unsorted, unasked }
    }

    /// The first run that may go now, if there is one.
    fn first_choice(&self, memory: &mut Memory, now: Timestamp) -> Option<Rank> {
        let mut ready = std::mem::take(&mut memory.loaded.ready);
        let places = std::mem::take(&mut memory.in_flight.places);
        let mut round = Round::new(memory, &self.settings, now, Help::Store, places);
        let mut first = None;
        ready.pick(|next| match round.judge(next) {
            Verdict::Take => {
                first = Some(next.rank);
                Verdict::Stop
            }
            // To find out where a run belongs is something to do, too.
            Verdict::PassJob if !round.unsorted.is_empty() => {
                first = Some(next.rank);
                Verdict::Stop
            }
            verdict => verdict,
        });
        (memory.in_flight.places, memory.loaded.ready) = (round.end(), ready);
        first
    }

    /// When this step wants to be called again.
    pub(super) fn next_moment(&self) -> Boot {
        let boot = self.boot();
        let mut memory = self.memory();
        let idle = boot.plus(self.settings.load_ahead);
        let Some(now) = memory.trusted_now(boot) else { return idle };
        let held_until = memory.agenda.paused_until.max(memory.agenda.held_until);
        if held_until > boot {
            return held_until;
        }
        // Where no place is free, nothing is chosen: places become free by ends, and those wake this step.
        let in_queue = self
            .first_choice(&mut memory, now)
            .map(|first| boot.plus(if first.is_caught_up { CATCH_UP_PAUSE } else { NEXT_ROUND }));
        let is_full = memory.is_ready_full(&self.settings);
        let room = self.settings.ready_max().saturating_sub(memory.waiting_count());
        let none = Handed { total: 0, of_group: 0 };
        let may_have = |group: u32| memory.in_line(JobId(group)).has_room(room, none, 0);
        let in_wheel = memory.loaded.wheel.next_due_within(may_have).filter(|_| !is_full);
        let between = memory.loaded.between.first().map(|(ready_at, _)| *ready_at);
        let slow = memory.in_flight.fast_calls.front().map(|call| call.slow_at.saturating_add(MOMENT));
        let waiting = [in_wheel, between, slow].into_iter().flatten().min();
        let waiting = waiting.map(|due| memory.time.moment_of(due).max(boot));
        // Runs that cannot go may have to make way for runs that could.
        let overfull = memory.is_clogged(&self.settings, now).then(|| memory.loaded.flow.next_look());
        let listened = memory.executors.natives.listened();
        let fetches = memory.fetches_at(boot).map(|at| at.max(boot.plus(NEXT_FETCH)));
        [in_queue, waiting, overfull, listened, fetches, memory.loaded.keys.next(boot)]
            .into_iter()
            .flatten()
            .fold(idle, Boot::min)
    }
}

/// How many runs of a job, and of its app, are in the due queue.
#[derive(Clone, Copy)]
struct InLine {
    app: AppNumber,
    of_job: usize,
    of_app: usize,
}

impl InLine {
    /// Whether one more run of the job may wait in the due queue, which has room for `room` more, beside those that a round
    /// has let out of the wheel, `handed_of_app` of them of the same app.
    fn has_room(self, room: usize, handed: Handed, handed_of_app: usize) -> bool {
        let free = room.saturating_sub(handed.total);
        is_within_job_share(self.of_job + handed.of_group, free)
            && is_within_app_share(self.of_app + handed_of_app, free)
    }
}

impl Memory {
    /// Whether nothing more may leave the wheel before something that is due goes.
    fn is_ready_full(&self, settings: &Settings) -> bool {
        self.waiting_count() >= settings.ready_max()
    }

    /// Whether runs that wait fill memory, so that due runs that could go stay in the store behind them.
    pub(super) fn is_clogged(&self, settings: &Settings, now: Timestamp) -> bool {
        let is_cut_off = self.loaded.wheel.mark().is_some_and(|mark| mark.due <= now);
        is_cut_off && self.waiting_count() * 2 >= settings.ready_max()
    }

    fn in_line(&self, job: JobId) -> InLine {
        let app = self.app_number(job);
        let of_job = self.loaded.ready.len_of_job(job);
        InLine { app, of_job, of_app: self.loaded.ready.len_of_app(app) }
    }

    /// A run becomes due: waiting for a place from now on does not make it late.
    fn judge_lateness(&mut self, id: RunId, now: Timestamp) {
        let Some(run) = self.loaded.runs.get(&id).copied() else { return };
        let Some(Known::Job(job)) = self.jobs.get(run.job) else { return };
        let decided = decided_when_due(job, &self.candidate(id, &run), run.judged_at(now));
        if let Some(run) = self.loaded.runs.get_mut(&id) {
            run.decided = decided;
        }
    }

    /// A run comes into the wheel. One that comes in time stays so, whatever keeps it there after its due time: a full due
    /// queue, or the share of its job or app in it. One that comes late is as late as it is now.
    pub(crate) fn judge_armed(&mut self, id: RunId) {
        let Some(now) = self.time.shown() else { return };
        let Some(run) = self.loaded.runs.get_mut(&id) else { return };
        run.flags.is_in_time |= now <= run.ready_at.saturating_add(GRACE);
        if !run.flags.is_in_time {
            self.judge_lateness(id, now);
        }
    }

    /// Jobs that are no longer slow leave the line for the slow pool, which may be full.
    fn sort_slow_jobs(&mut self, now: Timestamp) {
        let is_time = |last: Timestamp| now.as_millis().saturating_sub(last.as_millis()) >= PACE_EVERY_MS;
        if !self.in_flight.paced_at.is_none_or(is_time) {
            return;
        }
        self.in_flight.paced_at = Some(now);
        let is_fast = |job: &JobId| self.pool_for(*job, now) == Pool::Fast;
        let fast: Vec<JobId> = self.loaded.ready.jobs_in(Some(Pool::Slow)).filter(is_fast).collect();
        for job in fast {
            let app = self.app_number(job);
            self.loaded.ready.rehome(job, Some(Pool::Fast), app);
        }
    }

    /// How many runs are due and cannot go yet: there is no place for them, or no executor takes more. Runs that wait
    /// for an exclusive key take no room from others.
    pub(crate) fn waiting_count(&self) -> usize {
        self.loaded.ready.len() + self.loaded.seekers.stalled_count()
    }

    /// Whether nothing about a run has to be read or written before it is sent; none if its job has to be asked first.
    fn goes_alone(&self, id: RunId, run: &Run, answers: &Answers, now: Timestamp) -> Option<bool> {
        let flags = run.flags;
        let is_plain = !(flags.has_payload || flags.is_doubtful || flags.may_be_gated);
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) if is_plain && !self.is_gated(id, job) => {
                let wanted = answers.wanted_at_once(self, (id, run), job, now)?;
                Some(matches!(wanted, Wanted::Start(_)))
            }
            _ => Some(false),
        }
    }

    /// Whether the store has to be asked before it can be sent, as far as can be said before its executor is chosen.
    fn asks_store(&self, id: RunId, run: &Run) -> bool {
        let flags = run.flags;
        let is_here = !flags.has_payload || self.loaded.ahead.has(id);
        let is_plain = is_here && !flags.is_doubtful && !flags.may_be_gated;
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) if is_plain && !self.must_be_gated(id, job) => {
                job.executor().is_some() && self.executors.natives.is_empty()
            }
            _ => true,
        }
    }

    /// Whether parked runs that found no room may be called back: when much of the room is free, or when nothing in
    /// memory can go and something else could.
    fn has_room_for_parked(&self, settings: &Settings, is_idle: bool) -> bool {
        let room = settings.ready_max() / if is_idle { 2 } else { 4 };
        self.waiting_count() < room.max(1)
    }

    /// The pool whose places a send of the run takes; none for what is not sent over HTTP.
    pub(super) fn pool_of(&self, run: &Run, now: Timestamp) -> Option<Pool> {
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) if matches!(job.definition.target, Target::Http(_)) => {
                Some(self.pool_for(run.job, now))
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
    if let Some(run) = memory.loaded.runs.get_mut(&id) {
        run.ready_at = run.ready_at.saturating_add(Duration::from_secs(60));
    }
    memory.arm(id);
}

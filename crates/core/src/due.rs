//! The due queue: runs whose time has come and that wait to be sent, in the order in which they may go.
//!
//! It has three levels: the pool whose places a run needs, its app, its job. The caller of [`DueQueue::pick`] passes over a
//! full pool, or an app or job that has its share, in one step, however many runs wait behind it. So a round costs what it
//! picks and what it passes over, never what waits.
//!
//! Inside an app, runs go by rank, which includes their class. Apps take turns, by start-time fair queueing: each run that an app gets moves its tag
//! one further, the lowest tag is next, and an app that had nothing joins at the tag that is served now. What is fresh
//! goes before what is caught up with, in every app.

use std::collections::BTreeSet;

use calendar::Timestamp;
use rustc_hash::FxHashMap;

use crate::engine::fire::Rank;
use crate::model::JobId;
use crate::policy::Pool;
use crate::rank_set::Seconds;

/// A node's own number for an app.
pub type AppNumber = u32;

/// The first run of a job, as the caller of [`DueQueue::pick`] judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueHead {
    /// The pool whose place the run waits for; none if it needs no place.
    pub pool: Option<Pool>,
    /// The app whose share the run counts against.
    pub app: AppNumber,
    /// The job of the run.
    pub job: JobId,
    /// The run and its rank.
    pub rank: Rank,
}

/// What the caller of [`DueQueue::pick`] decides about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickVerdict {
    /// Send it.
    Take,
    /// Pass over this job for the rest of the round.
    PassJob,
    /// Pass over this app in this pool for the rest of the round.
    PassApp,
    /// Pass over this pool for the rest of the round.
    PassPool,
    /// Move the job's runs to this pool and app, where they belong by now.
    Move(Option<Pool>, AppNumber),
    /// End the round.
    Stop,
}

/// Lines: what needs no place, and one for each pool that runs start from.
const LINES: usize = 3;

fn line_of(pool: Option<Pool>) -> usize {
    match pool {
        None => 0,
        Some(Pool::Fast) => 1,
        Some(Pool::Slow | Pool::Overflow) => 2,
    }
}

fn pool_of(line: usize) -> Option<Pool> {
    [None, Some(Pool::Fast), Some(Pool::Slow)][line]
}

/// The pool and app under which a job's runs wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Home {
    line: usize,
    app: AppNumber,
}

/// The order in which apps are served: fresh before caught up, then by tag, then by number.
type Turn = (bool, u64, AppNumber);

/// The runs of an app in one line.
#[derive(Debug, Default)]
struct AppLine {
    tag: u64,
    /// The app's key in its line; none while all of its jobs are set aside.
    turn: Option<Turn>,
    /// The first run of each job that is not set aside.
    heads: BTreeSet<(Rank, JobId)>,
    jobs: FxHashMap<JobId, BTreeSet<Rank>>,
}

/// The runs that need a place in one pool.
#[derive(Debug, Default)]
struct PoolLine {
    turns: BTreeSet<Turn>,
    apps: FxHashMap<AppNumber, AppLine>,
    /// The tag that is served now.
    time: u64,
}

impl PoolLine {
    fn insert(&mut self, app: AppNumber, job: JobId, rank: Rank) -> bool {
        let tag = self.time;
        let line = self.apps.entry(app).or_insert_with(|| AppLine { tag, ..AppLine::default() });
        let ranks = line.jobs.entry(job).or_default();
        let first = ranks.first().copied();
        if !ranks.insert(rank) {
            return false;
        }
        if first.is_none_or(|first| rank < first) {
            if let Some(first) = first {
                line.heads.remove(&(first, job));
            }
            line.heads.insert((rank, job));
            self.refresh(app);
        }
        true
    }

    fn remove(&mut self, app: AppNumber, job: JobId, rank: Rank) -> bool {
        let Some(line) = self.apps.get_mut(&app) else { return false };
        let Some(ranks) = line.jobs.get_mut(&job) else { return false };
        let was_first = ranks.first() == Some(&rank);
        if !ranks.remove(&rank) {
            return false;
        }
        let next = ranks.first().copied();
        if next.is_none() {
            line.jobs.remove(&job);
        }
        if was_first {
            line.heads.remove(&(rank, job));
            line.heads.extend(next.map(|next| (next, job)));
            self.refresh(app);
        }
        true
    }

    /// Takes all runs of a job out.
    fn remove_job(&mut self, app: AppNumber, job: JobId) -> BTreeSet<Rank> {
        let Some(line) = self.apps.get_mut(&app) else { return BTreeSet::new() };
        let ranks = line.jobs.remove(&job).unwrap_or_default();
        if let Some(first) = ranks.first() {
            line.heads.remove(&(*first, job));
        }
        self.refresh(app);
        ranks
    }

    /// Updates an app's key after its first run has changed.
    fn refresh(&mut self, app: AppNumber) {
        let Some(line) = self.apps.get_mut(&app) else { return };
        let turn = line.heads.first().map(|(rank, _)| (rank.is_caught_up, line.tag, app));
        if turn != line.turn {
            if let Some(turn) = line.turn {
                self.turns.remove(&turn);
            }
            self.turns.extend(turn);
            line.turn = turn;
        }
        if line.jobs.is_empty() {
            self.apps.remove(&app);
        }
    }

    /// The first run of the app that is served next.
    fn next(&self) -> Option<(AppNumber, JobId, Rank)> {
        let (_, _, app) = self.turns.first()?;
        let (rank, job) = self.apps.get(app)?.heads.first()?;
        Some((*app, *job, *rank))
    }

    /// Charges the app for one run.
    fn serve(&mut self, app: AppNumber) {
        if let Some(line) = self.apps.get_mut(&app) {
            self.time = self.time.max(line.tag);
            line.tag += 1;
            self.refresh(app);
        }
    }

    /// Excludes the job until [`PoolLine::bring_back`].
    fn set_aside(&mut self, app: AppNumber, job: JobId, rank: Rank) {
        if let Some(line) = self.apps.get_mut(&app) {
            line.heads.remove(&(rank, job));
            self.refresh(app);
        }
    }

    /// Includes the job again. Its app is not compensated for the runs that it was passed over for.
    fn bring_back(&mut self, app: AppNumber, job: JobId) {
        let time = self.time;
        let Some(line) = self.apps.get_mut(&app) else { return };
        line.tag = line.tag.max(time);
        let first = line.jobs.get(&job).and_then(|ranks| ranks.first());
        line.heads.extend(first.map(|first| (*first, job)));
        self.refresh(app);
    }

    /// Excludes the app until [`PoolLine::bring_app_back`].
    fn set_app_aside(&mut self, app: AppNumber) {
        if let Some(line) = self.apps.get_mut(&app)
            && let Some(turn) = line.turn.take()
        {
            self.turns.remove(&turn);
        }
    }

    fn bring_app_back(&mut self, app: AppNumber) {
        let time = self.time;
        if let Some(line) = self.apps.get_mut(&app) {
            line.tag = line.tag.max(time);
            self.refresh(app);
        }
    }
}

/// The runs that are due and wait to be sent.
#[derive(Debug, Default)]
pub struct DueQueue {
    lines: [PoolLine; LINES],
    homes: FxHashMap<JobId, Home>,
    /// Number of waiting runs of each app, in all lines.
    waiting: FxHashMap<AppNumber, usize>,
    seconds: Seconds,
    len: usize,
    /// The line that the next round starts with.
    first_line: usize,
}

impl DueQueue {
    /// How many runs wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a run waits.
    pub fn contains(&self, job: JobId, rank: Rank) -> bool {
        let Some(home) = self.homes.get(&job) else { return false };
        let line = self.lines[home.line].apps.get(&home.app);
        line.and_then(|line| line.jobs.get(&job)).is_some_and(|ranks| ranks.contains(&rank))
    }

    /// How many runs of an app wait.
    pub fn len_of_app(&self, app: AppNumber) -> usize {
        self.waiting.get(&app).copied().unwrap_or(0)
    }

    /// How many runs of a job wait.
    pub fn len_of_job(&self, job: JobId) -> usize {
        let Some(home) = self.homes.get(&job) else { return 0 };
        let line = self.lines[home.line].apps.get(&home.app);
        line.and_then(|line| line.jobs.get(&job)).map_or(0, BTreeSet::len)
    }

    /// The second in which the oldest waiting run became ready.
    pub fn earliest(&self) -> Option<Timestamp> {
        self.seconds.first()
    }

    /// Adds a run. If other runs of its job wait already, it joins them whatever pool and app are given.
    pub fn insert(&mut self, pool: Option<Pool>, app: AppNumber, job: JobId, rank: Rank) {
        let home = *self.homes.entry(job).or_insert(Home { line: line_of(pool), app });
        if self.lines[home.line].insert(home.app, job, rank) {
            self.len += 1;
            *self.waiting.entry(home.app).or_default() += 1;
            self.seconds.add(rank, 1);
        }
    }

    /// Takes a run out; whether it was there.
    pub fn remove(&mut self, job: JobId, rank: Rank) -> bool {
        let Some(home) = self.homes.get(&job).copied() else { return false };
        if !self.lines[home.line].remove(home.app, job, rank) {
            return false;
        }
        self.len -= 1;
        less(&mut self.waiting, home.app, 1);
        self.seconds.take(rank, 1);
        if self.len_of_job(job) == 0 {
            self.homes.remove(&job);
        }
        true
    }

    /// Moves all runs of a job to another pool or app.
    pub fn rehome(&mut self, job: JobId, pool: Option<Pool>, app: AppNumber) {
        self.rehome_ranked(job, pool, app, |rank| rank);
    }

    /// Moves all runs of a job to another pool or app, each with a new rank: the class of the job may be another.
    pub fn rehome_ranked(
        &mut self,
        job: JobId,
        pool: Option<Pool>,
        app: AppNumber,
        mut rank_of: impl FnMut(Rank) -> Rank,
    ) {
        let to = Home { line: line_of(pool), app };
        let Some(home) = self.homes.get_mut(&job) else { return };
        let from = std::mem::replace(home, to);
        let ranks = self.lines[from.line].remove_job(from.app, job);
        less(&mut self.waiting, from.app, ranks.len());
        *self.waiting.entry(app).or_default() += ranks.len();
        for rank in ranks {
            self.lines[to.line].insert(app, job, rank_of(rank));
        }
    }

    /// The jobs whose runs wait for a pool.
    pub fn jobs_in(&self, pool: Option<Pool>) -> impl Iterator<Item = JobId> {
        self.lines[line_of(pool)].apps.values().flat_map(|line| line.jobs.keys().copied())
    }

    /// The waiting runs of a job, in their order.
    pub fn of_job(&self, job: JobId) -> impl Iterator<Item = Rank> {
        let home = self.homes.get(&job);
        let line = home.and_then(|home| self.lines[home.line].apps.get(&home.app));
        line.and_then(|line| line.jobs.get(&job)).into_iter().flatten().copied()
    }

    /// All waiting runs, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Rank> {
        let apps = self.lines.iter().flat_map(|line| line.apps.values());
        apps.flat_map(|line| line.jobs.values()).flatten().copied()
    }

    /// One round: judges runs in their order, and takes out those that are sent. The pools take turns, run by run.
    pub fn pick(&mut self, mut judge: impl FnMut(&DueHead) -> PickVerdict) -> Vec<(JobId, Rank)> {
        let mut taken = Vec::new();
        let mut aside = Aside::default();
        let mut line = self.first_line;
        let mut empty_lines = 0;
        while empty_lines < LINES {
            let next = if aside.lines[line] { None } else { self.lines[line].next() };
            let Some((app, job, rank)) = next else {
                (line, empty_lines) = ((line + 1) % LINES, empty_lines + 1);
                continue;
            };
            empty_lines = 0;
            match judge(&DueHead { pool: pool_of(line), app, job, rank }) {
                PickVerdict::Take => {
                    self.lines[line].serve(app);
                    self.remove(job, rank);
                    taken.push((job, rank));
                }
                PickVerdict::PassJob => {
                    self.lines[line].set_aside(app, job, rank);
                    aside.jobs.push((line, app, job));
                }
                PickVerdict::PassApp => {
                    self.lines[line].set_app_aside(app);
                    aside.apps.push((line, app));
                }
                PickVerdict::PassPool => aside.lines[line] = true,
                PickVerdict::Move(pool, app) => self.rehome(job, pool, app),
                PickVerdict::Stop => break,
            }
            line = (line + 1) % LINES;
        }
        self.first_line = line;
        for (line, app, job) in aside.jobs {
            self.lines[line].bring_back(app, job);
        }
        for (line, app) in aside.apps {
            self.lines[line].bring_app_back(app);
        }
        taken
    }
}

/// The jobs, apps and pools that a round passed over.
#[derive(Default)]
struct Aside {
    lines: [bool; LINES],
    apps: Vec<(usize, AppNumber)>,
    jobs: Vec<(usize, AppNumber, JobId)>,
}

fn less(counts: &mut FxHashMap<AppNumber, usize>, app: AppNumber, by: usize) {
    if let Some(count) = counts.get_mut(&app) {
        *count -= by;
        if *count == 0 {
            counts.remove(&app);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RunId;
    use crate::policy::same_cases;
    use proptest::prelude::*;

    fn rank(ready_at: i64, run: u64) -> Rank {
        let ready_at = Timestamp::from_millis(ready_at);
        Rank::new(false, 0, 5, ready_at, RunId(run))
    }

    /// A queue of runs: pool, app, job, when each became ready. Their numbers count from 0.
    fn queue(runs: &[(Option<Pool>, u32, u32, i64)]) -> DueQueue {
        let mut queue = DueQueue::default();
        for (number, (pool, app, job, ready_at)) in runs.iter().enumerate() {
            queue.insert(*pool, *app, JobId(*job), rank(*ready_at, number as u64));
        }
        queue
    }

    fn numbers(taken: &[(JobId, Rank)]) -> Vec<u64> {
        taken.iter().map(|(_, rank)| rank.run.0).collect()
    }

    #[test]
    fn inside_an_app_runs_go_by_rank_whatever_their_job() {
        let mut queue = queue(&[(None, 1, 1, 30), (None, 1, 2, 10), (None, 1, 1, 20), (None, 1, 2, 40)]);
        assert_eq!(numbers(&queue.pick(|_| PickVerdict::Take)), [1, 2, 0, 3]);
        assert!(queue.is_empty() && queue.earliest().is_none() && queue.homes.is_empty());
    }

    #[test]
    fn apps_take_turns_and_one_that_comes_later_does_not_wait_for_a_backlog() {
        let backlog: Vec<_> = (0..100).map(|at| (None, 1, 1, at)).collect();
        let mut queue = queue(&backlog);
        let mut left = 10;
        let mut ten = |_: &DueHead| {
            left -= 1;
            if left >= 0 { PickVerdict::Take } else { PickVerdict::Stop }
        };
        assert_eq!(numbers(&queue.pick(&mut ten)), (0..10).collect::<Vec<_>>());
        queue.insert(None, 2, JobId(2), rank(1_000, 500));
        queue.insert(None, 2, JobId(2), rank(1_001, 501));
        let mut left = 5;
        let taken = queue.pick(|_| {
            left -= 1;
            if left >= 0 { PickVerdict::Take } else { PickVerdict::Stop }
        });
        let taken = numbers(&taken);
        assert!(taken.contains(&500) && taken.contains(&501), "{taken:?}");
    }

    #[test]
    fn a_job_an_app_and_a_pool_that_are_passed_over_are_asked_once_and_come_back() {
        let fast = Some(Pool::Fast);
        let mut runs: Vec<_> = (0..1_000).map(|at| (fast, 1, 1, at)).collect();
        runs.extend((0..1_000).map(|at| (fast, 2, 2, at)));
        runs.extend((0..1_000).map(|at| (Some(Pool::Slow), 3, 3, at)));
        runs.extend([(fast, 1, 4, 5_000), (None, 2, 5, 5_000)]);
        let mut queue = queue(&runs);
        let mut asked = 0;
        let taken = queue.pick(|next| {
            asked += 1;
            match (next.pool, next.app, next.job) {
                (Some(Pool::Slow), ..) => PickVerdict::PassPool,
                (Some(Pool::Fast), 2, _) => PickVerdict::PassApp,
                (_, _, JobId(1)) => PickVerdict::PassJob,
                _ => PickVerdict::Take,
            }
        });
        assert_eq!(numbers(&taken).len(), 2);
        assert_eq!(asked, 5);
        assert_eq!(queue.len(), 3_000);
        assert_eq!(queue.pick(|_| PickVerdict::Take).len(), 3_000);
    }

    #[test]
    fn a_job_that_is_in_the_wrong_line_moves_with_all_its_runs() {
        let mut queue = queue(&[(None, 0, 1, 1), (None, 0, 1, 2), (None, 7, 2, 3)]);
        let taken = queue.pick(|next| match next {
            DueHead { pool: None, app: 0, .. } => PickVerdict::Move(Some(Pool::Fast), 4),
            DueHead { pool: Some(_), .. } => PickVerdict::PassPool,
            _ => PickVerdict::Take,
        });
        assert_eq!(numbers(&taken), [2]);
        assert_eq!((queue.len_of_app(4), queue.len_of_app(0), queue.len_of_job(JobId(1))), (2, 0, 2));
        assert_eq!(queue.jobs_in(Some(Pool::Fast)).collect::<Vec<_>>(), [JobId(1)]);
    }

    #[test]
    fn fresh_runs_of_any_app_go_before_caught_up_ones() {
        let mut queue = DueQueue::default();
        queue.insert(None, 1, JobId(1), Rank::new(true, 0, 5, Timestamp::from_millis(1), RunId(1)));
        queue.insert(None, 2, JobId(2), rank(9, 2));
        assert_eq!(numbers(&queue.pick(|_| PickVerdict::Take)), [2, 1]);
    }

    #[test]
    fn an_app_that_was_held_back_gets_no_more_turns_than_others_afterwards() {
        let mut runs: Vec<_> = (0..100).map(|at| (None, 1, 1, at)).collect();
        runs.extend((0..100).map(|at| (None, 2, 2, at)));
        let mut queue = queue(&runs);
        let mut left = 50;
        queue.pick(|next| {
            if next.app == 1 {
                return PickVerdict::PassApp;
            }
            left -= 1;
            if left >= 0 { PickVerdict::Take } else { PickVerdict::Stop }
        });
        let mut left = 20;
        let taken = queue.pick(|_| {
            left -= 1;
            if left >= 0 { PickVerdict::Take } else { PickVerdict::Stop }
        });
        let of_first = taken.iter().filter(|(job, _)| *job == JobId(1)).count();
        assert!((9..=11).contains(&of_first), "{of_first}");
    }

    proptest! {
        #![proptest_config(same_cases())]

        /// Whatever is inserted, removed, moved and passed over, the queue holds what a set would hold.
        #[test]
        fn it_holds_what_a_set_holds(
            steps in prop::collection::vec((0_u8..6, 0_u32..5, 0_u32..4, 0_i64..50), 0..200),
        ) {
            let mut queue = DueQueue::default();
            let mut model: BTreeSet<(JobId, Rank)> = BTreeSet::new();
            for (step, job, app, at) in steps {
                let (job, rank) = (JobId(job), rank(at * 100, at as u64));
                let pool = [None, Some(Pool::Fast), Some(Pool::Slow)][app as usize % 3];
                match step {
                    0..=2 => {
                        queue.insert(pool, app, job, rank);
                        model.insert((job, rank));
                    }
                    3 => prop_assert_eq!(queue.remove(job, rank), model.remove(&(job, rank))),
                    4 => queue.rehome(job, pool, app),
                    _ => {
                        let mut asked = 0;
                        let taken = queue.pick(|next| {
                            asked += 1;
                            let verdicts = [PickVerdict::Take, PickVerdict::PassJob, PickVerdict::PassApp, PickVerdict::Take];
                            verdicts[(next.rank.run.0 as usize + asked) % 4]
                        });
                        for one in taken {
                            prop_assert!(model.remove(&one));
                        }
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                let ranks: BTreeSet<Rank> = queue.iter().collect();
                prop_assert_eq!(&ranks, &model.iter().map(|(_, rank)| *rank).collect::<BTreeSet<_>>());
                let earliest = model.iter().map(|(_, rank)| rank.ready_at.as_millis() / 1_000 * 1_000).min();
                prop_assert_eq!(queue.earliest().map(Timestamp::as_millis), earliest);
                for job in 0..5 {
                    let of_job = || model.iter().filter(|(of, _)| *of == JobId(job)).map(|(_, rank)| *rank);
                    prop_assert_eq!(queue.len_of_job(JobId(job)), of_job().count());
                    prop_assert!(queue.of_job(JobId(job)).eq(of_job()));
                }
            }
            let left = queue.pick(|_| PickVerdict::Take).len();
            prop_assert_eq!(left, model.len());
        }
    }
}

//! The rollup: the outcomes of runs, added up as runs end, so that charts and the rows of jobs need no list of runs.
//! Each node has its own, in memory: the last week in steps of five minutes, and the last runs of each job. A process
//! that starts restores a bounded number of the latest runs from the store. [`together`] adds up the rollups of
//! several nodes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{JobId, Outcome, RunId, RunState};
use punctual_node::ports::{AttemptRow, RunView};

/// The length of a step.
pub const STEP_MS: i64 = 5 * 60 * 1_000;

/// How many steps are kept: a week of them.
const STEPS_MAX: usize = 7 * 24 * 12;

/// How many runs of each job are kept.
pub const RECENT_MAX: usize = 20;

/// For how many jobs.
const JOBS_MAX: usize = 100_000;

/// The lag from which a run is late.
const LATE: Duration = Duration::from_secs(1);

/// Lags are counted in two bins for each octave of milliseconds, from 0 to more than a day.
pub const BINS: usize = 56;

/// The outcomes of runs.
#[derive(Default)]
pub struct Rollup(Mutex<RollupState>);

#[derive(Default)]
struct RollupState {
    /// When this process began to count.
    began: Option<Timestamp>,
    /// The start of what it covers: the start of the process, or the oldest run that was restored.
    since: Option<Timestamp>,
    /// Runs that this node ended itself.
    counted: Steps,
    /// Runs that ended before this process began, on any node. Kept apart, because other nodes may have counted them.
    restored: Steps,
    jobs: BTreeMap<JobId, VecDeque<EndedRun>>,
    /// When runs that other nodes ended were last read.
    caught_up_at: Option<Timestamp>,
}

/// Consecutive steps of five minutes.
#[derive(Default)]
struct Steps {
    /// The number of the first step.
    first: i64,
    tallies: VecDeque<OutcomeTally>,
}

/// The counts of five minutes, or of several steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeTally {
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed or were lost.
    pub failed: u64,
    /// Runs that were cancelled or skipped, and fire times that were passed over.
    pub not_run: u64,
    /// Attempts that were sent.
    pub sent: u64,
    /// First attempts that were sent a second or more after they were due.
    pub late: u64,
    /// The largest lag of a first attempt.
    pub lag_max_ms: u64,
    /// How many first attempts had a lag of each bin.
    pub lags: [u32; BINS],
}

impl Default for OutcomeTally {
    fn default() -> OutcomeTally {
        OutcomeTally { succeeded: 0, failed: 0, not_run: 0, sent: 0, late: 0, lag_max_ms: 0, lags: [0; BINS] }
    }
}

/// A run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// Which.
    pub run: RunId,
    /// How.
    pub outcome: Outcome,
    /// When.
    pub at: Timestamp,
    /// How long its last attempt took; none if there was no attempt, or it began before this process.
    pub took_ms: Option<u32>,
}

/// The runs that a rollup is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Runs that ended before this process began.
    Beginning,
    /// Runs that other nodes ended.
    Others,
}

/// Consecutive stretches of time, each of several steps. They are identified by number, so that all nodes cut time at
/// the same instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretches {
    /// The number of the first, counted from 1970 in stretches.
    pub first: i64,
    /// How many steps each has.
    pub step: i64,
    /// How many there are.
    pub count: i64,
}

impl Stretches {
    /// The last `count` stretches of `step` steps each; the present one is the last.
    pub fn until(now: Timestamp, step: i64, count: i64) -> Stretches {
        Stretches { first: number(now).div_euclid(step) - count + 1, step, count }
    }

    /// The instants at which they begin.
    pub fn begins(self) -> impl Iterator<Item = Timestamp> {
        (self.first..self.first + self.count)
            .map(move |index| Timestamp::from_millis(index * self.step * STEP_MS))
    }
}

/// The counts of one node for some stretches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFigures {
    /// When it began to count; none if nothing happened yet.
    pub began: Option<Timestamp>,
    /// The start of what it covers.
    pub since: Option<Timestamp>,
    /// Runs that it ended itself, by stretch.
    pub counted: Vec<OutcomeTally>,
    /// Runs that had ended before it began, on any node, by stretch.
    pub restored: Vec<OutcomeTally>,
}

/// Adds up the counts of several nodes for the same stretches, and returns the instant from which the sum is
/// complete.
///
/// Runs that different nodes counted are different runs. Restored runs may have been counted by an older node, or
/// restored by several: so only those of the oldest node are added, because no other node here can have counted them.
/// A node that was restarted has lost what its earlier process counted, but it restored all of those runs, together
/// with runs that the other nodes ended. So the larger of both sums is nearer to the truth.
pub fn together(mut nodes: Vec<NodeFigures>) -> (Option<Timestamp>, Vec<OutcomeTally>) {
    // A node without events is the youngest.
    nodes.sort_by_key(|node| node.began.unwrap_or(Timestamp::MAX));
    let since = nodes.iter().filter_map(|node| node.since).max();
    let count = nodes.iter().map(|node| node.counted.len()).max().unwrap_or(0);
    let stretch = |index: usize| {
        let mut sum = OutcomeTally::default();
        nodes.iter().filter_map(|node| node.counted.get(index)).for_each(|one| sum.add(one));
        nodes.first().and_then(|oldest| oldest.restored.get(index)).into_iter().for_each(|one| sum.add(one));
        let others = nodes.iter().skip(1).filter_map(|node| node.restored.get(index));
        match others.max_by_key(|one| one.ended()) {
            Some(restored) if restored.ended() > sum.ended() => restored.clone(),
            _ => sum,
        }
    };
    (since, (0..count).map(stretch).collect())
}

impl Rollup {
    /// Takes events of this node.
    pub fn take(&self, events: &[Event], at: Timestamp) {
        let mut kept = self.kept();
        kept.began.get_or_insert(at);
        kept.since.get_or_insert(at);
        for event in events {
            kept.take(event, at);
        }
    }

    /// Takes a run that was read from the store, which another node or an earlier process of this one may have ended.
    pub fn take_run(&self, view: &RunView) {
        let (Some(at), Some(outcome)) = (view.closed_at, outcome_of(view.state)) else { return };
        let took_ms = view.attempts.last().and_then(took);
        self.kept().remember(view.job, EndedRun { run: view.id, outcome, at, took_ms });
    }

    /// Takes a run that ended before this process began to count, and adds it to the restored ones. Call it once for
    /// each run.
    pub fn restore(&self, view: &RunView) {
        self.take_run(view);
        let (Some(at), Some(outcome)) = (view.closed_at, outcome_of(view.state)) else { return };
        let mut kept = self.kept();
        // Runs older than a week before this process are left out, however recent the newest one is.
        if kept.began.is_none_or(|began| at >= began || number(began) - number(at) > STEPS_MAX as i64) {
            return;
        }
        let Some(step) = kept.restored.before(at) else { return };
        step.close(outcome, view.range.map_or(1, |(_, count)| count));
        step.sent += view.attempts.iter().filter(|attempt| !is_supposed(attempt)).count() as u64;
        if let Some(lag) = lag(view) {
            step.lag(lag);
        }
        kept.since = kept.since.map(|since| since.min(at));
    }

    /// Whether it is time to read runs that other nodes ended, or that ended before. It says so once, so the caller
    /// has to read them then.
    pub fn is_behind(&self, now: Timestamp, has_others: bool, pause: Duration) -> Option<Behind> {
        let mut kept = self.kept();
        kept.began.get_or_insert(now);
        kept.since.get_or_insert(now);
        let behind = match kept.caught_up_at {
            None => Some(Behind::Beginning),
            Some(last) => (has_others && now >= last.saturating_add(pause)).then_some(Behind::Others),
        };
        if behind.is_some() {
            kept.caught_up_at = Some(now);
        }
        behind
    }

    /// The last runs of a job, the oldest first.
    pub fn recent(&self, job: JobId) -> Vec<EndedRun> {
        self.kept().jobs.get(&job).map(|ended| ended.iter().copied().collect()).unwrap_or_default()
    }

    /// The counts of some stretches.
    pub fn figures(&self, wanted: Stretches) -> NodeFigures {
        let kept = self.kept();
        let within = |steps: &Steps| {
            let stretch = |index: i64| {
                let mut sum = OutcomeTally::default();
                let numbers = index * wanted.step..(index + 1) * wanted.step;
                numbers.filter_map(|number| steps.get(number)).for_each(|one| sum.add(one));
                sum
            };
            (wanted.first..wanted.first + wanted.count).map(stretch).collect()
        };
        let (counted, restored) = (within(&kept.counted), within(&kept.restored));
        NodeFigures { began: kept.began, since: kept.since, counted, restored }
    }

    fn kept(&self) -> MutexGuard<'_, RollupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(STEP_MS)
}

fn outcome_of(state: RunState) -> Option<Outcome> {
    Outcome::ALL.iter().copied().find(|outcome| RunState::from(*outcome) == state)
}

/// Whether no node knows that the attempt was ever sent.
fn is_supposed(row: &AttemptRow) -> bool {
    matches!(row, AttemptRow::Ended(record) if record.is_supposed())
}

/// How long after it was due its first certain attempt began.
fn lag(view: &RunView) -> Option<Duration> {
    let started_at = |row: &AttemptRow| match row {
        AttemptRow::Ended(record) => record.started_at,
        AttemptRow::Open { started_at, .. } => *started_at,
    };
    let began = view.attempts.iter().filter(|row| !is_supposed(row)).map(started_at).min()?;
    let millis = began.as_millis().saturating_sub(view.due.as_millis());
    Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

fn took(attempt: &AttemptRow) -> Option<u32> {
    let AttemptRow::Ended(record) = attempt else { return None };
    u32::try_from(record.ended_at.as_millis() - record.started_at.as_millis()).ok()
}

impl RollupState {
    fn take(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::Sent { lag, is_first, .. } => {
                let step = self.counted.at(at);
                step.sent += 1;
                if *is_first {
                    step.lag(*lag);
                }
            }
            Event::Closed { run, job, outcome, took, .. } => {
                self.counted.at(at).close(*outcome, 1);
                let took_ms = took.and_then(|took| u32::try_from(took.as_millis()).ok());
                self.remember(*job, EndedRun { run: *run, outcome: *outcome, at, took_ms });
            }
            Event::Missed { count, .. } => self.counted.at(at).not_run += count,
            _ => {}
        }
    }

    /// Sorted by run, that is by the day on which runs were due and by their creation.
    fn remember(&mut self, job: JobId, ended: EndedRun) {
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&job) {
            self.jobs.pop_first();
        }
        let recent = self.jobs.entry(job).or_default();
        match recent.binary_search_by_key(&ended.run, |one| one.run) {
            Ok(_) => {}
            Err(0) if recent.len() == RECENT_MAX => {}
            Err(place) => recent.insert(place, ended),
        }
        if recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }
}

impl Steps {
    fn get(&self, number: i64) -> Option<&OutcomeTally> {
        self.tallies.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The step of an instant that may lie before all kept steps; none if it is too long ago.
    fn before(&mut self, at: Timestamp) -> Option<&mut OutcomeTally> {
        let missing =
            if self.tallies.is_empty() { 0 } else { usize::try_from(self.first - number(at)).unwrap_or(0) };
        if missing + self.tallies.len() > STEPS_MAX {
            return None;
        }
        (0..missing).for_each(|_| self.tallies.push_front(OutcomeTally::default()));
        self.first -= missing as i64;
        Some(self.at(at))
    }

    /// The step of an instant. If the clock was set back, the first kept step takes the count.
    fn at(&mut self, at: Timestamp) -> &mut OutcomeTally {
        let number = number(at);
        if self.tallies.is_empty() || number - self.first >= 2 * STEPS_MAX as i64 {
            self.tallies.clear();
            self.first = number;
        }
        let index = usize::try_from(number - self.first).unwrap_or(0);
        if index >= self.tallies.len() {
            self.tallies.resize(index + 1, OutcomeTally::default());
        }
        let over = self.tallies.len().saturating_sub(STEPS_MAX);
        self.tallies.drain(..over);
        self.first += over as i64;
        let index = usize::try_from(number - self.first).unwrap_or(0);
        &mut self.tallies[index]
    }
}

impl OutcomeTally {
    fn close(&mut self, outcome: Outcome, count: u64) {
        match outcome {
            Outcome::Succeeded => self.succeeded += count,
            Outcome::Failed | Outcome::Lost => self.failed += count,
            Outcome::Cancelled | Outcome::Skipped => self.not_run += count,
        }
    }

    fn lag(&mut self, lag: Duration) {
        let millis = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        let bin = &mut self.lags[bin(millis)];
        *bin = bin.saturating_add(1);
        self.lag_max_ms = self.lag_max_ms.max(millis);
        self.late += u64::from(lag >= LATE);
    }

    /// Adds another tally. Another node may report any number, so the sums saturate.
    fn add(&mut self, other: &OutcomeTally) {
        for (own, more) in [
            (&mut self.succeeded, other.succeeded),
            (&mut self.failed, other.failed),
            (&mut self.not_run, other.not_run),
            (&mut self.sent, other.sent),
            (&mut self.late, other.late),
        ] {
            *own = own.saturating_add(more);
        }
        self.lag_max_ms = self.lag_max_ms.max(other.lag_max_ms);
        for (own, more) in self.lags.iter_mut().zip(other.lags) {
            *own = own.saturating_add(more);
        }
    }

    /// Runs that came to an end.
    fn ended(&self) -> u64 {
        self.succeeded.saturating_add(self.failed).saturating_add(self.not_run)
    }

    /// The lag that this percentage of first attempts did not exceed, as the upper end of its bin; none if nothing
    /// was sent.
    pub fn lag_ms(&self, percent: u64) -> Option<u64> {
        let all: u64 = self.lags.iter().map(|count| u64::from(*count)).sum();
        let wanted = (all * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.lags.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        found.map(|index| top(index).min(self.lag_max_ms))
    }
}

/// The bin of a lag: 0, 1, 2, 3, then two for each octave.
fn bin(millis: u64) -> usize {
    if millis < 4 {
        return millis as usize;
    }
    let octave = millis.ilog2() as usize;
    let is_upper = (millis >> (octave - 1)) & 1;
    (2 * octave + is_upper as usize).min(BINS - 1)
}

/// The largest lag of a bin.
fn top(index: usize) -> u64 {
    match index {
        0..4 => index as u64,
        _ => {
            let (octave, is_upper) = (index / 2, (index % 2) as u64);
            (1 << octave) + ((is_upper + 1) << (octave - 1)) - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::model::{Attempt, Origin, ShardId, Skip};

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_millis(minute * 60_000)
    }

    fn sent(run: u64, lag_ms: u64) -> Event {
        let (run, job, attempt) = (RunId(run), JobId(1), Attempt::FIRST);
        Event::Sent { run, job, attempt, lag: Duration::from_millis(lag_ms), is_first: true }
    }

    fn ended(run: u64, minute: i64, state: RunState) -> RunView {
        RunView {
            id: RunId(run),
            job: JobId(1),
            shard: ShardId(0),
            fire_time: at(minute),
            due: at(minute),
            origin: Origin::Schedule,
            state,
            reason: "".into(),
            closed_at: Some(at(minute)),
            range: None,
            priority: 5,
            payload: None,
            key: None,
            of: None,
            ready_at: None,
            attempts: vec![],
            part: None,
            overrides: None,
        }
    }

    fn closed(run: u64, outcome: Outcome) -> Event {
        let took = Some(Duration::from_millis(40));
        Event::Closed { run: RunId(run), job: JobId(1), outcome, reason: "".into(), took }
    }

    #[test]
    fn what_ends_is_counted_in_the_step_in_which_it_ended() {
        let rollup = Rollup::default();
        rollup.take(&[sent(1, 3), sent(2, 1_500)], at(10));
        rollup.take(&[closed(1, Outcome::Succeeded), closed(2, Outcome::Lost)], at(11));
        let missed =
            Event::Missed { job: JobId(1), from: at(1), until: at(9), count: 7, reason: Skip::Misfire };
        rollup.take(&[closed(3, Outcome::Cancelled), missed], at(31));
        let (since, steps) = history(&rollup, at(34), 1, 6);
        assert_eq!(since, Some(at(10)));
        assert_eq!(steps.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [5, 10, 15, 20, 25, 30].map(at));
        let figures = |step: &OutcomeTally| [step.sent, step.succeeded, step.failed, step.not_run, step.late];
        assert_eq!(figures(&steps[1].1), [2, 1, 1, 0, 1]);
        assert_eq!(figures(&steps[5].1), [0, 0, 0, 8, 0]);
        assert_eq!(figures(&steps[2].1), [0; 5]);
        let (_, together) = history(&rollup, at(34), 6, 2);
        assert_eq!(figures(&together[0].1), [2, 1, 1, 0, 1], "half hours are the same in one");
        assert_eq!(together[0].1.lag_max_ms, 1_500);
    }

    /// The counts of one rollup alone.
    fn history(
        rollup: &Rollup,
        now: Timestamp,
        step: i64,
        count: i64,
    ) -> (Option<Timestamp>, Vec<(Timestamp, OutcomeTally)>) {
        let wanted = Stretches::until(now, step, count);
        let (since, tallies) = together(vec![rollup.figures(wanted)]);
        (since, wanted.begins().zip(tallies).collect())
    }

    #[test]
    fn lags_are_told_to_within_their_bin() {
        let mut step = OutcomeTally::default();
        assert_eq!(step.lag_ms(50), None);
        (1..=100).for_each(|millis| step.lag(Duration::from_millis(millis)));
        let p50 = step.lag_ms(50).unwrap();
        assert!((50..=64).contains(&p50), "{p50}");
        assert_eq!(step.lag_ms(99), Some(100), "never more than the largest");
        for millis in (0..5_000_000).step_by(977) {
            let index = bin(millis);
            assert!(millis <= top(index) && (index == 0 || millis > top(index - 1)), "{millis}");
        }
        step.lag(Duration::from_secs(u64::MAX));
        assert_eq!(step.lag_max_ms, u64::MAX);
    }

    #[test]
    fn the_last_runs_of_a_job_are_kept_with_how_long_they_took() {
        let rollup = Rollup::default();
        rollup.take(&[sent(1, 0)], at(1));
        rollup.take(&[closed(1, Outcome::Succeeded)], at(2));
        assert_eq!(rollup.recent(JobId(1))[0].took_ms, Some(40), "whenever it was heard of");
        for run in 2..=40 {
            rollup.take(&[closed(run, Outcome::Failed)], at(3));
        }
        let recent = rollup.recent(JobId(1));
        assert_eq!(recent.len(), RECENT_MAX);
        assert_eq!((recent[0].run, recent[19].run), (RunId(21), RunId(40)), "the oldest first");
        rollup.take(&[closed(40, Outcome::Succeeded), closed(3, Outcome::Succeeded)], at(4));
        assert_eq!(rollup.recent(JobId(1)), recent, "what is known or older changes nothing");
        assert!(rollup.recent(JobId(2)).is_empty());
    }

    #[test]
    fn a_week_is_kept_and_no_more() {
        let rollup = Rollup::default();
        for hour in 0..24 * 20 {
            rollup.take(&[closed(hour as u64, Outcome::Succeeded)], at(hour * 60));
        }
        let now = at(24 * 20 * 60);
        let (_, steps) = history(&rollup, now, 12, 24 * 20);
        let counted: u64 = steps.iter().map(|(_, step)| step.succeeded).sum();
        assert!((24 * 7 - 1..=24 * 7).contains(&counted), "{counted}");
        // After a long silence it begins anew.
        rollup.take(&[closed(9_999, Outcome::Succeeded)], at(24 * 90 * 60));
        let (_, steps) = history(&rollup, at(24 * 90 * 60), 12, 24 * 7);
        assert_eq!(steps.iter().map(|(_, step)| step.succeeded).sum::<u64>(), 1);
    }

    #[test]
    fn what_others_ended_is_read_once_and_then_only_if_there_are_others() {
        let rollup = Rollup::default();
        let pause = Duration::from_secs(60);
        assert_eq!(rollup.is_behind(at(1), false, pause), Some(Behind::Beginning));
        assert_eq!(rollup.is_behind(at(9), false, pause), None);
        assert_eq!(rollup.is_behind(at(9), true, pause), Some(Behind::Others));
        assert_eq!(rollup.is_behind(at(9), true, pause), None);
    }

    #[test]
    fn what_ended_before_the_process_began_is_counted_and_what_ended_later_was_counted_already() {
        let rollup = Rollup::default();
        rollup.take(&[closed(7, Outcome::Succeeded)], at(60));
        rollup.restore(&ended(7, 60, RunState::Succeeded));
        rollup.restore(&ended(6, 50, RunState::Failed));
        rollup.restore(&ended(5, 3, RunState::Succeeded));
        rollup.restore(&RunView { closed_at: None, ..ended(8, 70, RunState::Pending) });
        rollup.restore(&ended(1, -60 * 24 * 30, RunState::Succeeded));
        let (since, steps) = history(&rollup, at(61), 1, 13);
        assert_eq!(since, Some(at(3)));
        let ends: Vec<_> = steps.iter().map(|(_, step)| (step.succeeded, step.failed)).collect();
        let mut expected = vec![(0, 0); 13];
        (expected[0], expected[10], expected[12]) = ((1, 0), (0, 1), (1, 0));
        assert_eq!(ends, expected);
        let runs: Vec<u64> = rollup.recent(JobId(1)).iter().map(|ended| ended.run.0).collect();
        assert_eq!(runs, [1, 5, 6, 7]);
    }

    #[test]
    fn nodes_are_added_up_and_no_run_is_counted_twice() {
        let oldest = Rollup::default();
        oldest.take(&[sent(1, 500), closed(1, Outcome::Succeeded)], at(60));
        oldest.take(&[sent(2, 3_000), closed(2, Outcome::Failed)], at(70));
        oldest.restore(&ended(9, 50, RunState::Succeeded));
        let younger = Rollup::default();
        younger.take(&[sent(3, 20), closed(3, Outcome::Succeeded)], at(72));
        // It reads runs that ended before it began, whichever node ended them.
        for (run, minute, state) in
            [(9, 50, RunState::Succeeded), (1, 60, RunState::Succeeded), (2, 70, RunState::Failed)]
        {
            younger.restore(&ended(run, minute, state));
        }
        let wanted = Stretches::until(at(74), 1, 6);
        let figures = |rollup: &Rollup| rollup.figures(wanted);
        let (since, tallies) = together(vec![figures(&younger), figures(&oldest)]);
        let ends: Vec<_> = tallies.iter().map(|one| (one.succeeded, one.failed, one.late)).collect();
        assert_eq!(ends, [(0, 0, 0), (1, 0, 0), (0, 0, 0), (1, 0, 0), (0, 0, 0), (1, 1, 1)]);
        assert_eq!(since, Some(at(50)));
        let p99 = tallies[5].lag_ms(99);
        assert_eq!((tallies[5].sent, p99), (2, Some(3_000)), "lags of both nodes are in one distribution");
    }

    #[test]
    fn what_an_earlier_life_counted_is_taken_from_what_was_restored() {
        let oldest = Rollup::default();
        oldest.take(&[closed(1, Outcome::Succeeded)], at(0));
        oldest.take(&[closed(2, Outcome::Succeeded)], at(10));
        // The other node ended runs 3 and 4 and was started again; the store still has them.
        let again = Rollup::default();
        again.take(&[closed(5, Outcome::Succeeded)], at(20));
        for run in [2, 3, 4] {
            again.restore(&ended(run, 10, RunState::Succeeded));
        }
        let wanted = Stretches::until(at(24), 1, 5);
        let (_, tallies) = together(vec![oldest.figures(wanted), again.figures(wanted)]);
        let succeeded: Vec<u64> = tallies.iter().map(|one| one.succeeded).collect();
        assert_eq!(succeeded, [1, 0, 3, 0, 1]);
    }

    #[test]
    fn figures_of_another_node_never_overflow() {
        let tally = || OutcomeTally {
            succeeded: u64::MAX,
            sent: u64::MAX,
            lags: [u32::MAX; BINS],
            ..OutcomeTally::default()
        };
        let node =
            || NodeFigures { counted: vec![tally()], restored: vec![tally()], ..NodeFigures::default() };
        let (since, tallies) = together(vec![node(), node(), NodeFigures::default()]);
        assert_eq!((since, tallies.len(), tallies[0].succeeded), (None, 1, u64::MAX));
        assert!(tallies[0].lag_ms(99).is_some());
    }
}

//! The ledger: what has become of runs, in figures that are kept as runs end, so that no list of runs has to be walked for
//! them. It is this node's own and lives as long as the process: of the last week by steps of five minutes, and of each
//! job its last runs. A process that begins reads a bounded number of the latest runs once, so that it begins with something.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{JobId, Outcome, RunId, RunState};
use punctual_node::ports::{AttemptRow, RunView};

use crate::convert::run::{is_supposed, lag_ms};

/// How long a step is.
pub(crate) const STEP_MS: i64 = 5 * 60 * 1_000;

/// How many steps are kept: a week of them.
const STEPS_MAX: usize = 7 * 24 * 12;

/// How many runs of a job are kept.
pub(crate) const RECENT_MAX: usize = 20;

/// Of how many jobs.
const JOBS_MAX: usize = 100_000;

/// From when on a run is late.
const LATE: Duration = Duration::from_secs(1);

/// Lags are counted in two bins an octave of milliseconds, from 0 to more than a day.
const BINS: usize = 56;

/// What has become of runs.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    /// When this process began to count.
    began: Option<Timestamp>,
    /// From when on it knows something: that, or earlier by what was read.
    since: Option<Timestamp>,
    /// The number of the first step, and the steps from it on.
    first: i64,
    steps: VecDeque<Step>,
    jobs: BTreeMap<JobId, VecDeque<Ended>>,
    /// When other nodes' runs were last read.
    caught_up_at: Option<Timestamp>,
}

/// What happened in five minutes, or in several times that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) not_run: u64,
    pub(crate) sent: u64,
    pub(crate) late: u64,
    pub(crate) lag_max_ms: u64,
    lags: [u32; BINS],
}

impl Default for Step {
    fn default() -> Step {
        Step { succeeded: 0, failed: 0, not_run: 0, sent: 0, late: 0, lag_max_ms: 0, lags: [0; BINS] }
    }
}

/// A run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) run: RunId,
    pub(crate) outcome: Outcome,
    pub(crate) at: Timestamp,
    /// How long its last attempt took; none if there was none, or it began before anybody looked.
    pub(crate) took_ms: Option<u32>,
}

/// What a ledger does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// What ended before this process.
    Beginning,
    /// What other nodes ended.
    Others,
}

impl Ledger {
    /// Takes what has happened.
    pub(crate) fn take(&self, events: &[Event], at: Timestamp) {
        let mut pages = self.pages();
        pages.began.get_or_insert(at);
        pages.since.get_or_insert(at);
        for event in events {
            pages.take(event, at);
        }
    }

    /// Takes a run that was read, which another node or an earlier life of this one may have ended.
    pub(crate) fn take_run(&self, view: &RunView) {
        let (Some(at), Some(outcome)) = (view.closed_at, outcome_of(view.state)) else { return };
        let took_ms = view.attempts.last().and_then(took);
        self.pages().remember(view.job, Ended { run: view.id, outcome, at, took_ms });
    }

    /// Takes a run that ended before this process began to count, and counts it. To be told once of each.
    pub(crate) fn restore(&self, view: &RunView) {
        self.take_run(view);
        let (Some(at), Some(outcome)) = (view.closed_at, outcome_of(view.state)) else { return };
        let mut pages = self.pages();
        if pages.began.is_none_or(|began| at >= began) {
            return;
        }
        let Some(step) = pages.step_before(at) else { return };
        step.close(outcome, view.range.map_or(1, |(_, count)| count));
        step.sent += view.attempts.iter().filter(|attempt| !is_supposed(attempt)).count() as u64;
        if let Some(lag) = lag_ms(view).and_then(|lag| u64::try_from(lag).ok()) {
            step.lag(Duration::from_millis(lag));
        }
        pages.since = pages.since.map(|since| since.min(at));
    }

    /// Whether it is time to read what others ended, or what ended before; if so, whoever asks does it.
    pub(crate) fn is_behind(&self, now: Timestamp, has_others: bool, pause: Duration) -> Option<Behind> {
        let mut pages = self.pages();
        pages.began.get_or_insert(now);
        pages.since.get_or_insert(now);
        let behind = match pages.caught_up_at {
            None => Some(Behind::Beginning),
            Some(last) => (has_others && now >= last.saturating_add(pause)).then_some(Behind::Others),
        };
        if behind.is_some() {
            pages.caught_up_at = Some(now);
        }
        behind
    }

    /// The last runs of a job, the oldest first.
    pub(crate) fn recent(&self, job: JobId) -> Vec<Ended> {
        self.pages().jobs.get(&job).map(|ended| ended.iter().copied().collect()).unwrap_or_default()
    }

    /// Since when it is kept, and what happened in so many stretches of `step` five minutes, the last of which is the
    /// present one; each with its beginning.
    pub(crate) fn history(
        &self,
        now: Timestamp,
        step: i64,
        count: i64,
    ) -> (Option<Timestamp>, Vec<(Timestamp, Step)>) {
        let pages = self.pages();
        let last = number(now).div_euclid(step);
        let stretch = |index: i64| {
            let from = index * step;
            let mut sum = Step::default();
            (from..from + step).filter_map(|number| pages.step(number)).for_each(|one| sum.add(one));
            (Timestamp::from_millis(from * STEP_MS), sum)
        };
        (pages.since, (last - count + 1..=last).map(stretch).collect())
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(STEP_MS)
}

fn outcome_of(state: RunState) -> Option<Outcome> {
    Outcome::ALL.iter().copied().find(|outcome| RunState::from(*outcome) == state)
}

fn took(attempt: &AttemptRow) -> Option<u32> {
    let AttemptRow::Ended(record) = attempt else { return None };
    u32::try_from(record.ended_at.as_millis() - record.started_at.as_millis()).ok()
}

impl Pages {
    fn take(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::Sent { lag, is_first, .. } => {
                let step = self.step_at(at);
                step.sent += 1;
                if *is_first {
                    step.lag(*lag);
                }
            }
            Event::Closed { run, job, outcome, took, .. } => {
                self.step_at(at).close(*outcome, 1);
                let took_ms = took.and_then(|took| u32::try_from(took.as_millis()).ok());
                self.remember(*job, Ended { run: *run, outcome: *outcome, at, took_ms });
            }
            Event::Missed { count, .. } => self.step_at(at).not_run += count,
            _ => {}
        }
    }

    /// By run, which is by the day they were due and by when they were made.
    fn remember(&mut self, job: JobId, ended: Ended) {
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

    fn step(&self, number: i64) -> Option<&Step> {
        self.steps.get(usize::try_from(number - self.first).ok()?)
    }

    /// The step of an instant that may lie before all that is kept; none if it is too long ago.
    fn step_before(&mut self, at: Timestamp) -> Option<&mut Step> {
        let missing =
            if self.steps.is_empty() { 0 } else { usize::try_from(self.first - number(at)).unwrap_or(0) };
        if missing + self.steps.len() > STEPS_MAX {
            return None;
        }
        (0..missing).for_each(|_| self.steps.push_front(Step::default()));
        self.first -= missing as i64;
        Some(self.step_at(at))
    }

    /// The step of an instant. Clocks that are set back count into the first step that is there.
    fn step_at(&mut self, at: Timestamp) -> &mut Step {
        let number = number(at);
        if self.steps.is_empty() || number - self.first >= 2 * STEPS_MAX as i64 {
            self.steps.clear();
            self.first = number;
        }
        let index = usize::try_from(number - self.first).unwrap_or(0);
        if index >= self.steps.len() {
            self.steps.resize(index + 1, Step::default());
        }
        let over = self.steps.len().saturating_sub(STEPS_MAX);
        self.steps.drain(..over);
        self.first += over as i64;
        let index = usize::try_from(number - self.first).unwrap_or(0);
        &mut self.steps[index]
    }
}

impl Step {
    fn close(&mut self, outcome: Outcome, count: u64) {
        match outcome {
            Outcome::Succeeded => self.succeeded += count,
            Outcome::Failed | Outcome::Lost => self.failed += count,
            Outcome::Cancelled | Outcome::Skipped => self.not_run += count,
        }
    }

    fn lag(&mut self, lag: Duration) {
        let millis = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        self.lags[bin(millis)] += 1;
        self.lag_max_ms = self.lag_max_ms.max(millis);
        self.late += u64::from(lag >= LATE);
    }

    fn add(&mut self, other: &Step) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.not_run += other.not_run;
        self.sent += other.sent;
        self.late += other.late;
        self.lag_max_ms = self.lag_max_ms.max(other.lag_max_ms);
        for (own, more) in self.lags.iter_mut().zip(other.lags) {
            *own += more;
        }
    }

    /// The lag that so many of a hundred did not exceed, by the upper end of its bin; none if nothing was sent.
    pub(crate) fn lag_ms(&self, percent: u64) -> Option<u64> {
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

    fn closed(run: u64, outcome: Outcome) -> Event {
        let took = Some(Duration::from_millis(40));
        Event::Closed { run: RunId(run), job: JobId(1), outcome, reason: "".into(), took }
    }

    #[test]
    fn what_ends_is_counted_in_the_step_in_which_it_ended() {
        let ledger = Ledger::default();
        ledger.take(&[sent(1, 3), sent(2, 1_500)], at(10));
        ledger.take(&[closed(1, Outcome::Succeeded), closed(2, Outcome::Lost)], at(11));
        let missed =
            Event::Missed { job: JobId(1), from: at(1), until: at(9), count: 7, reason: Skip::Misfire };
        ledger.take(&[closed(3, Outcome::Cancelled), missed], at(31));
        let (since, steps) = ledger.history(at(34), 1, 6);
        assert_eq!(since, Some(at(10)));
        assert_eq!(steps.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [5, 10, 15, 20, 25, 30].map(at));
        let figures = |step: &Step| [step.sent, step.succeeded, step.failed, step.not_run, step.late];
        assert_eq!(figures(&steps[1].1), [2, 1, 1, 0, 1]);
        assert_eq!(figures(&steps[5].1), [0, 0, 0, 8, 0]);
        assert_eq!(figures(&steps[2].1), [0; 5]);
        let (_, together) = ledger.history(at(34), 6, 2);
        assert_eq!(figures(&together[0].1), [2, 1, 1, 0, 1], "half hours are the same in one");
        assert_eq!(together[0].1.lag_max_ms, 1_500);
    }

    #[test]
    fn lags_are_told_to_within_their_bin() {
        let mut step = Step::default();
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
        let ledger = Ledger::default();
        ledger.take(&[sent(1, 0)], at(1));
        ledger.take(&[closed(1, Outcome::Succeeded)], at(2));
        assert_eq!(ledger.recent(JobId(1))[0].took_ms, Some(40), "whenever it was heard of");
        for run in 2..=40 {
            ledger.take(&[closed(run, Outcome::Failed)], at(3));
        }
        let recent = ledger.recent(JobId(1));
        assert_eq!(recent.len(), RECENT_MAX);
        assert_eq!((recent[0].run, recent[19].run), (RunId(21), RunId(40)), "the oldest first");
        ledger.take(&[closed(40, Outcome::Succeeded), closed(3, Outcome::Succeeded)], at(4));
        assert_eq!(ledger.recent(JobId(1)), recent, "what is known or older changes nothing");
        assert!(ledger.recent(JobId(2)).is_empty());
    }

    #[test]
    fn a_week_is_kept_and_no_more() {
        let ledger = Ledger::default();
        for hour in 0..24 * 20 {
            ledger.take(&[closed(hour as u64, Outcome::Succeeded)], at(hour * 60));
        }
        let now = at(24 * 20 * 60);
        let (_, steps) = ledger.history(now, 12, 24 * 20);
        let counted: u64 = steps.iter().map(|(_, step)| step.succeeded).sum();
        assert!((24 * 7 - 1..=24 * 7).contains(&counted), "{counted}");
        // After a long silence it begins anew.
        ledger.take(&[closed(9_999, Outcome::Succeeded)], at(24 * 90 * 60));
        let (_, steps) = ledger.history(at(24 * 90 * 60), 12, 24 * 7);
        assert_eq!(steps.iter().map(|(_, step)| step.succeeded).sum::<u64>(), 1);
    }

    #[test]
    fn what_others_ended_is_read_once_and_then_only_if_there_are_others() {
        let ledger = Ledger::default();
        let pause = Duration::from_secs(60);
        assert_eq!(ledger.is_behind(at(1), false, pause), Some(Behind::Beginning));
        assert_eq!(ledger.is_behind(at(9), false, pause), None);
        assert_eq!(ledger.is_behind(at(9), true, pause), Some(Behind::Others));
        assert_eq!(ledger.is_behind(at(9), true, pause), None);
    }

    #[test]
    fn what_ended_before_the_process_began_is_counted_and_what_ended_later_was_counted_already() {
        let ledger = Ledger::default();
        ledger.take(&[closed(7, Outcome::Succeeded)], at(60));
        let ended = |run: u64, minute: i64, state| RunView {
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
        };
        ledger.restore(&ended(7, 60, RunState::Succeeded));
        ledger.restore(&ended(6, 50, RunState::Failed));
        ledger.restore(&ended(5, 3, RunState::Succeeded));
        ledger.restore(&RunView { closed_at: None, ..ended(8, 70, RunState::Pending) });
        ledger.restore(&ended(1, -60 * 24 * 30, RunState::Succeeded));
        let (since, steps) = ledger.history(at(61), 1, 13);
        assert_eq!(since, Some(at(3)));
        let ends: Vec<_> = steps.iter().map(|(_, step)| (step.succeeded, step.failed)).collect();
        let mut expected = vec![(0, 0); 13];
        (expected[0], expected[10], expected[12]) = ((1, 0), (0, 1), (1, 0));
        assert_eq!(ends, expected);
        let runs: Vec<u64> = ledger.recent(JobId(1)).iter().map(|ended| ended.run.0).collect();
        assert_eq!(runs, [1, 5, 6, 7]);
    }
}

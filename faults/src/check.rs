//! The checker: compares a recorded history with the promises. It is written from the documents, and uses no code of the
//! product.

mod decisions;
mod example;
mod honest;
mod once;
mod receipts;

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{History, JobFact, Millis, Receipt, RunRecord};

/// How far the cluster's clock and a client's may differ: they are on one machine, but compared over a network that is
/// slowed down.
pub(crate) const CLOCKS_APART: Millis = 50;

/// How long after its record a request may arrive on a busy machine. The record is made first.
pub(crate) const ON_ITS_WAY: Millis = 2_000;

/// A run due this shortly before its job was stopped may be skipped with [`STOPPED`].
pub(crate) const STOPPING: Millis = 3_000;

/// The reason of runs that were skipped because their job was stopped.
pub(crate) const STOPPED: &str = "job stopped";

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub rule: Rule,
    /// What breaks it.
    pub what: String,
}

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A fire time has at most one record.
    DecidedOnce,
    /// Every instant that an enabled job names has a record.
    NothingMissing,
    /// Nothing is recorded or received that no schedule or client asked for.
    NothingInvented,
    /// No instant of a job that fires all missed instants is skipped.
    PolicyFollowed,
    /// Every acknowledged one-shot exists once.
    AcknowledgedKept,
    /// Runs that are sent at most once are received at most once.
    AtMostOnce,
    /// Runs that are sent at least once succeed, because the agent accepts everything.
    AtLeastOnce,
    /// Runs that succeeded were received.
    SucceededWasReceived,
    /// All receipts of a run but the first are marked.
    DuplicatesMarked,
    /// Every receipt of a run has a greater token than the one before.
    TokensRise,
    /// Nothing is received before it is due.
    NeverEarly,
    /// Attempts are counted from 1 without gaps, and each has ended.
    AttemptsInOrder,
    /// Runs of a serial job do not overlap.
    SerialHolds,
    /// An answered attempt is neither sent again nor recorded as lost, unless the node that received the answer was lost.
    KnownKept,
    /// A recorded attempt that is neither supposed nor refused was received, the recorded lateness is not less than the
    /// observed one, and an attempt that was answered ended then.
    HonestRecord,
    /// At the end no run is open.
    AllEnded,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckResult {
    /// The promises that were broken.
    pub violations: Vec<Violation>,
    /// The amount of evidence.
    pub covered: Covered,
}

/// The amount of evidence. A check without evidence proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Instants that schedules named while their jobs were enabled.
    pub fires: usize,
    /// Those of them that were recorded as not run.
    pub skipped: usize,
    /// One-shots that were acknowledged.
    pub one_shots: usize,
    /// Requests that the agent received.
    pub receipts: usize,
    /// Runs that were received more than once, as is allowed.
    pub duplicates: usize,
    /// Runs that were sent again although their result was known.
    pub known_again: usize,
    /// Late requests that were refused by their token.
    pub refused: usize,
    /// Runs that ended as lost.
    pub lost: usize,
    /// Runs that failed.
    pub failed: usize,
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Covered { fires, skipped, one_shots, receipts, duplicates, known_again, refused, lost, failed } =
            self;
        write!(
            f,
            "{fires} fires ({skipped} skipped), {one_shots} one-shots, {receipts} receipts ({duplicates} runs twice, \
             {known_again} sent again although known, {refused} refused), {lost} lost, {failed} failed"
        )
    }
}

/// Judges a history.
pub fn check(history: &History) -> CheckResult {
    let mut judge = Judge::new(history);
    decisions::check(&mut judge);
    once::check(&mut judge);
    receipts::check(&mut judge);
    honest::check(&mut judge);
    judge.verdict
}

/// A history with indexes, and the violations found so far.
struct Judge<'a> {
    history: &'a History,
    jobs: BTreeMap<u64, &'a JobFact>,
    runs: BTreeMap<u64, &'a RunRecord>,
    /// The receipts of each run in order of arrival.
    receipts: BTreeMap<u64, Vec<&'a Receipt>>,
    verdict: CheckResult,
}

impl<'a> Judge<'a> {
    fn new(history: &'a History) -> Judge<'a> {
        let jobs = history.jobs.iter().map(|job| (job.id, job)).collect();
        let runs = history.runs.iter().map(|run| (run.id, run)).collect();
        let mut receipts: BTreeMap<u64, Vec<&Receipt>> = BTreeMap::new();
        for receipt in &history.receipts {
            receipts.entry(receipt.run).or_default().push(receipt);
        }
        Judge { history, jobs, runs, receipts, verdict: CheckResult::default() }
    }

    /// The receipts of a run.
    fn receipts_of(&self, run: &RunRecord) -> Vec<&'a Receipt> {
        self.receipts.get(&run.id).cloned().unwrap_or_default()
    }

    /// Whether a run was skipped because its job was stopped shortly after it was due.
    fn was_stopped(&self, run: &RunRecord) -> bool {
        let stopped = self.jobs.get(&run.job).and_then(|job| job.stopped);
        run.reason == STOPPED && stopped.is_some_and(|(asked, _)| run.fire_time > asked - STOPPING)
    }

    fn broken(&mut self, rule: Rule, what: String) {
        self.verdict.violations.push(Violation { rule, what });
    }
}

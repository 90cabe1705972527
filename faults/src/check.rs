//! The checker: is what was written down what was promised? It knows the promises from the documents, and no code of
//! the product.

mod decisions;
mod example;
mod honest;
mod once;
mod receipts;

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{History, JobFact, Millis, Receipt, RunRecord};

/// How far two clocks of one machine, told to each other over a network that we slow down, may be apart.
pub(crate) const CLOCKS_APART: Millis = 50;

/// How long a request may be on its way from the moment that its record names, on a machine that does much else. The
/// record is made first.
pub(crate) const ON_ITS_WAY: Millis = 2_000;

/// What became due this shortly before its job was stopped may not have run, and says that this is why.
pub(crate) const STOPPING: Millis = 3_000;

/// The reason of what did not run because its job was stopped.
pub(crate) const STOPPED: &str = "job stopped";

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub rule: Rule,
    /// By what.
    pub what: String,
}

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A fire time has at most one record.
    DecidedOnce,
    /// Every instant that an enabled job names has a record.
    NothingMissing,
    /// Nothing has a record, or is received, that nobody asked for.
    NothingInvented,
    /// Where every instant is to run, none is skipped.
    PolicyFollowed,
    /// What was acknowledged is there, once.
    AcknowledgedKept,
    /// What is sent at most once is received at most once.
    AtMostOnce,
    /// What is sent at least once succeeds, because the agent is content with everything.
    AtLeastOnce,
    /// What succeeded was received.
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
    /// What was answered is neither sent again nor recorded as lost, unless the node that heard the answer was lost.
    KnownKept,
    /// An attempt on record that is neither supposed nor refused was received, and the recorded lateness is not less than
    /// what was seen.
    HonestRecord,
    /// In the end nothing is open.
    AllEnded,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// What the checker says.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What was broken.
    pub violations: Vec<Violation>,
    /// How much was looked at.
    pub covered: Covered,
}

/// How much evidence there was. A check of nothing finds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Instants that schedules named while their jobs were enabled.
    pub fires: usize,
    /// Of these, how many were recorded as not run.
    pub skipped: usize,
    /// One-shots that were acknowledged.
    pub one_shots: usize,
    /// Requests that the agent received.
    pub receipts: usize,
    /// Runs that were received more than once, as they may be.
    pub duplicates: usize,
    /// Runs that were sent again although their result was known.
    pub known_again: usize,
    /// Requests that came too late and were refused by their token.
    pub refused: usize,
    /// Runs that ended without anybody knowing how.
    pub lost: usize,
    /// Runs that ended badly.
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
pub fn check(history: &History) -> Verdict {
    let mut judge = Judge::new(history);
    decisions::check(&mut judge);
    once::check(&mut judge);
    receipts::check(&mut judge);
    honest::check(&mut judge);
    judge.verdict
}

/// A history with its indexes, and what was found in it so far.
struct Judge<'a> {
    history: &'a History,
    jobs: BTreeMap<u64, &'a JobFact>,
    runs: BTreeMap<u64, &'a RunRecord>,
    /// What was received of each run, in the order of arrival.
    receipts: BTreeMap<u64, Vec<&'a Receipt>>,
    verdict: Verdict,
}

impl<'a> Judge<'a> {
    fn new(history: &'a History) -> Judge<'a> {
        let jobs = history.jobs.iter().map(|job| (job.id, job)).collect();
        let runs = history.runs.iter().map(|run| (run.id, run)).collect();
        let mut receipts: BTreeMap<u64, Vec<&Receipt>> = BTreeMap::new();
        for receipt in &history.receipts {
            receipts.entry(receipt.run).or_default().push(receipt);
        }
        Judge { history, jobs, runs, receipts, verdict: Verdict::default() }
    }

    /// What was received of a run.
    fn receipts_of(&self, run: &RunRecord) -> Vec<&'a Receipt> {
        self.receipts.get(&run.id).cloned().unwrap_or_default()
    }

    /// Did a run not run because its job was stopped just then?
    fn was_stopped(&self, run: &RunRecord) -> bool {
        let stopped = self.jobs.get(&run.job).and_then(|job| job.stopped);
        run.reason == STOPPED && stopped.is_some_and(|(asked, _)| run.fire_time > asked - STOPPING)
    }

    fn broken(&mut self, rule: Rule, what: String) {
        self.verdict.violations.push(Violation { rule, what });
    }
}

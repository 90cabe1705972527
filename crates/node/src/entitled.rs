//! Which executor may speak of an attempt. An executor that has a session names runs by their numbers, and a number can
//! be guessed. So every claim and report is compared with what its sender may touch: the app, the kind of target, the
//! attempt, the token.
//!
//! An attempt that this node knows to be on its way belongs to one executor. About any other attempt, this node
//! believes an executor only as far as another holder may have sent it: never before it was due, and never while this
//! node itself decides about it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{Job, JobId, RunId, Text};

use crate::Node;
use crate::desk::DeskError;
use crate::jobs::Known;
use crate::memory::{Flight, Memory, Run};
use crate::natives::{Claim, NATIVE};
use crate::ports::{Boot, Receipt, Report, RunRow, Waiting};
use crate::settings::Planted;

/// How many runs are looked up at once for an executor that claims them.
const CLAIMS_AT_ONCE: usize = 1_000;

/// How far the clocks of two nodes may lie apart. A report of a run that is due later than that was made up.
const SKEW: Duration = Duration::from_secs(5);

/// The moment at which a report is judged.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    /// What time it is.
    pub(crate) now: Timestamp,
    /// Whether this node's leases stand. If not, others may know better what became of its runs.
    pub(crate) is_trusted: bool,
}

impl Moment {
    /// This moment.
    pub(crate) fn of(memory: &Memory, boot: Boot) -> Moment {
        let now = memory.time.now(boot).unwrap_or(Timestamp::MIN);
        Moment { now, is_trusted: memory.trusted_now(boot).is_some() }
    }
}

/// An executor that claims attempts: its app and its address.
#[derive(Clone, Copy)]
pub(crate) struct Claimant<'a> {
    pub(crate) app: &'a str,
    pub(crate) url: &'a str,
}

/// What has become of the claims of an executor.
#[derive(Default)]
pub(crate) struct SortedClaims {
    /// What it may have.
    pub(crate) live: Vec<Claim>,
    /// Ended, foreign or unknown attempts. All three look the same to the claimant.
    pub(crate) stale: Vec<Claim>,
    /// How many of the stale ones are open runs that are not for an executor of that app.
    foreign: usize,
}

impl Node {
    /// Sorts the claims of an executor into those that it may have and the others.
    pub(crate) async fn sort_claims(
        &self,
        claimant: Claimant<'_>,
        holds: Vec<Claim>,
    ) -> Result<SortedClaims, DeskError> {
        let mut sorted = SortedClaims::default();
        for claims in holds.chunks(CLAIMS_AT_ONCE) {
            let rows = self.open_among(claims).await?;
            let jobs: Vec<JobId> = {
                let memory = self.memory();
                let here = |claim: &Claim| memory.loaded.runs.get(&claim.run).map(|run| run.job);
                claims.iter().filter_map(here).chain(rows.values().map(|row| row.job)).collect()
            };
            self.know_jobs(jobs).await?;
            let memory = self.memory();
            claims.iter().for_each(|claim| memory.sort_claim(claimant, claim, &rows, &mut sorted));
        }
        if sorted.foreign > 0 {
            let reason = Text::Borrowed("it says that it holds runs which are not for executors of its app");
            self.memory().tell_overreach(claimant, sorted.foreign, reason);
        }
        Ok(sorted)
    }

    /// What the store says of claims that memory cannot judge: of runs that are not here, and of runs that have come
    /// further than is known here.
    async fn open_among(&self, claims: &[Claim]) -> Result<BTreeMap<RunId, Waiting>, DeskError> {
        let strangers: BTreeSet<RunId> = {
            let memory = self.memory();
            let is_strange = |claim: &&Claim| {
                memory.loaded.runs.get(&claim.run).is_none_or(|run| run.attempt < claim.attempt)
            };
            claims.iter().filter(is_strange).map(|claim| claim.run).collect()
        };
        if strangers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = self.ports.store.outline(&strangers.into_iter().collect::<Vec<_>>()).await?;
        let open = rows.into_iter().filter(|row| !row.is_closed && !row.is_parked);
        Ok(open.map(|row| (row.waiting.run, row.waiting)).collect())
    }
}

impl Memory {
    fn sort_claim(
        &self,
        claimant: Claimant<'_>,
        claim: &Claim,
        rows: &BTreeMap<RunId, Waiting>,
        sorted: &mut SortedClaims,
    ) {
        let flight = self.in_flight.flights.get(&claim.run).filter(|flight| flight.attempt == claim.attempt);
        let here = self.loaded.runs.get(&claim.run).map(|run| (run.job, run.attempt));
        let known = rows.get(&claim.run).map(|row| (row.job, row.attempt)).or(here);
        let is_its_app = match known.map(|(job, _)| self.jobs.get(job)) {
            Some(Some(Known::Job(job))) => is_for(job, claimant.app),
            _ => false,
        };
        let is_believed = self.has_planted(Planted::ClaimsBelieved) && known.is_some();
        let is_live = match flight {
            _ if is_believed => true,
            Some(flight) => has_sent(flight, claimant, claim),
            None => is_its_app && known.is_some_and(|(_, attempt)| attempt == claim.attempt),
        };
        sorted.foreign += usize::from(known.is_some() && !is_its_app && !is_live);
        let side = if is_live { &mut sorted.live } else { &mut sorted.stale };
        side.push(claim.clone());
    }

    /// Whether a report comes from the executor that was given the attempt. Senders without a session are known by
    /// other means: an agent answers the call that it was sent, and an XXL-JOB executor names the number of its gate.
    pub(crate) fn may_report(
        &self,
        report: &Report,
        job: &Job,
        seen: (&Run, Option<&RunRow>),
        at: Moment,
    ) -> bool {
        if !is_native(report) || self.has_planted(Planted::ClaimsBelieved) {
            return true;
        }
        match self.in_flight.flights.get(&report.run).filter(|flight| flight.attempt == report.attempt) {
            Some(flight) => was_given(flight, report),
            None => {
                let is_its_app = report.app.as_deref().is_some_and(|app| is_for(job, app));
                is_its_app && self.is_claimed_by(report) && self.may_be_out(report, seen, at)
            }
        }
    }

    /// The same for a report that waits to be judged, as far as memory can tell without the store.
    pub(crate) fn may_be_settled(&self, report: &Report, at: Moment) -> bool {
        let Some(run) = self.loaded.runs.get(&report.run) else { return true };
        match (self.in_flight.flights.get(&report.run), self.jobs.get(run.job)) {
            (Some(flight), _) if flight.attempt > report.attempt => false,
            (_, Some(Known::Job(job))) => self.may_report(report, job, (run, None), at),
            _ => self.may_report_for_nobody(report),
        }
    }

    /// The same for a run whose job cannot be asked: only the executor that this node gave the attempt to may report.
    pub(crate) fn may_report_for_nobody(&self, report: &Report) -> bool {
        let flight =
            self.in_flight.flights.get(&report.run).filter(|flight| flight.attempt == report.attempt);
        !is_native(report) || flight.is_some_and(|flight| was_given(flight, report))
    }

    /// Whether no other executor claims the attempt, and none with another token.
    fn is_claimed_by(&self, report: &Report) -> bool {
        let claim =
            self.executors.natives.claim(report.run).filter(|(claim, _)| claim.attempt == report.attempt);
        claim.is_none_or(|(claim, address)| {
            let is_same = Some(&address.app) == report.app.as_ref() && address.url == report.executor;
            is_same && claim.token == report.token
        })
    }

    /// Whether another holder may have sent an attempt that is not in flight from here.
    fn may_be_out(&self, report: &Report, (run, row): (&Run, Option<&RunRow>), at: Moment) -> bool {
        let Some(row) = row else {
            // Only the holder decides about a run: here, only an earlier holder may have sent it.
            let is_current = run.attempt == report.attempt;
            return !at.is_trusted || is_current && (run.flags.is_doubtful || run.flags.may_be_gated);
        };
        let held = self.cluster.held.get(&run.shard).filter(|_| at.is_trusted);
        let is_left = held.is_none_or(|held| row.is_gated || run.ready_at < held.inherited);
        let is_due = !row.is_parked && run.ready_at <= at.now.saturating_add(SKEW);
        run.attempt == report.attempt && is_due && is_left
    }

    /// Tells that an executor spoke of attempts that are not its own: one event with their number.
    pub(crate) fn tell_overreach(&mut self, claimant: Claimant<'_>, count: usize, reason: Text) {
        let text = |said: &str| Text::Owned(said.to_owned());
        let (app, address) = (text(claimant.app), text(claimant.url));
        self.outbox.events.push(Event::Overreached { app, address, count, reason });
    }

    /// The same for reports that were refused: one event for each executor.
    pub(crate) fn tell_refused_reports<'a>(&mut self, refused: impl Iterator<Item = &'a Report>) {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for report in refused {
            *counts.entry((report.app.as_deref().unwrap_or(""), &report.executor)).or_default() += 1;
        }
        for ((app, url), count) in counts {
            let reason = Text::Borrowed("it reported attempts that it was not given");
            self.tell_overreach(Claimant { app, url }, count, reason);
        }
    }
}

/// Whether a report came over a session. What this node says itself has no receipt.
fn is_native(report: &Report) -> bool {
    report.executor.starts_with(NATIVE) && report.receipt != Receipt::default()
}

/// Whether a job's runs go to executors of an app.
fn is_for(job: &Job, app: &str) -> bool {
    job.executor().is_some() && job.definition.app == app
}

/// Whether an attempt that is on its way from here is the one that an executor says it has.
fn has_sent(flight: &Flight, claimant: Claimant<'_>, claim: &Claim) -> bool {
    let is_there = flight.address.as_ref().is_some_and(|at| at.app == claimant.app && at.url == claimant.url);
    is_there && flight.token == claim.token
}

fn was_given(flight: &Flight, report: &Report) -> bool {
    let address = flight.address.as_ref();
    let is_there =
        address.is_some_and(|at| Some(&at.app) == report.app.as_ref() && at.url == report.executor);
    is_there && flight.token == report.token
}

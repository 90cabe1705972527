//! What jobs want done with due runs, where that takes calendar arithmetic: whether a schedule still names an instant,
//! and whether a window holds it. The answers are computed before the lock is taken, and used under it only if the job
//! and the run are still the same. A job that changed in between, or a run, is asked again under the lock: that is rare,
//! and costs one answer.

use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::engine::fire::{Candidate, Wanted, decided_when_due, refused, unless_refused};
use punctual_core::model::{Decided, Job, Origin, RunId, Skip};
use punctual_core::policy::misfire::Policy;
use rustc_hash::FxHashMap;

use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, Run};
use crate::settings::Planted;

/// The answers of jobs about runs.
#[derive(Default)]
pub(super) struct Answers(FxHashMap<RunId, CalendarAnswer>);

/// What a job answered, and what it was asked.
struct CalendarAnswer {
    version: u64,
    candidate: Candidate,
    /// What it has against the run, its lateness aside.
    refused: Option<Wanted>,
    wanted: Wanted,
}

/// A run that a job is to be asked about.
pub(super) struct CalendarCheck {
    run: RunId,
    job: Arc<Job>,
    candidate: Candidate,
    judged_at: Timestamp,
}

impl Answers {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn extend(&mut self, others: Answers) {
        self.0.extend(others.0);
    }

    /// The answer about a run, if the question would still be the same now.
    fn about(&self, id: RunId, job: &Job, candidate: &Candidate) -> Option<&CalendarAnswer> {
        let is_same =
            |answer: &&CalendarAnswer| answer.version == job.version && answer.candidate == *candidate;
        self.0.get(&id).filter(is_same)
    }

    /// What a job wants done with a run that is due: its earlier answer, or else a new one.
    pub(super) fn wanted(
        &self,
        memory: &Memory,
        (id, run): (RunId, &Run),
        job: &Job,
        now: Timestamp,
    ) -> Wanted {
        let candidate = memory.candidate(id, run);
        let answer = self.about(id, job, &candidate);
        let wanted = answer.map_or_else(
            || wanted_when_due(job, &candidate, run.judged_at(now), now),
            |answer| answer.wanted,
        );
        let is_alone = memory.has_planted(Planted::CoalescedAlone)
            && candidate.origin == Origin::Schedule
            && job.definition.misfire.policy == Policy::FireOnce;
        match wanted {
            Wanted::Start(Decided::CaughtUp) if is_alone => Wanted::Skip(Skip::Coalesced),
            wanted => wanted,
        }
    }

    /// The same, if it can be said without a calendar.
    pub(super) fn wanted_at_once(
        &self,
        memory: &Memory,
        (id, run): (RunId, &Run),
        job: &Job,
        now: Timestamp,
    ) -> Option<Wanted> {
        let candidate = memory.candidate(id, run);
        if job.needs_calendar(candidate.origin) {
            return self.about(id, job, &candidate).map(|answer| answer.wanted);
        }
        Some(wanted_when_due(job, &candidate, run.judged_at(now), now))
    }

    /// What a job has against a run, its lateness aside: its earlier answer, or else a new one.
    pub(super) fn refused(
        &self,
        memory: &Memory,
        (id, run): (RunId, &Run),
        job: &Job,
        now: Timestamp,
    ) -> Option<Wanted> {
        let candidate = memory.candidate(id, run);
        let answer = self.about(id, job, &candidate);
        answer.map_or_else(|| refused(job, &candidate, now), |answer| answer.refused)
    }
}

impl Node {
    /// Asks the jobs of these runs.
    pub(super) fn ask_calendars(&self, runs: impl Iterator<Item = RunId>) -> Answers {
        let boot = self.boot();
        let (now, questions) = {
            let memory = self.memory();
            let Some(now) = memory.trusted_now(boot) else { return Answers::default() };
            (now, memory.calendar_questions(runs, now))
        };
        answer(questions, now)
    }
}

impl Memory {
    /// The runs among these whose jobs need a calendar to answer.
    pub(super) fn calendar_questions(
        &self,
        runs: impl Iterator<Item = RunId>,
        now: Timestamp,
    ) -> Vec<CalendarCheck> {
        let question = |id: RunId| {
            let run = self.loaded.runs.get(&id)?;
            let Some(Known::Job(job)) = self.jobs.get(run.job) else { return None };
            // A part is asked about as its whole.
            let candidate = self.candidate(id, run);
            job.needs_calendar(candidate.origin).then(|| CalendarCheck {
                run: id,
                job: Arc::clone(job),
                candidate,
                judged_at: run.judged_at(now),
            })
        };
        runs.filter_map(question).collect()
    }
}

/// Lets the jobs answer.
pub(super) fn answer(questions: Vec<CalendarCheck>, now: Timestamp) -> Answers {
    let answer = |CalendarCheck { run, job, candidate, judged_at }: CalendarCheck| {
        let (refused, wanted) = refused_and_wanted(&job, &candidate, judged_at, now);
        (run, CalendarAnswer { version: job.version, candidate, refused, wanted })
    };
    Answers(questions.into_iter().map(answer).collect())
}

fn wanted_when_due(job: &Job, candidate: &Candidate, judged_at: Timestamp, now: Timestamp) -> Wanted {
    refused_and_wanted(job, candidate, judged_at, now).1
}

fn refused_and_wanted(
    job: &Job,
    candidate: &Candidate,
    judged_at: Timestamp,
    now: Timestamp,
) -> (Option<Wanted>, Wanted) {
    let decided = decided_when_due(job, candidate, judged_at);
    let candidate = Candidate { decided, ..*candidate };
    let refused = refused(job, &candidate, now);
    (refused, refused.unwrap_or_else(|| unless_refused(job, &candidate, now)))
}

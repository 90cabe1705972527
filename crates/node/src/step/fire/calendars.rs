//! What jobs want done with due runs, where that takes calendar arithmetic: whether a schedule still names an instant,
//! and whether a window holds it. The answers are computed before the lock is taken, and used under it only if the job
//! and the run are still the same.

use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::engine::fire::{Candidate, Wanted, decided_when_due, wanted};
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
    /// The answer about a run, if the question would still be the same now.
    fn about(&self, id: RunId, job: &Job, candidate: &Candidate) -> Option<Wanted> {
        let answered = self.0.get(&id)?;
        let is_same = answered.version == job.version && answered.candidate == *candidate;
        is_same.then_some(answered.wanted)
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
        let answered = if self.0.is_empty() { None } else { self.about(id, job, &candidate) };
        let wanted = answered.unwrap_or_else(|| wanted_when_due(job, &candidate, run.judged_at(now), now));
        let is_alone = memory.has_planted(Planted::CoalescedAlone)
            && candidate.origin == Origin::Schedule
            && job.definition.misfire.policy == Policy::FireOnce;
        match wanted {
            Wanted::Start(Decided::CaughtUp) if is_alone => Wanted::Skip(Skip::Coalesced),
            wanted => wanted,
        }
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
            job.needs_calendar(run.origin).then(|| CalendarCheck {
                run: id,
                job: Arc::clone(job),
                candidate: self.candidate(id, run),
                judged_at: run.judged_at(now),
            })
        };
        runs.filter_map(question).collect()
    }

    /// What a job wants done with a run that is due.
    pub(super) fn wanted(&self, id: RunId, run: &Run, job: &Job, now: Timestamp) -> Wanted {
        wanted_when_due(job, &self.candidate(id, run), run.judged_at(now), now)
    }
}

/// Lets the jobs answer.
pub(super) fn answer(questions: Vec<CalendarCheck>, now: Timestamp) -> Answers {
    let answer = |CalendarCheck { run, job, candidate, judged_at }: CalendarCheck| {
        let wanted = wanted_when_due(&job, &candidate, judged_at, now);
        (run, CalendarAnswer { version: job.version, candidate, wanted })
    };
    Answers(questions.into_iter().map(answer).collect())
}

fn wanted_when_due(job: &Job, candidate: &Candidate, judged_at: Timestamp, now: Timestamp) -> Wanted {
    let decided = decided_when_due(job, candidate, judged_at);
    wanted(job, &Candidate { decided, ..*candidate }, now)
}

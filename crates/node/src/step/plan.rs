//! Planning: the fire times that enter the horizon become runs.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::engine::plan::{Planning, plan};
use punctual_core::event::Event;
use punctual_core::model::{Close, Decided, Job, NewRun, Origin, Outcome, RunId, Skip, Text};

use crate::Node;
use crate::jobs::Known;
use crate::ports::{Boot, ClockRow, Lease, Plan, Planned, StoreError};
use crate::reads::Read;

impl Node {
    /// Looks for jobs whose next fire time enters the horizon, decides about every instant up to there, and writes the
    /// runs with their clocks.
    pub async fn plan(&self) -> Boot {
        let began = self.now();
        match self.plan_once().await {
            Ok(is_all) => {
                let mut memory = self.memory();
                memory.agenda.failing.worked("plan");
                if let (true, Some(began)) = (is_all, began) {
                    memory.agenda.planned_through = memory.agenda.planned_through.max(began);
                }
                drop(memory);
                self.next_look(is_all)
            }
            Err(error) => self.lost_or_paused("plan", &error),
        }
    }

    /// Looks are aligned to the clock, so that nodes and restarts look at the same moments.
    fn next_look(&self, is_all: bool) -> Boot {
        let boot = self.boot();
        let memory = self.memory();
        let every = i64::try_from(self.settings.look_every.as_millis()).unwrap_or(i64::MAX).max(1);
        match memory.time.now(boot) {
            Some(_) if !is_all => boot,
            Some(now) => {
                // Half a step off the grid: most schedules name whole seconds, and then firing has the machine.
                let half = every / 2;
                let next =
                    (now.as_millis() + half).div_euclid(every).saturating_add(1).saturating_mul(every) - half;
                let next = memory.time.moment_of(Timestamp::from_millis(next));
                let soonest = boot.plus(Duration::from_millis(1));
                next.clamp(soonest, soonest.max(boot.plus(self.settings.look_every)))
            }
            None => boot.plus(self.settings.look_every),
        }
    }

    /// Whether everything that is due was planned.
    async fn plan_once(&self) -> Result<bool, StoreError> {
        let boot = self.boot();
        let (now, leases) = {
            let memory = self.memory();
            let Some(now) = memory.trusted_now(boot) else { return Ok(true) };
            (now, memory.leases())
        };
        if leases.is_empty() {
            return Ok(true);
        }
        let until = now.saturating_add(self.settings.horizon);
        let clocks = self.ports.store.due(&leases, until, self.settings.plan_max).await?;
        if clocks.is_empty() {
            return Ok(true);
        }
        let is_all = clocks.len() < self.settings.plan_max;
        self.know_jobs(clocks.iter().map(|clock| clock.job)).await?;
        let (drafts, poisoned) = self.draft(&clocks, now);
        for (clock, reason) in poisoned {
            self.quarantine(&clock, &reason).await?;
        }
        let has_unread = drafts.len() < clocks.len();
        if drafts.is_empty() {
            return Ok(is_all && !has_unread);
        }
        let plans = self.with_ids(drafts, now).await?;
        let read = self.memory().loaded.reads.begin();
        let answers = self.ports.store.plan(plans.clone()).await;
        match &answers {
            Ok(answers) => self.note_planned(read, plans, answers),
            Err(_) => self.read_plans_again(&plans),
        }
        self.memory().loaded.reads.end(read);
        answers.map(|_| is_all && !has_unread)
    }

    /// Decides about each clock. A clock whose job has another version was read before or after a change: the next look
    /// finds them in step.
    fn draft(&self, clocks: &[ClockRow], now: Timestamp) -> (Vec<Draft>, Vec<(ClockRow, Text)>) {
        let (current, poisoned) = self.current(clocks);
        // Calendar arithmetic for thousands of jobs is no work for the lock.
        let draft = |(lease, clock, job): (Lease, ClockRow, Arc<Job>)| {
            let marks = (clock.planned.decided, clock.planned.reserved);
            let planning = plan(&job, clock.next_fire, marks, now, self.settings.horizon);
            Draft { lease, clock, job, planning }
        };
        (current.into_iter().map(draft).collect(), poisoned)
    }

    /// The clocks whose jobs are known in the same version, and those whose jobs make no sense.
    #[expect(clippy::type_complexity, reason = "two lists that are taken apart at once")]
    fn current(&self, clocks: &[ClockRow]) -> (Vec<(Lease, ClockRow, Arc<Job>)>, Vec<(ClockRow, Text)>) {
        let mut memory = self.memory();
        let (mut current, mut poisoned) = (Vec::with_capacity(clocks.len()), Vec::new());
        for clock in clocks {
            let Some(lease) = memory.lease(clock.shard) else { continue };
            match memory.jobs.get(clock.job) {
                Some(Known::Job(job)) if job.version == clock.version => {
                    current.push((lease, *clock, Arc::clone(job)));
                }
                Some(Known::Poisoned(reason)) => poisoned.push((*clock, reason.clone())),
                Some(Known::Missing) => {
                    poisoned.push((*clock, Text::Borrowed("the job of this clock is missing")))
                }
                Some(Known::Job(_)) => memory.jobs.forget(clock.job),
                None => {}
            }
        }
        (current, poisoned)
    }

    async fn with_ids(&self, drafts: Vec<Draft>, now: Timestamp) -> Result<Vec<Plan>, StoreError> {
        let days: Vec<u32> = drafts.iter().flat_map(|draft| draft.days(now)).collect();
        let mut ids = self.draw_ids(&days).await?.into_iter();
        Ok(drafts.into_iter().map(|draft| draft.into_plan(&mut ids, now)).collect())
    }

    /// It is not known whether the plans were written: loading goes back to where their runs would be.
    fn read_plans_again(&self, plans: &[Plan]) {
        let mut memory = self.memory();
        for plan in plans {
            if let Some(first) = plan.runs.iter().map(|run| run.due).min() {
                memory.read_again(plan.lease.shard, first);
            }
        }
    }

    /// Runs that were newly written are taken into memory at once; runs that were there before are in memory already,
    /// or closed.
    fn note_planned(&self, read: Read, plans: Vec<Plan>, answers: &[Planned]) {
        let mut memory = self.memory();
        for (plan, answer) in plans.into_iter().zip(answers) {
            let Planned::Moved(written) = answer else {
                memory.jobs.forget(plan.clock.job);
                continue;
            };
            for run in plan.runs.iter().filter(|run| written.contains(&run.id)) {
                memory.take_in_new(read, &run.into(), Some(plan.lease.epoch));
            }
            let job = plan.clock.job;
            if let Some((run, Close { range: Some((until, count)), reason, .. })) = plan.skipped {
                let reason = reason.parse().unwrap_or(Skip::Misfire);
                memory.outbox.events.push(Event::Missed { job, from: run.fire_time, until, count, reason });
            }
            if let Some(reason) = plan.stop {
                memory.jobs.forget(job);
                memory.outbox.events.push(Event::JobStopped { job, reason });
            }
        }
    }
}

/// A plan without ids.
struct Draft {
    lease: Lease,
    clock: ClockRow,
    job: Arc<Job>,
    planning: Planning,
}

impl Draft {
    /// The birth days of its runs, the skipped one first.
    fn days(&self, now: Timestamp) -> impl Iterator<Item = u32> + '_ {
        let skipped = self.planning.skipped.iter().map(move |_| now);
        skipped.chain(self.planning.runs.iter().map(|(at, _)| *at)).map(RunId::day_of)
    }

    fn into_plan(self, ids: &mut impl Iterator<Item = RunId>, now: Timestamp) -> Plan {
        let Draft { lease, clock, job, planning } = self;
        let mut run = |fire_time: Timestamp, decided: Decided| NewRun {
            id: ids.next().expect("one id was drawn for each run"),
            job: clock.job,
            shard: clock.shard,
            fire_time,
            due: job.due(fire_time),
            origin: Origin::Schedule,
            decided,
            priority: job.definition.priority,
            payload: None,
            key: None,
            of: None,
            overrides: None,
        };
        let skipped = planning.skipped.map(|skipped| {
            let range = Some((skipped.until, skipped.count));
            let reason = Text::Borrowed(Skip::from(skipped.reason).name());
            let close = Close { outcome: Outcome::Skipped, reason, closed_at: now, range };
            (NewRun { due: now, ..run(skipped.from, Decided::PassedOver) }, close)
        });
        let runs = planning.runs.iter().map(|(at, decided)| run(*at, *decided)).collect();
        Plan { lease, clock, next: planning.next, runs, skipped, decided_to: now, stop: planning.stop }
    }
}

//! Reaping: attempts of which nothing was heard in time are lost.

use punctual_core::engine::settle::{End, settle};
use punctual_core::model::{Attempt, AttemptOutcome, RunId, Text, Then};

use rustc_hash::FxHashSet;

use crate::Node;
use crate::entitled::Moment;
use crate::jobs::Known;
use crate::ports::{Boot, Kill, StoreError};
use crate::settings::Planted;
use crate::step::Ended;

impl Node {
    /// Settles attempts whose deadline has passed in silence.
    pub async fn reap(&self) -> Boot {
        let boot = self.boot();
        if boot < self.memory().agenda.paused_until {
            return self.memory().agenda.paused_until;
        }
        if let Err(error) = self.reap_once().await {
            self.lost_or_paused("reap", &error);
        }
        let boot = self.boot();
        let memory = self.memory();
        let idle = boot.plus(self.settings.load_ahead);
        let next = memory.in_flight.deadlines.first().map(|(deadline, _)| memory.time.moment_of(*deadline));
        next.map_or(idle, |next| next.clamp(boot.plus(self.settings.pause), idle))
            .max(memory.agenda.paused_until)
    }

    async fn reap_once(&self) -> Result<(), StoreError> {
        let boot = self.boot();
        let (now, silent) = {
            let memory = self.memory();
            let Some(now) = memory.trusted_now(boot) else { return Ok(()) };
            let has_silence =
                memory.in_flight.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now);
            if !has_silence {
                return Ok(());
            }
            // While the store was away nothing could be settled, and that is no silence.
            let is_deaf = memory.has_planted(Planted::ResultsForgotten);
            let reported =
                if is_deaf { FxHashSet::default() } else { memory.reported(Moment::of(&memory, boot)) };
            let due = memory.in_flight.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
            let silent = due.map(|(_, id)| *id).filter(|id| !reported.contains(id));
            (now, silent.take(self.settings.settle_max).collect::<Vec<RunId>>())
        };
        if silent.is_empty() {
            return Ok(());
        }
        let jobs: Vec<_> = {
            let memory = self.memory();
            silent.iter().filter_map(|id| memory.loaded.runs.get(id).map(|run| run.job)).collect()
        };
        self.know_jobs(jobs).await?;
        let unread: Vec<RunId> = {
            let memory = self.memory();
            let is_unread = |id: &RunId| {
                memory.loaded.runs.get(id).is_some_and(|run| memory.spared_of(*id, run).is_none())
            };
            silent.iter().copied().filter(is_unread).collect()
        };
        self.know_pasts(unread).await?;
        let (ends, mut kills) = self.give_up(&silent, now);
        self.write_ends(ends).await?;
        {
            let memory = self.memory();
            // What was reported, or admitted to, in the last moment is still in flight.
            kills.retain(|kill| {
                memory.in_flight.flights.get(&kill.run).is_none_or(|flight| flight.attempt != kill.attempt)
            });
        }
        if !kills.is_empty() {
            self.kill(kills);
        }
        Ok(())
    }

    /// What becomes of attempts that are taken for lost, and which of them are to be ended in case they are not.
    fn give_up(&self, silent: &[RunId], now: calendar::Timestamp) -> (Vec<Ended>, Vec<Kill>) {
        let memory = self.memory();
        let (mut ends, mut kills) = (Vec::with_capacity(silent.len()), Vec::new());
        for id in silent {
            let overdue = memory.in_flight.flights.get(id).filter(|flight| flight.deadline <= now);
            let (Some(run), Some(flight)) = (memory.loaded.runs.get(id), overdue) else { continue };
            let silence = Text::Borrowed("nothing was heard of it in time");
            let mut attempt = memory.ended_by_us((*id, run.job), flight, AttemptOutcome::Lost, silence, now);
            if let Some(loss) = &flight.loss {
                attempt.message = flight.with_unclear(&loss.reason);
            } else if let Some(address) = &flight.address {
                // It had its time and more, whatever has become of it.
                attempt.outcome = AttemptOutcome::TimedOut;
                let reason = Text::Borrowed("the executor reported no end within the timeout");
                attempt.message = flight.with_unclear(&reason);
                kills.push(Kill {
                    run: *id,
                    job: run.job,
                    attempt: flight.attempt,
                    token: flight.token,
                    address: Some((**address).clone()),
                });
            }
            // The job changed while the store was asked: the next round knows it.
            let Some(known) = memory.jobs.get(run.job) else { continue };
            let Known::Job(job) = known else {
                let close = punctual_core::model::Close {
                    outcome: punctual_core::model::Outcome::Lost,
                    reason: attempt.message.clone(),
                    closed_at: attempt.ended_at,
                    range: None,
                };
                ends.push(Ended::by_us(*id, run, flight, attempt, Then::Close(close)));
                continue;
            };
            // An executor goes on without the node that sent it its work.
            let by_loss_of_node = flight.adopted_at.is_some() && flight.address.is_none();
            // Where more has to be read than is read at once, the next round knows it.
            let Some(spared) = memory.spared_of(*id, run) else { continue };
            let end = End { attempt: &attempt, retry_after: None, is_final: false, by_loss_of_node, spared };
            let mut then =
                settle(job, memory.loaded.overrides_of(*id), &end, now, self.jitter(*id, flight.attempt));
            if memory.has_planted(Planted::ResendAtMostOnce) {
                then = Then::Wait { ready_at: now, attempt: Attempt(flight.attempt.0 + 1) };
            }
            ends.push(Ended::by_us(*id, run, flight, attempt, then).following(job, run));
        }
        (ends, kills)
    }
}

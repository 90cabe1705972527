//! Doubt: attempts that an executor may have lost. The executor is asked before anything is concluded, and its answer
//! counts only as far as it can be believed.
//!
//! - It says that it has a run of the job: no doubt.
//! - It says that it has none, twice: lost, if it has ever been seen to tell the difference, or if it was away since the
//!   attempt was sent, or if it is not known whether the attempt was sent at all. Some executors always say that they
//!   are idle, and those are not believed.
//! - To learn whether it tells the difference, it is asked about a young attempt once, before anything is in doubt.
//! - It does not answer for long, or is no longer registered and does not answer: lost.
//!
//! All of this is kept by app and address. Executors choose their addresses, so an executor of another app may register,
//! leave and beat at the same one, and that says nothing about this executor.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{JobId, RunId, Text};
use punctual_core::registry::Dialect;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::memory::{Flight, Memory};
use crate::ports::{Address, SessionKey};
use crate::settings::Planted;

/// How old an attempt must be for its executor to be asked about it to learn whether it tells the truth.
pub(crate) const LEARN: Duration = Duration::from_secs(1);

/// How often an executor that was never seen to tell the truth is asked about a job.
const LEARN_AGAIN: Duration = Duration::from_secs(10);

/// How often XXL-JOB's executors beat.
const USUAL_BEAT: Duration = Duration::from_secs(30);

/// What is known against an attempt.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// Since when its executor says that it has no such thing.
    idle_since: Option<Timestamp>,
    /// Since when its executor does not answer.
    away_since: Option<Timestamp>,
}

/// All doubts, and how far executors are to be believed.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    of: FxHashMap<RunId, Doubt>,
    /// Executors that have said of a job that they have a run of it.
    honest: FxHashSet<SessionKey>,
    /// When an executor was last found to be away, or came anew.
    away: FxHashMap<SessionKey, Timestamp>,
    /// When an executor was last asked about a job.
    asked: FxHashMap<(SessionKey, JobId), Timestamp>,
    /// When an executor last beat, and how long after the beat before.
    rhythms: FxHashMap<SessionKey, (Timestamp, Duration)>,
    /// When an executor that has a young attempt is to be asked about it, to learn whether it tells the truth.
    lessons: FxHashMap<SessionKey, Timestamp>,
}

impl Doubts {
    pub(crate) fn forget(&mut self, id: RunId) {
        self.of.remove(&id);
    }

    pub(crate) fn forget_all(&mut self) {
        self.of.clear();
    }

    /// An executor was away, or is another process than before.
    pub(crate) fn note_away(&mut self, of: &SessionKey, now: Timestamp) {
        self.away.insert(of.clone(), now);
    }

    /// Notes that an attempt goes to an executor, which is asked about it soon unless it was seen to tell the truth.
    pub(crate) fn plan_lesson(&mut self, of: SessionKey, at: Timestamp) -> bool {
        let is_new = !self.honest.contains(&of) && !self.lessons.contains_key(&of);
        if is_new {
            self.lessons.insert(of, at);
        }
        is_new
    }

    /// When the first executor is to be asked.
    pub(crate) fn next_lesson(&self) -> Option<Timestamp> {
        self.lessons.values().copied().min()
    }

    /// The store says when an executor joined and last beat. An executor that is started registers at once, so a beat that
    /// comes much sooner than usual is the first one of another process.
    pub(crate) fn note_beat(&mut self, of: SessionKey, joined_at: Timestamp, beat_at: Timestamp) {
        let (last, usual) = self.rhythms.get(&of).copied().unwrap_or((joined_at, USUAL_BEAT));
        if beat_at <= last {
            return;
        }
        let gap = passed(last, beat_at);
        if gap < usual / 2 {
            self.note_away(&of, beat_at);
        }
        // An executor that beats more often than others is taken for another process twice, and then no more.
        self.rhythms.insert(of, (beat_at, gap.max(usual / 2)));
    }

    /// Forgets what was said long ago.
    pub(crate) fn forget_before(&mut self, at: Timestamp) {
        self.asked.retain(|_, asked| *asked >= at);
        self.away.retain(|_, away| *away >= at);
        self.rhythms.retain(|_, (beat_at, _)| *beat_at >= at);
    }
}

/// Patience with executors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long an attempt is left alone, and between two questions.
    pub(crate) doubt: Duration,
    /// The same, for an executor that has not yet been seen to tell the difference: from it only that is learned.
    pub(crate) learn: Duration,
    /// How long an executor may be unreachable.
    pub(crate) away: Duration,
}

/// How long it is from one instant to another; nothing if that came before.
pub(crate) fn passed(from: Timestamp, now: Timestamp) -> Duration {
    let millis = now.as_millis().saturating_sub(from.as_millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

impl Memory {
    /// Which executors are to be asked about which jobs, at most `max`: those that have had an attempt for some time.
    pub(crate) fn questions(
        &mut self,
        now: Timestamp,
        patience: Patience,
        max: usize,
    ) -> Vec<(JobId, Address)> {
        self.executors.doubts.lessons.retain(|_, at| *at > now);
        let mut due: Vec<(Timestamp, JobId, Address)> = Vec::new();
        let mut seen: FxHashSet<(SessionKey, JobId)> = FxHashSet::default();
        for (id, flight) in &self.in_flight.flights {
            let since = flight.heard_since();
            if passed(since, now) < patience.learn {
                continue;
            }
            let (Some(address), Some(run)) = (&flight.address, self.loaded.runs.get(id)) else { continue };
            let mut address = self.address_now(address);
            if flight.adopted_at.is_some() && self.has_planted(Planted::AdoptedUnasked) {
                address.access_token = None;
            }
            if address.dialect == Dialect::Native {
                // It is there by its session.
                continue;
            }
            let key = (SessionKey::from(&address), run.job);
            let asked = self.executors.doubts.asked.get(&key).copied();
            let pause = match asked {
                _ if self.executors.doubts.honest.contains(&key.0) => patience.doubt,
                None => patience.learn,
                // A short run has ended before it could be asked about, and the next one may last longer.
                Some(_) => patience.doubt.min(LEARN_AGAIN),
            };
            let since = asked.unwrap_or(since).max(since);
            if passed(since, now) >= pause && seen.insert(key) {
                due.push((since, run.job, address));
            }
        }
        // Those that have waited longest, in an order that does not depend on the map's.
        due.sort_unstable_by(|a, b| (a.0, a.1, &a.2.url, &a.2.app).cmp(&(b.0, b.1, &b.2.url, &b.2.app)));
        due.truncate(max);
        for (_, job, address) in &due {
            self.executors.doubts.asked.insert((SessionKey::from(address), *job), now);
        }
        due.into_iter().map(|(_, job, address)| (job, address)).collect()
    }

    /// Hears what an executor says about a job; which attempts are lost by that, each with the reason.
    pub(crate) fn hear_answer(
        &mut self,
        job: JobId,
        of: &SessionKey,
        has: Option<bool>,
        now: Timestamp,
        patience: Patience,
    ) -> Vec<(RunId, Text)> {
        if has == Some(true) {
            self.executors.doubts.honest.insert(of.clone());
        }
        let its = |(id, flight): (&RunId, &Flight)| {
            let is_there = flight.address.as_ref().is_some_and(|at| at.app == of.app && at.url == of.url);
            let is_of = self.loaded.runs.get(id).is_some_and(|run| run.job == job);
            (is_there && is_of && passed(flight.heard_since(), now) >= patience.doubt).then_some(*id)
        };
        let mut ids: Vec<RunId> = self.in_flight.flights.iter().filter_map(its).collect();
        ids.sort_unstable();
        if has == Some(true) {
            // An attempt that was just taken for lost, and whose loss is not written yet, may be there after all.
            ids.iter().for_each(|id| self.take_for_alive(*id));
        }
        ids.into_iter().filter_map(|id| Some((id, self.doubt(id, has, now, patience)?))).collect()
    }

    fn doubt(&mut self, id: RunId, has: Option<bool>, now: Timestamp, patience: Patience) -> Option<Text> {
        let flight = self.in_flight.flights.get(&id)?;
        let address = flight.address.clone()?;
        let of = SessionKey::from(&*address);
        let was_away = self.executors.doubts.away.get(&of).is_some_and(|away| *away >= flight.sent_at);
        let is_believed =
            self.executors.doubts.honest.contains(&of) || was_away || flight.adopted_at.is_some();
        let is_credulous = self.has_planted(Planted::IdleBelieved);
        let is_registered = self.executors.registry.executor(&address.app, &address.url).is_some();
        let doubt = self.executors.doubts.of.entry(id).or_default();
        match has {
            Some(true) => {
                *doubt = Doubt::default();
                None
            }
            Some(false) => {
                doubt.away_since = None;
                let since = *doubt.idle_since.get_or_insert(now);
                let is_sure = is_credulous || is_believed && passed(since, now) >= patience.doubt;
                is_sure
                    .then_some(Text::Borrowed("the executor has no such run any more, and reported nothing"))
            }
            None => {
                let since = *doubt.away_since.get_or_insert(now);
                let bound = if is_registered { patience.away } else { patience.doubt };
                let is_sure = passed(since, now) >= bound;
                is_sure.then_some(Text::Borrowed("the executor is gone"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_long_before_its_time_is_that_of_another_process() {
        let (of, at) =
            (SessionKey::new("app", "http://one"), |seconds: i64| Timestamp::from_millis(seconds * 1_000));
        let mut doubts = Doubts::default();
        let mut away_after = |beat: i64| {
            doubts.note_beat(of.clone(), at(0), at(beat));
            doubts.away.get(&of).copied()
        };
        assert_eq!([away_after(0), away_after(30), away_after(30), away_after(59)], [None; 4]);
        assert_eq!(away_after(63), Some(at(63)), "it was started anew");
        assert_eq!(away_after(93), Some(at(63)), "and beats as usual from then on");
    }
}

//! Executors and agents: they take attempts, run them for a while, and report their ends, more or less truthfully.

use punctual_core::model::{Attempt, AttemptOutcome, JobId, LogId, RunId, Text, Token};
use rustc_hash::FxHashMap;

use crate::dice::{Stream, is_hit, named, within};
use crate::link::Micros;
use crate::setup::Character;

/// One executor.
#[derive(Debug)]
pub struct SimExecutor {
    /// Its character.
    pub character: Character,
    /// Whether its process runs.
    pub is_up: bool,
    /// The number of its process's start.
    pub life: u32,
    /// Everything takes far longer until then.
    pub slow_until: Micros,
    /// The greatest token it accepted, per run. It is kept through a crash, as an executor that fences has to.
    accepted: FxHashMap<RunId, Token>,
    /// The attempts that it runs.
    pub running: FxHashMap<(RunId, Attempt, Token), Running>,
    /// When a node last received its beat.
    pub heard_at: Micros,
    /// Since when its beats have been received without a gap.
    pub known_since: Micros,
    /// Whether it is healthy for the rest of the world.
    pub is_well: bool,
}

/// An attempt as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
    /// The number of its gate.
    pub log: Option<LogId>,
    /// Whether it comes over HTTP: an agent compares no tokens.
    pub is_http: bool,
}

/// An attempt that an executor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The job.
    pub job: JobId,
    /// The number of its gate.
    pub log: Option<LogId>,
    /// When it began.
    pub since: Micros,
}

/// The address of an executor, by its index.
pub fn address(index: usize) -> Text {
    Text::Owned(format!("http://x{index}"))
}

/// The index of the executor at an address.
pub fn at(address: &str) -> Option<usize> {
    address.strip_prefix("http://x")?.parse().ok()
}

/// How an executor receives an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// It runs it, and reports this after this time.
    Runs(Micros, AttemptOutcome),
    /// It runs it and never reports.
    Hangs,
    /// It declines it for lack of room.
    Declines,
    /// It has seen a greater token for this run, or this one already.
    RefusesToken,
}

impl SimExecutor {
    /// An executor of this character that has just started.
    pub fn new(character: Character) -> SimExecutor {
        SimExecutor {
            character,
            is_up: true,
            life: 0,
            slow_until: 0,
            accepted: FxHashMap::default(),
            running: FxHashMap::default(),
            heard_at: 0,
            known_since: 0,
            is_well: false,
        }
    }

    /// Its process dies and forgets its attempts and reports.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.life += 1;
        self.running.clear();
        self.known_since = Micros::MAX;
    }

    /// A node receives its beat. After a gap of `dead` it counts as newly registered.
    pub fn is_heard(&mut self, now: Micros, dead: Micros) {
        if self.known_since == Micros::MAX || now >= self.heard_at + dead {
            self.known_since = now;
        }
        self.heard_at = now;
    }

    /// Whether it answers that it has a run of this job.
    pub fn says_it_has(&self, job: JobId) -> bool {
        !self.character.says_idle && self.running.values().any(|running| running.job == job)
    }

    /// Receives an attempt.
    pub fn take(&mut self, seed: u64, now: Micros, offer: Offer) -> Reception {
        let Offer { run, job, attempt, token, log, is_http } = offer;
        let character = self.character;
        if character.checks_tokens && !is_http {
            let greatest = self.accepted.entry(run).or_default();
            if token <= *greatest {
                return Reception::RefusesToken;
            }
        }
        let roll = |what: u64| {
            named(seed, Stream::Executors, run.0 ^ u64::from(attempt.0) << 48, token.0 ^ what << 56)
        };
        let is_bad = !self.is_well;
        if is_bad && is_hit(roll(1), character.declines) {
            return Reception::Declines;
        }
        if character.checks_tokens && !is_http {
            self.accepted.insert(run, token);
        }
        self.running.insert((run, attempt, token), Running { job, log, since: now });
        if is_bad && is_hit(roll(2), character.hangs) {
            return Reception::Hangs;
        }
        let outcome = match is_bad && is_hit(roll(3), character.fails) {
            true if is_hit(roll(5), 100_000) => AttemptOutcome::TimedOut,
            true => AttemptOutcome::Failed,
            false => AttemptOutcome::Succeeded,
        };
        let longest = if self.is_well { 20 } else { character.length_ms };
        // Mostly far below the longest: the square of a share.
        let share = within(roll(4), 1, 1_000);
        let mut length = longest * share * share / 1_000 + 1;
        if now < self.slow_until && is_bad {
            length = length * 30 + 2_000_000;
        }
        Reception::Runs(length, outcome)
    }

    /// Whether it lies about this attempt: it reports another outcome a little later.
    pub fn lies(&self, seed: u64, run: RunId, attempt: Attempt) -> bool {
        let roll = named(seed, Stream::Executors, run.0, u64::from(attempt.0) | 7 << 56);
        self.character.lies && !self.is_well && is_hit(roll, 100_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;
    use crate::setup::{SIX_HOURS, WorldSetup};

    fn careful() -> SimExecutor {
        let _ = Dice::seeded(1);
        let character = WorldSetup::new(1, SIX_HOURS).executors[0];
        let mut executor = SimExecutor::new(Character { checks_tokens: true, says_idle: false, ..character });
        executor.is_well = true;
        executor
    }

    #[test]
    fn one_that_checks_tokens_takes_only_greater_ones_even_after_a_crash() {
        let mut executor = careful();
        let offer = |token, is_http| Offer {
            run: RunId(5),
            job: JobId(1),
            attempt: Attempt(1),
            token: Token(token),
            log: None,
            is_http,
        };
        let mut take = |token, is_http| executor.take(1, 0, offer(token, is_http));
        assert!(matches!(take(9, false), Reception::Runs(..)));
        assert_eq!(take(9, false), Reception::RefusesToken);
        assert_eq!(take(8, false), Reception::RefusesToken);
        assert!(matches!(take(8, true), Reception::Runs(..)));
        assert!(executor.says_it_has(JobId(1)) && !executor.says_it_has(JobId(2)));
        executor.crash();
        assert!(!executor.says_it_has(JobId(1)));
        assert_eq!(executor.take(1, 0, offer(9, false)), Reception::RefusesToken);
    }

    #[test]
    fn an_address_leads_back_to_its_executor() {
        assert_eq!(at(&address(7)), Some(7));
        assert_eq!(at("http://agent.test/h7"), None);
    }

    #[test]
    fn it_is_known_without_a_break_as_long_as_it_is_heard_often_enough() {
        let mut executor = careful();
        for now in [10, 50, 89, 189, 200] {
            executor.is_heard(now, 100);
        }
        assert_eq!(executor.known_since, 189);
        executor.crash();
        executor.is_heard(210, 100);
        assert_eq!(executor.known_since, 210);
    }

    #[test]
    fn one_that_is_well_is_quick_and_succeeds() {
        let mut executor = careful();
        for run in 1..200 {
            let (run, job) = (RunId(run), JobId(1));
            let offer = Offer { run, job, attempt: Attempt(1), token: Token(1), log: None, is_http: false };
            match executor.take(1, 0, offer) {
                Reception::Runs(length, AttemptOutcome::Succeeded) => assert!(length <= 20_001, "{length}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

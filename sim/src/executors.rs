//! Executors and agents: they take attempts, run them for a while, and say how they ended, more or less truthfully.

use punctual_core::model::{Attempt, AttemptOutcome, RunId, Token};
use rustc_hash::FxHashMap;

use crate::dice::{Stream, is_hit, named, within};
use crate::link::Micros;
use crate::setup::Character;

/// One executor.
#[derive(Debug)]
pub struct Executor {
    /// What it is like.
    pub character: Character,
    /// Whether its process runs.
    pub is_up: bool,
    /// Which start of its process.
    pub life: u32,
    /// Until then everything takes far longer.
    pub slow_until: Micros,
    /// The greatest token it accepted, per run. It is kept through a crash, as an executor that fences has to.
    accepted: FxHashMap<RunId, Token>,
    /// What it runs.
    pub running: FxHashMap<(RunId, Attempt, Token), Micros>,
    /// Whether it has become well for good.
    pub is_well: bool,
}

/// What an executor makes of an attempt that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs it, and says this after this long.
    Runs(Micros, AttemptOutcome),
    /// It runs it and will never say anything.
    Hangs,
    /// It has no room for it.
    Declines,
    /// It has seen a greater token for this run, or this one already.
    RefusesToken,
}

impl Executor {
    /// An executor of this character that has just started.
    pub fn new(character: Character) -> Executor {
        Executor {
            character,
            is_up: true,
            life: 0,
            slow_until: 0,
            accepted: FxHashMap::default(),
            running: FxHashMap::default(),
            is_well: false,
        }
    }

    /// Its process dies: what it ran and what it had to say is forgotten.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.life += 1;
        self.running.clear();
    }

    /// Takes an attempt, or does not. An agent behind HTTP compares no tokens.
    pub fn take(
        &mut self,
        seed: u64,
        now: Micros,
        run: RunId,
        attempt: Attempt,
        token: Token,
        is_http: bool,
    ) -> Verdict {
        let character = self.character;
        if character.checks_tokens && !is_http {
            let greatest = self.accepted.entry(run).or_default();
            if token <= *greatest {
                return Verdict::RefusesToken;
            }
        }
        let roll = |what: u64| {
            named(seed, Stream::Executors, run.0 ^ u64::from(attempt.0) << 48, token.0 ^ what << 56)
        };
        let is_bad = !self.is_well;
        if is_bad && is_hit(roll(1), character.declines) {
            return Verdict::Declines;
        }
        if character.checks_tokens && !is_http {
            self.accepted.insert(run, token);
        }
        self.running.insert((run, attempt, token), now);
        if is_bad && is_hit(roll(2), character.hangs) {
            return Verdict::Hangs;
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
        Verdict::Runs(length, outcome)
    }

    /// Whether it lies about this attempt: it says something else a little later.
    pub fn lies(&self, seed: u64, run: RunId, attempt: Attempt) -> bool {
        let roll = named(seed, Stream::Executors, run.0, u64::from(attempt.0) | 7 << 56);
        self.character.lies && !self.is_well && is_hit(roll, 100_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;
    use crate::setup::{SIX_HOURS, Setup};

    fn careful() -> Executor {
        let _ = Dice::seeded(1);
        let character = Setup::new(1, SIX_HOURS).executors[0];
        let mut executor = Executor::new(Character { checks_tokens: true, ..character });
        executor.is_well = true;
        executor
    }

    #[test]
    fn one_that_checks_tokens_takes_only_greater_ones_even_after_a_crash() {
        let mut executor = careful();
        let mut take = |token, is_http| executor.take(1, 0, RunId(5), Attempt(1), Token(token), is_http);
        assert!(matches!(take(9, false), Verdict::Runs(..)));
        assert_eq!(take(9, false), Verdict::RefusesToken);
        assert_eq!(take(8, false), Verdict::RefusesToken);
        assert!(matches!(take(8, true), Verdict::Runs(..)));
        executor.crash();
        assert_eq!(executor.take(1, 0, RunId(5), Attempt(1), Token(9), false), Verdict::RefusesToken);
    }

    #[test]
    fn one_that_is_well_is_quick_and_succeeds() {
        let mut executor = careful();
        for run in 1..200 {
            match executor.take(1, 0, RunId(run), Attempt(1), Token(1), false) {
                Verdict::Runs(length, AttemptOutcome::Succeeded) => assert!(length <= 20_001, "{length}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

//! The faults of a world: a list that is decided before it starts. A failing world shrinks by leaving out entries.

use std::fmt;

use crate::dice::Dice;
use crate::link::Micros;

const SECOND: Micros = 1_000_000;

/// The kinds of faults. A swarm switches each on or off for a whole world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A node's process is killed at any moment.
    Crash,
    /// It is killed around its next write: before the write is applied, after it, or while it is in flight.
    CrashAtWrite,
    /// It gets no CPU for a while.
    Pause,
    /// It is stopped cleanly, and starts again later.
    CleanStop,
    /// A request does not reach the store, and the node does not know.
    LostRequest,
    /// A request is applied, and the node does not know.
    LostAnswer,
    /// A request times out and is applied later.
    LateCommit,
    /// The store answers no request for a while; requests that reached it wait.
    Stall,
    /// All connections to the store break at once.
    Disconnect,
    /// The store has no room for writes for a while.
    Full,
    /// A node cannot reach the store for a while.
    Cut,
    /// The store's clock is set forward by up to 5 s.
    ClockStep,
    /// The store's clock is set forward by minutes or hours.
    ClockLeap,
    /// The store's clock is set back.
    ClockBack,
    /// Sends are lost for a while.
    LostSends,
    /// Sends arrive late and out of order for a while.
    LateSends,
    /// Sends arrive twice for a while.
    DoubledSends,
    /// Reports and acknowledgements are lost for a while.
    LostReports,
    /// An executor dies and forgets what it ran.
    ExecutorCrash,
    /// An executor takes far longer for a while.
    ExecutorSlow,
    /// Hints between nodes are lost, late or doubled for a while.
    Hints,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 21] = [
        FaultKind::Crash,
        FaultKind::CrashAtWrite,
        FaultKind::Pause,
        FaultKind::CleanStop,
        FaultKind::LostRequest,
        FaultKind::LostAnswer,
        FaultKind::LateCommit,
        FaultKind::Stall,
        FaultKind::Disconnect,
        FaultKind::Full,
        FaultKind::Cut,
        FaultKind::ClockStep,
        FaultKind::ClockLeap,
        FaultKind::ClockBack,
        FaultKind::LostSends,
        FaultKind::LateSends,
        FaultKind::DoubledSends,
        FaultKind::LostReports,
        FaultKind::ExecutorCrash,
        FaultKind::ExecutorSlow,
        FaultKind::Hints,
    ];

    /// Its name on the command line.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The shortest and the longest mean time between two of them, in seconds.
    fn gap_s(self) -> (u64, u64) {
        match self {
            FaultKind::Crash
            | FaultKind::CrashAtWrite
            | FaultKind::Pause
            | FaultKind::CleanStop
            | FaultKind::Cut => (40, 2_400),
            FaultKind::LostRequest | FaultKind::LostAnswer | FaultKind::LateCommit => (10, 1_200),
            FaultKind::Stall | FaultKind::Disconnect | FaultKind::Full => (120, 3_600),
            FaultKind::ClockStep | FaultKind::ClockBack => (600, 7_200),
            FaultKind::ClockLeap => (3_600, 14_400),
            _ => (30, 1_800),
        }
    }

    /// How long one of them lasts, in milliseconds: from, to.
    fn length_ms(self) -> (u64, u64) {
        match self {
            FaultKind::Crash | FaultKind::CrashAtWrite | FaultKind::CleanStop => (100, 120_000),
            FaultKind::Pause => (50, 60_000),
            FaultKind::LateCommit => (2_000, 40_000),
            FaultKind::Stall => (100, 20_000),
            FaultKind::Full => (500, 60_000),
            FaultKind::Cut => (500, 90_000),
            FaultKind::ClockStep => (10, 5_000),
            FaultKind::ClockLeap => (6_000, 7_200_000),
            FaultKind::ClockBack => (10, 7_200_000),
            FaultKind::ExecutorCrash => (100, 240_000),
            _ => (1_000, 60_000),
        }
    }
}

/// The kinds that are on.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds(u32);

impl Kinds {
    /// Whether a kind is on.
    pub fn has(self, kind: FaultKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// With a kind on.
    #[must_use]
    pub fn with(self, kind: FaultKind) -> Kinds {
        Kinds(self.0 | 1 << kind as u32)
    }

    /// With a kind off.
    #[must_use]
    pub fn without(self, kind: FaultKind) -> Kinds {
        Kinds(self.0 & !(1 << kind as u32))
    }

    /// Those that are on.
    pub fn iter(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it happens.
    pub at: Micros,
    /// Its kind.
    pub kind: FaultKind,
    /// The node or executor, modulo their number.
    pub whom: usize,
    /// Its length or amount.
    pub length: Micros,
    /// Random bits for further choices.
    pub choice: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whom, length) = (self.whom, self.length as f64 / 1e6);
        write!(f, "{} {whom} for {length:.3} s, choice {}", self.kind.name(), self.choice % 64)
    }
}

/// Draws the kinds that are on: mostly about half, sometimes none, one or nearly all.
pub fn swarm(dice: &mut Dice) -> Kinds {
    let chance = dice.pick(&[0, 12, 30, 30, 50, 50, 50, 80]);
    let mut kinds = Kinds::default();
    for kind in FaultKind::ALL {
        // A clock that leaps excuses a lot, so it must not be in half of all worlds.
        let chance =
            if matches!(kind, FaultKind::ClockStep | FaultKind::ClockLeap) { chance / 3 } else { chance };
        if dice.percent(chance) {
            kinds = kinds.with(kind);
        }
    }
    kinds
}

/// Draws the faults of a world of this length, in order of time.
pub fn plan(dice: &mut Dice, kinds: Kinds, length: Micros) -> Vec<Fault> {
    let mut faults = Vec::new();
    for kind in FaultKind::ALL {
        // Drawn for every kind, so that one switched off does not shift the others.
        let mut dice = Dice::seeded(dice.roll());
        if kinds.has(kind) {
            plan_kind(&mut dice, kind, length, &mut faults);
        }
    }
    faults.sort_by_key(|fault| (fault.at, fault.kind));
    faults
}

fn plan_kind(dice: &mut Dice, kind: FaultKind, length: Micros, faults: &mut Vec<Fault>) {
    let (least, most) = kind.gap_s();
    let mean = dice.scaled(least, most) * SECOND;
    let burst = dice.pick(&[0, 0, 20, 50]);
    let mut at = dice.between(1, 2 * mean);
    while at < length {
        let (least, most) = kind.length_ms();
        let length = dice.scaled(least, most) * 1_000 + dice.between(0, 999);
        let whom = dice.between(0, 59) as usize;
        faults.push(Fault { at, kind, whom, length, choice: dice.roll() });
        let is_burst = dice.percent(burst);
        at += if is_burst { dice.between(1, 5 * SECOND) } else { dice.between(1, 2 * mean) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Stream;

    #[test]
    fn a_kind_switched_off_does_not_shift_the_others() {
        let dice = Dice::new(5, Stream::Faults);
        let all = FaultKind::ALL.into_iter().fold(Kinds::default(), Kinds::with);
        let of = |kinds: Kinds| plan(&mut dice.clone(), kinds, 3_600 * SECOND);
        let fewer = of(all.without(FaultKind::Crash));
        let kept: Vec<Fault> = of(all).into_iter().filter(|fault| fault.kind != FaultKind::Crash).collect();
        assert!(!kept.is_empty() && kept == fewer);
    }

    #[test]
    fn every_kind_has_a_name_that_reads_back() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::from_name(&kind.name()), Some(kind));
        }
        assert_eq!(FaultKind::CrashAtWrite.name(), "crash-at-write");
    }
}

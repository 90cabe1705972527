//! Identities: small, ordered, and impossible to confuse.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use calendar::Timestamp;

const DAY_MS: i64 = 86_400_000;

/// 2020-01-01T00:00:00Z in days since 1970-01-01.
const DAY_ZERO: i64 = 18_262;

/// Bits of a run id that count within a day.
const SEQUENCE_BITS: u32 = 34;

/// Bits of a token that count attempts.
const ATTEMPT_BITS: u32 = 20;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A job: sequential, below 2^31, as XXL-JOB executors expect it.
    JobId(u32)
}
id! {
    /// A slice of the jobs and runs that one node at a time acts for.
    ShardId(u16)
}
id! {
    /// The number that fences old holders of a shard. All epochs come from one counter of the store.
    Epoch(u64)
}
id! {
    /// The small number of a send: XXL-JOB's log id.
    LogId(u64)
}
id! {
    /// The place of a change of a job in the order of all changes.
    ChangeId(u64)
}
id! {
    /// Which try of a run this is, from 1.
    Attempt(u32)
}

impl Attempt {
    /// The first try.
    pub const FIRST: Attempt = Attempt(1);
    /// No run is tried more often, so that a token has room for the number.
    pub const MAX: Attempt = Attempt((1 << ATTEMPT_BITS) - 1);

    /// The try after this one.
    #[must_use]
    pub fn next(self) -> Attempt {
        Attempt(self.0 + 1).min(Attempt::MAX)
    }
}

/// One life of a node: random at every start of the process, never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u128);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for NodeId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<NodeId, ParseIntError> {
        u128::from_str_radix(text, 16).map(NodeId)
    }
}

/// A run. The number carries the day of its birth, and so finds the bucket that holds it; it stays below 2^53,
/// which every JSON reader can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

impl RunId {
    /// How many runs can be born on one day.
    pub const PER_DAY: u64 = 1 << SEQUENCE_BITS;
    /// The last day that fits below 2^53.
    pub const DAY_MAX: u32 = (1 << (53 - SEQUENCE_BITS)) - 1;

    /// The `sequence`th run born on `day`.
    pub fn new(day: u32, sequence: u64) -> RunId {
        assert!(day <= RunId::DAY_MAX && sequence < RunId::PER_DAY, "{day} {sequence} is no run id");
        RunId(u64::from(day) << SEQUENCE_BITS | sequence)
    }

    /// The day of its birth, counted from 2020.
    pub fn day(self) -> u32 {
        (self.0 >> SEQUENCE_BITS) as u32
    }

    /// Its number within the day.
    pub fn sequence(self) -> u64 {
        self.0 & (RunId::PER_DAY - 1)
    }

    /// The day that a run belongs to which is born for `at`. Instants before 2020 or far beyond the years that
    /// rules name share the first and the last day: a poisoned row must not have a bucket of its own.
    pub fn day_of(at: Timestamp) -> u32 {
        let day = at.as_millis().div_euclid(DAY_MS) - DAY_ZERO;
        day.clamp(0, i64::from(RunId::DAY_MAX)) as u32
    }

    /// The first instant of a day counted from 2020.
    pub fn day_start(day: u32) -> Timestamp {
        Timestamp::from_millis((i64::from(day) + DAY_ZERO) * DAY_MS)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The fencing token of a send. It grows with the epoch and then with the attempt, so a receiver that keeps the
/// greatest it has seen can refuse whatever an earlier holder sends late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Of an attempt that an earlier holder may have sent: its token is not known, nor whether there was one. Epochs
    /// begin with 1, so no send has this token.
    pub const SUPPOSED: Token = Token(0);

    /// The token of an attempt that is sent under an epoch.
    pub fn new(epoch: Epoch, attempt: Attempt) -> Token {
        assert!(attempt <= Attempt::MAX && epoch.0 < 1 << (64 - ATTEMPT_BITS), "no room in a token");
        Token(epoch.0 << ATTEMPT_BITS | u64::from(attempt.0))
    }

    /// The epoch under which it was sent.
    pub fn epoch(self) -> Epoch {
        Epoch(self.0 >> ATTEMPT_BITS)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_carries_its_day_and_stays_below_2_to_the_53() {
        let at: Timestamp = "2026-11-15T23:59:59.999Z".parse().unwrap();
        let id = RunId::new(RunId::day_of(at), 17);
        assert_eq!((id.day(), id.sequence()), (2510, 17));
        assert_eq!(RunId::day_start(2510), "2026-11-15T00:00:00Z".parse().unwrap());
        assert!(RunId::new(RunId::DAY_MAX, RunId::PER_DAY - 1).0 < 1 << 53);
        assert!(RunId::DAY_MAX as i64 > 365 * 200, "the years that rules name fit");
    }

    #[test]
    fn absurd_instants_share_the_first_and_the_last_day() {
        assert_eq!(RunId::day_of(Timestamp::MIN), 0);
        assert_eq!(RunId::day_of(Timestamp::MAX), RunId::DAY_MAX);
    }

    #[test]
    fn a_token_grows_with_the_epoch_and_then_with_the_attempt() {
        let token = |epoch, attempt| Token::new(Epoch(epoch), Attempt(attempt));
        assert!(token(1, 2) > token(1, 1));
        assert!(token(2, 1) > token(1, Attempt::MAX.0));
        assert_eq!(token(7, 3).epoch(), Epoch(7));
    }
}

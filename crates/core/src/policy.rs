//! What a job wants done when things are late, fail, or pile up.
//!
//! Each policy is a small value and one question about it. Whoever asks brings the time, the counts and the
//! randomness; the same question always has the same answer.
//!
//! - [`misfire`]: what becomes of instants that passed before anybody decided about them.
//! - [`retry`]: when a failed attempt is followed by another.
//! - [`block`]: what a run does that meets another of its job.
//! - [`pool`]: which jobs send apart from the others, because their targets are slow, and how much of a pool one may hold.
//! - [`route`]: which executor of its app a run goes to.

pub mod block;
pub mod misfire;
pub mod pool;
pub mod retry;
pub mod route;

pub use block::{Admission, Block};
pub use misfire::{Catchup, Misfire};
pub use pool::{Limits, Pace, Places, Pool, Room};
pub use retry::{Multiplier, Retry};
pub use route::{Choice, Route, Routes};

/// The same cases on every run; `PROPTEST_CASES` asks for more of them.
#[cfg(test)]
pub(crate) fn same_cases() -> proptest::test_runner::Config {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(20_270_301);
    proptest::test_runner::Config { rng_seed, failure_persistence: None, ..Default::default() }
}

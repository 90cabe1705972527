//! What a job's policies say about runs that are late, fail, or pile up.
//!
//! Each policy is a small value with one function. The caller passes in the time, the counts and the randomness, so the
//! same input always gives the same answer.
//!
//! - [`misfire`]: what becomes of fire times that passed before a node decided about them.
//! - [`retry`]: when a failed attempt is followed by another.
//! - [`block`]: what a due run does while another run of its job is open.
//! - [`class`]: which kind of work goes first, and how waiting makes up for it.
//! - [`jitter`]: the stable delay that spreads what is due at one instant.
//! - [`pool`]: which jobs have slow targets and are sent from a pool of their own, and how much of a pool one job may hold.
//! - [`route`]: which executor of its app a run goes to.

pub mod block;
pub mod class;
pub mod jitter;
pub mod misfire;
pub mod pool;
pub mod retry;
pub mod route;

pub use block::{Admission, Block};
pub use class::{ClassOrdinal, Classes};
pub use misfire::{Catchup, Misfire};
pub use pool::{Limits, Pace, Places, Pool, Room};
pub use retry::{Multiplier, Retry};
pub use route::{Choice, Route, Routes};

/// The same cases every time; `PROPTEST_CASES` sets their number.
#[cfg(test)]
pub(crate) fn same_cases() -> proptest::test_runner::Config {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(20_270_301);
    proptest::test_runner::Config { rng_seed, failure_persistence: None, ..Default::default() }
}

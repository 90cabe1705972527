//! Names the instants at which work is due.
//!
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
//!
//! # How it is laid out
//!
//! A [`Rule`] names instants. For cron, [`Cron`] says which wall times match, [`Zone`] cuts time into
//! stretches of constant offset, and the search between them places the one on the other.
//! [`Exclusions`] says which of the named instants are allowed. There is no clock, no I/O and no
//! randomness in here: the same question always has the same answer.

mod civil;
mod cron;
mod exclude;
mod option;
mod place;
mod rule;
mod timestamp;
mod warning;
mod zone;

pub use cron::{Cron, CronError, CronKind, Dialect};
pub use exclude::{Calendar, CalendarError, ExclusionVerdict, Exclusions, Outside, Window, WindowError};
pub use option::UnknownName;
pub use rule::{Rule, RuleError};
pub use timestamp::{Timestamp, TimestampError};
pub use warning::Warning;
pub use zone::{Gap, Overlap, UnknownZone, Zone, Zones};

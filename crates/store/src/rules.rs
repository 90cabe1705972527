//! The rules of the store: what a verb decides over the rows that it has read, and which rows it writes then.
//!
//! Pure: no SQL, no async, no clock. A database reads and locks the rows of a verb, lets the verb decide over them here, in
//! the order in which its batch was asked, and writes the differences. `memory/` decides everything by code of its own,
//! because these rules are judged by it; `cargo xtask tidy` refuses an import in either direction.

mod accept;
#[cfg(test)]
mod against_memory;
pub(crate) mod change;
pub(crate) mod circle;
pub(crate) mod counts;
pub(crate) mod forgotten;
mod gate;
pub(crate) mod plan;
mod run_progress;
pub(crate) mod settle;
mod split;
pub(crate) mod thin;
mod unit_of_work;

pub(crate) use gate::GateVerdict;
pub(crate) use plan::names_earlier_instants;
pub(crate) use run_progress::{
    GateOwner, HoldSlots, Look, Refusal, RunProgress, WaitRow, free_slot, line_of,
};
pub(crate) use settle::SettleVerdict;
#[cfg(test)]
pub(crate) use unit_of_work::KeyOwner;
pub(crate) use unit_of_work::{CloseRow, DayDelta, JoinRow, LockedClock, LockedRun, UnitOfWork};

//! Hand-made histories: for every promise one that keeps it, which the checker must accept, and one that breaks it,
//! which it must reject for that very reason.

mod broken;
mod broken_parts;
mod broken_records;
mod kept;
mod story;

pub(super) use story::definition;

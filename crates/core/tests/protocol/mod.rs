//! The lease protocol as a finite machine: what is remembered, what may happen next, and the search over it.

pub(crate) mod action;
pub(crate) mod rules;
pub(crate) mod search;
pub(crate) mod state;

//! A second opinion on when a cron rule fires: slow, literal, and written from the specification alone.
//!
//! Nothing here knows how the crate does it. The oracle has no bitsets, no table of transitions and no search:
//! it reads an expression's text again for every day, asks jiff for the offset at every minute, and tries every
//! second. Where it and the crate disagree, one of them has misread the specification.

#![allow(dead_code, reason = "every test target compiles this folder and uses its own part of it")]

pub(crate) mod dice;
pub(crate) mod expression;
pub(crate) mod fires;
pub(crate) mod generator;
pub(crate) mod offsets;

pub(crate) const DAY_S: i64 = 86_400;

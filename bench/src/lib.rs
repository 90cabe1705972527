//! What the engine and the store cost, next to the bare limit measured in the same run.
//!
//! Figures move from machine to machine, so each one that has a bare limit is told as a ratio to it too: a prepared
//! statement in a loop over the same rows, in a fresh file with the same settings. Every scenario counts what it did, and
//! a figure that lost or doubled something is no figure.

mod bare;
mod clock;
pub mod command;
mod database;
mod driver;
mod figure;
mod filler;
pub mod machine;
mod outside;
mod place;
mod rows;
pub mod scenarios;
mod served;
mod sizes;

pub use database::Wanted;
pub use figure::Figure;
pub use place::Place;
pub use rows::Order;
pub use sizes::Sizes;

/// Whatever went wrong ends the scenario, and a person reads why.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a scenario answers with.
pub type Figures = Result<Vec<Figure>, Failure>;

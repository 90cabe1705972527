//! What the engine and the store cost, next to the bare limit measured in the same run.
//!
//! Figures differ from machine to machine, so each one that has a bare limit is reported as a ratio to it too: a prepared
//! statement in a loop over the same rows, in a fresh file with the same settings. Every scenario counts its runs, and a
//! figure that lost or doubled one is invalid.

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

pub use database::DatabaseChoice;
pub use figure::Figure;
pub use place::DatabaseFolder;
pub use rows::Order;
pub use sizes::Sizes;

/// Any error ends the scenario; its text is printed for people.
pub type BenchError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a scenario.
pub type Figures = Result<Vec<Figure>, BenchError>;

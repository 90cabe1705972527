//! Handlers for Punctual in Rust.
//!
//! An [`Executor`] offers handlers, which are async functions. It keeps a session with every node, runs what nodes send,
//! and repeats its reports until a node has written them down. The protocol is in `docs/protocol/executor.md`.
//!
//! ```no_run
//! use punctual_executor::{Context, Executor, Failure};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Order {
//!     number: u64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), punctual_executor::Invalid> {
//! Executor::new("shop")
//!     .environment()
//!     .handler("nightly", |_context: Context| async { Ok("42 rows") })
//!     .typed("export", |context: Context, order: Order| async move {
//!         if order.number == 0 {
//!             return Err(Failure::new("there is no order 0").no_retry());
//!         }
//!         context.log(format!("exporting {}", order.number));
//!         Ok(())
//!     })
//!     .run()
//!     .await
//! # }
//! ```
//!
//! - **Fencing**: [`Context::token`] grows with every attempt of a run; pass it to the systems that the handler changes.
//! - **Ends**: a panic is a failure. An attempt that takes longer than its timeout is dropped at its next `await`. One that
//!   is cancelled is notified ([`Context::cancelled`]), and dropped after a grace.
//! - **Stopping**: [`Executor::run_until`] lets running attempts end, and waits until their reports are written down.
//! - **Testing**: [`testing`] runs a handler without a node.

mod attempt;
mod context;
mod coordinator;
mod executor;
mod frames;
mod handler;
mod session;
mod surroundings;
pub mod testing;
mod url;

pub use context::Context;
pub use executor::{Executor, Invalid, Notice};
pub use handler::{AttemptEnd, Done, Failure, Outcome};
pub use punctual_protocol::native::Part;

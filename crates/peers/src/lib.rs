//! The way to the other nodes of the cluster, over HTTP and WebSocket.
//!
//! [`Hints`] tells other nodes what they would otherwise find out later: hints gather in a queue per node while a
//! message is on its way, and the next message takes them all. [`Questions`] asks other nodes for figures and listens
//! to their events. [`open_session`] opens a session at the executors' door of another node, for an executor that
//! this node cannot reach by itself.

mod connection;
mod hints;
mod questions;
mod session;

pub use connection::{ByteStream, Connection};
pub use hints::Hints;
pub use questions::Questions;
pub use session::open_session;

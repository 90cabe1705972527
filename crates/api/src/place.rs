//! The place of a connection: strangers share few of them, and a connection on which somebody was authenticated moves to
//! the places of callers or to those that are kept for executors and other nodes.

use std::sync::Arc;

/// What was found out about the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It showed this token of the API.
    Caller(u32),
    /// It may speak for an app as its executor.
    Executor,
    /// It is another node of this cluster.
    Peer,
}

/// A connection's place, as the accept loop counts it.
pub trait Place: Send + Sync {
    /// A caller on the connection was authenticated.
    fn introduce(&self, standing: Standing);
}

/// The place of a connection, in the extensions of its requests. The connection keeps its place for as long as one of
/// these is there.
#[derive(Clone)]
pub struct Seat(pub Arc<dyn Place>);

impl Seat {
    pub(crate) fn introduce(seat: Option<&Seat>, standing: Standing) {
        if let Some(Seat(place)) = seat {
            place.introduce(standing);
        }
    }
}

//! The place of a connection: unauthenticated connections share few places. When a caller on a connection is
//! authenticated, the connection moves to the places of callers, or to those that are kept for executors and other
//! nodes.

use std::sync::Arc;

/// What is known about the other end of a connection.
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

/// The place of a connection, in the extensions of its requests. The connection keeps its place while one of these
/// exists.
#[derive(Clone)]
pub struct Seat(pub Arc<dyn Place>);

impl Seat {
    pub(crate) fn introduce(seat: Option<&Seat>, standing: Standing) {
        if let Some(Seat(place)) = seat {
            place.introduce(standing);
        }
    }
}

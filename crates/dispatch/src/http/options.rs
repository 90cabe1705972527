//! What can be set about calling agents.

use std::path::PathBuf;
use std::time::Duration;

/// Bounds and habits of the way to agents. The defaults are those of the product.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections of one app to one host (scheme, name and port) at a time; further attempts wait for one.
    pub connections_per_host: usize,
    /// Connections to all hosts together. A node has as many as it makes calls at a time, so that no call that found
    /// a place waits here.
    pub connections: usize,
    /// How long an address may take to connect, TLS included. The attempt's own timeout may be shorter.
    pub connect_timeout: Duration,
    /// How long a name may take to resolve.
    pub resolve_timeout: Duration,
    /// How long a connection is kept without work.
    pub idle_timeout: Duration,
    /// How much of an answer's body becomes the attempt's message.
    pub kept_bytes: usize,
    /// How much more of it is read to keep the connection; a longer one costs the agent its connection.
    pub drained_bytes: usize,
    /// How many jobs' requests are remembered in the form that is sent.
    pub remembered_jobs: usize,
    /// Certificates (PEM) that are trusted beside the public ones.
    pub extra_roots: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connections_per_host: 1_300,
            connections: 1_300,
            connect_timeout: Duration::from_secs(10),
            resolve_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(30),
            kept_bytes: 4 << 10,
            drained_bytes: 64 << 10,
            remembered_jobs: 10_000,
            extra_roots: None,
        }
    }
}

//! What can be set about calling executors.

use std::path::PathBuf;
use std::time::Duration;

/// Bounds and habits of the way to executors. The defaults are those of the product.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections of one app to one host (scheme, name and port) that attempts are sent over; further ones wait. Many executors
    /// take one request at a time, so more would only wait elsewhere.
    pub connections_per_host: usize,
    /// Further connections to one host for everything else, so that no question waits behind attempts.
    pub questions_per_host: usize,
    /// Connections to all hosts together that attempts are sent over. One app holds at most as many as are still free.
    pub connections: usize,
    /// The same for everything else.
    pub questions: usize,
    /// How long an address may take to connect, TLS included.
    pub connect_timeout: Duration,
    /// How long a name may take to resolve.
    pub resolve_timeout: Duration,
    /// How long a connection is kept without work. Some executors close theirs after 5 seconds, and a connection that
    /// is closed while it is used costs an attempt.
    pub idle_timeout: Duration,
    /// How long an attempt may wait for a connection; its job's timeout may be shorter.
    pub queue_timeout: Duration,
    /// How long an executor may take to say whether it takes an attempt, or to send a page of a log.
    pub answer_timeout: Duration,
    /// How long it may take to answer a probe or a kill.
    pub question_timeout: Duration,
    /// How much of an answer is read; a longer one costs the executor its connection.
    pub answer_bytes: usize,
    /// The same for a page of a log.
    pub log_bytes: usize,
    /// How many addresses are remembered in the form that is called.
    pub remembered_addresses: usize,
    /// Certificates (PEM) that are trusted beside the public ones.
    pub extra_roots: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connections_per_host: 32,
            questions_per_host: 8,
            connections: 384,
            questions: 128,
            connect_timeout: Duration::from_secs(3),
            resolve_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(4),
            queue_timeout: Duration::from_secs(15),
            answer_timeout: Duration::from_secs(10),
            question_timeout: Duration::from_secs(3),
            answer_bytes: 64 << 10,
            log_bytes: 1 << 20,
            remembered_addresses: 10_000,
            extra_roots: None,
        }
    }
}

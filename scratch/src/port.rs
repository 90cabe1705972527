//! Ports that nobody listens on, and that stay so.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below are the ports that only the system's own services may have, and many that people chose for theirs.
const LOWEST: u32 = 12_000;

/// Where the system says which ports it gives to connections that go out.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// A loopback port that nobody listens on, and that no connection which goes out is given: who listens there can be killed
/// and find it free again. Who is handed it may still find it taken by another listener, and then asks again.
pub fn free_port() -> u16 {
    static TURN: AtomicU32 = AtomicU32::new(0);
    let count = ephemeral().saturating_sub(LOWEST);
    // Processes begin at places of their own, so that two seldom try the same.
    let start = std::process::id().wrapping_mul(2_654_435_761) >> 8;
    for _ in 0..count {
        let port = LOWEST + start.wrapping_add(TURN.fetch_add(1, Ordering::Relaxed)) % count;
        let port = u16::try_from(port).expect("below the highest");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback address");
    listener.local_addr().expect("it was bound").port()
}

/// The first of the ports that the system gives to connections that go out.
fn ephemeral() -> u32 {
    let range = std::fs::read_to_string(EPHEMERAL).unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(LOWEST).min(65_535)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_differ_and_no_connection_is_given_them() {
        let ports: BTreeSet<u16> = (0..200).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 200);
        let highest = u32::from(*ports.last().unwrap());
        assert!(highest < ephemeral() || ephemeral() <= LOWEST, "{highest}");
    }
}

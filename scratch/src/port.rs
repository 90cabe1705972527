//! Free ports that the system gives to no outgoing connection.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Lower ports belong to the system's services, or are often used by others.
const LOWEST: u32 = 12_000;

/// The range of ports for outgoing connections.
const EPHEMERAL: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// A free loopback port outside the range for outgoing connections, so that a server on it can be killed and started
/// again on the same port. Another process may take it first; then the caller has to ask again.
pub fn free_port() -> u16 {
    static TURN: AtomicU32 = AtomicU32::new(0);
    let count = ephemeral().saturating_sub(LOWEST);
    // Each process starts at another port, so that two seldom try the same.
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

/// The first port for outgoing connections.
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

//! Ports that nobody listens on.

use std::net::TcpListener;

/// A loopback port that was free a moment ago. Who is handed it may still find it taken, and then asks again.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback address");
    listener.local_addr().expect("it was bound").port()
}

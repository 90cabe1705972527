//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Waits until a condition holds, and returns whether it did in time.
pub fn until(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if started.elapsed() > limit {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

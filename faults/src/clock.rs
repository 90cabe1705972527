//! The machine's clock, and waiting for a condition with a deadline.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::history::Millis;

/// The machine's clock.
pub fn now() -> Millis {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

/// Waits until a condition holds, and returns after how long; an error that names the condition after `limit`.
pub async fn until(what: &str, limit: Duration, holds: impl AsyncFn() -> bool) -> Result<Duration, String> {
    let started = Instant::now();
    loop {
        if holds().await {
            return Ok(started.elapsed());
        }
        if started.elapsed() > limit {
            return Err(format!("after {limit:?} still not: {what}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits. Only where the time itself matters, such as the length of a pause.
pub async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

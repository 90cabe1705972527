//! The current time for the person at the command line, and waiting.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use calendar::Timestamp;
use tokio::time::Sleep;

/// The time of the machine's clock.
#[expect(clippy::disallowed_methods, reason = "a person's command begins now")]
pub(crate) fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(0).saturating_add(since_1970)
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "a person waits for the server")]
pub(crate) fn sleep(time: Duration) -> Sleep {
    tokio::time::sleep(time)
}

//! The one real clock. Everything else is told the time.

use std::time::{SystemTime, UNIX_EPOCH};

use calendar::Timestamp;

#[expect(clippy::disallowed_methods, reason = "the one real clock")]
pub(crate) fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(0).saturating_add(since_1970)
}

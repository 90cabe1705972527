//! What time it is for the person at the command line.

use std::time::{SystemTime, UNIX_EPOCH};

use calendar::Timestamp;

/// What the machine's clock says.
#[expect(clippy::disallowed_methods, reason = "a person's command begins now")]
pub(crate) fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(0).saturating_add(since_1970)
}

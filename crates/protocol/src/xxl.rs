//! The protocol of XXL-JOB and Orth executors, byte for byte.
//!
//! They speak several dialects that differ in field names and in what they tolerate. Reading accepts all of them at once;
//! writing produces exactly what the strictest implementation of each takes. What a value means for a run is decided in
//! `dispatch`.
//!
//! ```text
//! executor ─ Registration, Callbacks ─► us ─ answer::{ACCEPTED, refused} ─► executor
//! us ─ Trigger, Question ─► executor ─ Reply, LogPage ─► us
//! ```

pub mod answer;
mod call;
mod callback;
mod log;
mod names;
mod registration;
mod reply;
#[cfg(test)]
mod tests;
mod value;

pub use call::{Orth, Question, Trigger};
pub use callback::{Callback, Callbacks, Ending, ITEMS_MAX, MESSAGE_MAX};
pub use log::LogPage;
pub use names::{GlueType, Strategy};
pub use registration::Registration;
pub use reply::{Nonsense, Reply};

/// The content type of all requests to executors. Some of them check the charset.
pub const CONTENT_TYPE: &str = "application/json;charset=UTF-8";

/// The header with the access token. At least one executor is case-sensitive about it.
pub const ACCESS_TOKEN: &str = "XXL-JOB-ACCESS-TOKEN";
/// The same for Orth.
pub const ORTH_ACCESS_TOKEN: &str = "ORTH-ACCESS-TOKEN";
/// The header that names the app, from 3.5 on. An executor that sends it takes runs at `/trigger`.
pub const APP_NAME: &str = "XXL-JOB-APPNAME";

/// The code of a success.
pub const OK: i64 = 200;
/// The code of a failure.
pub const FAILED: i64 = 500;
/// The code of a timeout.
pub const TIMED_OUT: i64 = 502;

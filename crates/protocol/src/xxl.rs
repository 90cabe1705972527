//! What XXL-JOB and Orth executors say and are told, byte for byte.
//!
//! They speak several dialects that differ in field names and in what they forgive. Reading is tolerant of all of them at
//! once; writing gives each exactly what the pickiest of its implementations takes. What a value means for a run is said
//! where it is understood.
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

/// The content type of everything that is sent to executors. Some look for the charset.
pub const CONTENT_TYPE: &str = "application/json;charset=UTF-8";

/// The header that carries the access token. At least one executor looks it up in exactly this case.
pub const ACCESS_TOKEN: &str = "XXL-JOB-ACCESS-TOKEN";
/// The same for Orth.
pub const ORTH_ACCESS_TOKEN: &str = "ORTH-ACCESS-TOKEN";
/// The header that names the app, from 3.5 on. Whoever sends it wants to be asked by `/trigger`.
pub const APP_NAME: &str = "XXL-JOB-APPNAME";

/// The code of everything that went well.
pub const OK: i64 = 200;
/// The code of everything that did not.
pub const FAILED: i64 = 500;
/// The code of work that did not end in its time.
pub const TIMED_OUT: i64 = 502;

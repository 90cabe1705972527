//! The API: REST, tokens, server-sent events, and the document that describes them.
//!
//! Every route is declared once, in a table of operations (`table.rs` and the files of `routes/`). The router, the
//! check of permissions and the OpenAPI document are made from that table. A request passes the gate (`gate.rs`),
//! which finds out the caller, checks parameters, reads the body and keeps answers that may be asked for again; then
//! its handler reads it (`convert/`), calls the node, and shows the result.

mod app;
mod approach;
mod badge;
mod body;
mod budget;
mod bulk;
mod caller;
mod clock;
mod convert;
mod credential;
mod cursor;
mod events;
mod executors;
mod forecast;
mod gate;
mod logs;
mod openapi;
mod others;
mod place;
mod problem;
mod progress;
mod query;
mod relay;
mod remainder;
mod repeat;
mod router;
mod routes;
mod session;
mod stream;
mod table;
mod token;
mod uncut;

pub use app::{App, CheckTarget, Settings, peer_token};
pub use approach::Proxies;
pub use badge::DEFAULT_TOKEN;
pub use budget::{CallsRefused, Limits, Load};
pub use caller::{Peer, network};
pub use executors::{Executors, LogPage, MayReport, Pass};
pub use logs::{Logbook, Now};
pub use openapi::document;
pub use others::Others;
pub use place::{Place, Seat, Standing};
pub use router::router;
pub use token::{add_admin, add_first_admin, digest, mint};

//! Dispatch: how attempts reach HTTP agents (`http/`), executors that speak XXL-JOB's protocol (`xxl/`), and native
//! executors with a session (`stream/`).
//!
//! [`Agents`] takes attempts, sends each at most once, and reports how it ended. [`Executors`] hands attempts over;
//! the executor later reports to the API how they ended. [`Switch`] chooses between them for each attempt. [`Guard`]
//! decides which addresses may be called at all. [`check`] says what is wrong with a request before it is stored.

mod clock;
mod connect;
mod guard;
mod http;
mod room;
pub mod stream;
mod switch;
pub mod xxl;

use std::time::Duration;

use punctual_node::ports::{Probe, Probed};

pub use self::http::ledger::Sink;
pub use self::http::{Agents, Fault, Options, Setup, check};
pub use guard::{Guard, Refusal, RuleError};
pub use stream::Natives;
pub use switch::Switch;
pub use xxl::Executors;

/// The longest timeout of an attempt: the sum of it and the present instant has to be representable.
const TIMEOUT_MAX: Duration = Duration::from_secs(366 * 86_400);

/// The result of a probe that was not answered.
pub(crate) fn unheard(probe: Probe, reason: &str) -> Probed {
    match probe {
        Probe::Choose { run, attempt, .. } => {
            Probed::Chosen { run, attempt, url: None, said: reason.to_owned().into() }
        }
        Probe::Alive { address } => Probed::Alive { app: address.app, url: address.url, is_there: false },
        Probe::Has { job, address } => Probed::Has { job, app: address.app, url: address.url, has: None },
    }
}

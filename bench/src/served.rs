//! A whole node in a process of its own, an agent that it calls, and the bare loop that calls the same agent.

mod abusers;
mod agent;
mod bare;
mod crew;
mod echo;
mod executor;
mod native;
mod node;
mod share;
mod wire;

pub(crate) use abusers::{Abuse, Abusers, Tokens};
pub(crate) use agent::{Agent, Arrived, HANG, Manner};
pub(crate) use bare::{HELLO, call_in_a_loop};
pub(crate) use crew::Crew;
pub(crate) use echo::{Bare, echo};
pub(crate) use executor::Executor;
pub(crate) use native::{LOOK_OFTEN, LOOK_SELDOM, Native};
pub(crate) use node::{Launch, Served};
pub(crate) use share::Share;
pub(crate) use wire::Certificate;

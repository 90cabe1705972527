//! A whole node in a process of its own, an agent that it calls, and the bare loop that calls the same agent.

mod abusers;
mod agent;
mod bare;
mod bench_executor;
mod echo;
mod native;
mod node;
mod share;
mod wire;
mod xxl_executor;

pub(crate) use abusers::{Abuse, AbuserTokens, Abusers};
pub(crate) use agent::{Agent, Arrived, HANG, Manner};
pub(crate) use bare::{HELLO, call_in_a_loop};
pub(crate) use bench_executor::BenchExecutor;
pub(crate) use echo::{EchoResult, echo};
pub(crate) use native::{LOOK_OFTEN, LOOK_SELDOM, Native};
pub(crate) use node::{Launch, Served};
pub(crate) use share::Share;
pub(crate) use wire::Certificate;
pub(crate) use xxl_executor::XxlExecutor;

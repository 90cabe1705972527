//! A whole node in a process of its own, an agent that it calls, and the bare loop that calls the same agent.

mod agent;
mod bare;
mod executor;
mod node;

pub(crate) use agent::{Agent, Arrived};
pub(crate) use bare::call_in_a_loop;
pub(crate) use executor::Executor;
pub(crate) use node::Served;

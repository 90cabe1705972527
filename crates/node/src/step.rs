//! The steps, one file each. Every step is one round of work; it answers when it wants to be called again.

mod fire;
mod load;
mod plan;
mod reap;
mod renew;
mod retire;
mod settle;
mod tend;
mod unpark;
mod watch;

pub(crate) use renew::Slowness;
pub(crate) use settle::Ended;

//! The ways to break a cluster. Each breaks, waits for what must follow, mends, and waits until the cluster is whole.

pub mod clocks;
pub mod cuts;
pub mod kills;
pub mod pauses;
pub mod servers;
pub mod switches;

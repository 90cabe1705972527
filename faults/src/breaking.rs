//! The ways to break a cluster. Each breaks something, waits for the expected reaction, repairs it, and waits until the
//! cluster is healthy.

pub mod clocks;
pub mod cuts;
pub mod kills;
pub mod pauses;
pub mod servers;
pub mod switches;

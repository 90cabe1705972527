//! Many nodes, one cluster: whose shard it is, until when it may be trusted, and what time it is.

mod assign;
mod lease;
mod time;

pub use assign::{Moves, chosen, home, moves, spread};
pub use lease::{Boot, Tenure};
pub use time::{ClusterTime, STEP, Stepped};

//! The agenda: when each kind of work was last done, and until when some of it rests.

use calendar::Timestamp;

use crate::ports::Boot;
use crate::retention::Thinning;
use crate::step::Slowness;

/// Moments that steps go by.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Until then the store is left alone.
    pub(crate) paused_until: Boot,
    /// How often in a row the store did not do what it was asked.
    pub(crate) failures: u32,
    pub(crate) slowness: Slowness,
    /// Until then nothing is fired.
    pub(crate) held_until: Boot,
    /// Every fire time up to here was planned: all jobs of all shards we hold were looked at.
    pub(crate) planned_through: Timestamp,
    /// Whether the last round of firing left something that is due.
    pub(crate) has_more_due: bool,
    /// Until when reports wait, for sends to go first.
    pub(crate) settles_by: Option<Boot>,
    /// Whether tending comes again soon, to write down what is on its way without a gate.
    pub(crate) tends_soon: bool,
    pub(crate) swept_at: Option<Boot>,
    pub(crate) pruned_at: Option<Boot>,
    /// Days that are looked through for runs that are old.
    pub(crate) thinning: Thinning,
    /// When the registry was last read from the store.
    pub(crate) looked_at: Option<Boot>,
    /// When the store was last told of the executors that have a session here.
    pub(crate) beaten_at: Option<Boot>,
    /// When the store was last cleared of executors that are gone.
    pub(crate) buried_at: Option<Boot>,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            paused_until: Boot::default(),
            failures: 0,
            slowness: Slowness::default(),
            held_until: Boot::default(),
            planned_through: Timestamp::MIN,
            has_more_due: false,
            settles_by: None,
            tends_soon: false,
            swept_at: None,
            pruned_at: None,
            thinning: Thinning::default(),
            looked_at: None,
            beaten_at: None,
            buried_at: None,
        }
    }
}

//! The limit of one-shots that wait in memory to be written; beyond it callers are asked to come again (429).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::DeskError;

/// How many runs may wait, of all callers together.
const MOST: usize = 100_000;

/// The runs that callers have handed over and that are not written yet.
#[derive(Default)]
pub(crate) struct Crowd(AtomicUsize);

/// Room taken for `count` runs; dropping it gives the room back.
pub(crate) struct CrowdPlace<'c> {
    crowd: &'c Crowd,
    count: usize,
}

impl Crowd {
    /// Takes room for `count` runs. A caller that finds nothing waiting is let in with any number.
    pub(crate) fn enter(&self, count: usize) -> Result<CrowdPlace<'_>, DeskError> {
        let before = self.0.fetch_add(count, Ordering::Relaxed);
        let place = CrowdPlace { crowd: self, count };
        if before > 0 && before.saturating_add(count) > MOST {
            return Err(DeskError::Busy(format!("{before} runs wait to be written").into()));
        }
        Ok(place)
    }
}

impl Drop for CrowdPlace<'_> {
    fn drop(&mut self) {
        self.crowd.0.fetch_sub(self.count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_brings_more_than_may_wait_is_to_come_again() {
        let crowd = Crowd::default();
        let alone = crowd.enter(MOST + 1);
        assert!(alone.is_ok());
        assert!(matches!(crowd.enter(1), Err(DeskError::Busy(_))));
        drop(alone);
        let first = crowd.enter(MOST - 1);
        assert!(first.is_ok() && crowd.enter(1).is_ok());
        assert!(matches!(crowd.enter(2), Err(DeskError::Busy(_))));
        drop(first);
        assert!(crowd.enter(MOST).is_ok(), "who was refused has taken no room");
    }
}

//! How many wait to be written. What waits lies in memory, so there is an end to it, and whoever comes then is to come again.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::DeskError;

/// How many runs may wait, of all who hand some over.
const MOST: usize = 100_000;

/// Those who hand over runs and wait for the answer.
#[derive(Default)]
pub(crate) struct Crowd(AtomicUsize);

/// Room for so many, until somebody has waited long enough.
pub(crate) struct Place<'c> {
    crowd: &'c Crowd,
    count: usize,
}

impl Crowd {
    /// Lets so many in; whoever comes first with any number.
    pub(crate) fn enter(&self, count: usize) -> Result<Place<'_>, DeskError> {
        let before = self.0.fetch_add(count, Ordering::Relaxed);
        let place = Place { crowd: self, count };
        if before > 0 && before.saturating_add(count) > MOST {
            return Err(DeskError::Busy(format!("{before} runs wait to be written").into()));
        }
        Ok(place)
    }
}

impl Drop for Place<'_> {
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

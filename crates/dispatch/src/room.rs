//! Room for connections, shared between apps: how many may be open in all, and which app gets the next one.
//!
//! Where room is scarce, the app with the fewest connections is served first. Where shares are kept, an app holds at
//! most as many as are still free (a dynamic threshold with factor 1), so that something is left for the next app.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::http::ledger::locked;

/// The name of an app.
pub(crate) type AppName = Arc<str>;

/// What one app may hold of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// All of it: another part of the node limits what each app takes.
    Whole,
    /// As much as is still free.
    OfFree,
}

pub(crate) struct Room {
    share: Share,
    state: Mutex<State>,
}

struct State {
    free: usize,
    held: BTreeMap<AppName, usize>,
    waiting: BTreeMap<AppName, VecDeque<Arc<Notify>>>,
}

/// The right to have one connection. It is given back when it is dropped.
pub(crate) struct Permit {
    room: Arc<Room>,
    app: AppName,
}

/// A line that waits for room.
pub(crate) struct RoomWaiting {
    room: Arc<Room>,
    app: AppName,
    bell: Arc<Notify>,
    is_over: bool,
}

impl State {
    fn held_by(&self, app: &str) -> usize {
        self.held.get(app).copied().unwrap_or(0)
    }

    fn may_take(&self, share: Share, app: &str) -> bool {
        match share {
            Share::Whole => self.free > 0,
            Share::OfFree => self.held_by(app) < self.free,
        }
    }

    fn take(&mut self, app: &AppName) {
        self.free -= 1;
        *self.held.entry(Arc::clone(app)).or_default() += 1;
    }

    fn give_back(&mut self, app: &str) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(app) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(app);
            }
        }
    }

    /// Gives room to waiting lines while there is any.
    fn serve(&mut self, share: Share) {
        loop {
            let may = |app: &&AppName| self.may_take(share, app);
            let next = self.waiting.keys().filter(may).min_by_key(|app| self.held_by(app)).cloned();
            let Some(app) = next else { return };
            let Some(queue) = self.waiting.get_mut(&app) else { return };
            let bell = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&app);
            }
            if let Some(bell) = bell {
                self.take(&app);
                bell.notify_one();
            }
        }
    }
}

impl Room {
    pub(crate) fn new(connections: usize, share: Share) -> Arc<Room> {
        let state = State { free: connections, held: BTreeMap::new(), waiting: BTreeMap::new() };
        Arc::new(Room { share, state: Mutex::new(state) })
    }

    /// Room for a connection of the app, or a place in the queue for it.
    pub(crate) fn take(self: &Arc<Room>, app: &AppName) -> Result<Permit, RoomWaiting> {
        let mut state = locked(&self.state);
        if state.may_take(self.share, app) {
            state.take(app);
            return Ok(Permit { room: Arc::clone(self), app: Arc::clone(app) });
        }
        let bell = Arc::new(Notify::new());
        state.waiting.entry(Arc::clone(app)).or_default().push_back(Arc::clone(&bell));
        Err(RoomWaiting { room: Arc::clone(self), app: Arc::clone(app), bell, is_over: false })
    }

    /// Whether closing a connection of the app would help a waiting line: one of the same app, or any if nothing is
    /// free.
    pub(crate) fn is_crowded_for(&self, app: &str) -> bool {
        let state = locked(&self.state);
        state.waiting.contains_key(app) || state.free == 0 && !state.waiting.is_empty()
    }
}

impl RoomWaiting {
    /// Waits until there is room.
    pub(crate) async fn permit(mut self) -> Permit {
        self.bell.notified().await;
        self.is_over = true;
        Permit { room: Arc::clone(&self.room), app: Arc::clone(&self.app) }
    }
}

impl Drop for RoomWaiting {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = locked(&self.room.state);
        let queue = state.waiting.get_mut(&self.app);
        let place =
            queue.as_ref().and_then(|queue| queue.iter().position(|bell| Arc::ptr_eq(bell, &self.bell)));
        match (queue, place) {
            (Some(queue), Some(place)) => {
                queue.remove(place);
                if queue.is_empty() {
                    state.waiting.remove(&self.app);
                }
            }
            // It was served at the very moment at which it stopped waiting.
            _ => {
                state.give_back(&self.app);
                state.serve(self.room.share);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = locked(&self.room.state);
        state.give_back(&self.app);
        state.serve(self.room.share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(name: &str) -> AppName {
        name.into()
    }

    #[test]
    fn no_app_takes_more_than_is_left() {
        let room = Room::new(8, Share::OfFree);
        let mut kept: Vec<Permit> = (0..8).filter_map(|_| room.take(&app("hanging")).ok()).collect();
        assert_eq!(kept.len(), 4);
        kept.extend((0..8).filter_map(|_| room.take(&app("other")).ok()));
        assert_eq!(kept.len(), 6);
        kept.extend(room.take(&app("third")).ok());
        assert_eq!(kept.len(), 7);
    }

    #[test]
    fn whoever_waits_is_served_by_how_little_its_app_holds() {
        let room = Room::new(3, Share::Whole);
        let mut kept: Vec<Permit> = (0..3).filter_map(|_| room.take(&app("large")).ok()).collect();
        let large = room.take(&app("large")).err().expect("nothing is free");
        let small = room.take(&app("small")).err().expect("nothing is free");
        assert!(room.is_crowded_for("large") && room.is_crowded_for("third"));
        kept.pop();
        let state = locked(&room.state);
        assert_eq!((state.held_by("large"), state.held_by("small")), (2, 1));
        drop(state);
        // It is given back before the waiting line noticed it, so the next line gets it.
        drop(small);
        assert_eq!(locked(&room.state).held_by("large"), 3);
        drop((large, kept));
        assert!(!room.is_crowded_for("large"));
        assert_eq!(locked(&room.state).free, 3);
    }
}

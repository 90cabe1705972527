//! Apps and their executors: which registered, and what people set.

use std::collections::btree_map::Entry;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::Text;
use punctual_node::ports::{AppRow, Beat, ExecutorRow, Paused, Registered, StoreError};

use super::state::State;

impl State {
    pub(super) fn registered(&self) -> Registered {
        Registered {
            apps: self.apps.values().cloned().collect(),
            executors: self.executors.values().cloned().collect(),
        }
    }

    pub(super) fn beat(&mut self, now: Timestamp, beats: Vec<Beat>) {
        for Beat { app, address, dialect } in beats {
            self.ensure_app(&app);
            match self.executors.entry((app.clone(), address.clone())) {
                Entry::Vacant(gap) => {
                    gap.insert(ExecutorRow { app, address, dialect, beat_at: now, joined_at: now });
                }
                Entry::Occupied(mut there) => {
                    let row = there.get_mut();
                    (row.dialect, row.beat_at) = (dialect, now);
                }
            }
        }
    }

    /// An app that was not created yet gets a row, so that people find it.
    pub(super) fn ensure_app(&mut self, name: &str) {
        if !self.apps.contains_key(name) {
            let name = Text::from(name.to_owned());
            let row = AppRow {
                name: name.clone(),
                title: Text::default(),
                addresses: None,
                access_token: None,
                retention: None,
                paused: None,
                version: 1,
            };
            self.apps.insert(name, row);
        }
    }

    pub(super) fn forget_executor(&mut self, app: &str, address: &str) -> bool {
        self.executors.remove(&(app.to_owned().into(), address.to_owned().into())).is_some()
    }

    pub(super) fn bury(&mut self, now: Timestamp, dead: Duration) -> Vec<(Text, Text)> {
        // A beat from before the clock was set back is not waited for until the clock has caught up.
        self.executors.values_mut().for_each(|row| row.beat_at = row.beat_at.min(now));
        let is_dead = |row: &ExecutorRow| row.beat_at.saturating_add(dead) < now;
        self.executors.extract_if(.., |_, row| is_dead(row)).map(|(key, _)| key).collect()
    }

    pub(super) fn put_app(&mut self, app: AppRow, expected: Option<u64>) -> Result<u64, StoreError> {
        let before = self.apps.get(&app.name);
        let there = before.map_or(0, |app| app.version);
        let paused = before.and_then(|app| app.paused.clone());
        if let Some(expected) = expected.filter(|expected| *expected != there) {
            let said = format!("app {} has version {there}, not {expected}", app.name);
            return Err(StoreError::Conflict(said.into()));
        }
        let version = there + 1;
        self.apps.insert(app.name.clone(), AppRow { version, paused, ..app });
        Ok(version)
    }

    pub(super) fn pause_app(&mut self, name: &str, paused: Option<Paused>) -> Option<AppRow> {
        let app = self.apps.get_mut(name)?;
        if app.paused.is_some() != paused.is_some() {
            app.paused = paused;
            app.version += 1;
        }
        Some(app.clone())
    }

    pub(super) fn remove_app(&mut self, name: &str) -> Result<bool, StoreError> {
        let first = (name.to_owned(), String::new());
        if let Some(((app, _), job)) = self.names.range(first..).next()
            && app == name
        {
            return Err(StoreError::Conflict(format!("app {name} has jobs, such as job {job}").into()));
        }
        self.executors.retain(|(app, _), _| app != name);
        Ok(self.apps.remove(name).is_some())
    }
}

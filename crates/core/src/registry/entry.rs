//! One app of the registry with its executors.
//!
//! An executor is kept here while it beats or while people list it, and is forgotten otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;

use super::{Addresses, App, Beat, Change, ChangeKind, Dialect, Health, RegisteredExecutor, is_longer};

#[derive(Debug)]
pub(super) struct AppEntry {
    pub(super) app: App,
    /// The version of what is routable; 0 before the first change.
    pub(super) version: u64,
    /// By address, which is the order in which an app with automatic addresses is routed.
    executors: BTreeMap<Arc<str>, RegisteredExecutor>,
    definition: Definition,
}

/// Where the definition of an app comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Definition {
    /// It has none: its executors beat, and that is all.
    Nobody,
    /// A request to this node, at this time.
    Here(Timestamp),
    /// The store.
    Store,
}

/// What a snapshot says about one app.
#[derive(Debug, Default)]
pub(super) struct AppSnapshot {
    pub(super) app: Option<App>,
    pub(super) beats: Vec<Beat>,
}

impl AppEntry {
    /// An app without a definition.
    pub(super) fn new(name: &str) -> AppEntry {
        let definition = Definition::Nobody;
        AppEntry { app: App::auto(name), version: 0, executors: BTreeMap::new(), definition }
    }

    /// Takes a definition that came in a request to this node.
    pub(super) fn define_here(&mut self, app: App, at: Timestamp) {
        self.define(app, at);
        self.definition = Definition::Here(at);
    }

    fn define(&mut self, app: App, at: Timestamp) {
        self.app = app;
        self.executors.values_mut().for_each(|executor| executor.is_listed = false);
        if let Addresses::Manual(listed) = &self.app.addresses {
            for address in listed {
                known_or_new(&mut self.executors, address, at).is_listed = true;
            }
        }
        self.executors.retain(|_, executor| executor.is_beating() || executor.is_listed);
    }

    pub(super) fn hear(&mut self, address: &str, dialect: Dialect, at: Timestamp) -> Option<ChangeKind> {
        known_or_new(&mut self.executors, address, at).hear(dialect, at)
    }

    /// Takes out the beat of an address; whether there was one.
    pub(super) fn lose(&mut self, address: &str) -> bool {
        let Some(executor) = self.executors.get_mut(address) else { return false };
        let was_beating = executor.last_beat.take().is_some();
        executor.is_late = false;
        if !executor.is_listed {
            self.executors.remove(address);
        }
        was_beating
    }

    pub(super) fn sweep(&mut self, now: Timestamp, dead: Duration) -> Vec<Change> {
        // A beat from the future counts as one of now, so that no executor lives for ever after the clock went back.
        let in_the_past =
            |executor: &mut RegisteredExecutor| executor.last_beat = executor.last_beat.map(|at| at.min(now));
        self.executors.values_mut().for_each(in_the_past);
        let is_dead = |last: Timestamp| is_longer(last, now, dead);
        self.lose_each(|_, last| is_dead(last).then_some(ChangeKind::Died))
    }

    pub(super) fn missed(&mut self, now: Timestamp, patience: Duration) -> Vec<Change> {
        let is_silent = |last: Timestamp| is_longer(last, now, patience);
        let is_missed = |executor: &&mut RegisteredExecutor| {
            !executor.is_late && executor.last_beat.is_some_and(is_silent)
        };
        let (app, late) = (&self.app.name, self.executors.values_mut().filter(is_missed));
        late.map(|executor| {
            executor.is_late = true;
            Change { app: app.clone(), address: executor.address.clone(), kind: ChangeKind::Missed }
        })
        .collect()
    }

    pub(super) fn replace(
        &mut self,
        now: Timestamp,
        told: AppSnapshot,
        began: Timestamp,
        dead: Duration,
    ) -> Vec<Change> {
        if !matches!(self.definition, Definition::Here(at) if at >= began) {
            self.definition = if told.app.is_some() { Definition::Store } else { Definition::Nobody };
            self.define(told.app.unwrap_or_else(|| App::auto(&self.app.name)), began);
        }
        let known: BTreeSet<&str> = told.beats.iter().map(|beat| &*beat.address).collect();
        let mut changes = self.lose_each(|address, last| {
            let kind = if is_longer(last, now, dead) { ChangeKind::Died } else { ChangeKind::Left };
            (last < began && !known.contains(address)).then_some(kind)
        });
        for beat in &told.beats {
            let kind = self.hear(&beat.address, beat.dialect, beat.at);
            changes.extend(kind.map(|kind| self.changed(&beat.address, kind)));
        }
        changes
    }

    /// Whether nothing is left to remember: no definition and no executors.
    pub(super) fn is_forgotten(&self) -> bool {
        self.definition == Definition::Nobody && self.executors.is_empty()
    }

    /// Makes a change, and raises the version if it changed what is routable.
    pub(super) fn watch<T>(&mut self, version: &mut u64, change: impl FnOnce(&mut AppEntry) -> T) -> T {
        let before: Vec<(Arc<str>, Dialect)> =
            self.routable().map(|(address, how)| (address.clone(), how)).collect();
        let result = change(self);
        let is_same = self.routable().eq(before.iter().map(|(address, how)| (address, *how)));
        if !is_same || self.version == 0 {
            *version += 1;
            self.version = *version;
        }
        result
    }

    pub(super) fn routable(&self) -> impl Iterator<Item = (&Arc<str>, Dialect)> {
        let (listed, is_auto) = match &self.app.addresses {
            Addresses::Auto => (&[][..], true),
            Addresses::Manual(listed) => (&listed[..], false),
        };
        let listed = listed.iter().filter_map(|address| self.executor(address));
        let beating = self.executors.values().filter(move |_| is_auto);
        let open = listed.chain(beating).filter(|executor| self.is_routable(executor));
        open.map(|executor| (&executor.address, executor.dialect))
    }

    /// The dialect of this address, if runs may be sent there.
    pub(super) fn route(&self, address: &str) -> Option<Dialect> {
        let executor = self.executor(address)?;
        self.is_routable(executor).then_some(executor.dialect)
    }

    pub(super) fn executors(&self) -> impl ExactSizeIterator<Item = &RegisteredExecutor> {
        self.executors.values()
    }

    pub(super) fn executor(&self, address: &str) -> Option<&RegisteredExecutor> {
        self.executors.get(address)
    }

    pub(super) fn executor_mut(&mut self, address: &str) -> Option<&mut RegisteredExecutor> {
        self.executors.get_mut(address)
    }

    pub(super) fn changed(&self, address: &Arc<str>, kind: ChangeKind) -> Change {
        Change { app: self.app.name.clone(), address: address.clone(), kind }
    }

    fn is_routable(&self, executor: &RegisteredExecutor) -> bool {
        let is_there = match self.app.addresses {
            Addresses::Auto => executor.is_beating(),
            Addresses::Manual(_) => executor.is_listed,
        };
        is_there && executor.health() == Health::Good
    }

    /// Takes out the executors for which `why`, given the address and the last beat, names a reason.
    fn lose_each(&mut self, why: impl Fn(&str, Timestamp) -> Option<ChangeKind>) -> Vec<Change> {
        let why = |executor: &RegisteredExecutor| why(&executor.address, executor.last_beat?);
        let lost =
            self.executors().filter_map(|executor| Some(self.changed(&executor.address, why(executor)?)));
        let lost: Vec<Change> = lost.collect();
        lost.iter().for_each(|change| _ = self.lose(&change.address));
        lost
    }
}

fn known_or_new<'a>(
    executors: &'a mut BTreeMap<Arc<str>, RegisteredExecutor>,
    address: &str,
    since: Timestamp,
) -> &'a mut RegisteredExecutor {
    // Looked up first: most beats are of known executors and need no new key.
    if !executors.contains_key(address) {
        let executor = RegisteredExecutor::new(address, since);
        executors.insert(executor.address.clone(), executor);
    }
    executors.get_mut(address).expect("it is known or was put there")
}

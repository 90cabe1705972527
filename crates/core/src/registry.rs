//! The registry: which executors are registered, app by app, and which of them may be sent runs.
//!
//! Executors prove that they are alive by *beats*; nodes find out by *probes* whether they can be reached. The two are
//! kept apart: an executor that beats while its port is closed to us is alive and is still sent nothing. Every change
//! takes effect at once, not with the next round of a monitor.
//!
//! The registry is what one node knows. Beats that the node receives are written to the store, then noted by
//! [`Registry::beat`] and [`Registry::leave`]; what other nodes received comes from the store by [`Registry::replace`].

mod entry;
mod executor;
mod secret;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;

use entry::{AppEntry, AppSnapshot};
pub use executor::{Dialect, Health, RegisteredExecutor};
pub use secret::Secret;

/// A named group of executors that offer the same handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// Its name, as executors register under it.
    pub name: Arc<str>,
    /// Its name for people.
    pub title: String,
    /// Where its executors are.
    pub addresses: Addresses,
    /// The access token that nodes and executors of this app show each other, if the app has one of its own.
    pub access_token: Option<Secret>,
}

impl App {
    /// An app without a definition: its executors register themselves.
    pub fn auto(name: &str) -> App {
        App { name: name.into(), title: String::new(), addresses: Addresses::Auto, access_token: None }
    }
}

/// How the addresses of an app's executors are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// The addresses that executors register, in ascending order.
    #[default]
    Auto,
    /// The addresses that people listed, in that order. Beats are remembered and have no effect.
    Manual(Vec<String>),
}

/// A change of one executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The app of the executor.
    pub app: Arc<str>,
    /// The executor's address.
    pub address: Arc<str>,
    /// What changed.
    pub kind: ChangeKind,
}

/// What can change about an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Its first beat, or the first after it had left or died.
    Joined,
    /// It signed off, here or at another node, or its app was removed.
    Left,
    /// It was silent for too long.
    Died,
    /// A beat is missing. Reported once until the next beat.
    Missed,
    /// It could not be reached twice in a row, and is sent no runs.
    Suspected,
    /// It could be reached again.
    Recovered,
}

impl ChangeKind {
    /// Its name for people and programs outside.
    pub const fn name(self) -> &'static str {
        match self {
            ChangeKind::Joined => "joined",
            ChangeKind::Left => "left",
            ChangeKind::Died => "died",
            ChangeKind::Missed => "missed",
            ChangeKind::Suspected => "suspected",
            ChangeKind::Recovered => "recovered",
        }
    }
}

/// What the store says about apps and executors.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When the read began. The snapshot may lack what this node received since then.
    pub began: Timestamp,
    /// All apps that are defined.
    pub apps: Vec<App>,
    /// The latest beat of every executor.
    pub beats: Vec<Beat>,
}

/// A beat as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The app of the executor.
    pub app: Arc<str>,
    /// The executor's address.
    pub address: Arc<str>,
    /// The dialect of the beat.
    pub dialect: Dialect,
    /// When the beat was received.
    pub at: Timestamp,
}

/// All apps and their executors, as far as this node knows.
#[derive(Debug, Default)]
pub struct Registry {
    apps: BTreeMap<Arc<str>, AppEntry>,
    /// Apps and addresses that were removed here and may still be in a snapshot whose read began before.
    gone: BTreeMap<(Arc<str>, Option<Arc<str>>), Timestamp>,
    version: u64,
}

impl Registry {
    /// Defines an app or changes its definition. What is known of its executors stays.
    pub fn put_app(&mut self, app: App, at: Timestamp) {
        let name = app.name.clone();
        self.watch(&name, |entry| entry.define_here(app, at));
    }

    /// Removes an app with its executors. One that beats again brings it back, with [`Addresses::Auto`].
    pub fn remove_app(&mut self, app: &str, at: Timestamp) -> Vec<Change> {
        self.gone.insert((app.into(), None), at);
        let Some(entry) = self.apps.remove(app) else { return Vec::new() };
        let beating = entry.executors().filter(|executor| executor.is_beating());
        beating.map(|executor| entry.changed(&executor.address, ChangeKind::Left)).collect()
    }

    /// Notes a beat. An unknown app is created with [`Addresses::Auto`].
    pub fn beat(&mut self, app: &str, address: &str, dialect: Dialect, at: Timestamp) -> Option<Change> {
        if !self.apps.contains_key(app) {
            self.watch(&app.into(), |_| ());
        }
        self.change(app, address, |entry| entry.hear(address, dialect, at))
    }

    /// Notes that an executor signed off. It is sent nothing from now on, unless people listed it.
    pub fn leave(&mut self, app: &str, address: &str, at: Timestamp) -> Option<Change> {
        // Also if it is unknown here: a snapshot that is being read may contain it.
        self.gone.insert((app.into(), Some(address.into())), at);
        self.change(app, address, |entry| entry.lose(address).then_some(ChangeKind::Left))
    }

    /// Removes the executors that were silent for longer than `dead`. They may beat at other nodes, so the caller reads the
    /// store first, and removes nothing while the store does not answer.
    pub fn sweep(&mut self, now: Timestamp, dead: Duration) -> Vec<Change> {
        self.gone.retain(|_, at| !is_longer(*at, now, dead));
        let mut changes = Vec::new();
        for entry in self.apps.values_mut() {
            changes.extend(entry.watch(&mut self.version, |entry| entry.sweep(now, dead)));
        }
        changes
    }

    /// Reports the executors that missed a beat, each once until it beats again. Beats are expected every `beat` and are
    /// never quite on time, so one counts as missed when the next is due as well.
    pub fn missed(&mut self, now: Timestamp, beat: Duration) -> Vec<Change> {
        self.apps.values_mut().flat_map(|entry| entry.missed(now, beat.saturating_mul(2))).collect()
    }

    /// Notes whether an executor could be reached by a probe or a send that began `at`. Two failures in a row make it
    /// suspect. Only a success clears that: a beat says that it is alive, not that it can be reached from here. An executor
    /// that joins anew is a new process, and what was found out about the old one is forgotten.
    pub fn probed(&mut self, app: &str, address: &str, ok: bool, at: Timestamp) -> Option<Change> {
        self.change(app, address, |entry| entry.executor_mut(address)?.probed(ok, at))
    }

    /// Notes the dialect that an executor turned out to speak. It holds until its beats name another dialect than before.
    pub fn learn_dialect(&mut self, app: &str, address: &str, dialect: Dialect) {
        self.change(app, address, |entry| {
            entry.executor_mut(address)?.dialect = dialect;
            None
        });
    }

    /// Merges a snapshot of the store. The newer beat wins, and so does every definition, sign-off and beat that this node
    /// noted since the read of the snapshot began. Beats older than `dead` are ignored.
    pub fn replace(&mut self, now: Timestamp, snapshot: Snapshot, dead: Duration) -> Vec<Change> {
        let began = snapshot.began;
        self.gone.retain(|_, at| *at >= began);
        let mut told = self.sort(now, snapshot, dead);
        let names: BTreeSet<Arc<str>> = self.apps.keys().chain(told.keys()).cloned().collect();
        let mut changes = Vec::new();
        for name in names {
            let told = told.remove(&name).unwrap_or_default();
            changes.extend(self.watch(&name, |entry| entry.replace(now, told, began, dead)));
        }
        self.apps.retain(|_, entry| !entry.is_forgotten());
        changes
    }

    /// The executors of an app that may be sent runs, in the order in which routes choose.
    pub fn routable(&self, app: &str) -> impl Iterator<Item = (&Arc<str>, Dialect)> {
        self.apps.get(app).into_iter().flat_map(AppEntry::routable)
    }

    /// A number that changes whenever the answer of [`Registry::routable`] for this app changes, and that is never used
    /// twice. 0 while the app is unknown.
    pub fn version(&self, app: &str) -> u64 {
        self.apps.get(app).map_or(0, |entry| entry.version)
    }

    /// All apps, by name.
    pub fn apps(&self) -> impl Iterator<Item = &App> {
        self.apps.values().map(|entry| &entry.app)
    }

    /// One app.
    pub fn app(&self, name: &str) -> Option<&App> {
        self.apps.get(name).map(|entry| &entry.app)
    }

    /// All executors of an app, by address: those that beat, and those that people listed.
    pub fn executors(&self, app: &str) -> impl Iterator<Item = &RegisteredExecutor> {
        self.apps.get(app).into_iter().flat_map(AppEntry::executors)
    }

    /// One executor.
    pub fn executor(&self, app: &str, address: &str) -> Option<&RegisteredExecutor> {
        self.apps.get(app)?.executor(address)
    }

    /// The executors that are sent nothing until a probe reaches them, each with its app.
    pub fn suspects(&self) -> impl Iterator<Item = (&App, &RegisteredExecutor)> {
        let all =
            self.apps.values().flat_map(|entry| entry.executors().map(|executor| (&entry.app, executor)));
        all.filter(|(_, executor)| executor.health() == Health::Suspect)
    }

    /// Number of known executors in all apps. Executors whose address changes with every start make it grow.
    pub fn executor_count(&self) -> usize {
        self.apps.values().map(|entry| entry.executors().len()).sum()
    }

    /// Number of known executors of an app.
    pub fn executors_of(&self, app: &str) -> usize {
        self.apps.get(app).map_or(0, |entry| entry.executors().len())
    }

    /// Changes an app, creating it if it is unknown, and its version if what is routable has changed.
    fn watch<T>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut AppEntry) -> T) -> T {
        let entry = self.apps.entry(name.clone()).or_insert_with(|| AppEntry::new(name));
        entry.watch(&mut self.version, change)
    }

    /// Changes what is known about one address, and the version if what is routable has changed.
    fn change(
        &mut self,
        app: &str,
        address: &str,
        change: impl FnOnce(&mut AppEntry) -> Option<ChangeKind>,
    ) -> Option<Change> {
        let entry = self.apps.get_mut(app)?;
        let before = entry.route(address);
        let kind = change(entry);
        if entry.route(address) != before {
            self.version += 1;
            entry.version = self.version;
        }
        kind.map(|kind| entry.changed(&address.into(), kind))
    }

    /// The snapshot by app, without what was removed since its read began and without beats that are too old.
    fn sort(&self, now: Timestamp, snapshot: Snapshot, dead: Duration) -> BTreeMap<Arc<str>, AppSnapshot> {
        let mut told: BTreeMap<Arc<str>, AppSnapshot> = BTreeMap::new();
        for app in snapshot.apps {
            if !self.gone.contains_key(&(app.name.clone(), None)) {
                let of_its_name = told.entry(app.name.clone()).or_default();
                of_its_name.app = Some(app);
            }
        }
        for beat in snapshot.beats {
            if !is_longer(beat.at, now, dead) && !self.is_gone(&beat) {
                told.entry(beat.app.clone()).or_default().beats.push(beat);
            }
        }
        told
    }

    fn is_gone(&self, beat: &Beat) -> bool {
        let keys = [(beat.app.clone(), None), (beat.app.clone(), Some(beat.address.clone()))];
        keys.iter().any(|key| self.gone.get(key).is_some_and(|at| beat.at <= *at))
    }
}

/// Whether more than `limit` passed from one instant to the other.
fn is_longer(from: Timestamp, to: Timestamp, limit: Duration) -> bool {
    to > from.saturating_add(limit)
}

#[cfg(test)]
mod tests;

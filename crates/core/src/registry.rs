//! The registry: which executors are there, app by app, and which of them runs may be sent to.
//!
//! Executors say that they live by *beats*. Whether they can be reached is found out by *probes*, and the two are
//! told apart: an executor that beats while its port is closed to us is alive and still gets nothing. A change
//! counts at once; nobody waits for a monitor to come by.
//!
//! The registry is what one node knows. What it hears itself it is told by [`Registry::beat`] and
//! [`Registry::leave`], after the store knows it; what others heard comes from the store by [`Registry::replace`].

mod entry;
mod executor;
mod secret;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;

use entry::{Entry, Told};
pub use executor::{Dialect, Executor, Health};
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
    /// What its executors and we show each other, if it has a token of its own.
    pub access_token: Option<Secret>,
}

impl App {
    /// An app that nobody defined: its executors register themselves.
    pub fn auto(name: &str) -> App {
        App { name: name.into(), title: String::new(), addresses: Addresses::Auto, access_token: None }
    }
}

/// Where the executors of an app are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// Where they say they are, in ascending order.
    #[default]
    Auto,
    /// Where people say they are, in that order. Beats are remembered and count for nothing.
    Manual(Vec<String>),
}

/// Something that became of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its app.
    pub app: Arc<str>,
    /// Its address.
    pub address: Arc<str>,
    /// What.
    pub kind: ChangeKind,
}

/// What may become of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Its first beat, or the first after it had left or died.
    Joined,
    /// It said goodbye, here or to another node, or its app was removed.
    Left,
    /// It was silent for too long.
    Died,
    /// A beat did not come. It is told once until the next beat.
    Missed,
    /// It could not be reached twice in a row, and gets no runs.
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
    /// When reading it began: whatever was heard here since then, it may not know.
    pub began: Timestamp,
    /// All apps that are defined.
    pub apps: Vec<App>,
    /// The latest beat of every executor.
    pub beats: Vec<Beat>,
}

/// A beat as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Whose app.
    pub app: Arc<str>,
    /// Whose.
    pub address: Arc<str>,
    /// How it spoke.
    pub dialect: Dialect,
    /// When.
    pub at: Timestamp,
}

/// All apps and their executors, as far as this node knows.
#[derive(Debug, Default)]
pub struct Registry {
    apps: BTreeMap<Arc<str>, Entry>,
    /// What left here and may still be in a snapshot that began before: an app, or one address of it.
    gone: BTreeMap<(Arc<str>, Option<Arc<str>>), Timestamp>,
    version: u64,
}

impl Registry {
    /// Defines an app, or defines it differently. What is known of its executors stays.
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

    /// Hears a beat. An unknown app is created with [`Addresses::Auto`].
    pub fn beat(&mut self, app: &str, address: &str, dialect: Dialect, at: Timestamp) -> Option<Change> {
        if !self.apps.contains_key(app) {
            self.watch(&app.into(), |_| ());
        }
        self.change(app, address, |entry| entry.hear(address, dialect, at))
    }

    /// Hears that an executor goes. It gets nothing from now on, unless people listed it.
    pub fn leave(&mut self, app: &str, address: &str, at: Timestamp) -> Option<Change> {
        // Also when it is not known here: a snapshot that is being read may bring it.
        self.gone.insert((app.into(), Some(address.into())), at);
        self.change(app, address, |entry| entry.lose(address).then_some(ChangeKind::Left))
    }

    /// Takes out the executors that were silent for longer than `dead`. Others may beat at other nodes, so the store
    /// is asked before, and nobody is swept while it does not answer.
    pub fn sweep(&mut self, now: Timestamp, dead: Duration) -> Vec<Change> {
        self.gone.retain(|_, at| !is_longer(*at, now, dead));
        let mut changes = Vec::new();
        for entry in self.apps.values_mut() {
            changes.extend(entry.watch(&mut self.version, |entry| entry.sweep(now, dead)));
        }
        changes
    }

    /// Tells of the executors that missed a beat, each once until it beats again. Beats are expected every `beat`
    /// and never come quite on time, so one is missed when the next is due as well.
    pub fn missed(&mut self, now: Timestamp, beat: Duration) -> Vec<Change> {
        self.apps.values_mut().flat_map(|entry| entry.missed(now, beat.saturating_mul(2))).collect()
    }

    /// Hears whether an executor could be reached by a probe, or by a send, that began `at`. Two failures in a row
    /// make it suspect. Only a success clears that: a beat says that it lives, not that it can be reached from
    /// here. An executor that joins anew is a new process, and what was found out about the old one is forgotten.
    pub fn probed(&mut self, app: &str, address: &str, ok: bool, at: Timestamp) -> Option<Change> {
        self.change(app, address, |entry| entry.executor_mut(address)?.probed(ok, at))
    }

    /// Notes how an executor turned out to speak. It holds until its beats say something else than before.
    pub fn learn_dialect(&mut self, app: &str, address: &str, dialect: Dialect) {
        self.change(app, address, |entry| {
            entry.executor_mut(address)?.dialect = dialect;
            None
        });
    }

    /// Brings in what the store says. The newer beat wins, and so does what was defined, left or beaten here since
    /// the snapshot began. Beats that are older than `dead` by now are none.
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

    /// The executors of an app that runs may be sent to, in the order in which routes choose.
    pub fn routable(&self, app: &str) -> impl Iterator<Item = (&Arc<str>, Dialect)> {
        self.apps.get(app).into_iter().flat_map(Entry::routable)
    }

    /// A number that is another whenever [`Registry::routable`] answers differently for this app, and that never
    /// comes back for another answer. 0 while the app is unknown.
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
    pub fn executors(&self, app: &str) -> impl Iterator<Item = &Executor> {
        self.apps.get(app).into_iter().flat_map(Entry::executors)
    }

    /// One executor.
    pub fn executor(&self, app: &str, address: &str) -> Option<&Executor> {
        self.apps.get(app)?.executor(address)
    }

    /// The executors that get nothing until a probe reaches them, each with its app.
    pub fn suspects(&self) -> impl Iterator<Item = (&App, &Executor)> {
        let all =
            self.apps.values().flat_map(|entry| entry.executors().map(|executor| (&entry.app, executor)));
        all.filter(|(_, executor)| executor.health() == Health::Suspect)
    }

    /// How many executors are known in all apps. An address that changes with every start makes it grow.
    pub fn executor_count(&self) -> usize {
        self.apps.values().map(|entry| entry.executors().len()).sum()
    }

    /// Changes an app that is known from now on, and its version if it is routed differently.
    fn watch<T>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Entry) -> T) -> T {
        let entry = self.apps.entry(name.clone()).or_insert_with(|| Entry::new(name));
        entry.watch(&mut self.version, change)
    }

    /// Changes what is known about one address, and the version if it is routed differently from now on.
    fn change(
        &mut self,
        app: &str,
        address: &str,
        change: impl FnOnce(&mut Entry) -> Option<ChangeKind>,
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

    /// The snapshot app by app, without what left since it began and what is too old.
    fn sort(&self, now: Timestamp, snapshot: Snapshot, dead: Duration) -> BTreeMap<Arc<str>, Told> {
        let mut told: BTreeMap<Arc<str>, Told> = BTreeMap::new();
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

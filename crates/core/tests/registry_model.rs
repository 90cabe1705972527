//! The registry against the plainest thing that could work: the whole history, read again for every question; and
//! two nodes over one store, which must agree when both have read it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use punctual_core::registry::{
    Addresses, App, Beat, Change, ChangeKind, Dialect, Health, RegisteredExecutor, Registry, Snapshot,
};

const DEAD: Duration = Duration::from_secs(90);
const ADDRESSES: [&str; 5] = ["d", "a", "c", "e", "b"];
const APPS: [&str; 2] = ["one", "two"];

fn same_cases() -> Config {
    Config { rng_seed: RngSeed::Fixed(20_270_301), failure_persistence: None, ..Config::default() }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn app(name: &str, addresses: &Addresses) -> App {
    App { addresses: addresses.clone(), ..App::auto(name) }
}

#[derive(Clone, Debug)]
enum Step {
    Put(&'static str, Addresses),
    Remove(&'static str),
    Beat(&'static str, &'static str, Dialect),
    Leave(&'static str, &'static str),
    Probe(&'static str, &'static str, bool),
    Learn(&'static str, &'static str, Dialect),
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let which = || (prop::sample::select(&APPS[..]), prop::sample::select(&ADDRESSES[..]));
    let dialect = || prop::sample::select(Dialect::ALL);
    let listed = prop::sample::subsequence(ADDRESSES.to_vec(), 0..=3).prop_shuffle();
    let listed = listed.prop_map(|listed| Addresses::Manual(listed.into_iter().map(Into::into).collect()));
    let addresses = prop_oneof![Just(Addresses::Auto), listed];
    prop_oneof![
        2 => (prop::sample::select(&APPS[..]), addresses).prop_map(|(app, addresses)| Step::Put(app, addresses)),
        1 => prop::sample::select(&APPS[..]).prop_map(Step::Remove),
        12 => (which(), dialect()).prop_map(|((app, address), dialect)| Step::Beat(app, address, dialect)),
        3 => which().prop_map(|(app, address)| Step::Leave(app, address)),
        9 => (which(), prop::bool::weighted(0.3)).prop_map(|((app, address), ok)| Step::Probe(app, address, ok)),
        1 => (which(), dialect()).prop_map(|((app, address), dialect)| Step::Learn(app, address, dialect)),
        4 => Just(Step::Sweep),
    ]
}

fn take(registry: &mut Registry, step: &Step, now: Timestamp) -> Vec<Change> {
    match step {
        Step::Put(name, addresses) => {
            registry.put_app(app(name, addresses), now);
            Vec::new()
        }
        Step::Remove(app) => registry.remove_app(app, now),
        Step::Beat(app, address, dialect) => registry.beat(app, address, *dialect, now).into_iter().collect(),
        Step::Leave(app, address) => registry.leave(app, address, now).into_iter().collect(),
        Step::Probe(app, address, ok) => registry.probed(app, address, *ok, now).into_iter().collect(),
        Step::Learn(app, address, dialect) => {
            registry.learn_dialect(app, address, *dialect);
            Vec::new()
        }
        Step::Sweep => registry.sweep(now, DEAD),
    }
}

type History = Vec<(Timestamp, Step)>;

/// What the history says of one address.
#[derive(Clone, Copy, Default)]
struct Seen {
    is_listed: bool,
    beat: Option<Timestamp>,
    said: Dialect,
    speaks: Dialect,
    failed: u32,
}

fn seen(history: &History, app: &str, address: &str) -> Seen {
    let mut seen = Seen::default();
    for (now, step) in history {
        let is_known = seen.is_listed || seen.beat.is_some();
        match step {
            Step::Put(name, addresses) if *name == app => {
                seen.is_listed =
                    matches!(addresses, Addresses::Manual(listed) if listed.iter().any(|it| it == address));
            }
            Step::Remove(name) if *name == app => seen = Seen::default(),
            Step::Beat(name, who, dialect) if (*name, *who) == (app, address) => {
                if seen.beat.is_none() || seen.said != *dialect {
                    (seen.said, seen.speaks) = (*dialect, *dialect);
                }
                seen.failed = if seen.beat.is_none() { 0 } else { seen.failed };
                seen.beat = Some(*now);
            }
            Step::Leave(name, who) if (*name, *who) == (app, address) => seen.beat = None,
            Step::Probe(name, who, ok) if is_known && (*name, *who) == (app, address) => {
                seen.failed = if *ok { 0 } else { seen.failed + 1 };
            }
            Step::Learn(name, who, dialect) if is_known && (*name, *who) == (app, address) => {
                seen.speaks = *dialect
            }
            Step::Sweep => seen.beat = seen.beat.filter(|beat| beat.saturating_add(DEAD) >= *now),
            _ => {}
        }
        if !seen.is_listed && seen.beat.is_none() {
            seen = Seen::default();
        }
    }
    seen
}

fn expected(history: &History, app: &str) -> Vec<(String, Dialect)> {
    let mode = history.iter().rev().find_map(|(_, step)| match step {
        Step::Put(name, addresses) if *name == app => Some(addresses.clone()),
        Step::Remove(name) if *name == app => Some(Addresses::Auto),
        _ => None,
    });
    let order = match mode.unwrap_or_default() {
        Addresses::Manual(listed) => listed,
        Addresses::Auto => {
            let mut sorted = ADDRESSES.map(String::from).to_vec();
            sorted.sort();
            sorted.retain(|address| seen(history, app, address).beat.is_some());
            sorted
        }
    };
    let all = order.into_iter().map(|address| (seen(history, app, &address), address));
    all.filter(|(seen, _)| seen.failed < 2).map(|(seen, address)| (address, seen.speaks)).collect()
}

fn routable(registry: &Registry, app: &str) -> Vec<(String, Dialect)> {
    registry.routable(app).map(|(address, dialect)| (address.to_string(), dialect)).collect()
}

/// The state that follows from the changes alone: which executors beat, and which are suspect.
#[derive(Default)]
struct Listener(BTreeMap<(Arc<str>, Arc<str>), bool>);

impl Listener {
    fn hear(&mut self, change: Change) {
        let key = (change.app.clone(), change.address.clone());
        let before = self.0.get(&key).copied();
        match change.kind {
            ChangeKind::Joined => assert_eq!(self.0.insert(key, false), None, "{change:?}"),
            ChangeKind::Left | ChangeKind::Died => assert!(self.0.remove(&key).is_some(), "{change:?}"),
            // One that is only listed has a health too, but nobody has heard of it.
            ChangeKind::Suspected if before.is_some() => assert_eq!(self.0.insert(key, true), Some(false)),
            ChangeKind::Recovered if before.is_some() => _ = self.0.insert(key, false),
            _ => {}
        }
    }

    fn beating(&self, app: &str) -> Vec<String> {
        let of_app = self.0.keys().filter(|(name, _)| **name == *app);
        of_app.map(|(_, address)| address.to_string()).collect()
    }
}

fn beating(registry: &Registry, app: &str) -> Vec<String> {
    let beating = registry.executors(app).filter(|executor| executor.is_beating());
    beating.map(|executor| executor.address.to_string()).collect()
}

/// What all nodes write to before they remember it.
#[derive(Clone, Default)]
struct Store {
    apps: BTreeMap<&'static str, Addresses>,
    beats: BTreeMap<(&'static str, &'static str), (Timestamp, Dialect)>,
}

impl Store {
    fn write(&mut self, step: &Step, now: Timestamp) {
        match step {
            Step::Put(name, addresses) => _ = self.apps.insert(name, addresses.clone()),
            Step::Remove(app) => {
                self.apps.remove(app);
                self.beats.retain(|key, _| key.0 != *app);
            }
            Step::Beat(app, address, dialect) => _ = self.beats.insert((app, address), (now, *dialect)),
            Step::Leave(app, address) => _ = self.beats.remove(&(*app, *address)),
            Step::Probe(..) | Step::Learn(..) => {}
            Step::Sweep => self.beats.retain(|_, (beat, _)| beat.saturating_add(DEAD) >= now),
        }
    }

    fn read(&self, began: Timestamp) -> Snapshot {
        let beat =
            |((app, address), (at, dialect)): (&(&'static str, &'static str), &(Timestamp, Dialect))| Beat {
                app: (*app).into(),
                address: (*address).into(),
                dialect: *dialect,
                at: *at,
            };
        let apps = self.apps.iter().map(|(name, addresses)| app(name, addresses)).collect();
        Snapshot { began, apps, beats: self.beats.iter().map(beat).collect() }
    }

    fn routable(&self, name: &str, now: Timestamp) -> Vec<String> {
        match self.apps.get(name) {
            Some(Addresses::Manual(listed)) => listed.clone(),
            _ => {
                let of_app = self.beats.iter().filter(|((app, _), _)| *app == name);
                let alive = of_app.filter(|(_, (beat, _))| beat.saturating_add(DEAD) >= now);
                alive.map(|((_, address), _)| address.to_string()).collect()
            }
        }
    }
}

proptest! {
    #![proptest_config(same_cases())]

    #[test]
    fn every_answer_is_what_the_history_says(
        steps in prop::collection::vec((0..20_000_i64, step()), 0..120),
    ) {
        let (mut registry, mut listener, mut history, mut now) =
            (Registry::default(), Listener::default(), History::new(), 0);
        for (later, step) in steps {
            now += later;
            let before = APPS.map(|app| (registry.version(app), routable(&registry, app)));
            take(&mut registry, &step, at(now)).into_iter().for_each(|change| listener.hear(change));
            history.push((at(now), step));
            for (app, (version, before)) in APPS.into_iter().zip(before) {
                let after = routable(&registry, app);
                prop_assert_eq!(&after, &expected(&history, app));
                prop_assert!(after == before || registry.version(app) != version);
                prop_assert_eq!(beating(&registry, app), listener.beating(app));
            }
            let all: Vec<&RegisteredExecutor> = APPS.into_iter().flat_map(|app| registry.executors(app)).collect();
            let suspects = all.iter().filter(|executor| executor.health() == Health::Suspect).count();
            prop_assert_eq!(registry.suspects().count(), suspects);
            prop_assert_eq!(registry.executor_count(), all.len());
        }
    }

    /// Two nodes hear different things, write them to one store, and read it in overlapping passes. What either
    /// has after a pass that nothing overlapped is what the store says.
    #[test]
    fn nodes_that_have_read_the_store_agree_with_it(
        steps in prop::collection::vec((1..20_000_i64, 0..2_usize, step(), 0..4_u8), 0..120),
    ) {
        let (mut store, mut now) = (Store::default(), 0);
        let (mut nodes, mut listeners): ([Registry; 2], [Listener; 2]) = Default::default();
        let mut reading: [Option<Snapshot>; 2] = [None, None];
        for (later, node, step, what) in steps {
            now += later;
            match what {
                0 => reading[node] = Some(store.read(at(now))),
                1 => if let Some(snapshot) = reading[node].take() {
                    let changes = nodes[node].replace(at(now), snapshot, DEAD);
                    changes.into_iter().for_each(|change| listeners[node].hear(change));
                },
                // Reachability is each node's own affair, and not what this is about.
                _ if matches!(step, Step::Probe(..) | Step::Learn(..)) => {}
                _ => {
                    store.write(&step, at(now));
                    let changes = take(&mut nodes[node], &step, at(now));
                    changes.into_iter().for_each(|change| listeners[node].hear(change));
                }
            }
            for app in APPS {
                prop_assert_eq!(beating(&nodes[node], app), listeners[node].beating(app));
            }
        }
        now += 1;
        for (mut node, mut listener) in nodes.into_iter().zip(listeners) {
            let snapshot = store.read(at(now));
            node.replace(at(now), snapshot, DEAD).into_iter().for_each(|change| listener.hear(change));
            for app in APPS {
                let addresses = routable(&node, app).into_iter().map(|(address, _)| address);
                prop_assert_eq!(addresses.collect::<Vec<_>>(), store.routable(app, at(now)));
                prop_assert_eq!(beating(&node, app), listener.beating(app));
            }
        }
    }

    /// What a node heard itself is never undone by a pass that began before.
    #[test]
    fn a_pass_undoes_nothing_that_was_heard_while_it_was_read(
        before in prop::collection::vec((1..20_000_i64, step()), 0..60),
        during in prop::collection::vec((1..5_000_i64, step()), 0..20),
    ) {
        let (mut store, mut node, mut now) = (Store::default(), Registry::default(), 0);
        let mut go = |store: &mut Store, node: &mut Registry, later: i64, step: &Step| {
            now += later;
            store.write(step, at(now));
            take(node, step, at(now));
            at(now)
        };
        for (later, step) in &before {
            go(&mut store, &mut node, *later, step);
        }
        let began = go(&mut store, &mut node, 1, &Step::Sweep);
        let snapshot = store.read(began);
        let mut ended = began;
        for (later, step) in &during {
            ended = go(&mut store, &mut node, *later, step);
        }
        node.sweep(ended, DEAD);
        let answers = APPS.map(|app| (routable(&node, app), beating(&node, app)));
        node.replace(ended, snapshot, DEAD);
        prop_assert_eq!(APPS.map(|app| (routable(&node, app), beating(&node, app))), answers);
    }
}

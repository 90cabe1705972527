//! The registry, asked as a node asks it.

use super::*;
use ChangeKind::{Died, Joined, Left, Missed, Recovered, Suspected};

const DEAD: Duration = Duration::from_secs(90);
const BEAT: Duration = Duration::from_secs(30);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + seconds * 1_000)
}

fn manual(addresses: &[&str]) -> App {
    let addresses = addresses.iter().map(|address| (*address).into()).collect();
    App { addresses: Addresses::Manual(addresses), ..App::auto("reports") }
}

fn snapshot(began: i64, beats: &[(&str, i64)]) -> Snapshot {
    let beat = |(address, seconds): &(&str, i64)| Beat {
        app: "reports".into(),
        address: (*address).into(),
        dialect: Dialect::Classic,
        at: at(*seconds),
    };
    Snapshot { began: at(began), apps: vec![App::auto("reports")], beats: beats.iter().map(beat).collect() }
}

fn told(changes: impl IntoIterator<Item = Change>) -> Vec<(String, ChangeKind)> {
    let short = |change: Change| (change.address.to_string(), change.kind);
    changes.into_iter().map(short).collect()
}

/// Everything here happens in one app.
impl Registry {
    fn beats(&mut self, address: &str, seconds: i64) -> Option<ChangeKind> {
        self.beat("reports", address, Dialect::Classic, at(seconds)).map(|change| change.kind)
    }

    fn leaves(&mut self, address: &str, seconds: i64) -> Option<ChangeKind> {
        self.leave("reports", address, at(seconds)).map(|change| change.kind)
    }

    fn probe(&mut self, address: &str, ok: bool, seconds: i64) -> Option<ChangeKind> {
        self.probed("reports", address, ok, at(seconds)).map(|change| change.kind)
    }

    fn reads(&mut self, snapshot: Snapshot) -> Vec<(String, ChangeKind)> {
        told(self.replace(snapshot.began, snapshot, DEAD))
    }

    fn sweeps(&mut self, seconds: i64) -> Vec<(String, ChangeKind)> {
        told(self.sweep(at(seconds), DEAD))
    }

    fn addresses(&self) -> Vec<&str> {
        self.routable("reports").map(|(address, _)| &**address).collect()
    }
}

#[test]
fn an_executor_that_is_silent_for_90_seconds_is_kept_and_longer_is_gone() {
    for (silence, left) in [(80_000, 1), (90_000, 1), (90_001, 0), (100_000, 0)] {
        let mut registry = Registry::default();
        assert_eq!(registry.beats("a", 0), Some(Joined));
        let changes = registry.sweep(Timestamp::from_millis(at(0).as_millis() + silence), DEAD);
        assert_eq!(told(changes), if left == 0 { vec![("a".into(), Died)] } else { vec![] }, "{silence}");
        assert_eq!((registry.addresses().len(), registry.executor_count()), (left, left));
    }
}

#[test]
fn one_that_comes_back_is_routable_at_once() {
    let mut registry = Registry::default();
    registry.beats("a", 0);
    registry.sweeps(100);
    assert_eq!(registry.addresses(), [""; 0]);
    assert_eq!(registry.beats("a", 101), Some(Joined));
    assert_eq!(registry.addresses(), ["a"]);
    assert_eq!(registry.beats("a", 131), None);
}

#[test]
fn one_that_leaves_gets_nothing_from_then_on() {
    let mut registry = Registry::default();
    registry.beats("a", 0);
    registry.beats("b", 0);
    assert_eq!(registry.leaves("a", 1), Some(Left));
    assert_eq!(registry.addresses(), ["b"]);
    assert_eq!(registry.leaves("a", 2), None);
    assert_eq!(registry.leave("unknown", "a", at(2)), None);
}

#[test]
fn addresses_are_told_apart_to_the_letter_and_go_in_ascending_order() {
    let mut registry = Registry::default();
    for address in ["http://b:1/", "http://a:1/", "http://a:1", "http://a:10", "http://A:1"] {
        registry.beats(address, 0);
    }
    let sorted = ["http://A:1", "http://a:1", "http://a:1/", "http://a:10", "http://b:1/"];
    assert_eq!(registry.addresses(), sorted);
}

#[test]
fn manual_addresses_go_as_typed_and_beats_are_remembered_for_later() {
    let mut registry = Registry::default();
    registry.beats("x", 0);
    registry.put_app(manual(&["c", "a", "b"]), at(1));
    assert_eq!(registry.beats("a", 2), Some(Joined));
    assert_eq!(registry.addresses(), ["c", "a", "b"]);
    let beating = registry.executors("reports").filter(|executor| executor.is_beating());
    assert_eq!(beating.map(|executor| &*executor.address).collect::<Vec<_>>(), ["a", "x"]);
    assert_eq!(registry.leaves("a", 3), Some(Left));
    assert_eq!(registry.sweeps(200), [("x".into(), Died)]);
    assert_eq!((registry.addresses(), registry.executor_count()), (vec!["c", "a", "b"], 3));
    registry.beats("b", 201);
    registry.put_app(App::auto("reports"), at(202));
    assert_eq!((registry.addresses(), registry.executor_count()), (vec!["b"], 1));
}

#[test]
fn two_failed_probes_in_a_row_make_a_suspect_and_one_success_clears_it() {
    for app in [App::auto("reports"), manual(&["a"])] {
        let mut registry = Registry::default();
        registry.put_app(app, at(0));
        registry.beats("a", 0);
        assert_eq!(registry.probe("a", false, 1), None);
        assert_eq!(registry.probe("a", true, 2), None);
        assert_eq!(registry.probe("a", false, 3), None);
        assert_eq!(registry.addresses(), ["a"]);
        assert_eq!(registry.probe("a", false, 4), Some(Suspected));
        assert_eq!(registry.probe("a", false, 5), None);
        assert_eq!((registry.addresses(), registry.suspects().count()), (vec![], 1));
        assert_eq!(registry.probe("a", true, 6), Some(Recovered));
        assert_eq!((registry.addresses(), registry.suspects().count()), (vec!["a"], 0));
        assert_eq!(registry.probe("unknown", false, 7), None);
    }
}

#[test]
fn one_that_beats_and_cannot_be_reached_stays_suspect_until_it_joins_anew() {
    let mut registry = Registry::default();
    registry.beats("a", 0);
    registry.probe("a", false, 1);
    assert_eq!(registry.probe("a", false, 2), Some(Suspected));
    for seconds in (30..300).step_by(30) {
        assert_eq!(registry.beats("a", seconds), None);
        assert_eq!((registry.sweeps(seconds), registry.addresses()), (vec![], vec![]));
    }
    registry.leaves("a", 300);
    assert_eq!(registry.beats("a", 310), Some(Joined));
    assert_eq!(registry.addresses(), ["a"]);
    // What was asked of the process before counts no more.
    assert_eq!([registry.probe("a", false, 308), registry.probe("a", false, 309)], [None, None]);
    assert_eq!([registry.probe("a", false, 311), registry.probe("a", false, 312)], [None, Some(Suspected)]);
    assert_eq!(registry.sweeps(500), [("a".into(), Died)]);
    registry.beats("a", 501);
    assert_eq!(registry.addresses(), ["a"]);
}

#[test]
fn a_missed_beat_is_told_once_until_the_next() {
    let mut registry = Registry::default();
    registry.beats("a", 0);
    registry.beats("b", 30);
    let missed = |registry: &mut Registry, seconds| told(registry.missed(at(seconds), BEAT));
    assert_eq!(missed(&mut registry, 60), []);
    assert_eq!(missed(&mut registry, 61), [("a".into(), Missed)]);
    assert_eq!(missed(&mut registry, 62), []);
    // The store tells the same beat again.
    assert_eq!(registry.reads(snapshot(62, &[("a", 0), ("b", 30)])), []);
    assert_eq!(missed(&mut registry, 63), []);
    registry.beats("a", 64);
    assert_eq!(missed(&mut registry, 91), [("b".into(), Missed)]);
    assert_eq!(missed(&mut registry, 125), [("a".into(), Missed)]);
    assert_eq!(registry.addresses(), ["a", "b"]);
}

#[test]
fn the_store_brings_the_beats_of_others_and_the_newer_one_wins() {
    let mut registry = Registry::default();
    registry.beats("a", 0);
    registry.beats("b", 50);
    let changes = registry.reads(snapshot(60, &[("a", 40), ("b", 20), ("c", 55)]));
    assert_eq!(changes, [("c".into(), Joined)]);
    let last = |address| registry.executor("reports", address).and_then(|executor| executor.last_beat);
    assert_eq!([last("a"), last("b"), last("c")], [40, 50, 55].map(|seconds| Some(at(seconds))));
}

#[test]
fn what_vanished_from_the_store_is_gone_unless_it_beat_here_since() {
    let mut registry = Registry::default();
    for (address, seconds) in [("a", 0), ("b", 99), ("c", 100), ("d", 101), ("e", 99)] {
        registry.beats(address, seconds);
    }
    let changes = registry.reads(snapshot(100, &[("e", 99)]));
    assert_eq!(changes, [("a".into(), Died), ("b".into(), Left)]);
    assert_eq!(registry.addresses(), ["c", "d", "e"]);
}

#[test]
fn a_snapshot_that_began_before_does_not_bring_back_who_left() {
    let mut registry = Registry::default();
    registry.beats("a", 0);
    registry.leaves("a", 10);
    // It was known to another node only.
    registry.leaves("b", 10);
    assert_eq!(registry.reads(snapshot(10, &[("a", 9), ("b", 10)])), []);
    // Since then it beat elsewhere.
    assert_eq!(registry.reads(snapshot(10, &[("a", 11)])), [("a".into(), Joined)]);
    assert_eq!(registry.reads(snapshot(11, &[("a", 11), ("b", 9)])), [("b".into(), Joined)]);
    assert!(registry.gone.is_empty());
}

#[test]
fn a_beat_that_is_too_old_is_none_wherever_it_comes_from() {
    let mut registry = Registry::default();
    let changes = registry.reads(snapshot(100, &[("a", 9), ("b", 10)]));
    assert_eq!(changes, [("b".into(), Joined)]);
    registry.leaves("b", 100);
    registry.sweeps(190);
    assert_eq!(registry.gone.len(), 1);
    registry.sweeps(191);
    assert!(registry.gone.is_empty());
}

#[test]
fn who_died_while_a_snapshot_was_read_is_not_brought_back_by_it() {
    let mut registry = Registry::default();
    registry.beats("a", 0);
    assert_eq!(registry.sweeps(91), [("a".into(), Died)]);
    assert_eq!(registry.replace(at(91), snapshot(89, &[("a", 0)]), DEAD), []);
    assert_eq!(told(registry.replace(at(91), snapshot(89, &[("a", 1)]), DEAD)), [("a".into(), Joined)]);
}

#[test]
fn the_store_defines_apps_unless_they_were_defined_here_since() {
    let mut registry = Registry::default();
    let from_store = |began, app: Option<App>| Snapshot {
        began: at(began),
        apps: app.into_iter().collect(),
        beats: vec![],
    };
    registry.reads(from_store(0, Some(manual(&["a"]))));
    assert_eq!(registry.addresses(), ["a"]);
    registry.put_app(manual(&["b"]), at(10));
    registry.reads(from_store(10, Some(manual(&["a"]))));
    assert_eq!(registry.addresses(), ["b"]);
    registry.reads(from_store(11, Some(manual(&["c"]))));
    assert_eq!(registry.addresses(), ["c"]);
    registry.remove_app("reports", at(20));
    registry.reads(from_store(20, Some(manual(&["c"]))));
    assert_eq!(registry.apps().count(), 0);
    registry.reads(from_store(21, Some(manual(&["d"]))));
    assert_eq!(registry.addresses(), ["d"]);
    // Its definition is gone, but an executor beats.
    registry.beats("x", 30);
    registry.reads(from_store(30, None));
    assert_eq!(registry.addresses(), ["x"]);
    registry.reads(from_store(31, None));
    assert_eq!((registry.apps().count(), registry.executor_count()), (0, 0));
}

#[test]
fn removing_an_app_takes_its_executors_and_a_beat_brings_it_back() {
    let mut registry = Registry::default();
    registry.put_app(manual(&["listed"]), at(0));
    registry.beats("a", 0);
    assert_eq!(told(registry.remove_app("reports", at(1))), [("a".into(), Left)]);
    assert_eq!(told(registry.remove_app("reports", at(1))), []);
    assert_eq!((registry.app("reports"), registry.version("reports")), (None, 0));
    registry.beats("a", 2);
    assert_eq!(registry.app("reports"), Some(&App::auto("reports")));
    assert_eq!(registry.addresses(), ["a"]);
}

#[test]
fn a_dialect_is_heard_or_learned_and_the_latest_news_counts() {
    let mut registry = Registry::default();
    registry.put_app(manual(&["a"]), at(0));
    let dialect = |registry: &Registry| registry.routable("reports").map(|(_, dialect)| dialect).next();
    assert_eq!(dialect(&registry), Some(Dialect::Classic));
    registry.learn_dialect("reports", "a", Dialect::Trigger);
    registry.learn_dialect("reports", "unknown", Dialect::Trigger);
    assert_eq!(dialect(&registry), Some(Dialect::Trigger));
    for (seconds, said, learned, speaks) in [
        (1, Dialect::Orth, None, Dialect::Orth),
        (2, Dialect::Classic, Some(Dialect::Trigger), Dialect::Trigger),
        // It says nothing new, so what was learned holds.
        (3, Dialect::Classic, None, Dialect::Trigger),
        (4, Dialect::Native, None, Dialect::Native),
        // An old beat that arrives late.
        (3, Dialect::Classic, None, Dialect::Native),
    ] {
        registry.beat("reports", "a", said, at(seconds));
        learned.into_iter().for_each(|learned| registry.learn_dialect("reports", "a", learned));
        assert_eq!(dialect(&registry), Some(speaks), "{seconds} {said}");
    }
}

#[test]
fn the_version_changes_with_what_is_routable_and_only_then() {
    let mut registry = Registry::default();
    let mut last = 0;
    let mut changed = |registry: &Registry| std::mem::replace(&mut last, registry.version("reports")) != last;
    registry.beats("a", 0);
    registry.beat("other", "a", Dialect::Classic, at(0));
    assert!(changed(&registry));
    registry.beats("a", 1);
    registry.probe("a", false, 1);
    registry.missed(at(70), BEAT);
    registry.sweeps(70);
    registry.put_app(App { title: "Reports".into(), ..App::auto("reports") }, at(70));
    registry.reads(snapshot(71, &[("a", 70)]));
    registry.learn_dialect("reports", "a", Dialect::Classic);
    registry.leave("other", "a", at(70));
    assert!(!changed(&registry));
    registry.learn_dialect("reports", "a", Dialect::Orth);
    assert!(changed(&registry));
    registry.probe("a", false, 72);
    assert!(changed(&registry));
    registry.leaves("a", 73);
    assert!(!changed(&registry), "it was suspect already");
    registry.put_app(manual(&["b", "c"]), at(74));
    assert!(changed(&registry));
    registry.put_app(manual(&["c", "b"]), at(75));
    assert!(changed(&registry));
}

#[test]
fn after_the_clock_went_back_the_dead_are_found_again() {
    let mut registry = Registry::default();
    registry.beats("a", 1_000_000);
    assert_eq!(registry.sweeps(0), []);
    assert_eq!(registry.sweeps(90), []);
    assert_eq!(registry.sweeps(91), [("a".into(), Died)]);
}

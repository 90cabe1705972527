//! The wheel against the plainest thing that could work: an ordered map that is searched from the front.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use proptest::prelude::*;
use punctual_core::wheel::{Armed, Mark, Timer, Wheel};

/// Everything that was armed and neither handed out, cancelled nor dropped, in the order of the store.
#[derive(Default)]
struct Model {
    armed: BTreeMap<(Timestamp, u64), (u8, u32)>,
}

impl Model {
    fn below(&self, mark: Option<Mark>) -> impl Iterator<Item = (&(Timestamp, u64), &(u8, u32))> {
        self.armed
            .iter()
            .filter(move |((due, id), _)| mark.is_none_or(|mark| (*due, *id) < (mark.due, mark.id)))
    }

    fn due(&self, now: Timestamp, mark: Option<Mark>) -> Vec<Timer> {
        let due = self.below(mark).filter(|((due, _), _)| *due <= now);
        let mut due: Vec<Timer> = due.map(|(key, rest)| timer(*key, *rest)).collect();
        due.sort_by_key(|timer| (timer.group, timer.due, timer.priority, timer.id));
        due
    }
}

fn timer((due, id): (Timestamp, u64), (priority, group): (u8, u32)) -> Timer {
    Timer { due, priority, group, id }
}

#[derive(Clone, Debug)]
enum Step {
    /// Due so long after the clock, which may be before it.
    Arm {
        after: i64,
        priority: u8,
        group: u32,
    },
    Cancel {
        nth: usize,
    },
    /// The clock goes on, and so many are taken.
    Advance {
        by: i64,
        max: usize,
    },
    /// Reads on from the mark, as a loader does.
    Load,
    Clear,
}

fn delay() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -200..200_i64,
        4 => 0..5_000_i64,
        2 => 0..10_000_000_i64,
        1 => 0..400_000_000_000_i64,
        1 => Just(64),
        1 => Just(4_096),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (delay(), 0..10_u8, 0..3_u32).prop_map(|(after, priority, group)| Step::Arm { after, priority, group }),
        2 => (0..50_usize).prop_map(|nth| Step::Cancel { nth }),
        4 => (delay(), prop_oneof![Just(usize::MAX), 0..4_usize]).prop_map(|(by, max)| Step::Advance { by: by.abs(), max }),
        1 => Just(Step::Load),
        1 => Just(Step::Clear),
    ]
}

/// Plays the steps on both, and compares after each.
fn play(capacity: usize, start: i64, steps: &[Step]) {
    let (mut now, mut next_id) = (Timestamp::from_millis(start), 0);
    let mut wheel = Wheel::new(capacity, now);
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Arm { after, priority, group } => {
                let due = Timestamp::from_millis(now.as_millis().saturating_add(*after));
                next_id += 1;
                let armed = wheel.arm(Timer { due, priority: *priority, group: *group, id: next_id });
                model.armed.insert((due, next_id), (*priority, *group));
                let is_beyond = wheel.mark().is_some_and(|mark| (mark.due, mark.id) <= (due, next_id));
                assert_eq!(armed, if is_beyond { Armed::Beyond } else { Armed::Kept });
            }
            Step::Cancel { nth } => {
                let key = model.below(wheel.mark()).map(|(key, _)| *key).nth(*nth);
                if let Some(key) = key {
                    assert!(wheel.cancel(key.1), "{key:?} is below the mark, so it is there");
                    model.armed.remove(&key);
                }
            }
            Step::Advance { by, max } => {
                now = Timestamp::from_millis(now.as_millis().saturating_add(*by));
                let due = model.due(now, wheel.mark());
                let mut found = Vec::new();
                wheel.advance(now, *max, &mut found);
                check_shares(&due, &found, *max);
                for timer in found {
                    model.armed.remove(&(timer.due, timer.id));
                }
            }
            Step::Load => load(&mut wheel, &model),
            Step::Clear => {
                wheel.clear();
                model.armed.clear();
            }
        }
        check(&wheel, &model, now, capacity);
    }
}

/// Reads what there is room for, from the mark on, in the order of the store.
fn load(wheel: &mut Wheel, model: &Model) {
    let Some(mark) = wheel.mark() else { return };
    let mut behind = model.armed.range((mark.due, mark.id)..);
    let page: Vec<_> = behind.by_ref().take(wheel.room()).collect();
    wheel.open_to(behind.next().map(|((due, id), _)| Mark { due: *due, id: *id }));
    for (key, rest) in page {
        assert_eq!(wheel.arm(timer(*key, *rest)), Armed::Kept);
    }
}

/// As much as was wanted is handed out, of each group what comes first, and no group that has more got less than another.
fn check_shares(due: &[Timer], found: &[Timer], max: usize) {
    assert_eq!(found.len(), due.len().min(max));
    let of =
        |timers: &[Timer], group| timers.iter().filter(|one| one.group == group).copied().collect::<Vec<_>>();
    let most = (0..3).map(|group| of(found, group).len()).max().unwrap_or(0);
    for group in 0..3 {
        let (due, found) = (of(due, group), of(found, group));
        assert!(due.starts_with(&found), "{found:?} of {due:?}");
        assert!(found.len() == due.len() || found.len() + 1 >= most, "{} of {most}", found.len());
    }
}

fn check(wheel: &Wheel, model: &Model, now: Timestamp, capacity: usize) {
    assert_eq!(wheel.len(), model.below(wheel.mark()).count(), "everything below the mark, and nothing else");
    assert!(wheel.len() <= capacity);
    let earliest = model.below(wheel.mark()).map(|((due, _), _)| *due).min();
    assert_eq!(wheel.next_due().is_some(), earliest.is_some());
    assert_eq!(wheel.earliest().is_some(), earliest.is_some());
    if let (Some(bound), Some(earliest)) = (wheel.earliest(), earliest) {
        assert!(bound <= earliest, "{bound} is after the earliest, {earliest}");
    }
    if let (Some(wake), Some(earliest)) = (wheel.next_due(), earliest) {
        assert!(wake <= earliest.max(now), "asking at {wake} would be too late for {earliest}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_wheel_hands_out_what_an_ordered_map_would(
        capacity in 1..40_usize,
        start in prop_oneof![Just(0), Just(-70), -5_000_000..5_000_000_i64, Just(i64::MAX - 1_000), Just(i64::MIN)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        play(capacity, start, &steps);
    }
}

#[test]
fn waking_when_the_wheel_says_hands_out_each_run_on_its_millisecond() {
    let mut wheel = Wheel::new(10_000, Timestamp::from_millis(0));
    let dues: BTreeSet<i64> = (1..2_000_i64).map(|n| n * n * 37 % 50_000_000).collect();
    for (id, due) in dues.iter().enumerate() {
        wheel.arm(Timer { due: Timestamp::from_millis(*due), priority: 5, group: 0, id: id as u64 });
    }
    let mut handed_out = 0;
    while let Some(wake) = wheel.next_due() {
        let mut out = Vec::new();
        wheel.advance(wake, usize::MAX, &mut out);
        assert!(out.iter().all(|timer| timer.due == wake), "late or early: {out:?} at {wake}");
        handed_out += out.len();
    }
    assert_eq!(handed_out, dues.len());
}

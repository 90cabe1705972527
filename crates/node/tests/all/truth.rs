//! What is on record after a death or an outage: nothing invented, nothing thrown away.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use calendar::{Outside, Timestamp};
use punctual_core::event::Event;
use punctual_core::model::{AttemptOutcome, AttemptRecord, Definition, RunState, ScheduleKind, WindowSpec};
use punctual_core::policy::misfire::Policy;
use punctual_core::policy::{Block, Misfire};
use punctual_node::Node;
use punctual_node::ports::{AttemptRow, FiredMark, RunView};

use super::house::{House, at, definition, every, now_or_never};

/// How far nodes have fired, as a file would keep it.
struct Mark(AtomicI64);

impl FiredMark for Mark {
    fn through(&self) -> Option<Timestamp> {
        Some(Timestamp::from_millis(self.0.load(Ordering::Relaxed)))
    }

    fn reach(&self, due: Timestamp) {
        self.0.fetch_max(due.as_millis(), Ordering::Relaxed);
    }
}

/// A mark that nobody has written yet.
struct NoMark(AtomicI64);

impl NoMark {
    fn new() -> NoMark {
        NoMark(AtomicI64::new(i64::MIN))
    }
}

impl FiredMark for NoMark {
    fn through(&self) -> Option<Timestamp> {
        Some(self.0.load(Ordering::Relaxed)).filter(|millis| *millis > i64::MIN).map(Timestamp::from_millis)
    }

    fn reach(&self, due: Timestamp) {
        self.0.fetch_max(due.as_millis(), Ordering::Relaxed);
    }
}

/// Something that happens when a node asks for its mark, which it does with its memory in hand.
struct Ambush {
    is_set: AtomicBool,
    what: Box<dyn Fn() + Send + Sync>,
}

impl Ambush {
    fn new(what: impl Fn() + Send + Sync + 'static) -> Arc<Ambush> {
        Arc::new(Ambush { is_set: AtomicBool::new(false), what: Box::new(what) })
    }
}

impl FiredMark for Ambush {
    fn through(&self) -> Option<Timestamp> {
        if self.is_set.swap(false, Ordering::Relaxed) {
            (self.what)();
        }
        None
    }

    fn reach(&self, _: Timestamp) {}

    fn cover(&self, _: Timestamp) {}
}

/// Finds out whether the memory of a node is in hand when something slow is done. Another thread asks for it meanwhile.
#[derive(Clone, Default)]
struct Watch {
    node: Arc<OnceLock<Arc<Node>>>,
    is_looking: Arc<AtomicBool>,
    marks: Arc<AtomicI64>,
    was_in_hand: Arc<AtomicBool>,
}

impl Watch {
    fn look(&self) {
        let Some(node) = self.node.get().cloned() else { return };
        if self.was_in_hand.load(Ordering::Relaxed) || self.is_looking.swap(true, Ordering::Relaxed) {
            // It is known already, or the other thread draws a number too.
            return;
        }
        let (tell, told) = channel();
        thread::spawn(move || tell.send(node.id()));
        if told.recv_timeout(Duration::from_secs(5)).is_err() {
            self.was_in_hand.store(true, Ordering::Relaxed);
        }
        self.is_looking.store(false, Ordering::Relaxed);
    }
}

/// A mark that nobody has written, and a bug that is met where a node asks for it with its memory in hand.
struct WatchedMark {
    watch: Watch,
    has_bug: Arc<AtomicBool>,
}

impl FiredMark for WatchedMark {
    fn through(&self) -> Option<Timestamp> {
        assert!(!self.has_bug.swap(false, Ordering::Relaxed), "a bug");
        None
    }

    fn reach(&self, _: Timestamp) {
        self.watch.marks.fetch_add(1, Ordering::Relaxed);
        self.watch.look();
    }

    fn cover(&self, due: Timestamp) {
        self.reach(due);
    }
}

fn ended(run: &RunView) -> Vec<&AttemptRecord> {
    let mut records = Vec::new();
    for row in &run.attempts {
        if let AttemptRow::Ended(record) = row {
            records.push(record);
        }
    }
    records
}

/// The lags of sends that count as the first of their run, in milliseconds.
pub(crate) fn first_lags(node: &Node) -> Vec<u128> {
    let lag = |event: &Event| match event {
        Event::Sent { lag, is_first: true, .. } => Some(lag.as_millis()),
        _ => None,
    };
    node.take_events().iter().filter_map(lag).collect()
}

/// An hour that no test comes near.
fn evening() -> WindowSpec {
    let (hours, zone, outside) = ("22:00-23:00".into(), "UTC".into(), Outside::Skip);
    WindowSpec { days: "*".into(), hours, zone, outside }
}

fn once(name: &str, time: &str) -> Definition {
    definition(name, ScheduleKind::Once { at: at(time) })
}

#[test]
fn an_attempt_that_only_may_have_been_sent_says_so_and_lateness_counts_from_the_certain_one() {
    let house = House::new();
    let first = house.node();
    house.create(&first, once("job", "10:00:10"));
    house.until(&[&first], "10:00:08");
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:15");
    let sends = house.take_sends();
    assert_eq!((sends.len(), sends[0].attempt.0, sends[0].possible_duplicate), (1, 2, true));
    let lags = first_lags(&second);
    assert!(lags.len() == 1 && lags[0] >= 4_000, "it was first sent for certain four seconds late: {lags:?}");
    house.report(&second, &sends[0], AttemptOutcome::Succeeded);
    let run = &house.runs()[0];
    let supposed: Vec<bool> = ended(run).iter().map(|record| record.is_supposed()).collect();
    assert_eq!(supposed, [true, false]);
}

#[test]
fn lateness_counts_from_the_certain_send_also_where_the_dead_node_wrote_a_gate() {
    let house = House::new();
    let first = house.node();
    house.create(&first, Definition { block: Block::Serial, ..once("job", "10:00:10") });
    house.until(&[&first], "10:00:10");
    assert_eq!(house.sent(), ["10:00:10 #1"]);
    drop(first);
    let second = house.node();
    house.until(&[&second], "10:01:00");
    assert_eq!(house.sent(), ["10:00:10 #2"]);
    let lags = first_lags(&second);
    assert!(lags.len() == 1 && lags[0] >= 30_000, "its timeout passed before it was sent again: {lags:?}");
}

#[test]
fn lateness_counts_from_the_certain_send_also_after_a_second_death() {
    let house = House::new();
    let first = house.node();
    house.create(&first, once("job", "10:00:10"));
    house.until(&[&first], "10:00:08");
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    // It dies before it writes down that the run is on its way.
    house.until(&[&second], "10:00:14.500");
    assert_eq!(house.sent(), ["10:00:10 #2"]);
    drop(second);
    house.set("10:00:20");
    let third = house.node();
    house.until(&[&third], "10:00:21");
    let sends = house.take_sends();
    assert_eq!((sends.len(), sends[0].attempt.0, sends[0].possible_duplicate), (1, 3, true));
    let supposed: Vec<bool> = ended(&house.runs()[0]).iter().map(|record| record.is_supposed()).collect();
    assert_eq!(supposed, [true, true]);
    let lags = first_lags(&third);
    assert!(lags.len() == 1 && lags[0] >= 10_000, "nothing certain is known of the sends before: {lags:?}");
}

#[test]
fn a_retry_after_a_certain_send_is_no_first_send_for_the_next_holder() {
    let house = House::new();
    let first = house.node();
    house.create(&first, once("job", "10:00:10"));
    house.until(&[&first], "10:00:10");
    let send = house.take_sends().remove(0);
    house.report(&first, &send, AttemptOutcome::Failed);
    drop(first);
    let second = house.node();
    house.until(&[&second], "10:00:30");
    assert!(!house.take_sends().is_empty(), "it is tried again");
    assert_eq!(first_lags(&second), Vec::<u128>::new());
}

#[test]
fn with_a_mark_nothing_that_was_due_after_it_is_in_doubt() {
    let house = House::new().marked(Arc::new(Mark(AtomicI64::new(i64::MIN))));
    let first = house.node();
    house.create(&first, once("sent", "10:00:07.500"));
    house.create(&first, once("unsent", "10:00:10"));
    house.until(&[&first], "10:00:08");
    assert_eq!(house.sent(), ["10:00:07 #1"]);
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:15");
    let mut sends = house.take_sends();
    sends.sort_by_key(|send| send.fire_time);
    let told: Vec<_> = sends.iter().map(|send| (send.attempt.0, send.possible_duplicate)).collect();
    assert_eq!(told, [(2, true), (1, false)], "only what was due before the mark may have been sent");
}

#[test]
fn with_a_mark_what_was_missed_follows_its_misfire_policy() {
    let house = House::new().marked(Arc::new(Mark(AtomicI64::new(i64::MIN))));
    let first = house.node();
    let with = |name: &str, policy| {
        let misfire = Misfire { policy, ..Misfire::default() };
        house.create(&first, Definition { misfire, ..definition(name, every(1)) })
    };
    let (once, never) = (with("once", Policy::FireOnce), with("never", Policy::Skip));
    house.until(&[&first], "10:00:08");
    for send in house.take_sends() {
        house.report(&first, &send, AttemptOutcome::Succeeded);
    }
    drop(first);
    house.set("10:00:40");
    let second = house.node();
    house.until(&[&second], "10:00:41");
    let sends = house.take_sends();
    let repeated = sends.iter().filter(|send| send.possible_duplicate).count();
    assert_eq!(repeated, 0, "everything that was sent was reported, and nothing else was sent");
    let lost = house.runs().iter().filter(|run| run.state == RunState::Lost).count();
    assert_eq!(lost, 0);
    // What is at most 5 s late is on time; before that lies what was missed.
    let missed = |time: Timestamp| time > at("10:00:08") && time < at("10:00:35");
    let sent = |job| -> Vec<Timestamp> {
        let of_job = sends.iter().filter(|send| send.job.id == job && missed(send.fire_time));
        of_job.map(|send| send.fire_time).collect()
    };
    assert_eq!((sent(once), sent(never)), (vec![at("10:00:34")], vec![]), "one send stands for all of them");
    let runs = house.runs();
    let skipped = |job, reason| {
        let of_job = runs.iter().filter(|run| run.job == job && missed(run.fire_time));
        of_job.filter(|run| run.state == RunState::Skipped && run.reason == reason).count()
    };
    assert_eq!(
        (skipped(once, "coalesced"), skipped(never, "misfire")),
        (6, 6),
        "five runs, and one for the rest"
    );
}

#[test]
fn a_run_in_doubt_is_not_sent_against_a_window() {
    let house = House::new();
    let first = house.node();
    let shut = Definition { windows: vec![evening()], ..once("job", "10:00:10") };
    house.create(&first, shut);
    house.until(&[&first], "10:00:08");
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:16");
    assert_eq!(house.sent(), Vec::<String>::new());
    assert_eq!(house.history(), ["10:00:10 skipped (outside windows)"]);
    assert!(house.runs()[0].attempts.is_empty(), "nobody has sent it, so there is no attempt");
}

#[test]
fn a_run_in_doubt_whose_job_was_deleted_is_cancelled_and_not_failed() {
    let house = House::new();
    let first = house.node();
    let job = house.create(&first, definition("job", every(1)));
    house.until(&[&first], "10:00:06.500");
    for send in house.take_sends() {
        house.report(&first, &send, AttemptOutcome::Succeeded);
    }
    now_or_never(first.delete(job, "test".into())).unwrap();
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:16");
    assert_eq!(house.sent(), Vec::<String>::new());
    let states: Vec<RunState> = house.runs().iter().map(|run| run.state).collect();
    let is_told =
        |state: &RunState| matches!(state, RunState::Succeeded | RunState::Cancelled | RunState::Skipped);
    assert!(states.iter().all(is_told), "{:?}", house.history());
    assert!(states.contains(&RunState::Cancelled), "{:?}", house.history());
}

#[test]
fn an_answer_that_came_while_the_store_was_away_is_kept_and_nothing_is_sent_again() {
    let house = House::new();
    let node = house.node();
    house.create(&node, once("answered", "10:00:10"));
    house.create(&node, once("hangs", "10:00:10"));
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 2);
    node.report(house.said(&sends[0], AttemptOutcome::Succeeded));
    // No step reaches the store for longer than a lease lasts.
    house.set("10:00:20");
    house.until(&[&node], "10:00:24");
    assert_eq!(house.sent(), Vec::<String>::new(), "one is answered, the other is still in flight");
    assert_eq!(house.run(sends[0].run).state, RunState::Succeeded);
    house.report(&node, &sends[1], AttemptOutcome::Succeeded);
    let run = house.run(sends[1].run);
    assert_eq!((run.state, run.attempts.len()), (RunState::Succeeded, 1));
}

#[test]
fn an_attempt_lasts_until_it_was_reported_and_not_until_the_store_heard_of_it() {
    let house = House::new();
    let node = house.node();
    house.create(&node, once("job", "10:00:10"));
    house.until(&[&node], "10:00:10");
    let send = house.take_sends().remove(0);
    house.set("10:00:10.050");
    node.report(house.said(&send, AttemptOutcome::Succeeded));
    house.set("10:00:12.050");
    now_or_never(node.settle());
    let run = house.run(send.run);
    assert_eq!((run.state, ended(&run)[0].ended_at), (RunState::Succeeded, at("10:00:10.050")));
}

#[test]
fn silence_does_not_count_while_a_report_is_in_hand() {
    let house = House::new();
    let node = house.node();
    let brief = Definition { timeout: Duration::from_millis(500), ..once("job", "10:00:10") };
    house.create(&node, brief);
    house.until(&[&node], "10:00:10");
    let send = house.take_sends().remove(0);
    node.report(house.said(&send, AttemptOutcome::Succeeded));
    // Longer than its timeout and the grace, and within a lease that is renewed.
    for second in 11..30 {
        house.set(&format!("10:00:{second}"));
        now_or_never(node.renew());
        now_or_never(node.reap());
    }
    house.step(&node);
    let run = house.run(send.run);
    assert_eq!((run.state, run.attempts.len()), (RunState::Succeeded, 1), "{run:?}");
}

#[test]
fn a_node_that_finds_no_mark_leaves_one_that_covers_what_its_predecessor_may_have_sent() {
    let mark = Arc::new(NoMark::new());
    let house = House::new().marked(Arc::clone(&mark) as Arc<dyn FiredMark>);
    let first = house.node();
    house.until(&[&first], "10:00:08");
    drop(first);
    mark.0.store(i64::MIN, Ordering::Relaxed);
    house.set("10:00:14");
    let second = house.stranger();
    for _ in 0..3 {
        now_or_never(second.renew());
    }
    assert!(second.shards_held() > 0);
    assert!(mark.through() >= Some(at("10:00:08")), "the next process would doubt too little");
}

#[test]
fn other_nodes_that_come_back_from_an_outage_may_settle_first_what_they_know() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    for number in 0..12 {
        house.create(&first, once(&format!("job {number}"), "10:00:10"));
    }
    house.until(&[&first, &second], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 12);
    for node in [&first, &second] {
        let is_sent = |event: &Event, run| matches!(event, Event::Sent { run: sent, .. } if *sent == run);
        let events = node.take_events();
        let own = sends.iter().filter(|send| events.iter().any(|event| is_sent(event, send.run)));
        own.for_each(|send| node.report(house.said(send, AttemptOutcome::Succeeded)));
    }
    // The store is away for longer than a lease lasts, and one of them finds out later that it is back.
    house.set("10:00:20");
    house.until(&[&second], "10:00:25");
    house.until(&[&first, &second], "10:00:30");
    assert_eq!(house.sent(), Vec::<String>::new(), "every result is known to a living node");
    assert!(house.runs().iter().all(|run| run.state == RunState::Succeeded), "{:?}", house.history());
}

#[test]
fn a_panic_in_the_middle_of_a_change_makes_the_node_read_everything_again() {
    let trap = Ambush::new(|| panic!("a bug"));
    let house = House::new().marked(Arc::clone(&trap) as Arc<dyn FiredMark>);
    let node = house.node();
    house.create(&node, definition("job", every(10)));
    house.until(&[&node], "10:00:11");
    for send in house.take_sends() {
        house.report(&node, &send, AttemptOutcome::Succeeded);
    }
    // Its lease ends, and the bug is met while it takes its shards again.
    house.set("10:00:21");
    trap.is_set.store(true, Ordering::Relaxed);
    let met = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..4 {
            now_or_never(node.renew());
        }
    }));
    assert!(met.is_err(), "the bug was met");
    house.until(&[&node], "10:00:41");
    assert!(node.take_events().contains(&Event::MemoryDiscarded));
    let mut sent: Vec<String> = house.sent();
    sent.dedup();
    assert_eq!(sent.last().map(String::as_str), Some("10:00:40 #1"), "{sent:?}");
}

#[test]
fn the_time_is_told_while_the_engine_is_busy() {
    let ((ask, asked), (tell, told)) = (channel(), channel());
    let (found, is_told) = channel();
    let ends = Mutex::new((ask, told, found));
    let busy = Ambush::new(move || {
        // Another thread asks for the time; the memory stays in hand until it has its answer.
        let (ask, told, found) = &*ends.lock().unwrap();
        ask.send(()).unwrap();
        found.send(told.recv_timeout(Duration::from_secs(5))).unwrap();
    });
    let house = House::new().marked(Arc::clone(&busy) as Arc<dyn FiredMark>);
    let node = house.node();
    house.set("10:00:10");
    busy.is_set.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        let node = &node;
        scope.spawn(move || {
            asked.recv().unwrap();
            tell.send(node.now()).unwrap();
        });
        for _ in 0..4 {
            now_or_never(node.renew());
        }
    });
    assert_eq!(is_told.recv().unwrap(), Ok(Some(house.now())), "before the engine was done");
}

#[test]
fn no_number_is_drawn_and_no_mark_is_written_while_the_memory_is_in_hand() {
    let (watch, has_bug) = (Watch::default(), Arc::new(AtomicBool::new(false)));
    let mark = WatchedMark { watch: watch.clone(), has_bug: Arc::clone(&has_bug) };
    let house = House::new().marked(Arc::new(mark));
    let drawn = watch.clone();
    house.watch_draws(move || drawn.look());
    drop(house.node());
    house.set("10:00:14");
    let node = Arc::new(house.stranger());
    watch.node.set(Arc::clone(&node)).ok().unwrap();
    let mut lives = vec![node.id()];
    house.step(&node);
    assert!(watch.marks.load(Ordering::Relaxed) > 0, "for what its predecessor may have sent");
    now_or_never(node.leave()).unwrap();
    node.come_back();
    lives.push(node.id());
    house.step(&node);
    // Its term ends.
    house.set("10:00:30");
    house.step(&node);
    lives.push(node.id());
    house.set("10:00:50");
    has_bug.store(true, Ordering::Relaxed);
    let met = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..4 {
            now_or_never(node.renew());
        }
    }));
    assert!(met.is_err(), "the bug was met");
    lives.push(node.id());
    lives.dedup();
    assert_eq!(lives.len(), 4, "each life has a number of its own");
    assert!(!watch.was_in_hand.load(Ordering::Relaxed));
}

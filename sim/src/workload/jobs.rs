//! The jobs of a world: every kind of schedule and every policy, mostly about once a minute.

use std::num::NonZeroU32;
use std::time::Duration;

use calendar::{Dialect, Gap, Outside, Overlap, Timestamp};
use punctual_core::model::{
    Definition, Delivery, ExclusiveKeys, Executor, FlowControl, Http, Schedule, ScheduleKind, Target, Text,
    When, WindowSpec,
};
use punctual_core::policy::misfire::Policy;
use punctual_core::policy::{Block, Misfire, Multiplier, Retry, Route};

use crate::dice::Dice;
use crate::link::Micros;

const ZONES: [&str; 6] = [
    "Etc/UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/St_Johns",
];

/// A job that will be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// When.
    pub created_at: Micros,
    /// As what. What it comes after is filled in when its parent's id is known.
    pub definition: Definition,
    /// The job in the list whose end starts it.
    pub after: Option<(usize, When)>,
}

/// Draws the jobs of a world that begins at `start` (milliseconds) and lasts `length`.
pub fn draw(dice: &mut Dice, count: usize, apps: usize, start: i64, length: Micros) -> Vec<JobPlan> {
    let is_second_allowed = dice.percent(25);
    let herd = dice.percent(50);
    (0..count)
        .map(|index| {
            let mut dice = Dice::seeded(dice.roll());
            let dice = &mut dice;
            let kind = schedule(dice, start, herd, is_second_allowed && index < 2);
            let parent = (index > 0 && dice.percent(10)).then(|| dice.between(0, index as u64 - 1) as usize);
            let kind = if parent.is_some() { ScheduleKind::Manual } else { kind };
            let whens = [When::Succeeded, When::Failed, When::Ended];
            let created_at =
                if dice.percent(70) { dice.between(1, 20_000_000) } else { dice.between(1, length * 3 / 4) };
            let schedule = bounded(dice, kind, start, length);
            JobPlan {
                created_at,
                definition: definition(dice, index, apps, schedule, start),
                after: parent.map(|parent| (parent, dice.pick(&whens))),
            }
        })
        .collect()
}

fn schedule(dice: &mut Dice, start: i64, herd: bool, is_every_second: bool) -> ScheduleKind {
    if is_every_second {
        return every(Duration::from_secs(1), start);
    }
    match dice.weighted(&[45, 30, 10, 5, 10]) {
        0 => cron(dice, herd),
        1 => {
            let seconds = dice.pick(&[20, 30, 45, 60, 60, 61, 90, 120, 300, 600, 3_600, 14_400]);
            let millis = if herd { 0 } else { dice.between(0, 999) };
            every(
                Duration::from_secs(seconds),
                start - dice.between(0, 90_000) as i64 / 1_000 * 1_000 + millis as i64,
            )
        }
        2 => ScheduleKind::Delay { delay: Duration::from_secs(dice.scaled(1, 1_200)) },
        3 => {
            let at = start + dice.between(0, 6 * 3_600_000) as i64 - 600_000;
            ScheduleKind::Once { at: Timestamp::from_millis(at) }
        }
        _ => ScheduleKind::Manual,
    }
}

fn every(interval: Duration, anchor: i64) -> ScheduleKind {
    ScheduleKind::Every { interval, anchor: Timestamp::from_millis(anchor) }
}

fn cron(dice: &mut Dice, herd: bool) -> ScheduleKind {
    let minute = dice.between(0, 59);
    let expression = match dice.between(0, 11) {
        0..=2 => "* * * * *".to_owned(),
        3 => "*/2 * * * *".to_owned(),
        4 => format!("{}-59/5 * * * *", dice.between(0, 4)),
        5 => format!("{} * * * *", if herd { 0 } else { minute }),
        // Fixed times in the hours in which clocks change.
        6 => format!("{minute} 0-3 * * *"),
        7 => "0,15,30,45 1,2 * * *".to_owned(),
        8 => "*/10 1-3 * * *".to_owned(),
        9 => format!("{} * * * * *", dice.between(0, 59)),
        10 => "*/30 * * * * *".to_owned(),
        _ => format!("*/3 * 1-31 * {}", dice.pick(&["*", "0-6", "1-5,0"])),
    };
    ScheduleKind::Cron {
        expression,
        dialect: Dialect::Unix,
        zone: dice.pick(&ZONES).to_owned(),
        gap: dice.pick(&[Gap::Default, Gap::Default, Gap::Skip, Gap::Shift]),
        overlap: dice.pick(&[
            Overlap::Default,
            Overlap::Default,
            Overlap::First,
            Overlap::Last,
            Overlap::Both,
        ]),
    }
}

/// A few schedules begin later or end before the world does.
fn bounded(dice: &mut Dice, kind: ScheduleKind, start: i64, length: Micros) -> Schedule {
    let mut schedule = Schedule::from(kind);
    let somewhere = |dice: &mut Dice| Timestamp::from_millis(start + dice.between(0, length / 1_000) as i64);
    if dice.percent(4) {
        schedule.from = Some(somewhere(dice));
    }
    if dice.percent(4) {
        schedule.until = Some(somewhere(dice));
    }
    schedule
}

/// The app of a job, by its place in the list.
pub fn app_of(index: usize, apps: usize) -> String {
    format!("a{}", index % apps)
}

/// The agent that a job calls over HTTP, by its place in the list.
pub fn agent(index: usize) -> Target {
    Target::Http(Http::post(format!("http://agent.test/h{index}")))
}

fn definition(dice: &mut Dice, index: usize, apps: usize, schedule: Schedule, start: i64) -> Definition {
    let target = if dice.percent(50) {
        agent(index)
    } else {
        Target::Executor(Executor { route: route(dice), ..Executor::of(format!("h{index}")) })
    };
    // So few, and so short, that runs that never overlap are not more than the time has room for.
    let keys: &[&'static str] = match index {
        3 => &["a"],
        4 => &["b"],
        5 => &["a", "b"],
        _ => &[],
    };
    let at_most_once = dice.percent(25);
    // Long enough for an executor to be asked twice, more often than not.
    let longest = if matches!(target, Target::Executor(_)) { 240 } else { 120 };
    Definition {
        app: app_of(index, apps),
        name: format!("j{index}"),
        description: String::new(),
        tags: Vec::new(),
        schedule,
        target,
        misfire: misfire(dice),
        retry: if keys.is_empty() { retry(dice) } else { Retry { max_attempts: 2, ..Retry::default() } },
        timeout: Duration::from_secs(if keys.is_empty() { dice.scaled(2, longest) } else { 3 }),
        delivery: if at_most_once { Delivery::AtMostOnce } else { Delivery::AtLeastOnce },
        priority: dice.between(0, 9) as u8,
        block: block(dice),
        windows: if dice.percent(3) { vec![window(dice, start)] } else { Vec::new() },
        after: Vec::new(),
        failure_limit: if dice.percent(8) { dice.between(1, 6) as u32 } else { 0 },
        flow: flow(dice, keys),
    }
}

/// A few jobs share what they use with others, are spread, or belong to a class.
fn flow(dice: &mut Dice, keys: &[&'static str]) -> FlowControl {
    let exclusive = ExclusiveKeys::new(keys.iter().map(|key| Text::Borrowed(*key)));
    let class = match dice.between(0, 5) {
        0 => Some("output"),
        1 => Some("query"),
        _ => None,
    };
    let jitter = if dice.percent(8) { dice.between(1, 40_000) } else { 0 };
    FlowControl {
        class: class.map(Text::Borrowed),
        jitter: Duration::from_millis(jitter),
        exclusive: exclusive.expect("each is one word"),
    }
}

/// Every route but one as often as the others; every tenth goes to all executors.
fn route(dice: &mut Dice) -> Route {
    let (all, single) = (Route::ShardingBroadcast, Route::ALL.len() - 1);
    if dice.percent(10) { all } else { dice.pick(&Route::ALL[..single]) }
}

fn misfire(dice: &mut Dice) -> Misfire {
    let threshold = match dice.between(0, 3) {
        0 | 1 => 5_000,
        2 => 10_000,
        _ => dice.scaled(1_000, 600_000),
    };
    Misfire {
        policy: dice.pick(&[Policy::Skip, Policy::FireOnce, Policy::FireAll]),
        threshold: Duration::from_millis(threshold),
    }
}

fn retry(dice: &mut Dice) -> Retry {
    Retry {
        max_attempts: dice.between(1, 4) as u32,
        initial_delay: Duration::from_millis(dice.scaled(100, 10_000)),
        multiplier: Multiplier::from_per_mille(dice.between(1_000, 3_000) as u32).expect("between 1 and 3"),
        max_delay: Duration::from_millis(dice.scaled(1_000, 60_000)),
    }
}

fn block(dice: &mut Dice) -> Block {
    match dice.between(0, 9) {
        0 | 1 => Block::Serial,
        2 => Block::Discard,
        3 => Block::Cover,
        4 => Block::Concurrent(NonZeroU32::new(dice.between(1, 3) as u32)),
        _ => Block::Concurrent(None),
    }
}

fn window(dice: &mut Dice, start: i64) -> WindowSpec {
    let hour = (start / 3_600_000 + dice.between(0, 5) as i64).rem_euclid(24);
    let until = hour + dice.between(1, 3) as i64;
    let hours = format!("{hour:02}:{:02}-{:02}:00", dice.between(0, 59), until.rem_euclid(24));
    let zone = dice.pick(&["Etc/UTC", "Europe/Berlin"]).to_owned();
    WindowSpec { days: "mon-sun".into(), hours, zone, outside: dice.pick(&[Outside::Skip, Outside::Defer]) }
}

/// The definition of an edit: the same job with another rhythm, policy, limit or route. What decides about delivery stays,
/// since a run's promise is the one it was sent under.
pub fn variant(base: &Definition, number: u64, start: i64) -> Definition {
    let mut definition = base.clone();
    match number {
        0 => {}
        1 => definition.schedule.kind = every(Duration::from_secs(45), start + 7_000),
        2 => {
            let zone = "America/New_York".to_owned();
            let (dialect, gap, overlap) = (Dialect::Unix, Gap::Default, Overlap::Default);
            let expression = "*/2 * * * *".to_owned();
            definition.schedule.kind = ScheduleKind::Cron { expression, dialect, zone, gap, overlap };
        }
        3 => {
            definition.misfire = Misfire { policy: Policy::FireAll, threshold: Duration::from_secs(30) };
            definition.description = "more patient".into();
        }
        4 => definition.block = Block::Serial,
        _ => {
            definition.retry.max_attempts += 1;
            definition.timeout += Duration::from_secs(5);
            definition.priority = 9 - definition.priority;
            if let Target::Executor(executor) = &mut definition.target {
                let is_broadcast = executor.route == Route::ShardingBroadcast;
                executor.route = if is_broadcast { Route::Round } else { Route::ShardingBroadcast };
            }
        }
    }
    definition
}

//! The world of a seed: its shape, its workload and its faults.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{ExclusiveKeys, Text};
use punctual_core::policy::{Block, Classes, Limits};
use punctual_node::{Planted, RegistrySettings, Settings};

use crate::dice::{Dice, Stream};
use crate::faults::{self, Fault, Kinds};
use crate::link::{Drift, Micros};
use crate::workload::{self, Command, JobPlan};

/// The default length of a world.
pub const SIX_HOURS: Micros = 6 * HOUR;
/// The time without faults at the end of a world.
pub const PEACE: Micros = 10 * 60 * 1_000_000;
const HOUR: Micros = 3_600 * 1_000_000;

/// The most nodes that a world has.
pub const NODES_MAX: usize = 5;

/// Moments worth being near: changes of clocks in the zones that jobs use, and the ends of days and of February.
const MOMENTS: [&str; 10] = [
    "2026-03-08T07:00:00Z",
    "2026-11-01T06:00:00Z",
    "2026-03-29T01:00:00Z",
    "2026-10-25T01:00:00Z",
    "2026-04-04T15:00:00Z",
    "2026-10-03T15:30:00Z",
    "2026-02-28T23:59:00Z",
    "2026-12-31T23:00:00Z",
    "2026-06-15T00:00:00Z",
    "2026-08-20T12:00:00Z",
];

/// The character of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Character {
    /// The app it belongs to.
    pub app: usize,
    /// Whether it refuses a token that is not above the last it accepted for the run.
    pub checks_tokens: bool,
    /// Whether it sometimes reports success and then failure, or the other way round.
    pub lies: bool,
    /// Whether it reports to any node, not only to the one that sent the attempt.
    pub reports_anywhere: bool,
    /// Whether it ends attempts on request.
    pub obeys_kills: bool,
    /// How many attempts in a million fail.
    pub fails: u32,
    /// How many in a million it declines.
    pub declines: u32,
    /// How many in a million it never answers.
    pub hangs: u32,
    /// The longest that an attempt usually takes, in milliseconds.
    pub length_ms: u64,
    /// How wrong its clock is, in milliseconds.
    pub clock_off_ms: i64,
    /// The interval of its beats.
    pub beat: Micros,
    /// Whether it always answers that it is idle, as some executors do.
    pub says_idle: bool,
    /// Whether it identifies attempts by the numbers of their gates only.
    pub calls_back: bool,
}

/// The latency of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The least, one way, in microseconds.
    pub least: u64,
    /// The usual maximum.
    pub most: u64,
    /// Requests in a million that take far longer.
    pub slow: u32,
    /// The maximum of those.
    pub slowest: u64,
}

/// A whole world before it starts.
#[derive(Clone, Debug)]
pub struct WorldSetup {
    /// The seed.
    pub seed: u64,
    /// The store's clock at the beginning.
    pub start: i64,
    /// How long faults happen.
    pub length: Micros,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many shards.
    pub shards: u16,
    /// How every node behaves.
    pub settings: Settings,
    /// The nodes' clocks.
    pub clocks: [Drift; NODES_MAX],
    /// How many parts in a million the store's clock is too fast.
    pub store_ppm: i64,
    /// How long a node waits for the store.
    pub deadline: Micros,
    /// How long requests take.
    pub latency: Latency,
    /// How long a key outlives its run.
    pub key_ttl: Duration,
    /// How many apps there are.
    pub apps: usize,
    /// Apps whose executors do not register, because people listed their addresses.
    pub manual: Vec<bool>,
    /// The executors.
    pub executors: Vec<Character>,
    /// The jobs.
    pub jobs: Vec<JobPlan>,
    /// The commands of clients.
    pub commands: Vec<Command>,
    /// Which kinds of faults there are.
    pub kinds: Kinds,
    /// The faults.
    pub faults: Vec<Fault>,
    /// The app whose executors take every attempt and answer none, also in the time without faults.
    pub hung: Option<usize>,
    /// A bug at the seam between nodes and store.
    pub plant: Option<Plant>,
}

/// A shape that is imposed on a drawn world, so that a rare case occurs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As it was drawn.
    Drawn,
    /// Few places for HTTP sends, and little room in memory.
    Narrow,
    /// The same, and one app hangs: no place of a pool is left unless slow calls leave it.
    Hung,
    /// One app hangs, and slow calls find no place outside the fast pool: only its share keeps it from taking the pool.
    Crowded,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 4] = [Shape::Drawn, Shape::Narrow, Shape::Hung, Shape::Crowded];

    /// The shape of that name on the command line.
    pub fn named(name: &str) -> Option<Shape> {
        Shape::ALL.into_iter().find(|shape| format!("{shape:?}") == name)
    }
}

/// Bugs of a store and of the connection to it, for the simulator to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A clock is advanced in one transaction, and the runs are written in another.
    PlanInTwo,
    /// A gate is granted even if another attempt has its key.
    GateWithoutKey,
    /// The expiry of a lease is judged by the clock of the asking node.
    ExpiryByAskersClock,
    /// A late result overwrites the one that was there.
    LateResultWins,
    /// A commit whose answer was lost is reported as one that did not happen.
    UnknownToldAsFailure,
    /// After a failover numbers are given out a second time.
    NumbersReused,
    /// A settlement is answered before it is written.
    SettledEarly,
    /// The end of any part is reported as the end of all parts.
    JoinedEarly,
    /// Parked runs are called back job by job.
    CalledJobByJob,
    /// From the end of trouble on, some clocks that are due are not found.
    ClocksOverlooked,
    /// Exclusive keys are asked for, and no run has them.
    KeysUnheld,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 11] = [
        Plant::PlanInTwo,
        Plant::GateWithoutKey,
        Plant::ExpiryByAskersClock,
        Plant::LateResultWins,
        Plant::UnknownToldAsFailure,
        Plant::NumbersReused,
        Plant::SettledEarly,
        Plant::JoinedEarly,
        Plant::CalledJobByJob,
        Plant::ClocksOverlooked,
        Plant::KeysUnheld,
    ];
}

/// The parts that shrinking leaves out of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// End after this.
    pub length: Option<Micros>,
    /// No more nodes than these.
    pub nodes: Option<usize>,
    /// Only the first so many jobs.
    pub jobs: Option<usize>,
    /// Without these kinds of faults.
    pub without: Vec<faults::FaultKind>,
    /// Only these faults, by their place in the list.
    pub faults: Option<Vec<usize>>,
    /// Only these commands, by their place in the list, and the creations.
    pub commands: Option<Vec<usize>>,
}

impl WorldSetup {
    /// The world of a seed.
    pub fn new(seed: u64, length: Micros) -> WorldSetup {
        let dice = &mut Dice::new(seed, Stream::Setup);
        let nodes = dice.pick(&[1, 1, 2, 2, 3, 3, 3, 4, 5]);
        let shards = dice.pick(&[1, 1, 2, 4, 8, 16]);
        let start = start(dice, length);
        let settings = settings(dice);
        let drift = |dice: &mut Dice| Drift {
            offset_us: dice.between(1_000_000, 10_000_000_000),
            ppm: dice.between(0, 400) as i64 - 200,
        };
        let clocks = std::array::from_fn(|_| drift(dice));
        let store_ppm = dice.between(0, 400) as i64 - 200;
        let apps = dice.between(1, 4) as usize;
        let executors = (0..apps).flat_map(|app| (0..dice.between(1, 3)).map(|_| app).collect::<Vec<_>>());
        let executors: Vec<usize> = executors.collect();
        let executors = executors.into_iter().map(|app| character(dice, app)).collect();
        let manual = (0..apps).map(|_| dice.percent(15)).collect();
        let latency = latency(dice);
        let key_ttl = Duration::from_secs(dice.scaled(1, 3_600));
        let count = dice.scaled(1, 200) as usize;
        let kinds = faults::swarm(dice);
        let work = &mut Dice::new(seed, Stream::Workload);
        let jobs = workload::draw(work, count, apps, start, SIX_HOURS.max(length));
        let commands = workload::plan(work, &jobs, SIX_HOURS.max(length));
        let faults = faults::plan(&mut Dice::new(seed, Stream::Faults), kinds, SIX_HOURS.max(length));
        let mut setup = WorldSetup {
            seed,
            start,
            length,
            nodes,
            shards,
            settings,
            clocks,
            store_ppm,
            deadline: 2_000_000,
            latency,
            key_ttl,
            apps,
            manual,
            executors,
            jobs,
            commands,
            kinds,
            faults,
            hung: None,
            plant: None,
        };
        setup.end_after(length);
        setup
    }

    fn end_after(&mut self, length: Micros) {
        self.length = length;
        self.faults.retain(|fault| fault.at < length);
        self.commands.retain(|command| command.at < length);
    }

    /// The world with parts left out.
    #[must_use]
    pub fn cut(mut self, cut: &Cut) -> WorldSetup {
        if let Some(kept) = &cut.faults {
            self.faults = kept.iter().filter_map(|index| self.faults.get(*index).copied()).collect();
        }
        if let Some(kept) = &cut.commands {
            let mut index = 0;
            self.commands.retain(|command| {
                index += 1;
                command.ask == workload::ClientRequest::Create || kept.contains(&(index - 1))
            });
        }
        self.faults.retain(|fault| !cut.without.contains(&fault.kind));
        self.kinds = cut.without.iter().fold(self.kinds, |kinds, kind| kinds.without(*kind));
        if let Some(nodes) = cut.nodes {
            self.nodes = self.nodes.min(nodes).max(1);
        }
        if let Some(jobs) = cut.jobs {
            self.commands.retain(|command| command.job < jobs);
        }
        if let Some(length) = cut.length.filter(|length| *length < self.length) {
            self.end_after(length);
        }
        self
    }

    /// Whether the executors of an app listen only to nodes that show the app's token.
    pub fn has_token(&self, app: usize) -> bool {
        (self.seed + app as u64).is_multiple_of(2)
    }

    /// The world with a bug in every node.
    #[must_use]
    pub fn planted(mut self, bug: Planted) -> WorldSetup {
        self.settings.planted = Some(bug);
        self
    }

    /// The world in another shape.
    #[must_use]
    pub fn shaped(self, shape: Shape) -> WorldSetup {
        match shape {
            Shape::Drawn => self,
            Shape::Narrow => self.narrow(),
            Shape::Hung => self.narrow().with_hung_app(),
            Shape::Crowded => self.crowded().with_hung_app(),
        }
    }

    /// The same with few places for HTTP sends and little room in memory.
    fn narrow(mut self) -> WorldSetup {
        (self.settings.limits, self.settings.due_max) = (NARROW, NARROW_DUE);
        self.settings.wheel_capacity = self.settings.wheel_capacity.min(100);
        self
    }

    /// The same with [`CROWDED`] places, and room in memory for all that waits for them.
    fn crowded(mut self) -> WorldSetup {
        let Settings { due_max, wheel_capacity, known_max, .. } = Settings::default();
        self.settings = Settings { limits: CROWDED, due_max, wheel_capacity, known_max, ..self.settings };
        self
    }

    /// The same with an app that answers no call: the last one. Its jobs call over HTTP, side by side, and wait long.
    fn with_hung_app(mut self) -> WorldSetup {
        if self.apps == 1 {
            self.apps = 2;
            self.manual.push(false);
            self.executors.push(Character { app: 1, ..self.executors[0] });
        }
        let hung = self.apps - 1;
        for executor in self.executors.iter_mut().filter(|executor| executor.app == hung) {
            (executor.hangs, executor.declines) = (1_000_000, 0);
        }
        for (index, JobPlan { definition, .. }) in self.jobs.iter_mut().enumerate() {
            definition.app = workload::app_of(index, self.apps);
            // A call that hangs would keep its exclusive keys from everything else for ten minutes.
            definition.flow.exclusive = ExclusiveKeys::default();
            if index % self.apps == hung {
                definition.target = workload::agent(index);
                (definition.timeout, definition.block) = (HUNG, Block::Concurrent(None));
            }
        }
        self.hung = Some(hung);
        self
    }

    /// The world with a bug at the seam.
    #[must_use]
    pub fn with_plant(mut self, plant: Plant) -> WorldSetup {
        self.plant = Some(plant);
        self
    }
}

/// Few places for HTTP sends.
const NARROW: Limits = Limits { fast_open: 2, fast_queue: 4, slow_open: 1, slow_queue: 3, overflow: 1_000 };

/// A few more places, of which a job or app may not take all, and nearly none for calls that leave the fast pool.
const CROWDED: Limits = Limits { fast_open: 8, fast_queue: 16, slow_open: 2, slow_queue: 3, overflow: 2 };

/// How long the calls of an app that hangs are waited for.
const HUNG: Duration = Duration::from_secs(600);

/// Room for few runs that are due.
const NARROW_DUE: usize = 7;

/// Room for few jobs in memory.
const NARROW_KNOWN: usize = 8;

/// Near something interesting, such that it falls into the world.
fn start(dice: &mut Dice, length: Micros) -> i64 {
    let moment: Timestamp = dice.pick(&MOMENTS).parse().expect("a constant");
    let before = dice.between(60_000, (length / 1_000).max(120_000)) as i64;
    moment.as_millis() - before
}

fn settings(dice: &mut Dice) -> Settings {
    let seconds = |dice: &mut Dice, choices: &[u64]| Duration::from_secs(dice.pick(choices));
    let batch = |dice: &mut Dice| dice.pick(&[1, 3, 1_000, 1_000]) as usize;
    let horizon = seconds(dice, &[5, 5, 5, 2, 15, 60]);
    let is_narrow = dice.percent(25);
    Settings {
        term: seconds(dice, &[4, 4, 4, 6, 10]),
        margin: Duration::from_millis(500),
        renew_every: Duration::from_secs(1),
        horizon,
        look_every: Duration::from_secs(1).min(horizon / 2),
        plan_max: batch(dice),
        load_ahead: seconds(dice, &[30, 30, 10, 6, 120]).max(horizon),
        load_max: batch(dice),
        wheel_capacity: dice.pick(&[1_000_000, 1_000_000, 1_000_000, 100, 12, 3]),
        known_max: if is_narrow { NARROW_KNOWN } else { 200_000 },
        fire_max: batch(dice),
        catch_up_max: dice.pick(&[1, 10, 100]),
        settle_max: batch(dice),
        queue_max: dice.pick(&[1, 3, 1_000, 1_000]),
        limits: if is_narrow { NARROW } else { Limits::default() },
        classes: Classes::default(),
        due_max: if is_narrow { NARROW_DUE } else { 100_000 },
        grace: seconds(dice, &[10, 10, 2]),
        note_after: Duration::from_millis(dice.pick(&[1_000, 1_000, 200, 5_000])),
        sweep_every: seconds(dice, &[30, 30, 10, 60]),
        pause: Duration::from_millis(dice.pick(&[200, 200, 50])),
        registry: registry(dice),
        retention: seconds(dice, &[30 * 86_400, 30 * 86_400, 3_600, 60]),
        name: Text::Borrowed(""),
        address: Text::Borrowed(""),
        planted: None,
    }
}

fn registry(dice: &mut Dice) -> RegistrySettings {
    let mut seconds = |choices: &[u64]| Duration::from_secs(dice.pick(choices));
    RegistrySettings {
        beat: seconds(&[30]),
        dead: seconds(&[90, 90, 60, 45]),
        sweep: seconds(&[30, 30, 10]),
        wait: seconds(&[60, 60, 10, 2]),
        probe: seconds(&[5, 10, 20]),
        doubt: seconds(&[30, 10, 3, 20]),
        away: seconds(&[45, 60, 20]),
        ..RegistrySettings::default()
    }
}

fn latency(dice: &mut Dice) -> Latency {
    let least = dice.scaled(50, 2_000);
    Latency {
        least,
        most: least * dice.between(2, 10),
        slow: dice.pick(&[0, 100, 2_000, 20_000]),
        slowest: dice.scaled(50_000, 3_000_000),
    }
}

fn character(dice: &mut Dice, app: usize) -> Character {
    Character {
        app,
        checks_tokens: dice.percent(50),
        lies: dice.percent(20),
        reports_anywhere: dice.percent(30),
        obeys_kills: dice.percent(60),
        fails: dice.pick(&[0, 10_000, 100_000, 300_000]),
        declines: dice.pick(&[0, 0, 20_000, 100_000]),
        hangs: dice.pick(&[0, 0, 10_000, 50_000]),
        length_ms: dice.pick(&[20, 200, 2_000, 20_000]),
        clock_off_ms: dice.pick(&[0, 0, 0, 3_600_000, -3_600_000, 40]),
        beat: dice.between(10_000_000, 30_000_000),
        says_idle: dice.percent(15),
        calls_back: dice.percent(15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_world_and_another_seed_another() {
        let of = |seed| format!("{:?}", WorldSetup::new(seed, SIX_HOURS));
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn a_shorter_world_begins_like_a_longer_one() {
        let (long, short) = (WorldSetup::new(9, SIX_HOURS), WorldSetup::new(9, SIX_HOURS));
        let short = short.cut(&Cut { length: Some(HOUR), ..Cut::default() });
        assert!(short.faults.iter().zip(&long.faults).all(|(short, long)| short == long));
        assert!(short.faults.iter().all(|fault| fault.at < HOUR));
        assert_eq!(short.jobs, long.jobs);
    }

    #[test]
    fn a_cut_keeps_what_it_names() {
        let all = (0..99).map(|seed| WorldSetup::new(seed, SIX_HOURS)).find(|setup| setup.faults.len() > 9);
        let setup = all.expect("some world has many faults");
        let cut = Cut { faults: Some(vec![1, 5]), nodes: Some(1), jobs: Some(1), ..Cut::default() };
        let small = setup.clone().cut(&cut);
        assert_eq!(small.faults, [setup.faults[1], setup.faults[5]]);
        assert!(small.nodes == 1 && small.commands.iter().all(|command| command.job == 0));
    }
}

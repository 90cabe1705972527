//! What people and programs want from a world: its jobs, and the commands given while it runs. Decided before it
//! starts, as lists.

mod jobs;

use crate::dice::Dice;
use crate::link::Micros;

pub use jobs::{JobPlan, agent, app_of, draw, variant};

const SECOND: Micros = 1_000_000;

/// Something that a client asks of some node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// When.
    pub at: Micros,
    /// Which node, modulo how many there are; another one if it is down.
    pub via: usize,
    /// Of which job, by its place in the list.
    pub job: usize,
    /// What.
    pub ask: Ask,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Create the job.
    Create,
    /// Give it another definition; 0 is the one it was created with.
    Edit(u64),
    /// Stop it.
    Stop,
    /// Start it.
    Start,
    /// Delete it.
    Delete,
    /// Run it now.
    RunNow,
    /// Hand over one-shots that are due so many milliseconds from now.
    Submit {
        /// How many, all for one millisecond.
        count: u32,
        /// The number of their first key, if they have keys.
        key: Option<u32>,
        /// From now; in the past if negative.
        in_ms: i64,
    },
    /// End one of its open runs.
    Cancel(u64),
    /// Let one of its open runs wait for so many milliseconds from now.
    Reschedule(u64, i64),
    /// Run the instants of a range that ended some milliseconds ago and is so long.
    Backfill(i64, i64),
    /// Run one of its settled runs again.
    Retry(u64),
    /// Put nonsense into its row, behind everybody's back.
    Poison(u64),
}

impl Ask {
    /// For counting.
    pub fn name(&self) -> &'static str {
        match self {
            Ask::Create => "create",
            Ask::Edit(..) => "edit",
            Ask::Stop => "stop",
            Ask::Start => "start",
            Ask::Delete => "delete",
            Ask::RunNow => "run now",
            Ask::Submit { .. } => "submit",
            Ask::Cancel(..) => "cancel",
            Ask::Reschedule(..) => "reschedule",
            Ask::Backfill(..) => "backfill",
            Ask::Retry(..) => "retry",
            Ask::Poison(..) => "poison",
        }
    }
}

/// The commands of a world of this length, in the order of time.
pub fn plan(dice: &mut Dice, jobs: &[JobPlan], length: Micros) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for (job, plan) in jobs.iter().enumerate() {
        commands.push(Command {
            at: plan.created_at,
            via: dice.between(0, 59) as usize,
            job,
            ask: Ask::Create,
        });
    }
    let asks: [fn(&mut Dice) -> Ask; 11] = [
        |dice| Ask::Edit(dice.between(0, 5)),
        |_| Ask::Stop,
        |_| Ask::Start,
        |_| Ask::Delete,
        |_| Ask::RunNow,
        submit,
        |dice| Ask::Cancel(dice.roll()),
        |dice| Ask::Reschedule(dice.roll(), dice.scaled(1, 600_000) as i64),
        |dice| Ask::Backfill(dice.between(0, 600_000) as i64, dice.scaled(1_000, 3_600_000) as i64),
        |dice| Ask::Retry(dice.roll()),
        |dice| Ask::Poison(dice.roll()),
    ];
    for draw in asks {
        let mut dice = Dice::seeded(dice.roll());
        let sample = draw(&mut dice);
        let (least, most) = match sample {
            Ask::Delete => (600, 14_400),
            Ask::Poison(..) => (3_600, 43_200),
            Ask::Submit { .. } => (15, 900),
            _ => (30, 3_600),
        };
        if dice.percent(30) {
            continue;
        }
        let mean = dice.scaled(least, most) * SECOND;
        let mut at = dice.between(SECOND, 2 * mean);
        while at < length {
            let (job, via) = (dice.between(0, jobs.len() as u64 - 1) as usize, dice.between(0, 59) as usize);
            let ask = draw(&mut dice);
            commands.push(Command { at, via, job, ask });
            follow_up(&mut dice, &mut commands, at, job, ask);
            at += dice.between(1, 2 * mean);
        }
    }
    // What comes before a job's creation would only be refused.
    commands.retain(|command| command.ask == Ask::Create || jobs[command.job].created_at < command.at);
    commands.sort_by_key(|command| command.at);
    commands
}

/// A second command that meets the first: an edit taken back inside the horizon, a stop that was not meant, the same
/// backfill again.
fn follow_up(dice: &mut Dice, commands: &mut Vec<Command>, at: Micros, job: usize, ask: Ask) {
    let soon = at + dice.scaled(20_000, 6 * SECOND);
    let (chance, next) = match ask {
        Ask::Edit(_) => (60, Ask::Edit(0)),
        Ask::Stop => (80, Ask::Start),
        Ask::Backfill(..) => (30, ask),
        Ask::Submit { key: Some(_), .. } => (50, ask),
        Ask::RunNow => (20, Ask::RunNow),
        _ => (0, ask),
    };
    if dice.percent(chance) {
        let later = if ask == Ask::Stop { at + dice.scaled(SECOND, 600 * SECOND) } else { soon };
        commands.push(Command { at: later, via: dice.between(0, 59) as usize, job, ask: next });
    }
}

fn submit(dice: &mut Dice) -> Ask {
    let count = if dice.percent(15) { dice.scaled(2, 60) as u32 } else { 1 };
    let key = dice.percent(50).then(|| dice.between(0, 40) as u32);
    let in_ms = match dice.between(0, 9) {
        0 => -(dice.scaled(1, 86_400_000) as i64),
        1..=3 => 0,
        4..=7 => dice.scaled(1, 20_000) as i64,
        _ => dice.scaled(1_000, 7_200_000) as i64,
    };
    Ask::Submit { count, key, in_ms }
}

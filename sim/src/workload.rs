//! The workload of a world: its jobs, and the commands of clients while it runs. Both are lists that are decided before it
//! starts.

mod jobs;

use crate::dice::Dice;
use crate::link::Micros;

pub use jobs::{JobPlan, agent, app_of, draw, variant};

const SECOND: Micros = 1_000_000;

/// A request of a client to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// When it is sent.
    pub at: Micros,
    /// The node, modulo their number; another one if it is down.
    pub via: usize,
    /// The job, by its index.
    pub job: usize,
    /// The request.
    pub ask: ClientRequest,
}

/// The requests of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRequest {
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
    /// Submit one-shots that are due `in_ms` milliseconds from now.
    Submit {
        /// Their number, all due in one millisecond.
        count: u32,
        /// The number of their first key, if they have keys.
        key: Option<u32>,
        /// From now; in the past if negative.
        in_ms: i64,
    },
    /// Cancel one of its open runs.
    Cancel(u64),
    /// Reschedule one of its open runs to this many milliseconds from now.
    Reschedule(u64, i64),
    /// Backfill a range that ended some milliseconds ago; its end and its length.
    Backfill(i64, i64),
    /// Run one of its settled runs again.
    Retry(u64),
    /// Corrupt its row directly in the store.
    Poison(u64),
}

impl ClientRequest {
    /// The name for counting.
    pub fn name(&self) -> &'static str {
        match self {
            ClientRequest::Create => "create",
            ClientRequest::Edit(..) => "edit",
            ClientRequest::Stop => "stop",
            ClientRequest::Start => "start",
            ClientRequest::Delete => "delete",
            ClientRequest::RunNow => "run now",
            ClientRequest::Submit { .. } => "submit",
            ClientRequest::Cancel(..) => "cancel",
            ClientRequest::Reschedule(..) => "reschedule",
            ClientRequest::Backfill(..) => "backfill",
            ClientRequest::Retry(..) => "retry",
            ClientRequest::Poison(..) => "poison",
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
            ask: ClientRequest::Create,
        });
    }
    let asks: [fn(&mut Dice) -> ClientRequest; 11] = [
        |dice| ClientRequest::Edit(dice.between(0, 5)),
        |_| ClientRequest::Stop,
        |_| ClientRequest::Start,
        |_| ClientRequest::Delete,
        |_| ClientRequest::RunNow,
        submit,
        |dice| ClientRequest::Cancel(dice.roll()),
        |dice| ClientRequest::Reschedule(dice.roll(), dice.scaled(1, 600_000) as i64),
        |dice| ClientRequest::Backfill(dice.between(0, 600_000) as i64, dice.scaled(1_000, 3_600_000) as i64),
        |dice| ClientRequest::Retry(dice.roll()),
        |dice| ClientRequest::Poison(dice.roll()),
    ];
    for draw in asks {
        let mut dice = Dice::seeded(dice.roll());
        let sample = draw(&mut dice);
        let (least, most) = match sample {
            ClientRequest::Delete => (600, 14_400),
            ClientRequest::Poison(..) => (3_600, 43_200),
            ClientRequest::Submit { .. } => (15, 900),
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
    commands
        .retain(|command| command.ask == ClientRequest::Create || jobs[command.job].created_at < command.at);
    commands.sort_by_key(|command| command.at);
    commands
}

/// A second command that conflicts with the first: an edit undone inside the horizon, a stop undone, the same backfill
/// again.
fn follow_up(dice: &mut Dice, commands: &mut Vec<Command>, at: Micros, job: usize, ask: ClientRequest) {
    let soon = at + dice.scaled(20_000, 6 * SECOND);
    let (chance, next) = match ask {
        ClientRequest::Edit(_) => (60, ClientRequest::Edit(0)),
        ClientRequest::Stop => (80, ClientRequest::Start),
        ClientRequest::Backfill(..) => (30, ask),
        ClientRequest::Submit { key: Some(_), .. } => (50, ask),
        ClientRequest::RunNow => (20, ClientRequest::RunNow),
        _ => (0, ask),
    };
    if dice.percent(chance) {
        let later = if ask == ClientRequest::Stop { at + dice.scaled(SECOND, 600 * SECOND) } else { soon };
        commands.push(Command { at: later, via: dice.between(0, 59) as usize, job, ask: next });
    }
}

fn submit(dice: &mut Dice) -> ClientRequest {
    let count = if dice.percent(15) { dice.scaled(2, 60) as u32 } else { 1 };
    let key = dice.percent(50).then(|| dice.between(0, 40) as u32);
    let in_ms = match dice.between(0, 9) {
        0 => -(dice.scaled(1, 86_400_000) as i64),
        1..=3 => 0,
        4..=7 => dice.scaled(1, 20_000) as i64,
        _ => dice.scaled(1_000, 7_200_000) as i64,
    };
    ClientRequest::Submit { count, key, in_ms }
}

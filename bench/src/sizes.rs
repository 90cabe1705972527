//! The sizes of the scenarios.

use std::time::Duration;

/// The sizes of all scenarios.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// One-shots that are inserted before some are loaded and closed.
    pub rows: u64,
    /// How many one-shots are inserted at once, and how many in all.
    pub inserts: Vec<(u64, u64)>,
    /// How many of them are loaded and closed.
    pub closed: u64,
    /// How many are written at once.
    pub batch: u64,
    /// How many are loaded at once.
    pub page: usize,
    /// Recurring jobs stored, for each figure.
    pub jobs_stored: Vec<u64>,
    /// How many of them are due a second.
    pub jobs_due: u64,
    /// How many seconds are planned.
    pub ticks: u64,
    /// Recurring jobs stored of which hardly any are due.
    pub idle_jobs: u64,
    /// Timers in the wheel.
    pub timers: u64,
    /// Timers in a node.
    pub loaded: u64,
    /// Jobs that fire all the time.
    pub firing: u64,
    /// How often each of them fires.
    pub interval: Duration,
    /// How long they fire before it counts, and how long it counts.
    pub warm_up: Duration,
    /// How long it counts.
    pub duration: Duration,
    /// One-shots that are due at one instant.
    pub herd: u64,
    /// How long it takes at most to hand them in.
    pub lead: Duration,
    /// One-shots that are due at one second, to an agent.
    pub called: u64,
    /// One-shots that are due at once, to an agent, one after the other.
    pub executed: u64,
    /// One-shots that are due at one second, to an XXL-JOB executor.
    pub triggered: u64,
    /// One-shots that are due at one second, to a native executor, and how often.
    pub punctual_herd: u64,
    /// How often.
    pub herds: u64,
    /// One-shots that are handed over through the API, in each of the ways.
    pub submitted: u64,
    /// One-shots that are handed over one by one.
    pub submitted_alone: u64,
    /// One-shots that are cancelled, in each of the ways.
    pub cancelled: u64,
    /// One-shots that are only stored.
    pub stored: u64,
    /// How many others are due every second.
    pub due_rate: u64,
    /// For how long.
    pub steady: Duration,
    /// How many are due every second where it goes on for long.
    pub sustained_rate: u64,
    /// How long that is.
    pub sustained: Duration,
    /// One-shots that are due at one second, more than a node holds.
    pub flood: u64,
    /// One-shots that are due at one second, to an agent, over many jobs.
    pub backlog: u64,
    /// How many jobs those belong to, for each figure.
    pub backlog_jobs: Vec<u64>,
    /// How long the agent takes for each of them.
    pub backlog_takes: Duration,
    /// Jobs that run a few at a time, and how many one-shots of theirs are due at one second: more than 1,000 of each.
    pub parked: (u64, u64),
    /// Calls of one job that hang while other apps' jobs are due.
    pub hanging: u64,
    /// How long the other apps are measured meanwhile.
    pub starved: Duration,
    /// One-shots for each node of a cluster.
    pub scaled: u64,
    /// How many hundredths of a core each node of a cluster gets.
    pub share: u64,
    /// Jobs that are stored while people look at pages of them.
    pub browsed_jobs: u64,
    /// Runs that have ended meanwhile.
    pub browsed_runs: u64,
    /// Connections of each kind that a node is abused with.
    pub abusers: u64,
    /// For how long.
    pub abused: Duration,
    /// How late all but one in a hundred runs may be meanwhile.
    pub abused_p99: Duration,
}

impl Sizes {
    /// The sizes of published figures.
    pub fn full() -> Sizes {
        Sizes {
            rows: 2_000_000,
            inserts: vec![(1, 20_000), (100, 500_000), (1_000, 1_000_000), (10_000, 1_000_000)],
            closed: 1_000_000,
            batch: 1_000,
            page: 10_000,
            jobs_stored: vec![10_000, 100_000, 1_000_000],
            jobs_due: 1_000,
            ticks: 200,
            idle_jobs: 1_000_000,
            timers: 1_000_000,
            loaded: 1_000_000,
            firing: 10_000,
            interval: Duration::from_secs(1),
            warm_up: Duration::from_secs(5),
            duration: Duration::from_secs(60),
            herd: 50_000,
            lead: Duration::from_secs(5),
            called: 10_000,
            executed: 300_000,
            triggered: 200_000,
            punctual_herd: 5_000,
            herds: 10,
            submitted: 200_000,
            submitted_alone: 100_000,
            cancelled: 100_000,
            stored: 1_000_000,
            due_rate: 10_000,
            steady: Duration::from_secs(30),
            sustained_rate: 60_000,
            sustained: Duration::from_secs(600),
            flood: 1_000_000,
            backlog: 60_000,
            backlog_jobs: vec![1, 200, 2_000, 20_000],
            backlog_takes: Duration::ZERO,
            parked: (20, 150_000),
            hanging: 300,
            starved: Duration::from_secs(12),
            scaled: 50_000,
            share: 15,
            browsed_jobs: 100_000,
            browsed_runs: 10_000_000,
            abusers: 400,
            abused: Duration::from_secs(60),
            abused_p99: Duration::from_millis(100),
        }
    }

    /// The same with `runs` runs in all scenarios that execute or cancel runs.
    #[must_use]
    pub fn with_runs(self, runs: u64) -> Sizes {
        Sizes {
            submitted: runs,
            // Fewer, because one by one is much slower; but a figure needs some seconds.
            submitted_alone: (runs / 5).max(100_000),
            executed: runs,
            triggered: runs,
            cancelled: runs,
            flood: runs,
            backlog: runs,
            parked: (self.parked.0, 0),
            scaled: runs,
            browsed_runs: runs,
            ..self
        }
    }

    /// Small sizes for a quick check.
    pub fn quick() -> Sizes {
        Sizes {
            rows: 200_000,
            inserts: vec![(1, 2_000), (100, 50_000), (1_000, 200_000), (10_000, 200_000)],
            closed: 100_000,
            jobs_stored: vec![10_000, 100_000],
            ticks: 40,
            idle_jobs: 100_000,
            duration: Duration::from_secs(15),
            abused: Duration::from_secs(15),
            executed: 50_000,
            triggered: 20_000,
            herds: 3,
            submitted: 20_000,
            cancelled: 10_000,
            stored: 100_000,
            due_rate: 2_000,
            steady: Duration::from_secs(10),
            sustained: Duration::from_secs(20),
            flood: 100_000,
            backlog: 20_000,
            backlog_jobs: vec![1, 2_000],
            parked: (10, 30_000),
            scaled: 10_000,
            browsed_jobs: 10_000,
            browsed_runs: 500_000,
            ..Sizes::full()
        }
    }

    /// The smallest sizes, for tests.
    pub fn tiny() -> Sizes {
        Sizes {
            rows: 2_000,
            inserts: vec![(1, 20), (100, 500), (1_000, 2_000)],
            closed: 1_000,
            batch: 100,
            page: 300,
            jobs_stored: vec![100, 400],
            jobs_due: 20,
            ticks: 12,
            idle_jobs: 2_000,
            timers: 5_000,
            loaded: 3_000,
            firing: 50,
            interval: Duration::from_millis(100),
            warm_up: Duration::from_millis(200),
            duration: Duration::from_millis(500),
            herd: 500,
            lead: Duration::from_millis(500),
            called: 200,
            executed: 500,
            triggered: 500,
            punctual_herd: 200,
            herds: 2,
            submitted: 500,
            submitted_alone: 100,
            cancelled: 300,
            stored: 2_000,
            due_rate: 100,
            steady: Duration::from_secs(2),
            sustained_rate: 200,
            sustained: Duration::from_secs(2),
            flood: 2_000,
            backlog: 500,
            backlog_jobs: vec![1, 20],
            backlog_takes: Duration::ZERO,
            parked: (1, 1_200),
            hanging: 220,
            starved: Duration::from_secs(2),
            scaled: 300,
            share: 30,
            browsed_jobs: 300,
            browsed_runs: 2_000,
            abusers: 40,
            abused: Duration::from_secs(3),
            // Generous, because tests share their cores with other tests.
            abused_p99: Duration::from_secs(5),
        }
    }
}

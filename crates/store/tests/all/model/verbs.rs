//! The verbs that are drawn for the model test, as small numbers from small spaces.

use calendar::Timestamp;
use proptest::prelude::*;
use punctual_core::model::JobId;
use punctual_node::ports::{Lease, Unpark};

use super::JOBS;

/// One step, in small numbers.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Pass(u8),
    Renew { node: u8, term: u8, mark: u8, seen: u8, checkpoint: Option<(u8, u8, u8)> },
    Reborn { node: u8 },
    Acquire { node: u8, shards: u8 },
    Release { node: u8, leases: Vec<u8>, mark: u8 },
    Create { job: NewJob },
    Edit { which: u8, fault: u8, job: NewJob, keeps: bool, passed: Option<u8> },
    Due { shards: u8, until: u8, max: u8 },
    Plan(Vec<DrawnPlan>),
    Load { shards: u8, stale: Option<u8>, from: Option<(u8, u8)>, until: u8, max: u8 },
    Adopt { shards: u8, stale: Option<u8> },
    Unpark { shard: u8, stale: Option<u8>, job: u8, max: u8, at: u8 },
    Gate(Vec<DrawnGate>),
    Split(Vec<(DrawnGate, DrawnParts)>),
    Sent(Vec<u8>),
    Settle(Vec<DrawnEnd>),
    Accept { runs: Vec<DrawnRun>, left: Vec<(u8, u8, u8, u8)> },
    Arrivals { shards: u8, max: u8 },
    Consume(Vec<u8>),
    InForce(u8),
    Prune { keep: DrawnKeep, is_needless: bool },
    Thin { keep: DrawnKeep, from: u8, is_whole: bool, max: u8 },
    Reopen,
    Browse { job: u8, apps: u8, state: u8, from: u8, to: u8, key: u8, limit: u8 },
    AddToken { is_first: bool },
    RevokeToken(u8),
    Begin { key: u8, asked: u8 },
    Answer { key: u8, is_kept: bool },
    ForgetRequests(u8),
    Beat(Vec<(u8, u8, u8)>),
    Leave { app: u8, address: u8 },
    Bury(u8),
    PutApp { app: u8, addresses: Option<u8>, expected: Option<u8> },
    PauseApp { app: u8, is_paused: bool },
    RemoveApp(u8),
    KeepLog { run: u8, attempt: u8, lines: u8 },
    NoteKill { run: u8, attempt: u8, is_confirmed: Option<bool> },
}

/// Run, attempt, epoch, places.
pub(crate) type DrawnGate = (u8, u8, u8, u8);

/// Before when runs are old, and before when those of an app are.
pub(crate) type DrawnKeep = (u8, Option<(u8, u8)>);

/// When each of the parts is due.
pub(crate) type DrawnParts = Vec<u8>;

/// Job, shard, fire time, how much later it is due, origin, key, and which run it is once more.
pub(crate) type DrawnRun = (u8, u8, u8, u8, u8, u8, Option<u8>);

#[derive(Clone, Debug)]
pub(crate) struct NewJob {
    pub(crate) name: u8,
    pub(crate) state: u8,
    pub(crate) next_fire: Option<u8>,
    pub(crate) after: Option<(u8, u8)>,
}

#[derive(Clone, Debug)]
pub(crate) struct DrawnPlan {
    pub(crate) job: u8,
    pub(crate) fault: u8,
    pub(crate) next: Option<u8>,
    pub(crate) runs: Vec<u8>,
    pub(crate) skipped: Option<u8>,
    pub(crate) stop: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct DrawnEnd {
    pub(crate) run: u8,
    pub(crate) attempt: u8,
    pub(crate) is_sent: bool,
    pub(crate) then: u8,
    pub(crate) at: u8,
    pub(crate) child: Option<u8>,
    pub(crate) next_fire: Option<u8>,
    pub(crate) is_foreign: bool,
    pub(crate) whole: u8,
}

pub(crate) fn verb() -> impl Strategy<Value = Verb> {
    let small = || 0..8_u8;
    let shards = || prop_oneof![4 => Just(15_u8), 1 => 0..16_u8];
    let stale = || prop::option::weighted(0.1, any::<u8>());
    let run = || prop_oneof![9 => any::<u8>(), 1 => Just(u8::MAX)];
    let job = || {
        let parts = (0..JOBS, small(), prop::option::of(small()), prop::option::of((0..JOBS, 0..3_u8)));
        parts.prop_map(|(name, state, next_fire, after)| NewJob { name, state, next_fire, after })
    };
    let plan = (0..=JOBS, 0..10_u8, prop::option::of(small()), prop::collection::vec(small(), 0..4));
    let plan = (plan, prop::option::weighted(0.3, small()), 0..12_u8);
    let plan = plan.prop_map(|((job, fault, next, runs), skipped, stop)| DrawnPlan {
        job,
        fault,
        next,
        runs,
        skipped,
        stop,
    });
    let gate = || (run(), 1..4_u8, 1..3_u8, 0..4_u8);
    let split = (gate(), prop::collection::vec(small(), 0..4));
    let end = (run(), 1..4_u8, any::<bool>(), 0..12_u8, small());
    let end = (
        end,
        prop::option::weighted(0.2, small()),
        prop::option::weighted(0.3, small()),
        any::<bool>(),
        any::<u8>(),
    );
    let end = end.prop_map(|((run, attempt, is_sent, then, at), child, next_fire, is_foreign, whole)| {
        DrawnEnd { run, attempt, is_sent, then, at, child, next_fire, is_foreign, whole }
    });
    let new_run =
        (0..=JOBS, 0..4_u8, small(), 0..3_u8, 0..7_u8, 0..6_u8, prop::option::weighted(0.1, any::<u8>()));
    let keep = || (0..10_u8, prop::option::of((0..3_u8, 0..10_u8)));
    let left = prop::collection::vec((0..4_u8, 0..3_u8, any::<u8>(), small()), 0..3);
    let checkpoint = prop::option::weighted(0.3, (any::<u8>(), small(), small()));
    prop_oneof![
        3 => (0..6_u8).prop_map(Verb::Pass),
        4 => (0..2_u8, 0..3_u8, small(), any::<u8>(), checkpoint).prop_map(
            |(node, term, mark, seen, checkpoint)| Verb::Renew { node, term, mark, seen, checkpoint }
        ),
        1 => (0..2_u8).prop_map(|node| Verb::Reborn { node }),
        4 => (0..2_u8, shards()).prop_map(|(node, shards)| Verb::Acquire { node, shards }),
        1 => (0..2_u8, prop::collection::vec(any::<u8>(), 0..3), small())
            .prop_map(|(node, leases, mark)| Verb::Release { node, leases, mark }),
        3 => job().prop_map(|job| Verb::Create { job }),
        3 => (0..=JOBS, 0..10_u8, job(), any::<bool>(), prop::option::weighted(0.2, small()), any::<bool>())
            .prop_map(|(which, fault, job, keeps, passed, _)| Verb::Edit {
                which,
                fault,
                job,
                keeps,
                passed
            }),
        2 => (shards(), small(), small()).prop_map(|(shards, until, max)| Verb::Due { shards, until, max }),
        6 => prop::collection::vec(plan, 1..3).prop_map(Verb::Plan),
        4 => (shards(), stale(), prop::option::of((small(), any::<u8>())), 0..10_u8, small()).prop_map(
            |(shards, stale, from, until, max)| Verb::Load { shards, stale, from, until, max }
        ),
        2 => (shards(), stale()).prop_map(|(shards, stale)| Verb::Adopt { shards, stale }),
        2 => (0..4_u8, stale(), 0..=JOBS, 0..3_u8, small()).prop_map(|(shard, stale, job, max, at)| {
            Verb::Unpark { shard, stale, job, max, at }
        }),
        8 => prop::collection::vec(gate(), 1..4).prop_map(Verb::Gate),
        4 => prop::collection::vec(split, 1..3).prop_map(Verb::Split),
        1 => prop::collection::vec(any::<u8>(), 0..4).prop_map(Verb::Sent),
        10 => prop::collection::vec(end, 1..4).prop_map(Verb::Settle),
        7 => (prop::collection::vec(new_run, 0..4), left).prop_map(|(runs, left)| Verb::Accept { runs, left }),
        1 => (shards(), small()).prop_map(|(shards, max)| Verb::Arrivals { shards, max }),
        1 => prop::collection::vec(any::<u8>(), 0..4).prop_map(Verb::Consume),
        1 => any::<u8>().prop_map(Verb::InForce),
        1 => (keep(), any::<bool>()).prop_map(|(keep, is_needless)| Verb::Prune { keep, is_needless }),
        2 => (keep(), any::<u8>(), any::<bool>(), 0..5_u8)
            .prop_map(|(keep, from, is_whole, max)| Verb::Thin { keep, from, is_whole, max }),
        1 => Just(Verb::Reopen),
        2 => (0..=JOBS, 0..8_u8, 0..10_u8, 0..10_u8, 0..10_u8, 0..8_u8, 0..5_u8).prop_map(
            |(job, apps, state, from, to, key, limit)| Verb::Browse { job, apps, state, from, to, key, limit }
        ),
        1 => any::<bool>().prop_map(|is_first| Verb::AddToken { is_first }),
        1 => (0..5_u8).prop_map(Verb::RevokeToken),
        2 => (0..3_u8, 0..2_u8).prop_map(|(key, asked)| Verb::Begin { key, asked }),
        1 => (0..3_u8, any::<bool>()).prop_map(|(key, is_kept)| Verb::Answer { key, is_kept }),
        1 => small().prop_map(Verb::ForgetRequests),
        5 => people(),
    ]
}

/// What concerns apps, and what people read.
fn people() -> impl Strategy<Value = Verb> {
    let run = || any::<u8>();
    let beat = (0..3_u8, 0..3_u8, 0..4_u8);
    prop_oneof![
        3 => prop::collection::vec(beat, 0..4).prop_map(Verb::Beat),
        1 => (0..3_u8, 0..3_u8).prop_map(|(app, address)| Verb::Leave { app, address }),
        2 => (0..4_u8).prop_map(Verb::Bury),
        2 => (0..3_u8, prop::option::of(0..3_u8), prop::option::of(0..3_u8))
            .prop_map(|(app, addresses, expected)| Verb::PutApp { app, addresses, expected }),
        2 => (0..3_u8, any::<bool>()).prop_map(|(app, is_paused)| Verb::PauseApp { app, is_paused }),
        2 => (0..3_u8).prop_map(Verb::RemoveApp),
        3 => (run(), 1..4_u8, 0..4_u8)
            .prop_map(|(run, attempt, lines)| Verb::KeepLog { run, attempt, lines }),
        2 => (run(), 1..4_u8, prop::option::of(any::<bool>()))
            .prop_map(|(run, attempt, is_confirmed)| Verb::NoteKill { run, attempt, is_confirmed }),
    ]
}

/// What [`Verb::Unpark`] asks for: runs of one job, or of the first three with a limit for each.
pub(super) fn unpark(lease: Lease, (job, max): (u8, u8), at: Timestamp) -> Unpark {
    let max = usize::from(max);
    let jobs = match job {
        0 => vec![(JobId(1), 1), (JobId(2), max), (JobId(3), 9)],
        job => vec![(JobId(u32::from(job)), max)],
    };
    Unpark { lease, jobs, max, at }
}

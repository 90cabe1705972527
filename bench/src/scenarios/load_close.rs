//! One-shots loaded in pages and closed in batches: what firing costs the store, without the network.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Close, Epoch, Fence, NodeId, Outcome, Settlement, Text, Then,
    Token,
};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Lease, Settled, Store, Waiting};

use super::BenchSetup;
use super::insert::SPAN;
use crate::clock::{Hands, Watch};
use crate::database::Database;
use crate::machine::{cpu_seconds, resident_bytes};
use crate::rows::{OneShots, create_manual, hold_all, submit};
use crate::{BenchError, Figure, Figures};

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("load-close")?;
    setup.block_on(async {
        let watch = Arc::new(Watch::start());
        let mut figures = Vec::new();
        for order in &setup.orders {
            let shots = OneShots::new(setup.sizes.rows, *order, watch.now(), SPAN);
            let mut bare = database.empty("bare").await?.bare().await?;
            bare.insert(&shots, setup.sizes.batch, &watch).await?;
            let closed = setup.sizes.closed;
            let bare_took = bare.load_and_close(&shots, closed, setup.sizes.batch, &watch).await?;
            drop(bare);
            database.drop("bare").await?;
            let figure = load_and_close(setup, &database, &shots, &watch).await?;
            figures.push(figure.beside(bare_took).on(database.kind));
        }
        Ok(figures)
    })
}

async fn load_and_close(
    setup: &BenchSetup,
    database: &Database,
    shots: &OneShots,
    watch: &Arc<Watch>,
) -> Result<Figure, BenchError> {
    let hands = Hands::at(shots.from);
    let home = database.empty("store").await?;
    let store: Arc<dyn Store> = home.open(hands.store_clock(), true).await?;
    create_manual(&*store, shots.from).await?;
    submit(&store, shots, setup.sizes.batch, 4, watch).await?;
    // Opened again, so that everything is read through the indexes and nothing from memory.
    drop(store);
    let store: Arc<dyn Store> = home.open(hands.store_clock(), true).await?;
    let leases = hold_all(&*store, NodeId(1), shots.from).await?;
    let mut epochs = vec![Epoch(0); leases.len()];
    for lease in &leases {
        epochs[usize::from(lease.shard.0)] = lease.epoch;
    }

    let (cpu, before) = (cpu_seconds(), home.counts().await?);
    let (mut seen, mut closed) = (Vec::new(), 0_u64);
    let (mut loading, mut closing, mut batches) = (Duration::ZERO, Duration::ZERO, Vec::new());
    let mut from = Some(Mark { due: Timestamp::MIN, id: 0 });
    while closed < setup.sizes.closed
        && let Some(mark) = from
    {
        let begun = watch.elapsed();
        let loaded = store.load(&leases, mark, Timestamp::MAX, setup.sizes.page).await?;
        loading += watch.elapsed() - begun;
        from = loaded.rest;
        seen.extend(loaded.runs.iter().map(|run| run.run));
        let wanted = usize::try_from(setup.sizes.closed - closed)?.min(loaded.runs.len());
        for batch in loaded.runs[..wanted].chunks(usize::try_from(setup.sizes.batch)?) {
            let begun = watch.elapsed();
            let settlements = batch.iter().map(|run| end(run, epochs[usize::from(run.shard.0)])).collect();
            let answers = store.settle(settlements).await?;
            closed += answers.iter().filter(|answer| matches!(answer, Settled::Done { .. })).count() as u64;
            batches.push(watch.elapsed() - begun);
            closing += *batches.last().expect("just pushed");
        }
    }
    let (cpu, rss) = (cpu_seconds() - cpu, resident_bytes());
    let counts = home.counts().await?.since(before, closed as f64);
    let rest = count_open(&*store, &leases, setup.sizes.page).await?;
    drop(store);
    database.drop("store").await?;
    let loaded = seen.len();
    seen.sort_unstable();
    seen.dedup();
    let lost = shots.count.saturating_sub(closed + rest);
    let doubled = (closed + rest).saturating_sub(shots.count) + (loaded - seen.len()) as u64;
    let rate = |took: Duration| closed as f64 / took.as_secs_f64().max(1e-9);
    Ok(Figure::new("load_close", shots.order.name(), closed)
        .took("runs", loading + closing)
        .steps(batches)
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .counted(counts)
        .with("load_rate", rate(loading))
        .with("close_rate", rate(closing)))
}

/// Number of open runs.
async fn count_open(store: &dyn Store, leases: &[Lease], page: usize) -> Result<u64, BenchError> {
    let (mut count, mut from) = (0, Some(Mark { due: Timestamp::MIN, id: 0 }));
    while let Some(mark) = from {
        let loaded = store.load(leases, mark, Timestamp::MAX, page).await?;
        count += loaded.runs.len() as u64;
        from = loaded.rest;
    }
    Ok(count)
}

/// A first attempt that succeeded.
pub(super) fn end(run: &Waiting, epoch: Epoch) -> Settlement {
    let token = Token::new(epoch, Attempt::FIRST);
    let attempt = AttemptRecord {
        number: Attempt::FIRST,
        token,
        executor: Text::Borrowed("bench"),
        started_at: run.ready_at,
        ended_at: run.ready_at,
        outcome: AttemptOutcome::Succeeded,
        message: Text::Borrowed(""),
        possible_duplicate: false,
    };
    let close = Close {
        outcome: Outcome::Succeeded,
        reason: Text::Borrowed(""),
        closed_at: run.ready_at,
        range: None,
    };
    Settlement {
        run: run.run,
        job: run.job,
        shard: run.shard,
        is_foreign: false,
        fence: Fence::Sent(Attempt::FIRST, token),
        attempt: Some(attempt),
        then: Then::Close(close),
        children: Vec::new(),
        named: None,
        part_of: None,
    }
}

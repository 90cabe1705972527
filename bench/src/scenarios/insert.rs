//! One-shots inserted into the store in batches of several sizes, due in the order of the rows and at random times over
//! three days, by one caller and by several; each beside the bare limit over the same rows.

use std::sync::Arc;
use std::time::Duration;

use punctual_node::ports::Store;

use super::BenchSetup;
use crate::clock::{Hands, Watch};
use crate::database::Database;
use crate::machine::{cpu_seconds, resident_bytes};
use crate::rows::{OneShots, create_manual, submit};
use crate::{BenchError, Figure, Figures};

/// The span of the due times.
pub(super) const SPAN: Duration = Duration::from_secs(3 * 86_400);

/// The size of a batch that is measured with several callers too.
const SHARED: u64 = 1_000;

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("insert")?;
    setup.block_on(async {
        let watch = Arc::new(Watch::start());
        let mut figures = Vec::new();
        for order in &setup.orders {
            for (batch, count) in &setup.sizes.inserts {
                let shots = OneShots::new(*count, *order, watch.now(), SPAN);
                let limit = Limit::measure(&database, &shots, *batch, &watch).await?;
                let submitters: &[u64] = if *batch == SHARED { &[1, 4] } else { &[1] };
                for submitters in submitters {
                    let figure = insert(&database, &shots, *batch, *submitters, &watch).await?;
                    figures.push(limit.beside(figure).on(database.kind));
                }
            }
        }
        Ok(figures)
    })
}

/// The bare limit for the same rows.
struct Limit {
    took: Duration,
    closing: Duration,
    /// With multi-row statements, where the fastest way is another one.
    rows_took: Option<Duration>,
}

impl Limit {
    async fn measure(
        database: &Database,
        shots: &OneShots,
        batch: u64,
        watch: &Watch,
    ) -> Result<Limit, BenchError> {
        let mut bare = database.empty("bare").await?.bare().await?;
        let took = bare.insert(shots, batch, watch).await?;
        let rows_took = bare.insert_rows(shots, batch, watch).await?;
        let closed = watch.elapsed();
        drop(bare);
        let closing = watch.elapsed() - closed;
        database.drop("bare").await?;
        Ok(Limit { took, closing, rows_took })
    }

    fn beside(&self, figure: Figure) -> Figure {
        let (count, rate) = (figure.count as f64, figure.rate.unwrap_or(0.0));
        let figure = figure.beside(self.took).with("bare_closing_s", self.closing.as_secs_f64());
        match self.rows_took.map(|took| count / took.as_secs_f64().max(1e-9)) {
            Some(bare) => figure.with("bare_rows_rate", bare).with("ratio_to_bare_rows", rate / bare),
            None => figure,
        }
    }
}

async fn insert(
    database: &Database,
    shots: &OneShots,
    batch: u64,
    submitters: u64,
    watch: &Arc<Watch>,
) -> Result<Figure, BenchError> {
    let hands = Hands::at(shots.from);
    let home = database.empty("store").await?;
    let kept = home.open(hands.store_clock(), true).await?;
    let store: Arc<dyn Store> = Arc::clone(&kept) as _;
    create_manual(&*store, shots.from).await?;
    let (cpu, before, servers) = (cpu_seconds(), home.counts().await?, database.cpu_seconds());
    let submitted = submit(&store, shots, batch, submitters, watch).await?;
    let (cpu, servers) = (cpu_seconds() - cpu, database.cpu_seconds().zip(servers));
    let counts = home.counts().await?.since(before, shots.count as f64);
    let stored: u64 = kept.storage().await?.iter().map(|bucket| bucket.runs).sum();
    let rss = resident_bytes();
    drop(store);
    // Late indexes are part of the cost, so the time until they are written is reported too.
    let closed = watch.elapsed();
    drop(kept);
    let closing = watch.elapsed() - closed;
    database.drop("store").await?;
    let case = format!("{}, {batch} a batch, {submitters} at once", shots.order.name());
    let (lost, doubled) = (shots.count.saturating_sub(stored), stored.saturating_sub(shots.count));
    let figure = Figure::new("insert", case, submitted.accepted)
        .took("rows", submitted.took)
        .steps(submitted.batches)
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .counted(counts)
        .with("closing_s", closing.as_secs_f64());
    Ok(match servers {
        Some((after, before)) => figure.with("server_cpu_s", after - before),
        None => figure,
    })
}

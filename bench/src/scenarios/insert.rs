//! One-shots handed to the store in batches: due in the order of the rows, at random times over three days, and by several
//! at once.

use std::sync::Arc;
use std::time::Duration;

use punctual_node::ports::{Browse, Store};

use super::{Setup, block_on};
use crate::bare::Bare;
use crate::clock::{Hands, Watch};
use crate::machine::{cpu_seconds, resident_bytes};
use crate::place::{Place, open};
use crate::rows::{OneShots, Order, create_manual, submit};
use crate::{Failure, Figure, Figures};

/// Over how long the due times are spread.
pub(super) const SPAN: Duration = Duration::from_secs(3 * 86_400);

pub(super) fn run(setup: &Setup) -> Figures {
    let place = Place::make(&setup.dir, "insert")?;
    let watch = Arc::new(Watch::start());
    let cases = [(Order::Rows, 1), (Order::Random, 1), (Order::Rows, 4), (Order::Random, 4)];
    let mut figures = Vec::new();
    for (order, submitters) in cases {
        let shots = OneShots::new(setup.sizes.rows, order, watch.now(), SPAN);
        let (bare, bare_closing) = insert_bare(&place, &shots, setup.sizes.batch, &watch)?;
        let figure = block_on(insert(&place, &shots, setup.sizes.batch, submitters, &watch))?;
        figures.push(figure.beside(bare).with("bare_closing_s", bare_closing.as_secs_f64()));
    }
    Ok(figures)
}

fn insert_bare(
    place: &Place,
    shots: &OneShots,
    batch: u64,
    watch: &Watch,
) -> Result<(Duration, Duration), Failure> {
    let bare = Bare::open(&place.file("bare.db"))?;
    let took = bare.insert(shots, batch, watch)?;
    let closed = watch.elapsed();
    drop(bare);
    let closing = watch.elapsed() - closed;
    place.delete("bare.db");
    Ok((took, closing))
}

async fn insert(
    place: &Place,
    shots: &OneShots,
    batch: u64,
    submitters: u64,
    watch: &Arc<Watch>,
) -> Result<Figure, Failure> {
    let hands = Hands::at(shots.from);
    let sqlite = open(&place.file("store.db"), hands.store_clock())?;
    let store: Arc<dyn Store> = Arc::<punctual_store::Sqlite>::clone(&sqlite);
    create_manual(&*store, shots.from).await?;
    let cpu = cpu_seconds();
    let submitted = submit(&store, shots, batch, submitters, watch).await?;
    let cpu = cpu_seconds() - cpu;
    let kept: u64 = sqlite.storage().await?.iter().map(|bucket| bucket.runs).sum();
    let rss = resident_bytes();
    drop(store);
    // The indexes that are written late are part of the price, so the time until the file is tidy is told too.
    let closed = watch.elapsed();
    drop(sqlite);
    let closing = watch.elapsed() - closed;
    place.delete("store.db");
    let case = format!("{}, {submitters} submitting", shots.order.name());
    let (lost, doubled) = (shots.count.saturating_sub(kept), kept.saturating_sub(shots.count));
    Ok(Figure::new("insert", case, submitted.accepted)
        .took("rows", submitted.took)
        .steps(submitted.batches)
        .cpu(cpu)
        .resident(rss)
        .whole(lost, doubled)
        .with("closing_s", closing.as_secs_f64()))
}

//! Five thousand one-shots due at one second, to a native executor, several times: how late each is received.

use std::time::Duration;

use super::BenchSetup;
use super::stage::{NativeStage, lags, whole};
use crate::{BenchError, Figure, Figures};

/// The time to submit them.
const LEAD: Duration = Duration::from_secs(3);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("lag")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stage = NativeStage::open(setup, &database).await?;
        let mut figures = Vec::new();
        let (mut all, mut arrived_all, mut cpu) = (Vec::new(), Vec::new(), 0.0);
        let count = setup.sizes.punctual_herd;
        for _ in 0..setup.sizes.herds {
            let due = stage.second(LEAD);
            stage.submit((0..count).map(|_| due.as_millis())).await?;
            if stage.watch.now() >= due {
                return Err(BenchError::from("the one-shots could not be handed in before they were due"));
            }
            let begun = stage.cpu();
            stage.wait(count, stage.watch.until(due)).await?;
            cpu += stage.cpu() - begun;
            let arrived = stage.native.take();
            all.push(lags(&arrived));
            arrived_all.extend(arrived);
        }
        let rounds = all.len() as u64;
        let (lost, doubled) = whole(&arrived_all, count * rounds);
        let worst = all.iter().flatten().max().copied().unwrap_or_default();
        let p99s: Vec<f64> =
            all.iter().map(|lags| Figure::new("", "", 0).steps(lags.clone()).p99_ms.unwrap_or(0.0)).collect();
        figures.push(
            Figure::new("lag", format!("{count} due at one second, {rounds} times"), count * rounds)
                .took("runs", worst * u32::try_from(rounds)?)
                .steps(all.concat())
                .cpu(cpu)
                .resident(crate::machine::resident_bytes_of(stage.node.id()))
                .whole(lost, doubled)
                .on(database.kind)
                .with("p99_ms_best", p99s.iter().copied().fold(f64::INFINITY, f64::min))
                .with("p99_ms_worst", p99s.iter().copied().fold(0.0, f64::max)),
        );
        Ok(figures)
    })
}

//! Cancelling one-shots before they are due: one by one by id over many connections, and all of a job by a filter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::BenchSetup;
use super::stage::NativeStage;
use crate::served::Served;
use crate::{BenchError, Figure, Figures};

/// Concurrent callers.
const CONNECTIONS: usize = 64;

/// Due far enough ahead that none begins.
const AHEAD: Duration = Duration::from_secs(3_600);

pub(super) fn run(setup: &BenchSetup) -> Figures {
    let database = setup.start("cancel")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stage = NativeStage::open(setup, &database).await?;
        let count = setup.sizes.cancelled;
        let by_id = by_number(&mut stage, count).await?.on(database.kind);
        let by_filter = by_filter(&mut stage, count).await?.on(database.kind);
        Ok(vec![by_id, by_filter])
    })
}

async fn submit(stage: &mut NativeStage, count: u64) -> Result<Vec<u64>, BenchError> {
    let due = stage.second(AHEAD).as_millis();
    let ids = stage.submit((0..count).map(|number| due + number as i64)).await?;
    match ids.len() as u64 == count {
        true => Ok(ids),
        false => Err(format!("of {count} one-shots {} were accepted", ids.len()).into()),
    }
}

async fn by_number(stage: &mut NativeStage, count: u64) -> Result<Figure, BenchError> {
    let ids = Arc::new(submit(stage, count).await?);
    let next = Arc::new(AtomicUsize::new(0));
    let (before, cpu, begun) = (not_run(stage).await?, stage.cpu(), stage.watch.elapsed());
    let mut askers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (ids, next, watch) = (Arc::clone(&ids), Arc::clone(&next), Arc::clone(&stage.watch));
        let mut node = stage.node.another();
        askers.spawn(async move {
            let (mut took, mut done) = (Vec::new(), 0_u64);
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                let begun = watch.elapsed();
                let answer = node.ask("POST", &format!("/api/v1/runs/{id}/cancel"), &Value::Null).await?;
                done += u64::from(answer["result"] == "done");
                took.push(watch.elapsed() - begun);
            }
            Ok::<_, BenchError>((took, done))
        });
    }
    let (mut took, mut done) = (Vec::new(), 0);
    while let Some(asked) = askers.join_next().await {
        let (times, cancelled) = asked??;
        took.extend(times);
        done += cancelled;
    }
    let all = stage.watch.elapsed() - begun;
    let (cpu, written) = (stage.cpu() - cpu, not_run(stage).await? - before);
    Ok(Figure::new("cancel", format!("by number, {CONNECTIONS} connections"), count)
        .took("runs", all)
        .steps(took)
        .cpu(cpu)
        .whole(count.saturating_sub(done.min(written)), 0))
}

async fn by_filter(stage: &mut NativeStage, count: u64) -> Result<Figure, BenchError> {
    submit(stage, count).await?;
    let (before, cpu, begun) = (not_run(stage).await?, stage.cpu(), stage.watch.elapsed());
    let filter = json!({"filter": {"job": stage.job}});
    let mut done = 0;
    // A request may end before all runs are cancelled; then it is repeated.
    loop {
        let answer = stage.node.ask("POST", "/api/v1/runs/cancel", &filter).await?;
        let cancelled = answer["cancelled"].as_u64().unwrap_or(0);
        done += cancelled;
        if done >= count || cancelled == 0 {
            break;
        }
    }
    let all = stage.watch.elapsed() - begun;
    let (cpu, written) = (stage.cpu() - cpu, not_run(stage).await? - before);
    Ok(Figure::new("cancel", "by filter, all of a job", count)
        .took("runs", all)
        .cpu(cpu)
        .whole(count.saturating_sub(done.min(written)), 0))
}

/// Number of runs that are recorded as not run.
async fn not_run(stage: &mut NativeStage) -> Result<u64, BenchError> {
    let node: &mut Served = &mut stage.node;
    let stats = node.ask("GET", "/api/v1/stats", &Value::Null).await?;
    stats["not_run"].as_u64().ok_or_else(|| "the node does not say how many were not run".into())
}

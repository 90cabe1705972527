//! How fast it is here, for who wants to know: `cargo test --profile ci -p punctual-store --test postgres_server -- --ignored --nocapture`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement looks at the clock and says what it saw"
)]

use std::time::Instant;

use calendar::Timestamp;
use futures_util::future::join_all;
use punctual_core::model::{NewRun, Outcome, RunId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::Store;
use punctual_store::Options;

use super::{House, end, gate, hold_all, one_shot, second};
use crate::postgres_support::block_on;

const BATCH: u64 = 1_000;
const BATCHES: u64 = 100;

#[test]
#[ignore = "a measurement"]
fn accept_load_gate_and_settle_a_hundred_thousand() {
    block_on(async {
        let house = House::new().await;
        let options = Options { connections: 4, ..house.options() };
        let store = punctual_store::Postgres::open(&house.database.url(), options).await.unwrap();
        let leases = hold_all(&store, 1).await;
        let first = one_shot(&store, second(0)).await;
        store.allot(first.id.day(), BATCH * (BATCHES + 1)).await.unwrap();
        let run = |number: u64| NewRun {
            id: RunId(first.id.0 + number),
            shard: ShardId((number % 4) as u16),
            // In no order.
            due: second((number * 7_919 % 20_000) as i64),
            payload: Some(r#"{"to":"somebody","about":"something"}"#.into()),
            ..first.clone()
        };
        let batch = |number: u64| (number * BATCH..(number + 1) * BATCH).map(run).collect::<Vec<NewRun>>();
        let total = (BATCH * BATCHES) as f64;
        let begun = Instant::now();
        for chunk in (0..BATCHES).collect::<Vec<u64>>().chunks(4) {
            for said in join_all(chunk.iter().map(|number| store.accept(batch(*number), vec![]))).await {
                said.unwrap();
            }
        }
        println!("accept: {:.0}/s", total / begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        let (mut from, mut loaded) = (Mark { due: Timestamp::MIN, id: 0 }, Vec::new());
        loop {
            let page = store.load(&leases, from, Timestamp::MAX, 10_000).await.unwrap();
            loaded.extend(page.runs.iter().map(|run| run.run));
            match page.rest {
                Some(rest) => from = rest,
                None => break,
            }
        }
        assert_eq!(loaded.len() as u64, BATCH * BATCHES);
        println!("load: {:.0}/s", total / begun.elapsed().as_secs_f64());
        let (gated, ungated) = loaded.split_at(loaded.len() / 4);
        let begun = Instant::now();
        for chunk in gated.chunks(BATCH as usize) {
            store.gate(chunk.iter().map(|run| gate(*run, 1)).collect()).await.unwrap();
        }
        println!("gate: {:.0}/s", gated.len() as f64 / begun.elapsed().as_secs_f64());
        for (what, runs) in [("gated", gated), ("ungated", ungated)] {
            let begun = Instant::now();
            for chunk in runs.chunks(BATCH as usize) {
                let ends = chunk.iter().map(|run| end(*run, true, Outcome::Succeeded)).collect();
                store.settle(ends).await.unwrap();
            }
            println!("settle {what}: {:.0}/s", runs.len() as f64 / begun.elapsed().as_secs_f64());
        }
        drop(store);
        house.database.drop().await;
    });
}

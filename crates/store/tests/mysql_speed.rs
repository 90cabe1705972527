//! How fast runs are taken in. Not judged, only told: `cargo test --test mysql_speed -- --ignored --nocapture`.

mod mysql_support;

use std::time::Instant;

use futures_util::future::join_all;
use mysql_support::{Database, end, hold_all, options, run, runtime, second};
use punctual_core::model::{NewRun, Outcome, RunId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::Store;
use punctual_store::Options;
use punctual_store::mysql::MySql;

const BATCHES: u64 = 100;
const BATCH: u64 = 1_000;

#[test]
#[ignore = "it measures, and judges nothing"]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures, and tells")]
fn one_shots_are_accepted_loaded_and_ended() {
    runtime().block_on(async {
        let database = Database::create().await;
        let store = MySql::open(&database.url(), Options { connections: 4, ..options() }).await.unwrap();
        let leases = hold_all(&store, 1).await;
        let model = run(&store, 1, second(0)).await;
        let first = store.allot(model.id.day(), BATCHES * BATCH).await.unwrap();
        let batch = |number: u64| -> Vec<NewRun> {
            let one = |place: u64| {
                let sequence = first + number * BATCH + place;
                // Due within the next hours, in no order.
                let due = second((sequence * 7_919 % 40_000) as i64);
                NewRun {
                    id: RunId::new(model.id.day(), sequence),
                    due,
                    fire_time: due,
                    shard: ShardId((sequence % 4) as u16),
                    payload: Some("{\"order\":1234567,\"customer\":\"somebody\"}".into()),
                    ..model.clone()
                }
            };
            (0..BATCH).map(one).collect()
        };
        for writers in [1, 4] {
            let share = BATCHES / 2 / writers;
            let from = if writers == 1 { 0 } else { BATCHES / 2 };
            let begin = Instant::now();
            join_all((0..writers).map(async |writer| {
                for number in 0..share {
                    store.accept(batch(from + writer * share + number), Vec::new()).await.unwrap();
                }
            }))
            .await;
            let rate = (share * writers * BATCH) as f64 / begin.elapsed().as_secs_f64();
            println!("accepted by {writers} at once: {rate:.0} runs a second");
        }
        let begin = Instant::now();
        let loaded =
            store.load(&leases, Mark { due: second(-1), id: 0 }, second(20_000), 20_000).await.unwrap();
        let rate = loaded.runs.len() as f64 / begin.elapsed().as_secs_f64();
        println!("loaded: {rate:.0} runs a second");
        let begin = Instant::now();
        for runs in loaded.runs.chunks(1_000) {
            let ends = runs.iter().map(|run| end(run.run, Outcome::Succeeded)).collect();
            store.settle(ends).await.unwrap();
        }
        let rate = loaded.runs.len() as f64 / begin.elapsed().as_secs_f64();
        println!("ended: {rate:.0} runs a second");
    });
}

//! The two statements that every node asks all the time, and the one that days are thinned by: each goes along its index,
//! whatever is stored.

use punctual_core::model::{NewRun, RunId};
use punctual_node::ports::Store;
use punctual_store::Postgres;

use super::{House, create, one_shot, second};
use crate::postgres_support::{block_on, client};

#[test]
fn what_is_due_is_found_by_the_indexes() {
    block_on(async {
        let house = House::new().await;
        let store = house.open().await;
        create(&store, "job", Some(second(60))).await;
        let first = one_shot(&store, second(0)).await;
        store.allot(first.id.day(), 10_000).await.unwrap();
        let run = |number: u64| NewRun {
            id: RunId(first.id.0 + number),
            due: second(number as i64),
            ..first.clone()
        };
        store.accept((0..5_000).map(run).collect(), vec![]).await.unwrap();
        let client = client(&house.database.url()).await;
        client
            .batch_execute(
                "insert into clocks (job, shard, next_fire, version, enabled, decided, reserved)
                 select n, n % 4, n * 1000, 1, n % 2 = 0, 0, 0 from generate_series(1000, 20000) as n;
                 insert into closes (run, outcome, reason, closed_at) select id, 0, '', 0 from runs where id % 10 <> 0;
                 analyze",
            )
            .await
            .unwrap();
        let [due, load, thin] = Postgres::statements();
        let day = RunId::new(first.id.day(), 0).0;
        let end = RunId::new(first.id.day() + 1, 0).0;
        let at = second(2_500).as_millis();
        let due = due.replace("$1", "array[0,1]::bigint[]").replace("$2", "2000000").replace("$3", "100");
        let load = load
            .replace("$1", "array[0,1]::bigint[]")
            .replace("$2", "array[641,641]::bigint[]")
            .replace("$3", &at.to_string())
            .replace("$4", "0")
            .replace("$5", &(at + 5_000).to_string())
            .replace("$6", &day.to_string())
            .replace("$7", &end.to_string());
        let explain = async |sql: &str| -> String {
            let rows = client.query(&format!("explain {sql}"), &[]).await.unwrap();
            rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
        };
        let plan = explain(&due).await;
        assert!(plan.contains("clocks_due") && !plan.contains("Seq Scan"), "{plan}");
        let plan = explain(&load).await;
        let index = format!("runs_{}_shard_due_id_idx", first.id.day());
        assert!(
            plan.contains(&index)
                && !plan.contains("Seq Scan on runs")
                && !plan.contains("Seq Scan on closes"),
            "{plan}"
        );
        // Of the other days nothing is looked at.
        assert!(!plan.contains(&format!("runs_{}", first.id.day() + 1)), "{plan}");
        let thin = thin.replace("$1", &day.to_string()).replace("$2", &end.to_string()).replace("$3", "2000");
        let plan = explain(&thin).await;
        let index = format!("runs_{}_pkey", first.id.day());
        assert!(plan.contains(&index) && !plan.contains("Seq Scan on runs"), "{plan}");
        assert!(!plan.contains(&format!("runs_{}", first.id.day() + 1)), "{plan}");
        let of_job = Postgres::list_of_job()
            .replace("$1", &end.to_string())
            .replace("$2", "100")
            .replace("$3", "7")
            .replace("$4::bigint", "null::bigint")
            .replace("$5::bigint", "null::bigint")
            .replace("$6::text", "null::text")
            .replace("$7::text[]", "null::text[]")
            .replace("$4", "0")
            .replace("$5", "0")
            .replace("$6", "''")
            .replace("$7", "array['']");
        let plan = explain(&of_job).await;
        let index = format!("runs_{}_job_id_idx", first.id.day());
        // The far table is empty, and so is read as it is.
        let walked = format!("Seq Scan on runs_{}", first.id.day());
        assert!(plan.contains(&index) && !plan.contains(&walked), "{plan}");
        drop((store, client));
        house.database.drop().await;
    });
}

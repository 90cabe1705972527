//! Statements that are prepared by name: they are what they were whatever becomes of the tables beneath them.

use punctual_core::model::{Hold, Outcome};
use punctual_node::ports::{Gate, Gated, Keep, Settled, Store};

use super::{House, accepted, create, end, gate, hold_all, second};
use crate::postgres_support::{block_on, client};

/// A send that needs a place.
async fn through(store: &punctual_store::Postgres, due: i64) {
    let run = accepted(store, second(due)).await;
    let place = Hold { resource: "printer".into(), slots: 1, takes_turns: false };
    let said = store.gate(vec![Gate { holds: vec![place], ..gate(run, 1) }]).await.unwrap();
    assert!(matches!(said[..], [Gated::Through(_)]), "{said:?}");
    let said = store.settle(vec![end(run, true, Outcome::Succeeded)]).await.unwrap();
    assert!(matches!(said[..], [Settled::Done { .. }]), "{said:?}");
}

#[test]
fn a_schema_that_changes_beneath_them_is_no_trouble() {
    block_on(async {
        let house = House::new().await;
        let store = house.open().await;
        hold_all(&store, 1).await;
        create(&store, "job", None).await;
        // Often enough that the server keeps its plans.
        for second in 0..8 {
            through(&store, second).await;
        }
        let admin = client(&house.database.url()).await;
        // Another type in an answer is what the server refuses to give to whoever prepared before.
        admin.batch_execute("alter table holds alter column resource type varchar(200)").await.unwrap();
        through(&store, 8).await;
        admin.batch_execute("alter table waiting add column note text").await.unwrap();
        through(&store, 9).await;
        drop((store, admin));
        house.database.drop().await;
    });
}

#[test]
fn days_that_come_and_go_beneath_them_are_no_trouble() {
    block_on(async {
        let house = House::new().await;
        let store = house.open().await;
        hold_all(&store, 1).await;
        create(&store, "job", None).await;
        const DAY: i64 = 86_400;
        for second in 0..8 {
            through(&store, second).await;
        }
        for day in 1..4 {
            through(&store, day * DAY).await;
        }
        house.pass(std::time::Duration::from_secs(5 * DAY as u64));
        let pruned = store.prune(&Keep::since(second(2 * DAY))).await.unwrap();
        assert!(pruned.buckets > 0, "{pruned:?}");
        for day in 3..6 {
            through(&store, day * DAY + 60).await;
        }
        drop(store);
        house.database.drop().await;
    });
}

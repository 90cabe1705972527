//! Days far ahead: their runs lie together until the day comes near, and nobody sees a difference.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{NewRun, Origin, Outcome, RunId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Accepted, Browse, Gated, Keep, RunFilter, Store};

use super::{House, accepted, end, gate, hold_all, one_shot, second};
use crate::postgres_support::{block_on, client};

const DAY: i64 = 86_400;

#[test]
fn what_is_far_comes_near_and_stays_what_it_is() {
    block_on(async {
        let house = House::new().await;
        let store = house.open().await;
        let leases = hold_all(&store, 1).await;
        let (far, cancelled) =
            (accepted(&store, second(100 * DAY)).await, accepted(&store, second(100 * DAY)).await);
        let named = NewRun { origin: Origin::Schedule, ..one_shot(&store, second(100 * DAY + 1)).await };
        assert_eq!(store.accept(vec![named.clone()], vec![]).await.unwrap(), [Accepted::New(named.id)]);
        store.settle(vec![end(cancelled, false, Outcome::Cancelled)]).await.unwrap();
        let client = client(&house.database.url()).await;
        let lie = async || -> (i64, i64) {
            let ask = "select (select count(*) from runs_far) + (select count(*) from closes_far),
                              (select count(*) from runs) + (select count(*) from closes)";
            let row = client.query_one(ask, &[]).await.unwrap();
            (row.get(0), row.get(1))
        };
        let from = Mark { due: Timestamp::MIN, id: 0 };
        let views = async || store.run_list(&RunFilter::default(), None, 9).await.unwrap().items;
        let loaded = async || -> Vec<RunId> {
            let loaded = store.load(&leases, from, Timestamp::MAX, 9).await.unwrap();
            loaded.runs.iter().map(|run| run.run).collect()
        };
        let (seen, found) = (views().await, loaded().await);
        assert_eq!((lie().await, found.clone()), ((4, 0), vec![far, named.id]));
        house.pass(Duration::from_secs(50 * DAY as u64));
        store.prune(&Keep::since(house.now())).await.unwrap();
        assert_eq!(lie().await, (0, 4));
        // The leases have ended in all that time.
        let leases = hold_all(&store, 2).await;
        let again = store.load(&leases, from, Timestamp::MAX, 9).await.unwrap();
        assert_eq!(again.runs.iter().map(|run| run.run).collect::<Vec<RunId>>(), found);
        assert_eq!(views().await, seen);
        let twin = NewRun { id: RunId(named.id.0 + 100), ..named.clone() };
        assert_eq!(store.accept(vec![twin], vec![]).await.unwrap(), [Accepted::Duplicate(named.id)]);
        assert!(matches!(store.gate(vec![gate(far, 1)]).await.unwrap()[0], Gated::Through(_)));
        assert_eq!(store.storage().await.unwrap().len(), 1);
        drop((store, client));
        house.database.drop().await;
    });
}

#[test]
fn a_run_that_is_far_can_be_gated_and_ended() {
    block_on(async {
        let house = House::new().await;
        let store = house.open().await;
        let run = accepted(&store, second(100 * DAY)).await;
        assert!(matches!(store.gate(vec![gate(run, 1)]).await.unwrap()[0], Gated::Through(_)));
        store.settle(vec![end(run, true, Outcome::Succeeded)]).await.unwrap();
        assert_eq!(store.sends(run).await.unwrap().len(), 1);
        let pruned = store.prune(&Keep::since(Timestamp::MAX)).await.unwrap();
        assert_eq!((pruned.buckets, pruned.kept_open), (1, 0));
        assert_eq!(store.run(run).await.unwrap(), None);
        drop(store);
        house.database.drop().await;
    });
}

#[test]
fn a_past_day_that_was_dropped_leaves_no_tables() {
    block_on(async {
        let house = House::new().await;
        let store = house.open().await;
        let run = accepted(&store, second(0)).await;
        store.settle(vec![end(run, true, Outcome::Succeeded)]).await.unwrap();
        house.pass(Duration::from_secs(3 * DAY as u64));
        let client = client(&house.database.url()).await;
        let tables = async || -> i64 {
            let like = format!("%\\_{}", run.day());
            client
                .query_one("select count(*) from pg_tables where tablename like $1", &[&like])
                .await
                .unwrap()
                .get(0)
        };
        assert_eq!(tables().await, 8);
        assert_eq!(store.prune(&Keep::since(house.now())).await.unwrap().buckets, 1);
        assert_eq!(tables().await, 0);
        // And can be begun anew.
        accepted(&store, second(0)).await;
        assert_eq!(tables().await, 8);
        drop((store, client));
        house.database.drop().await;
    });
}

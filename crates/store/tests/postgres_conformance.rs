//! Every case of the conformance suite on a real server, each in an empty database.

mod postgres_support;

use std::sync::Arc;

use calendar::Timestamp;
use postgres_support::{Database, block_on, options};
use punctual_store::conformance::{self, SHARDS};
use punctual_store::{Postgres, StoreClock, conformance_cases};

macro_rules! tests {
    ($($group:ident { $($case:ident)+ })+) => {
        $(mod $group {
            $(
                #[test]
                fn $case() {
                    super::run(concat!(stringify!($group), "::", stringify!($case)));
                }
            )+
        })+
    };
}

fn run(name: &str) {
    block_on(async {
        // On the day on which the cases play.
        let begin: Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
        let clock: StoreClock = Arc::new(move || begin);
        let database = Database::migrated(SHARDS, clock).await;
        let url = database.url();
        let open = Box::new(move |clock: StoreClock| -> conformance::Opening {
            let url = url.clone();
            Box::pin(async move {
                let store = Postgres::open(&url, options(SHARDS, clock)).await.unwrap();
                Arc::new(store) as Arc<dyn conformance::Whole>
            })
        });
        conformance::check(name, open).await;
        database.hand_on().await;
    });
}

conformance_cases!(tests);

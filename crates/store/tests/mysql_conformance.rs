//! Every case of the conformance suite on a database of its own.

mod mysql_support;

use std::sync::Arc;

use mysql_support::{Database, runtime};
use punctual_store::conformance::{self, KEY_TTL, SHARDS, Whole};
use punctual_store::mysql::MySql;
use punctual_store::{Options, conformance_cases};

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
    runtime().block_on(async {
        let database = Database::reuse().await;
        let url = database.url();
        let open = Box::new(move |clock| -> conformance::Opening {
            let url = url.clone();
            Box::pin(async move {
                let options = Options {
                    shards: SHARDS,
                    key_ttl: KEY_TTL,
                    clock: Some(clock),
                    connections: 3,
                    readers: 1,
                    ..Options::default()
                };
                let store: Arc<dyn Whole> = Arc::new(MySql::open(&url, options).await.unwrap());
                store
            })
        });
        conformance::check(name, open).await;
    });
}

conformance_cases!(tests);

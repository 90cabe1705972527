//! Every case of the conformance suite as a test of its own, for every store.

use std::sync::Arc;

use punctual_store::sqlite::{Limits, Options, Sqlite};

use crate::sqlite_support::Folder;
use crate::suite::conformance_cases;
use crate::suite::{self, KEY_TTL, Open, SHARDS, Whole};

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

fn check(name: &str, open: Open) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(suite::check(name, open));
}

fn check_sqlite(name: &str, limits: Limits) {
    let folder = Folder::new();
    let path = folder.database();
    let open = Box::new(move |clock| -> suite::Opening {
        let options = Options { shards: SHARDS, key_ttl: KEY_TTL, clock, ends_leases: false, limits };
        let store: Arc<dyn Whole> = Arc::new(Sqlite::open(&path, options).unwrap());
        Box::pin(std::future::ready(store))
    });
    check(name, open);
}

mod memory {
    use std::sync::{Arc, OnceLock};

    use punctual_store::Memory;

    use crate::suite::{KEY_TTL, SHARDS, Whole};

    fn run(name: &str) {
        // What is closed is gone, so to reopen it is to go on with it.
        let store: OnceLock<Arc<dyn Whole>> = OnceLock::new();
        super::check(
            name,
            Box::new(move |clock| {
                let store = store.get_or_init(|| Arc::new(Memory::new(SHARDS, KEY_TTL, clock)));
                Box::pin(std::future::ready(Arc::clone(store)))
            }),
        );
    }

    super::conformance_cases!(tests);
}

mod sqlite {
    use punctual_store::sqlite::Limits;

    fn run(name: &str) {
        super::check_sqlite(name, Limits::default());
    }

    super::conformance_cases!(tests);
}

/// With tails so small that the indexes are used and not the tails alone.
mod sqlite_indexed {
    use punctual_store::sqlite::Limits;

    fn run(name: &str) {
        super::check_sqlite(name, Limits { tail: 2, ..Limits::default() });
    }

    super::conformance_cases!(tests);
}

mod postgres {
    use std::sync::Arc;

    use calendar::Timestamp;
    use punctual_store::{Postgres, StoreClock};

    use crate::postgres_support::{Database, block_on, options};
    use crate::suite::{self, SHARDS};

    fn run(name: &str) {
        block_on(async {
            // On the day on which the cases play.
            let begin: Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
            let clock: StoreClock = Arc::new(move || begin);
            let database = Database::migrated(SHARDS, clock).await;
            let url = database.url();
            let open = Box::new(move |clock: StoreClock| -> suite::Opening {
                let url = url.clone();
                Box::pin(async move {
                    let store = Postgres::open(&url, options(SHARDS, clock)).await.unwrap();
                    Arc::new(store) as Arc<dyn suite::Whole>
                })
            });
            suite::check(name, open).await;
            database.hand_on().await;
        });
    }

    super::conformance_cases!(tests);
}

mod mysql {
    use std::sync::Arc;

    use punctual_store::Options;
    use punctual_store::mysql::MySql;

    use crate::mysql_support::{Database, runtime};
    use crate::suite::{self, KEY_TTL, SHARDS, Whole};

    fn run(name: &str) {
        runtime().block_on(async {
            let database = Database::reuse().await;
            let url = database.url();
            let open = Box::new(move |clock| -> suite::Opening {
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
            suite::check(name, open).await;
        });
    }

    super::conformance_cases!(tests);
}

//! Every case of the conformance suite on a database file of its own.

mod sqlite_support;

use std::sync::Arc;

use punctual_store::conformance::{self, KEY_TTL, SHARDS};
use punctual_store::conformance_cases;
use punctual_store::sqlite::{Limits, Options, Sqlite};
use sqlite_support::Folder;

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
    let folder = Folder::new();
    let path = folder.database();
    let open = Box::new(move |clock| -> conformance::Opening {
        // So small that the indexes are used and not the tails alone.
        let limits = Limits { tail: 2, ..Limits::default() };
        let options = Options { shards: SHARDS, key_ttl: KEY_TTL, clock, ends_leases: false, limits };
        let store: Arc<dyn conformance::Whole> = Arc::new(Sqlite::open(&path, options).unwrap());
        Box::pin(std::future::ready(store))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(conformance::check(name, open));
}

conformance_cases!(tests);

//! Every case of the conformance suite as a test of its own, for every store.

use std::path::PathBuf;

use punctual_store::conformance::{self, Open};
use punctual_store::conformance_cases;

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
    runtime.block_on(conformance::check(name, open));
}

mod memory {
    use std::sync::{Arc, OnceLock};

    use punctual_store::Memory;
    use punctual_store::conformance::{KEY_TTL, SHARDS, Whole};

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
    use std::sync::Arc;

    use punctual_store::conformance::{KEY_TTL, SHARDS, Whole};
    use punctual_store::sqlite::{Limits, Options, Sqlite};

    fn run(name: &str) {
        let folder = super::Folder::new(name);
        let path = folder.0.join("punctual.db");
        super::check(
            name,
            Box::new(move |clock| {
                let limits = Limits::default();
                let options = Options { shards: SHARDS, key_ttl: KEY_TTL, clock, ends_leases: false, limits };
                let store: Arc<dyn Whole> = Arc::new(Sqlite::open(&path, options).unwrap());
                Box::pin(std::future::ready(store))
            }),
        );
    }

    super::conformance_cases!(tests);
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("conformance-{}-{}", std::process::id(), name.replace(':', "-"));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is swept away with the target folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

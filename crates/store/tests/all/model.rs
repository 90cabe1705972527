//! Memory and each of the others side by side: random sequences of verbs from small spaces, so that things collide, and
//! every answer of the one must be the answer of the other.

mod pair;
mod values;
mod verbs;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pair::{Numbers, Pair};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use punctual_store::mysql::MySql;
use punctual_store::sqlite::{self, Limits, Sqlite};
use punctual_store::{Options, Postgres, StoreClock};
use verbs::{Verb, verb};

use crate::suite::{Open, Opening, Whole};
use crate::{mysql_support, postgres_support};

const SHARDS: u16 = 4;
const JOBS: u8 = 5;
const KEY_TTL: Duration = Duration::from_secs(5);
const BEGIN_MS: i64 = 1_794_736_800_000;

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn memory_and_sqlite_give_the_same_answers(tail in 1..9_usize, verbs in verbs()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let folder = Folder::new();
            Pair::new(open_sqlite(&folder, tail), Numbers::Same).await.play(verbs).await;
        });
    }
}

// Each of these cases has a database of its own on a server, so there are fewer of them.
proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn memory_and_postgres_give_the_same_answers(verbs in verbs()) {
        postgres_support::block_on(async {
            let begin: StoreClock = Arc::new(|| calendar::Timestamp::from_millis(BEGIN_MS));
            let database = postgres_support::Database::migrated(SHARDS, begin).await;
            Pair::new(open_postgres(database.url()), Numbers::Same).await.play(verbs).await;
            database.hand_on().await;
        });
    }

    #[test]
    fn memory_and_mysql_give_the_same_answers(verbs in verbs()) {
        mysql_support::runtime().block_on(async {
            let database = mysql_support::Database::reuse().await;
            Pair::new(open_mysql(database.url()), Numbers::Own).await.play(verbs).await;
        });
    }
}

fn verbs() -> impl Strategy<Value = Vec<Verb>> {
    prop::collection::vec(verb(), 1..160)
}

/// The same cases on every run; `PROPTEST_CASES` asks for more of them.
fn config(less: u32) -> ProptestConfig {
    let all = ProptestConfig::default();
    ProptestConfig {
        cases: (all.cases / less).max(1),
        rng_seed: RngSeed::Fixed(20_261_115),
        failure_persistence: None,
        max_shrink_iters: if less > 1 { 200 } else { all.max_shrink_iters },
        ..all
    }
}

/// Opens what lies in a folder; `tail` is how much SQLite keeps in memory before it writes its indexes.
fn open_sqlite(folder: &Folder, tail: usize) -> Open {
    let path = folder.0.join("punctual.db");
    Box::new(move |clock| -> Opening {
        let limits = Limits { tail, ..Limits::default() };
        let options = sqlite::Options { shards: SHARDS, key_ttl: KEY_TTL, clock, ends_leases: false, limits };
        let store: Arc<dyn Whole> = Arc::new(Sqlite::open(&path, options).unwrap());
        Box::pin(std::future::ready(store))
    })
}

fn open_postgres(url: String) -> Open {
    Box::new(move |clock| -> Opening {
        let (url, options) = (url.clone(), options(clock));
        Box::pin(async move { Arc::new(Postgres::open(&url, options).await.unwrap()) as Arc<dyn Whole> })
    })
}

fn open_mysql(url: String) -> Open {
    Box::new(move |clock| -> Opening {
        let (url, options) = (url.clone(), options(clock));
        Box::pin(async move { Arc::new(MySql::open(&url, options).await.unwrap()) as Arc<dyn Whole> })
    })
}

fn options(clock: StoreClock) -> Options {
    Options {
        shards: SHARDS,
        key_ttl: KEY_TTL,
        clock: Some(clock),
        connections: 2,
        readers: 1,
        ..Options::default()
    }
}

/// A folder that goes with the case.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let name = format!("punctual-model-{}-{number}", std::process::id());
        // Nearly all of a case is waiting for the disk, and whether a disk keeps its word is not the question here: so
        // in memory, where the system has a folder there.
        let fast = PathBuf::from("/dev/shm");
        let base = if fast.is_dir() { fast } else { PathBuf::from(env!("CARGO_TARGET_TMPDIR")) };
        let path = base.join(name);
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

//! Databases for tests: each test has one of its own, copied from a template that is migrated. To copy takes longer than most
//! tests, so one that leaves the schema as it is hands its database on, emptied.

#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_store::{Options, Postgres, StoreClock};
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};

/// The address of a server on which databases can be made.
pub(crate) fn admin_url() -> String {
    #[expect(clippy::disallowed_methods, reason = "where the server is, only the environment knows")]
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES");
    url.expect("PUNCTUAL_TEST_POSTGRES names a PostgreSQL server; `cargo xtask test` starts one and sets it")
}

/// The same server, another database.
pub(crate) fn url_of(database: &str) -> String {
    let url = admin_url();
    let (server, _) = url.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{database}")
}

/// A connection that asks whatever a test likes.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

/// A database that goes with the test.
pub(crate) struct Database {
    pub(crate) name: String,
}

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Databases that are as good as new.
static IDLE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Makes a migrated database as good as new; what days it has tables for does not matter.
const CLEAN: &str = "
    do $$
    declare
        name text;
    begin
        for name in
            select c.oid::regclass
            from pg_class c
            where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
              and c.relname not in ('schema_version', 'meta', 'counters', 'shards')
        loop
            execute 'delete from ' || name;
        end loop;
    end
    $$;
    update meta set value = 0 where name = 'pruned_to';
    update counters set value = 0;
    update shards
    set owner = null, epoch = 0, inherited = null, checkpoint_due = -9223372036854775808, checkpoint_run = 0;
    alter sequence epochs restart;
    alter sequence send_logs restart;
    alter sequence arrival_numbers restart";

impl Database {
    /// An empty one.
    pub(crate) async fn empty() -> Database {
        Database::make("template0").await
    }

    /// One that is migrated, and has the tables of the day on which the cases play.
    pub(crate) async fn migrated(shards: u16, clock: StoreClock) -> Database {
        if let Some(name) = IDLE.lock().unwrap().pop() {
            return Database { name };
        }
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let make = || async {
            let name = format!("punctual_template_{}_{shards}", std::process::id());
            let admin = client(&admin_url()).await;
            sweep(&admin).await;
            admin.batch_execute(&format!("drop database if exists {name}")).await.unwrap();
            admin
                .batch_execute(&format!("create database {name} template template0 encoding 'UTF8'"))
                .await
                .unwrap();
            let store = Postgres::open(&url_of(&name), options(shards, clock)).await.unwrap();
            warm(&store).await;
            drop(store);
            wait_until_idle(&admin, &name).await;
            name
        };
        let template = TEMPLATE.get_or_init(make).await;
        Database::make(template).await
    }

    async fn make(template: &str) -> Database {
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let name = format!("punctual_test_{}_{number}", std::process::id());
        let admin = client(&admin_url()).await;
        admin.batch_execute(&format!("drop database if exists {name} with (force)")).await.unwrap();
        // Only one may copy a template at a time.
        admin.batch_execute("select pg_advisory_lock(7070)").await.unwrap();
        let encoding = if template == "template0" { "encoding 'UTF8'" } else { "" };
        admin.batch_execute(&format!("create database {name} template {template} {encoding}")).await.unwrap();
        Database { name }
    }

    pub(crate) fn url(&self) -> String {
        url_of(&self.name)
    }

    /// Hands it on to the next test of this process, emptied. What is left at the end, the next process sweeps away.
    pub(crate) async fn hand_on(self) {
        client(&self.url()).await.batch_execute(CLEAN).await.unwrap();
        IDLE.lock().unwrap().push(self.name);
    }

    /// Drops it, whoever is still in it.
    pub(crate) async fn drop(self) {
        let admin = client(&admin_url()).await;
        admin.batch_execute(&format!("drop database if exists {} with (force)", self.name)).await.unwrap();
    }
}

/// Drops what processes left behind that are gone: templates, and databases of tests that failed.
async fn sweep(admin: &Client) {
    let rows = admin
        .query("select datname from pg_database where datname ~ '^punctual_(test|template)_'", &[])
        .await;
    for row in rows.unwrap() {
        let name: String = row.get(0);
        let owner = name.split('_').nth(2).unwrap_or_default();
        if !std::path::Path::new("/proc").join(owner).exists() {
            // Another process may be faster.
            let _ = admin.batch_execute(&format!("drop database if exists {name} with (force)")).await;
        }
    }
}

/// Makes the tables of the store's today.
async fn warm(store: &Postgres) {
    use punctual_node::ports::{Keep, Store};
    store.prune(&Keep::since(calendar::Timestamp::MIN)).await.unwrap();
}

/// A database that somebody is in cannot be copied.
async fn wait_until_idle(admin: &Client, name: &str) {
    for _ in 0..200 {
        let rows = admin.query("select 1 from pg_stat_activity where datname = $1", &[&name]).await.unwrap();
        if rows.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("somebody stays in {name}");
}

/// What most tests open a store with.
pub(crate) fn options(shards: u16, clock: StoreClock) -> Options {
    Options {
        shards,
        key_ttl: crate::suite::KEY_TTL,
        clock: Some(clock),
        connections: 2,
        readers: 1,
        ..Options::default()
    }
}

/// Runs a test to its end.
pub(crate) fn block_on<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test)
}

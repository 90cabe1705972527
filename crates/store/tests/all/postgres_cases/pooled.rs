//! A pooler that gives every transaction another session: nothing of ours may rely on a session.

#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_core::model::{NewRun, Outcome};
use punctual_node::ports::{Accepted, Browse, Gated, Keep, Settled, Store};
use punctual_store::{Options, Postgres};
use tokio::net::{TcpListener, TcpStream};

use super::{House, accepted, create, end, gate, hold_all, one_shot, second};
use crate::postgres_support::{Database, admin_url, block_on, client};

/// A PgBouncer that goes with the test.
struct Pooler {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Pooler {
    async fn start() -> Pooler {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let folder = std::env::temp_dir().join(format!("punctual-pooler-{port}"));
        std::fs::create_dir_all(&folder).unwrap();
        let server = admin_url();
        let server = server.rsplit_once('@').unwrap().1.split('/').next().unwrap();
        let (host, server_port) = server.split_once(':').unwrap();
        let settings = format!(
            "[databases]\n* = user=postgres host={host} port={server_port}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 4\nunix_socket_dir =\n"
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        // It does not run as root.
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let mut command = Command::new(if is_root { "runuser" } else { "/usr/sbin/pgbouncer" });
        if is_root {
            command.args(["-u", "postgres", "--", "/usr/sbin/pgbouncer"]);
        }
        let process =
            command.arg("-q").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pooler = Pooler { process, folder, port };
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return pooler;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the pooler does not answer");
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // Asked and not killed: else only who started it for us would go.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_database_behind_a_pooler_is_migrated_and_looked_at() {
    block_on(async {
        let empty = Database::empty().await;
        let pooler = Pooler::start().await;
        let url = format!("postgres://postgres@127.0.0.1:{}/{}", pooler.port, empty.name);
        let options = Options { prepared: false, ..Options::default() };
        let migrated = Postgres::migrate(&url, &options).await.unwrap();
        let found = Postgres::inspect(&url, &options).await.unwrap();
        assert_eq!((found.schema_version, found.refusal), (Some(migrated.to), None));
        drop(pooler);
        empty.drop().await;
    });
}

#[test]
fn everything_works_through_a_pooler_in_transaction_mode() {
    block_on(async {
        let house = House::new().await;
        let pooler = Pooler::start().await;
        let url = format!("postgres://postgres@127.0.0.1:{}/{}", pooler.port, house.database.name);
        let options = Options { prepared: false, connections: 6, ..house.options() };
        let store = Postgres::open(&url, options).await.unwrap();
        let leases = hold_all(&store, 1).await;
        let job = create(&store, "job", Some(second(60))).await.job;
        assert_eq!(store.due(&leases, second(60), 9).await.unwrap()[0].job, job);
        let keyed = NewRun { key: Some("key".into()), ..one_shot(&store, second(86_400)).await };
        for expected in [Accepted::New(keyed.id), Accepted::Duplicate(keyed.id)] {
            assert_eq!(store.accept(vec![keyed.clone()], vec![]).await.unwrap(), [expected]);
        }
        // More at once than the pooler has sessions.
        let mut runs = Vec::new();
        for number in 0..12 {
            runs.push(accepted(&store, second(number)).await);
        }
        let gates = runs.iter().map(|run| store.gate(vec![gate(*run, 1)]));
        for said in futures_util::future::join_all(gates).await {
            assert!(matches!(said.unwrap()[0], Gated::Through(_)));
        }
        let ends = runs.iter().map(|run| store.settle(vec![end(*run, true, Outcome::Succeeded)]));
        for said in futures_util::future::join_all(ends).await {
            assert!(matches!(said.unwrap()[0], Settled::Done { .. }));
        }
        assert_eq!(store.counts(None).await.unwrap().succeeded, 12);
        store.prune(&Keep::since(second(-86_400))).await.unwrap();
        let admin = client(&house.database.url()).await;
        let kept: i64 = admin.query_one("select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())", &[]).await.unwrap().get(0);
        assert_eq!(kept, 0, "no lock outlives its transaction");
        drop((store, admin, pooler));
        house.database.drop().await;
    });
}

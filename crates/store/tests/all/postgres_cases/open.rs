//! Databases that are refused, each with a sentence that says what to do.

#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::Duration;

use punctual_node::ports::StoreError;
use punctual_store::{Migrated, Options, Postgres};

use super::{House, SHARDS};
use crate::postgres_support::{Database, admin_url, block_on, client, url_of};

/// What is said about a URL; never the password.
async fn refusal(url: &str, options: Options) -> String {
    let said = match Postgres::open(url, options).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    };
    let text = said.to_string();
    assert!(!text.contains("s3cret"), "{text}");
    text
}

#[test]
fn a_wrong_address_is_told() {
    block_on(async {
        let options = Options { shards: SHARDS, ..Options::default() };
        for (url, expected) in [
            ("mysql://root:s3cret@127.0.0.1/x".to_owned(), "postgres://"),
            ("postgres://u:s3cret@127.0.0.1:notaport/x".to_owned(), "cannot be understood"),
            ("postgres://u:s3cret@127.0.0.1:1/x".to_owned(), "cannot be reached"),
            (url_of("no_such_database"), "there is no such database"),
            (format!("{}?sslmode=require", admin_url()), "TLS"),
        ] {
            let said = refusal(&url, options.clone()).await;
            assert!(said.contains(expected), "{said}");
        }
    });
}

#[test]
fn a_user_without_rights_is_told_what_to_grant() {
    block_on(async {
        let empty = Database::empty().await;
        let admin = client(&empty.url()).await;
        let user = format!("nobody_{}", std::process::id());
        let make = format!(
            "drop role if exists {user}; create role {user} login; revoke create on schema public from public"
        );
        admin.batch_execute(&make).await.unwrap();
        let url = empty.url().replace("postgres@", &format!("{user}:s3cret@"));
        let said = refusal(&url, Options { shards: SHARDS, ..Options::default() }).await;
        assert!(said.contains("grant create"), "{said}");
        admin.batch_execute(&format!("drop role {user}")).await.unwrap();
        drop(admin);
        empty.drop().await;
    });
}

#[test]
fn a_server_that_takes_no_writes_is_refused() {
    block_on(async {
        let house = House::new().await;
        let admin = client(&admin_url()).await;
        let name = &house.database.name;
        admin
            .batch_execute(&format!("alter database {name} set default_transaction_read_only = on"))
            .await
            .unwrap();
        let said = refusal(&house.database.url(), house.options()).await;
        assert!(said.contains("primary"), "{said}");
        let found = Postgres::inspect(&house.database.url(), &house.options()).await.unwrap();
        assert!(found.is_read_only);
        assert!(found.refusal.is_some_and(|said| said.contains("primary")), "what opening says, doctor says");
        house.database.drop().await;
    });
}

#[test]
fn a_user_without_rights_is_told_by_doctor_too() {
    block_on(async {
        let empty = Database::empty().await;
        let admin = client(&empty.url()).await;
        let user = format!("looker_{}", std::process::id());
        let make = format!(
            "drop role if exists {user}; create role {user} login; revoke create on schema public from public"
        );
        admin.batch_execute(&make).await.unwrap();
        let url = empty.url().replace("postgres@", &format!("{user}@"));
        let found = Postgres::inspect(&url, &Options::default()).await.unwrap();
        assert!(found.refusal.is_some_and(|said| said.contains("grant create")));
        assert_eq!(Postgres::inspect(&empty.url(), &Options::default()).await.unwrap().refusal, None);
        admin.batch_execute(&format!("drop role {user}")).await.unwrap();
        drop(admin);
        empty.drop().await;
    });
}

/// A file with an authority that has signed nothing.
fn authority() -> std::path::PathBuf {
    let file = std::env::temp_dir().join(format!("punctual-authority-{}.pem", std::process::id()));
    std::fs::write(&file, AUTHORITY).unwrap();
    file
}

const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBeDCCAR+gAwIBAgIUEu66H0fqySrzXen3sFmiDI7S0JUwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTExODA1MDczMFoYDzIxMjYxMDI1MDUw
NzMwWjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AASq0RS/kS1bwOMJQruOuJNMBLqAaGqK3/T8EV3NpB28FadicQfIrrVJvPIMU0Mg
Wl/HV/+3hIGA7v00v5xzUqlpo1MwUTAdBgNVHQ4EFgQUE78lPibNf9S/OAl8f+5C
5ctVspkwHwYDVR0jBBgwFoAUE78lPibNf9S/OAl8f+5C5ctVspkwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiAdUZST6FVVDBTmEQ7NcbEbhrW7IZyG
BSLWi/CKE8zJTQIgRU5fWhnYmS6e8RTxWnYdA6yPx212K1PXXd+9mXSDjuQ=
-----END CERTIFICATE-----
";

#[test]
fn an_authority_means_that_the_server_is_verified() {
    block_on(async {
        let file = authority();
        let ca_file = Some(file.display().to_string());
        let options = Options { shards: SHARDS, ca_file: ca_file.clone(), ..Options::default() };
        // The server of the tests offers no TLS, so who insists on it is refused.
        let said = refusal(&admin_url(), options.clone()).await;
        assert!(said.contains("TLS"), "{said}");
        for mode in ["disable", "allow", "prefer", "require"] {
            let said = refusal(&format!("{}?sslmode={mode}", admin_url()), options.clone()).await;
            assert!(said.contains("database.ca") && said.contains(&format!("sslmode={mode}")), "{said}");
        }
        let url = format!("{}?sslmode=require&sslrootcert={}", admin_url(), file.display());
        let said = refusal(&url, Options { ca_file: None, ..options.clone() }).await;
        assert!(said.contains("sslrootcert"), "{said}");
        for asked in [
            Postgres::migrate(&admin_url(), &options).await.map(drop),
            Postgres::inspect(&admin_url(), &options).await.map(drop),
        ] {
            let said = asked.unwrap_err().to_string();
            assert!(said.contains("TLS"), "{said}");
        }
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
fn a_migration_by_another_node_is_waited_for_longer_than_a_statement() {
    block_on(async {
        let empty = Database::empty().await;
        let other = client(&empty.url()).await;
        // As a node has it that migrates.
        other.batch_execute("select pg_advisory_lock(8103504477839517441)").await.unwrap();
        let deadline = Duration::from_millis(200);
        let options = Options { shards: SHARDS, deadline, ..Options::default() };
        let url = empty.url();
        let opened = Postgres::open(&url, options);
        let released = async {
            tokio::time::sleep(3 * deadline).await;
            other.batch_execute("select pg_advisory_unlock(8103504477839517441)").await.unwrap();
        };
        let (opened, ()) = tokio::join!(opened, released);
        drop(opened.expect("it waits for the other"));
        drop(other);
        empty.drop().await;
    });
}

#[test]
fn a_schema_of_somebody_else_is_left_alone() {
    block_on(async {
        let empty = Database::empty().await;
        let other = client(&empty.url()).await;
        let options = Options { shards: SHARDS, ..Options::default() };
        other.batch_execute("create table jobs (id integer)").await.unwrap();
        let said = refusal(&empty.url(), options.clone()).await;
        assert!(said.contains("not ours") && said.contains("jobs"), "{said}");
        other.batch_execute("create table schema_version (number integer)").await.unwrap();
        let said = refusal(&empty.url(), options).await;
        assert!(said.contains("not ours"), "{said}");
        drop(other);
        empty.drop().await;
    });
}

#[test]
fn an_older_schema_is_migrated_only_if_that_is_wished() {
    block_on(async {
        let empty = Database::empty().await;
        let options = Options { shards: SHARDS, auto_migrate: false, ..Options::default() };
        let said = refusal(&empty.url(), options.clone()).await;
        assert!(said.contains("punctual migrate"), "{said}");
        let before = Postgres::inspect(&empty.url(), &options).await.unwrap();
        assert_eq!((before.schema_version, before.shards, before.is_read_only), (None, None, false));
        let Migrated { from, to, applied } = Postgres::migrate(&empty.url(), &options).await.unwrap();
        assert_eq!((from, to as usize), (0, applied.len()));
        assert_eq!(Postgres::migrate(&empty.url(), &options).await.unwrap().applied, Vec::<&str>::new());
        drop(Postgres::open(&empty.url(), options.clone()).await.unwrap());
        let after = Postgres::inspect(&empty.url(), &options).await.unwrap();
        assert_eq!((after.schema_version, after.shards), (Some(to), Some(SHARDS)));
        assert!(after.server.starts_with("PostgreSQL") && !after.settings.is_empty());
        empty.drop().await;
    });
}

#[test]
fn a_newer_schema_is_refused_unless_it_says_that_we_may() {
    block_on(async {
        let house = House::new().await;
        let other = client(&house.database.url()).await;
        let add =
            "insert into schema_version (version, name, checksum, min_reader) values (99, '0099_x', 'x', 1)";
        other.batch_execute(add).await.unwrap();
        drop(house.open().await);
        other.batch_execute("update schema_version set min_reader = 99 where version = 99").await.unwrap();
        let said = refusal(&house.database.url(), house.options()).await;
        assert!(said.contains("newer Punctual"), "{said}");
        other
            .batch_execute(
                "delete from schema_version where version = 99; update schema_version set checksum = 'x'",
            )
            .await
            .unwrap();
        let said = refusal(&house.database.url(), house.options()).await;
        assert!(said.contains("another build"), "{said}");
        drop(other);
        house.database.drop().await;
    });
}

#[test]
fn another_number_of_shards_is_refused() {
    block_on(async {
        let house = House::new().await;
        let said = refusal(&house.database.url(), Options { shards: SHARDS + 1, ..house.options() }).await;
        assert!(said.contains("4 shards"), "{said}");
        house.database.drop().await;
    });
}

#[test]
fn a_row_that_cannot_be_read_is_corrupt() {
    block_on(async {
        use punctual_node::ports::Store;
        let house = House::new().await;
        let store = house.open().await;
        let job = super::create(&store, "job", None).await.job;
        let other = client(&house.database.url()).await;
        other.batch_execute("update jobs set definition = '{'").await.unwrap();
        let rows = store.jobs(&[job]).await.unwrap();
        assert!(matches!(rows[0].1, Err(StoreError::Corrupt { .. })), "{rows:?}");
        drop((store, other));
        house.database.drop().await;
    });
}

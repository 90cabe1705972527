//! Opening: what is refused, and in which words; migrations; what is told about a database.

use punctual_node::ports::{Apps, Browse, Store, StoreError};
use punctual_store::Options;
use punctual_store::mysql::MySql;

use crate::mysql_support::{Database, SHARDS, admin_url, options, renewal, runtime, second};

/// What opening says when it refuses; it never says the password.
async fn refusal(url: &str, options: Options) -> String {
    let said = match MySql::open(url, options).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    };
    assert!(!said.contains("geheim"), "{said}");
    said
}

fn with(url: &str, from: &str, to: &str) -> String {
    assert!(url.contains(from), "{url}");
    url.replace(from, to)
}

#[test]
fn a_url_that_cannot_be_read_is_refused() {
    runtime().block_on(async {
        for wrong in [
            "mysql:/geheim",
            "postgres://root:geheim@127.0.0.1/x",
            "mysql://root:geheim@127.0.0.1:x/y",
            "nonsense",
        ] {
            let said = refusal(wrong, options()).await;
            assert!(said.contains("mysql://user:password@host:3306/database"), "{said}");
        }
        let said = refusal("mysql://root:geheim@127.0.0.1:3306", options()).await;
        assert!(said.contains("names no database"), "{said}");
    });
}

#[test]
fn no_server_no_database_and_a_wrong_password_are_told_apart() {
    runtime().block_on(async {
        let said = refusal("mysql://root:geheim@127.0.0.1:1/x", options()).await;
        assert!(said.contains("refused") || said.contains("Input/output"), "{said}");
        let url = admin_url();
        let (server, _) = url.rsplit_once('/').unwrap();
        let said = refusal(&format!("{server}/no_such_database"), options()).await;
        assert!(said.contains("there is no such database; create it first"), "{said}");
        let said = refusal(&with(&url, "root@", "nobody_knows:geheim@"), options()).await;
        assert!(said.contains("user name or the password"), "{said}");
    });
}

#[test]
fn a_user_without_rights_is_told_to_be_granted_them() {
    runtime().block_on(async {
        let database = Database::create().await;
        let user = format!("u_{}", database.name);
        database.run(&format!("create user {user}@'%' identified by 'geheim'")).await;
        database.run(&format!("grant select on {}.* to {user}@'%'", database.name)).await;
        let url = with(&database.url(), "root@", &format!("{user}:geheim@"));
        let said = refusal(&url, options()).await;
        let inspected = MySql::inspect(&url, &options()).await.unwrap();
        database.run(&format!("drop user {user}@'%'")).await;
        assert!(said.contains("grant it all privileges"), "{said}");
        let told = inspected.refusal.expect("what opening says, doctor says");
        assert!(told.contains("grant it all privileges"), "{told}");
    });
}

#[test]
fn tls_that_the_server_does_not_offer_is_refused() {
    runtime().block_on(async {
        let database = Database::create().await;
        let said = refusal(&format!("{}?require_ssl=true", database.url()), options()).await;
        assert!(said.contains("TLS") || said.to_lowercase().contains("ssl"), "{said}");
    });
}

#[test]
fn tables_that_are_not_ours_are_refused() {
    runtime().block_on(async {
        let database = Database::create().await;
        database.run(&format!("create table {}.jobs (id int)", database.name)).await;
        let said = refusal(&database.url(), options()).await;
        assert!(said.contains("a table jobs that is not ours"), "{said}");
        assert_eq!(database.ask("show tables").await.len(), 1, "nothing was added");
    });
}

#[test]
fn a_database_is_migrated_once_and_says_so() {
    runtime().block_on(async {
        let database = Database::create().await;
        let url = database.url();
        let said = refusal(&url, Options { auto_migrate: false, ..options() }).await;
        assert!(said.contains("run `punctual migrate`"), "{said}");
        let inspected = MySql::inspect(&url, &options()).await.unwrap();
        assert_eq!((inspected.schema_version, inspected.shards), (None, None));
        let known = options();
        let (one, other) = futures_util::join!(MySql::migrate(&url, &known), MySql::migrate(&url, &known));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one.applied.len() + other.applied.len(), 6, "of two that come together one migrates");
        assert_eq!((one.to, other.to), (6, 6));
        MySql::open(&url, Options { auto_migrate: false, ..options() }).await.unwrap();
        let inspected = MySql::inspect(&url, &options()).await.unwrap();
        assert_eq!((inspected.schema_version, inspected.shards), (Some(6), Some(SHARDS)));
        assert!(inspected.server.contains("M") && inspected.now > 0 && !inspected.is_read_only);
        assert!(inspected.settings.iter().any(|setting| setting.name == "max_allowed_packet"));
        let said = refusal(&url, Options { shards: SHARDS + 1, ..options() }).await;
        assert!(said.contains(&format!("has {SHARDS} shards")), "{said}");
    });
}

#[test]
fn nodes_that_come_to_a_new_database_together_all_open_it() {
    runtime().block_on(async {
        for turn in 0..10 {
            let database = Database::create().await;
            let url = database.url();
            // Whether they wait for each other's migration or not, they decide the number of shards together.
            if turn % 2 == 0 {
                MySql::migrate(&url, &options()).await.unwrap();
            }
            let opened = futures_util::future::join_all((0..6).map(|_| MySql::open(&url, options()))).await;
            let refused: Vec<String> =
                opened.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
            assert!(refused.is_empty(), "{refused:?}");
        }
    });
}

#[test]
fn an_interrupted_migration_is_taken_up_again() {
    runtime().block_on(async {
        let database = Database::create().await;
        MySql::migrate(&database.url(), &options()).await.unwrap();
        database.run(&format!("delete from {}.schema_version", database.name)).await;
        database.run(&format!("drop table {}.executors", database.name)).await;
        assert_eq!(MySql::migrate(&database.url(), &options()).await.unwrap().applied.len(), 6);
        MySql::open(&database.url(), options()).await.unwrap();
    });
}

#[test]
fn a_database_of_an_earlier_version_is_brought_up_to_date() {
    runtime().block_on(async {
        let database = Database::create().await;
        MySql::migrate(&database.url(), &options()).await.unwrap();
        let name = &database.name;
        database.run(&format!("delete from {name}.schema_version where version >= 2")).await;
        database.run(&format!("drop table {name}.thinned, {name}.retentions, {name}.pauses")).await;
        let said = refusal(&database.url(), Options { auto_migrate: false, ..options() }).await;
        assert!(said.contains("run `punctual migrate`"), "{said}");
        let store = MySql::open(&database.url(), options()).await.unwrap();
        assert_eq!(store.registered().await.unwrap().apps, []);
    });
}

#[test]
fn a_newer_schema_is_opened_if_it_may_be_and_refused_if_not() {
    runtime().block_on(async {
        let database = Database::create().await;
        let url = database.url();
        MySql::migrate(&url, &options()).await.unwrap();
        let newer = |min: u32| {
            format!(
                "replace into {}.schema_version (version, name, checksum, min_reader, applied_at)
                 values (99, '0099_later', 1, {min}, 0)",
                database.name
            )
        };
        database.run(&newer(1)).await;
        MySql::open(&url, options()).await.unwrap();
        database.run(&newer(99)).await;
        let said = refusal(&url, options()).await;
        assert!(said.contains("newer Punctual") && said.contains("start the newer version"), "{said}");
        database.run(&newer(1)).await;
        database
            .run(&format!("update {}.schema_version set checksum = 7 where version = 1", database.name))
            .await;
        let said = refusal(&url, options()).await;
        assert!(said.contains("another than ours"), "{said}");
    });
}

#[test]
fn people_are_answered_by_the_replica_while_the_primary_is_away() {
    runtime().block_on(async {
        let (primary, replica) = (Database::create().await, Database::create().await);
        MySql::open(&replica.url(), options()).await.unwrap();
        let options = Options { read_url: Some(replica.url()), ..options() };
        let store = MySql::open(&primary.url(), options).await.unwrap();
        store.storage().await.unwrap();
        assert!(!store.is_copy());
        primary.run(&format!("drop database {}", primary.name)).await;
        assert_eq!(store.storage().await.unwrap(), []);
        assert!(store.is_copy(), "and says so");
        let said = store.allot(1, 1).await;
        assert!(
            matches!(said, Err(StoreError::Away(_) | StoreError::Unknown(_))),
            "the engine is not: {said:?}"
        );
    });
}

#[test]
fn the_clock_of_the_database_is_asked_where_none_is_told() {
    runtime().block_on(async {
        let database = Database::create().await;
        let store = MySql::open(&database.url(), Options { clock: None, ..options() }).await.unwrap();
        let renewed = store.renew(renewal(1)).await.unwrap();
        let inspected = MySql::inspect(&database.url(), &options()).await.unwrap();
        assert!(renewed.now > second(-86_400 * 365), "{}", renewed.now);
        assert!(inspected.now - renewed.now.as_millis() < 60_000);
        assert!(renewed.nodes[0].expires_at > renewed.now);
    });
}

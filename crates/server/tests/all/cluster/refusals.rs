//! Databases that cannot be used: a clear refusal at the start, that says what to do and shows no password.

use std::process::Output;

use super::database::{Database, Engine};
use super::{TOKEN, start};
use crate::house::{Folder, command};

fn serve(url: &str, more: &[&str]) -> Output {
    let folder = Folder::new();
    let mut command = command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--database", url]).args(more);
    command.arg("--data").arg(folder.path()).env("PUNCTUAL_ADMIN_TOKEN", TOKEN);
    command.output().expect("it runs")
}

#[track_caller]
fn refused(url: &str, more: &[&str], code: i32, words: &[&str]) {
    let said = serve(url, more);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(code), "{url}: {text}");
    let lower = text.to_lowercase();
    assert!(words.iter().any(|word| lower.contains(word)), "{url}: {text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn an_address_that_is_none_is_a_mistake_of_whoever_said_it() {
    for url in ["oracle://db/x", "db.example.com", "postgres:/x"] {
        refused(url, &[], 2, &["expected postgres://"]);
    }
    let said = serve("sqlite:x", &[]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("--database"));
}

#[test]
fn redis_alone_is_no_database() {
    let folder = Folder::new();
    let mut command = command();
    command.args(["serve", "--redis", "redis://127.0.0.1:1", "--data"]).arg(folder.path());
    let said = command.output().expect("it runs");
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("--database"));
}

#[test]
fn a_server_that_is_not_there_or_does_not_let_us_in_is_told() {
    refused("postgres://root:hunter2@127.0.0.1:1/x", &[], 1, &["refused", "reach", "connect"]);
    refused("mysql://root:hunter2@127.0.0.1:1/x", &[], 1, &["refused", "reach", "connect"]);
    for engine in [Engine::Postgres, Engine::MariaDb] {
        if engine.is_wanted() {
            let admin = engine.admin();
            let (server, _) = admin.rsplit_once('/').expect("a database");
            refused(&format!("{server}/not_there_at_all"), &[], 1, &["not_there_at_all"]);
            let (scheme, rest) = server.split_once("://").expect("a scheme");
            let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
            refused(&format!("{scheme}://nobody_here:hunter2@{place}/x"), &[], 1, &["nobody_here"]);
        }
    }
}

#[test]
fn tables_of_somebody_else_are_left_alone() {
    for engine in [Engine::Postgres, Engine::MariaDb] {
        if engine.is_wanted() {
            let database = Database::new(engine);
            match engine {
                Engine::Postgres => tell_inside(&database, "create table jobs (what text)"),
                Engine::MariaDb => engine.tell(&format!("create table {}.jobs (what text)", database.name())),
            }
            refused(database.url(), &[], 1, &["jobs", "somebody else", "foreign", "not ours"]);
        }
    }
}

fn tell_inside(database: &Database, words: &str) {
    let mut psql = std::process::Command::new("psql");
    psql.args(["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", database.url(), "--command", words]);
    assert!(psql.status().expect("psql runs").success());
}

#[test]
fn a_server_that_takes_no_writes_is_not_the_one() {
    if !Engine::Postgres.is_wanted() {
        return;
    }
    let database = Database::new(Engine::Postgres);
    Engine::Postgres
        .tell(&format!("alter database {} set default_transaction_read_only = on", database.name()));
    refused(database.url(), &[], 1, &["read-only", "read only", "writes"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_shards_stays_as_it_was() {
    for engine in [Engine::Postgres, Engine::MariaDb] {
        if engine.is_wanted() {
            let database = Database::new(engine);
            let folder = Folder::new();
            drop(start(&folder, database.url(), &[]).await);
            let configuration = folder.path().join("punctual.toml");
            std::fs::write(&configuration, "[store]\nshards = 8\n").expect("a file");
            let more = ["--config", configuration.to_str().expect("text")];
            refused(database.url(), &more, 1, &["64 shards"]);
        }
    }
}

#[test]
fn without_leave_to_migrate_a_node_asks_for_it_and_migrate_does_it_once() {
    for engine in [Engine::Postgres, Engine::MariaDb] {
        if engine.is_wanted() {
            let database = Database::new(engine);
            let folder = Folder::new();
            let configuration = folder.path().join("punctual.toml");
            std::fs::write(&configuration, "[database]\nauto_migrate = false\n").expect("a file");
            let more = ["--config", configuration.to_str().expect("text")];
            refused(database.url(), &more, 1, &["punctual migrate"]);
            let migrate = || {
                let said =
                    command().args(["migrate", "--database", database.url()]).output().expect("it runs");
                assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
                String::from_utf8(said.stdout).expect("text")
            };
            assert!(migrate().contains("applied"));
            assert!(migrate().contains("nothing was to be done"));
            let doctor = command().args(["doctor", "--database", database.url()]).output().expect("it runs");
            let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
            assert!(doctor.status.success() && said.contains("the schema is at version"), "{said}");
            assert!(said.contains("clock differs by"), "{said}");
        }
    }
}

//! The servers start, die, come back on the same port and data, and leave nothing behind.
#![expect(clippy::disallowed_methods, clippy::print_stderr, reason = "real servers live in real time")]

use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_scratch::{MariaDb, PgBouncer, Postgres, Redis, Server, until};

/// Runs a statement by the server's own client, and says what it printed.
fn psql(server: &Server, statement: &str) -> String {
    said(Command::new("psql").args([&server.url(), "-XAtqc", statement]))
}

fn mariadb(server: &Server, statement: &str) -> String {
    let port = format!("-P{}", server.port());
    said(Command::new("mariadb").args(["-h127.0.0.1", &port, "-uroot", "-N", "-e", statement]))
}

fn said(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the client is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Was this server left out of the test command? Then its tests have nothing to try.
fn is_left_out(variable: &str) -> bool {
    let is_left_out = std::env::var(variable).is_ok_and(|value| value == "without");
    if is_left_out {
        eprintln!("left out: {variable} says so");
    }
    is_left_out
}

#[test]
fn postgresql_keeps_what_it_has_over_stop_kill_and_restart() {
    if is_left_out("PUNCTUAL_TEST_POSTGRES") {
        return;
    }
    let mut server =
        Postgres { fsync: true, connections: 20, ..Postgres::default() }.start().expect("it starts");
    let url = server.url();
    psql(&server, "create table kept (n int)");
    psql(&server, "insert into kept values (1)");
    server.kill();
    server.start().expect("it recovers");
    psql(&server, "insert into kept values (2)");
    server.restart().expect("it restarts");
    assert_eq!(psql(&server, "select sum(n) from kept"), "3");
    assert_eq!(psql(&server, "show max_connections"), "20");
    let other = server.database("other").expect("a database");
    assert_eq!(said(Command::new("psql").args([&other, "-XAtqc", "select current_database()"])), "other");
    assert_eq!(server.url(), url);
}

#[test]
fn mariadb_keeps_what_it_has_over_stop_kill_and_restart() {
    if is_left_out("PUNCTUAL_TEST_MARIADB") {
        return;
    }
    let mut server = MariaDb::default().start().expect("it starts");
    mariadb(&server, "create database a; create table a.kept (n int); insert into a.kept values (1)");
    server.kill();
    server.start().expect("it recovers");
    mariadb(&server, "insert into a.kept values (2)");
    server.restart().expect("it restarts");
    assert_eq!(mariadb(&server, "select sum(n) from a.kept"), "3");
    assert_eq!(mariadb(&server, "select @@innodb_flush_log_at_trx_commit"), "1");
    assert!(server.database("other").expect("a database").ends_with("/other"));
    assert_eq!(mariadb(&server, "show databases like 'other'"), "other");
}

#[test]
fn redis_answers_and_forgets() {
    if is_left_out("PUNCTUAL_TEST_REDIS") {
        return;
    }
    let mut server = Redis.start().expect("it starts");
    let url = server.url();
    let ask = |words: &[&str]| said(Command::new("redis-cli").args(["-u", &url]).args(words));
    assert_eq!(ask(&["set", "a", "1"]), "OK");
    server.kill();
    server.start().expect("it comes back");
    assert_eq!(ask(&["get", "a"]), "");
}

#[test]
fn pgbouncer_passes_transactions_on() {
    if is_left_out("PUNCTUAL_TEST_POSTGRES") {
        return;
    }
    let postgres = Postgres::default().start().expect("it starts");
    let mut bouncer = PgBouncer { behind: postgres.port(), connections: 5 }.start().expect("it starts");
    assert_eq!(psql(&bouncer, "select 7"), "7");
    bouncer.restart().expect("it restarts");
    assert_eq!(psql(&bouncer, "select 8"), "8");
}

#[test]
fn a_server_that_goes_leaves_no_folder() {
    if is_left_out("PUNCTUAL_TEST_REDIS") {
        return;
    }
    let server = Redis.start().expect("it starts");
    let folder = server.log().parent().expect("a folder").to_owned();
    assert!(folder.exists());
    drop(server);
    assert!(!folder.exists());
}

/// The name of the variable that turns the test below into the process that is killed.
const VICTIM: &str = "SCRATCH_VICTIM";

#[test]
fn a_killed_process_takes_its_server_and_its_folder_along() {
    if is_left_out("PUNCTUAL_TEST_POSTGRES") {
        return;
    }
    if let Some(path) = std::env::var_os(VICTIM) {
        let server = Postgres::default().start().expect("it starts");
        let folder = server.log().parent().expect("a folder").to_owned();
        std::fs::write(path, format!("{}\n{}", server.port(), folder.display())).expect("a file");
        until(Duration::from_secs(60), || false);
        return;
    }
    let note = std::env::temp_dir().join(format!("punctual-victim-{}", std::process::id()));
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_killed_process_takes_its_server_and_its_folder_along"])
        .env(VICTIM, &note)
        .stdout(Stdio::null())
        .spawn()
        .expect("this program again");
    let read = || std::fs::read_to_string(&note).unwrap_or_default();
    assert!(until(Duration::from_secs(60), || read().lines().count() == 2), "it never started its server");
    let said = read();
    let _ = std::fs::remove_file(&note);
    victim.kill().expect("it was running");
    victim.wait().expect("it has ended");
    let (port, folder) = said.split_once('\n').expect("two lines");
    let port: u16 = port.parse().expect("a port");
    let is_gone = || {
        !std::path::Path::new(folder).exists() && std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
    };
    assert!(until(Duration::from_secs(30), is_gone), "{folder} or port {port} is still there");
}

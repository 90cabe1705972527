//! A database of one's own on the servers that the test command started.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Postgres,
    MariaDb,
}

impl Engine {
    fn variable(self) -> &'static str {
        match self {
            Engine::Postgres => "PUNCTUAL_TEST_POSTGRES",
            Engine::MariaDb => "PUNCTUAL_TEST_MARIADB",
        }
    }

    /// Whether it is there; `cargo xtask test --without …` says that it is not wanted.
    pub(crate) fn is_wanted(self) -> bool {
        self.admin() != "without"
    }

    pub(crate) fn admin(self) -> String {
        let name = self.variable();
        std::env::var(name)
            .unwrap_or_else(|_| panic!("{name} is not set: `cargo xtask test` starts the servers"))
    }

    /// Lets the server's own client say something, as the admin.
    pub(crate) fn tell(self, words: &str) {
        let _ = self.tell_at(&self.admin(), words);
    }

    fn tell_at(self, admin: &str, words: &str) -> String {
        let mut command = match self {
            Engine::Postgres => {
                let mut command = Command::new("psql");
                command.args(["--quiet", "--no-psqlrc", "--tuples-only", "--no-align"]);
                command.args(["--set=ON_ERROR_STOP=1", admin, "--command", words]);
                command
            }
            Engine::MariaDb => {
                let admin = url::Url::parse(admin).expect("an address");
                let (host, port) = (admin.host_str().expect("a host"), admin.port().expect("a port"));
                let (user, database) = (admin.username(), admin.path().trim_start_matches('/'));
                let mut command = Command::new("mariadb");
                command.args(["--no-defaults", "--protocol=tcp", "--batch", "--skip-column-names"]);
                command.args([format!("--host={host}"), format!("--port={port}"), format!("--user={user}")]);
                command.args(["--database", database, "--execute", words]);
                command
            }
        };
        let said = command.output().expect("the client of the database runs");
        assert!(said.status.success(), "{words}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }
}

/// An empty database that goes with the value.
pub(crate) struct Database {
    engine: Engine,
    name: String,
    url: String,
}

impl Database {
    pub(crate) fn new(engine: Engine) -> Database {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cluster_{}_{number}", std::process::id());
        engine.tell(&format!("create database {name}"));
        let admin = engine.admin();
        let (server, _) = admin.rsplit_once('/').expect("an address with a database");
        Database { engine, url: format!("{server}/{name}"), name }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Lets the server's own client say something in this database.
    pub(crate) fn tell(&self, words: &str) {
        self.ask(words);
    }

    /// The same, and what it answers.
    pub(crate) fn ask(&self, words: &str) -> String {
        self.engine.tell_at(&self.url, words)
    }

    /// Says something as a user of its own, who has been granted nothing but this.
    pub(crate) fn tell_as_guest(&self, granted: &[&str], words: &str) {
        let guest = format!("guest_{}", self.name);
        self.tell(&match self.engine {
            Engine::Postgres => format!("create role {guest} login"),
            Engine::MariaDb => format!("create user {guest}"),
        });
        for granted in granted {
            self.tell(&format!("grant {granted} to {guest}"));
        }
        let mut url = url::Url::parse(&self.url).expect("an address");
        url.set_username(&guest).expect("a name");
        self.engine.tell_at(url.as_str(), words);
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        match self.engine {
            Engine::Postgres => self.engine.tell(&format!("drop database {} with (force)", self.name)),
            Engine::MariaDb => self.engine.tell(&format!("drop database {}", self.name)),
        }
    }
}

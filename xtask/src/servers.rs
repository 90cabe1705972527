//! The real servers for tests: started in temporary folders, and announced to the tests by the environment.

use std::time::Duration;

use punctual_scratch::{MariaDb, Postgres, Redis, Server};

/// A kind of server that tests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestServer {
    PostgreSql,
    MariaDb,
    Redis,
}

/// The value for a server that was left out. Its tests then print that and pass.
const LEFT_OUT: &str = "without";

/// Room for every test that runs at the same time to have a pool of its own.
const CONNECTIONS: u16 = 400;

impl TestServer {
    pub(crate) const ALL: [TestServer; 3] = [TestServer::PostgreSql, TestServer::MariaDb, TestServer::Redis];

    pub(crate) fn name(self) -> &'static str {
        match self {
            TestServer::PostgreSql => "postgresql",
            TestServer::MariaDb => "mariadb",
            TestServer::Redis => "redis",
        }
    }

    pub(crate) fn named(name: &str) -> Option<TestServer> {
        TestServer::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The word that the store's tests of this server have in their names.
    pub(crate) fn in_test_names(self) -> &'static str {
        match self {
            TestServer::PostgreSql => "postgres",
            TestServer::MariaDb => "mysql",
            TestServer::Redis => "redis",
        }
    }

    /// The variable with its address.
    fn variable(self) -> &'static str {
        match self {
            TestServer::PostgreSql => "PUNCTUAL_TEST_POSTGRES",
            TestServer::MariaDb => "PUNCTUAL_TEST_MARIADB",
            TestServer::Redis => "PUNCTUAL_TEST_REDIS",
        }
    }

    /// Starts one that does not wait for the disk, because its data does not outlive the tests.
    fn start(self) -> Result<Server, String> {
        match self {
            TestServer::PostgreSql => Postgres { connections: CONNECTIONS, ..Postgres::default() }.start(),
            TestServer::MariaDb => MariaDb { connections: CONNECTIONS, ..MariaDb::default() }.start(),
            TestServer::Redis => Redis.start(),
        }
    }
}

/// Servers that run until this is dropped.
pub(crate) struct Servers(Vec<(TestServer, Option<Server>)>);

impl Servers {
    /// Starts all but some.
    pub(crate) fn start(without: &[TestServer]) -> Result<Servers, String> {
        let start = |kind: TestServer| {
            let server = if without.contains(&kind) { None } else { Some(kind.start()?) };
            Ok((kind, server))
        };
        TestServer::ALL.into_iter().map(start).collect::<Result<_, String>>().map(Servers)
    }

    /// No server: tests that need one are told that it was left out.
    pub(crate) fn none() -> Servers {
        Servers(TestServer::ALL.map(|kind| (kind, None)).into())
    }

    /// The variables for tests.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let told = |server: &Option<Server>| server.as_ref().map_or(LEFT_OUT.to_owned(), Server::url);
        self.0.iter().map(|(kind, server)| (kind.variable(), told(server))).collect()
    }
}

/// Starts all of them, prints their addresses, and waits. Ctrl-C ends this process and the servers.
#[expect(clippy::disallowed_methods, reason = "nothing is waited for")]
pub(crate) fn stay() -> Result<(), String> {
    let servers = Servers::start(&[])?;
    for (name, value) in servers.environment() {
        println!("export {name}='{value}'");
    }
    eprintln!("they run until Ctrl-C");
    loop {
        std::thread::park_timeout(Duration::from_secs(3600));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_left_out_is_told_as_such() {
        let told = Servers::none().environment();
        assert_eq!(told[0], ("PUNCTUAL_TEST_POSTGRES", "without".to_owned()));
        assert_eq!(told.len(), 3);
    }
}

//! The real servers that tests are run against: started in temporary folders, told to the tests by the environment.

use std::time::Duration;

use punctual_scratch::{MariaDb, Postgres, Redis, Server};

/// A kind of server that tests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PostgreSql,
    MariaDb,
    Redis,
}

/// What the environment says of a server that was left out. Its tests then say so and are content.
const LEFT_OUT: &str = "without";

/// Room for every test that runs at the same time to have a pool of its own.
const CONNECTIONS: u16 = 400;

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::PostgreSql, Kind::MariaDb, Kind::Redis];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::PostgreSql => "postgresql",
            Kind::MariaDb => "mariadb",
            Kind::Redis => "redis",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The variable that says where it is.
    fn variable(self) -> &'static str {
        match self {
            Kind::PostgreSql => "PUNCTUAL_TEST_POSTGRES",
            Kind::MariaDb => "PUNCTUAL_TEST_MARIADB",
            Kind::Redis => "PUNCTUAL_TEST_REDIS",
        }
    }

    /// Starts one that waits for no disk: what a test learns from it does not outlive the test.
    fn start(self) -> Result<Server, String> {
        match self {
            Kind::PostgreSql => Postgres { connections: CONNECTIONS, ..Postgres::default() }.start(),
            Kind::MariaDb => MariaDb { connections: CONNECTIONS, ..MariaDb::default() }.start(),
            Kind::Redis => Redis.start(),
        }
    }
}

/// Servers that run as long as the value lives.
pub(crate) struct Servers(Vec<(Kind, Option<Server>)>);

impl Servers {
    /// Starts all but some.
    pub(crate) fn start(without: &[Kind]) -> Result<Servers, String> {
        let start = |kind: Kind| {
            let server = if without.contains(&kind) { None } else { Some(kind.start()?) };
            Ok((kind, server))
        };
        Kind::ALL.into_iter().map(start).collect::<Result<_, String>>().map(Servers)
    }

    /// None of them: tests that want one are told that it was left out.
    pub(crate) fn none() -> Servers {
        Servers(Kind::ALL.map(|kind| (kind, None)).into())
    }

    /// What tests are told.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let told = |server: &Option<Server>| server.as_ref().map_or(LEFT_OUT.to_owned(), Server::url);
        self.0.iter().map(|(kind, server)| (kind.variable(), told(server))).collect()
    }
}

/// Starts all of them, says where they are, and stays. Ctrl-C ends us, and the servers with us.
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

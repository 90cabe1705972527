//! The server: what it is, whether it can be worked with, and what is worth telling about it.

use punctual_core::model::Text;
use punctual_node::ports::StoreError;

use super::ask::DATABASE_NOW;
use super::link::Line;
use super::text::Script;
use super::trouble::Trouble;
use crate::sql::Setting;

/// The smallest packet that a server must take: a payload may be a megabyte, and a batch has many rows.
const PACKET_MIN: i64 = 16 << 20;

/// What a server says of itself.
pub(super) struct Server {
    version: String,
    pub(super) now: i64,
    pub(super) is_read_only: bool,
    max_packet: i64,
    flush: String,
    sync_binlog: String,
    buffer_pool: i64,
    max_connections: i64,
    may_create_tables: bool,
}

impl Server {
    pub(super) async fn ask(line: &mut Line) -> Result<Server, Trouble> {
        let mut script = Script::of(format!(
            "select version(), {DATABASE_NOW}, @@global.read_only, @@global.max_allowed_packet,
                    @@global.innodb_flush_log_at_trx_commit, @@global.sync_binlog,
                    @@global.innodb_buffer_pool_size, @@global.max_connections, @@global.innodb_read_only,
                    coalesce(database(), '')"
        ));
        let granted = script.push("show grants");
        let said = line.ask(script).await?;
        let row =
            said[0].first().ok_or_else(|| StoreError::Unknown("the server says nothing of itself".into()))?;
        // MariaDB may answer words where MySQL answers numbers.
        let is_on = |cell| Ok::<bool, Trouble>(!matches!(row.string(cell)?.as_str(), "0" | "OFF" | "off"));
        let grants: Vec<String> =
            said[granted].rows.iter().map(|row| row.string(0)).collect::<Result<_, Trouble>>()?;
        Ok(Server {
            may_create_tables: may_create_tables(&grants, &row.string(9)?),
            version: row.string(0)?,
            now: row.int(1)?,
            is_read_only: is_on(2)? || is_on(8)?,
            max_packet: row.int(3)?,
            flush: row.string(4)?,
            sync_binlog: row.string(5)?,
            buffer_pool: row.int(6)?,
            max_connections: row.int(7)?,
        })
    }

    pub(super) fn name(&self) -> String {
        let product = if self.is_mariadb() { "MariaDB" } else { "MySQL" };
        format!("{product} {}", self.version)
    }

    fn is_mariadb(&self) -> bool {
        self.version.to_lowercase().contains("mariadb")
    }

    /// Refuses a server that cannot be worked with.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let refuse = |said: String| Err(StoreError::Conflict(said.into()));
        let (needed, wording) =
            if self.is_mariadb() { ([10, 6, 0], "MariaDB 10.6") } else { ([8, 0, 16], "MySQL 8.0.16") };
        if number(&self.version) < needed {
            return refuse(format!("{} is too old: {wording} or later is needed", self.name()));
        }
        if self.is_read_only {
            return refuse(
                "the database server is read-only, as a replica is: name the primary in the URL".into(),
            );
        }
        if !self.may_create_tables {
            return refuse(
                "this user may not create tables in the database: grant it all privileges on the database"
                    .into(),
            );
        }
        if self.max_packet < PACKET_MIN {
            return refuse(format!(
                "the server takes packets of {} bytes at most: set max_allowed_packet to 16M or more",
                self.max_packet
            ));
        }
        Ok(())
    }

    /// Why it cannot be worked with, in a person's words.
    pub(super) fn refusal(&self) -> Option<Text> {
        self.check().err().map(|error| match error {
            StoreError::Conflict(said) => said,
            error => error.to_string().into(),
        })
    }

    /// Settings worth telling, with what we would change about them.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let setting = |name: &'static str, value: String, advice: Option<&'static str>| Setting {
            name: name.into(),
            value: value.into(),
            advice: advice.map(Into::into),
        };
        let flush = (self.flush != "1")
            .then_some("a crash of the machine can lose what was acknowledged: set it to 1");
        let sync = (self.sync_binlog != "1")
            .then_some("with a binary log, a crash of the machine can lose what replicas have: set it to 1");
        let pool = (self.buffer_pool < 512 << 20)
            .then_some("give it about half of the machine's memory: rows of due times lie in random order");
        let connections = (self.max_connections < 100).then_some("every node needs about ten connections");
        vec![
            setting("innodb_flush_log_at_trx_commit", self.flush.clone(), flush),
            setting("sync_binlog", self.sync_binlog.clone(), sync),
            setting("innodb_buffer_pool_size", self.buffer_pool.to_string(), pool),
            setting("max_connections", self.max_connections.to_string(), connections),
            setting("max_allowed_packet", self.max_packet.to_string(), None),
        ]
    }
}

/// Whether a user with these grants may create tables in a database. Grants that cannot be judged by their text, such as those
/// of a role, are given the benefit of the doubt: opening the database finds out.
fn may_create_tables(grants: &[String], database: &str) -> bool {
    grants.iter().any(|grant| {
        let Some((rights, place)) = grant.strip_prefix("GRANT ").and_then(|grant| grant.split_once(" ON "))
        else {
            return true;
        };
        let place = place.split(" TO ").next().unwrap_or_default().replace(['`', '\\'], "");
        let is_here = place
            .strip_suffix(".*")
            .is_some_and(|name| name == "*" || name.contains('%') || name.eq_ignore_ascii_case(database));
        is_here && rights.split(',').any(|right| matches!(right.trim(), "ALL PRIVILEGES" | "CREATE"))
    })
}

/// The first three numbers of a version. Some servers put `5.5.5-` before their own, for old clients.
fn number(version: &str) -> [u32; 3] {
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(version: &str) -> Server {
        Server {
            version: version.into(),
            now: 0,
            is_read_only: false,
            max_packet: PACKET_MIN,
            flush: "1".into(),
            sync_binlog: "1".into(),
            buffer_pool: 1 << 30,
            max_connections: 500,
            may_create_tables: true,
        }
    }

    #[test]
    fn a_user_without_the_right_to_create_tables_is_told_so() {
        let looker = Server { may_create_tables: false, ..server("8.0.36") };
        assert!(matches!(looker.check(), Err(StoreError::Conflict(said)) if said.contains("grant it all")));
        let usage = "GRANT USAGE ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*2470'";
        for (grant, may) in [
            ("GRANT SELECT ON `jobs`.* TO `u`@`%`", false),
            ("GRANT ALL PRIVILEGES ON `other`.* TO `u`@`%`", false),
            ("GRANT CREATE ON `jobs`.`one` TO `u`@`%`", false),
            ("GRANT CREATE VIEW, SELECT ON `jobs`.* TO `u`@`%`", false),
            ("GRANT SELECT, CREATE ON `jobs`.* TO `u`@`%`", true),
            ("GRANT ALL PRIVILEGES ON `Jobs`.* TO 'u'@'localhost'", true),
            ("GRANT ALL PRIVILEGES ON `jo%`.* TO `u`@`%`", true),
            ("GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION", true),
            ("GRANT `keeper`@`%` TO `u`@`%`", true),
        ] {
            assert_eq!(may_create_tables(&[usage.to_owned(), grant.to_owned()], "jobs"), may, "{grant}");
        }
    }

    #[test]
    fn servers_are_told_apart_by_their_versions() {
        for good in ["10.11.19-MariaDB-0+deb12u1", "5.5.5-10.6.0-MariaDB", "8.0.16", "8.4.3-log", "9.1.0"] {
            assert_eq!(server(good).check(), Ok(()), "{good}");
        }
        for old in ["10.5.29-MariaDB", "5.5.5-10.4.1-MariaDB", "8.0.15", "5.7.44-log"] {
            let refused = server(old).check();
            assert!(
                matches!(&refused, Err(StoreError::Conflict(said)) if said.contains("too old")),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_replica_and_small_packets_are_refused_with_advice() {
        let replica = Server { is_read_only: true, ..server("8.0.36") };
        assert!(matches!(replica.check(), Err(StoreError::Conflict(said)) if said.contains("primary")));
        let small = Server { max_packet: 4 << 20, ..server("8.0.36") };
        assert!(matches!(small.check(), Err(StoreError::Conflict(said)) if said.contains("16M")));
    }

    #[test]
    fn a_server_that_may_lose_writes_is_told_about() {
        let lax = Server { flush: "2".into(), ..server("8.0.36") };
        assert!(lax.settings()[0].advice.is_some());
        assert!(server("8.0.36").settings().iter().all(|setting| setting.advice.is_none()));
    }
}

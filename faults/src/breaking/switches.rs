//! A planned switch-over: a standby becomes the primary and takes over the address, and the old primary lives on, read-only,
//! behind every open connection.

use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_scratch::{MariaDb, Postgres, Server, until};

use crate::campaign::{Campaign, Database, blocking};
use crate::clock::pass;

/// How long a standby may take to catch up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than a lease: afterwards every lease was renewed at the new primary.
const LEASES_OVER: Duration = Duration::from_secs(8);

/// Switches over to another server, as an orchestrator does.
pub async fn switch_over(campaign: &mut Campaign) -> Result<(), String> {
    campaign.had_pauses = true;
    let kind = campaign.kind;
    let old = campaign.database.take().ok_or("there is no database")?;
    let standby = blocking(|| follow(kind, &old))?;
    campaign.note("the old primary takes no more writes");
    blocking(|| promote(kind, &old, &standby))?;
    let address = ([127, 0, 0, 1], standby.port()).into();
    for proxy in campaign.cluster.nodes.iter().filter_map(|node| node.proxy.as_ref()) {
        proxy.redirect(address);
    }
    campaign.note("the new primary has the address");
    campaign.database = Some(standby);
    // Nodes go on for a lease term without the store. Later receipts come from nodes that left the old primary.
    pass(LEASES_OVER).await;
    let went_on = campaign.received(100).await?;
    campaign.measured("work goes on after a switch-over", went_on);
    let whole = campaign.cluster.whole().await?;
    campaign.measured("whole after a switch-over", whole);
    // Kept until here, so that only a node that left the old primary by itself could go on.
    blocking(|| drop(old));
    Ok(())
}

/// Starts a synchronous standby.
fn follow(kind: Database, primary: &Server) -> Result<Server, String> {
    match kind {
        Database::Embedded => Err("one file has no standby".into()),
        Database::Postgres => {
            let standby = Postgres { fsync: true, primary: Some(primary.port()), ..Postgres::default() };
            let standby = standby.start()?;
            // From here on every acknowledged commit is on both.
            say(kind, primary, "alter system set synchronous_standby_names = '*'")?;
            say(kind, primary, "select pg_reload_conf()")?;
            comes(kind, primary, "select count(*) from pg_stat_replication where sync_state = 'sync'", "1")?;
            Ok(standby)
        }
        Database::MariaDb => {
            let number = say(kind, primary, "select @@server_id + 1")?;
            let standby = MariaDb { fsync: true, settings: logged(&number), ..MariaDb::default() }.start()?;
            let port = primary.port();
            say(kind, &standby, "set global read_only = 1")?;
            say(
                kind,
                &standby,
                &format!(
                    "change master to master_host = '127.0.0.1', master_port = {port}, master_user = 'root',
                         master_use_gtid = slave_pos;
                     start slave"
                ),
            )?;
            caught_up(primary, &standby)?;
            Ok(standby)
        }
    }
}

fn promote(kind: Database, old: &Server, standby: &Server) -> Result<(), String> {
    match kind {
        Database::Embedded => Err("one file has no standby".into()),
        Database::Postgres => {
            say(kind, old, "alter system set default_transaction_read_only = on")?;
            say(kind, old, "select pg_reload_conf()")?;
            let place = say(kind, old, "select pg_current_wal_lsn()")?;
            comes(kind, standby, &format!("select pg_last_wal_replay_lsn() >= '{place}'"), "t")?;
            say(kind, standby, "select pg_promote()")?;
            comes(kind, standby, "select pg_is_in_recovery()", "f")
        }
        Database::MariaDb => {
            say(kind, old, "set global read_only = 1")?;
            caught_up(old, standby)?;
            say(kind, standby, "stop slave; reset slave all; set global read_only = 0").map(drop)
        }
    }
}

/// Settings that replication of a MariaDB needs.
pub fn logged(number: &str) -> Vec<(String, String)> {
    let settings =
        [("server-id", number), ("log-bin", "binlog"), ("log-slave-updates", "1"), ("binlog-format", "row")];
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Waits until a MariaDB has applied what its primary has logged by now.
fn caught_up(primary: &Server, standby: &Server) -> Result<(), String> {
    let kind = Database::MariaDb;
    let place = say(kind, primary, "select @@gtid_binlog_pos")?;
    let wait = format!("select master_gtid_wait('{place}', {})", PATIENCE.as_secs());
    match say(kind, standby, &wait)?.as_str() {
        "0" => Ok(()),
        _ => Err(format!(
            "the standby does not reach {place}: {}",
            say(kind, standby, "show slave status\\G")?
        )),
    }
}

/// Waits until a query has this answer.
fn comes(kind: Database, server: &Server, question: &str, answer: &str) -> Result<(), String> {
    let is_so = || say(kind, server, question).is_ok_and(|said| said == answer);
    if until(PATIENCE, is_so) { Ok(()) } else { Err(format!("still not {answer}: {question}")) }
}

/// Executes a statement as the administrator by the server's own client, and returns its output.
pub fn say(kind: Database, server: &Server, statement: &str) -> Result<String, String> {
    let mut command = match kind {
        Database::MariaDb => {
            let mut command = Command::new("mariadb");
            command.args(["--no-defaults", "--host=127.0.0.1", "--user=root", "--skip-column-names"]);
            command.arg(format!("--port={}", server.port())).args(["--execute", statement]);
            command
        }
        _ => {
            let mut command = Command::new("psql");
            command.args(["-XAtq", "--set=ON_ERROR_STOP=1", &server.url(), "--command", statement]);
            command
        }
    };
    let said = command.stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    match said.status.success() {
        true => Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned()),
        false => Err(format!("{statement}: {}", String::from_utf8_lossy(&said.stderr))),
    }
}

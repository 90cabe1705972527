//! PgBouncer in front of a PostgreSQL, with a connection per transaction.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::server::{Server, ServerKind};

/// The settings of a PgBouncer.
#[derive(Clone, Debug)]
pub struct PgBouncer {
    /// The port of the PostgreSQL behind it.
    pub behind: u16,
    /// The limit of its connections to that PostgreSQL.
    pub connections: u16,
}

impl PgBouncer {
    /// Starts it. It accepts the users of the server behind it.
    pub fn start(self) -> Result<Server, String> {
        Server::new(self)
    }
}

impl ServerKind for PgBouncer {
    fn name(&self) -> &'static str {
        "pgbouncer"
    }

    fn account(&self) -> Option<&'static str> {
        Some("postgres")
    }

    fn prepare(&self, _: &Path, _: &dyn Fn(Command) -> Result<(), String>) -> Result<(), String> {
        Ok(())
    }

    fn command(&self, folder: &Path, port: u16) -> Result<Command, String> {
        let users = folder.join("users");
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = {}\nmax_client_conn = 1000\nignore_startup_parameters = extra_float_digits\n",
            self.behind,
            users.display(),
            self.connections,
        );
        let written = std::fs::write(folder.join("settings"), settings)
            .and_then(|()| std::fs::write(&users, "\"postgres\" \"\"\n"));
        written.map_err(|error| format!("{}: {error}", folder.display()))?;
        let program = ["/usr/sbin/pgbouncer", "pgbouncer"].into_iter().find(|path| Path::new(path).exists());
        let mut command = Command::new(program.unwrap_or("pgbouncer"));
        command.arg(folder.join("settings"));
        Ok(command)
    }

    fn is_ready(&self, port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    fn stop_signal(&self) -> Signal {
        Signal::INT
    }
}

//! PostgreSQL.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::server::{Server, ServerKind};

/// The folder with one folder per version on Debian and its relatives.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The settings of a PostgreSQL.
#[derive(Clone, Debug)]
pub struct Postgres {
    /// Whether commits survive a power cut. They survive a kill of the server either way, because the kernel lives on;
    /// without it tests do not wait for the disk.
    pub fsync: bool,
    /// The limit of connections.
    pub connections: u16,
    /// The port of its primary, for a standby.
    pub primary: Option<u16>,
    /// Further settings by name.
    pub settings: Vec<(String, String)>,
}

impl Default for Postgres {
    fn default() -> Postgres {
        Postgres { fsync: false, connections: 100, primary: None, settings: Vec::new() }
    }
}

impl Postgres {
    /// Starts it. The user `postgres` needs no password.
    pub fn start(self) -> Result<Server, String> {
        Server::new(self)
    }
}

impl ServerKind for Postgres {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn account(&self) -> Option<&'static str> {
        Some("postgres")
    }

    fn prepare(&self, folder: &Path, run: &dyn Fn(Command) -> Result<(), String>) -> Result<(), String> {
        if let Some(port) = self.primary {
            return run(copied(folder, port)?);
        }
        let mut command = program("initdb")?;
        command.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        command.arg("--pgdata").arg(folder.join("data")).current_dir(folder);
        run(command)
    }

    fn command(&self, folder: &Path, port: u16) -> Result<Command, String> {
        let mut command = program("postgres")?;
        let mut set = |name: &str, value: &str| {
            command.arg("-c").arg(format!("{name}={value}"));
        };
        set("port", &port.to_string());
        set("listen_addresses", "127.0.0.1");
        set("unix_socket_directories", "");
        set("fsync", if self.fsync { "on" } else { "off" });
        set("max_connections", &self.connections.to_string());
        // In the data folder, because a killed server would leave it behind in /dev/shm.
        set("dynamic_shared_memory_type", "mmap");
        set("log_line_prefix", "%m [%p] ");
        for (name, value) in &self.settings {
            set(name, value);
        }
        command.arg("-D").arg(folder.join("data"));
        Ok(command)
    }

    fn is_ready(&self, port: u16) -> bool {
        let Ok(mut command) = program("pg_isready") else { return false };
        command.args(["--quiet", "--host=127.0.0.1", "--port", &port.to_string()]);
        command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    fn making(&self, name: &str, port: u16) -> Option<Command> {
        let mut command = program("createdb").ok()?;
        command.args(["--host=127.0.0.1", "--username=postgres", "--port", &port.to_string(), name]);
        Some(command)
    }

    fn stop_signal(&self) -> Signal {
        // "Fast" shutdown: clients are disconnected. SIGTERM would wait for them.
        Signal::INT
    }

    fn abort_signal(&self) -> Signal {
        Signal::QUIT
    }
}

/// Copies a primary for a standby.
fn copied(folder: &Path, port: u16) -> Result<Command, String> {
    let mut command = program("pg_basebackup")?;
    command.args(["--host=127.0.0.1", "--username=postgres", "--port", &port.to_string()]);
    command.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
    command.arg("--pgdata").arg(folder.join("data")).current_dir(folder);
    Ok(command)
}

/// A program of the newest installed version.
fn program(name: &str) -> Result<Command, String> {
    let found = installed().into_iter().rev().map(|version| version.join("bin").join(name));
    let found = found.into_iter().find(|path| path.exists());
    found.map(Command::new).ok_or_else(|| format!("there is no {VERSIONS}/*/bin/{name}"))
}

/// The folders of the versions, the oldest first.
fn installed() -> Vec<PathBuf> {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.retain(|path| version(path).is_some());
    folders.sort_by_key(version);
    folders
}

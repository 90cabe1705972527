//! MariaDB.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::server::{Server, ServerKind};

/// The settings of a MariaDB.
#[derive(Clone, Debug)]
pub struct MariaDb {
    /// Whether commits survive a power cut. They survive a kill of the server either way.
    pub fsync: bool,
    /// The limit of connections.
    pub connections: u16,
    /// Further settings by name.
    pub settings: Vec<(String, String)>,
}

impl Default for MariaDb {
    fn default() -> MariaDb {
        MariaDb { fsync: false, connections: 151, settings: Vec::new() }
    }
}

impl MariaDb {
    /// Starts it. The user `root` needs no password.
    pub fn start(self) -> Result<Server, String> {
        Server::new(self)
    }
}

impl ServerKind for MariaDb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn account(&self) -> Option<&'static str> {
        Some("mysql")
    }

    fn prepare(&self, folder: &Path, run: &dyn Fn(Command) -> Result<(), String>) -> Result<(), String> {
        let mut command = Command::new("mariadb-install-db");
        command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        command.args(["--skip-name-resolve", "--innodb-flush-method=nosync"]);
        command.arg(option("datadir", folder.join("data"))).current_dir(folder);
        run(command)
    }

    fn command(&self, folder: &Path, port: u16) -> Result<Command, String> {
        // The full path, because only root has this folder in its search path.
        let program = ["/usr/sbin/mariadbd", "mariadbd"].into_iter().find(|path| Path::new(path).exists());
        let mut command = Command::new(program.unwrap_or("mariadbd"));
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"]);
        command.arg(option("datadir", folder.join("data")));
        command.arg(option("socket", folder.join("socket"))).arg(option("pid-file", folder.join("pid")));
        command.arg(format!("--port={port}")).arg(format!("--max-connections={}", self.connections));
        if !self.fsync {
            // Settings that decide about durability stay at their defaults, because nodes check them.
            command.arg("--innodb-flush-method=nosync");
        }
        for (name, value) in &self.settings {
            command.arg(format!("--{name}={value}"));
        }
        Ok(command)
    }

    fn is_ready(&self, port: u16) -> bool {
        greets(port).is_some_and(|version| version == 10)
    }

    fn url(&self, port: u16) -> String {
        format!("mysql://root@127.0.0.1:{port}/mysql")
    }

    fn making(&self, name: &str, port: u16) -> Option<Command> {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--host=127.0.0.1", "--user=root", &format!("--port={port}")]);
        command.args(["-e", &format!("create database {name}")]);
        Some(command)
    }
}

fn option(name: &str, path: impl AsRef<Path>) -> String {
    format!("--{name}={}", path.as_ref().display())
}

/// The server speaks first: a header of four bytes, then the version of the protocol, or 255 for a refusal.
fn greets(port: u16) -> Option<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).ok()?;
    Some(greeting[4])
}

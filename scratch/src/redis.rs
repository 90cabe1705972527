//! Redis without persistence: its users must be able to lose it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::server::{Server, ServerKind};

/// The settings of a Redis.
#[derive(Clone, Debug, Default)]
pub struct Redis;

impl Redis {
    /// Starts it, without authentication.
    pub fn start(self) -> Result<Server, String> {
        Server::new(self)
    }
}

impl ServerKind for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn account(&self) -> Option<&'static str> {
        None
    }

    fn prepare(&self, _: &Path, _: &dyn Fn(Command) -> Result<(), String>) -> Result<(), String> {
        Ok(())
    }

    fn command(&self, folder: &Path, port: u16) -> Result<Command, String> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]).arg("--dir").arg(folder);
        Ok(command)
    }

    fn is_ready(&self, port: u16) -> bool {
        pong(port).is_some_and(|answer| answer == *b"+PONG")
    }

    fn url(&self, port: u16) -> String {
        format!("redis://127.0.0.1:{port}")
    }
}

fn pong(port: u16) -> Option<[u8; 5]> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"PING\r\n").ok()?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

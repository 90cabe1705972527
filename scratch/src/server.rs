//! One server: started, stopped, killed, and started again on the same port and data.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::account::Account;
use crate::folder::Folder;
use crate::port::free_port;
use crate::process::Process;
use crate::waiting::until;
use crate::watchdog::Watchdog;

/// How long a server may take to be ready, including recovery after a kill, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often another port is tried if another process took the first.
const PORTS: usize = 5;

/// What differs between kinds of servers.
pub(crate) trait ServerKind: Send + Sync {
    /// Its name in folders and messages.
    fn name(&self) -> &'static str;
    /// The user it runs as if this process is root.
    fn account(&self) -> Option<&'static str>;
    /// Prepares an empty folder.
    fn prepare(&self, folder: &Path, run: &dyn Fn(Command) -> Result<(), String>) -> Result<(), String>;
    /// The command that serves a folder at a port.
    fn command(&self, folder: &Path, port: u16) -> Result<Command, String>;
    /// Whether it answers.
    fn is_ready(&self, port: u16) -> bool;
    /// Its address for clients.
    fn url(&self, port: u16) -> String;
    /// The command that creates a database of this name; none for servers without databases.
    fn making(&self, _name: &str, _port: u16) -> Option<Command> {
        None
    }
    /// The signal for a clean and fast stop, also with clients connected.
    fn stop_signal(&self) -> Signal {
        Signal::TERM
    }
    /// The signal that ends it at once and leaves no files behind.
    fn abort_signal(&self) -> Signal {
        Signal::TERM
    }
}

/// A server that runs until this is dropped.
pub struct Server {
    kind: Box<dyn ServerKind>,
    account: Option<Account>,
    port: u16,
    process: Option<Process>,
    // Dropped after the process, and before the folder that it removes as well.
    watchdog: Watchdog,
    folder: Folder,
}

impl Server {
    pub(crate) fn new(kind: impl ServerKind + 'static) -> Result<Server, String> {
        let kind: Box<dyn ServerKind> = Box::new(kind);
        let account = kind.account().map_or(Ok(None), Account::instead_of_root)?;
        let folder = Folder::new(kind.name())?;
        let watchdog = Watchdog::start(folder.path(), kind.abort_signal())?;
        if let Some(account) = account {
            account.own(folder.path())?;
        }
        kind.prepare(folder.path(), &|command| finish(command, account))?;
        let mut server = Server { kind, account, port: 0, process: None, watchdog, folder };
        server.first_start()?;
        Ok(server)
    }

    /// Its address for clients, the same after a restart.
    pub fn url(&self) -> String {
        self.kind.url(self.port)
    }

    /// Creates an empty database, and returns its address.
    pub fn database(&self, name: &str) -> Result<String, String> {
        let making = self.kind.making(name, self.port);
        finish(making.ok_or_else(|| format!("{} has no databases", self.kind.name()))?, None)?;
        let url = self.url();
        let (server, _) = url.rsplit_once('/').ok_or_else(|| format!("{url:?} names no database"))?;
        Ok(format!("{server}/{name}"))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of its process; none while it is stopped.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The path of its log.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Stops it cleanly, and waits for its end.
    pub fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop(self.kind.stop_signal(), PATIENCE);
        }
        self.watchdog.tell(0);
    }

    /// Kills it and all its children at once, like a power cut.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
        self.watchdog.tell(0);
    }

    /// Starts it on its existing data, and waits until it answers.
    pub fn start(&mut self) -> Result<(), String> {
        if self.process.is_some() {
            return Ok(());
        }
        self.spawn()?;
        let process = self.process.as_ref().expect("it was just started");
        let name = self.kind.name();
        let has_decided = || process.ended().is_some() || self.kind.is_ready(self.port);
        match until(PATIENCE, has_decided) {
            true if process.ended().is_none() => Ok(()),
            true => Err(format!("{name} ended at its start: {}", self.last_words())),
            false => Err(format!("{name} is not ready after {PATIENCE:?}: {}", self.last_words())),
        }
    }

    /// Stops it cleanly, and starts it again.
    pub fn restart(&mut self) -> Result<(), String> {
        self.stop();
        self.start()
    }

    /// Stops it and all its children without ending them: a server that hangs, with every connection open.
    pub fn freeze(&self) {
        if let Some(process) = &self.process {
            process.freeze();
        }
    }

    /// Resumes a frozen server.
    pub fn thaw(&self) {
        if let Some(process) = &self.process {
            process.thaw();
        }
    }

    /// Sends a signal to its process only, such as SIGSTOP and SIGCONT for a server that hangs.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    fn first_start(&mut self) -> Result<(), String> {
        let mut outcome = Ok(());
        for _ in 0..PORTS {
            self.port = free_port();
            outcome = self.start();
            if outcome.is_ok() {
                break;
            }
            self.kill();
        }
        outcome
    }

    fn spawn(&mut self) -> Result<(), String> {
        let mut command = self.kind.command(self.folder.path(), self.port)?;
        let log = OpenOptions::new().create(true).append(true).open(self.log());
        let log = log.map_err(|error| format!("{}: {error}", self.log().display()))?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors).current_dir(self.folder.path());
        if let Some(account) = self.account {
            account.run(&mut command);
        }
        let process = Process::start(&mut command)?;
        self.watchdog.tell(process.id());
        self.process = Some(process);
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = std::fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(Signal::CONT);
            process.stop(self.kind.abort_signal(), Duration::from_secs(10));
        }
        self.watchdog.tell(0);
    }
}

/// Runs a command to its end, under the server's account.
fn finish(mut command: Command, account: Option<Account>) -> Result<(), String> {
    if let Some(account) = account {
        account.run(&mut command);
    }
    let said = command.stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    match said.status.success() {
        true => Ok(()),
        false => Err(format!("{:?}: {}", command.get_program(), String::from_utf8_lossy(&said.stderr))),
    }
}

//! One node: the real binary as a process, with its log, its folder, its clock, and its own connection to the database.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use punctual_scratch::{Folder, Process, Signal, Watchdog, free_port};

use crate::proxy::Proxy;

/// The token of the first administrator, on all nodes.
pub const TOKEN: &str = "faults-are-found-by-looking-for-them";

/// How long a node may take to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// The lines of its log that are reported if it ended by itself.
const LAST_WORDS: usize = 3;

/// The folder of the library that moves clocks, on Debian and its relatives; below it, one for each architecture.
const LIBRARIES: &str = "/usr/lib";
const CLOCK_LIBRARY: &str = "faketime/libfaketime.so.1";

/// The settings of all nodes of a cluster.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The binary.
    pub binary: PathBuf,
    /// The address of the Redis, if there is one.
    pub redis: Option<String>,
    /// Whether clocks can be moved.
    pub has_movable_clock: bool,
    /// The folder for logs.
    pub logs: PathBuf,
}

/// A node that is running or stopped.
pub struct NodeProcess {
    launch: Launch,
    name: String,
    port: u16,
    /// The database as this node reaches it; none for the embedded store.
    database: Option<String>,
    /// The proxy between the node and the database.
    pub proxy: Option<Proxy>,
    process: Option<Process>,
    is_paused: bool,
    watchdog: Watchdog,
    folder: Folder,
}

impl NodeProcess {
    /// A node that is not started.
    pub fn new(
        launch: &Launch,
        name: &str,
        database: Option<String>,
        proxy: Option<Proxy>,
    ) -> Result<NodeProcess, String> {
        let folder = Folder::new("node")?;
        let watchdog = Watchdog::start(folder.path(), Signal::KILL)?;
        let (launch, name, port) = (launch.clone(), name.to_owned(), free_port());
        let node = NodeProcess {
            launch,
            name,
            port,
            database,
            proxy,
            process: None,
            is_paused: false,
            watchdog,
            folder,
        };
        node.move_clock(0)?;
        Ok(node)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address that it listens on.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Whether it should answer.
    pub fn is_up(&self) -> bool {
        self.process.is_some() && !self.is_paused
    }

    /// Starts it with its existing data. It is not ready yet when this returns.
    pub fn start(&mut self) -> Result<(), String> {
        if self.process.is_some() {
            return Ok(());
        }
        let mut command = self.command()?;
        let process = Process::start(&mut command)?;
        self.watchdog.tell(process.id());
        (self.process, self.is_paused) = (Some(process), false);
        Ok(())
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
        self.watchdog.tell(0);
    }

    /// Sends SIGTERM. The process may run until [`NodeProcess::stopped`] returns.
    pub fn ask_to_stop(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::TERM);
        }
    }

    /// Waits until it has stopped, and returns its exit status; an error if it had to be killed.
    pub fn stopped(&mut self) -> Result<ExitStatus, String> {
        let process = self.process.take().ok_or_else(|| format!("{} does not run", self.name))?;
        let ended = process.stop(Signal::TERM, STOPS_WITHIN);
        self.watchdog.tell(0);
        ended.ok_or_else(|| format!("{} did not stop within {STOPS_WITHIN:?}", self.name))
    }

    /// Pauses the process.
    pub fn pause(&mut self) {
        self.is_paused = true;
        self.signal(Signal::STOP);
    }

    /// Resumes the process.
    pub fn resume(&mut self) {
        self.is_paused = false;
        self.signal(Signal::CONT);
    }

    /// Moves its clock by this many seconds from the machine's, while it runs.
    pub fn move_clock(&self, seconds: i64) -> Result<(), String> {
        let path = self.clock_file();
        // Renamed into place, because it can be read at any moment.
        let new = path.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n"))
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Its exit status, if it ended by itself.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.process.as_ref().and_then(Process::ended)
    }

    /// The path of its log.
    pub fn log(&self) -> PathBuf {
        self.launch.logs.join(format!("{}.log", self.name))
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        let log = std::fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().rev().take(LAST_WORDS).collect();
        lines.into_iter().rev().collect::<Vec<&str>>().join(" / ")
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    fn clock_file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    fn command(&self) -> Result<Command, String> {
        let log = OpenOptions::new().create(true).append(true).open(self.log());
        let log = log.map_err(|error| format!("{}: {error}", self.log().display()))?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.launch.binary);
        without_ours(&mut command);
        command.args(["serve", "--listen", &self.address(), "--node", &self.name]);
        command.args(["--advertise", &format!("http://{}", self.address())]);
        command.arg("--data").arg(self.folder.path().join("data"));
        if let Some(database) = &self.database {
            command.args(["--database", database]);
        }
        if let Some(redis) = &self.launch.redis {
            command.args(["--redis", redis]);
        }
        command.env("PUNCTUAL_ADMIN_TOKEN", TOKEN);
        if self.launch.has_movable_clock {
            self.fake_clock(&mut command)?;
        }
        command.stdin(Stdio::null()).stdout(log).stderr(errors).current_dir(self.folder.path());
        Ok(command)
    }

    /// Fakes the wall clock from a file; the monotonic clock stays real.
    fn fake_clock(&self, command: &mut Command) -> Result<(), String> {
        let library = clock_library().ok_or_else(|| format!("there is no {LIBRARIES}/*/{CLOCK_LIBRARY}"))?;
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", self.clock_file());
        command.env("FAKETIME_CACHE_DURATION", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.env("NO_FAKE_STAT", "1");
        Ok(())
    }
}

/// Removes this process's own `PUNCTUAL_` variables from a node's environment.
fn without_ours(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PUNCTUAL_") {
            command.env_remove(name);
        }
    }
}

fn clock_library() -> Option<PathBuf> {
    let folders = std::fs::read_dir(Path::new(LIBRARIES)).ok()?.flatten();
    folders.map(|folder| folder.path().join(CLOCK_LIBRARY)).find(|path| path.exists())
}

//! One node: the real binary as a process, with its log, its folder, its clock, and its own way to the database.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use punctual_scratch::{Folder, Process, Signal, Watchdog, free_port};

use crate::proxy::Proxy;

/// The token of the first administrator, on all nodes.
pub const TOKEN: &str = "faults-are-found-by-looking-for-them";

/// How long a node may take to stop when it is asked to.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// How many lines of its log are told when it ended by itself.
const LAST_WORDS: usize = 3;

/// Where Debian and its relatives keep the library that moves clocks, below the folder of the architecture.
const LIBRARIES: &str = "/usr/lib";
const CLOCK_LIBRARY: &str = "faketime/libfaketime.so.1";

/// What all nodes of a cluster are started with.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The binary.
    pub binary: PathBuf,
    /// The address of the Redis, if there is one.
    pub redis: Option<String>,
    /// Whether clocks can be moved.
    pub has_movable_clock: bool,
    /// Where logs go.
    pub logs: PathBuf,
}

/// A node that is running, or could be.
pub struct Node {
    launch: Launch,
    name: String,
    port: u16,
    /// The database as this node reaches it; none for the embedded store.
    database: Option<String>,
    /// What stands between the node and the database.
    pub proxy: Option<Proxy>,
    process: Option<Process>,
    is_paused: bool,
    watchdog: Watchdog,
    folder: Folder,
}

impl Node {
    /// One that is not started.
    pub fn new(
        launch: &Launch,
        name: &str,
        database: Option<String>,
        proxy: Option<Proxy>,
    ) -> Result<Node, String> {
        let folder = Folder::new("node")?;
        let watchdog = Watchdog::start(folder.path(), Signal::KILL)?;
        let (launch, name, port) = (launch.clone(), name.to_owned(), free_port());
        let node =
            Node { launch, name, port, database, proxy, process: None, is_paused: false, watchdog, folder };
        node.move_clock(0)?;
        Ok(node)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Is it to be expected that it answers?
    pub fn is_up(&self) -> bool {
        self.process.is_some() && !self.is_paused
    }

    /// Starts it on what it had. It is not ready yet.
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

    /// Pulls its plug.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
        self.watchdog.tell(0);
    }

    /// Asks it to stop. It is still there until [`Node::stopped`].
    pub fn ask_to_stop(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::TERM);
        }
    }

    /// Waits until it has stopped, and says how it ended; an error if it had to be killed.
    pub fn stopped(&mut self) -> Result<ExitStatus, String> {
        let process = self.process.take().ok_or_else(|| format!("{} does not run", self.name))?;
        let ended = process.stop(Signal::TERM, STOPS_WITHIN);
        self.watchdog.tell(0);
        ended.ok_or_else(|| format!("{} did not stop within {STOPS_WITHIN:?}", self.name))
    }

    /// Holds it in the middle of whatever it does.
    pub fn pause(&mut self) {
        self.is_paused = true;
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&mut self) {
        self.is_paused = false;
        self.signal(Signal::CONT);
    }

    /// Moves its clock so many seconds away from the machine's, while it runs.
    pub fn move_clock(&self, seconds: i64) -> Result<(), String> {
        let path = self.clock_file();
        // Renamed into its place, because it is read at any moment.
        let new = path.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n"))
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// How it ended by itself, if it did.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.process.as_ref().and_then(Process::ended)
    }

    /// Where its log is.
    pub fn log(&self) -> PathBuf {
        self.launch.logs.join(format!("{}.log", self.name))
    }

    /// The last that it said.
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

    /// The clock on the wall is read from a file, the one that counts on is left alone.
    fn fake_clock(&self, command: &mut Command) -> Result<(), String> {
        let library = clock_library().ok_or_else(|| format!("there is no {LIBRARIES}/*/{CLOCK_LIBRARY}"))?;
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", self.clock_file());
        command.env("FAKETIME_CACHE_DURATION", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.env("NO_FAKE_STAT", "1");
        Ok(())
    }
}

/// Nothing that was meant for us reaches a node.
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

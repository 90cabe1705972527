//! `punctual demo`: a node in a temporary folder that is removed at the end, with jobs, simulated executors, runs
//! that are to come, and a day of history that the node really lived through, on a fast clock, before the demo is
//! shown.

mod crew;
mod jobs;
mod past;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_node::ports::Entropy;
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};
use toml::Value;

use crate::clock::{self, Machine};
use crate::config::{self, Config};
use crate::logs::LineBudget;
use crate::serve;

/// The options of a demo.
pub(crate) struct Wish {
    /// Where to listen; any free port by default.
    pub(crate) listen: Option<String>,
    /// How many hours of history it begins with.
    pub(crate) hours: u32,
}

/// Serves a demo until a signal says stop.
pub(crate) fn run(wish: &Wish, lines: LineBudget) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    // Before the folder exists, so that a demo that is stopped early removes it too.
    let mut stop = runtime.block_on(async { Stop::new() })?;
    let folder = Folder::new()?;
    let listen = match &wish.listen {
        Some(address) => address.clone(),
        None => free_address()?.to_string(),
    };
    let config = configured(&listen, &folder.0)?;
    let until = clock::now();
    let from = until.as_millis() - i64::from(wish.hours) * 3_600_000;
    tell(&format!("living through the last {} hours on a fast clock …", wish.hours));
    let past = past::live_through(&config, calendar::Timestamp::from_millis(from), until);
    let told = runtime.block_on(async {
        tokio::select! {
            told = past => Some(told),
            () = stop.said() => None,
        }
    });
    let Some(told) = told.transpose()? else {
        runtime.shutdown_timeout(Duration::from_secs(1));
        return Ok(());
    };
    let runs: usize = told.iter().map(|(_, events)| events.len()).sum();
    tell(&format!("… {runs} things happened; stop it with Ctrl-C, and nothing of it is left"));
    let crew = crew::Crew::start(&runtime, &format!("http://{listen}"));
    runtime.spawn(stop.repeat());
    let served = serve::run_after(config, lines, told);
    crew.stop(&runtime);
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

/// The signals that end a demo.
struct Stop {
    terminate: UnixSignal,
    interrupt: UnixSignal,
}

impl Stop {
    fn new() -> Result<Stop, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        Ok(Stop { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn said(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Repeats the signal until the process ends: the node may not have listened for it yet when it first came.
    async fn repeat(mut self) {
        self.said().await;
        loop {
            clock::sleep(Duration::from_secs(1)).await;
            let _ = kill_process(getpid(), Signal::TERM);
        }
    }
}

fn configured(listen: &str, folder: &Path) -> Result<Config, String> {
    let flags = vec![
        ("server", "listen", Value::String(listen.to_owned())),
        ("server", "data", Value::String(folder.display().to_string())),
        ("server", "node", Value::String("demo".into())),
    ];
    Ok(config::read(None, &BTreeMap::new(), &flags).map_err(|error| error.to_string())?.config)
}

/// A port that is free at the moment.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| format!("cannot find a free port: {error}; name one with --listen"))
}

#[expect(clippy::print_stderr, reason = "it talks to whoever started it")]
fn tell(text: &str) {
    eprintln!("{text}");
}

/// A folder that is removed when the value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("punctual-demo-{:016x}", Machine.bits()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

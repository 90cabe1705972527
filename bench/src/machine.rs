//! The machine of a measurement, and the memory and CPU that processes use.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// What has to be known about a machine to read a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The model of the processor.
    pub cpu: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// The kernel's version.
    pub kernel: String,
    /// The file system of the databases, if it can be found.
    pub disk: String,
    /// The compiler.
    pub rustc: String,
    /// The commit that was measured.
    pub commit: String,
    /// Whether this program was compiled with assertions, which makes the figures meaningless.
    pub has_assertions: bool,
}

impl Machine {
    /// This machine, with databases in `dir`.
    pub fn describe(dir: &Path) -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: model.map_or("unknown", |(_, model)| model).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            disk: file_system(dir).unwrap_or_else(|| "unknown".to_owned()),
            rustc: said("rustc", &["--version"], dir),
            commit: said("git", &["describe", "--always", "--dirty"], Path::new(env!("CARGO_MANIFEST_DIR"))),
            has_assertions: cfg!(debug_assertions),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, kernel, disk, rustc, commit, .. } = self;
        write!(f, "{cpu}, {cores} cores, kernel {kernel}, databases on {disk}\n{rustc}, commit {commit}")?;
        if self.has_assertions {
            write!(f, "\ncompiled with assertions: these are no measurements")?;
        }
        Ok(())
    }
}

/// Resident memory of this process in bytes.
pub fn resident_bytes() -> u64 {
    status("self", "VmRSS:")
}

/// The same of another process.
pub fn resident_bytes_of(process: u32) -> u64 {
    status(&process.to_string(), "VmRSS:")
}

/// The greatest resident memory of this process so far.
pub fn resident_bytes_max() -> u64 {
    status("self", "VmHWM:")
}

/// CPU seconds of all threads of this process.
pub fn cpu_seconds() -> f64 {
    cpu("self")
}

/// The same of another process.
pub fn cpu_seconds_of(process: u32) -> f64 {
    cpu(&process.to_string())
}

/// The same of another process and all its children, ended ones included.
pub fn cpu_seconds_of_all(process: u32) -> f64 {
    let children = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let child: u32 = entry.file_name().to_str()?.parse().ok()?;
        (stat(&child.to_string(), 1)? as u32 == process).then(|| cpu_seconds_of(child))
    });
    let ended = [13, 14].map(|field| stat(&process.to_string(), field).unwrap_or(0.0) / TICKS);
    cpu_seconds_of(process) + ended.iter().sum::<f64>() + children.sum::<f64>()
}

fn cpu(process: &str) -> f64 {
    [11, 12].iter().map(|field| stat(process, *field).unwrap_or(0.0) / TICKS).sum()
}

/// The kernel's ticks a second in `/proc`; the same on every machine.
const TICKS: f64 = 100.0;

/// A field of `/proc/PID/stat`, counted from behind the program's name.
fn stat(process: &str, field: usize) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program is in brackets and may contain any character.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(field)?.parse().ok()
}

fn status(process: &str, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1_024
}

/// The kind of file system that holds a folder: the longest mount point that its path begins with.
fn file_system(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let of_line = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        dir.starts_with(point).then(|| (point.len(), kind.to_owned()))
    };
    mounts.lines().filter_map(of_line).max().map(|(_, kind)| kind)
}

fn said(program: &str, arguments: &[&str], dir: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(dir).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let text = text.and_then(|text| String::from_utf8(text).ok());
    text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}

//! The executors that there are, and how each is started.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{self, Package};

/// An executor library that somebody published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// pyxxl 0.4.8.
    Pyxxl,
    /// pyxxl 0.3.0.
    PyxxlOld,
    /// The npm package xxl-job 0.1.7.
    XxlJob,
    /// The npm package @dalongrong/xxl-job-executor 0.0.1.
    XxlJobExecutor,
    /// XXL-JOB's own, xxl-job-core 2.5.0 unless a test names another release.
    Java,
}

use Kind::{Java, Pyxxl, PyxxlOld, XxlJob, XxlJobExecutor};

pub(super) const KINDS: [Kind; 5] = [Pyxxl, PyxxlOld, XxlJob, XxlJobExecutor, Java];

impl Kind {
    /// Its name, and that of the app that it is for unless a test has another.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pyxxl => "pyxxl",
            PyxxlOld => "pyxxl-old",
            XxlJob => "xxl-job",
            XxlJobExecutor => "xxl-job-executor",
            Java => "java",
        }
    }

    /// What it puts behind host and port when it registers.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Pyxxl | PyxxlOld => "",
            XxlJob | XxlJobExecutor => "/job",
            Java => "/",
        }
    }

    /// Its package; XXL-JOB's own has one for every release.
    fn package(self) -> Package {
        match self {
            Pyxxl => Package::Pyxxl,
            PyxxlOld => Package::PyxxlOld,
            XxlJob => Package::XxlJob,
            XxlJobExecutor => Package::XxlJobExecutor,
            Java => Release::Usual.package(),
        }
    }

    /// The command that starts it, installed in a folder of its own on the first call.
    pub(super) fn command(self) -> Command {
        if self == Java {
            return Release::Usual.command();
        }
        let folder = packages::folder(self.package());
        match self {
            Pyxxl | PyxxlOld => {
                let mut command = Command::new(folder.join("bin/python"));
                command.arg(programs().join("pyxxl/app.py"));
                command
            }
            XxlJob | XxlJobExecutor | Java => {
                let mut command = Command::new("node");
                command.arg(programs().join(self.name()).join("app.js"));
                command.env("NODE_PATH", folder.join("node_modules"));
                command
            }
        }
    }
}

/// A release of XXL-JOB's own executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// 2.4.2, which many still have.
    Old,
    /// 2.5.0, the last of the second generation.
    Usual,
    /// 3.3.2, the newest that there is.
    New,
}

impl Release {
    fn package(self) -> Package {
        match self {
            Release::Old => Package::JavaOld,
            Release::Usual => Package::Java,
            Release::New => Package::JavaNew,
        }
    }

    /// The command that starts it, installed in a folder of its own on the first call.
    pub(super) fn command(self) -> Command {
        let folder = packages::folder(self.package());
        let mut command = Command::new("java");
        // Many of them start at once, and none lives long.
        command.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
        command.arg(format!("{0}:{0}/*", folder.display())).arg("App");
        command
    }
}

/// The programs made with the libraries.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/executors")
}

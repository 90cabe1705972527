//! The executors that there are, and how each is installed and started.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

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

    /// What makes another installation necessary when it changes.
    fn wants(self) -> &'static str {
        match self {
            Pyxxl => include_str!("../../executors/pyxxl/requirements-new.txt"),
            PyxxlOld => include_str!("../../executors/pyxxl/requirements-old.txt"),
            XxlJob => include_str!("../../executors/xxl-job/package-lock.json"),
            XxlJobExecutor => include_str!("../../executors/xxl-job-executor/package-lock.json"),
            Java => JAVA,
        }
    }

    /// The command that starts it, installed in a folder of its own on the first call.
    pub(super) fn command(self) -> Command {
        static INSTALLED: [OnceLock<PathBuf>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];
        if self == Java {
            return Release::Usual.command();
        }
        let folder = INSTALLED[self as usize].get_or_init(|| self.install());
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

    fn install(self) -> PathBuf {
        installed(self.name(), self.wants(), |folder| match self {
            Pyxxl | PyxxlOld => self.install_python(folder),
            XxlJob | XxlJobExecutor | Java => self.install_node(folder),
        })
    }

    fn install_python(self, folder: &Path) {
        let wanted = folder.join("requirements.txt");
        std::fs::write(&wanted, self.wants()).expect("a file");
        succeed(Command::new("python3").args(["-m", "venv"]).arg(folder));
        let mut pip = Command::new(folder.join("bin/pip"));
        succeed(pip.args(["install", "--quiet", "--disable-pip-version-check", "-r"]).arg(wanted));
    }

    fn install_node(self, folder: &Path) {
        for file in ["package.json", "package-lock.json"] {
            let from = programs().join(self.name()).join(file);
            std::fs::copy(from, folder.join(file)).expect("a copy");
        }
        let quiet = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
        succeed(Command::new("npm").args(quiet).current_dir(folder));
    }
}

/// What makes another installation of all releases necessary when it changes.
const JAVA: &str = concat!(
    include_str!("../../executors/java/pom.xml"),
    include_str!("../../executors/java/App.java"),
    include_str!("../../executors/java/until-3.2/Version.java"),
    include_str!("../../executors/java/from-3.3/Version.java"),
);

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
    fn version(self) -> &'static str {
        match self {
            Release::Old => "2.4.2",
            Release::Usual => "2.5.0",
            Release::New => "3.3.2",
        }
    }

    /// The folder with the names that this release has for things.
    fn names(self) -> &'static str {
        match self {
            Release::Old | Release::Usual => "until-3.2",
            Release::New => "from-3.3",
        }
    }

    /// The command that starts it, installed in a folder of its own on the first call.
    pub(super) fn command(self) -> Command {
        static INSTALLED: [OnceLock<PathBuf>; 3] = [const { OnceLock::new() }; 3];
        // One at a time: Maven's own folder is not made for more.
        static MAVEN: Mutex<()> = Mutex::new(());
        let folder = INSTALLED[self as usize].get_or_init(|| {
            let _alone = MAVEN.lock().expect("no panic");
            installed(&format!("java-{}", self.version()), JAVA, |folder| self.install(folder))
        });
        let mut command = Command::new("java");
        // Many of them start at once, and none lives long.
        command.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
        command.arg(format!("{0}:{0}/*", folder.display())).arg("App");
        command
    }

    fn install(self, folder: &Path) {
        install_java(folder, self.version(), self.names());
    }
}

/// A folder of this name in which everything is that is wanted; where it is not, it is installed anew.
fn installed(name: &str, wants: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("executors").join(name);
    let mark = folder.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|mark| mark == wants) {
        return folder;
    }
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    install(&folder);
    // Only now: what was interrupted is done again.
    std::fs::write(mark, wants).expect("a mark");
    folder
}

fn install_java(folder: &Path, version: &str, names: &str) {
    let is_there = |program: &str| {
        Command::new(program).arg("-version").output().is_ok_and(|output| output.status.success())
    };
    let wanted = "XXL-JOB's own executor needs a JDK and Maven: apt-get install default-jdk-headless maven";
    assert!(is_there("javac") && is_there("mvn"), "{wanted}");
    let java = programs().join("java");
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-f"]).arg(java.join("pom.xml"));
    maven.arg(format!("-Dxxl={version}"));
    succeed(maven.arg(format!("-DoutputDirectory={}", folder.display())));
    let libraries = format!("{}/*", folder.display());
    let sources = [java.join("App.java"), java.join(names).join("Version.java")];
    succeed(Command::new("javac").args(["-cp", &libraries, "-d"]).arg(folder).args(sources));
}

/// The programs made with the libraries.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/executors")
}

/// Does it, or says what was said.
fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", said(&output.stdout), said(&output.stderr));
}

//! The packages that tests take from PyPI, the npm registry and Maven Central, and how each is installed.
//!
//! This file is also a part of `cargo xtask test`, which installs all of them before it compiles anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A package in a folder of its own, with everything that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Package {
    /// The tool that derives requests from the OpenAPI document.
    Schemathesis,
    /// pyxxl 0.4.8.
    Pyxxl,
    /// pyxxl 0.3.0.
    PyxxlOld,
    /// The npm package xxl-job 0.1.7.
    XxlJob,
    /// The npm package @dalongrong/xxl-job-executor 0.0.1.
    XxlJobExecutor,
    /// XXL-JOB's own executor, 2.4.2, which many still have.
    JavaOld,
    /// XXL-JOB's own executor, 2.5.0, the last of the second generation.
    Java,
    /// XXL-JOB's own executor, 3.3.2, the newest that there is.
    JavaNew,
    /// What our client in Python needs and is built with; the client itself is not in it.
    PythonClient,
}

use Package::{Java, JavaNew, JavaOld, PythonClient, Pyxxl, PyxxlOld, Schemathesis, XxlJob, XxlJobExecutor};

pub(crate) const ALL: [Package; 9] =
    [Schemathesis, Pyxxl, PyxxlOld, PythonClient, XxlJob, XxlJobExecutor, JavaOld, Java, JavaNew];

/// The registries, as people call them.
pub(crate) const PYPI: &str = "PyPI";
pub(crate) const NPM: &str = "the npm registry";
pub(crate) const MAVEN: &str = "Maven Central";

/// The file that says what was installed beside it.
const MARK: &str = "installed";

const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The manifest of our client in Python.
const CLIENT: &str = include_str!("../../../../../clients/python/pyproject.toml");

/// What all releases of XXL-JOB's own executor are made of.
const JAVA: &str = concat!(
    include_str!("../../executors/java/pom.xml"),
    include_str!("../../executors/java/App.java"),
    include_str!("../../executors/java/until-3.2/Version.java"),
    include_str!("../../executors/java/from-3.3/Version.java"),
);

/// Why a package is not there, with the output of the program that failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Its registry did not deliver it.
    Fetch(String),
    /// It was fetched, and making something of it failed.
    Make(String),
}

impl Package {
    /// Its folder among the packages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Schemathesis => "schemathesis",
            Pyxxl => "pyxxl",
            PyxxlOld => "pyxxl-old",
            XxlJob => "xxl-job",
            XxlJobExecutor => "xxl-job-executor",
            JavaOld => "java-2.4.2",
            Java => "java-2.5.0",
            JavaNew => "java-3.3.2",
            PythonClient => "python-client",
        }
    }

    /// Its name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Schemathesis => "schemathesis",
            Pyxxl => "pyxxl 0.4.8",
            PyxxlOld => "pyxxl 0.3.0",
            XxlJob => "xxl-job 0.1.7",
            XxlJobExecutor => "@dalongrong/xxl-job-executor 0.0.1",
            JavaOld => "xxl-job-core 2.4.2",
            Java => "xxl-job-core 2.5.0",
            JavaNew => "xxl-job-core 3.3.2",
            PythonClient => "the dependencies of clients/python",
        }
    }

    pub(crate) fn registry(self) -> &'static str {
        match self {
            Schemathesis | Pyxxl | PyxxlOld | PythonClient => PYPI,
            XxlJob | XxlJobExecutor => NPM,
            JavaOld | Java | JavaNew => MAVEN,
        }
    }

    /// A change of this text makes another installation necessary.
    fn wants(self) -> &'static str {
        match self {
            Schemathesis => SCHEMATHESIS,
            Pyxxl => include_str!("../../executors/pyxxl/requirements-new.txt"),
            PyxxlOld => include_str!("../../executors/pyxxl/requirements-old.txt"),
            XxlJob => include_str!("../../executors/xxl-job/package-lock.json"),
            XxlJobExecutor => include_str!("../../executors/xxl-job-executor/package-lock.json"),
            JavaOld | Java | JavaNew => JAVA,
            PythonClient => CLIENT,
        }
    }

    /// Whether it is in its folder among `packages`, as it is wanted now.
    pub(crate) fn is_installed(self, packages: &Path) -> bool {
        let mark = packages.join(self.name()).join(MARK);
        std::fs::read_to_string(mark).is_ok_and(|mark| mark == self.wants())
    }

    /// Installs it into its folder among `packages`, unless it is there. `programs` is the folder of the programs made
    /// with the executors of others.
    pub(crate) fn install(self, programs: &Path, packages: &Path) -> Result<PathBuf, Failure> {
        let folder = packages.join(self.name());
        if self.is_installed(packages) {
            return Ok(folder);
        }
        let of_files = |error: std::io::Error| Failure::Make(format!("{}: {error}", folder.display()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(of_files)?;
        }
        std::fs::create_dir_all(&folder).map_err(of_files)?;
        match self {
            Schemathesis => python(&folder, &[SCHEMATHESIS])?,
            Pyxxl | PyxxlOld => {
                let wanted = folder.join("requirements.txt");
                std::fs::write(&wanted, self.wants()).map_err(of_files)?;
                python(&folder, &["-r", &wanted.display().to_string()])?;
            }
            PythonClient => {
                let wanted = [quoted(CLIENT, "requires = "), quoted(CLIENT, "dependencies = ")].concat();
                python(&folder, &wanted)?;
            }
            XxlJob | XxlJobExecutor => {
                for file in ["package.json", "package-lock.json"] {
                    let from = programs.join(self.name()).join(file);
                    std::fs::copy(from, folder.join(file)).map_err(of_files)?;
                }
                let quiet = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
                succeed(Command::new("npm").args(quiet).current_dir(&folder)).map_err(Failure::Fetch)?;
            }
            JavaOld => java(&folder, programs, "2.4.2", "until-3.2")?,
            Java => java(&folder, programs, "2.5.0", "until-3.2")?,
            JavaNew => java(&folder, programs, "3.3.2", "from-3.3")?,
        }
        // Only now: an installation that was interrupted starts again.
        std::fs::write(folder.join(MARK), self.wants()).map_err(of_files)?;
        Ok(folder)
    }
}

/// A virtual environment in `folder` that has these.
fn python(folder: &Path, wanted: &[&str]) -> Result<(), Failure> {
    succeed(Command::new("python3").args(["-m", "venv"]).arg(folder)).map_err(Failure::Make)?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(wanted);
    succeed(&mut pip).map_err(Failure::Fetch)
}

/// The libraries of a release, and the program made with it. `names` is the folder with the names that the release has
/// for things.
fn java(folder: &Path, programs: &Path, version: &str, names: &str) -> Result<(), Failure> {
    let is_there = |program: &str| {
        Command::new(program).arg("-version").output().is_ok_and(|output| output.status.success())
    };
    if !is_there("javac") || !is_there("mvn") {
        let line = "apt-get install default-jdk-headless maven";
        return Err(Failure::Make(format!("XXL-JOB's own executor needs a JDK and Maven: {line}")));
    }
    let java = programs.join("java");
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-f"]).arg(java.join("pom.xml"));
    maven.arg(format!("-Dxxl={version}")).arg(format!("-DoutputDirectory={}", folder.display()));
    succeed(&mut maven).map_err(Failure::Fetch)?;
    let libraries = format!("{}/*", folder.display());
    let sources = [java.join("App.java"), java.join(names).join("Version.java")];
    let mut compiler = Command::new("javac");
    compiler.args(["-cp", &libraries, "-d"]).arg(folder).args(sources);
    succeed(&mut compiler).map_err(Failure::Make)
}

/// The strings of a list that has one line of a TOML file.
fn quoted<'a>(toml: &'a str, before: &str) -> Vec<&'a str> {
    let line = toml.lines().find_map(|line| line.strip_prefix(before)).unwrap_or_default();
    line.split('"').skip(1).step_by(2).collect()
}

/// Runs it; fails with the command and its output.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}\n{}\n{}", said(&output.stdout), said(&output.stderr))),
    }
}

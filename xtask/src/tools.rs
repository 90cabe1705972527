//! What the tests start beside our own programs. As root, or where `sudo` asks nothing, what is missing is installed;
//! otherwise the one line that installs it is said, before anything is built.

use std::process::{Command, Stdio};

/// A program that has to be there: how it shows that it is, and the package that brings it.
const TOOLS: &[(&str, &[&str], &str)] = &[
    ("python3", &["-c", "import ensurepip, venv"], "python3-venv"),
    ("node", &["--version"], "nodejs"),
    ("npm", &["--version"], "npm"),
    ("javac", &["-version"], "default-jdk-headless"),
    ("mvn", &["-version"], "maven"),
    ("openssl", &["version"], "openssl"),
];

/// Makes sure that every tool is there.
pub(crate) fn ensure() -> Result<(), String> {
    let missing = missing(works);
    if missing.is_empty() {
        return Ok(());
    }
    let line = install_line(&missing);
    let sudo: &[&str] = if works("sudo", &["-n", "true"]) { &["sudo", "-n"] } else { &[] };
    eprintln!("missing: {}; installing with `{line}`", missing.join(", "));
    let installed = ["update -q", &format!("install -q -y --no-install-recommends {}", missing.join(" "))]
        .iter()
        .all(|step| apt(sudo, step));
    match installed && self::missing(works).is_empty() {
        true => Ok(()),
        false => Err(format!("the tests need what `{line}` installs")),
    }
}

fn missing(works: impl Fn(&str, &[&str]) -> bool) -> Vec<&'static str> {
    TOOLS
        .iter()
        .filter(|(program, proof, _)| !works(program, proof))
        .map(|(_, _, package)| *package)
        .collect()
}

fn install_line(packages: &[&str]) -> String {
    format!("apt-get install --no-install-recommends {}", packages.join(" "))
}

fn works(program: &str, proof: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(proof).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn apt(sudo: &[&str], step: &str) -> bool {
    let mut words = sudo.iter().copied().chain(["apt-get"]).chain(step.split(' '));
    let Some(program) = words.next() else { return false };
    let mut command = Command::new(program);
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_work_is_named_by_its_package() {
        let missing = missing(|program, _| program != "mvn" && program != "python3");
        assert_eq!(missing, ["python3-venv", "maven"]);
        assert_eq!(install_line(&missing), "apt-get install --no-install-recommends python3-venv maven");
    }
}

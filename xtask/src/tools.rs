//! The programs that tests need. As root, or if `sudo` needs no password, missing ones are installed; otherwise the one
//! line that installs them is printed, before anything is built.

use std::process::{Command, Stdio};

use crate::servers::TestServer;

/// A required program: the command that shows that it is installed, and its package.
type Tool = (&'static str, &'static [&'static str], &'static str);

const TOOLS: &[Tool] = &[
    ("faketime", &["--version"], "faketime"),
    ("python3", &["-c", "import ensurepip, venv"], "python3-venv"),
    ("node", &["--version"], "nodejs"),
    ("npm", &["--version"], "npm"),
    ("chromium", &["--version"], "chromium"),
    ("javac", &["-version"], "default-jdk-headless"),
    ("mvn", &["-version"], "maven"),
    ("openssl", &["version"], "openssl"),
];

/// The programs for servers, each needed only for that server. Some are in folders that only root has in its search path.
const SERVERS: &[(TestServer, Tool)] = &[
    (
        TestServer::PostgreSql,
        ("sh", &["-c", "ls /usr/lib/postgresql/*/bin/initdb && command -v psql"], "postgresql"),
    ),
    (TestServer::PostgreSql, ("sh", &["-c", "PATH=$PATH:/usr/sbin command -v pgbouncer"], "pgbouncer")),
    (
        TestServer::MariaDb,
        (
            "sh",
            &["-c", "PATH=$PATH:/usr/sbin; command -v mariadbd && command -v mariadb-install-db"],
            "mariadb-server",
        ),
    ),
    (TestServer::Redis, ("sh", &["-c", "command -v redis-server && command -v redis-cli"], "redis-server")),
];

/// Installs packages, without starting the services that some of them bring: `policy-rc.d` answers 101, "not allowed",
/// whenever a package asks whether it may. A policy that is there already is left as it is.
const INSTALL: &str = r#"
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q && apt-get install -q -y --no-install-recommends "$@"
"#;

/// Makes sure that every tool is installed, except those for servers that are left out.
pub(crate) fn ensure(without: &[TestServer]) -> Result<(), String> {
    let missing = missing(without, works);
    if missing.is_empty() {
        return Ok(());
    }
    let line = install_line(&missing);
    let sudo: &[&str] = if works("sudo", &["-n", "true"]) { &["sudo", "-n"] } else { &[] };
    eprintln!("missing: {}; installing with `{line}`", missing.join(", "));
    match install(sudo, &missing) && self::missing(without, works).is_empty() {
        true => Ok(()),
        false => Err(format!("the tests need packages that are missing; install them with: {line}")),
    }
}

fn missing(without: &[TestServer], works: impl Fn(&str, &[&str]) -> bool) -> Vec<&'static str> {
    let of_servers = SERVERS.iter().filter(|(kind, _)| !without.contains(kind)).map(|(_, tool)| tool);
    let wanted = TOOLS.iter().chain(of_servers);
    wanted.filter(|(program, proof, _)| !works(program, proof)).map(|(_, _, package)| *package).collect()
}

fn install_line(packages: &[&str]) -> String {
    format!("apt-get install --no-install-recommends {}", packages.join(" "))
}

fn works(program: &str, proof: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(proof).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn install(sudo: &[&str], packages: &[&str]) -> bool {
    let mut words =
        sudo.iter().copied().chain(["sh", "-c", INSTALL, "install"]).chain(packages.iter().copied());
    let Some(program) = words.next() else { return false };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_work_is_named_by_its_package() {
        let missing = missing(&[], |program, _| !["mvn", "python3", "chromium"].contains(&program));
        assert_eq!(missing, ["python3-venv", "chromium", "maven"]);
        let line = "apt-get install --no-install-recommends python3-venv chromium maven";
        assert_eq!(install_line(&missing), line);
    }

    #[test]
    fn a_server_that_is_left_out_needs_no_package() {
        let no_shell_finds_it = |program: &str, _: &[&str]| program != "sh";
        let all = missing(&[], no_shell_finds_it);
        assert_eq!(all, ["postgresql", "pgbouncer", "mariadb-server", "redis-server"]);
        let some = missing(&[TestServer::PostgreSql, TestServer::Redis], no_shell_finds_it);
        assert_eq!(some, ["mariadb-server"]);
    }
}

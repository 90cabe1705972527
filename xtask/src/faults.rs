//! `cargo xtask faults`: builds `punctual` and `faults`, and passes the arguments on.

use crate::workspace;

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let build = "build --quiet --locked --profile ci --package punctual --package punctual-faults";
    let run = "run --quiet --locked --profile ci --package punctual-faults --";
    cargo(build, &[])?;
    cargo(run, arguments)
}

fn cargo(words: &str, more: &[&str]) -> Result<(), String> {
    let mut command = workspace::cargo();
    match command.args(words.split(' ')).args(more).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`cargo {words}` ended with {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

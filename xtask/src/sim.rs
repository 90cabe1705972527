//! `cargo xtask sim`: builds the simulator and hands it the arguments.

use crate::workspace;

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--locked", "--package", "punctual-sim", "--profile", "ci", "--"]);
    command.args(arguments);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the simulator ended with {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

//! `cargo xtask sim`: builds the simulator and passes the arguments on.

use std::process::Command;

use crate::programs;

/// A test of the simulator, for which cargo also builds the binary; and the server, so that the features are those of the
/// whole workspace and nothing is compiled twice.
const BUILD: &[&str] = &["--package", "punctual-sim", "--package", "punctual", "--test", "ci"];

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let built = programs::build(&[BUILD, &["--quiet"]].concat())?;
    let simulator = built.iter().find(|program| !program.is_test && program.target == "sim");
    let simulator = simulator.ok_or("cargo built no simulator")?;
    match Command::new(&simulator.executable).args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the simulator ended with {status}")),
        Err(error) => Err(format!("cannot start the simulator: {error}")),
    }
}

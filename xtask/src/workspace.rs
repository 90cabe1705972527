//! The workspace's folder, and the cargo that builds it.

use std::path::Path;
use std::process::Command;

/// The workspace's folder, whatever folder the command was typed in.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// The cargo that started us, so that a `+toolchain` on the command line reaches every stage.
#[expect(clippy::disallowed_methods, reason = "cargo tells its children where it is by the environment")]
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The output of `command`, or one sentence about why there is none.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {}", complaint.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{command:?} did not print UTF-8"))
}

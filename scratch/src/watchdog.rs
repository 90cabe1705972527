//! Cleans up after a killed process: a shell that outlives it, kills the server that it started and removes the folder.
//!
//! The shell holds one end of a pipe, through which it is told the id of the server. When the pipe closes, however this
//! process ended, the shell acts. Nothing inside this process could, because a killed process runs no code.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use std::os::unix::process::CommandExt;

use rustix::process::Signal;

/// Reads the current process id from its input; at the end of input it ends that process, first by the signal that lets it
/// clean up, then by force.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
process=0
while read -r line; do process=$line; done
if [ "$process" -gt 1 ]; then
    kill -s CONT "$process" 2>/dev/null
    kill -s "$2" "$process" 2>/dev/null
    rounds=0
    while kill -s 0 "$process" 2>/dev/null && [ "$rounds" -lt 30 ]; do
        rounds=$((rounds + 1))
        sleep 0.1
    done
    kill -s KILL -- "-$process" 2>/dev/null
fi
[ -z "$1" ] || rm -rf -- "$1"
"#;

/// A shell that watches over one process and its folder.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    input: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts the shell. `signal` makes the watched process end at once and leave no files.
    pub fn start(folder: &Path, signal: Signal) -> Result<Watchdog, String> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(folder).arg(signal.as_raw().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In a process group of its own: a Ctrl-C that ends this process must not end the shell.
        command.process_group(0).current_dir("/");
        let mut shell = command.spawn().map_err(|error| format!("cannot start sh: {error}"))?;
        let input = shell.stdin.take();
        Ok(Watchdog { shell, input })
    }

    /// Tells the shell the current process id; 0 for none.
    pub fn tell(&mut self, process: u32) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{process}");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Closes the pipe: the shell removes the folder and ends.
        self.input = None;
        let _ = self.shell.wait();
    }
}

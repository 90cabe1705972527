//! What cleans up when we cannot: a shell that outlives us, kills what we started and removes its folder.
//!
//! It holds one end of a pipe. As long as we live it is told which process is ours at the moment; when the pipe closes,
//! however we ended, it acts. Nothing that runs inside us could, because a killed process runs nothing.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use std::os::unix::process::CommandExt;

use rustix::process::Signal;

/// Reads the process of the moment from its input, then ends it: first by the signal that lets it tidy up, then by force.
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
    /// Starts it. `signal` is the one that makes the process end at once and leave nothing.
    pub fn start(folder: &Path, signal: Signal) -> Result<Watchdog, String> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(folder).arg(signal.as_raw().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Outside our group: what ends us by the terminal must not end it.
        command.process_group(0).current_dir("/");
        let mut shell = command.spawn().map_err(|error| format!("cannot start sh: {error}"))?;
        let input = shell.stdin.take();
        Ok(Watchdog { shell, input })
    }

    /// Says which process is ours now; 0 is none.
    pub fn tell(&mut self, process: u32) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{process}");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Closes the pipe: it removes the folder and ends.
        self.input = None;
        let _ = self.shell.wait();
    }
}

//! A child process: stopping, killing and freezing it with all its children.

use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal};

use crate::waiting::until;

/// A running program in a process group of its own. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Mutex<Child>,
    pid: Pid,
}

impl Process {
    /// Starts it.
    pub fn start(command: &mut Command) -> Result<Process, String> {
        let child = command.process_group(0).spawn();
        let child = child.map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
        let pid = Pid::from_child(&child);
        Ok(Process { child: Mutex::new(child), pid })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().expect("no panic").try_wait().expect("it is our child")
    }

    /// Sends a signal to this one process.
    pub fn signal(&self, signal: Signal) {
        // A child that has not been waited for keeps its id, so the signal reaches no other process.
        if self.ended().is_none() {
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }

    /// Sends a signal to end it, and returns its exit status; none if it did not end in time.
    pub fn stop(&self, signal: Signal, limit: Duration) -> Option<ExitStatus> {
        self.signal(signal);
        until(limit, || self.ended().is_some());
        self.ended()
    }

    /// Stops it and all its children without ending them, like a storage that hangs.
    pub fn freeze(&self) {
        // The parent first, so that it starts no child after they were listed. Not by the process group, because each of
        // PostgreSQL's backends has one of its own.
        self.signal(Signal::STOP);
        self.signal_children(Signal::STOP);
    }

    /// Resumes a frozen process and its children.
    pub fn thaw(&self) {
        self.signal_children(Signal::CONT);
        self.signal(Signal::CONT);
    }

    /// Kills it and all its children at once, like a power cut.
    pub fn kill(&self) {
        // Stopped first, for the same reasons.
        self.signal(Signal::STOP);
        self.signal_children(Signal::KILL);
        let mut child = self.child.lock().expect("no panic");
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        let _ = child.kill();
        let _ = child.wait();
    }

    fn signal_children(&self, signal: Signal) {
        if self.ended().is_none() {
            for child in children(self.id()) {
                let _ = rustix::process::kill_process(child, signal);
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The children of a process, by the parent that each process names.
fn children(parent: u32) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|number| parent_of(*number) == Some(parent)).filter_map(Pid::from_raw).collect()
}

fn parent_of(process: i32) -> Option<u32> {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may have blanks and brackets itself; after it come the state and the parent.
    line.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_process_takes_its_children_along_even_those_in_a_session_of_their_own() {
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 600 & sleep 600 & wait"]);
        let process = Process::start(&mut command).expect("sh");
        assert!(until(Duration::from_secs(10), || children(process.id()).len() == 2));
        let both = children(process.id());
        process.kill();
        let is_gone = |pid: &Pid| parent_of(pid.as_raw_nonzero().get()).is_none();
        assert!(until(Duration::from_secs(10), || both.iter().all(is_gone)), "a child lives on");
    }

    #[test]
    fn a_frozen_process_stands_still_with_its_children_until_it_is_thawed() {
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 600 & sleep 600 & wait"]);
        let process = Process::start(&mut command).expect("sh");
        assert!(until(Duration::from_secs(10), || children(process.id()).len() == 2));
        let is_stopped = |pid: &Pid| {
            let line = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            line.is_ok_and(|line| line.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T")))
        };
        let mut all = children(process.id());
        all.push(process.pid);
        process.freeze();
        assert!(until(Duration::from_secs(10), || all.iter().all(is_stopped)), "one of them goes on");
        process.thaw();
        assert!(until(Duration::from_secs(10), || !all.iter().any(is_stopped)), "one of them stands still");
    }

    #[test]
    fn a_process_that_is_asked_to_end_says_how_it_did() {
        let mut command = Command::new("sleep");
        let process = Process::start(command.arg("600")).expect("sleep");
        assert!(process.ended().is_none());
        let status = process.stop(Signal::TERM, Duration::from_secs(10)).expect("it ends");
        assert!(!status.success());
    }
}

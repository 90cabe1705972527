//! An equal small share of the machine for each node, held by the kernel where it lets us.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// How long the kernel counts before it begins again, in microseconds.
const PERIOD: u64 = 100_000;

/// A group of processes that together get a part of one core. It is gone with the value.
pub(crate) struct Share {
    folder: PathBuf,
}

impl Share {
    /// Makes a group for so many hundredths of a core.
    pub(crate) fn make(name: &str, percent: u64) -> Result<Share, Failure> {
        let name = format!("punctual-bench-{}-{name}", std::process::id());
        let quota = PERIOD * percent / 100;
        let (first, second) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let (parent, limits) = match first.is_dir() {
            true => (
                first,
                vec![("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", quota.to_string())],
            ),
            false => (second, vec![("cpu.max", format!("{quota} {PERIOD}"))]),
        };
        let share = Share { folder: parent.join(name) };
        let refuse = |error| format!("no group of processes can be made in {}: {error}", parent.display());
        fs::create_dir(&share.folder).map_err(refuse)?;
        for (file, value) in limits {
            fs::write(share.folder.join(file), value)?;
        }
        Ok(share)
    }

    /// Puts a process into it.
    pub(crate) fn hold(&self, process: u32) -> Result<(), Failure> {
        let refuse =
            |error| format!("a node cannot be held to its share (one of real time never can): {error}");
        Ok(fs::write(self.folder.join("cgroup.procs"), process.to_string()).map_err(refuse)?)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Its processes must have ended.
        let _ = fs::remove_dir(&self.folder);
    }
}

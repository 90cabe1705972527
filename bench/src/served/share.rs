//! An equal small share of the machine for each node, enforced by a control group where that is allowed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::BenchError;

/// The accounting period of the kernel in microseconds.
const PERIOD: u64 = 100_000;

/// A control group whose processes together get a part of one core. Removed when this is dropped.
pub(crate) struct Share {
    folder: PathBuf,
}

impl Share {
    /// Creates a group for this percentage of a core.
    pub(crate) fn make(name: &str, percent: u64) -> Result<Share, BenchError> {
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

    /// Adds a process to the group.
    pub(crate) fn hold(&self, process: u32) -> Result<(), BenchError> {
        let refuse =
            |error| format!("a node cannot be held to its share (one of real time never can): {error}");
        Ok(fs::write(self.folder.join("cgroup.procs"), process.to_string()).map_err(refuse)?)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Fails unless its processes have ended.
        let _ = fs::remove_dir(&self.folder);
    }
}

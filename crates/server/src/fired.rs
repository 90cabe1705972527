//! The fired mark: a small file beside the embedded database that says how far this node has fired.
//!
//! It is written before every batch of sends and never synced. The page cache keeps it when the process is killed, so
//! the next process knows which runs the dead one cannot have sent, and judges them by their misfire policy. A power
//! cut loses the page cache; the file then names another boot of the machine and says nothing.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use calendar::Timestamp;
use punctual_node::ports::FiredMark;

/// Linux draws this anew at every boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// How far the node has fired is not known.
const UNKNOWN: i64 = i64::MIN;

/// The file, and what was last written to it.
pub(crate) struct FiredFile {
    file: File,
    boot: String,
    /// In milliseconds; [`UNKNOWN`] until it is read or written.
    through: AtomicI64,
}

impl FiredFile {
    /// Opens the mark, or creates it. A machine without boot ids has no mark.
    pub(crate) fn open(path: &Path) -> io::Result<FiredFile> {
        FiredFile::of_boot(path, fs::read_to_string(BOOT_ID)?.trim())
    }

    fn of_boot(path: &Path, boot: &str) -> io::Result<FiredFile> {
        let said = fs::read_to_string(path).unwrap_or_default();
        let through = read(&said, boot);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        if through.is_none() {
            // If the process ends before it knows more, the next one finds an empty file and no stale mark.
            file.set_len(0)?;
        }
        Ok(FiredFile { file, boot: boot.to_owned(), through: AtomicI64::new(through.unwrap_or(UNKNOWN)) })
    }

    /// Always of the same length, so that a shorter number leaves no digits of a longer one.
    fn write(&self, millis: i64) -> io::Result<()> {
        self.file.write_all_at(format!("{} {millis:020}\n", self.boot).as_bytes(), 0)
    }
}

impl FiredMark for FiredFile {
    fn through(&self) -> Option<Timestamp> {
        let through = self.through.load(Ordering::Acquire);
        (through != UNKNOWN).then(|| Timestamp::from_millis(through))
    }

    fn reach(&self, due: Timestamp) {
        let millis = due.as_millis();
        if self.through.fetch_max(millis, Ordering::AcqRel) < millis
            && let Err(error) = self.write(millis)
        {
            // With an old mark, the next process would doubt too few runs. It is better to leave no mark, so that it
            // doubts too many.
            tracing::error!(%error, "cannot write how far this node has fired");
            let _ = self.file.set_len(0);
        }
    }
}

/// The mark in the file, if it was written in this boot of the machine.
fn read(said: &str, boot: &str) -> Option<i64> {
    let (of, millis) = said.trim_end_matches('\n').split_once(' ')?;
    if of == boot { millis.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_outlives_its_process_and_not_its_boot() {
        let path = std::env::temp_dir().join(format!("punctual-fired-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let at = Timestamp::from_millis;
        let first = FiredFile::of_boot(&path, "boot-1").unwrap();
        assert_eq!(first.through(), None, "nobody knows what was before it");
        drop(first);
        let first = FiredFile::of_boot(&path, "boot-1").unwrap();
        assert_eq!(first.through(), None, "and it learned nothing");
        first.reach(at(5_000));
        first.reach(at(3_000));
        drop(first);
        let second = FiredFile::of_boot(&path, "boot-1").unwrap();
        assert_eq!(second.through(), Some(at(5_000)));
        second.reach(at(7_000));
        assert_eq!(second.through(), Some(at(7_000)), "what this process has sent counts too");
        drop(second);
        assert_eq!(FiredFile::of_boot(&path, "boot-2").unwrap().through(), None, "the page cache is gone");
        fs::write(&path, "boot-2 12x\n").unwrap();
        assert_eq!(FiredFile::of_boot(&path, "boot-2").unwrap().through(), None);
        fs::remove_file(&path).unwrap();
    }
}

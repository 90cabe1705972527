//! Files that only their owner may read: those that a node writes, and older ones that were readable by others.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

/// The modes of files and folders that only their owner may use.
const FILE: u32 = 0o600;
const OTHERS: u32 = 0o077;

/// The files that may be in a data folder.
const FILES: [&str; 6] = [
    "punctual.db",
    "punctual.db-wal",
    "punctual.db-shm",
    "punctual.db.lock",
    "punctual.fired",
    "admin-token",
];

/// From now on this process creates files and folders for its own user only.
pub(crate) fn begin() {
    rustix::process::umask(Mode::from_raw_mode(OTHERS));
}

/// Takes other users' access to the files in a data folder away. Returns warnings about files where that fails, and
/// about a folder that other users can enter.
pub(crate) fn tighten(data: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for path in FILES.map(|name| data.join(name)) {
        let Some(mode) = open_to_others(&path) else { continue };
        let advice = format!("chmod 600 {}", path.display());
        warnings.push(match fs::set_permissions(&path, Permissions::from_mode(FILE)) {
            Ok(()) => format!("{} was readable by others (mode {mode:04o}) and no longer is", path.display()),
            Err(error) => format!(
                "{} is open to others (mode {mode:04o}) and cannot be closed ({error}): {advice}",
                path.display()
            ),
        });
    }
    if let Some(mode) = open_to_others(data) {
        let shown = data.display();
        warnings
            .push(format!("others can enter the data folder {shown} (mode {mode:04o}): chmod 700 {shown}"));
    }
    warnings
}

/// The mode of an existing file or folder, if other users may use it.
fn open_to_others(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Writes a file that only its owner may read, whole or not at all. An existing file is replaced.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    prepare(path, text)?;
    put_in_place(path)
}

/// Writes the text to a file beside its place, and syncs it.
pub(crate) fn prepare(path: &Path, text: &str) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(FILE).open(beside(path))?;
    // The mode above counts only if the file is created here.
    file.set_permissions(Permissions::from_mode(FILE))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Moves the prepared file into its place.
pub(crate) fn put_in_place(path: &Path) -> io::Result<()> {
    fs::rename(beside(path), path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes the prepared file.
pub(crate) fn give_up(path: &Path) {
    let _ = fs::remove_file(beside(path));
}

fn beside(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_others_could_read_they_read_no_longer_and_it_is_told() {
        let folder = std::env::temp_dir().join(format!("punctual-private-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        for name in FILES {
            fs::write(folder.join(name), "x").unwrap();
            fs::set_permissions(folder.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        let warnings = tighten(&folder);
        assert!(FILES.iter().all(|name| mode(&folder.join(name)) == FILE));
        assert_eq!(
            (warnings.len(), mode(&folder)),
            (FILES.len() + 1, 0o755),
            "the folder is its owner's affair"
        );
        assert!(warnings[FILES.len()].contains(&format!("chmod 700 {}", folder.display())), "{warnings:?}");
        write(&folder.join("admin-token"), "new").unwrap();
        assert_eq!(fs::read_to_string(folder.join("admin-token")).unwrap(), "new");
        assert_eq!(mode(&folder.join("admin-token")), FILE);
        assert!(!folder.join("admin-token.new").exists());
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(tighten(&folder), Vec::<String>::new());
        fs::remove_dir_all(&folder).unwrap();
    }
}

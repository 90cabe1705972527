//! Builds the console with npm and Vite, in a folder that nothing else uses. Cargo's build script does it, and so
//! does the test command, once for all its calls of cargo.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// The sources of the console; neither its tests nor the packages of npm are among them.
pub(crate) const SOURCES: &[&str] = &[
    "src",
    "public",
    "build",
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    ".npmrc",
];

const NO_NPM: &str = "the console is built with npm (Node 20 or later), which cannot be started; either set \
                      PUNCTUAL_UI_DIST to the folder of a console that was built elsewhere, or build with \
                      --no-default-features for a server without a console";

/// The packages of npm: those that the build needs, or also those that the console's tests need.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packages {
    Build,
    All,
}

/// Builds the sources in `home` inside `room`, into its folder `dist`. Does nothing if the same sources were built
/// there before.
pub(crate) fn console(home: &Path, room: &Path, packages: Packages) -> Result<(), String> {
    let sources = SOURCES.iter().try_fold(SEED, |sum, name| digest(sum, &home.join(name)));
    let sources = sources.map_err(|error| format!("cannot read {}: {error}", home.display()))?;
    let (stamp, wanted) = (room.join("built"), format!("{sources:016x}"));
    let is_there = room.join("dist/index.html").is_file();
    if is_there && fs::read_to_string(&stamp).is_ok_and(|built| built == wanted) {
        return Ok(());
    }
    prepare(home, room, SOURCES, packages)?;
    let mut vite = Command::new("node");
    vite.args([
        "node_modules/vite/bin/vite.js",
        "build",
        "--outDir",
        "dist",
        "--emptyOutDir",
        "--logLevel",
        "warn",
    ]);
    run(vite.current_dir(room), "vite build")?;
    fs::write(&stamp, wanted).map_err(|error| said(&stamp, &error))
}

/// Copies the named sources into the room anew, and installs their packages.
pub(crate) fn prepare(home: &Path, room: &Path, names: &[&str], packages: Packages) -> Result<(), String> {
    for name in names {
        let place = room.join(name);
        remove(&place).and_then(|()| copy(&home.join(name), &place)).map_err(|error| said(&place, &error))?;
    }
    install(room, packages)
}

/// Installs packages, unless the same ones were installed before.
fn install(room: &Path, packages: Packages) -> Result<(), String> {
    let (lock, stamp) = (room.join("package-lock.json"), room.join("node_modules/.installed"));
    let mut wanted = fs::read(&lock).map_err(|error| said(&lock, &error))?;
    let fewer: &[&str] = if packages == Packages::All { &[] } else { &["--omit=dev"] };
    fewer.iter().for_each(|word| wanted.extend_from_slice(word.as_bytes()));
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    // Not `npm ci`, which refuses a lock file that does not list the packages of every platform; the versions and
    // checksums are those of the lock file all the same.
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]).args(fewer);
    run(npm.current_dir(room), "npm install")?;
    fs::write(&stamp, wanted).map_err(|error| said(&stamp, &error))
}

fn run(command: &mut Command, name: &str) -> Result<(), String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NO_NPM.into()),
        Err(error) => return Err(format!("cannot start `{name}`: {error}")),
    };
    if output.status.success() {
        return Ok(());
    }
    let told = [output.stdout, output.stderr].concat();
    Err(format!("`{name}` ended with {}:\n{}", output.status, String::from_utf8_lossy(&told)))
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn remove(path: &Path) -> io::Result<()> {
    match if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) } {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if !from.is_dir() {
        return fs::copy(from, to).map(|_| ());
    }
    fs::create_dir_all(to)?;
    entries(from)?.iter().try_for_each(|name| copy(&from.join(name), &to.join(name)))
}

/// The names in a folder, in order.
fn entries(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// A checksum of a file, or of everything in a folder, names included.
fn digest(sum: u64, path: &Path) -> io::Result<u64> {
    let sum = add(sum, path.file_name().unwrap_or_default().as_encoded_bytes());
    match path.is_dir() {
        true => entries(path)?.iter().try_fold(sum, |sum, name| digest(sum, &path.join(name))),
        false => Ok(add(sum, &fs::read(path)?)),
    }
}

/// FNV-1a: it tells versions of a file apart, and is not for security.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    add(SEED, bytes)
}

fn add(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

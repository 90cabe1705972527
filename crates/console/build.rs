//! Builds the console with npm and Vite, inside cargo's own folder, and writes a table of its files.
//!
//! `PUNCTUAL_UI_DIST` names a folder in which somebody else built it already.
#![expect(clippy::disallowed_methods, reason = "cargo tells build scripts everything by the environment")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is how build scripts speak")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs, io};

/// What the build is made of; tests are not, and neither is what npm installs.
const SOURCES: &[&str] = &[
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

fn main() {
    println!("cargo::rerun-if-env-changed=PUNCTUAL_UI_DIST");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let made = match env::var_os("PUNCTUAL_UI_DIST").filter(|folder| !folder.is_empty()) {
        Some(folder) => given(PathBuf::from(folder)),
        None => build(&out),
    };
    let table = made.and_then(|folder| table(&folder));
    match table.and_then(|table| written(&out.join("assets.rs"), &table)) {
        Ok(()) => {}
        Err(sentence) => {
            eprintln!("{sentence}");
            exit(1);
        }
    }
}

fn given(folder: PathBuf) -> Result<PathBuf, String> {
    println!("cargo::rerun-if-changed={}", folder.display());
    match folder.join("index.html").is_file() {
        true => Ok(folder),
        false => Err(format!("PUNCTUAL_UI_DIST is {}, which has no index.html", folder.display())),
    }
}

fn build(out: &Path) -> Result<PathBuf, String> {
    let (home, room, dist) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("ui"), out.join("ui"), out.join("dist"));
    for name in SOURCES {
        println!("cargo::rerun-if-changed={}", home.join(name).display());
        remove(&room.join(name))?;
        copy(&home.join(name), &room.join(name))
            .map_err(|error| format!("cannot copy ui/{name}: {error}"))?;
    }
    install(&room)?;
    let vite = "node_modules/vite/bin/vite.js";
    let mut node = Command::new("node");
    node.current_dir(&room).args([vite, "build", "--emptyOutDir", "--logLevel", "warn", "--outDir"]);
    run(node.arg(&dist), "vite build")?;
    Ok(dist)
}

/// Installs what the build needs, unless just that was installed before.
fn install(room: &Path) -> Result<(), String> {
    let (lock, stamp) = (room.join("package-lock.json"), room.join("node_modules/.installed"));
    let wanted = fs::read(&lock).map_err(|error| format!("cannot read {}: {error}", lock.display()))?;
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    // Not `npm ci`, which refuses a lock file that does not name the parts for every machine on earth; versions and sums
    // are those of the lock file all the same.
    let mut npm = Command::new("npm");
    npm.current_dir(room).args([
        "install",
        "--no-save",
        "--omit=dev",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
    ]);
    run(&mut npm, "npm install")?;
    fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))
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
    let said = [output.stdout, output.stderr].concat();
    Err(format!("`{name}` ended with {}:\n{}", output.status, String::from_utf8_lossy(&said)))
}

fn remove(path: &Path) -> Result<(), String> {
    let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()))
        }
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
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The table of files, sorted by path, as Rust.
fn table(folder: &Path) -> Result<String, String> {
    let mut files = Vec::new();
    collect(folder, "", &mut files).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    files.sort();
    let mut text = String::from("pub(crate) static ASSETS: &[Asset] = &[\n");
    for path in files.iter().filter(|path| !is_twin(path)) {
        let file = folder.join(path);
        let bytes = fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let twin = |ending: &str| match files.contains(&format!("{path}{ending}")) {
            true => format!("Some({})", included(folder, &format!("{path}{ending}"))),
            false => "None".into(),
        };
        let (br, gz, raw) = (twin(".br"), twin(".gz"), included(folder, path));
        let tag = format!("\"{:016x}\"", sum(&bytes));
        writeln!(text, "    Asset {{ path: {path:?}, tag: {tag:?}, raw: {raw}, br: {br}, gz: {gz} }},")
            .expect("text takes text");
    }
    Ok(text + "];\n")
}

fn included(folder: &Path, path: &str) -> String {
    let file = fs::canonicalize(folder.join(path)).unwrap_or_else(|_| folder.join(path));
    format!("include_bytes!({:?})", file.display().to_string())
}

fn is_twin(path: &str) -> bool {
    path.ends_with(".br") || path.ends_with(".gz")
}

fn collect(folder: &Path, inside: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(inside))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
        match entry.file_type()?.is_dir() {
            true => collect(folder, &path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

/// FNV-1a: it tells versions of a file apart, and guards nothing.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Writes only what changed, so that nothing is compiled for nothing.
fn written(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

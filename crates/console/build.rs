//! Builds the console inside cargo's own folder, and writes a table of its files.
//!
//! `PUNCTUAL_UI_DIST` names a folder with a console that is built already.
#![expect(clippy::disallowed_methods, reason = "cargo tells build scripts everything by the environment")]
#![expect(clippy::print_stderr, reason = "this is how build scripts speak")]

mod make;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::{env, fs, io};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=make.rs");
    println!("cargo::rerun-if-env-changed=PUNCTUAL_UI_DIST");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let made = match env::var_os("PUNCTUAL_UI_DIST").filter(|folder| !folder.is_empty()) {
        Some(folder) => given(PathBuf::from(folder)),
        None => build(&out.join("ui")),
    };
    let table = made.and_then(|folder| table(&folder));
    if let Err(sentence) = table.and_then(|table| written(&out.join("assets.rs"), &table)) {
        eprintln!("{sentence}");
        exit(1);
    }
}

fn given(folder: PathBuf) -> Result<PathBuf, String> {
    println!("cargo::rerun-if-changed={}", folder.display());
    match folder.join("index.html").is_file() {
        true => Ok(folder),
        false => Err(format!("PUNCTUAL_UI_DIST is {}, which has no index.html", folder.display())),
    }
}

fn build(room: &Path) -> Result<PathBuf, String> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    for name in make::SOURCES {
        println!("cargo::rerun-if-changed={}", home.join(name).display());
    }
    make::console(&home, room, make::Packages::Build)?;
    Ok(room.join("dist"))
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
        let tag = format!("\"{:016x}\"", make::sum(&bytes));
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

/// Writes a file only if it changed, so that nothing is compiled again for no reason.
fn written(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

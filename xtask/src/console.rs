//! The console, built once for all calls of cargo, and its own tests. A build script would build it for each call.

#[expect(dead_code, reason = "some of it is for the build script")]
#[path = "../../crates/console/make.rs"]
mod make;

use std::path::PathBuf;
use std::process::Command;

use crate::workspace;

const GIVEN: &str = "PUNCTUAL_UI_DIST";

/// The variable with the folder of the browser tests and their packages.
const TESTS: &str = "PUNCTUAL_TEST_CONSOLE";

/// Files that only the tests of the console read.
const FOR_TESTS: &[&str] = &["e2e", "tsconfig.json"];

/// The console's own checks: its types and its unit tests.
const CHECKS: &[&[&str]] = &[
    &["node_modules/typescript/bin/tsc", "--noEmit"],
    &["node_modules/vitest/vitest.mjs", "run", "--reporter=dot"],
];

/// The files that decide which packages npm installs.
const FOR_NPM: &[&str] = &["package.json", "package-lock.json", ".npmrc"];

/// Fetches the npm packages for the console and its tests, so that `build` fetches nothing.
pub(crate) fn fetch() -> Result<(), String> {
    make::prepare(&home(), &room(), FOR_NPM, make::Packages::All)
}

/// Builds it, unless the caller provides one or it is built already.
pub(crate) fn build() -> Result<(), String> {
    match is_given() {
        true => Ok(()),
        false => make::console(&home(), &room(), make::Packages::All),
    }
}

/// Builds it, and runs its own tests.
pub(crate) fn build_and_check() -> Result<(), String> {
    build()?;
    if is_given() {
        make::prepare(&home(), &room(), make::SOURCES, make::Packages::All)?;
    }
    make::prepare(&home(), &room(), FOR_TESTS, make::Packages::All)?;
    CHECKS.iter().try_for_each(|words| check(words))
}

fn check(words: &[&str]) -> Result<(), String> {
    match Command::new("node").args(words).current_dir(room()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`node {}` ended with {status}", words.join(" "))),
        Err(error) => Err(format!("cannot start node: {error}")),
    }
}

/// The variables with the path of the built console, for cargo's build script (none if the caller sets it, or nothing was
/// built), and with the folder of the browser tests.
pub(crate) fn environment() -> Vec<(&'static str, PathBuf)> {
    let (room, dist) = (room(), room().join("dist"));
    let built = (!is_given() && dist.join("index.html").is_file()).then_some((GIVEN, dist));
    let tests = room.join("e2e").is_dir().then_some((TESTS, room));
    built.into_iter().chain(tests).collect()
}

fn home() -> PathBuf {
    workspace::root().join("crates/console/ui")
}

fn room() -> PathBuf {
    workspace::root().join("target/console")
}

#[expect(clippy::disallowed_methods, reason = "the same variable that the build script reads")]
fn is_given() -> bool {
    std::env::var_os(GIVEN).is_some_and(|folder| !folder.is_empty())
}

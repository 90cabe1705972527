//! The console, built once for every call of cargo; a build script would build it for each of them anew.

#[expect(dead_code, reason = "some of it is for the build script")]
#[path = "../../crates/console/make.rs"]
mod make;

use std::path::PathBuf;

use crate::workspace;

const GIVEN: &str = "PUNCTUAL_UI_DIST";

/// Builds it, unless the caller brings one.
pub(crate) fn build() -> Result<(), String> {
    if is_given() {
        return Ok(());
    }
    make::console(&workspace::root().join("crates/console/ui"), &room())
}

/// What tells cargo's build script where the console is; nothing where none was built, or the caller says it already.
pub(crate) fn environment() -> Option<(&'static str, PathBuf)> {
    let dist = room().join("dist");
    (!is_given() && dist.join("index.html").is_file()).then_some((GIVEN, dist))
}

fn room() -> PathBuf {
    workspace::root().join("target/console")
}

#[expect(clippy::disallowed_methods, reason = "the same variable that the build script reads")]
fn is_given() -> bool {
    std::env::var_os(GIVEN).is_some_and(|folder| !folder.is_empty())
}

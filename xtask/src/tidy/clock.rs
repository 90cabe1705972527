//! The bans on real clocks, sleep and the environment are in force, and lifted only in the files listed here. A crate that lives
//! in real time reads it in one of its files, and nowhere else.

use super::Violation;
use super::tree::{self, File, Tree};

const BANS: &[&str] = &[
    "std::time::SystemTime::now",
    "std::time::Instant::now",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    concat!("std::thread::", "sleep"), // In halves, because of a rule in text.rs.
    "tokio::time::Instant::now",
    "tokio::time::Instant::elapsed",
    "tokio::time::sleep",
    "tokio::time::sleep_until",
    "tokio::time::interval",
    "tokio::time::interval_at",
    "std::env::var",
];

/// A ban may be lifted in these files, in these folders, and in every crate's tests, benches and examples.
const FILES: &[&str] = &[
    "crates/api/src/clock.rs",
    "crates/cli/src/clock.rs",
    "crates/cli/src/environment.rs",
    "crates/console/build.rs",
    "crates/dispatch/src/clock.rs",
    "crates/executor/src/surroundings.rs",
    "crates/server/src/clock.rs",
    "crates/store/src/clock.rs",
];
const FOLDERS: &[&str] = &["xtask", "sim", "bench", "scratch", "faults"];
const CRATE_FOLDERS: &[&str] = &["tests", "benches", "examples"];

/// The lint itself, and the groups that hold it.
const LINTS: &[&str] = &["clippy::disallowed_methods", "clippy::style", "clippy::all"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let lifted = tree.files.iter().filter(|file| !may_lift(&file.path)).flat_map(lifted);
    missing(tree).into_iter().chain(lifted).collect()
}

fn missing(tree: &Tree) -> Vec<Violation> {
    let text = tree.get("clippy.toml").map_or("", |file| &file.text);
    let settings: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let is_set = |ban: &str| settings.iter().any(|line| line.contains(&format!("\"{ban}\"")));
    let missing = BANS.iter().filter(|ban| !is_set(ban));
    let what = |ban| format!("no longer bans `{ban}`; put the ban back");
    missing.map(|ban| Violation::new("clippy.toml", 1, what(ban))).collect()
}

fn lifted(file: &File) -> Vec<Violation> {
    match tree::name(&file.path) {
        _ if matches!(&*file.path, "clippy.toml" | "Cargo.toml") => Vec::new(),
        // Clippy reads the nearest one only, so the root's bans would not count here.
        "clippy.toml" | ".clippy.toml" => {
            let what = "hides the bans of the root's clippy.toml; take it out";
            vec![Violation::new(&file.path, 1, what)]
        }
        "Cargo.toml" => file.complain(|line| {
            let what = "a crate does not set this lint for itself; inherit the workspace's";
            line.contains("disallowed_methods").then(|| what.into())
        }),
        name if name.ends_with(".rs") => file.complain(|line| {
            let lint = LINTS.iter().find(|lint| line.contains(**lint))?;
            Some(format!("`{lint}` is lifted here; take `now` as a parameter, or agree on it in xtask"))
        }),
        _ => Vec::new(),
    }
}

fn may_lift(path: &str) -> bool {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", _, folder, ..] => CRATE_FOLDERS.contains(&folder) || FILES.contains(&path),
        [folder, ..] => FOLDERS.contains(&folder),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFT: &str = "#[expect(\n    clippy::disallowed_methods,\n)]\n";

    fn bans() -> String {
        let entry = |ban: &&str| format!("{{ path = \"{ban}\" }},\n");
        BANS.iter().map(entry).collect()
    }

    fn check_file(path: &str, text: &str, places: &[&str]) {
        super::super::check(check, &[("clippy.toml", &bans()), (path, text)], places);
    }

    #[test]
    fn a_ban_may_be_lifted_where_that_was_agreed() {
        FILES.iter().for_each(|file| check_file(file, LIFT, &[]));
        CRATE_FOLDERS.iter().for_each(|folder| check_file(&format!("crates/core/{folder}/a.rs"), LIFT, &[]));
        FOLDERS.iter().for_each(|folder| check_file(&format!("{folder}/src/a.rs"), LIFT, &[]));
    }

    #[test]
    fn a_ban_lifted_anywhere_else_is_found() {
        check_file("crates/core/src/a.rs", LIFT, &["crates/core/src/a.rs:2"]);
        check_file("crates/core/src/clock.rs", LIFT, &["crates/core/src/clock.rs:2"]);
        check_file("crates/dispatch/src/http/clock.rs", LIFT, &["crates/dispatch/src/http/clock.rs:2"]);
        check_file("crates/core/src/tests/a.rs", LIFT, &["crates/core/src/tests/a.rs:2"]);
        check_file("crates/sim/src/a.rs", "#![allow(clippy::all)]\n", &["crates/sim/src/a.rs:1"]);
    }

    #[test]
    fn a_ban_hidden_by_a_crates_own_settings_is_found() {
        check_file("crates/core/clippy.toml", "", &["crates/core/clippy.toml:1"]);
        let lints = "[lints.clippy]\ndisallowed_methods = \"allow\"\n";
        check_file("crates/core/Cargo.toml", lints, &["crates/core/Cargo.toml:2"]);
    }

    #[test]
    fn every_ban_that_is_gone_or_commented_out_is_found() {
        for ban in BANS {
            let entry = format!("{{ path = \"{ban}\"");
            let without = bans().replace(&entry, &format!("# {entry}"));
            super::super::check(check, &[("clippy.toml", &without)], &["clippy.toml:1"]);
        }
        super::super::check(check, &[], &["clippy.toml:1"; BANS.len()]);
    }
}

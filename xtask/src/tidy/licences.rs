//! Third-party crates: no banned crate anywhere in the graph, and permissive licences only.

use std::iter::Peekable;
use std::str::SplitWhitespace;

use super::Violation;
use super::graph::{Graph, Package};
use super::tree::Tree;

#[rustfmt::skip]
const BANNED: &[&str] =
    &["bincode", "chrono", "native-tls", "openssl-sys", "reqwest", "ring", "rsa", "serde_yaml", "sqlx"];

/// Two of these in one binary are two SQLite libraries, with two ideas of who has locked the file.
const AT_MOST_ONCE: &str = "libsqlite3-sys";

const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(super) fn check(graph: &Graph, tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let copies = graph.packages.iter().filter(|package| package.name == AT_MOST_ONCE).count();
    for package in &graph.packages {
        let entry = format!("name = \"{}\"", package.name);
        if let Some(what) = complaint(package, copies) {
            let line = tree.line_of("Cargo.lock", |line| line == entry);
            violations.push(Violation::new("Cargo.lock", line, what));
        }
    }
    violations
}

fn complaint(package: &Package, copies: usize) -> Option<String> {
    let name = package.name.as_str();
    let licence = package.licence.as_deref().unwrap_or("no licence");
    let problem = match name {
        _ if BANNED.contains(&name) => "is banned".into(),
        AT_MOST_ONCE if copies > 1 => format!("is there {copies} times"),
        _ if !is_permissive(licence) => format!("is under `{licence}`, which is not permissive"),
        _ => return None,
    };
    Some(format!("`{name}` {} {problem}; see `cargo tree -i {name}` and do without it", package.version))
}

/// Whether permissive licences alone satisfy this SPDX expression; false if it cannot be parsed.
fn is_permissive(expression: &str) -> bool {
    // "MIT/Apache-2.0" is how crates wrote OR before SPDX.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words) == Some(true) && words.next().is_none()
}

fn any_of(words: &mut Peekable<SplitWhitespace>) -> Option<bool> {
    let mut is_met = all_of(words)?;
    while words.next_if_eq(&"OR").is_some() {
        is_met |= all_of(words)?;
    }
    Some(is_met)
}

fn all_of(words: &mut Peekable<SplitWhitespace>) -> Option<bool> {
    let mut is_met = one(words)?;
    while words.next_if_eq(&"AND").is_some() {
        is_met &= one(words)?;
    }
    Some(is_met)
}

fn one(words: &mut Peekable<SplitWhitespace>) -> Option<bool> {
    let mut licence = words.next()?.to_owned();
    if licence == "(" {
        let is_met = any_of(words)?;
        return words.next_if_eq(&")").map(|_| is_met);
    }
    if words.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", words.next()?);
    }
    Some(PERMISSIVE.contains(&licence.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn check_packages(packages: &[(&str, Option<&str>)], places: &[&str]) {
        let package = |(name, licence): &(&str, Option<&str>)| Package {
            name: (*name).into(),
            licence: licence.map(str::to_owned),
            ..Package::default()
        };
        let packages = packages.iter().map(package).collect();
        let lock = "[[package]]\nname = \"jiff\"\n\n[[package]]\nname = \"ring\"\n";
        expect(&check(&Graph { packages }, &Tree::of(&[("Cargo.lock", lock)])), places);
    }

    #[test]
    fn a_permissive_package_is_fine() {
        check_packages(&[("jiff", Some("Unlicense OR MIT"))], &[]);
    }

    #[test]
    fn every_banned_package_is_found_under_any_licence() {
        check_packages(&[("jiff", Some("MIT")), ("ring", Some("MIT"))], &["Cargo.lock:5"]);
        let all: Vec<_> = BANNED.iter().map(|name| (*name, Some("MIT"))).collect();
        all.iter().filter(|one| one.0 != "ring").for_each(|one| check_packages(&[*one], &["Cargo.lock:1"]));
    }

    #[test]
    fn a_second_sqlite_is_found() {
        let sqlite = ("libsqlite3-sys", Some("MIT"));
        check_packages(&[sqlite], &[]);
        check_packages(&[sqlite, sqlite], &["Cargo.lock:1", "Cargo.lock:1"]);
    }

    #[test]
    fn a_package_without_a_permissive_licence_is_found() {
        check_packages(&[("jiff", None)], &["Cargo.lock:2"]);
        check_packages(&[("jiff", Some("GPL-3.0-only"))], &["Cargo.lock:2"]);
    }

    #[test]
    fn an_expression_is_met_where_one_choice_is_wholly_permissive() {
        assert!(is_permissive("MIT/Apache-2.0"));
        assert!(is_permissive("GPL-3.0 OR MIT"));
        assert!(is_permissive("(MIT OR GPL-3.0) AND Unicode-3.0"));
        assert!(is_permissive("GPL-2.0 AND MPL-2.0 OR Apache-2.0 WITH LLVM-exception"));
    }

    #[test]
    fn an_expression_is_not_met_by_half() {
        assert!(!is_permissive("MIT AND GPL-3.0"));
        assert!(!is_permissive("MIT AND (GPL-3.0 OR MPL-2.0)"));
        assert!(!is_permissive("MIT WITH Classpath-exception-2.0"));
    }

    #[test]
    fn an_expression_that_cannot_be_read_is_not_met() {
        for broken in ["", "MIT OR", "(MIT", "MIT)", "MIT ISC", "OR MIT"] {
            assert!(!is_permissive(broken), "{broken}");
        }
    }
}

//! `cargo xtask tidy`: the house rules that no compiler checks, each a function from values to violations.

mod clock;
mod dependencies;
mod graph;
mod licences;
mod links;
mod migrations;
mod model;
mod modules;
mod names;
mod orphans;
mod text;
mod tree;
mod types;
mod words;

use std::fmt;

use graph::Graph;
use tree::Tree;

/// A violation of a rule: where, what is wrong, and what to do.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Violation {
        let (path, what) = (path.to_owned(), what.into());
        Violation { path, line, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Prints every violation in the workspace; an error when there is one.
pub(crate) fn report() -> Result<(), String> {
    let tree = Tree::read()?;
    let of_files = [
        names::check,
        types::check,
        words::check,
        orphans::check,
        links::check,
        text::check,
        clock::check,
        migrations::check,
        model::check,
    ];
    let mut violations: Vec<Violation> = of_files.iter().flat_map(|rule| rule(&tree)).collect();
    match Graph::read() {
        Ok(graph) => {
            violations.extend(dependencies::check(&graph, &tree));
            violations.extend(licences::check(&graph, &tree));
        }
        // The other rules still apply when cargo cannot load the workspace.
        Err(reason) => violations.push(Violation::new("Cargo.toml", 1, reason)),
    }
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        count => Err(format!("tidy found {count} violations")),
    }
}

/// Shows `rule` a tree and expects violations at these places (`path:line`) and no others.
#[cfg(test)]
fn check(rule: fn(&Tree) -> Vec<Violation>, files: &[(&str, &str)], places: &[&str]) {
    expect(&rule(&Tree::of(files)), places);
}

#[cfg(test)]
fn expect(violations: &[Violation], places: &[&str]) {
    let place = |violation: &Violation| format!("{}:{}", violation.path, violation.line);
    let found: Vec<String> = violations.iter().map(place).collect();
    assert_eq!(found, places, "{violations:#?}");
}

//! No Rust file lies in a crate's `src` without being compiled: each is reached by `mod` from a root.

use std::collections::BTreeSet;

use super::Violation;
use super::modules::{self, Module};
use super::tree::{self, File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let is_source = |file: &&File| inside_src(&file.path).is_some();
    let reached = reachable(tree);
    let orphans = tree.ending(".rs").filter(is_source).filter(|file| !reached.contains(&*file.path));
    let what = "no `mod` reaches this file, so it is never compiled; declare it or delete it";
    orphans.map(|file| Violation::new(&file.path, 1, what)).collect()
}

fn reachable(tree: &Tree) -> BTreeSet<&str> {
    let mut waiting: Vec<&File> = tree.ending(".rs").filter(|file| is_root(&file.path)).collect();
    let mut reached = BTreeSet::new();
    while let Some(file) = waiting.pop() {
        if reached.insert(&*file.path) {
            let elsewhere = modules::declared(&file.text).into_iter().filter(|module| !module.is_inline);
            let homes = elsewhere.flat_map(|module| homes(&file.path, &module));
            waiting.extend(homes.filter_map(|home| tree.get(&home)));
        }
    }
    reached
}

/// The part of a path below its crate's `src`.
fn inside_src(path: &str) -> Option<&str> {
    let below_a_folder = || Some(path.split_once("/src/")?.1);
    path.strip_prefix("src/").or_else(below_a_folder)
}

/// Does cargo compile this file without being told of it?
fn is_root(path: &str) -> bool {
    let below: Vec<&str> = inside_src(path).unwrap_or_default().split('/').collect();
    matches!(below[..], ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"])
}

/// The places where the compiler looks for a module declared in the file `declarer`.
fn homes(declarer: &str, module: &Module) -> Vec<String> {
    let folder = tree::folder(declarer);
    if let Some(path) = module.path {
        return tree::join(folder, path).into_iter().collect();
    }
    let stands_for_its_folder = is_root(declarer) || declarer.ends_with("/mod.rs");
    let nest = if stands_for_its_folder { folder } else { declarer.trim_end_matches(".rs") };
    let home = |ending| format!("{nest}/{}{ending}", module.name);
    vec![home(".rs"), home("/mod.rs")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_files(files: &[(&str, &str)], places: &[&str]) {
        super::super::check(check, files, places);
    }

    #[test]
    fn files_that_are_declared_step_by_step_are_fine() {
        let lib = "mod cron;\n#[path = \"odd/place.rs\"]\nmod odd;\n";
        check_files(&[("a/src/lib.rs", lib), ("a/src/cron/mod.rs", ""), ("a/src/odd/place.rs", "")], &[]);
        let nested = [("src/cron.rs", "mod parse;\n"), ("src/cron/parse.rs", "")];
        check_files(&[("src/lib.rs", lib), nested[0], nested[1]], &[]);
        check_files(&[("a/src/bin/tool.rs", ""), ("a/tests/zones.rs", "")], &[]);
    }

    #[test]
    fn a_file_that_nobody_declares_is_found() {
        for lib in ["", "// mod old;\n", "mod old {\n"] {
            check_files(&[("a/src/lib.rs", lib), ("a/src/old.rs", "")], &["a/src/old.rs:1"]);
        }
    }

    #[test]
    fn a_file_that_only_an_orphan_declares_is_found_with_it() {
        let files = [("src/old.rs", "mod older;\n"), ("src/old/older.rs", "")];
        check_files(&files, &["src/old.rs:1", "src/old/older.rs:1"]);
    }
}

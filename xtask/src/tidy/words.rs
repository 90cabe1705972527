//! Pronouns without a noun stay out of the folders that are rid of them: a sentence names the node, the caller or the
//! executor that it speaks of, so that a stranger need not find out which of them is meant.

use super::Violation;
use super::tree::{File, Tree};

/// In two halves, so that this file does not accuse itself.
const VAGUE: &[&str] = &[concat!("who", "ever"), concat!("whom", "ever"), concat!("some", "body")];

/// The clean files and folders. A folder is added once it is clean; none is removed.
const CLEAN: &[&str] = &[
    ".github",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "HACKING.md",
    "README.md",
    "SECURITY.md",
    "bench",
    "clients",
    "crates/calendar",
    "crates/cli",
    "crates/console/build.rs",
    "crates/console/src",
    "crates/core",
    "crates/dispatch/src/guard",
    "crates/dispatch/src/stream",
    "crates/executor",
    "crates/node/src",
    "crates/observe",
    "crates/peers",
    "crates/protocol",
    "crates/store/src",
    "crates/server/src/cli",
    "crates/server/src/config",
    "crates/server/src/demo",
    "crates/server/src/logs",
    "crates/server/src/wiring",
    "docs",
    "faults",
    "scratch",
    "sim/src/workload",
    "sim/src/world",
    "sim/tests",
    "xtask",
];

const EXTENSIONS: [&str; 4] = [".rs", ".md", ".ts", ".tsx"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_in(tree, CLEAN)
}

fn check_in(tree: &Tree, clean: &[&str]) -> Vec<Violation> {
    let is_read = |file: &&File| EXTENSIONS.iter().any(|extension| file.path.ends_with(extension));
    let is_clean = |file: &&File| clean.iter().any(|path| file.path == *path || is_inside(&file.path, path));
    tree.files.iter().filter(is_read).filter(is_clean).flat_map(|file| file.complain(vague)).collect()
}

fn is_inside(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn vague(line: &str) -> Option<String> {
    let line = line.to_lowercase();
    let mut words = line.split(|c: char| !c.is_alphanumeric());
    let word = words.find(|word| VAGUE.contains(word))?;
    Some(format!("`{word}` has no noun; name the node, caller, executor or person that is meant"))
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn check_file(path: &str, text: &str, places: &[&str]) {
        expect(&check_in(&Tree::of(&[(path, text)]), &["clean", "README.md"]), places);
    }

    #[test]
    fn every_vague_word_is_found_in_every_kind_of_file() {
        for word in VAGUE {
            for path in ["clean/a.rs", "clean/b/c.md", "clean/a.ts", "clean/a.tsx", "README.md"] {
                check_file(path, &format!("x\n({word}'s)\n"), &[&format!("{path}:2")]);
            }
            check_file("clean/a.rs", &word.to_uppercase(), &["clean/a.rs:1"]);
        }
    }

    #[test]
    fn words_that_name_a_thing_are_fine() {
        check_file("clean/a.rs", "the node, and anyone who reads it\n", &[]);
    }

    #[test]
    fn other_folders_and_files_are_not_looked_at() {
        for path in ["cleaner/a.rs", "other/clean/a.rs", "clean.rs", "clean/a.tsv"] {
            check_file(path, VAGUE[0], &[]);
        }
    }

    #[test]
    fn every_folder_on_the_list_exists() {
        let tree = Tree::read().expect("the tests run inside the repository");
        CLEAN.iter().for_each(|path| assert!(tree.holds(path), "{path} is on the list and not in the tree"));
    }
}

//! No file, module or crate has a name that says nothing, such as `util`: it would fill with unrelated code.

use super::tree::{File, Tree};
use super::{Violation, modules};

#[rustfmt::skip]
const EMPTY_WORDS: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "misc", "shared"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let paths = tree.files.iter().filter_map(path_names);
    let modules = tree.ending(".rs").flat_map(module_names);
    let crates = tree.ending("Cargo.toml").flat_map(crate_names);
    paths.chain(modules).chain(crates).collect()
}

fn path_names(file: &File) -> Option<Violation> {
    Some(Violation::new(&file.path, 1, complaint(&file.path)?))
}

fn module_names(file: &File) -> Vec<Violation> {
    let modules = modules::declared(&file.text).into_iter();
    let found = modules.filter_map(|module| Some((module.line, complaint(module.name)?)));
    found.map(|(line, what)| Violation::new(&file.path, line, what)).collect()
}

fn crate_names(manifest: &File) -> Vec<Violation> {
    manifest.complain(|line| complaint(line.strip_prefix("name = ")?))
}

fn complaint(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    let word = words.find(|word| EMPTY_WORDS.contains(word))?;
    Some(format!("the name `{word}` says nothing; call it after what it is about"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str, text: &str, places: &[&str]) {
        super::super::check(check, &[(path, text)], places);
    }

    #[test]
    fn a_word_with_an_empty_word_inside_is_fine() {
        check_file("crates/core/src/commonly_due.rs", "mod utility {\n", &[]);
    }

    #[test]
    fn every_empty_word_is_found_as_a_file_or_a_folder() {
        for word in EMPTY_WORDS {
            check_file(&format!("src/{word}.rs"), "", &[&format!("src/{word}.rs:1")]);
            check_file(&format!("{word}/a.rs"), "", &[&format!("{word}/a.rs:1")]);
        }
    }

    #[test]
    fn an_empty_word_is_found_as_part_of_a_name() {
        check_file("src/string_utils.rs", "", &["src/string_utils.rs:1"]);
        check_file("web/job-Helpers.test.ts", "", &["web/job-Helpers.test.ts:1"]);
    }

    #[test]
    fn crates_and_modules_have_names_too() {
        check_file("x/Cargo.toml", "[package]\nname = \"punctual-shared\"\n", &["x/Cargo.toml:2"]);
        check_file("src/lib.rs", "//! x\npub mod misc {\n", &["src/lib.rs:2"]);
    }
}

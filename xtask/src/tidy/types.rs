//! A type name means one thing: no struct, enum, trait, union or type alias is defined in more than three files.
//!
//! A reader who meets `Line` in nine files has to look up which of nine it is. Associated types and types inside functions
//! have their owner beside them and are not counted; tests, benches and examples are programs of their own.

use std::collections::BTreeMap;

use super::Violation;
use super::tree::{self, File, Tree};

const FILES_MAX: usize = 3;

/// Where [`LISTED`] stands.
const HERE: &str = "xtask/src/tidy/types.rs";

/// Names that stand in more files than that, and in how many. A number may only fall, and a new name may not come in.
const LISTED: &[(&str, usize)] = &[("Answer", 4), ("Options", 5), ("Run", 4)];

const KEYWORDS: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_against(tree, LISTED)
}

fn check_against(tree: &Tree, listed: &[(&str, usize)]) -> Vec<Violation> {
    let mut files: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for file in tree.ending(".rs").filter(|file| is_counted(&file.path)) {
        for (line, name) in defined(file) {
            files.entry(name).or_default().entry(&file.path).or_insert(line);
        }
    }
    let allowed =
        |name: &str| listed.iter().find(|(one, _)| *one == name).map_or(FILES_MAX, |(_, count)| *count);
    let crowded = files.iter().filter(|(name, places)| places.len() > allowed(name));
    let crowded = crowded.filter_map(|(name, places)| {
        let (path, line) = places.last_key_value()?;
        let others: Vec<&str> = places.keys().copied().filter(|other| other != path).collect();
        let what = format!(
            "`{name}` is the name of a type in {} files, and {} are allowed; give one of them a name of its own \
             (the others: {})",
            places.len(),
            allowed(name),
            others.join(", ")
        );
        Some(Violation::new(path, *line, what))
    });
    let count = |name: &str| files.get(name).map_or(0, BTreeMap::len);
    let stale = listed.iter().filter(|(name, listed)| count(name) < *listed || *listed <= FILES_MAX);
    let stale = stale.map(|(name, listed)| {
        let line = tree.line_of(HERE, |line| line.contains(&format!("(\"{name}\", ")));
        let what = match count(name) {
            count if count > FILES_MAX => {
                format!("`{name}` stands in {count} files, not {listed}; lower the number")
            }
            count => format!("`{name}` stands in {count} files; take it off the list"),
        };
        Violation::new(HERE, line, what)
    });
    crowded.chain(stale).collect()
}

fn is_counted(path: &str) -> bool {
    let mut folders = tree::folder(path).split('/');
    tree::name(path) != "tests.rs"
        && !folders.any(|folder| matches!(folder, "tests" | "benches" | "examples"))
}

/// The types that a file defines, each with its line, up to the unit tests at its end.
fn defined(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(file.text.lines()).take_while(|(_, line)| *line != "mod tests {");
    lines.filter_map(|(line, code)| Some((line, type_name(code)?)))
}

/// The name of the type that starts on this line. Inside another item an alias is an associated type or a local one.
fn type_name(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let is_indented = code.len() < line.len();
    let code = match code.strip_prefix("pub") {
        Some(scoped) if scoped.starts_with('(') => scoped.split_once(") ")?.1,
        Some(public) => public.strip_prefix(' ')?,
        None => code,
    };
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    let keyword = KEYWORDS.into_iter().find(|keyword| code.starts_with(keyword))?;
    let rest = &code[keyword.len()..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    let is_type = name.starts_with(|c: char| c.is_ascii_uppercase());
    (is_type && !(is_indented && keyword == "type ")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    /// `count` files, `src/0.rs` and on, each with this text.
    fn of_files(count: usize, text: &str) -> Tree {
        let paths: Vec<String> = (0..count).map(|index| format!("src/{index}.rs")).collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), text)).collect();
        Tree::of(&files)
    }

    #[test]
    fn a_name_in_three_files_is_fine_and_in_four_is_found_in_the_last() {
        expect(&check_against(&of_files(3, "//! x\nstruct Line;\n"), &[]), &[]);
        expect(&check_against(&of_files(4, "//! x\nstruct Line;\n"), &[]), &["src/3.rs:2"]);
    }

    #[test]
    fn every_kind_of_definition_is_seen() {
        let texts =
            ["enum Line {", "pub trait Line {", "pub(super) type Line = u8;", "pub(in a::b) union Line {"];
        for text in
            texts.into_iter().chain(["mod x {\n    pub struct Line<T>(T);", "pub unsafe trait Line {}"])
        {
            assert_eq!(check_against(&of_files(4, text), &[]).len(), 1, "{text}");
        }
    }

    #[test]
    fn associated_types_prose_and_tests_are_no_definitions() {
        let texts = [
            "    type Line = u8;\n",
            "// struct Line\n",
            "struct_Line();\n",
            "use a::Line;\n",
            "struct line;\n",
        ];
        for text in texts.into_iter().chain(["#[cfg(test)]\nmod tests {\n    struct Line;\n"]) {
            expect(&check_against(&of_files(4, text), &[]), &[]);
        }
        let elsewhere = ["a/tests/b.rs", "a/benches/b.rs", "a/examples/b.rs", "a/src/b/tests.rs"];
        expect(&check_against(&Tree::of(&elsewhere.map(|path| (path, "struct Line;\n"))), &[]), &[]);
    }

    #[test]
    fn a_file_that_defines_a_name_twice_counts_once() {
        let twice = "#[cfg(unix)]\nstruct Line;\n#[cfg(windows)]\nstruct Line;\n";
        expect(&check_against(&of_files(3, twice), &[]), &[]);
    }

    #[test]
    fn a_listed_name_may_not_come_in_again_and_its_number_has_to_fall() {
        let here = |count| {
            let mut tree = of_files(count, "struct Line;\n");
            tree.files.extend(Tree::of(&[(HERE, "const LISTED: …\n    (\"Line\", 5),\n")]).files);
            tree
        };
        let listed = &[("Line", 5)];
        expect(&check_against(&here(5), listed), &[]);
        expect(&check_against(&here(6), listed), &["src/5.rs:1"]);
        let (lower, gone) = (check_against(&here(4), listed), check_against(&here(3), listed));
        expect(&lower, &[&format!("{HERE}:2")]);
        expect(&gone, &[&format!("{HERE}:2")]);
        assert!(
            lower[0].what.ends_with("lower the number") && gone[0].what.ends_with("take it off the list")
        );
    }
}

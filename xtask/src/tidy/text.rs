//! Rules about the text of every file: its opening line, its length, and what must not be left in it.
//!
//! The forbidden words are written in two halves, so that this file does not accuse itself.

use super::Violation;
use super::tree::{self, File, Tree};

const LINES_MAX: usize = 800;

#[rustfmt::skip]
const FORBIDDEN_CODE: &[(&str, &str)] = &[
    (concat!("to", "do!("), "write it, or leave it out"),
    (concat!("unimpl", "emented!("), "write it, or leave it out"),
    (concat!("#[", "ignore"), "mend the test or delete it; one that does not run promises nothing"),
    (concat!("db", "g!("), "take it out"),
    (concat!("thread::", "sleep"), "return when to wake; a test moves its clock instead"),
];

const LOOSE_ENDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

const MACHINES: &[&str] = &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

type LineRule = fn(&str) -> Option<String>;
type FileRule = fn(&File) -> Option<Violation>;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().flat_map(check_file).chain(ci_run(tree)).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let of_lines: [(bool, LineRule); 4] = [
        (has_extension(file, &["rs"]), forbidden_code),
        (is_ours(file), loose_end),
        (is_ours(file), machine_path),
        (has_extension(file, &["rs", "md", "toml"]), trailing_blank),
    ];
    let of_files: [(bool, FileRule); 3] = [
        (has_extension(file, &["rs"]), opening),
        (has_extension(file, &["rs", "ts", "tsx"]), length),
        (true, last_newline),
    ];
    let applying = of_lines.into_iter().filter(|(applies, _)| *applies);
    let mut violations: Vec<_> = applying.flat_map(|(_, rule)| file.complain(rule)).collect();
    let applying = of_files.into_iter().filter(|(applies, _)| *applies);
    violations.extend(applying.filter_map(|(_, rule)| rule(file)));
    violations
}

fn has_extension(file: &File, extensions: &[&str]) -> bool {
    let extension = file.path.rsplit_once('.').map_or("", |(_, extension)| extension);
    extensions.contains(&extension)
}

/// Whether we wrote the file, and not a tool, a lawyer or the makers of a data set.
fn is_ours(file: &File) -> bool {
    let name = tree::name(&file.path);
    !(name == "LICENSE" || name.ends_with(".tsv") || name.ends_with(".lock") || name.contains("-lock."))
}

fn forbidden_code(line: &str) -> Option<String> {
    let (pattern, advice) = FORBIDDEN_CODE.iter().find(|(pattern, _)| line.contains(pattern))?;
    Some(format!("`{pattern}` is not left in this tree; {advice}"))
}

fn loose_end(line: &str) -> Option<String> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let word = words.find(|word| LOOSE_ENDS.contains(word))?;
    Some(format!("`{word}` is a loose end; do it now, or say plainly what is not there"))
}

fn machine_path(line: &str) -> Option<String> {
    // After a name, a dot or a variable it is the middle of a longer path, which is nobody's machine.
    let is_inner = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "._-~/})$".contains(c));
    let begins = |path: &&&str| line.match_indices(**path).any(|(at, _)| !is_inner(&line[..at]));
    let path = MACHINES.iter().find(begins)?;
    Some(format!("a path under `{path}` is one machine's; write it relative to the root"))
}

fn trailing_blank(line: &str) -> Option<String> {
    let has_blank = line.ends_with(char::is_whitespace);
    has_blank.then(|| "the line ends with a blank; take it out".into())
}

fn opening(file: &File) -> Option<Violation> {
    let what = "does not open with a `//!` line; say first what this file is for";
    (!file.text.starts_with("//! ")).then(|| Violation::new(&file.path, 1, what))
}

fn length(file: &File) -> Option<Violation> {
    let count = file.text.lines().count();
    let what = format!("has {count} lines, over {LINES_MAX}; split it where its head would say \"and\"");
    (count > LINES_MAX).then(|| Violation::new(&file.path, LINES_MAX + 1, what))
}

fn last_newline(file: &File) -> Option<Violation> {
    let is_complete = file.text.is_empty() || file.text.ends_with('\n');
    let what = "the last line has no newline; end it with one";
    (!is_complete).then(|| Violation::new(&file.path, file.text.lines().count(), what))
}

/// CI runs the one test command and nothing else, so that a person can run every check.
fn ci_run(tree: &Tree) -> Option<Violation> {
    let file = tree.get(".ci/run");
    let lines: Vec<&str> = file.map_or("", |file| &file.text).lines().collect();
    let does_just_that =
        matches!(lines[..], [first, "cargo xtask test" | "exec cargo xtask test"] if first.starts_with("#!"));
    let what = match does_just_that {
        true if file.is_some_and(|file| file.is_executable) => return None,
        true => "is not executable; run `chmod +x .ci/run`",
        false => "is not just a shebang and `cargo xtask test`; what else it does belongs in xtask",
    };
    Some(Violation::new(".ci/run", 1, what))
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const CI_RUN: &str = "#!/usr/bin/env bash\nexec cargo xtask test\n";

    fn check_text(path: &str, text: &str, places: &[&str]) {
        super::super::check(check, &[(path, text), (".ci/run", CI_RUN)], places);
    }

    #[test]
    fn good_files_pass_every_rule() {
        check_text("src/lib.rs", "//! Names instants.\n\npub struct Method;\n", &[]);
        check_text("a.md", "See `crates/work/x`, `$X/home/y` and https://example.com/root/z.\n", &[]);
        check_text("empty.txt", "", &[]);
    }

    #[test]
    fn a_rust_file_that_does_not_say_what_it_is_for_is_found() {
        for text in ["", "use std::fmt;\n", "// Not a doc comment.\n", "\n//! Too late.\n"] {
            check_text("tests/a.rs", text, &["tests/a.rs:1"]);
        }
    }

    #[test]
    fn every_forbidden_piece_of_code_is_found() {
        for (pattern, _) in FORBIDDEN_CODE {
            check_text("build.rs", &format!("//! x\n    {pattern}\n"), &["build.rs:2"]);
        }
    }

    #[test]
    fn a_file_of_801_lines_is_found_and_one_of_800_is_not() {
        check_text("a.tsx", &"x\n".repeat(801), &["a.tsx:801"]);
        check_text("a.ts", &"x\n".repeat(800), &[]);
    }

    #[test]
    fn every_loose_end_is_found_but_not_in_a_lock_file_or_inside_a_word() {
        for word in LOOSE_ENDS {
            check_text("a.md", &format!("x\n({word}: later)\n"), &["a.md:2"]);
            check_text("package-lock.json", &format!("{word}\n"), &[]);
            check_text("a.md", &format!("{word}S\n"), &[]);
        }
    }

    #[test]
    fn every_machine_path_is_found_but_not_in_a_data_set() {
        for path in MACHINES {
            check_text("a.toml", &format!("folder = \"{path}x\"\n"), &["a.toml:1"]);
            check_text("a.tsv", &format!("{path}x\n"), &[]);
        }
    }

    #[test]
    fn a_last_line_without_newline_is_found() {
        check_text("a.json", "{\n}", &["a.json:2"]);
    }

    #[test]
    fn blanks_and_carriage_returns_at_the_end_of_a_line_are_found() {
        check_text("a.md", "one \ntwo\r\nthree\n", &["a.md:1", "a.md:2"]);
    }

    #[test]
    fn a_ci_that_is_missing_or_does_more_or_less_is_found() {
        super::super::check(check, &[], &[".ci/run:1"]);
        for text in ["cargo xtask test\n", &format!("{CI_RUN}npm test\n")] {
            super::super::check(check, &[(".ci/run", text)], &[".ci/run:1"]);
        }
    }

    #[test]
    fn a_ci_that_cannot_be_executed_is_found() {
        let mut tree = Tree::of(&[(".ci/run", CI_RUN)]);
        tree.files[0].is_executable = false;
        expect(&check(&tree), &[".ci/run:1"]);
    }
}

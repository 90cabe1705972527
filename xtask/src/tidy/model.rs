//! The memory model of the store shares no rule with the stores that it judges: a mistake in shared code would be found by no
//! comparison. So the model uses nothing of its crate but itself and the type of the clock, and only tests use the model.

use super::Violation;
use super::tree::{File, Tree};

const CRATE: &str = "crates/store/src/";
const MODEL: [&str; 2] = ["crates/store/src/memory.rs", "crates/store/src/memory/"];

/// What the model may use of its crate.
const USED_BY_MODEL: [&str; 2] = ["memory", "StoreClock"];

/// What the rest of the crate may not use.
const THE_MODEL: [&str; 2] = ["memory", "Memory"];

/// Where the model is compared with the rules, which is compiled for tests only; and where the crate shows it to others.
const USES_MODEL: [&str; 3] = [
    "crates/store/src/rules/against_memory.rs",
    "crates/store/src/rules/against_memory/",
    "crates/store/src/lib.rs",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let of_crate = tree.ending(".rs").filter(|file| file.path.starts_with(CRATE));
    let check = |file: &File| match is_in(&file.path, &MODEL) {
        true => file.complain(|line| what_model_uses(&file.path, line)),
        false if is_in(&file.path, &USES_MODEL) => Vec::new(),
        false => file.complain(what_uses_model),
    };
    of_crate.flat_map(check).collect()
}

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path == *place || place.ends_with('/') && path.starts_with(place))
}

fn what_model_uses(path: &str, line: &str) -> Option<String> {
    let code = code(line);
    // A file of the folder is two steps away from the crate, `memory.rs` one.
    let up = if path == MODEL[0] { "super::" } else { "super::super::" };
    let is_outside = |name: &&str| !USED_BY_MODEL.contains(name);
    let name = names_after(code, "crate::").into_iter().find(is_outside);
    let name = name.or_else(|| names_after(code, up).into_iter().find(is_outside))?;
    Some(format!(
        "the memory model may not use `{name}`; write its own version, so that it can judge the other one"
    ))
}

fn what_uses_model(line: &str) -> Option<String> {
    let uses = ["crate::", "super::"].into_iter().flat_map(|path| names_after(code(line), path));
    let name = uses.into_iter().find(|name| THE_MODEL.contains(name))?;
    Some(format!("`{name}` is the model that stores are judged by; only tests may use it"))
}

/// A line without its comment.
fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// The names that are taken directly from a path on this line: `a` and `b` for `crate::a::x` and for `crate::{a, b}`.
fn names_after<'l>(code: &'l str, path: &str) -> Vec<&'l str> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let name = |text: &'l str| &text[..text.find(|c| !is_of_name(c)).unwrap_or(text.len())];
    let starts = code.match_indices(path).filter(|(at, _)| !code[..*at].ends_with(is_of_name));
    let after = starts.map(|(at, _)| &code[at + path.len()..]);
    let names = after.flat_map(|rest| match rest.strip_prefix('{') {
        Some(list) => list.split(',').map(|one| name(one.trim_start())).collect(),
        None => vec![name(rest)],
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::check as check_files;
    use super::*;

    fn check_line(path: &str, line: &str, is_found: bool) {
        let path = format!("{CRATE}{path}");
        let place = format!("{path}:2");
        let places: &[&str] = if is_found { &[&place] } else { &[] };
        check_files(check, &[(&path, &format!("//! x\n{line}\n"))], places);
    }

    #[test]
    fn the_model_may_not_use_the_rules_however_it_names_them() {
        for line in [
            "use crate::rules::circle;",
            "use crate::thin::{Chosen, Found, Kin};",
            "use crate::{StoreClock, rules};",
            "        crate::rules::counts::count(counts, close);",
            "    use super::super::rules;",
        ] {
            check_line("memory/prune.rs", line, true);
        }
        check_line("memory.rs", "use super::rules::circle;", true);
    }

    #[test]
    fn the_model_may_use_itself_the_clock_and_other_crates() {
        for line in [
            "use crate::StoreClock;",
            "use crate::memory::state::State;",
            "use super::state::{Run, State};",
            "// unlike crate::rules::circle",
            "use punctual_core::cluster::home;",
        ] {
            check_line("memory/prune.rs", line, false);
        }
        check_line("memory.rs", "use self::state::State;", false);
    }

    #[test]
    fn only_tests_may_use_the_model() {
        for line in
            ["use crate::memory::Dump;", "use crate::{Memory, StoreClock};", "    super::memory::x();"]
        {
            for path in ["sqlite/gate.rs", "rules/settle.rs", "rules.rs", "redis.rs"] {
                check_line(path, line, true);
            }
            check_line("rules/against_memory.rs", line, false);
            check_line("rules/against_memory/tables.rs", line, false);
        }
        check_line("lib.rs", "pub use memory::Memory;", false);
        check_line("sqlite/gate.rs", "use crate::rules::Memory;", false);
    }

    #[test]
    fn other_crates_are_not_looked_at() {
        let files =
            [("crates/node/src/memory.rs", "use crate::rules;"), ("sim/src/a.rs", "use crate::Memory;")];
        check_files(check, &files, &[]);
    }
}

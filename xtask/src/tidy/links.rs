//! Every page can be reached by links from a README, and no link between our files leads nowhere.

use std::collections::BTreeSet;

use super::Violation;
use super::tree::{self, File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let broken = tree.ending(".md").flat_map(|page| broken(page, tree));
    let reached = reachable(tree);
    let unread = tree.ending(".md").filter(|page| wants_a_link(&page.path) && !reached.contains(&*page.path));
    let what = "no link leads here from README.md; link it from a page that is read, or delete it";
    broken.chain(unread.map(|page| Violation::new(&page.path, 1, what))).collect()
}

fn broken(page: &File, tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (line, target) in links(&page.text) {
        if resolve(&page.path, &target).is_none_or(|path| !tree.holds(&path)) {
            let what = format!("the link to `{target}` leads nowhere; mend it or take it out");
            violations.push(Violation::new(&page.path, line, what));
        }
    }
    violations
}

fn reachable(tree: &Tree) -> BTreeSet<&str> {
    let mut waiting: Vec<&File> = tree.ending(".md").filter(|page| is_root(&page.path)).collect();
    let mut reached = BTreeSet::new();
    while let Some(page) = waiting.pop() {
        if page.path.ends_with(".md") && reached.insert(&*page.path) {
            let targets = links(&page.text).into_iter().filter_map(|link| resolve(&page.path, &link.1));
            waiting.extend(targets.filter_map(|path| tree.get(&path)));
        }
    }
    reached
}

/// The pages that people and registries start from.
fn is_root(path: &str) -> bool {
    let is_of_a_crate = path.starts_with("crates/") && path.ends_with("/README.md");
    is_of_a_crate || path == "README.md" || path == "CHANGELOG.md"
}

fn wants_a_link(path: &str) -> bool {
    !is_root(path) && (path.starts_with("docs/") || !path.contains('/'))
}

/// The file or folder that a link on `page` means, or nothing where it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    let from = if path.starts_with('/') { "" } else { tree::folder(page) };
    tree::join(from, path)
}

/// The links of a Markdown text to other files, each with its line; code is not looked into.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let prose: String = line.split('`').step_by(2).collect();
            found.extend(targets(&prose).map(|target| (number, target.to_owned())));
        }
    }
    found
}

/// `[text](target "title")` anywhere in a line, or the line as a definition, `[name]: target`.
fn targets(prose: &str) -> impl Iterator<Item = &str> {
    let definition = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let written = prose.split("](").skip(1).chain(definition.map(|(_, target)| target));
    let targets = written.filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.starts_with('#') && !target.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_files(files: &[(&str, &str)], places: &[&str]) {
        super::super::check(check, files, places);
    }

    #[test]
    fn pages_linked_step_by_step_are_fine() {
        let readme = "[how](HOUSE.md \"title\"), [why][w] ![x](https://example.com/x.png)\n\n[w]: docs/\n";
        let house = ("HOUSE.md", "[`words`](docs/words.md#run)\n");
        let words = ("docs/words.md", "[back](../README.md) [here](#run) [root](/HOUSE.md)\n");
        check_files(&[("README.md", readme), house, words, ("CHANGELOG.md", "")], &[]);
        check_files(&[("crates/a/README.md", "[words](../../docs/a.md)\n"), ("docs/a.md", "")], &[]);
    }

    #[test]
    fn a_page_that_nothing_links_is_found() {
        check_files(&[("README.md", ""), ("docs/lonely.md", "")], &["docs/lonely.md:1"]);
        check_files(&[("README.md", ""), ("NOTES.md", "")], &["NOTES.md:1"]);
    }

    #[test]
    fn a_page_that_only_an_unread_page_links_is_found_with_it() {
        let circle = [("docs/a.md", "[b](b.md)\n"), ("docs/b.md", "[a](a.md)\n")];
        check_files(&circle, &["docs/a.md:1", "docs/b.md:1"]);
    }

    #[test]
    fn a_link_to_nothing_or_out_of_the_repository_is_found_on_its_line() {
        check_files(&[("README.md", "x\n[gone](docs/gone.md)\n")], &["README.md:2"]);
        check_files(&[("README.md", "[gone]\n\n[gone]: gone.md\n")], &["README.md:3"]);
        check_files(&[("README.md", "[out](../out.md)\n")], &["README.md:1"]);
    }

    #[test]
    fn what_is_written_as_code_is_no_link() {
        check_files(&[("README.md", "`[a](b.md)`\n```\n[c](d.md)\n```\n")], &[]);
    }
}

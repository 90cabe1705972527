//! The project's files as values, so that tests can show a rule a tree that was never written to disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::Violation;
use crate::workspace;

/// Every file that is in the repository or would be with the next `git add`.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

pub(super) struct File {
    /// From the root of the workspace.
    pub(super) path: String,
    /// Empty for a file that is not UTF-8: only its name is checked.
    pub(super) text: String,
    pub(super) is_executable: bool,
}

impl Tree {
    pub(super) fn read() -> Result<Tree, String> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listing = workspace::output(git.current_dir(workspace::root()))?;
        let files = listing.split_terminator('\0').filter_map(File::read).collect();
        Ok(Tree { files })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).into(),
            text: (*text).into(),
            is_executable: true,
        };
        Tree { files: files.iter().map(file).collect() }
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn ending(&self, suffix: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.ends_with(suffix))
    }

    /// Whether there is a file, or a folder with files, of this path.
    pub(super) fn holds(&self, path: &str) -> bool {
        let is_it_or_inside = |rest: &str| path.is_empty() || rest.is_empty() || rest.starts_with('/');
        let mut rests = self.files.iter().filter_map(|file| file.path.strip_prefix(path));
        rests.any(is_it_or_inside)
    }

    /// The first line of `path` for which `is_it` holds; else line 1, because a violation needs a line.
    pub(super) fn line_of(&self, path: &str, is_it: impl Fn(&str) -> bool) -> usize {
        let mut lines = self.get(path).map_or("", |file| &file.text).lines();
        lines.position(is_it).map_or(1, |index| index + 1)
    }
}

impl File {
    /// None for entries of git that are no file: a submodule, or a deletion that is not staged yet.
    fn read(path: &str) -> Option<File> {
        let on_disk = workspace::root().join(path);
        let is_executable = fs::metadata(&on_disk).ok()?.permissions().mode() & 0o111 != 0;
        let text = String::from_utf8(fs::read(&on_disk).ok()?).unwrap_or_default();
        Some(File { path: path.to_owned(), text, is_executable })
    }

    /// A violation for every line for which `complaint` returns one.
    pub(super) fn complain(&self, complaint: impl Fn(&str) -> Option<String>) -> Vec<Violation> {
        // Not `str::lines`, which would hide a carriage return.
        let lines = (1..).zip(self.text.split('\n'));
        let found = lines.filter_map(|(number, line)| Some((number, complaint(line)?)));
        found.map(|(number, what)| Violation::new(&self.path, number, what)).collect()
    }
}

/// The folder part of a path; nothing for a file at the root.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The last part of a path.
pub(super) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// `relative` as seen from `folder`, or nothing where it climbs out of the repository.
pub(super) fn join(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_followed_up_and_down_but_not_out() {
        let joined = |folder, relative| join(folder, relative).unwrap_or("nothing".into());
        assert_eq!(joined("docs/guides", "../concepts.md"), "docs/concepts.md");
        assert_eq!(joined("", "./docs/"), "docs");
        assert_eq!(joined("docs", "../../elsewhere.md"), "nothing");
    }

    #[test]
    fn a_folder_is_held_by_its_whole_name_only() {
        let tree = Tree::of(&[("docs/guides/first.md", "")]);
        assert!(tree.holds("docs/guides") && tree.holds("docs/guides/first.md"));
        assert!(!tree.holds("docs/guide"));
    }

    #[test]
    fn the_files_of_this_repository_are_read() {
        let tree = Tree::read().expect("the tests run inside the repository");
        let this = tree.get("xtask/src/tidy/tree.rs").expect("this file");
        assert!(this.text.starts_with("//! The project's files"));
    }
}

//! Migrations have twins: a step of the schema has the same name in every dialect, and every dialect has the same tables, so
//! that the schemas do not drift apart by accident. Intended differences are listed here with their reasons.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::tree::{File, Tree, folder, name};

const DIALECTS: [&str; 3] = ["postgres", "mysql", "sqlite"];

/// Steps that only some dialects have, and why.
const STEPS: &[(&str, &str)] = &[
    ("applications", "no application reaches the file of the embedded store"),
    // The embedded store was published before the others, whose first step has these.
    ("door", "in the first step elsewhere"),
    ("browse", "in the first step elsewhere"),
    ("executors", "in the first step elsewhere"),
    ("cluster", "in the first step elsewhere"),
];

/// Tables that only some dialects have, and why.
const TABLES: &[(&str, &str)] = &[
    ("attempts", "MySQL and SQLite make it for each day"),
    ("closes", "MySQL and SQLite make it for each day"),
    ("joins", "MySQL and SQLite make it for each day"),
    ("kills", "MySQL and SQLite make it for each day"),
    ("logs", "MySQL and SQLite make it for each day"),
    ("parts", "MySQL and SQLite make it for each day"),
    ("runs", "MySQL and SQLite make it for each day"),
    ("sends", "MySQL and SQLite make it for each day"),
    ("closes_far", "MySQL makes it as the table of a day; SQLite has stretches of days"),
    ("runs_far", "MySQL makes it as the table of a day; SQLite has stretches of days"),
    ("births", "the one writer of SQLite keeps it in memory"),
    ("flights", "SQLite finds open gates by its late indexes"),
    ("layers", "the late indexes of SQLite"),
    ("days", "the tables of MySQL's days"),
    ("buckets", "MySQL counts the runs of a day in `tallies`"),
    ("tallies", "runs of days in MySQL, runs of jobs in SQLite"),
    ("counts", "SQLite counts the runs of jobs in `tallies`"),
    // MySQL cannot add a column in a statement that can be repeated.
    ("pauses", "a column of `apps` elsewhere"),
    ("retentions", "a column of `apps` elsewhere"),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let files: Vec<(&str, &File)> =
        tree.ending(".sql").filter_map(|file| Some((dialect(file)?, file))).collect();
    if files.is_empty() {
        return Vec::new();
    }
    let steps = files.iter().map(|(dialect, file)| (step(file), *dialect, *file, 1)).collect();
    let tables = files.iter().flat_map(|(dialect, file)| {
        let created = (1..).zip(file.text.lines()).filter_map(|(line, code)| Some((line, created(code)?)));
        created.map(|(line, table)| (table, *dialect, *file, line))
    });
    let mut violations = lonely("step", steps, STEPS);
    violations.extend(lonely("table", tables.collect(), TABLES));
    violations
}

/// A name, the dialect that has it, and where.
type Seen<'t> = (&'t str, &'t str, &'t File, usize);

/// Violations for names that are not in every dialect, unless they are listed.
fn lonely(kind: &str, seen: Vec<Seen<'_>>, listed: &[(&str, &str)]) -> Vec<Violation> {
    let mut dialects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, dialect, _, _) in &seen {
        dialects.entry(name).or_default().insert(dialect);
    }
    let complain = |(name, _, file, line): Seen<'_>| {
        let lacking = DIALECTS.iter().filter(|dialect| !dialects[name].contains(*dialect));
        let lacking: Vec<&str> = lacking.copied().collect();
        let is_listed = listed.iter().any(|(one, _)| *one == name);
        let what = format!("{kind} `{name}` has no twin in {}", lacking.join(" and "));
        (!lacking.is_empty() && !is_listed).then(|| Violation::new(&file.path, line, what))
    };
    seen.into_iter().filter_map(complain).collect()
}

/// The dialect of a migration; nothing for another file.
fn dialect(file: &File) -> Option<&'static str> {
    let dialect = folder(&file.path).strip_prefix("crates/store/migrations/")?;
    DIALECTS.into_iter().find(|known| *known == dialect)
}

/// The name of a step without its number: a dialect that was published earlier counts differently.
fn step(file: &File) -> &str {
    let name = name(&file.path).trim_end_matches(".sql");
    name.split_once('_').map_or(name, |(_, step)| step)
}

/// The table that a line creates.
fn created(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("create table ")?;
    let rest = rest.strip_prefix("if not exists ").unwrap_or(rest);
    let table = rest.split([' ', '(']).next()?.trim_matches('`');
    (!table.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_steps(files: &[(&str, &str)], places: &[&str]) {
        let path = |name: &str| format!("crates/store/migrations/{name}.sql");
        let files: Vec<(String, &str)> = files.iter().map(|(name, text)| (path(name), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        super::super::check(check, &files, places);
    }

    #[test]
    fn steps_and_tables_that_every_dialect_has_are_fine() {
        let files = [
            ("postgres/0002_paused", "create table jobs (\n"),
            ("mysql/0002_paused", "create table if not exists `jobs` (\n"),
            ("sqlite/0007_paused", "create table jobs (id integer) strict;\n"),
        ];
        check_steps(&files, &[]);
    }

    #[test]
    fn a_step_without_a_twin_is_found() {
        let files = [("postgres/0006_colours", ""), ("mysql/0006_colours", "")];
        let (first, second) = ("crates/store/migrations/postgres", "crates/store/migrations/mysql");
        check_steps(
            &files,
            &[&format!("{first}/0006_colours.sql:1"), &format!("{second}/0006_colours.sql:1")],
        );
    }

    #[test]
    fn a_table_without_a_twin_is_found_where_it_is_made() {
        let files = [
            ("postgres/0006_a", "-- additive\ncreate table colours (\n"),
            ("mysql/0006_a", "create table if not exists colors (\n"),
            ("sqlite/0009_a", "create table colours (\n"),
        ];
        let places = [
            "crates/store/migrations/postgres/0006_a.sql:2",
            "crates/store/migrations/mysql/0006_a.sql:1",
            "crates/store/migrations/sqlite/0009_a.sql:1",
        ];
        check_steps(&files, &places);
    }

    #[test]
    fn what_differs_on_purpose_is_listed() {
        check_steps(&[("mysql/0001_applications", "create table if not exists days (\n")], &[]);
    }

    #[test]
    fn other_files_are_not_looked_at() {
        check_steps(&[("notes/0001_first", "create table x (\n")], &[]);
    }
}

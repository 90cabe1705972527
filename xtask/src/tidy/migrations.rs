//! Migrations have twins: a step of the schema has the same name in every dialect, every dialect has the same tables, and
//! these have the same columns, so that the schemas do not drift apart by accident. Intended differences are listed here with
//! their reasons.

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

/// Columns that only some of the dialects have that have the table, and why.
const COLUMNS: &[(&str, &str)] = &[
    ("apps.paused", "MySQL has the table `pauses`"),
    ("apps.retention", "MySQL has the table `retentions`"),
    ("arrivals.app", "no application reaches the file of the embedded store"),
    ("arrivals.job", "no application reaches the file of the embedded store"),
    ("arrivals.payload", "no application reaches the file of the embedded store"),
    ("arrivals.key", "no application reaches the file of the embedded store"),
    ("arrivals.key_text", "`key` is a word of MySQL's"),
    ("arrivals.priority", "no application reaches the file of the embedded store"),
    ("arrivals.refused", "no application reaches the file of the embedded store"),
    ("births.id", "MySQL deletes the births that it has read by number"),
    ("clocks.decided", "`decided_to` elsewhere"),
    ("clocks.decided_to", "`decided` in PostgreSQL"),
    ("clocks.due_at", "MySQL has no partial indexes"),
    ("clocks.reserved", "`reserved_to` elsewhere"),
    ("clocks.reserved_to", "`reserved` in PostgreSQL"),
    ("counts.prior", "MySQL answers an update with no row"),
    ("keys.key", "MySQL keeps the digest of a key alone"),
    ("nodes.renewals", "MySQL says whether an update matched only if it changed something"),
    ("requests.by", "MySQL keeps the digest of both"),
    ("requests.key", "MySQL keeps the digest of both"),
    ("requests.id", "the number of a row of SQLite"),
    ("sequences.last", "`next` in SQLite, which keeps the first free one"),
    ("sequences.next", "`last` elsewhere"),
    ("shards.floor", "`births` elsewhere"),
    ("thinned.app", "MySQL keeps the digest alone"),
    ("waiting.fire_time", "MySQL loads what waits without looking into the tables of days"),
    ("waiting.origin", "as `fire_time`"),
    ("waiting.decided", "as `fire_time`"),
    ("waiting.priority", "as `fire_time`"),
    ("waiting.has_payload", "as `fire_time`"),
    ("waiting.overrides", "as `fire_time`"),
];

/// Tables that have one name and different purposes, as [`TABLES`] says of them.
const NAMESAKES: &[&str] = &["buckets", "tallies"];

/// What the columns end with by which MySQL finds long texts: it cannot index them, so it indexes their digests.
const DIGEST: &str = "_key";

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
    violations.extend(lonely_columns(&files, COLUMNS));
    violations
}

/// Violations for columns that are not in every dialect that has their table, unless they are listed.
fn lonely_columns(files: &[(&str, &File)], listed: &[(&str, &str)]) -> Vec<Violation> {
    let mut tables: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut columns: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    let mut places = Vec::new();
    for (dialect, file) in files {
        for (line, table, column) in columns_of(&file.text) {
            tables.entry(table).or_default().insert(*dialect);
            columns.entry((table, column)).or_default().insert(*dialect);
            places.push((table, column, *file, line));
        }
    }
    let complain = |(table, column, file, line): (&str, &str, &File, usize)| {
        let lacking = tables[table].difference(&columns[&(table, column)]);
        let lacking: Vec<&str> = lacking.copied().collect();
        let name = format!("{table}.{column}");
        let is_listed = NAMESAKES.contains(&table)
            || column.ends_with(DIGEST)
            || listed.iter().any(|(one, _)| *one == name);
        let what = format!("column `{name}` has no twin in {}", lacking.join(" and "));
        (!lacking.is_empty() && !is_listed).then(|| Violation::new(&file.path, line, what))
    };
    places.into_iter().filter_map(complain).collect()
}

/// The columns that a migration makes, each with its line and its table.
fn columns_of(text: &str) -> Vec<(usize, &str, &str)> {
    let mut columns = Vec::new();
    let mut table = "";
    let mut is_inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start().trim_start_matches('\'');
        if let Some(name) = created(code) {
            (table, is_inside) = (name, code.ends_with('('));
            continue;
        }
        if let Some(rest) = code.strip_prefix("alter table ") {
            table = word(rest);
        }
        is_inside &= !line.starts_with(')');
        let added = code.split_once("add column ").map(|(_, rest)| word(rest));
        let made = || (is_inside && is_column(code)).then(|| word(code));
        columns.extend(added.or_else(made).map(|column| (number, table, column)));
    }
    columns
}

/// The first word of a line, without MySQL's quotes.
fn word(code: &str) -> &str {
    code.split([' ', ',', ';', '(']).next().unwrap_or_default().trim_matches('`')
}

/// Whether a line inside a table makes a column. A column `key` has a type behind it, an index of MySQL's has columns.
fn is_column(code: &str) -> bool {
    match word(code) {
        "" | "--" | "primary" | "unique" | "check" | "constraint" => false,
        "key" => !code.contains('('),
        _ => true,
    }
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
    fn a_column_without_a_twin_is_found_where_it_is_made() {
        let sqlite = "create table jobs (\n    id integer primary key,\n    key text\n) strict;\n";
        let mysql = "create table if not exists jobs (\n    id int,\n    -- a colour\n    colour text,\n    key x (id)\n)\n";
        let files = [
            (
                "postgres/0001_first",
                "create table jobs (\n    id bigint,\n    key text,\n    primary key (id)\n);\n",
            ),
            ("mysql/0001_first", mysql),
            ("sqlite/0001_first", sqlite),
        ];
        let places = [
            "crates/store/migrations/postgres/0001_first.sql:3",
            "crates/store/migrations/mysql/0001_first.sql:4",
            "crates/store/migrations/sqlite/0001_first.sql:3",
        ];
        check_steps(&files, &places);
    }

    #[test]
    fn a_column_that_is_added_to_a_table_needs_its_twins_too() {
        let table = "create table jobs (\n    id bigint\n);\n";
        let files = [
            ("postgres/0001_first", table),
            ("mysql/0001_first", table),
            ("sqlite/0001_first", table),
            (
                "postgres/0002_a",
                "alter table jobs\n    add column colour text,\n    add column shape text;\n",
            ),
            ("mysql/0002_a", "    'alter table jobs add column colour longtext'\n"),
            ("sqlite/0002_a", "alter table jobs add column colour text;\n"),
        ];
        check_steps(&files, &["crates/store/migrations/postgres/0002_a.sql:3"]);
    }

    #[test]
    fn every_column_on_the_list_still_lacks_a_twin() {
        let tree = Tree::read().expect("the tests run inside the repository");
        let files: Vec<(&str, &File)> =
            tree.ending(".sql").filter_map(|file| Some((dialect(file)?, file))).collect();
        let lonely = lonely_columns(&files, &[]);
        for (column, _) in COLUMNS {
            let is_lonely = lonely.iter().any(|violation| violation.what.contains(&format!("`{column}`")));
            assert!(is_lonely, "{column} is on the list and has its twins");
        }
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

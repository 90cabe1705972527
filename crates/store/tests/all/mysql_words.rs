//! What no statement for MySQL says, because some server that is supported refuses it. The sources are read, because no single
//! server refuses all of it.

use std::fs;
use std::path::{Path, PathBuf};

/// MySQL 9.6 has neither function any more, and Oracle's MySQL refuses to set an auto-increment column to itself in an upsert
/// (error 1869).
const REFUSED: [&str; 3] = ["sha1(", "md5(", "update id = id"];

/// Marks of statements for PostgreSQL in the files that all databases share.
const POSTGRES: [&str; 3] = ["$", "on conflict", "Postgres"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn refused(text: &str) -> Vec<String> {
    let is_refused = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        REFUSED.iter().any(|word| lower.contains(word)) && !POSTGRES.iter().any(|mark| line.contains(mark))
    };
    text.lines().filter(is_refused).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn no_statement_uses_what_a_supported_server_refuses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    files(&root.join("src"), &mut sources);
    files(&root.join("migrations/mysql"), &mut sources);
    sources.retain(|path| !path.starts_with(root.join("src/postgres")));
    assert!(sources.len() > 100, "the sources are not where they were");
    for path in sources {
        let found = refused(&fs::read_to_string(&path).unwrap());
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
}

#[test]
fn what_a_server_refuses_is_found_in_any_spelling() {
    let text =
        "insert into locks (id) values (?) on duplicate key UPDATE id = id\nselect MD5(name) from apps";
    assert_eq!(refused(text).len(), 2);
    assert_eq!(refused("select version from apps where md5(name) = md5($1)"), Vec::<String>::new());
}

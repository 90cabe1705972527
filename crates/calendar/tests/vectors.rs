//! Answers of other implementations, where they agree with our decisions by design: see vectors/README.md.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_calendar::{Cron, Rule, Timestamp, Zones};

#[test]
fn other_implementations_agree_where_they_follow_the_same_decisions() {
    let zones = Zones::bundled();
    let mut checked = 0;
    let mut differing = Vec::new();
    for file in vector_files() {
        let text = fs::read_to_string(&file).expect("a readable file");
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (expected, found) = answers(line, &zones);
            if expected != found {
                differing.push(format!("{}: {line}\n  found {found}", file.display()));
            }
            checked += 1;
        }
    }
    assert!(checked > 3_000, "only {checked} vectors were found");
    assert!(differing.is_empty(), "{} of {checked} differ:\n{}", differing.len(), differing.join("\n"));
}

fn vector_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let entries = fs::read_dir(folder).expect("the folder of vectors");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "tsv"));
    files.sort();
    files
}

/// The expected instants of a line and ours, both comma-separated.
fn answers<'a>(line: &'a str, zones: &Zones) -> (&'a str, String) {
    let [dialect, expression, zone, after, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
        panic!("not five columns: {line}");
    };
    let dialect = dialect.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
    let cron = Cron::parse(expression, dialect, "").unwrap_or_else(|error| panic!("{line}: {error}"));
    let rule = Rule::cron(cron, zones.get(zone).unwrap_or_else(|error| panic!("{line}: {error}")));
    let after: Timestamp = after.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
    let following = std::iter::successors(rule.next_after(after), |at| rule.next_after(*at));
    let found: Vec<String> = following.take(expected.split(',').count()).map(|at| at.to_string()).collect();
    (expected, found.join(","))
}

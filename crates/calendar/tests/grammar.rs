//! The grammar by its edges: what is refused, where and why, and the near misses that are valid.

use punctual_calendar::{Cron, CronError, Dialect};

fn parse(text: &str, dialect: &str) -> Result<Cron, CronError> {
    Cron::parse(text, dialect.parse().expect("a dialect"), "grammar/job")
}

fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_row = |line: &&str| !line.starts_with('#') && !line.is_empty();
    table.lines().filter(is_row).map(|line| line.split_once('\t').expect("a dialect and the rest"))
}

#[test]
fn refused_expressions_name_the_place_and_the_reason() {
    let mut refused = 0;
    for (dialect, rest) in rows(include_str!("grammar/refused.tsv")) {
        let [expression, position, message] = rest.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not three columns: {rest}");
        };
        let error = parse(expression, dialect).expect_err(expression);
        assert_eq!(error.to_string(), format!("position {position}, {message}"), "{dialect} {expression:?}");
        refused += 1;
    }
    assert!(refused >= 150, "only {refused} refused expressions");
}

#[test]
fn near_misses_are_valid() {
    for (dialect, expression) in rows(include_str!("grammar/accepted.tsv")) {
        if let Err(error) = parse(expression, dialect) {
            panic!("{dialect} {expression:?}: {error}");
        }
    }
}

#[test]
fn characters_that_only_look_like_blanks_are_named() {
    for (text, column, code) in [
        ("0 9 *\u{a0}* *", 6, "U+00A0"),
        ("0 9 *\n* *", 6, "U+000A"),
        ("0\u{3000}9 * * *", 2, "U+3000"),
        ("ü 9 * *\0*", 8, "U+0000"),
        ("\u{1b}[31m", 1, "U+001B"),
    ] {
        let error = parse(text, "unix").expect_err(text);
        assert_eq!(error.column(), column, "{text:?}");
        assert!(error.reason().starts_with(code), "{error}");
    }
}

#[test]
fn a_line_may_come_with_its_end() {
    for text in ["0 9 * * *\n", "0 9 * * * \r\n"] {
        assert_eq!(parse(text, "unix").unwrap().describe(), "at 09:00 every day");
    }
}

#[test]
fn a_huge_text_is_read_or_refused_and_never_repeated() {
    let longest = 64 * 1024;
    let list = |item: &str| {
        format!("0 0 0 {}{item} * ?", format!("{item},").repeat((longest - 20) / (item.len() + 1)))
    };
    for item in ["1", "L-3W", "31W", "28-3/2", "H(1-28)"] {
        assert!(parse(&list(item), "quartz").is_ok(), "{item}");
    }
    for text in ["x".repeat(longest), ",".repeat(longest), "9".repeat(longest), "* ".repeat(longest / 2)] {
        let error = parse(&text, "unix").expect_err("nonsense");
        assert!(error.to_string().len() < 200, "{error}");
    }
    let error = parse(&"*".repeat(longest + 1), "unix").expect_err("too long");
    assert_eq!(error.reason(), "longer than 65536 bytes");
}

#[test]
fn a_spread_place_depends_on_the_seed_and_on_nothing_else() {
    let words = |text: &str, dialect, seed| Cron::parse(text, dialect, seed).unwrap().describe();
    assert_eq!(words("H H * * *", Dialect::Unix, "reports/nightly"), "at 14:09 every day");
    assert_eq!(words("0 H H * * ?", Dialect::Quartz, "reports/nightly"), "at 14:09 every day");
    assert_ne!(words("H H * * *", Dialect::Unix, "reports/nightlz"), "at 14:09 every day");
    assert_eq!(
        words("H(0-9)/5 * * * *", Dialect::Unix, "reports/nightly"),
        "at minutes 4 and 9 of every hour"
    );
}

//! What was asked of `cargo xtask test`, and how it can end well.

use crate::servers::Kind;

/// How a command ends that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was done.
    All,
    /// Everything but what was to be left out: not what a release is built on.
    WithoutSome,
}

/// A wish for tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// The servers that are not started.
    pub(crate) without: Vec<Kind>,
    /// What cargo is told beyond the usual.
    pub(crate) for_cargo: Vec<String>,
}

impl Test {
    /// Reads `[--without NAMES] [-- ARGS]`.
    pub(crate) fn read(words: &[&str]) -> Result<Test, String> {
        let mut wanted = Test { without: Vec::new(), for_cargo: Vec::new() };
        let mut rest = words;
        loop {
            match rest {
                [] => return Ok(wanted),
                ["--", for_cargo @ ..] => {
                    wanted.for_cargo = for_cargo.iter().map(|word| (*word).to_owned()).collect();
                    return Ok(wanted);
                }
                ["--without", names, more @ ..] => {
                    for name in names.split(',') {
                        wanted.without.push(Kind::named(name).ok_or_else(|| unknown(name))?);
                    }
                    rest = more;
                }
                ["--without"] => return Err("`--without` wants names, such as `mariadb,redis`".into()),
                [word, ..] => return Err(format!("`test` does not know `{word}`")),
            }
        }
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    format!("there is no server `{name}` to leave out; there are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_left_out_by_name_and_the_rest_goes_to_cargo() {
        let wanted =
            Test::read(&["--without", "mariadb,redis", "--", "-p", "xtask"]).expect("it makes sense");
        assert_eq!(wanted.without, [Kind::MariaDb, Kind::Redis]);
        assert_eq!(wanted.for_cargo, ["-p", "xtask"]);
        assert_eq!(Test::read(&[]), Ok(Test { without: Vec::new(), for_cargo: Vec::new() }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [&["--without"][..], &["--without", "oracle"], &["--without", ""], &["fast"]] {
            assert!(Test::read(words).is_err(), "{words:?}");
        }
    }
}

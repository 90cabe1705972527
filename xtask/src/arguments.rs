//! The arguments of `cargo xtask test` and `cargo xtask quick`, and how a command can end well.

use crate::members::Member;
use crate::servers::TestServer;

/// The end of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completeness {
    /// Every test ran.
    All,
    /// Some tests were left out on request: not enough for a release.
    WithoutSome,
}

/// The arguments of `test`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// The servers that are not started.
    pub(crate) without: Vec<TestServer>,
    /// Further arguments for cargo.
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
                        wanted.without.push(TestServer::named(name).ok_or_else(|| unknown(name))?);
                    }
                    rest = more;
                }
                ["--without"] => return Err("`--without` needs names, such as `mariadb,redis`".into()),
                [word, ..] => return Err(format!("`test` does not know `{word}`")),
            }
        }
    }

    /// The arguments for `cargo test`: the store's tests need their server, so those of servers that are left out are
    /// skipped by name.
    pub(crate) fn for_run(&self) -> Vec<&str> {
        let mut words: Vec<&str> = self.for_cargo.iter().map(String::as_str).collect();
        let skipped: Vec<&str> =
            self.without.iter().flat_map(|server| ["--skip", server.in_test_names()]).collect();
        if !skipped.is_empty() && !words.contains(&"--") {
            words.push("--");
        }
        words.extend(skipped);
        words
    }
}

/// The arguments of `quick`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Quick {
    /// The crate to check; without one, all of them.
    pub(crate) only: Option<Member>,
}

impl Quick {
    /// Reads `[CRATE]`.
    pub(crate) fn read(words: &[&str], members: &[Member]) -> Result<Quick, String> {
        match words {
            [] => Ok(Quick { only: None }),
            [name] => {
                let names: Vec<&str> = members.iter().map(|member| &*member.short).collect();
                let complaint = || format!("there is no crate `{name}`; there are {}", names.join(", "));
                let member = members.iter().find(|member| member.is_called(name)).ok_or_else(complaint)?;
                Ok(Quick { only: Some(member.clone()) })
            }
            [_, word, ..] => Err(format!("`quick` takes one crate or none, and not also `{word}`")),
        }
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = TestServer::ALL.iter().map(|kind| kind.name()).collect();
    format!("there is no server `{name}` to leave out; there are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_left_out_by_name_and_the_rest_goes_to_cargo() {
        let wanted =
            Test::read(&["--without", "mariadb,redis", "--", "-p", "xtask"]).expect("it makes sense");
        assert_eq!(wanted.without, [TestServer::MariaDb, TestServer::Redis]);
        assert_eq!(wanted.for_cargo, ["-p", "xtask"]);
        assert_eq!(Test::read(&[]), Ok(Test { without: Vec::new(), for_cargo: Vec::new() }));
    }

    #[test]
    fn tests_of_servers_that_are_left_out_are_skipped() {
        let words = |words: &[&str]| {
            let wanted = Test::read(words).expect("it makes sense");
            wanted.for_run().join(" ")
        };
        assert_eq!(words(&["--", "-p", "xtask"]), "-p xtask");
        assert_eq!(words(&["--without", "mariadb"]), "-- --skip mysql");
        let both = ["--without", "postgresql,redis", "--", "--lib", "--", "--quiet"];
        assert_eq!(words(&both), "--lib -- --quiet --skip postgres --skip redis");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [&["--without"][..], &["--without", "oracle"], &["--without", ""], &["fast"]] {
            assert!(Test::read(words).is_err(), "{words:?}");
        }
    }

    fn member(package: &str, short: &str) -> Member {
        let (package, short) = (package.to_owned(), short.to_owned());
        Member { package, short, has_library: true, binaries: Vec::new(), tests: Vec::new() }
    }

    #[test]
    fn a_crate_is_chosen_by_its_short_or_its_full_name() {
        let members = [member("punctual-core", "core"), member("punctual", "server")];
        assert_eq!(Quick::read(&[], &members), Ok(Quick { only: None }));
        for (name, index) in [("core", 0), ("punctual-core", 0), ("server", 1), ("punctual", 1)] {
            let wanted = Quick { only: Some(members[index].clone()) };
            assert_eq!(Quick::read(&[name], &members), Ok(wanted), "{name}");
        }
    }

    #[test]
    fn an_unknown_crate_is_refused_with_the_names_that_there_are() {
        let members = [member("punctual-core", "core"), member("punctual", "server")];
        let sentence = Quick::read(&["cor"], &members).expect_err("no crate has this name");
        assert_eq!(sentence, "there is no crate `cor`; there are core, server");
        assert!(Quick::read(&["core", "server"], &members).is_err());
    }
}

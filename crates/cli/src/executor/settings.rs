//! The commands of an executor, from the command line and from a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::command::Command;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    commands: BTreeMap<String, SettingEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingEntry {
    run: Vec<String>,
    dir: Option<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// The commands, by handler.
pub(super) fn commands(
    said: &[String],
    file: Option<&Path>,
) -> Result<BTreeMap<String, Arc<Command>>, String> {
    let mut commands = BTreeMap::new();
    let mut add = |handler: &str, command: Command| match commands.insert(handler.into(), Arc::new(command)) {
        Some(_) => Err(format!("the handler `{handler}` is named twice")),
        None => Ok(()),
    };
    for one in said {
        let (handler, line) = one.split_once('=').filter(|(handler, _)| !handler.is_empty()).ok_or_else(|| {
            format!("`{one}` names no handler: expected HANDLER=COMMAND, such as 'nightly=/usr/bin/report --all'")
        })?;
        let refuse = |why: &dyn std::fmt::Display| format!("the command of `{handler}`: {why}");
        let words = words(line).map_err(|why| refuse(&why))?;
        add(handler, Command::of(words).map_err(|why| refuse(&why))?)?;
    }
    for (handler, SettingEntry { run, dir, env }) in file.map_or_else(|| Ok(BTreeMap::new()), read)? {
        let mut command = Command::of(run).map_err(|why| format!("the command of `{handler}`: {why}"))?;
        (command.dir, command.env) = (dir, env);
        add(&handler, command)?;
    }
    Ok(commands)
}

fn read(path: &Path) -> Result<BTreeMap<String, SettingEntry>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let file: File = toml::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
    Ok(file.commands)
}

/// The token in a file: one line.
pub(super) fn token(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("cannot read the token in {shown}: {error}"))?;
    let token = text.trim();
    let is_plain = !token.is_empty() && token.chars().all(|c| c.is_ascii_graphic());
    is_plain.then(|| token.to_owned()).ok_or_else(|| format!("{shown} holds no token: one line"))
}

/// The words of a line, as a shell would split it: quotes and backslashes count, and nothing else is special.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                let next = characters.next().ok_or("there is nothing after the last backslash")?;
                // Between quotes, a backslash is literal unless it escapes a special character.
                if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    word.get_or_insert_default().push('\\');
                }
                word.get_or_insert_default().push(next);
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a {open} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_words_that_a_shell_finds() {
        for (line, expected) in [
            ("/usr/bin/report --all", &["/usr/bin/report", "--all"][..]),
            ("  sh -c 'a  b' ", &["sh", "-c", "a  b"]),
            (r#"a "b \"c\" \d" e\ f '' x'y'z"#, &["a", r#"b "c" \d"#, "e f", "", "xyz"]),
            ("a $HOME > b | c", &["a", "$HOME", ">", "b", "|", "c"]),
            ("", &[]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        for line in ["a 'b", "a \"b", "a \\"] {
            assert!(words(line).is_err(), "{line}");
        }
    }

    fn from_file(text: &str) -> Result<BTreeMap<String, SettingEntry>, String> {
        toml::from_str::<File>(text).map(|file| file.commands).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_names_commands() {
        let text =
            "[commands.nightly]\nrun = [\"report\", \"--all\"]\ndir = \"/tmp\"\nenv = { LANG = \"C\" }\n";
        let entry = from_file(text).unwrap().remove("nightly").unwrap();
        assert_eq!((entry.run, entry.env["LANG"].as_str()), (vec!["report".into(), "--all".into()], "C"));
        assert_eq!(entry.dir, Some(PathBuf::from("/tmp")));
        for text in
            ["[commands.a]\n", "[commands.a]\nrun = \"x\"\n", "[commands.a]\nrun = []\nuser = 1\n", "[x]\n"]
        {
            assert!(from_file(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_has_a_handler_and_a_program() {
        for (said, why) in [
            ("true", "HANDLER=COMMAND"),
            ("=true", "HANDLER=COMMAND"),
            ("a=", "no program"),
            ("a='", "not closed"),
        ] {
            let error = commands(&[said.into()], None).err().unwrap();
            assert!(error.contains(why), "{error}");
        }
    }
}

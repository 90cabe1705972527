//! The address of the server, the token for it, and the form of the output.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::failure::Failure;
use super::trust;
use crate::environment;

const DEFAULT_URL: &str = "http://127.0.0.1:7070";

/// What every command that asks a server takes.
#[derive(Args)]
pub struct Reach {
    /// The server [default: PUNCTUAL_URL, else http://127.0.0.1:7070]
    #[arg(long, value_name = "URL", global = true, help_heading = "Server")]
    server: Option<String>,
    /// A file that holds the token [default: PUNCTUAL_TOKEN, else the local server's own admin-token]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// A file with certificate authorities to trust beyond the public ones, PEM [default: PUNCTUAL_CA]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    ca: Option<PathBuf>,
    /// Refused with advice: other users of the machine can read command lines.
    #[arg(long, global = true, hide = true)]
    token: Option<String>,
    /// Tables for people, or JSON as the API gives it
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        global = true,
        default_value = "table",
        help_heading = "Output"
    )]
    output: Output,
    /// No colours, not even on a terminal
    #[arg(long, global = true, env = "NO_COLOR", hide_env = true, value_parser = is_said, num_args = 0, default_missing_value = "yes", help_heading = "Output")]
    no_color: Option<bool>,
}

/// Any text but an empty one means yes: that is the convention of NO_COLOR.
fn is_said(text: &str) -> Result<bool, String> {
    Ok(!text.is_empty())
}

/// How answers are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

/// The surroundings of a command that decide how it behaves.
pub(crate) struct Surroundings {
    pub(crate) url: Url,
    pub(crate) token: Option<String>,
    /// How servers are authenticated, where the address says https.
    pub(crate) secured: Option<TlsConnector>,
    /// Advice for when the server wants a token and we have none.
    pub(crate) advice: Option<String>,
    pub(crate) output: Output,
    pub(crate) is_coloured: bool,
    /// The width of the terminal, if there is one.
    pub(crate) width: Option<usize>,
    /// Whether a person is at the terminal and can be asked.
    pub(crate) is_attended: bool,
}

impl Reach {
    pub fn wants_json(&self) -> bool {
        self.output == Output::Json
    }

    pub(crate) fn surroundings(&self) -> Result<Surroundings, Failure> {
        if self.token.is_some() {
            return Err(Failure::usage(
                "a token on a command line is there for every user of the machine to read: \
                 set PUNCTUAL_TOKEN, or name a file with --token-file",
            ));
        }
        let variables = environment::variables();
        let said = |name: &str| variables.get(name).filter(|said| !said.is_empty()).cloned();
        let url = self.server.clone().or_else(|| said("PUNCTUAL_URL"));
        let url = address(url.as_deref().unwrap_or(DEFAULT_URL))?;
        let authorities = self.ca.clone().or_else(|| said("PUNCTUAL_CA").map(PathBuf::from));
        let is_secured = url.scheme() == "https";
        let secured = is_secured.then(|| trust::connector(authorities.as_deref()));
        let secured = secured.transpose().map_err(Failure::usage)?;
        let (token, advice) = match (&self.token_file, said("PUNCTUAL_TOKEN")) {
            (Some(path), _) => (Some(named_token(path)?), None),
            (None, Some(token)) => (Some(one_line(&token, "PUNCTUAL_TOKEN")?), None),
            (None, None) if is_loopback(&url) => own_token(&data_folder(&variables)),
            (None, None) => (None, Some(ADVICE.to_owned())),
        };
        let (is_terminal, width) = terminal();
        Ok(Surroundings {
            url,
            token,
            secured,
            advice,
            output: self.output,
            is_coloured: is_terminal && !self.no_color.unwrap_or_default(),
            width,
            is_attended: io::stdin().is_terminal() && io::stderr().is_terminal(),
        })
    }
}

const ADVICE: &str = "set PUNCTUAL_TOKEN, or name a file with --token-file";

/// Whether stdout is a terminal, and how wide it is.
fn terminal() -> (bool, Option<usize>) {
    if !io::stdout().is_terminal() {
        return (false, None);
    }
    let size = rustix::termios::tcgetwinsize(io::stdout());
    (true, size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0))
}

/// The address of the server, with http or https as its scheme.
fn address(text: &str) -> Result<Url, Failure> {
    let refuse = |reason: &str| Failure::usage(format!("`{text}` is no address of a server: {reason}"));
    let example = "write it like http://127.0.0.1:7070";
    let url = Url::parse(text).map_err(|_| refuse(example))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(refuse(example));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::usage(format!("the address of a server holds no name or password: {ADVICE}")));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("leave out everything from `?` or `#` on"));
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn data_folder(variables: &BTreeMap<String, String>) -> PathBuf {
    let said = variables.get("PUNCTUAL_SERVER__DATA");
    said.map_or_else(|| environment::data_folder(variables), PathBuf::from)
}

fn named_token(path: &Path) -> Result<String, Failure> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the token in {shown}: {error}")))?;
    one_line(&text, &shown)
}

/// The token of a server on this machine, if we may read it.
fn own_token(data: &Path) -> (Option<String>, Option<String>) {
    let path = data.join("admin-token");
    let shown = path.display().to_string();
    match std::fs::read_to_string(&path) {
        Ok(text) => (one_line(&text, &shown).ok(), None),
        Err(error) => (None, Some(format!("there is no token to send ({shown}: {error}): {ADVICE}"))),
    }
}

fn one_line(text: &str, place: &str) -> Result<String, Failure> {
    let token = text.trim();
    let is_plain = !token.is_empty() && token.chars().all(|c| c.is_ascii_graphic());
    let refuse = || Failure::usage(format!("{place} holds no token: one line of letters, digits and signs"));
    is_plain.then(|| token.to_owned()).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_to_speak_and_with_whom() {
        for text in ["http://127.0.0.1:7070", "https://scheduler.example.com/punctual/", "http://[::1]:7070"]
        {
            assert!(address(text).is_ok(), "{text}");
        }
        for text in ["localhost:7070", "127.0.0.1:7070", "ftp://a", "", "http://", "http://a/?b=c"] {
            assert!(address(text).is_err(), "{text}");
        }
        let with_password = address("http://admin:hunter2@a").unwrap_err();
        assert!(!with_password.message().contains("hunter2"));
    }

    #[test]
    fn only_this_machine_is_this_machine() {
        for (text, expected) in [
            ("http://localhost:1", true),
            ("http://127.8.9.1:1", true),
            ("https://[::1]", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&address(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn a_token_is_one_line() {
        assert_eq!(one_line("pt_abc\n", "x").as_deref(), Ok("pt_abc"));
        for text in ["", "\n", "two lines\n", "a\nb", "ä"] {
            assert!(one_line(text, "x").is_err(), "{text:?}");
        }
    }
}

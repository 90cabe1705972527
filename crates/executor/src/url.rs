//! The address of a node.

use std::fmt;

use punctual_protocol::native::PATH;
use tokio_tungstenite::tungstenite::http::Uri;

/// The address of a node. Equal addresses lead to the same node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) is_secure: bool,
    /// Without the brackets that IPv6 addresses have in URLs.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path in front of Punctual's own paths, if the node is behind a proxy.
    prefix: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        let refuse = |what: &str| format!("`{text}` is no address of a node: {what}");
        let uri: Uri = text.trim().parse().map_err(|error| refuse(&format!("{error}")))?;
        let is_secure = match uri.scheme_str().map(str::to_ascii_lowercase).as_deref() {
            Some("http" | "ws") => false,
            Some("https" | "wss") => true,
            _ => return Err(refuse("expected http://… or https://…")),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(refuse("a name or a password in it would not be used"));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        if host.is_empty() {
            return Err(refuse("there is no host in it"));
        }
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Url { is_secure, host, port, prefix: uri.path().trim_end_matches('/').to_owned() })
    }

    /// The URL of the WebSocket.
    pub(crate) fn request(&self) -> String {
        let scheme = if self.is_secure { "wss" } else { "ws" };
        format!("{scheme}://{}{}{PATH}", self.authority(), self.prefix)
    }

    fn authority(&self) -> String {
        let Url { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_asked_for() {
        for (text, shown, request) in [
            ("http://Node:7070/", "http://node:7070", "ws://node:7070/api/v1/executors/connect"),
            ("https://node", "https://node:443", "wss://node:443/api/v1/executors/connect"),
            ("ws://[::1]:7070", "http://[::1]:7070", "ws://[::1]:7070/api/v1/executors/connect"),
            ("http://a/b/", "http://a:80/b", "ws://a:80/b/api/v1/executors/connect"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.to_string().as_str(), url.request().as_str()), (shown, request));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "node:7070", "ftp://node", "http://", "/a", "http://me:secret@node"] {
            assert!(Url::parse(text).unwrap_err().contains("no address of a node"), "{text}");
        }
    }
}

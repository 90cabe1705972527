//! One line of the list of allowed targets.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use url::Host;

/// What an operator allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Every address of a network, on any port.
    Network(IpNet),
    /// One address.
    Address { address: IpAddr, port: Option<u16> },
    /// Whatever a name resolves to.
    Name { name: String, port: Option<u16> },
    /// Whatever the names below a name resolve to.
    Below { suffix: String, port: Option<u16> },
}

/// Where a connection would go.
pub(super) struct Endpoint<'a> {
    /// The name that was resolved; nothing if the url holds the address itself.
    pub(super) name: Option<&'a str>,
    pub(super) address: IpAddr,
    pub(super) port: u16,
}

/// A line that cannot be read as a rule, and so allows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    rule: String,
    reason: &'static str,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleError { rule, reason } = self;
        write!(f, "{rule:?} allows no target: {reason}; expected a network such as 10.1.0.0/16, ")?;
        write!(f, "a host such as intern.example or 10.0.0.5, or a host and port such as intern.example:8080")
    }
}

impl std::error::Error for RuleError {}

impl Rule {
    pub(super) fn parse(text: &str) -> Result<Rule, RuleError> {
        let rule = text.trim();
        let wrong = |reason| RuleError { rule: rule.to_owned(), reason };
        if rule.contains("://") {
            return Err(wrong("it is a url"));
        }
        if rule.contains('/') {
            return rule.parse().map(Rule::Network).map_err(|_| wrong("it is no network"));
        }
        if let Ok(address) = rule.parse::<Ipv6Addr>() {
            return Ok(Rule::Address { address: address.into(), port: None });
        }
        let (host, port) = split_port(rule).ok_or_else(|| wrong("the port is no number from 1 to 65535"))?;
        if let Some(below) = host.strip_prefix("*.") {
            let suffix = match Host::parse(below) {
                Ok(Host::Domain(name)) if !name.contains('*') => format!(".{}", plain_name(&name)),
                _ => return Err(wrong("what follows the star is no name")),
            };
            return Ok(Rule::Below { suffix, port });
        }
        match Host::parse(host) {
            Ok(Host::Domain(name)) if !name.contains('*') => Ok(Rule::Name { name: plain_name(&name), port }),
            Ok(Host::Domain(_)) => Err(wrong("a star stands only for the first part of a name")),
            Ok(Host::Ipv4(address)) => Ok(Rule::Address { address: address.into(), port }),
            Ok(Host::Ipv6(address)) => Ok(Rule::Address { address: address.into(), port }),
            Err(_) => Err(wrong("it is no host")),
        }
    }

    /// Whether a connection is allowed by this rule.
    pub(super) fn covers(&self, to: &Endpoint<'_>) -> bool {
        match self {
            Rule::Network(network) => network.contains(&to.address),
            Rule::Address { address, port } => *address == to.address && is_port(*port, to.port),
            Rule::Name { name, port } => to.name == Some(name) && is_port(*port, to.port),
            Rule::Below { suffix, port } => {
                to.name.is_some_and(|name| name.ends_with(suffix.as_str())) && is_port(*port, to.port)
            }
        }
    }

    /// Whether it names this address and no other.
    pub(super) fn is_exactly(&self, wanted: IpAddr, on: u16) -> bool {
        match self {
            Rule::Network(network) => {
                network.prefix_len() == network.max_prefix_len() && network.addr() == wanted
            }
            Rule::Address { address, port } => *address == wanted && is_port(*port, on),
            Rule::Name { .. } | Rule::Below { .. } => false,
        }
    }

    /// Whether it is about names, and about this one.
    pub(super) fn holds_name(&self, wanted: &str, on: u16) -> bool {
        match self {
            Rule::Name { name, port } => name == wanted && is_port(*port, on),
            Rule::Below { suffix, port } => wanted.ends_with(suffix.as_str()) && is_port(*port, on),
            Rule::Network(_) | Rule::Address { .. } => false,
        }
    }

    /// Whether it names this name and no other.
    pub(super) fn is_name(&self, wanted: &str, on: u16) -> bool {
        matches!(self, Rule::Name { name, port } if name == wanted && is_port(*port, on))
    }
}

/// A name in lower case and without the trailing dot, which does not make it another name.
pub(super) fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn is_port(allowed: Option<u16>, port: u16) -> bool {
    allowed.is_none_or(|allowed| allowed == port)
}

fn split_port(rule: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match rule.rsplit_once(':') {
        // A colon inside brackets belongs to the address.
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => return Some((rule, None)),
    };
    match port.parse() {
        Ok(0) | Err(_) => None,
        Ok(port) => Some((host, Some(port))),
    }
}

//! The guard: which addresses this node calls for other people. Pure decisions; `connect.rs` asks it before every
//! connection, with the very address that it then connects to.
//!
//! A person or program that may write a job can make a node of ours send requests. Without a guard, such a request
//! reaches everything that the node reaches: databases, dashboards, the cloud's credentials. So only public addresses
//! are called by default.
//!
//! Three things are easy to get wrong, and this module handles them. A name is judged by all of its addresses, and
//! one bad address refuses the name. An address is judged by where it leads, so an address that wraps another
//! (mapped, translated, tunnelled) is unwrapped first. And an operator who allows a whole range rarely thinks of the
//! metadata service inside it, so the metadata service has to be named by itself.

mod class;
mod rule;

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use url::{Host, Url};

use class::Class;
pub use rule::RuleError;
use rule::{Endpoint, Rule};

/// Names of metadata services. Most resolve to a link-local address and would be refused anyway; this says why.
const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
];

/// The one path of this node that a job may call. It needs no token and does nothing, so a first job on an empty node
/// can call it without a network.
pub(crate) const HEALTH: &str = "/healthz";

/// Decides what may be called.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    rules: Vec<Rule>,
    allows_loopback: bool,
    is_closed: bool,
    own: Option<OwnDoors>,
}

/// Where this node itself is called.
#[derive(Clone, Debug)]
struct OwnDoors {
    listens_on: SocketAddr,
    /// The address that this node advertises to others, if it can be parsed.
    advertised: Option<(Host<String>, u16)>,
}

impl OwnDoors {
    fn has_name(&self, name: &str, port: u16) -> bool {
        let is_localhost = name == "localhost" || name.ends_with(".localhost");
        let is_advertised = |(host, at): &(Host<String>, u16)| {
            *at == port && matches!(host, Host::Domain(own) if rule::plain_name(own) == name)
        };
        is_localhost && port == self.listens_on.port() || self.advertised.as_ref().is_some_and(is_advertised)
    }

    fn has_address(&self, address: IpAddr, port: u16) -> bool {
        let is_advertised = |(host, at): &(Host<String>, u16)| match host {
            Host::Ipv4(own) => *at == port && address == IpAddr::from(*own),
            Host::Ipv6(own) => *at == port && address == IpAddr::from(*own),
            Host::Domain(_) => false,
        };
        let is_reached = port == self.listens_on.port() && self.listens_at(address);
        is_reached || self.advertised.as_ref().is_some_and(is_advertised)
    }

    /// Whether a request to an address may reach this node's listener. A listener on all addresses is reached by
    /// every address of the machine, and those are the addresses that a socket can be bound to.
    fn listens_at(&self, address: IpAddr) -> bool {
        let own = self.listens_on.ip().to_canonical();
        address.is_loopback()
            || address.is_unspecified()
            || address == own
            || own.is_unspecified() && UdpSocket::bind((address, 0)).is_ok()
    }
}

/// Why something is not called. Its text names the kind of address and the way to allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl Guard {
    /// Public addresses, and what the rules add: networks (`10.1.0.0/16`), hosts (`intern.example`, `10.0.0.5`,
    /// `*.intern.example`), or one port of a host (`intern.example:8080`, `[fd00::5]:80`). A node that can only be
    /// called from its own machine may also call it.
    pub fn new<R: AsRef<str>>(rules: &[R], allows_loopback: bool) -> Result<Guard, RuleError> {
        let rules = rules.iter().map(|rule| Rule::parse(rule.as_ref())).collect::<Result<_, _>>()?;
        Ok(Guard { rules, allows_loopback, is_closed: false, own: None })
    }

    /// The same without public addresses: only what the rules name is called, and no name is resolved that they do not
    /// hold.
    #[must_use]
    pub fn closed(self) -> Guard {
        Guard { is_closed: true, ..self }
    }

    /// The same guard, but it never allows this node itself, and no rule can allow it: a job that calls its own node
    /// would speak there as the owner of the machine.
    #[must_use]
    pub fn apart_from(self, listens_on: SocketAddr, advertised: &str) -> Guard {
        let advertised = Url::parse(advertised)
            .ok()
            .and_then(|url| Some((url.host()?.to_owned(), url.port_or_known_default()?)));
        Guard { own: Some(OwnDoors { listens_on, advertised }), ..self }
    }

    /// The same guard with this node allowed again. Only for the health check: see [`HEALTH`].
    #[must_use]
    pub(crate) fn with_self(self) -> Guard {
        Guard { own: None, ..self }
    }

    /// Judges what the url shows by itself, before a name server is asked.
    pub fn judge_url(&self, url: &Url) -> Result<(), Refusal> {
        judge_shape(url)?;
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Refusal("the url names no host".into()));
        };
        match host {
            Host::Domain(name) => self.judge_name(name, port),
            Host::Ipv4(address) => self.judge(&host.to_owned(), port, &[address.into()]),
            Host::Ipv6(address) => self.judge(&host.to_owned(), port, &[address.into()]),
        }
    }

    /// Judges all addresses of a host together: one refused address refuses the host, because the owner of the name
    /// decides which address is tried first.
    pub fn judge(&self, host: &Host<String>, port: u16, addresses: &[IpAddr]) -> Result<(), Refusal> {
        let name = match host {
            Host::Domain(name) => {
                self.judge_name(name, port)?;
                Some(rule::plain_name(name))
            }
            _ => None,
        };
        addresses.iter().try_for_each(|address| self.judge_address(name.as_deref(), *address, port))
    }

    fn judge_name(&self, name: &str, port: u16) -> Result<(), Refusal> {
        let name = rule::plain_name(name);
        if self.own.as_ref().is_some_and(|own| own.has_name(&name, port)) {
            return Err(refusal_of_self(&name, port));
        }
        // Asking a name server sends a packet too.
        let is_held = |rule: &Rule| rule.holds_name(&name, port);
        if self.is_closed && !self.rules.iter().any(is_held) {
            return Err(refusal(&name, None, Class::Public));
        }
        if !METADATA_NAMES.contains(&&*name) || self.names_exactly(&name, port) {
            return Ok(());
        }
        Err(refusal(&name, None, Class::Metadata))
    }

    fn judge_address(&self, name: Option<&str>, address: IpAddr, port: u16) -> Result<(), Refusal> {
        for (seen, class) in class::faces(address) {
            if self.own.as_ref().is_some_and(|own| own.has_address(seen, port)) {
                return Err(refusal_of_self(&seen.to_string(), port));
            }
            let is_allowed = match class {
                Class::Public if !self.is_closed => true,
                Class::Metadata => {
                    let by_name = name
                        .is_some_and(|name| METADATA_NAMES.contains(&name) && self.names_exactly(name, port));
                    by_name || self.rules.iter().any(|rule| rule.is_exactly(seen, port))
                }
                Class::Loopback if self.allows_loopback => true,
                _ => {
                    let endpoint = Endpoint { name, address: seen, port };
                    self.rules.iter().any(|rule| rule.covers(&endpoint))
                }
            };
            if !is_allowed {
                return Err(refusal(&seen.to_string(), name, class));
            }
        }
        Ok(())
    }

    fn names_exactly(&self, name: &str, port: u16) -> bool {
        self.rules.iter().any(|rule| rule.is_name(name, port))
    }
}

/// What no rule can allow: other protocols, and secrets where every log shows them.
pub(crate) fn judge_shape(url: &Url) -> Result<(), Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal(format!("{} is no scheme for agents: only http and https are", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let said = "a user or password inside the url is not sent: put it into an Authorization header";
        return Err(Refusal(said.into()));
    }
    Ok(())
}

fn refusal_of_self(what: &str, port: u16) -> Refusal {
    let way = "let the job do its work elsewhere, or call the API with a client and a token";
    Refusal(format!("{what} with port {port} is this node itself, which no job calls; {way}"))
}

fn refusal(what: &str, name: Option<&str>, class: Class) -> Refusal {
    let from = name.map(|name| format!(" (an address of {name})")).unwrap_or_default();
    let way = format!("start the node with --allow-target {what}, or add it to [targets] allow");
    Refusal(format!("{what}{from} is {class}, which this node does not call; to allow it, {way}"))
}

#[cfg(test)]
mod tests;

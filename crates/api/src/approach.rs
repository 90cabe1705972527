//! How a request came: from this machine itself, or through it from elsewhere. A reverse proxy, a web page in a local
//! browser and a job of this very node all connect from loopback, and none of them acts for the owner of the machine.

use std::net::IpAddr;

use http::HeaderMap;

use crate::caller::Peer;

/// Headers that no executor sends, and that intermediaries add when they call on behalf of a client: browsers, proxies, and
/// nodes of ours that call an agent for a job.
const BORROWED: [&str; 6] = ["origin", "forwarded", "x-forwarded-for", "x-real-ip", "via", "punctual-run-id"];

/// The common prefix of the other headers of browsers.
const OF_BROWSERS: &str = "sec-fetch-";

/// Where a request comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Approach {
    ip: Option<IpAddr>,
    is_local: bool,
}

impl Approach {
    /// Where a request comes from, by its connection and by what its headers say about earlier hops.
    pub(crate) fn of(
        peer: Option<Peer>,
        headers: &HeaderMap,
        proxies: &Proxies,
        trusts_loopback: bool,
    ) -> Approach {
        let Some(peer) = peer.map(|peer| peer.0.ip().to_canonical()) else { return Approach::default() };
        let is_local = trusts_loopback && peer.is_loopback() && !is_borrowed(headers);
        Approach { ip: Some(proxies.caller(peer, headers)), is_local }
    }

    /// Whether it was made on this machine, as far as this node can trust that.
    pub(crate) fn is_local(self) -> bool {
        self.is_local
    }

    /// The caller's address; none where it is not known.
    pub(crate) fn ip(self) -> Option<IpAddr> {
        self.ip
    }

    /// The address under which its calls without a valid token are counted; none for local requests.
    pub(crate) fn counted(self) -> Option<IpAddr> {
        self.ip.filter(|_| !self.is_local)
    }
}

fn is_borrowed(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| BORROWED.contains(&name.as_str()) || name.as_str().starts_with(OF_BROWSERS))
}

/// The proxies whose headers about the client are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<(IpAddr, u8)>);

impl Proxies {
    /// Networks (`10.1.0.0/16`, `fd00::/8`) and single addresses.
    pub fn parse<T: AsRef<str>>(networks: &[T]) -> Result<Proxies, String> {
        networks.iter().map(|network| parse(network.as_ref())).collect::<Result<_, _>>().map(Proxies)
    }

    fn holds(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|(network, bits)| is_within(ip, *network, *bits))
    }

    /// The address of the caller: the other end of the connection or, behind our proxies, the last address in the
    /// header that is not one of them. Addresses further to the left were written by strangers. A proxy that passes
    /// on both headers cannot have written both, so then neither is believed.
    fn caller(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.holds(peer) {
            return peer;
        }
        let named = match (listed(headers, "forwarded"), listed(headers, "x-forwarded-for")) {
            (forwarded, xff) if xff.is_empty() => forwarded.iter().map(|one| forwarded_for(one)).collect(),
            (forwarded, xff) if forwarded.is_empty() => xff.iter().map(|one| address(one)).collect(),
            _ => Vec::new(),
        };
        let mut caller = peer;
        for ip in named.into_iter().rev() {
            // An obfuscated identifier ends the chain: nothing behind it can be checked.
            let Some(ip) = ip else { break };
            caller = ip;
            if !self.holds(ip) {
                break;
            }
        }
        caller
    }
}

/// The items of a list header, also if it occurs several times.
fn listed(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|one| one.trim().to_owned()).collect()
}

/// The address in an item such as `for="[2001:db8::1]:4711";proto=https`.
fn forwarded_for(item: &str) -> Option<IpAddr> {
    let mut pairs = item.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    address(value.trim().trim_matches('"'))
}

/// An address with a port or without.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let ip =
        bare.parse().ok().or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()));
    ip.map(|ip: IpAddr| ip.to_canonical())
}

fn parse(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || format!("`{text}` is no network; write it like 10.1.0.0/16, fd00::/8 or 127.0.0.1");
    let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
    let ip: IpAddr = ip.trim().parse().map_err(|_| wrong())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => bits.trim().parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
    };
    Ok((ip, bits))
}

fn is_within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (ip, network, width) = match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            (u128::from(u32::from(ip)), u128::from(u32::from(network)), 32)
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => (u128::from(ip), u128::from(network), 128),
        _ => return false,
    };
    let rest = u32::from(width - bits);
    ip.checked_shr(rest).unwrap_or(0) == network.checked_shr(rest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn peer(text: &str) -> Option<Peer> {
        Some(Peer(text.parse().unwrap()))
    }

    #[test]
    fn only_what_was_made_on_this_machine_is_local() {
        let none = Proxies::default();
        let is_local = |text, pairs: &[(&'static str, &str)], trusts| {
            Approach::of(peer(text), &headers(pairs), &none, trusts).is_local()
        };
        for text in ["127.0.0.1:9", "127.0.0.6:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert!(is_local(text, &[("user-agent", "executor")], true), "{text}");
            assert!(!is_local(text, &[], false), "{text}: the trust is switched off");
        }
        assert!(!is_local("192.0.2.7:9", &[], true));
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "no-cors"),
            ("forwarded", "for=127.0.0.1"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-real-ip", "127.0.0.1"),
            ("via", "1.1 proxy"),
            ("punctual-run-id", "7"),
        ] {
            assert!(!is_local("127.0.0.1:9", &[(name, value)], true), "{name}");
        }
        assert!(!Approach::of(None, &HeaderMap::new(), &none, true).is_local(), "nobody knows who that is");
    }

    #[test]
    fn the_caller_is_the_nearest_that_is_no_proxy_of_ours() {
        let proxies = Proxies::parse(&["127.0.0.1", "10.0.0.0/8", "fd00::/8"]).unwrap();
        for (from, pairs, caller) in [
            ("127.0.0.1:9", vec![("x-forwarded-for", "198.51.100.7")], "198.51.100.7"),
            ("127.0.0.1:9", vec![("x-forwarded-for", "1.2.3.4, 198.51.100.7, 10.9.9.9")], "198.51.100.7"),
            (
                "127.0.0.1:9",
                vec![("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "198.51.100.7")],
                "198.51.100.7",
            ),
            ("127.0.0.1:9", vec![("x-forwarded-for", "198.51.100.7:4711")], "198.51.100.7"),
            (
                "[fd00::1]:9",
                vec![("forwarded", "for=1.2.3.4, For=\"[2001:db8::7]:4711\";proto=https")],
                "2001:db8::7",
            ),
            ("127.0.0.1:9", vec![("x-forwarded-for", "1.2.3.4, unknown")], "127.0.0.1"),
            ("127.0.0.1:9", vec![("x-forwarded-for", "10.1.1.1, 10.2.2.2")], "10.1.1.1"),
            // Both cannot be the proxy's own.
            (
                "127.0.0.1:9",
                vec![("forwarded", "for=1.2.3.4"), ("x-forwarded-for", "198.51.100.7")],
                "127.0.0.1",
            ),
            ("127.0.0.1:9", vec![("x-real-ip", "1.2.3.4")], "127.0.0.1"),
            // Headers of a peer that is not a trusted proxy do not count.
            ("192.0.2.7:9", vec![("x-forwarded-for", "1.2.3.4")], "192.0.2.7"),
            ("127.0.0.2:9", vec![("forwarded", "for=1.2.3.4")], "127.0.0.2"),
        ] {
            let approach = Approach::of(peer(from), &headers(&pairs), &proxies, true);
            assert_eq!(approach.counted(), Some(caller.parse().unwrap()), "{from} {pairs:?}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "fd00::/129", "10.0.0", "proxy.example", "10.0.0.0/-1"] {
            assert!(Proxies::parse(&[text]).unwrap_err().contains("10.1.0.0/16"), "{text}");
        }
        let all = Proxies::parse(&["0.0.0.0/0", "::/0"]).unwrap();
        assert!(all.holds("192.0.2.1".parse().unwrap()) && all.holds("2001:db8::1".parse().unwrap()));
    }
}

//! What kind of address an address is, and which others it stands for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A public address: the only kind that is called without a rule.
    Public,
    /// This machine.
    Loopback,
    /// A network of one's own: RFC 1918, unique local, site local.
    Private,
    /// The same wire.
    LinkLocal,
    /// Behind a carrier's translator.
    Carrier,
    /// A service that hands out a cloud machine's credentials.
    Metadata,
    /// No machine in particular: `0.0.0.0/8` and `::`, which many systems take for this machine.
    Unspecified,
    /// Many machines.
    Multicast,
    /// All machines.
    Broadcast,
    /// For books and benchmarks.
    Documentation,
    /// A translator of this network, whose rules are not ours to guess.
    Translator,
    /// Reserved, or not owned by one network alone.
    Reserved,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Public => "a public address",
            Class::Loopback => "a loopback address",
            Class::Private => "a private address",
            Class::LinkLocal => "a link-local address",
            Class::Carrier => "an address behind a carrier's translator",
            Class::Metadata => "a cloud metadata service",
            Class::Unspecified => "an unspecified address",
            Class::Multicast => "a multicast address",
            Class::Broadcast => "the broadcast address",
            Class::Documentation => "an address for documentation or benchmarks",
            Class::Translator => "an address of a local translator",
            Class::Reserved => "a reserved address",
        })
    }
}

/// An address and every address that it wraps, each with its class. All of them must be allowed; what merely
/// wraps others has no class of its own.
pub(super) fn faces(address: IpAddr) -> Vec<(IpAddr, Class)> {
    match address {
        IpAddr::V4(v4) => vec![(address, of_v4(v4))],
        IpAddr::V6(v6) if METADATA_V6.contains(&v6) => vec![(address, Class::Metadata)],
        IpAddr::V6(v6) => match wrapped(v6) {
            Some(inner) => inner.into_iter().map(|v4| (IpAddr::V4(v4), of_v4(v4))).collect(),
            None => vec![(address, of_v6(v6))],
        },
    }
}

const METADATA_V4: &[Ipv4Addr] = &[
    Ipv4Addr::new(169, 254, 169, 254), // AWS, Google, Azure and most others
    Ipv4Addr::new(169, 254, 170, 2),   // AWS container credentials
    Ipv4Addr::new(169, 254, 170, 23),  // AWS pod identity
    Ipv4Addr::new(169, 254, 42, 42),   // Scaleway
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's host agent: looks public, is not
];

const METADATA_V6: &[Ipv6Addr] = &[
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254), // AWS
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0023), // AWS pod identity
    Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254), // Google
];

fn of_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        _ if METADATA_V4.contains(&address) => Class::Metadata,
        [0, ..] => Class::Unspecified,
        [127, ..] => Class::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [169, 254, ..] => Class::LinkLocal,
        [100, 64..=127, ..] => Class::Carrier,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [198, 18..=19, ..] => Class::Documentation,
        // Protocol assignments, and the 6to4 relays, which are out of use.
        [192, 0, 0, _] | [192, 88, 99, _] => Class::Reserved,
        [224..=239, ..] => Class::Multicast,
        [255, 255, 255, 255] => Class::Broadcast,
        [240..=255, ..] => Class::Reserved,
        _ => Class::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Class {
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // The prefix can be cut at several lengths, so one address has several readings. Only the operator of such a
        // translator knows the right one, and can allow it by a rule.
        [0x0064, 0xff9b, 1, ..] => Class::Translator,
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] | [0x2001, 2, 0, ..] => Class::Documentation,
        // Protocol assignments under 2001::/23; the tunnels among them were unwrapped before.
        [0x2001, 0..=0x01ff, ..] => Class::Reserved,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Class::Private,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xff00..=0xffff, ..] => Class::Multicast,
        // 2000::/3 is all of the public unicast space there is.
        [0x2000..=0x3fff, ..] => Class::Public,
        _ => Class::Reserved,
    }
}

/// The IPv4 addresses inside an IPv6 address that stands for them.
fn wrapped(address: Ipv6Addr) -> Option<Vec<Ipv4Addr>> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // Mapped, mapped and translated (SIIT), compatible.
        [0, 0, 0, 0, 0, 0xffff, high, low] => Some(vec![v4(high, low)]),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(vec![v4(high, low)]),
        [0, 0, 0, 0, 0, 0, high, low] => Some(vec![v4(high, low)]),
        // NAT64.
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => Some(vec![v4(high, low)]),
        // 6to4.
        [0x2002, high, low, ..] => Some(vec![v4(high, low)]),
        // Teredo: the server that relays, and the client, written upside down.
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            Some(vec![v4(high, low), v4(!client_high, !client_low)])
        }
        _ => None,
    }
}

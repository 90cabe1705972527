//! The guard's tables: what is public, what is not, and what a rule opens.

use super::*;

fn guard(rules: &[&str]) -> Guard {
    Guard::new(rules, false).unwrap()
}

/// What becomes of a url whose host is the address itself: `yes`, the class that refuses it, or `no url`.
fn fate(guard: &Guard, url: &str) -> String {
    let Ok(url) = Url::parse(url) else { return "no url".into() };
    match guard.judge_url(&url) {
        Ok(()) => "yes".into(),
        Err(Refusal(said)) => {
            match said.split_once(" is ").and_then(|(_, rest)| rest.split_once(", which")) {
                Some((class, _)) => class.into(),
                None => said,
            }
        }
    }
}

fn check(rules: &[&str], rows: &[(&str, &str)]) {
    let guard = guard(rules);
    for (host, expected) in rows {
        let url = format!("http://{host}/agent");
        assert_eq!(fate(&guard, &url), *expected, "{url}");
    }
}

/// What becomes of a name that resolves to these addresses.
fn resolved(guard: &Guard, name: &str, port: u16, addresses: &[&str]) -> Result<(), Refusal> {
    let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
    guard.judge(&Host::Domain(name.into()), port, &addresses)
}

const UNSPECIFIED: &str = "an unspecified address";
const LOOPBACK: &str = "a loopback address";
const PRIVATE: &str = "a private address";
const LINK_LOCAL: &str = "a link-local address";
const CARRIER: &str = "an address behind a carrier's translator";
const METADATA: &str = "a cloud metadata service";
const MULTICAST: &str = "a multicast address";
const BROADCAST: &str = "the broadcast address";
const DOCUMENTATION: &str = "an address for documentation or benchmarks";
const TRANSLATOR: &str = "an address of a local translator";
const RESERVED: &str = "a reserved address";

#[test]
fn no_job_calls_its_own_node_whatever_is_allowed() {
    let own = |listens_on: &str, advertised: &str| {
        let rules = ["127.0.0.0/8", "10.0.0.0/8", "0.0.0.0/8", "::/0", "punctual.example:7070"];
        Guard::new(&rules, true).unwrap().apart_from(listens_on.parse().unwrap(), advertised)
    };
    let guard = own("127.0.0.1:7070", "http://10.0.0.5:443");
    for host in [
        "127.0.0.1:7070",
        "127.9.9.9:7070",
        "[::1]:7070",
        "[::ffff:127.0.0.1]:7070",
        "0.0.0.0:7070",
        "localhost:7070",
        "LOCALHOST.:7070",
        "a.localhost:7070",
        "2130706433:7070",
        "10.0.0.5:443",
    ] {
        let said = fate(&guard, &format!("http://{host}/api/registry"));
        assert!(said.contains("this node itself"), "{host}: {said}");
    }
    for host in ["127.0.0.1:7071", "localhost:9000", "10.0.0.5:80", "10.0.0.6:443", "8.8.8.8:7070"] {
        assert_eq!(fate(&guard, &format!("http://{host}/")), "yes", "{host}");
    }
    assert!(resolved(&guard, "rebound.example", 7070, &["127.0.0.1"]).is_err(), "whatever it is called");
    assert!(resolved(&guard, "rebound.example", 7071, &["127.0.0.1"]).is_ok());
    let guard = own("0.0.0.0:7070", "https://punctual.example:7070");
    for host in ["127.0.0.1:7070", "[::1]:7070", "punctual.example:7070", "Punctual.Example:7070"] {
        assert!(fate(&guard, &format!("http://{host}/")).contains("this node itself"), "{host}");
    }
    assert_eq!(fate(&guard, "http://8.8.8.8:7070/"), "yes", "that is no address of this machine");
}

#[test]
fn only_public_ipv4_addresses_are_called() {
    check(
        &[],
        &[
            ("8.8.8.8", "yes"),
            ("1.1.1.1", "yes"),
            ("9.255.255.255", "yes"),
            ("11.0.0.0", "yes"),
            ("100.63.255.255", "yes"),
            ("100.128.0.0", "yes"),
            ("126.255.255.255", "yes"),
            ("128.0.0.0", "yes"),
            ("169.253.255.255", "yes"),
            ("169.255.0.0", "yes"),
            ("172.15.255.255", "yes"),
            ("172.32.0.0", "yes"),
            ("192.0.1.0", "yes"),
            ("192.0.3.0", "yes"),
            ("192.167.255.255", "yes"),
            ("192.169.0.0", "yes"),
            ("198.17.255.255", "yes"),
            ("198.20.0.0", "yes"),
            ("223.255.255.255", "yes"),
            ("0.0.0.0", UNSPECIFIED),
            ("0.255.255.255", UNSPECIFIED),
            ("10.0.0.0", PRIVATE),
            ("10.255.255.255", PRIVATE),
            ("100.64.0.0", CARRIER),
            ("100.127.255.255", CARRIER),
            ("127.0.0.1", LOOPBACK),
            ("127.255.255.255", LOOPBACK),
            ("169.254.0.1", LINK_LOCAL),
            ("169.254.255.255", LINK_LOCAL),
            ("172.16.0.0", PRIVATE),
            ("172.31.255.255", PRIVATE),
            ("192.0.0.1", RESERVED),
            ("192.0.2.1", DOCUMENTATION),
            ("192.88.99.1", RESERVED),
            ("192.168.0.0", PRIVATE),
            ("192.168.255.255", PRIVATE),
            ("198.18.0.0", DOCUMENTATION),
            ("198.19.255.255", DOCUMENTATION),
            ("198.51.100.7", DOCUMENTATION),
            ("203.0.113.7", DOCUMENTATION),
            ("224.0.0.1", MULTICAST),
            ("239.255.255.255", MULTICAST),
            ("240.0.0.0", RESERVED),
            ("255.255.255.254", RESERVED),
            ("255.255.255.255", BROADCAST),
            ("169.254.169.254", METADATA),
            ("169.254.170.2", METADATA),
            ("100.100.100.200", METADATA),
            ("168.63.129.16", METADATA),
            ("192.0.0.192", METADATA),
        ],
    );
}

#[test]
fn an_ipv4_address_is_the_same_in_every_spelling() {
    check(
        &[],
        &[
            ("2130706433", LOOPBACK),
            ("0x7f000001", LOOPBACK),
            ("0x7F.1", LOOPBACK),
            ("017700000001", LOOPBACK),
            ("0177.0.0.1", LOOPBACK),
            ("127.1", LOOPBACK),
            ("127.0.1", LOOPBACK),
            ("127.0.0.1.", LOOPBACK),
            ("%31%32%37.0.0.1", LOOPBACK),
            ("１２７.0.0.1", LOOPBACK),
            ("127。0。0。1", LOOPBACK),
            ("0", UNSPECIFIED),
            ("3232235777", PRIVATE),
            ("0xa9fea9fe", METADATA),
            ("169.16689662", METADATA),
            ("0251.0376.0251.0376", METADATA),
            ("134744072", "yes"),
            ("256.1.1.1", "no url"),
            ("127.0.0.1.1", "no url"),
            ("0x1ffffffff", "no url"),
            ("08.1.1.1", "no url"),
        ],
    );
}

#[test]
fn only_public_ipv6_addresses_are_called() {
    check(
        &[],
        &[
            ("[2606:4700:4700::1111]", "yes"),
            ("[2a00:1450:4001:81b::200e]", "yes"),
            ("[3ffe::1]", "yes"),
            ("[::]", UNSPECIFIED),
            ("[::1]", LOOPBACK),
            ("[0:0:0:0:0:0:0:1]", LOOPBACK),
            ("[fc00::1]", PRIVATE),
            ("[fdff:ffff::1]", PRIVATE),
            ("[fec0::1]", PRIVATE),
            ("[fe80::1]", LINK_LOCAL),
            ("[febf::1]", LINK_LOCAL),
            ("[ff02::1]", MULTICAST),
            ("[ff0e::1]", MULTICAST),
            ("[2001:db8::1]", DOCUMENTATION),
            ("[3fff::1]", DOCUMENTATION),
            ("[2001:2::1]", DOCUMENTATION),
            ("[2001:10::1]", RESERVED),
            ("[2001:20::1]", RESERVED),
            ("[100::1]", RESERVED),
            ("[1::1]", RESERVED),
            ("[4000::1]", RESERVED),
            ("[5f00::1]", RESERVED),
            ("[fd00:ec2::254]", METADATA),
            ("[fd20:ce::254]", METADATA),
            ("[64:ff9b:1::808:808]", TRANSLATOR),
            ("[64:ff9b:1:a00:0:100::]", TRANSLATOR),
            ("[fe80::1%25eth0]", "no url"),
            ("[fe80::1%eth0]", "no url"),
            ("[::1", "no url"),
        ],
    );
}

#[test]
fn what_wraps_an_address_is_judged_by_what_is_inside() {
    check(
        &[],
        &[
            ("[::ffff:8.8.8.8]", "yes"),
            ("[::ffff:127.0.0.1]", LOOPBACK),
            ("[::ffff:7f00:1]", LOOPBACK),
            ("[::ffff:169.254.169.254]", METADATA),
            ("[::ffff:0:10.0.0.1]", PRIVATE),
            ("[::10.0.0.1]", PRIVATE),
            ("[::127.0.0.1]", LOOPBACK),
            ("[64:ff9b::8.8.8.8]", "yes"),
            ("[64:ff9b::10.0.0.1]", PRIVATE),
            ("[64:ff9b::a9fe:a9fe]", METADATA),
            ("[2002:808:808::1]", "yes"),
            ("[2002:7f00:1::]", LOOPBACK),
            ("[2002:c0a8:101::1]", PRIVATE),
            // Teredo: the server, then the client with every bit turned.
            ("[2001:0:808:808:0:0:f7f7:f7f7]", "yes"),
            ("[2001:0:808:808:0:0:80ff:fffe]", LOOPBACK),
            ("[2001:0:a00:1:0:0:f7f7:f7f7]", PRIVATE),
        ],
    );
}

#[test]
fn no_wrapping_changes_what_an_address_is() {
    let guard = guard(&["10.20.0.0/16"]);
    for (high, low) in (0..=u16::MAX).map(|high| (high, high.wrapping_mul(40_503))) {
        let [a, b] = high.to_be_bytes();
        let plain = fate(&guard, &format!("http://{a}.{b}.{}.{}/", low >> 8, low & 255));
        let (not_high, not_low) = (!high, !low);
        for host in [
            format!("::ffff:{high:x}:{low:x}"),
            format!("::ffff:0:{high:x}:{low:x}"),
            format!("64:ff9b::{high:x}:{low:x}"),
            format!("2002:{high:x}:{low:x}:1::1"),
            format!("2001:0:{high:x}:{low:x}:8000:1:f7f7:f7f7"),
            format!("2001:0:808:808:8000:1:{not_high:x}:{not_low:x}"),
        ] {
            assert_eq!(fate(&guard, &format!("http://[{host}]/")), plain, "{host}");
        }
    }
}

#[test]
fn names_of_metadata_services_are_refused_before_anybody_resolves_them() {
    check(
        &[],
        &[
            ("metadata.google.internal", METADATA),
            ("METADATA.google.INTERNAL.", METADATA),
            ("metadata", METADATA),
            ("instance-data", METADATA),
            ("metadata.example.com", "yes"),
        ],
    );
    check(&["*.google.internal"], &[("metadata.google.internal", METADATA)]);
    check(&["metadata.google.internal"], &[("metadata.google.internal", "yes")]);
    let named = guard(&["metadata.google.internal:80"]);
    assert!(resolved(&named, "metadata.google.internal", 80, &["169.254.169.254"]).is_ok());
    assert!(resolved(&named, "metadata.google.internal", 8080, &["169.254.169.254"]).is_err());
}

#[test]
fn a_node_on_loopback_may_call_loopback_and_nothing_else_inside() {
    let guard = Guard::new::<&str>(&[], true).unwrap();
    for (url, expected) in [
        ("http://127.0.0.1:9000/", "yes"),
        ("http://127.8.8.8/", "yes"),
        ("http://[::1]:9000/", "yes"),
        ("http://[::ffff:127.0.0.1]/", "yes"),
        ("http://0.0.0.0/", UNSPECIFIED),
        ("http://[::]/", UNSPECIFIED),
        ("http://10.0.0.1/", PRIVATE),
        ("http://169.254.169.254/", METADATA),
    ] {
        assert_eq!(fate(&guard, url), expected, "{url}");
    }
}

#[test]
fn a_rule_opens_what_it_names() {
    check(
        &["10.1.0.0/16", "192.168.0.5", "172.16.0.9:8080", "[fd00::5]:80", "fd00::6", "fd12::/16"],
        &[
            ("10.1.2.3", "yes"),
            ("[::ffff:10.1.2.3]", "yes"),
            ("[64:ff9b::10.1.2.3]", "yes"),
            ("10.2.0.1", PRIVATE),
            ("192.168.0.5", "yes"),
            ("192.168.0.5:9", "yes"),
            ("192.168.0.6", PRIVATE),
            ("172.16.0.9:8080", "yes"),
            ("172.16.0.9:8081", PRIVATE),
            ("172.16.0.9", PRIVATE),
            ("[fd00::5]", "yes"),
            ("[fd00::5]:81", PRIVATE),
            ("[fd00::6]:81", "yes"),
            ("[fd12::1]", "yes"),
            ("[fd13::1]", PRIVATE),
            ("127.0.0.1", LOOPBACK),
        ],
    );
}

#[test]
fn a_wide_rule_does_not_open_the_metadata_service() {
    let wide = ["0.0.0.0/0", "::/0", "169.254.0.0/16", "fd00::/8"];
    check(&wide, &[("169.254.169.254", METADATA), ("[fd00:ec2::254]", METADATA), ("169.254.1.1", "yes")]);
    check(&["169.254.169.254"], &[("169.254.169.254", "yes"), ("169.254.170.2", METADATA)]);
    check(&["169.254.169.254/32"], &[("169.254.169.254", "yes")]);
    check(&["169.254.169.254:80"], &[("169.254.169.254:81", METADATA)]);
}

#[test]
fn a_name_is_refused_for_one_bad_address_among_good_ones() {
    let guard = guard(&[]);
    assert!(resolved(&guard, "a.example", 80, &["8.8.8.8", "2606:4700::1"]).is_ok());
    let refusal = resolved(&guard, "a.example", 80, &["8.8.8.8", "10.0.0.1"]).unwrap_err().to_string();
    assert!(refusal.starts_with("10.0.0.1 (an address of a.example) is a private address"), "{refusal}");
    assert!(refusal.contains("--allow-target 10.0.0.1") && refusal.contains("[targets] allow"), "{refusal}");
}

#[test]
fn a_name_in_a_rule_opens_whatever_it_resolves_to_except_metadata() {
    let guard = guard(&["intern.example", "Port.Example:8080", "*.wide.example"]);
    let private = ["10.0.0.1", "fd00::1"];
    for (name, port, is_allowed) in [
        ("intern.example", 80, true),
        ("intern.example.", 80, true),
        ("sub.intern.example", 80, false),
        ("evilintern.example", 80, false),
        ("port.example", 8080, true),
        ("port.example", 80, false),
        ("a.wide.example", 80, true),
        ("a.b.wide.example", 80, true),
        ("wide.example", 80, false),
        ("evilwide.example", 80, false),
    ] {
        assert_eq!(resolved(&guard, name, port, &private).is_ok(), is_allowed, "{name}:{port}");
    }
    assert!(resolved(&guard, "intern.example", 80, &["169.254.169.254"]).is_err());
}

#[test]
fn only_http_and_no_user_or_password() {
    let guard = guard(&[]);
    for (url, part) in [
        ("ftp://example.com/", "ftp is no scheme"),
        ("file:///etc/passwd", "file is no scheme"),
        ("gopher://example.com/", "gopher is no scheme"),
        ("http://user@example.com/", "a user or password"),
        ("http://user:word@example.com/", "a user or password"),
        ("http://:word@example.com/", "a user or password"),
        ("http://example.com@127.0.0.1/", "a user or password"),
    ] {
        let said = fate(&guard, url);
        assert!(said.contains(part), "{url}: {said}");
    }
    // The other readings of where the host ends.
    assert_eq!(fate(&guard, "http://127.0.0.1#@example.com/"), LOOPBACK);
    assert_eq!(fate(&guard, "http://127.0.0.1\\@example.com/"), LOOPBACK);
    assert_eq!(fate(&guard, "http:\\\\127.0.0.1/"), LOOPBACK);
    assert_eq!(fate(&guard, "http:/127.0.0.1/"), LOOPBACK);
}

#[test]
fn a_rule_that_means_nothing_is_an_error_that_says_what_would() {
    for rule in [
        "",
        "10.0.0.0/33",
        "intern.example/24",
        "http://intern.example",
        "host:0",
        "host:99999",
        "host:",
        "a.*.example",
        "*.10.0.0.1",
        "*",
        "fe80::1%eth0",
        "two words",
    ] {
        let error = Guard::new(&[rule], false).unwrap_err().to_string();
        assert!(error.contains("allows no target") && error.contains("expected a network"), "{error}");
    }
}

#[test]
fn a_closed_guard_calls_only_what_is_named_and_resolves_nothing_else() {
    let guard = Guard::new(&["10.0.0.0/8", "*.intern.example", "8.8.8.8"], true).unwrap().closed();
    let judge = |url: &str| guard.judge_url(&url.parse().unwrap()).is_ok();
    let allowed = ["http://10.1.2.3/", "http://a.intern.example/", "http://8.8.8.8/", "http://127.0.0.1/"];
    let refused =
        ["http://8.8.4.4/", "http://example.com/", "http://192.168.0.1/", "http://intern.example.org/"];
    assert_eq!(allowed.map(judge), [true; 4]);
    assert_eq!(refused.map(judge), [false; 4]);
}

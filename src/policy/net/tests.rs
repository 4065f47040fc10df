//! The table, address by address and spelling by spelling.

use super::*;

/// One or both ends of each range that is no public host, as the registries have them.
pub(crate) const FORBIDDEN_V4: [&str; 36] = [
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.192",
    "192.0.2.0",
    "192.0.2.255",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.0.0",
    "192.168.255.255",
    "192.175.48.1",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.0",
    "198.51.100.255",
    "203.0.113.0",
    "203.0.113.255",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.0",
    "254.1.2.3",
    "255.255.255.255",
    "100.100.100.200",
    "192.0.0.8",
    "10.11.12.13",
];

pub(crate) const FORBIDDEN_V6: [&str; 12] = [
    "::",
    "::1",
    "fe80::1",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "100::1",
    "2001:db8::1",
    "2001::1",
    "3fff:fff::1",
    "64:ff9b:1::a00:1",
];

pub(crate) const PUBLIC: [&str; 11] = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
];

/// Twelve ways to write one IPv4 address in a URL.
pub(crate) fn spellings_v4(address: &str) -> Vec<String> {
    let v4: Ipv4Addr = address.parse().unwrap();
    let [a, b, c, d] = v4.octets();
    let number = u32::from(v4);
    let (high, low) = (number >> 16, number & 0xffff);
    let wide = |text: &str| -> String {
        let wide = |c: char| match c {
            '0'..='9' => char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c),
            '.' => '\u{3002}',
            c => c,
        };
        text.chars().map(wide).collect()
    };
    vec![
        address.to_owned(),
        number.to_string(),
        format!("0x{number:x}"),
        format!("0{number:o}"),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a}.{}", number & 0x00ff_ffff),
        format!("{a}.{b}.{}", number & 0xffff),
        format!("{address}."),
        wide(address),
        format!("[::ffff:{high:x}:{low:x}]"),
        format!("[64:ff9b::{address}]"),
    ]
}

/// Twelve ways to write one IPv6 address in a URL.
pub(crate) fn spellings_v6(address: &str) -> Vec<String> {
    let v6: Ipv6Addr = address.parse().unwrap();
    let parts = v6.segments();
    let full = parts.map(|part| format!("{part:04x}")).join(":");
    let plain = parts.map(|part| format!("{part:x}")).join(":");
    let [.., high, low] = parts;
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    let head = parts[..6].iter().map(|part| format!("{part:x}")).collect::<Vec<_>>().join(":");
    let dotted = format!("{head}:{a}.{b}.{c}.{d}");
    let forms = [address.to_owned(), full, plain, dotted];
    let cased = forms.iter().flat_map(|form| [form.to_lowercase(), form.to_uppercase()]);
    let with_ports = forms.iter().map(|form| format!("[{form}]:8080"));
    cased.map(|form| format!("[{form}]")).chain(with_ports).collect()
}

fn judged(url: &str) -> Result<Destination, Refusal> {
    destination(&Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")), &PORTS)
}

#[test]
fn no_spelling_of_a_special_address_passes() {
    let mut tried = 0;
    let v4 = FORBIDDEN_V4.iter().flat_map(|address| spellings_v4(address));
    let v6 = FORBIDDEN_V6.iter().flat_map(|address| spellings_v6(address));
    for host in v4.chain(v6) {
        for scheme in ["http", "https"] {
            let judged = judged(&format!("{scheme}://{host}/"));
            assert!(matches!(judged, Err(Refusal::Address(..))), "{host}: {judged:?}");
        }
        tried += 1;
    }
    assert_eq!(tried, 48 * 12);
}

#[test]
fn public_hosts_pass_in_every_spelling() {
    for address in PUBLIC {
        let spelled = if address.contains(':') { spellings_v6(address) } else { spellings_v4(address) };
        for host in spelled {
            assert!(matches!(judged(&format!("http://{host}/")), Ok(Destination::Address(..))), "{host}");
        }
        assert_eq!(special(address.parse().unwrap()), None);
    }
}

#[test]
fn every_range_begins_and_ends_where_the_registry_says() {
    for (base, bits, what) in V4 {
        let first = u32::from(Ipv4Addr::from(base));
        let last = first | (u32::MAX >> bits);
        for inside in [first, last, first + (last - first) / 2] {
            assert_eq!(special_v4(Ipv4Addr::from(inside)), Some(what), "{}", Ipv4Addr::from(inside));
        }
    }
    let beside = ["1.0.0.0", "9.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "192.0.1.0"];
    let more = ["192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "203.0.114.0"];
    for outside in beside.into_iter().chain(more) {
        assert_eq!(special_v4(outside.parse().unwrap()), None, "{outside}");
    }
    for outside in
        ["2001:200::1", "2001:db7:ffff::1", "2001:db9::1", "2000::1", "3ffe:ffff::1", "3fff:1000::1"]
    {
        assert_eq!(special_v6(outside.parse().unwrap()), None, "{outside}");
    }
    for inside in ["1fff:ffff::1", "4000::1", "5f00::1", "2001:1ff::1", "3fff::1", "64:ff9b:1::808:808"] {
        assert!(special_v6(inside.parse().unwrap()).is_some(), "{inside}");
    }
}

#[test]
fn an_embedded_address_counts_as_what_it_stands_for() {
    for (wrapped, special_there) in [
        ("::ffff:10.0.0.1", true),
        ("::ffff:8.8.8.8", false),
        ("::127.0.0.1", true),
        ("64:ff9b::a9fe:a9fe", true),
        ("64:ff9b::808:808", false),
        ("2002:7f00:1::", true),
        ("2002:a9fe:a9fe::1", true),
        ("2002:808:808::1", false),
    ] {
        assert_eq!(special(wrapped.parse().unwrap()).is_some(), special_there, "{wrapped}");
    }
}

#[test]
fn names_of_this_machine_and_network_are_refused() {
    for name in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.b.localhost",
        "printer.local",
        "printer.local..",
        "metadata",
        "metadata.google.internal",
        "metadata.example.com",
        "x.internal",
        "router.lan",
        "router",
        "a.home.arpa",
        "x.localdomain",
        "kubernetes.default.svc.intranet",
    ] {
        let judged = judged(&format!("http://{name}/"));
        assert!(matches!(judged, Err(Refusal::Name(_))), "{name}: {judged:?}");
    }
    for name in ["example.com", "example.com.", "local.example.com", "notlocalhost.example", "xlocal.dev"] {
        let judged = judged(&format!("https://{name}/"));
        assert!(matches!(judged, Ok(Destination::Name(_, 443))), "{name}: {judged:?}");
    }
}

#[test]
fn schemes_ports_and_logins_are_checked() {
    for (url, refused) in [
        ("file:///etc/passwd", Refusal::Scheme("file".into())),
        ("javascript:alert(1)", Refusal::Scheme("javascript".into())),
        ("ftp://example.com/", Refusal::Scheme("ftp".into())),
        ("ws://example.com/", Refusal::Scheme("ws".into())),
        ("http://user@example.com/", Refusal::Userinfo),
        ("http://:pass@example.com/", Refusal::Userinfo),
        ("http://example.com:22/", Refusal::Port(22)),
        ("https://1.1.1.1:6379/", Refusal::Port(6379)),
    ] {
        assert_eq!(judged(url), Err(refused), "{url}");
    }
    let other = Url::parse("http://example.com:3000/").unwrap();
    assert!(destination(&other, &[3000]).is_ok());
}

#[test]
fn one_special_address_among_the_answers_refuses_all() {
    let all = |list: &[&str]| {
        let list: Vec<IpAddr> = list.iter().map(|address| address.parse().unwrap()).collect();
        addresses("x.example", &list)
    };
    assert_eq!(all(&["1.1.1.1", "2606:4700::1"]).unwrap().len(), 2);
    assert!(matches!(all(&["1.1.1.1", "127.0.0.1"]), Err(Refusal::Address(..))));
    assert!(matches!(all(&["1.1.1.1", "::ffff:10.0.0.1"]), Err(Refusal::Address(..))));
    assert_eq!(all(&[]), Err(Refusal::NoAddress("x.example".into())));
}

#[test]
fn a_refusal_says_what_and_why() {
    let text = judged("http://169.254.169.254/").unwrap_err().to_string();
    assert_eq!(text, "169.254.169.254 is not contacted: link-local, where clouds keep credentials");
}

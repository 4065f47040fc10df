//! Floor 1. Which addresses, names, ports and schemes a URL that somebody else chose may lead to:
//! the special-purpose registries of IANA as a table. Pure: it looks nothing up. The fetcher in
//! `transport::http` asks it before every connection, with the addresses that a name stands for.

#[cfg(test)]
pub(crate) mod tests;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

use url::{Host, Url};

/// Ports that are contacted unless a caller allows others.
pub const PORTS: [u16; 4] = [80, 443, 8080, 8443];

/// Ranges of IPv4 that are no public host: first address, length of the prefix, what it is.
const V4: [([u8; 4], u8, &str); 18] = [
    ([0, 0, 0, 0], 8, "this network"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "shared by a provider"),
    ([127, 0, 0, 0], 8, "this machine"),
    ([169, 254, 0, 0], 16, "link-local, where clouds keep credentials"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "for protocols"),
    ([192, 0, 2, 0], 24, "for documentation"),
    ([192, 31, 196, 0], 24, "AS112"),
    ([192, 52, 193, 0], 24, "AMT"),
    ([192, 88, 99, 0], 24, "6to4 relays"),
    ([192, 168, 0, 0], 16, "private"),
    ([192, 175, 48, 0], 24, "AS112"),
    ([198, 18, 0, 0], 15, "for benchmarks"),
    ([198, 51, 100, 0], 24, "for documentation"),
    ([203, 0, 113, 0], 24, "for documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// Ranges inside 2000::/3 that are no public host. Outside of it nothing is.
const V6: [([u16; 3], u8, &str); 3] = [
    ([0x2001, 0, 0], 23, "for protocols"),
    ([0x2001, 0xdb8, 0], 32, "for documentation"),
    ([0x3fff, 0, 0], 20, "for documentation"),
];

/// Endings of names that never mean a public host.
const NAMES: [&str; 7] = ["localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain"];

/// Why a URL or an address is not contacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Neither http nor https.
    Scheme(String),
    /// Name or password in the URL.
    Userinfo,
    /// A port that is not among the allowed ones.
    Port(u16),
    /// A name that means a host of this machine or network.
    Name(String),
    /// An address that is no public host, and what it is.
    Address(IpAddr, &'static str),
    /// The name stands for no address at all.
    NoAddress(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(scheme) => write!(f, "{scheme}: is not fetched, only http and https are"),
            Self::Userinfo => f.write_str("a URL with a name or password in it is not fetched"),
            Self::Port(port) => write!(f, "port {port} is not contacted"),
            Self::Name(name) => write!(f, "{name} is a name of this machine or network, not contacted"),
            Self::Address(address, what) => write!(f, "{address} is not contacted: {what}"),
            Self::NoAddress(name) => write!(f, "{name} has no address"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To an address that was checked.
    Address(IpAddr, u16),
    /// To a name; whatever it stands for is still to be checked.
    Name(String, u16),
}

/// Checks what a URL itself says. `ports` are those that may be contacted.
pub fn destination(url: &Url, ports: &[u16]) -> Result<Destination, Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::Userinfo);
    }
    let port = url.port_or_known_default().unwrap_or_default();
    let found = match url.host() {
        Some(Host::Ipv4(address)) => Destination::Address(vetted(address.into())?, port),
        Some(Host::Ipv6(address)) => Destination::Address(vetted(address.into())?, port),
        Some(Host::Domain(name)) => Destination::Name(public_name(name)?, port),
        None => return Err(Refusal::Name(String::new())),
    };
    if ports.contains(&port) { Ok(found) } else { Err(Refusal::Port(port)) }
}

/// The addresses that a name stands for: all must be public hosts, or none is contacted.
pub fn addresses(name: &str, found: &[IpAddr]) -> Result<Vec<IpAddr>, Refusal> {
    if found.is_empty() {
        return Err(Refusal::NoAddress(name.to_owned()));
    }
    found.iter().copied().map(vetted).collect()
}

fn vetted(address: IpAddr) -> Result<IpAddr, Refusal> {
    match special(address) {
        Some(what) => Err(Refusal::Address(address, what)),
        None => Ok(address),
    }
}

/// What an address is if it is no public host.
pub fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let within = |base: [u8; 4], bits: u8| {
        let shift = 32 - u32::from(bits);
        u32::from(address) >> shift == u32::from(Ipv4Addr::from(base)) >> shift
    };
    V4.iter().find(|(base, bits, _)| within(*base, *bits)).map(|(_, _, what)| *what)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(inner) = embedded(address) {
        return special_v4(inner);
    }
    let within = |base: [u16; 3], bits: u8| {
        let base = Ipv6Addr::new(base[0], base[1], base[2], 0, 0, 0, 0, 0);
        let shift = 128 - u32::from(bits);
        u128::from(address) >> shift == u128::from(base) >> shift
    };
    if !within([0x2000, 0, 0], 3) {
        return Some("no public host");
    }
    V6.iter().find(|(base, bits, _)| within(*base, *bits)).map(|(_, _, what)| *what)
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated, 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let tail = |high: u16, low: u16| {
        let [a, b, c, d] = [high.to_be_bytes(), low.to_be_bytes()].concat().try_into().unwrap_or([0; 4]);
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => tail(high, low),
        [0x2002, high, low, ..] => tail(high, low),
        _ => None,
    }
}

/// A name that may be looked up, without the dots at its end.
fn public_name(name: &str) -> Result<String, Refusal> {
    let bare = name.trim_end_matches('.').to_ascii_lowercase();
    let ends = |ending: &str| {
        bare.strip_suffix(ending).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    // A name without a dot is completed by the search list of this network.
    let local = !bare.contains('.') || NAMES.iter().any(|ending| ends(ending));
    if local || bare.starts_with("metadata.") { Err(Refusal::Name(bare)) } else { Ok(bare) }
}

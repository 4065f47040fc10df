//! The doors: what is looked at before a byte of the body is read, on every method and path. Pure.
//! A page in a browser can reach this machine's ports; `Host` and `Origin` tell such requests from
//! those of programs (DNS rebinding: the page's own name, resolved to 127.0.0.1).

use std::net::IpAddr;

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Uri};

/// Which names lead to this host.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The port that is listened on.
    pub port: u16,
    /// Whether addresses other than loopback are bound: then a `Host` may be any address.
    pub remote: bool,
    /// `http.hosts`: further names (a proxy's), without port.
    pub hosts: Vec<String>,
    /// `http.origins`: further origins, as a browser writes them.
    pub origins: Vec<String>,
}

/// Which door refused, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// `Host` is missing, doubled, malformed or foreign.
    Host,
    /// `Origin` is that of another site.
    Origin,
    /// The browser says that another site asked.
    Site,
}

impl Shut {
    /// What is told, with the cure.
    pub fn text(self) -> &'static str {
        match self {
            Self::Host => {
                "this Host is not served; use 127.0.0.1, [::1] or localhost, or list the name of your proxy in http.hosts"
            }
            Self::Origin => {
                "pages of this Origin may not use this host; list it in http.origins if it is yours"
            }
            Self::Site => "a page of another site asked for this (Sec-Fetch-Site), which is not served",
        }
    }
}

impl Names {
    /// Whether the request may come in.
    ///
    /// # Errors
    /// Which door is shut.
    pub fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Shut> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Shut::Host) };
        let known = |text: &str| authority(text).is_some_and(|(name, _)| self.is_ours(name));
        if !host.to_str().is_ok_and(known) {
            return Err(Shut::Host);
        }
        if uri.authority().is_some_and(|authority| !known(authority.as_str())) {
            return Err(Shut::Host);
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => {}
            (Some(origin), None) if origin.to_str().is_ok_and(|text| self.origin_is_ours(text)) => {}
            _ => return Err(Shut::Origin),
        }
        let site = headers.get("sec-fetch-site");
        let ours = site.is_none_or(|site| site == "same-origin" || site == "none");
        // An origin that is listed was asked for by name.
        if ours || headers.contains_key(ORIGIN) { Ok(()) } else { Err(Shut::Site) }
    }

    fn is_ours(&self, name: &str) -> bool {
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let literal = name.strip_prefix('[').map_or(name, |inner| inner.trim_end_matches(']'));
        if let Ok(address) = literal.parse::<IpAddr>() {
            return self.remote || address.is_loopback() || self.listed(name);
        }
        self.listed(name)
    }

    fn listed(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    fn origin_is_ours(&self, origin: &str) -> bool {
        if self.origins.iter().any(|known| known == origin) {
            return true;
        }
        let Some(rest) = origin.strip_prefix("http://") else { return false };
        authority(rest).is_some_and(|(name, port)| self.is_ours(name) && port.unwrap_or(80) == self.port)
    }
}

/// `NAME[:PORT]`, `ADDRESS[:PORT]`, `[ADDRESS][:PORT]`; `None` for anything else, such as user
/// information, blanks or an empty port.
fn authority(text: &str) -> Option<(&str, Option<u16>)> {
    let end = match text.strip_prefix('[') {
        Some(inner) => inner.find(']')? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (name, port) = text.split_at(end);
    let inner = name.strip_prefix('[').map_or(name, |inner| inner.trim_end_matches(']'));
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let good = if name.starts_with('[') {
        inner.parse::<std::net::Ipv6Addr>().is_ok()
    } else {
        !inner.is_empty() && inner.bytes().all(plain)
    };
    if !good {
        return None;
    }
    match port.strip_prefix(':') {
        None if port.is_empty() => Some((name, None)),
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().ok().map(|port| (name, Some(port)))
        }
        _ => None,
    }
}

/// Which forms of an answer the client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// `application/json`
    pub json: bool,
    /// `text/event-stream`
    pub events: bool,
}

/// What `Accept` says; without the header, everything.
pub fn accepts(headers: &HeaderMap) -> Accepts {
    let mut found = Accepts { json: false, events: false };
    if !headers.contains_key(ACCEPT) {
        return Accepts { json: true, events: true };
    }
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    for range in lines.flat_map(|line| line.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let refused = parts.any(|part| {
            let value = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            value.and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q <= 0.0)
        });
        if !refused {
            found.json |= matches!(kind.as_str(), "application/json" | "application/*" | "*/*");
            found.events |= matches!(kind.as_str(), "text/event-stream" | "text/*" | "*/*");
        }
    }
    found
}

/// Whether the body is JSON as we read it: `application/json`, in UTF-8, not packed.
pub fn is_json(headers: &HeaderMap) -> bool {
    let packed = headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let Ok(kind) = kind.to_str() else { return false };
    let mut parts = kind.split(';').map(str::trim);
    let json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let utf8 = parts.all(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        !key.trim().eq_ignore_ascii_case("charset")
            || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    json && utf8 && !packed
}

/// A header is there more than once, or is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unclear;

/// The one value of a header.
///
/// # Errors
/// When it has no one value.
pub fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Unclear> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Unclear),
        (Some(_), Some(_)) => Err(Unclear),
    }
}

#[cfg(test)]
mod tests;

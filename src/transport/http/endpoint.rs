//! A validated endpoint: its URL and the headers that go with every request. Pure.
//! What the configuration says about headers that are ours is left out here, so no
//! request can be sent without them or with two of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use url::Url;

use super::redirect;
use crate::transport::{HttpEndpoint, LinkFault};

/// What a POST accepts.
const ACCEPT_POST: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// What a GET accepts.
const ACCEPT_GET: HeaderValue = HeaderValue::from_static("text/event-stream");
/// What a POST brings.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Who asks, unless the configuration says otherwise.
const OURSELVES: HeaderValue = HeaderValue::from_static(concat!("callboard/", env!("CARGO_PKG_VERSION")));

/// Shortest configured value that is looked for in texts of the server, in bytes:
/// shorter ones are in every text.
const SECRET_MIN: usize = 6;
/// What is put in place of a secret.
const REDACTED: &str = "[redacted]";

/// Headers that are ours, besides all that begin with `mcp-`.
const RESERVED: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Whether a configured header of this name is ignored, because the protocol sets it.
pub fn is_reserved(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    name.starts_with("mcp-") || RESERVED.contains(&name.as_str())
}

/// Where requests go, and with which headers.
#[derive(Clone)]
pub(super) struct Target {
    /// The endpoint.
    pub(super) url: Url,
    /// The URL as errors may show it.
    pub(super) shown: String,
    post: HeaderMap,
    get: HeaderMap,
    secrets: Vec<String>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("url", &self.shown).finish_non_exhaustive()
    }
}

impl Target {
    /// Checks URL and headers. Errors name the field, never its value.
    pub(super) fn new(endpoint: &HttpEndpoint) -> Result<Self, LinkFault> {
        let mut url = Url::parse(endpoint.url.trim())
            .map_err(|e| LinkFault::Config(format!("url: {e}; write it as http://host:port/path")))?;
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = url.scheme();
            return Err(LinkFault::Config(format!(
                "url: the scheme is {scheme:?}; only http and https work"
            )));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(LinkFault::Config("url: it has no host".into()));
        }
        url.set_fragment(None);
        let mut user = user_headers(endpoint)?;
        user.entry(USER_AGENT).or_insert(OURSELVES);
        if let Some(login) = login(&url) {
            user.entry(AUTHORIZATION).or_insert(login);
        }
        let mut post = user.clone();
        post.insert(ACCEPT, ACCEPT_POST);
        post.insert(CONTENT_TYPE, JSON);
        let mut get = user;
        get.insert(ACCEPT, ACCEPT_GET);
        let shown = redirect::shown(&url);
        let secrets = secrets(&url, &get);
        Ok(Self { url, shown, post, get, secrets })
    }

    /// A place of the same server as requests name it: without login and fragment.
    pub(super) fn uri(&self, url: &Url) -> Option<http::Uri> {
        let mut url = url.clone();
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        url.as_str().parse().ok()
    }

    /// The headers of every POST.
    pub(super) fn post_headers(&self) -> HeaderMap {
        self.post.clone()
    }

    /// The headers of every GET and DELETE.
    pub(super) fn get_headers(&self) -> HeaderMap {
        self.get.clone()
    }

    /// A text of the server with our header values taken out: some servers repeat
    /// the request in their errors.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, REDACTED))
    }
}

/// Name and password that are written into the URL, as a header.
fn login(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let plain = [unescaped(url.username()), b":".to_vec(), unescaped(url.password().unwrap_or_default())];
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(plain.concat()))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The bytes behind `%XX`.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut plain) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let mut digit = || ahead.next().and_then(|b| char::from(b).to_digit(16));
        match (byte, digit(), digit()) {
            (b'%', Some(high), Some(low)) => {
                plain.extend(u8::try_from(high * 16 + low));
                bytes = ahead;
            }
            _ => plain.push(byte),
        }
    }
    plain
}

fn user_headers(endpoint: &HttpEndpoint) -> Result<HeaderMap, LinkFault> {
    let mut headers = HeaderMap::new();
    for (name, value) in &endpoint.headers {
        if is_reserved(name) {
            continue;
        }
        let legal = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| LinkFault::Config(format!("headers: {name:?} is not a header name")))?;
        let mut value = HeaderValue::from_str(value.trim())
            .or_else(|_| HeaderValue::from_bytes(value.trim().as_bytes()))
            .map_err(|_| {
                LinkFault::Config(format!(
                    "headers.{name}: the value has a line break or a control character"
                ))
            })?;
        value.set_sensitive(true);
        headers.append(legal, value);
    }
    Ok(headers)
}

/// Everything secret that a server could repeat: header values, the credential in
/// `Authorization` without its scheme, password and query of the URL. Longest first,
/// so that no secret is left in part because a piece of it went before.
fn secrets(url: &Url, headers: &HeaderMap) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (name, value) in headers.iter().filter(|(name, _)| !matches!(**name, ACCEPT | USER_AGENT)) {
        let Ok(text) = value.to_str() else { continue };
        found.push(text.to_owned());
        if let Some((_, credential)) = text.split_once(' ').filter(|_| name == AUTHORIZATION) {
            found.push(credential.trim().to_owned());
        }
    }
    found.extend(url.password().map(str::to_owned));
    found.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    found.retain(|secret| secret.len() >= SECRET_MIN);
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, headers: &[(&str, &str)]) -> Result<Target, LinkFault> {
        let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Target::new(&HttpEndpoint { url: url.to_owned(), headers })
    }

    fn config_text(result: Result<Target, LinkFault>) -> String {
        match result {
            Err(LinkFault::Config(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unusable_url_is_a_config_fault_that_says_why() {
        let cases = [
            ("", "url: "),
            ("/mcp", "url: "),
            ("host/mcp", "url: "),
            ("ftp://h/mcp", "\"ftp\""),
            ("http://", "url: "),
            ("stdio:run", "\"stdio\""),
        ];
        for (url, want) in cases {
            let text = config_text(target(url, &[]));
            assert!(text.contains(want), "{url}: {text}");
        }
        assert_eq!(target(" https://h/mcp#frag ", &[]).unwrap().url.as_str(), "https://h/mcp");
    }

    #[test]
    fn a_broken_header_is_named_without_its_value() {
        let text = config_text(target("http://h/", &[("X-Key", "canary\r\nX: y")]));
        assert!(text.contains("X-Key") && !text.contains("canary"), "{text}");
        assert!(config_text(target("http://h/", &[("bad name", "v")])).contains("bad name"));
    }

    #[test]
    fn configured_headers_cannot_remove_or_override_ours() {
        let target = target(
            "http://h/mcp",
            &[
                ("accept", "*/*"),
                ("Content-Type", "text/plain"),
                ("HOST", "evil"),
                ("Content-Length", "1"),
                ("Mcp-Session-Id", "x"),
                ("MCP-Protocol-Version", "1"),
                ("mcp-method", "x"),
                ("Transfer-Encoding", "gzip"),
                ("Accept-Encoding", "gzip"),
                ("Last-Event-ID", "1"),
                ("X-Api-Key", "k"),
                ("X-Api-Key", "l"),
            ],
        )
        .unwrap();
        let post = target.post_headers();
        assert_eq!(post.get_all(ACCEPT).iter().collect::<Vec<_>>(), ["application/json, text/event-stream"]);
        assert_eq!(post.get_all(CONTENT_TYPE).iter().collect::<Vec<_>>(), ["application/json"]);
        assert_eq!(post.get_all("x-api-key").iter().collect::<Vec<_>>(), ["k", "l"]);
        assert_eq!(post.len(), 5);
        assert_eq!(target.get_headers().get(ACCEPT).unwrap(), "text/event-stream");
        assert_eq!(target.get_headers().len(), 4);
    }

    #[test]
    fn a_login_in_the_url_goes_into_a_header_and_out_of_the_url() {
        let target = target("https://us%65r:p%40ss%zz@h:8/mcp?k=1#f", &[]).unwrap();
        let want = format!("Basic {}", STANDARD.encode("user:p@ss%zz"));
        assert_eq!(target.post_headers()[AUTHORIZATION], want.as_str());
        assert_eq!(target.uri(&target.url).unwrap(), "https://h:8/mcp?k=1");
        assert!(target.post_headers()[AUTHORIZATION].is_sensitive());
        assert_eq!(target.scrub(&want), "[redacted]");
    }

    #[test]
    fn what_is_configured_goes_before_what_we_say_of_ourselves() {
        let plain = target("http://h/mcp", &[]).unwrap();
        assert!(plain.get_headers()[USER_AGENT].to_str().unwrap().starts_with("callboard/"));
        assert!(plain.get_headers().get(AUTHORIZATION).is_none());
        let own = [("User-Agent", "mine"), ("Authorization", "Bearer mine")];
        let own = target("http://user:pass@h/mcp", &own).unwrap();
        for name in [USER_AGENT, AUTHORIZATION] {
            let all: Vec<_> = own.post_headers().get_all(&name).iter().cloned().collect();
            assert!(all.len() == 1 && all[0].to_str().unwrap().ends_with("mine"), "{all:?}");
        }
    }

    #[test]
    fn texts_of_the_server_never_repeat_our_header_values() {
        let target = target(
            "https://user:hunter22@h/mcp?key=querysecret",
            &[("Authorization", "Bearer tok-canary-1"), ("X-Key", "canary-2"), ("X-Short", "on")],
        )
        .unwrap();
        let text = target.scrub("got Bearer tok-canary-1, tok-canary-1, canary-2, hunter22, querysecret; on");
        assert_eq!(text, "got [redacted], [redacted], [redacted], [redacted], [redacted]; on");
        assert!(!format!("{target:?}").contains("canary") && !format!("{target:?}").contains("querysecret"));
    }
}

//! Modern requests say in headers what is in their body (SEP-2243), so that what stands between can
//! route them. Both must agree, or one of the two was tampered with. Pure.

use std::borrow::Cow;

use http::HeaderMap;

use super::doors;
use crate::transport::http::{ParamHeaders, unwrapped};
use crate::wire::envelope;
use crate::wire::era::{Era, Revision};

/// JSON-RPC code: a header is missing or says something else than the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// JSON-RPC code: a revision that we do not speak.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// The header that names the revision.
pub const VERSION_HEADER: &str = "mcp-protocol-version";
/// Where a modern body names its revision.
const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";

/// Why a request is refused before it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    /// JSON-RPC code.
    pub code: i64,
    /// What is wrong, with the cure.
    pub text: String,
    /// Raw JSON of `data`.
    pub data: Option<String>,
}

impl Clash {
    fn mismatch(text: impl Into<String>) -> Self {
        Self { code: HEADER_MISMATCH, text: text.into(), data: None }
    }

    /// The refusal of a revision that we do not speak, with those that we do.
    pub fn unsupported(requested: &str) -> Self {
        let supported: Vec<&str> = Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
        let data = serde_json::json!({ "supported": supported, "requested": requested });
        Self {
            code: UNSUPPORTED_VERSION,
            text: "Unsupported protocol version".to_owned(),
            data: Some(data.to_string()),
        }
    }
}

/// Which era a message belongs to.
///
/// # Errors
/// When header and body name different eras, or a revision that we do not speak.
pub fn era(headers: &HeaderMap, method: &str, params: &[u8], session: bool) -> Result<Era, Clash> {
    let header = doors::one(headers, VERSION_HEADER)
        .map_err(|_| Clash::mismatch("MCP-Protocol-Version is there more than once"))?;
    let meta = envelope::member(params, "_meta").map(|span| &params[span]);
    let body = meta.and_then(|meta| Some(envelope::text(&meta[envelope::member(meta, VERSION_META)?])));
    let body = match body {
        Some(Some(text)) => Some(text),
        Some(None) => return Err(Clash::mismatch(format!("{VERSION_META} in _meta is no string"))),
        None => None,
    };
    match (header, body) {
        // A handshake names its revision in its body; what an old client puts into the header is its wish.
        (_, None) if method == "initialize" => Ok(Era::Legacy),
        (Some(header), Some(body)) if header != body => Err(Clash::mismatch(format!(
            "MCP-Protocol-Version says {header}, and {VERSION_META} in _meta something else"
        ))),
        (None, Some(_)) => Err(Clash::mismatch(
            "MCP-Protocol-Version is missing: it must repeat the revision that _meta names",
        )),
        (Some(header), _) => match Revision::parse(header) {
            Some(revision) => Ok(revision.era()),
            None if session => Ok(Era::Legacy),
            None => Err(Clash::unsupported(header)),
        },
        (None, None) => Ok(Era::Legacy),
    }
}

/// Whether a modern request brings what every one must have in its `_meta`.
///
/// # Errors
/// What is missing.
pub fn complete(params: &[u8]) -> Result<(), Clash> {
    let meta = envelope::member(params, "_meta").map_or(&b"{}"[..], |span| &params[span]);
    for (key, open) in [(VERSION_META, b'"'), ("io.modelcontextprotocol/clientCapabilities", b'{')] {
        let found = envelope::member(meta, key).is_some_and(|span| meta[span].starts_with(&[open]));
        if !found {
            let text = format!("{key} is missing in _meta of the params: every request must have it");
            return Err(Clash { code: -32602, text, data: None });
        }
    }
    Ok(())
}

/// Whether the headers of a modern request say what is in its body.
///
/// # Errors
/// What is missing or different.
pub fn agree(headers: &HeaderMap, method: &str, params: &[u8]) -> Result<(), Clash> {
    let one = |name: &'static str| {
        doors::one(headers, name)
            .map_err(|_| Clash::mismatch(format!("{name} is there more than once, or is no text")))
    };
    match one("mcp-method")? {
        Some(named) if named == method => {}
        Some(_) => return Err(Clash::mismatch("Mcp-Method is not the method of the body")),
        None => return Err(Clash::mismatch("Mcp-Method is missing: it must repeat the method of the body")),
    }
    let Some(key) = name_key(method) else { return Ok(()) };
    let value = envelope::member(params, key).and_then(|span| envelope::text(&params[span]));
    // A body without a name is refused for that, by whoever reads it.
    let Some(value) = value else { return Ok(()) };
    match one("mcp-name")? {
        None => Err(Clash::mismatch(format!("Mcp-Name is missing: it must repeat {key} of the params"))),
        Some(named) if unwrapped(named).is_some_and(|named| named == value) => Ok(()),
        Some(_) => Err(Clash::mismatch(format!("Mcp-Name is not {key} of the params"))),
    }
}

/// The member of `params` that `Mcp-Name` repeats.
fn name_key(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    }
}

/// The tool that a call names.
pub fn called(params: &[u8]) -> Option<Cow<'_, str>> {
    envelope::member(params, "name").and_then(|span| envelope::text(&params[span]))
}

/// Whether the headers of a modern call repeat the arguments that its tool wants mirrored; `schema` is
/// the tool's `inputSchema`. One that breaks the rules of the annotation asks for nothing.
///
/// # Errors
/// Which one is missing or different.
pub fn agree_params(headers: &HeaderMap, schema: &[u8], params: &[u8]) -> Result<(), Clash> {
    let Ok(mirrored) = ParamHeaders::of_schema(schema) else { return Ok(()) };
    let arguments = envelope::member(params, "arguments").map_or(&b""[..], |span| &params[span]);
    mirrored.agree(arguments, |name| doors::one(headers, name)).map_err(Clash::mismatch)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(of: &[(&str, &str)]) -> HeaderMap {
        of.iter()
            .map(|(name, value)| {
                (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    const META: &[u8] = br#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;

    #[test]
    fn the_era_is_that_of_header_and_body_and_they_must_agree() {
        let code = |header: Option<&str>, params: &[u8], session: bool| {
            let headers = header.map(|value| headers(&[(VERSION_HEADER, value)])).unwrap_or_default();
            era(&headers, "tools/list", params, session).map_err(|clash| clash.code)
        };
        assert_eq!(code(None, b"", false), Ok(Era::Legacy));
        assert_eq!(code(Some("2025-06-18"), b"{}", true), Ok(Era::Legacy));
        assert_eq!(code(Some("2026-07-28"), META, false), Ok(Era::Modern));
        assert_eq!(code(Some("2026-07-28"), b"{}", false), Ok(Era::Modern));
        assert_eq!(code(None, META, false), Err(HEADER_MISMATCH));
        assert_eq!(code(Some("2025-06-18"), META, true), Err(HEADER_MISMATCH));
        assert_eq!(code(Some("2099-01-01"), b"{}", false), Err(UNSUPPORTED_VERSION));
        assert_eq!(code(Some("2099-01-01"), b"{}", true), Ok(Era::Legacy));
        let odd = br#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#;
        assert_eq!(code(Some("2026-07-28"), odd, false), Err(HEADER_MISMATCH));
        assert_eq!(
            era(&headers(&[(VERSION_HEADER, "2099-01-01")]), "initialize", b"{}", false),
            Ok(Era::Legacy)
        );
        assert!(Clash::unsupported("x").data.unwrap().contains("2026-07-28"));
    }

    #[test]
    fn method_and_name_are_compared_with_the_body_also_when_wrapped() {
        let call =
            |of: &[(&str, &str)], params: &str| agree(&headers(of), "tools/call", params.as_bytes()).is_ok();
        let named = r#"{"name":"echo"}"#;
        assert!(call(&[("mcp-method", "tools/call"), ("mcp-name", "echo")], named));
        assert!(call(&[("mcp-method", "tools/call"), ("mcp-name", "=?base64?ZWNobw==?=")], named));
        assert!(call(
            &[("mcp-method", "tools/call"), ("mcp-name", "=?base64?w7Y=?=")],
            r#"{"name":"\u00f6"}"#
        ));
        assert!(!call(&[("mcp-method", "tools/call"), ("mcp-name", "=?base64?!!?=")], named));
        assert!(!call(&[("mcp-method", "tools/call"), ("mcp-name", "other")], named));
        assert!(!call(&[("mcp-method", "tools/list"), ("mcp-name", "echo")], named));
        assert!(!call(&[("mcp-method", "tools/call")], named));
        assert!(!call(&[("mcp-name", "echo")], named));
        assert!(!call(&[("mcp-method", "tools/call"), ("mcp-name", "echo"), ("mcp-name", "echo")], named));
        assert!(agree(&headers(&[("mcp-method", "tools/list")]), "tools/list", b"{}").is_ok());
        let read = headers(&[("mcp-method", "resources/read"), ("mcp-name", "file:///a")]);
        assert!(agree(&read, "resources/read", br#"{"uri":"file:///a"}"#).is_ok());
        assert!(agree(&read, "resources/read", br#"{"uri":"file:///b"}"#).is_err());
    }
}

//! Header values that mirror parts of a message (SEP-2243): which methods carry a
//! name, how text that no header can hold is wrapped, and how it is read back. Pure;
//! called for each request of the modern era, towards servers and by the front for clients.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// Opens a wrapped value; lower case, as the protocol has it.
const WRAP_START: &str = "=?base64?";
/// Closes a wrapped value.
const WRAP_END: &str = "?=";

/// Whether requests of this method carry `Mcp-Name`.
pub(super) fn carries_name(method: &str) -> bool {
    matches!(
        method,
        "tools/call"
            | "prompts/get"
            | "resources/read"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "tasks/get"
            | "tasks/update"
            | "tasks/cancel"
    )
}

/// The text as a header value: unchanged when a header can hold it as it is, else
/// wrapped as `=?base64?…?=`. Text that looks wrapped already is wrapped again, so
/// that reading it back is never in doubt.
pub(super) fn value(text: &str) -> Cow<'_, str> {
    if fits(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{WRAP_START}{}{WRAP_END}", STANDARD.encode(text)))
    }
}

/// The text that a header value stands for: what `=?base64?…?=` wraps, else the value itself, also
/// where only one end of the wrapping is there. `None`: wrapped, but not as Base64 of UTF-8.
pub fn unwrapped(value: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = value.strip_prefix(WRAP_START).and_then(|rest| rest.strip_suffix(WRAP_END)) else {
        return Some(Cow::Borrowed(value));
    };
    String::from_utf8(STANDARD.decode(inner).ok()?).ok().map(Cow::Owned)
}

fn fits(text: &str) -> bool {
    let printable = text.bytes().all(|b| (0x20..=0x7e).contains(&b));
    let trimmed = text.trim_matches(' ').len() == text.len();
    let looks_wrapped = text.starts_with(WRAP_START) && text.ends_with(WRAP_END);
    printable && trimmed && !looks_wrapped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_text_that_a_header_cannot_hold_is_wrapped() {
        let cases = [
            ("echo", "echo"),
            ("", ""),
            ("file:///a b.txt", "file:///a b.txt"),
            ("two  inner  blanks", "two  inner  blanks"),
            (" lead", "=?base64?IGxlYWQ=?="),
            ("trail ", "=?base64?dHJhaWwg?="),
            ("tab\t", "=?base64?dGFiCQ==?="),
            ("in\tner", "=?base64?aW4JbmVy?="),
            ("line\nbreak", "=?base64?bGluZQpicmVhaw==?="),
            ("Grüße", "=?base64?R3LDvMOfZQ==?="),
            ("\u{7f}", "=?base64?fw==?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?base64?open", "=?base64?open"),
        ];
        for (text, want) in cases {
            assert_eq!(value(text), want, "{text:?}");
        }
    }

    #[test]
    fn names_travel_with_the_methods_that_address_one_item() {
        for method in ["tools/call", "prompts/get", "resources/read"] {
            assert!(carries_name(method), "{method}");
        }
        for method in ["tools/list", "initialize", "server/discover", "ping", "completion/complete"] {
            assert!(!carries_name(method), "{method}");
        }
    }

    proptest! {
        #[test]
        fn every_text_becomes_a_legal_header_value_that_reads_back(text in ".*") {
            let encoded = value(&text);
            prop_assert!(http::header::HeaderValue::from_str(&encoded).is_ok());
            let back = unwrapped(&encoded);
            prop_assert_eq!(back.as_deref(), Some(text.as_str()));
        }
    }
}

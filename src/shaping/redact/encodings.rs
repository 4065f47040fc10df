//! The forms in which a value may come back: as addresses, JSON, HTML, shells, hex and base64
//! write it. Each is text that has the same length wherever it stands. Called by `redact`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::VALUE_LEN_MIN;

/// The forms in which a value may come back.
pub(super) fn encodings(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.as_bytes();
    let json = [json(value, Escapes::Few), json(value, Escapes::Ascii), json(value, Escapes::Html)];
    let mut forms: Vec<Vec<u8>> = vec![
        bytes.to_vec(),
        percent(bytes, false, true).into_bytes(),
        percent(bytes, false, false).into_bytes(),
        percent(bytes, true, true).into_bytes(),
        component(bytes).into_bytes(),
        hex(bytes, false).into_bytes(),
        hex(bytes, true).into_bytes(),
        html(value, "&#39;", "&quot;").into_bytes(),
        html(value, "&#x27;", "&quot;").into_bytes(),
        html(value, "&#39;", "&#34;").into_bytes(),
        value.replace('\'', r"'\''").into_bytes(),
        backslashed(value).into_bytes(),
    ];
    for form in json {
        forms.push(form.replace('/', "\\/").into_bytes());
        // JSON that is itself a text in JSON.
        forms.push(self::json(&form, Escapes::Few).into_bytes());
        forms.push(capital_escapes(&form).into_bytes());
        forms.push(form.into_bytes());
    }
    for shift in 0..3 {
        forms.extend(inside_base64(bytes, shift).into_iter().map(String::into_bytes));
    }
    forms.push(STANDARD.encode(bytes).into_bytes());
    forms.push(URL_SAFE.encode(bytes).into_bytes());
    forms.push(STANDARD.encode(bytes).trim_end_matches('=').as_bytes().to_vec());
    forms.push(URL_SAFE.encode(bytes).trim_end_matches('=').as_bytes().to_vec());
    forms
}

/// `application/x-www-form-urlencoded` (`plus`) or URL encoding of everything that is not unreserved.
pub(super) fn percent(bytes: &[u8], plus: bool, upper: bool) -> String {
    bytes.iter().fold(String::new(), |mut out, &b| {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(b)),
            b' ' if plus => out.push('+'),
            _ if upper => out += &format!("%{b:02X}"),
            _ => out += &format!("%{b:02x}"),
        }
        out
    })
}

/// As `encodeURIComponent` writes it.
fn component(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, &b| {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(char::from(b)),
            b'-' | b'_' | b'.' | b'~' | b'!' | b'\'' | b'(' | b')' | b'*' => out.push(char::from(b)),
            _ => out += &format!("%{b:02X}"),
        }
        out
    })
}

fn hex(bytes: &[u8], upper: bool) -> String {
    bytes.iter().map(|b| if upper { format!("{b:02X}") } else { format!("{b:02x}") }).collect()
}

fn html(value: &str, apostrophe: &str, quote: &str) -> String {
    let text = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('\'', apostrophe).replace('"', quote)
}

/// As a shell's `printf %q` writes it.
fn backslashed(value: &str) -> String {
    value.chars().fold(String::new(), |mut out, c| {
        if c.is_ascii()
            && !c.is_ascii_alphanumeric()
            && !matches!(c, '_' | '-' | '.' | '/' | ':' | '=' | '+' | '@' | ',')
        {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

/// What a writer of JSON escapes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// What must be.
    Few,
    /// And everything outside ASCII.
    Ascii,
    /// And what HTML would read.
    Html,
}

/// As JSON writes it inside a string.
fn json(value: &str, escapes: Escapes) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    let inner = &quoted[1..quoted.len() - 1];
    inner.chars().fold(String::new(), |mut out, c| {
        let escaped = match escapes {
            Escapes::Few => false,
            Escapes::Ascii => !c.is_ascii(),
            Escapes::Html => !c.is_ascii() || matches!(c, '<' | '>' | '&' | '\''),
        };
        if escaped {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out += &format!("\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
        out
    })
}

/// `\u00E4` for `\u00e4`.
fn capital_escapes(json: &str) -> String {
    let mut pieces = json.split("\\u");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |out, piece| {
        let (digits, rest) = piece.split_at_checked(4).unwrap_or((piece, ""));
        format!("{out}\\u{}{rest}", digits.to_ascii_uppercase())
    })
}

/// The characters of base64 that depend on the value alone when it stands `shift` bytes
/// after a group boundary, in both alphabets: so `user:value` in a `Basic` header is found.
fn inside_base64(value: &[u8], shift: usize) -> Vec<String> {
    let mut padded = vec![0; shift];
    padded.extend_from_slice(value);
    let head = [0, 2, 3][shift];
    let whole = padded.len() * 8 / 6;
    [STANDARD.encode(&padded), URL_SAFE.encode(&padded)]
        .into_iter()
        .filter_map(|text| text.get(head..whole).map(str::to_owned))
        .filter(|text| text.len() >= VALUE_LEN_MIN)
        .collect()
}

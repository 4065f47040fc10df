//! Floor 5. Results of tools, resources and prompts for a person: text as text, the
//! rest as placeholders with type and size, structured data once. Also the binary
//! parts, for `-o`. Pure; the text of servers goes through the given cleaner.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::text;

/// Makes a server's text printable and free of known secrets.
pub type Clean<'a> = &'a dyn Fn(&str) -> String;

/// What an answer without any content shows.
const EMPTY: &str = "(empty result)";

/// A binary part of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its media type, as the server says.
    pub mime: String,
    /// Its bytes, or why they can't be decoded.
    pub bytes: Result<Vec<u8>, String>,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "isError")]
    is_error: Option<&'a RawValue>,
}

/// Whether a tool result says of itself that it failed.
pub fn is_error(result: &str) -> bool {
    object::<ToolResult<'_>>(result).is_some_and(|r| r.is_error.is_some_and(|flag| flag.get() == "true"))
}

/// The result of `tools/call`.
pub fn tool_text(result: &str, clean: Clean<'_>) -> String {
    let Some((parsed, blocks)) = parse_tool(result) else { return clean(&pretty(result)) };
    let mut parts: Vec<String> = blocks.iter().map(|block| block_text(block, clean)).collect();
    parts.retain(|part| !part.trim().is_empty());
    if let Some(structured) = parsed.structured.filter(|s| s.get() != "null")
        && !blocks.iter().any(|block| says_the_same(block, structured))
    {
        parts.push(clean(&pretty(structured.get())));
    }
    if parts.is_empty() { EMPTY.to_owned() } else { parts.join("\n") }
}

/// A result and the entries of its content; one lone block counts as a list of one.
fn parse_tool(result: &str) -> Option<(ToolResult<'_>, Vec<Value>)> {
    let parsed: ToolResult<'_> = object(result)?;
    let blocks = match parsed.content.map(|raw| serde_json::from_str(raw.get())) {
        Some(Ok(Value::Array(blocks))) => blocks,
        Some(Ok(Value::Null)) | None => Vec::new(),
        Some(Ok(one)) => vec![one],
        Some(Err(_)) => return None,
    };
    Some((parsed, blocks))
}

fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    // A derived struct would also take an array.
    text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

fn says_the_same(block: &Value, structured: &RawValue) -> bool {
    let Some(text) = block.get("text").and_then(Value::as_str) else { return false };
    let same = |a: &str, b: &str| matches!((serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)), (Ok(a), Ok(b)) if a == b);
    same(text, structured.get())
}

/// The result of `resources/read`.
pub fn resource_text(result: &str, clean: Clean<'_>) -> String {
    let Ok(value) = serde_json::from_str::<Value>(result) else { return clean(&pretty(result)) };
    let Some(contents) = value.get("contents").and_then(Value::as_array) else {
        return clean(&pretty(result));
    };
    let parts: Vec<String> =
        contents.iter().map(|part| resource_part(part, contents.len() > 1, clean)).collect();
    if parts.is_empty() { EMPTY.to_owned() } else { parts.join("\n") }
}

fn resource_part(part: &Value, headed: bool, clean: Clean<'_>) -> String {
    let uri = clean(field(part, "uri"));
    match (part.get("text").and_then(Value::as_str), part.get("blob").and_then(Value::as_str)) {
        (Some(text), _) if headed => format!("[{uri}]\n{}", clean(text)),
        (Some(text), _) => clean(text),
        (None, Some(blob)) => {
            placeholder("blob", field(part, "mimeType"), &uri, Some(decoded_len(blob)), clean)
        }
        (None, None) => placeholder("resource", field(part, "mimeType"), &uri, None, clean),
    }
}

/// The result of `prompts/get`.
pub fn prompt_text(result: &str, clean: Clean<'_>) -> String {
    let Ok(value) = serde_json::from_str::<Value>(result) else { return clean(&pretty(result)) };
    let Some(messages) = value.get("messages").and_then(Value::as_array) else {
        return clean(&pretty(result));
    };
    let mut out = Vec::new();
    for message in messages {
        let role = clean(field(message, "role"));
        let content = match message.get("content") {
            Some(Value::Array(blocks)) => {
                blocks.iter().map(|block| block_text(block, clean)).collect::<Vec<_>>().join("\n")
            }
            Some(block) => block_text(block, clean),
            None => String::new(),
        };
        out.push(format!("{role}:\n{}", text::indent(&content, "  ")));
    }
    if out.is_empty() { EMPTY.to_owned() } else { out.join("\n\n") }
}

fn block_text(block: &Value, clean: Clean<'_>) -> String {
    match field(block, "type") {
        "text" => clean(field(block, "text")),
        kind @ ("image" | "audio") => {
            let size = block.get("data").and_then(Value::as_str).map(decoded_len);
            placeholder(kind, field(block, "mimeType"), "", size, clean)
        }
        "resource_link" => {
            let name = field(block, "name");
            let uri = field(block, "uri");
            let about = if name.is_empty() { uri.to_owned() } else { format!("{name} {uri}") };
            placeholder("link", field(block, "mimeType"), &clean(&about), None, clean)
        }
        "resource" => block.get("resource").map_or_else(
            || placeholder("resource", "", "", None, clean),
            |resource| resource_part(resource, true, clean),
        ),
        "" => match block {
            Value::String(text) => clean(text),
            other => clean(&other.to_string()),
        },
        other => {
            let size = block.to_string().len() as u64;
            placeholder(&clean(other), field(block, "mimeType"), "", Some(size), clean)
        }
    }
}

fn placeholder(kind: &str, mime: &str, about: &str, size: Option<u64>, clean: Clean<'_>) -> String {
    let mut words = vec![kind.to_owned()];
    for word in [about.to_owned(), clean(mime)] {
        if !word.is_empty() {
            words.push(word);
        }
    }
    let size = size.map(|n| format!(", {}", text::bytes(n))).unwrap_or_default();
    format!("[{}{size}]", words.join(" "))
}

fn field<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn decoded_len(base64: &str) -> u64 {
    let digits = base64.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'=').count() as u64;
    digits * 3 / 4
}

/// The binary parts of any result, in order: images, audio, blobs of resources.
pub fn blobs(result: &str) -> Vec<Blob> {
    let Ok(value) = serde_json::from_str::<Value>(result) else { return Vec::new() };
    let mut found = Vec::new();
    let list = |key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    for block in list("content").iter().chain(&list("contents")) {
        collect(block, &mut found);
    }
    for message in list("messages") {
        match message.get("content") {
            Some(Value::Array(blocks)) => blocks.iter().for_each(|block| collect(block, &mut found)),
            Some(block) => collect(block, &mut found),
            None => {}
        }
    }
    found
}

fn collect(block: &Value, found: &mut Vec<Blob>) {
    let holder = block.get("resource").unwrap_or(block);
    let data = match field(block, "type") {
        "image" | "audio" => block.get("data"),
        _ => holder.get("blob"),
    };
    if let Some(data) = data.and_then(Value::as_str) {
        found.push(Blob { mime: field(holder, "mimeType").to_owned(), bytes: decode(data) });
    }
}

/// Base64 in either alphabet, padded or not; white space is skipped.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    use base64::Engine;
    use base64::alphabet::{STANDARD, URL_SAFE};
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let compact: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let alphabet = if compact.iter().any(|b| matches!(b, b'-' | b'_')) { &URL_SAFE } else { &STANDARD };
    GeneralPurpose::new(alphabet, LENIENT).decode(compact).map_err(|e| format!("not valid base64: {e}"))
}

/// JSON over several lines with every number and escape as it was written. What is
/// short stays on its line.
pub fn pretty(json: &str) -> String {
    const ONE_LINE_LEN_MAX: usize = 80;
    let json = json.trim();
    if json.len() <= ONE_LINE_LEN_MAX && !json.contains('\n') {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut chars = json.chars().peekable();
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(INDENT_DEPTH_MAX)));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                let mut escaped = false;
                for c in chars.by_ref() {
                    out.push(c);
                    match c {
                        '"' if !escaped => break,
                        '\\' => escaped = !escaped,
                        _ => escaped = false,
                    }
                }
            }
            '{' | '[' => {
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                out.push(c);
                if let Some(close) = chars.next_if(|next| matches!((c, next), ('{', '}') | ('[', ']'))) {
                    out.push(close);
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                newline(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// Levels beyond which lines are not moved further to the right.
const INDENT_DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clean(text: &str) -> String {
        text.replace('\u{1b}', "␛")
    }

    fn tool(result: &str) -> String {
        tool_text(result, &clean)
    }

    #[test]
    fn text_is_shown_as_text_without_escape_sequences() {
        let result = r#"{"content":[{"type":"text","text":"one"},{"type":"text","text":"\u001b[31mtwo"}]}"#;
        assert_eq!(tool(result), "one\n␛[31mtwo");
    }

    #[test]
    fn structured_data_is_shown_once() {
        assert_eq!(tool(r#"{"content":[],"structuredContent":{"n":1}}"#), r#"{"n":1}"#);
        assert_eq!(
            tool(r#"{"content":[{"type":"text","text":"{ \"n\" : 1 }"}],"structuredContent":{"n":1}}"#),
            r#"{ "n" : 1 }"#
        );
        assert_eq!(
            tool(r#"{"content":[{"type":"text","text":"found one"}],"structuredContent":{"n":1}}"#),
            "found one\n{\"n\":1}"
        );
    }

    #[test]
    fn an_empty_result_says_so() {
        for empty in [r#"{"content":[]}"#, "{}", r#"{"content":[{"type":"text","text":" "}]}"#] {
            assert_eq!(tool(empty), "(empty result)", "{empty}");
        }
    }

    #[test]
    fn what_can_not_be_shown_gets_a_placeholder_with_type_and_size() {
        let result = r#"{"content":[
            {"type":"image","mimeType":"image/png","data":"AAAAAAAA"},
            {"type":"audio","mimeType":"audio/wav","data":"AAAA"},
            {"type":"resource_link","name":"n","uri":"file:///x","mimeType":"text/plain"},
            {"type":"resource","resource":{"uri":"a:b","text":"inside"}},
            {"type":"hologram","mimeType":"x/y","deep":true}]}"#;
        assert_eq!(
            tool(result),
            "[image image/png, 6 B]\n[audio audio/wav, 3 B]\n[link n file:///x text/plain]\n[a:b]\ninside\n\
             [hologram x/y, 48 B]"
        );
    }

    #[test]
    fn a_result_that_is_no_such_thing_is_still_shown() {
        assert_eq!(tool("[1,2]"), "[1,2]");
        assert_eq!(tool(r#"{"content":"lone"}"#), "lone");
        let deep = format!(r#"{{"content":[{}{}]}}"#, "[".repeat(200), "]".repeat(200));
        assert!(tool(&deep).contains("[[") || tool(&deep).contains("[\n"), "{}", tool(&deep));
    }

    #[test]
    fn only_a_true_is_error_is_one() {
        assert!(is_error(r#"{"content":[],"isError":true}"#));
        assert!(!is_error(r#"{"content":[],"isError":false}"#));
        assert!(!is_error(r#"{"content":[],"isError":"true"}"#));
        assert!(!is_error("{}"));
    }

    #[test]
    fn resources_and_prompts_are_shown() {
        let one = r#"{"contents":[{"uri":"a:b","text":"hello"}]}"#;
        assert_eq!(resource_text(one, &clean), "hello");
        let two =
            r#"{"contents":[{"uri":"a:b","text":"hello"},{"uri":"c:d","mimeType":"x/y","blob":"AAAA"}]}"#;
        assert_eq!(resource_text(two, &clean), "[a:b]\nhello\n[blob c:d x/y, 3 B]");
        let prompt = r#"{"messages":[{"role":"user","content":{"type":"text","text":"a\nb"}}]}"#;
        assert_eq!(prompt_text(prompt, &clean), "user:\n  a\n  b");
    }

    #[test]
    fn binary_parts_come_out_whole_and_a_bad_one_says_why() {
        let result = r#"{"content":[
            {"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="},
            {"type":"text","text":"x"},
            {"type":"resource","resource":{"uri":"a:b","mimeType":"x/y","blob":"_-8"}},
            {"type":"audio","mimeType":"audio/wav","data":"!!"}]}"#;
        let blobs = blobs(result);
        assert_eq!(blobs.len(), 3);
        assert_eq!(blobs[0].bytes.as_deref(), Ok(&b"\x89PNG\r\n\x1a\n"[..]));
        assert_eq!((blobs[1].mime.as_str(), blobs[1].bytes.as_deref()), ("x/y", Ok(&[0xff, 0xef][..])));
        assert!(blobs[2].bytes.as_ref().is_err_and(|e| e.contains("base64")));
    }

    #[test]
    fn pretty_json_keeps_every_token() {
        let json = r#"{"big":123456789012345678901234567890,"f":1.000,"s":"a, {b}: \"c\\","list":[1,{"x":[]}],"e":{ }}"#;
        let out = pretty(json);
        assert!(out.contains("\n  \"big\": 123456789012345678901234567890,\n"), "{out}");
        assert!(out.contains(r#""s": "a, {b}: \"c\\","#), "{out}");
        assert!(out.contains("\"x\": []") && out.contains("\"e\": {}"), "{out}");
        assert_eq!(
            serde_json::from_str::<Value>(&out).unwrap(),
            serde_json::from_str::<Value>(json).unwrap()
        );
    }

    proptest! {
        #[test]
        fn pretty_never_changes_a_value(list in prop::collection::vec((".{0,20}", any::<f64>()), 0..12)) {
            let list: Vec<_> = list.into_iter().filter(|(_, n)| n.is_finite()).collect();
            let json = serde_json::to_string(&list).unwrap();
            let out = pretty(&json);
            prop_assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), serde_json::from_str::<Value>(&json).unwrap());
        }

        #[test]
        fn no_result_makes_a_panic(result in "\\PC{0,80}") {
            prop_assert!(!tool_text(&result, &clean).is_empty() || result.trim().is_empty());
            let _ = (resource_text(&result, &clean), prompt_text(&result, &clean), blobs(&result));
        }
    }
}

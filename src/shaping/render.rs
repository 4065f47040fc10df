//! Results as a person reads them on a terminal: one block for each content block,
//! in order, placeholders with type and size where something can't be shown, the
//! structured content once. The bytes of images and files stay within reach.
//! Never fetches anything a block names. Called by the command line.

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{alphabet, engine::DecodePaddingMode};
use serde_json::Value;

pub use super::terminal::{columns, one_line, printable};
use crate::wire::envelope::{elements, member, members};
use crate::wire::scan;

/// What a server calls a type, a name or a URI is shown up to this width, in columns.
const LABEL_WIDTH_MAX: usize = 200;

/// A whole result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The tool said that it failed (`isError`).
    pub is_error: bool,
    /// What to print, in order; never empty.
    pub blocks: Vec<RenderedBlock>,
}

/// One block of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedBlock {
    /// What it is.
    pub kind: BlockKind,
    /// Printable text: the content itself, or a placeholder in brackets.
    pub text: String,
    /// The bytes behind a placeholder.
    pub binary: Option<BinaryPart>,
}

/// The kinds of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// `text`
    Text,
    /// `image`
    Image,
    /// `audio`
    Audio,
    /// `resource_link`
    ResourceLink,
    /// `resource`: embedded.
    Resource,
    /// A role of a prompt message.
    Role,
    /// `structuredContent`, or a result of unknown form, as JSON.
    Json,
    /// A type that we don't know.
    Unknown,
    /// There was nothing.
    Empty,
}

/// Binary content as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryPart {
    /// MIME type as the server wrote it; empty when it wrote none.
    pub mime: String,
    /// The content in base64.
    pub base64: String,
}

/// What becomes of the text of a block. Placeholders are fit to print either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    /// Nothing in it steers a terminal.
    Printable,
    /// As the server wrote it: the caller sanitises it.
    AsWritten,
}

impl Words {
    fn of(self, text: &str) -> String {
        match self {
            Self::Printable => printable(text).into_owned(),
            Self::AsWritten => text.to_owned(),
        }
    }
}

/// With or without padding, and without regard to bits that are left over.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);

impl BinaryPart {
    /// The bytes themselves; both base64 alphabets, white space and missing padding are accepted.
    pub fn decode(&self) -> Result<Vec<u8>, String> {
        let text: String = self.base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let letters = if text.contains(['-', '_']) { alphabet::URL_SAFE } else { alphabet::STANDARD };
        GeneralPurpose::new(&letters, LENIENT)
            .decode(&text)
            .map_err(|e| format!("the server sent broken base64: {e}"))
    }

    /// Size of the content in bytes, reckoned from the length of its text.
    pub fn size(&self) -> usize {
        self.base64.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'=').count() * 3 / 4
    }
}

/// Renders the `result` of `tools/call`. One block that can't be read is shown as JSON and costs no other.
pub fn render_result(result: &[u8]) -> Rendered {
    blocks_of_result(result, Words::Printable)
}

/// The same blocks with the text as the server wrote it: for `model`, which sanitises it.
pub(super) fn raw_result(result: &[u8]) -> Rendered {
    blocks_of_result(result, Words::AsWritten)
}

/// As `raw_result`, of `resources/read`.
pub(super) fn raw_resource(result: &[u8]) -> Rendered {
    blocks_of_resource(result, Words::AsWritten)
}

/// As `raw_result`, of `prompts/get`.
pub(super) fn raw_prompt(result: &[u8]) -> Rendered {
    blocks_of_prompt(result, Words::AsWritten)
}

fn blocks_of_result(result: &[u8], words: Words) -> Rendered {
    let result = result.trim_ascii();
    if scan::check(result, scan::DEPTH_MAX).is_err() {
        return Rendered { is_error: false, blocks: vec![json_block(result, words)] };
    }
    let part = |key: &str| member(result, key).map(|span| &result[span]).filter(|value| *value != b"null");
    let content: Vec<(&[u8], Option<Value>)> = match part("content") {
        Some(list) if list.starts_with(b"[") => {
            elements(list).into_iter().map(|span| read(&list[span])).collect()
        }
        Some(other) => vec![read(other)],
        None => Vec::new(),
    };
    let mut blocks: Vec<RenderedBlock> = content
        .iter()
        .map(|(raw, value)| match value {
            Some(Value::String(text)) => text_block(text, words),
            Some(value) => content_block(value, words),
            None => json_block(raw, words),
        })
        .collect();
    blocks.retain(|block| block.kind != BlockKind::Text || !block.text.trim().is_empty());
    if let Some(structured) = part("structuredContent")
        && !is_shown(structured, &content)
    {
        blocks.push(json_block(structured, words));
    }
    let known = ["content", "structuredContent", "isError", "_meta", "resultType"];
    let is_known = |key: &[u8]| known.iter().any(|name| name.as_bytes() == key);
    let other =
        !result.starts_with(b"{") || members(result).iter().any(|(key, _)| !is_known(&result[key.clone()]));
    if blocks.is_empty() && other {
        blocks.push(json_block(result, words));
    }
    Rendered { is_error: part("isError") == Some(b"true"), blocks: or_empty(blocks) }
}

/// A value beside its bytes; `None` when it holds what no value of ours can (huge numbers, lone surrogates).
fn read(raw: &[u8]) -> (&[u8], Option<Value>) {
    (raw, serde_json::from_slice(raw).ok())
}

/// Renders the `result` of `resources/read`.
pub fn render_resource(result: &[u8]) -> Rendered {
    blocks_of_resource(result, Words::Printable)
}

fn blocks_of_resource(result: &[u8], words: Words) -> Rendered {
    let value: Value = serde_json::from_slice(result).unwrap_or(Value::Null);
    let blocks = match value.get("contents") {
        Some(Value::Array(contents)) => {
            let headed = contents.len() > 1;
            contents.iter().map(|content| resource_block(content, headed, words)).collect()
        }
        _ => vec![json_block(result, words)],
    };
    Rendered { is_error: false, blocks: or_empty(blocks) }
}

/// Renders the `result` of `prompts/get`: each message behind its role.
pub fn render_prompt(result: &[u8]) -> Rendered {
    blocks_of_prompt(result, Words::Printable)
}

fn blocks_of_prompt(result: &[u8], words: Words) -> Rendered {
    let value: Value = serde_json::from_slice(result).unwrap_or(Value::Null);
    let Some(Value::Array(messages)) = value.get("messages") else {
        return Rendered { is_error: false, blocks: vec![json_block(result, words)] };
    };
    let mut blocks = Vec::new();
    for message in messages {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("message");
        blocks.push(block(BlockKind::Role, format!("{}:", label(role))));
        match message.get("content") {
            Some(Value::Array(content)) => blocks.extend(content.iter().map(|one| content_block(one, words))),
            Some(Value::String(text)) => blocks.push(text_block(text, words)),
            Some(content) => blocks.push(content_block(content, words)),
            None => blocks.push(block(BlockKind::Empty, "(empty message)".into())),
        }
    }
    Rendered { is_error: false, blocks: or_empty(blocks) }
}

fn or_empty(mut blocks: Vec<RenderedBlock>) -> Vec<RenderedBlock> {
    if blocks.is_empty() {
        blocks.push(block(BlockKind::Empty, "(empty result)".into()));
    }
    blocks
}

fn block(kind: BlockKind, text: String) -> RenderedBlock {
    RenderedBlock { kind, text, binary: None }
}

fn text_block(text: &str, words: Words) -> RenderedBlock {
    block(BlockKind::Text, words.of(text))
}

fn label(text: &str) -> String {
    one_line(text, LABEL_WIDTH_MAX)
}

fn string<'a>(content: &'a Value, key: &str) -> Option<&'a str> {
    content.get(key).and_then(Value::as_str)
}

fn content_block(content: &Value, words: Words) -> RenderedBlock {
    match string(content, "type") {
        Some("text") => match string(content, "text") {
            Some(text) => text_block(text, words),
            None => unknown(content, "text without text"),
        },
        Some("image") => binary_block(BlockKind::Image, "image", content, "data"),
        Some("audio") => binary_block(BlockKind::Audio, "audio", content, "data"),
        Some("resource_link") => link_block(content),
        Some("resource") => match content.get("resource") {
            Some(resource @ Value::Object(_)) => resource_block(resource, true, words),
            _ => unknown(content, "resource without resource"),
        },
        Some(other) => unknown(content, &format!("content of unknown type \"{}\"", label(other))),
        None => unknown(content, "content without type"),
    }
}

fn unknown(content: &Value, what: &str) -> RenderedBlock {
    block(BlockKind::Unknown, format!("[{what}, {}]", size(content.to_string().len())))
}

fn binary_block(kind: BlockKind, what: &str, content: &Value, key: &str) -> RenderedBlock {
    let Some(data) = string(content, key) else { return unknown(content, &format!("{what} without {key}")) };
    let mime = string(content, "mimeType").unwrap_or_default();
    let part = BinaryPart { mime: mime.to_owned(), base64: data.to_owned() };
    let kind_text = if mime.is_empty() { "of unknown type".to_owned() } else { label(mime) };
    let text = format!("[{what} {kind_text}, {}]", size(part.size()));
    RenderedBlock { kind, text, binary: Some(part) }
}

fn link_block(content: &Value) -> RenderedBlock {
    let uri = label(string(content, "uri").unwrap_or("(no URI)"));
    let mut text = format!("[resource link {uri}");
    if let Some(name) = string(content, "title").or_else(|| string(content, "name")) {
        text += &format!(" \"{}\"", label(name));
    }
    if let Some(mime) = string(content, "mimeType") {
        text += &format!(", {}", label(mime));
    }
    if let Some(bytes) = content.get("size").and_then(Value::as_u64) {
        text += &format!(", {}", size(usize::try_from(bytes).unwrap_or(usize::MAX)));
    }
    block(BlockKind::ResourceLink, text + "]")
}

/// The contents of one resource; with its URI above the text if `headed`.
fn resource_block(resource: &Value, headed: bool, words: Words) -> RenderedBlock {
    let uri = label(string(resource, "uri").unwrap_or("(no URI)"));
    if let Some(text) = string(resource, "text") {
        let text = words.of(text);
        let text = if headed { format!("[resource {uri}]\n{text}") } else { text };
        return block(BlockKind::Resource, text);
    }
    if resource.get("blob").is_some() {
        return binary_block(BlockKind::Resource, &format!("resource {uri}"), resource, "blob");
    }
    unknown(resource, &format!("resource {uri} without text and blob"))
}

/// Whether the structured content says nothing that a text block does not say already.
fn is_shown(structured: &[u8], content: &[(&[u8], Option<Value>)]) -> bool {
    let (_, Some(structured)) = read(structured) else { return false };
    // Some libraries wrap a plain value as {"result": …} and put the value itself in the text.
    let inner = match structured.as_object() {
        Some(object) if object.len() == 1 => object.get("result"),
        _ => None,
    };
    let blocks = content.iter().filter_map(|(_, value)| value.as_ref());
    blocks.filter(|c| string(c, "type") == Some("text")).filter_map(|c| string(c, "text")).any(|text| {
        let parsed: Option<Value> = serde_json::from_str(text).ok();
        let same = |value: &Value| parsed.as_ref() == Some(value) || value.as_str() == Some(text);
        same(&structured) || inner.is_some_and(same)
    }) || is_told(inner.unwrap_or(&structured), content)
}

/// Values of structured content that are looked for in the text; one with more is shown.
const TOLD_VALUES_MAX: usize = 1000;
/// Longest text in which they are looked for, bytes.
const TOLD_TEXT_LEN_MAX: usize = 256 * 1024;

/// Whether every value in `structured` stands in the text blocks, as a word of its own: the same
/// list in several blocks, the same figures in a sentence.
fn is_told(structured: &Value, content: &[(&[u8], Option<Value>)]) -> bool {
    let blocks = content.iter().filter_map(|(_, value)| value.as_ref());
    let texts: Vec<&str> =
        blocks.filter(|c| string(c, "type") == Some("text")).filter_map(|c| string(c, "text")).collect();
    let (mut open, mut values) = (vec![structured], Vec::new());
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            Value::String(text) => values.push(text.clone()),
            Value::Null => return false,
            other => values.push(other.to_string()),
        }
        if values.len() > TOLD_VALUES_MAX {
            return false;
        }
    }
    !texts.is_empty()
        && texts.iter().map(|text| text.len()).sum::<usize>() <= TOLD_TEXT_LEN_MAX
        && values.iter().all(|value| !value.is_empty() && texts.iter().any(|text| has_word(text, value)))
}

/// Whether a value stands in a text and is no part of a longer word or number there.
fn has_word(text: &str, value: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(value).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + value.len()..]);
        let mut next = after.chars();
        let goes_on = match next.next() {
            Some('.' | ',') => next.next().is_some_and(|c| c.is_ascii_digit()),
            Some(c) => is_part(c),
            None => false,
        };
        let begun = before.chars().next_back().is_some_and(|c| is_part(c) || matches!(c, '.' | '-'));
        !goes_on && !begun
    })
}

fn json_block(json: &[u8], words: Words) -> RenderedBlock {
    let text = indented(&String::from_utf8_lossy(json));
    block(BlockKind::Json, words.of(&text))
}

/// JSON with line breaks and two spaces for each level; every token as it was written.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut chars = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(64)));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                let mut escaped = false;
                for c in chars.by_ref() {
                    out.push(c);
                    if c == '"' && !escaped {
                        break;
                    }
                    escaped = c == '\\' && !escaped;
                }
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                match chars.peek() {
                    Some('}' | ']') => out.extend(chars.next()),
                    _ => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// A size for people: `17 bytes`, `1.5 KiB`, `3.0 MiB`.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1024 => format!("{bytes} bytes"),
        // What would round to 1024.0 is told in the next unit.
        1024..1_048_525 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn result(value: &Value) -> Rendered {
        render_result(value.to_string().as_bytes())
    }

    fn texts(rendered: &Rendered) -> Vec<&str> {
        rendered.blocks.iter().map(|b| b.text.as_str()).collect()
    }

    #[test]
    fn every_kind_of_block_is_shown_in_order() {
        let rendered = result(&json!({"content": [
            {"type": "text", "text": "one\ntwo"},
            {"type": "image", "data": STANDARD.encode([7u8; 1500]), "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "size": 12},
            {"type": "resource", "resource": {"uri": "x://1", "text": "body"}},
            {"type": "resource", "resource": {"uri": "x://2", "blob": "AAAA", "mimeType": "application/pdf"}},
            {"type": "hologram", "data": 1},
            {"text": "no type"},
        ]}));
        assert_eq!(
            texts(&rendered),
            [
                "one\ntwo",
                "[image image/png, 1.5 KiB]",
                "[audio audio/wav, 3 bytes]",
                "[resource link file:///a \"a\", text/plain, 12 bytes]",
                "[resource x://1]\nbody",
                "[resource x://2 application/pdf, 3 bytes]",
                "[content of unknown type \"hologram\", 28 bytes]",
                "[content without type, 18 bytes]",
            ]
        );
        assert!(!rendered.is_error);
        let binaries: Vec<_> = rendered.blocks.iter().filter_map(|b| b.binary.as_ref()).collect();
        assert_eq!(binaries.len(), 3);
        assert_eq!(
            (binaries[0].mime.as_str(), binaries[0].decode().unwrap()),
            ("image/png", vec![7u8; 1500])
        );
    }

    #[test]
    fn structured_content_is_shown_once() {
        let data = json!({"n": 1, "items": ["a"]});
        for (content, shown) in [
            (json!([{"type": "text", "text": "{\"items\": [\"a\"], \"n\": 1}"}]), false),
            (json!([{"type": "text", "text": "one item"}]), true),
            (json!([{"type": "text", "text": ""}]), true),
            (json!([]), true),
        ] {
            let rendered = result(&json!({"content": content, "structuredContent": data}));
            assert_eq!(rendered.blocks.iter().any(|b| b.kind == BlockKind::Json), shown, "{content}");
        }
        let wrapped =
            json!({"content": [{"type": "text", "text": "42"}], "structuredContent": {"result": 42}});
        assert_eq!(texts(&result(&wrapped)), ["42"]);
        let wrapped =
            json!({"content": [{"type": "text", "text": "hi"}], "structuredContent": {"result": "hi"}});
        assert_eq!(texts(&result(&wrapped)), ["hi"]);
    }

    #[test]
    fn what_the_text_tells_in_other_words_is_not_shown_again() {
        let text = |text: &str| json!({"type": "text", "text": text});
        for (content, structured, blocks) in [
            (json!([text("a"), text("b")]), json!({"result": ["a", "b"]}), 2),
            (json!([text(r#"{"n":1}"#), text(r#"{"n":2}"#)]), json!({"items": [{"n": 1}, {"n": 2}]}), 2),
            (json!([text("22.5 degrees, 45 % humidity.")]), json!({"temperature": 22.5, "humidity": 45}), 1),
            (json!([text("22.5 degrees")]), json!({"temperature": 22}), 2),
            (json!([text("-5 degrees")]), json!({"temperature": 5}), 2),
            (json!([text("it is warm")]), json!({"temperature": 22.5}), 2),
            (json!([text("found it")]), json!({"found": true}), 2),
            (json!([text("nothing")]), json!({"next": null}), 2),
        ] {
            let rendered = result(&json!({"content": content, "structuredContent": structured}));
            assert_eq!(rendered.blocks.len(), blocks, "{content} {structured}");
        }
    }

    #[test]
    fn structured_numbers_are_shown_as_sent() {
        let raw = r#"{"content":[],"structuredContent":{"id":123456789012345678901234567890,"x":[],"s":"a,{b","f":1.50}}"#;
        let want = "{\n  \"id\": 123456789012345678901234567890,\n  \"x\": [],\n  \"s\": \"a,{b\",\n  \"f\": 1.50\n}";
        assert_eq!(texts(&render_result(raw.as_bytes())), [want]);
    }

    #[test]
    fn empty_results_say_so_and_errors_are_flagged() {
        for value in [
            json!({"content": []}),
            json!({}),
            json!({"content": [{"type": "text", "text": " \n"}]}),
            json!({"content": null, "_meta": {}}),
        ] {
            assert_eq!(texts(&result(&value)), ["(empty result)"], "{value}");
        }
        let failed = result(&json!({"isError": true, "content": [{"type": "text", "text": "no"}]}));
        assert!(failed.is_error);
        assert!(!result(&json!({"isError": "true", "content": []})).is_error);
    }

    #[test]
    fn results_of_unknown_form_are_shown_as_json() {
        assert_eq!(texts(&result(&json!({"toolResult": 7}))), ["{\n  \"toolResult\": 7\n}"]);
        assert_eq!(texts(&result(&json!([1]))), ["[\n  1\n]"]);
        assert_eq!(texts(&result(&json!({"content": "plain"}))), ["plain"]);
        assert_eq!(texts(&render_result(b"\xff{")).len(), 1);
    }

    #[test]
    fn one_unreadable_block_costs_no_other() {
        let raw = br#"{"content":[{"type":"text","text":"\ud800"},{"type":"text","text":"ok"},{"n":1e999}],"isError":true}"#;
        let rendered = render_result(raw);
        assert!(rendered.is_error);
        assert_eq!(texts(&rendered)[1], "ok");
        assert!(texts(&rendered)[0].contains("\\ud800") && texts(&rendered)[2].contains("1e999"));
    }

    #[test]
    fn nothing_a_server_writes_steers_the_terminal() {
        let evil = "\x1b]0;x\x07\x1b[2J\u{9b}2J\u{202e}";
        let rendered = result(&json!({"content": [
            {"type": "text", "text": evil},
            {"type": evil},
            {"type": "image", "data": "AA", "mimeType": evil},
            {"type": "resource_link", "uri": evil, "name": evil, "title": evil, "mimeType": evil},
            {"type": "resource", "resource": {"uri": evil, "text": evil}},
            {"type": "resource", "resource": {"uri": evil, "blob": evil, "mimeType": evil}},
        ], "structuredContent": {evil: evil}}));
        let prompt = render_prompt(
            json!({"messages": [{"role": evil, "content": {"type": "text", "text": evil}}]})
                .to_string()
                .as_bytes(),
        );
        for block in rendered.blocks.iter().chain(&prompt.blocks) {
            assert_eq!(printable(&block.text), block.text.as_str());
        }
    }

    #[test]
    fn resources_and_prompts_are_rendered_too() {
        let one =
            render_resource(json!({"contents": [{"uri": "a://b", "text": "t"}]}).to_string().as_bytes());
        assert_eq!(texts(&one), ["t"]);
        let two = json!({"contents": [{"uri": "a://b", "text": "t"}, {"uri": "a://c", "blob": "AAAA"}]});
        let two = render_resource(two.to_string().as_bytes());
        assert_eq!(texts(&two), ["[resource a://b]\nt", "[resource a://c of unknown type, 3 bytes]"]);
        let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}, {"role": "assistant"}]});
        let prompt = render_prompt(prompt.to_string().as_bytes());
        assert_eq!(texts(&prompt), ["user:", "hi", "assistant:", "(empty message)"]);
    }

    #[test]
    fn base64_is_decoded_leniently_and_never_silently_wrong() {
        let part = |text: &str| BinaryPart { mime: String::new(), base64: text.into() };
        for text in ["+/8=", "+/8", "-_8", "+/\n8="] {
            assert_eq!(part(text).decode().unwrap(), [0xfb, 0xff], "{text}");
            assert_eq!(part(text).size(), 2);
        }
        assert!(part("?!").decode().unwrap_err().contains("base64"));
    }

    proptest! {
        #[test]
        fn any_result_gives_something_to_print(
            parts in proptest::collection::vec(("[a-z_]{0,8}|text|image|resource", any::<String>()), 0..4),
            error in any::<bool>(),
        ) {
            let content: Vec<Value> = parts.iter().map(|(kind, text)| json!({"type": kind, "text": text, "data": text})).collect();
            let rendered = result(&json!({"content": content, "isError": error}));
            prop_assert!(!rendered.blocks.is_empty());
            prop_assert_eq!(rendered.is_error, error);
        }

        #[test]
        fn indenting_changes_no_token(numbers in proptest::collection::vec(any::<f64>(), 0..4), text in any::<String>()) {
            let value = json!({"a": numbers.iter().filter(|n| n.is_finite()).collect::<Vec<_>>(), "b": {"c": text}, text.clone(): {}});
            let back: Value = serde_json::from_str(&indented(&value.to_string())).unwrap();
            prop_assert_eq!(back, value);
        }
    }
}

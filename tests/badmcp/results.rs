//! Results of calls, reads and gets, and what the result flags make of them.
//! Owns content, must never wait or write. Called by `calls` and `methods`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::Flags;
use crate::catalog;
use crate::rpc::{Body, FILLER, INVALID_PARAMS, Obj, RpcError};
use crate::server::Server;
use crate::values::{ContentKind, Megabytes, Place, Size, at};
use crate::wire::{self, paint};

/// The arguments that we look at; what comes back exactly stays as it came.
#[derive(Default, Deserialize)]
pub(crate) struct Args<'a> {
    pub(crate) text: Option<String>,
    #[serde(borrow)]
    structured: Option<&'a RawValue>,
    #[serde(borrow)]
    raw: Option<&'a RawValue>,
    pub(crate) ms: Option<u64>,
    bytes: Option<usize>,
    key: Option<String>,
}

impl<'a> Args<'a> {
    /// Arguments of another type than expected count as absent.
    pub(crate) fn read(arguments: Option<&'a str>) -> Self {
        arguments.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// A tool's result before the flags.
struct Made {
    text: String,
    /// JSON text.
    structured: Option<String>,
}

impl Made {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), structured: None }
    }
}

/// The result of a call that was executed. `counted` is the number of this execution of `count`.
pub(crate) fn of_call(server: &Server, tool: &str, arguments: Option<&str>, counted: u64) -> Body {
    let args = Args::read(arguments);
    if tool == "echo"
        && let Some(raw) = args.raw
    {
        return Body::Raw(raw.get().to_owned());
    }
    let exact = arguments.unwrap_or("{}");
    let made = match tool {
        "echo" => Made {
            text: args.text.unwrap_or_else(|| exact.to_owned()),
            structured: args.structured.map(|raw| raw.get().to_owned()),
        },
        "sleep" => Made::text(format!("slept {} ms", args.ms.unwrap_or(0))),
        "count" => Made::text(counted.to_string()),
        "big" => Made::text(big_text(args.bytes.unwrap_or(0), &server.marker)),
        "env" => Made::text(match args.key {
            Some(key) => {
                std::env::var_os(&key).map_or_else(String::new, |v| v.to_string_lossy().into_owned())
            }
            None => env_names(),
        }),
        _ if tool.starts_with("out-") || tool.starts_with("dialect-") => {
            Made { text: r#"{"n":1}"#.into(), structured: Some(r#"{"n":1}"#.into()) }
        }
        _ => Made::text(format!("{tool} {exact}")),
    };
    Body::Obj(shape(server, made))
}

fn env_names() -> String {
    let mut names: Vec<String> = std::env::vars_os().map(|(k, _)| k.to_string_lossy().into_owned()).collect();
    names.sort();
    names.join("\n")
}

/// Text of exactly that many bytes that ends in the marker (or in its beginning, when there is no more room).
pub(crate) fn big_text(bytes: usize, marker: &str) -> String {
    if bytes < marker.len() {
        return marker
            .chars()
            .scan(0, |used, c| {
                *used += c.len_utf8();
                (*used <= bytes).then_some(c)
            })
            .collect();
    }
    let mut text = "0123456789abcde\n".repeat((bytes - marker.len()) / 16 + 1);
    text.truncate(bytes - marker.len());
    text + marker
}

/// The text that the flags put in place of the tool's own, if they do.
pub(crate) fn forced_text(server: &Server) -> Option<String> {
    if let Some(Size(bytes)) = server.flags.big_result {
        return Some(big_text(bytes as usize, &server.marker));
    }
    server.flags.multibyte_result.then(wire::multibyte_text)
}

fn shape(server: &Server, made: Made) -> Obj {
    let flags = &server.flags;
    let text = match forced_text(server) {
        Some(text) => text,
        None if at(&flags.huge_line, Place::Call, Place::Call).is_some() => FILLER.to_owned(),
        None if flags.is_error => format!("the tool failed: {}", made.text),
        None => made.text,
    };
    let text = paint(flags, &text);
    let mut result = Obj::default();
    if flags.structured_only {
        let structured = made.structured.unwrap_or_else(|| json!({"value": text}).to_string());
        result.put("content", json!([]));
        result.raw("structuredContent", structured);
    } else {
        result.put("content", blocks(flags, &text));
        if let Some(structured) = made.structured {
            result.raw("structuredContent", structured);
        }
    }
    if flags.is_error {
        result.put("isError", true);
    }
    if flags.extra_fields {
        result.put("_meta", json!({"vendor.example/trace": "abc", "vendor.example/cost": 1.50}));
        result.put("x-vendor", json!({"unknown": [null, 1, "two"]}));
        if result.get("structuredContent").is_none() {
            result.put(
                "structuredContent",
                json!({"zeta": 1, "alpha": [true, null], "big": 12_345_678_901_234_567_890_u64}),
            );
        }
    }
    result
}

fn blocks(flags: &Flags, text: &str) -> Vec<Value> {
    let image = flags.image_mb.is_some() || flags.mime_lie || flags.bad_base64;
    let mut kinds = flags.content_kind.clone();
    if image && !kinds.contains(&ContentKind::Image) {
        kinds.push(ContentKind::Image);
    }
    if kinds.is_empty() {
        kinds.push(ContentKind::Text);
    }
    kinds.iter().map(|kind| block(flags, *kind, text)).collect()
}

fn block(flags: &Flags, kind: ContentKind, text: &str) -> Value {
    let url = flags.evil_urls.as_deref().unwrap_or("badmcp://text/1");
    let mut block = match kind {
        ContentKind::Text => json!({"type": "text", "text": text}),
        ContentKind::Image => image(flags),
        ContentKind::Audio => {
            json!({"type": "audio", "data": wire::base64(b"RIFF....WAVEfmt "), "mimeType": "audio/wav"})
        }
        ContentKind::ResourceLink => {
            json!({"type": "resource_link", "uri": url, "name": "text-1", "mimeType": "text/plain"})
        }
        ContentKind::Embedded => {
            json!({"type": "resource", "resource": {"uri": url, "mimeType": "text/plain", "text": "an embedded text"}})
        }
        ContentKind::Blob => {
            json!({"type": "blob", "data": wire::base64(&[0, 1, 2, 255]), "mimeType": "application/octet-stream"})
        }
        ContentKind::Unknown => json!({"type": "hologram", "depth": 3, "payload": {"z": 1, "a": [2]}}),
    };
    if flags.extra_fields {
        block["annotations"] = json!({"audience": ["assistant", "robot"], "priority": 0.25, "x-hint": 1});
        block["_meta"] = json!({"vendor.example/block": 1});
        block["x-vendor"] = json!("kept");
    }
    block
}

/// A PNG header and filler; or something that is none.
fn image(flags: &Flags) -> Value {
    let len = flags.image_mb.map_or(64, |Megabytes(bytes)| bytes as usize);
    let mut bytes = if flags.mime_lie {
        b"%PDF-1.7 this is no image".to_vec()
    } else {
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec()
    };
    bytes.resize(len.max(bytes.len()), 0x5A);
    let mut data = wire::base64(&bytes);
    if flags.bad_base64 {
        data.insert_str(4, "*!*");
        data.pop();
    }
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

/// The answer to resources/read. `not_found` is the era's code.
pub(crate) fn of_read(uri: &str, not_found: i64) -> Result<Obj, RpcError> {
    let contents = match uri {
        "badmcp://blob/1" => {
            json!({"uri": uri, "mimeType": "application/octet-stream", "blob": wire::base64(&[0, 1, 2, 255])})
        }
        _ if catalog::resources(&Flags::default()).iter().any(|r| r["uri"] == uri) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": format!("text of {uri}")})
        }
        _ => match uri.strip_prefix("badmcp://item/") {
            Some(id) => {
                json!({"uri": uri, "mimeType": "application/json", "text": json!({"item": id}).to_string()})
            }
            None => {
                return Err(
                    RpcError::new(not_found, format!("resource not found: {uri}")).with(json!({"uri": uri}))
                );
            }
        },
    };
    Ok(Obj::of(json!({"contents": [contents]})))
}

/// The answer to prompts/get.
pub(crate) fn of_prompt(params: &Value) -> Result<Obj, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    let text = match name {
        "plain" => "A plain prompt.".to_owned(),
        "greet" => match params["arguments"]["name"].as_str() {
            Some(who) => format!("Please greet {who}."),
            None => return Err(RpcError::new(INVALID_PARAMS, "prompt greet needs the argument name")),
        },
        _ => return Err(RpcError::new(INVALID_PARAMS, format!("unknown prompt: {name:?}"))),
    };
    Ok(Obj::of(json!({
        "description": name,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    })))
}

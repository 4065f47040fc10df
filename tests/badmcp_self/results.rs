//! Result flags: structured data, content kinds, images, sizes.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::pipe::Pipe;

fn result(pipe: &mut Pipe) -> Value {
    pipe.call("t0", &json!({}))["result"].clone()
}

#[test]
fn data_stands_only_in_structured_content() {
    let mut pipe = Pipe::opened(&["--structured-only"]);
    assert_eq!(result(&mut pipe), json!({"content": [], "structuredContent": {"value": "t0 {}"}}));
    let echoed = pipe.call("echo", &json!({"structured": [1, 2]}));
    assert_eq!(echoed["result"], json!({"content": [], "structuredContent": [1, 2]}));
}

#[test]
fn each_kind_of_content_is_one_block() {
    let mut pipe = Pipe::opened(&["--content-kind", "text,image,audio,resource_link,embedded,blob,unknown"]);
    let result = result(&mut pipe);
    let kinds: Vec<&str> =
        result["content"].as_array().expect("blocks").iter().filter_map(|b| b["type"].as_str()).collect();
    assert_eq!(kinds, ["text", "image", "audio", "resource_link", "resource", "blob", "hologram"]);
    assert_eq!(result["content"][0]["text"], "t0 {}");
    assert!(result["content"][1]["data"].as_str().is_some_and(|data| data.starts_with("iVBORw0KGgo")));
    assert_eq!(result["content"][4]["resource"]["text"], "an embedded text");
}

/// Padding and alphabet are right; the decoded length.
fn decoded_len(data: &str) -> Option<usize> {
    let body = data.trim_end_matches('=');
    let clean = body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    (clean && data.len().is_multiple_of(4)).then(|| body.len() * 3 / 4)
}

#[test]
fn images_are_large_lie_or_are_broken() {
    let image = |flags: &[&str]| {
        let result = result(&mut Pipe::opened(flags));
        assert_eq!(
            (&result["content"][0]["type"], &result["content"][0]["mimeType"]),
            (&json!("image"), &json!("image/png"))
        );
        result["content"][0]["data"].as_str().expect("data").to_owned()
    };
    assert_eq!(decoded_len(&image(&["--image-mb", "2"])), Some(2 * 1024 * 1024));
    let lie = image(&["--mime-lie"]);
    assert!(lie.starts_with("JVBERi0") && decoded_len(&lie).is_some(), "{lie}");
    assert_eq!(decoded_len(&image(&["--bad-base64"])), None);
    let all = image(&["--image-mb", "1", "--mime-lie", "--bad-base64"]);
    assert!(all.len() > 1024 * 1024 && all.starts_with("JVBE*!*"), "{}", &all[..20]);
}

#[test]
fn big_results_have_exactly_their_size_in_every_shape() {
    let size = 300 * 1024;
    let ends = |text: &Value| {
        let text = text.as_str().expect("text");
        assert_eq!((text.len(), text.ends_with("[badmcp end]")), (size, true));
    };
    let big = |more: &[&str]| {
        let flags = [&["--big-result", "300KB"], more].concat();
        Pipe::opened(&flags).call("t0", &json!({}))
    };
    ends(&big(&[])["result"]["content"][0]["text"]);
    ends(&big(&["--structured-only"])["result"]["structuredContent"]["value"]);
    let failed = big(&["--is-error"]);
    ends(&failed["result"]["content"][0]["text"]);
    assert_eq!(failed["result"]["isError"], true);
    ends(&big(&["--rpc-error", "-32050"])["error"]["message"]);
}

#[test]
fn the_marker_comes_from_its_file() {
    let dir = TempDir::new().expect("folder");
    std::fs::write(dir.path().join("marker"), "<<my end>>").expect("file");
    let mut pipe = Pipe::start_in(dir, &["--marker-file", "{dir}/marker", "--big-result", "64"]);
    pipe.open();
    let text = pipe.text("t0", &json!({}));
    assert_eq!((text.len(), text.ends_with("<<my end>>")), (64, true));
}

#[test]
fn no_likely_cap_is_a_character_boundary() {
    let text = Pipe::opened(&["--multibyte-result"]).text("t0", &json!({}));
    for cap in [
        100, 256, 512, 1000, 1024, 2000, 2048, 4096, 8192, 10_000, 16_384, 32_768, 65_536, 131_072, 524_288,
        1_048_576,
    ] {
        assert!(!text.is_char_boundary(cap), "{cap}");
        let around = &text.as_bytes()[cap - 3..cap + 3];
        assert!(around.iter().all(|b| !b.is_ascii()), "{cap}: {around:?}");
    }
    assert!(text.contains("e\u{301}") && text.ends_with("end"));
}

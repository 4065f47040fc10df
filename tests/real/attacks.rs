//! Published attack texts through the fence and to a terminal, and published harmless ones unharmed.
//! Mechanical promises alone: what a text says is not judged. The packages are pinned in
//! `requirements-attacks.txt`; `tests/real/install` fetches them, nothing of them is kept here.

use std::process::Command;

use callboard::shaping::fence::Clean;
use callboard::shaping::fuzz_checks;
use callboard::shaping::render::{one_line, printable};
use callboard::shaping::tokens::FAMILIES;
use serde_json::Value;

use crate::bench;

/// Texts that the two packages have at least, and harmless ones among them.
const TEXTS_MIN: usize = 10_000;
const HARMLESS_MIN: usize = 4_000;

struct Text {
    from: String,
    benign: bool,
    text: String,
}

/// All texts; none when they are not installed, said aloud.
fn texts() -> Vec<Text> {
    let Some(python) = bench::installed("attack texts", ".venv-attacks/bin/python") else {
        return Vec::new();
    };
    let script = bench::folder().join("attack-texts.py");
    let output = Command::new(python).arg("-B").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let texts: Vec<Text> = lines
        .lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            let of = |key: &str| value[key].as_str().unwrap().to_owned();
            Text { from: of("from"), benign: value["benign"] == true, text: of("text") }
        })
        .collect();
    let harmless = texts.iter().filter(|text| text.benign).count();
    assert!(texts.len() >= TEXTS_MIN && harmless >= HARMLESS_MIN, "{} texts, {harmless}", texts.len());
    texts
}

/// The text as tag characters, which nobody sees and some models read.
fn smuggled(text: &str) -> String {
    let tag = |c: char| if c.is_ascii() { char::from_u32(0xe_0000 + u32::from(c)).unwrap_or(c) } else { c };
    text.chars().map(tag).collect()
}

#[test]
fn no_published_attack_text_ends_or_forges_a_fence_or_keeps_a_chat_token() {
    for Text { from, text, .. } in texts() {
        // Two bytes say which page of it is looked at besides the whole.
        let input = [&[3, 200], text.as_bytes()].concat();
        let held = std::panic::catch_unwind(|| fuzz_checks::fence(&input));
        assert!(held.is_ok(), "{from}: {text:?}");
        let clean = Clean::new(&text);
        for token in FAMILIES.iter().flat_map(|(_, tokens)| *tokens) {
            assert!(!clean.text().contains(token), "{from}: {token} stays in {:?}", clean.text());
        }
        let hidden = Clean::new(&smuggled(&text));
        let is_tag = |c: char| matches!(c, '\u{e0000}'..='\u{e007f}');
        assert!(!hidden.text().contains(is_tag), "{from}: {:?}", hidden.text());
    }
}

#[test]
fn no_published_escape_sequence_steers_a_terminal() {
    for Text { from, text, .. } in texts() {
        // Some are written with their escapes spelled out.
        let spelled = text.replace("\\x1b", "\u{1b}").replace("\\033", "\u{1b}").replace("\\x9b", "\u{9b}");
        for text in [text.replace("\\x07", "\u{7}"), spelled.replace("\\x07", "\u{7}"), spelled] {
            let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            let shown = printable(&text);
            assert!(!shown.contains(steers), "{from}: {shown:?}");
            assert_eq!(printable(&shown), shown, "{from}: a second look changes it");
            let line = one_line(&text, 80);
            assert!(!line.contains(char::is_control), "{from}: {line:?}");
            let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
            assert!(!Clean::new(&text).text().contains(steers), "{from}: {text:?}");
        }
    }
}

#[test]
fn of_a_thousand_published_harmless_texts_at_most_one_is_changed() {
    let harmless: Vec<Text> = texts().into_iter().filter(|text| text.benign).collect();
    let changed: Vec<String> = harmless
        .iter()
        .filter(|text| Clean::new(&text.text).text() != text.text || printable(&text.text) != text.text)
        .map(|text| format!("{}: {:?}", text.from, text.text))
        .collect();
    assert!(changed.len() * 1000 <= harmless.len(), "{} of {}: {changed:#?}", changed.len(), harmless.len());
}

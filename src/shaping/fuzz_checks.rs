//! The promise of the fence as a function that panics when it does not hold: shared by the
//! fuzz target and by the test that replays its corpus. Reads the outcome by itself, with
//! NFKC. Not part of the library's API.

use unicode_normalization::UnicodeNormalization as _;

use super::fence::{CLOSING, Clean, FenceId, OPENING, Source};
use super::model;
use super::sanitise::{Found, sanitise};

/// First byte: where a page begins; second: its length; rest: a text, its broken UTF-8 replaced.
pub fn fence(data: &[u8]) {
    let [offset, limit, input @ ..] = data else { return };
    let text = String::from_utf8_lossy(input);
    let (out, _) = sanitise(&text);
    assert!(out.len() <= text.len() * 4, "{} of {} bytes", out.len(), text.len());
    assert_eq!(sanitise(&out), (out.clone(), Found::default()), "a second pass changes it");
    let id = FenceId(u128::MAX / 3);
    let clean = Clean::new(&text);
    assert_one_fence(&clean.fenced(&Source::new("s", &text), id), id);
    let page = model::page(clean.text(), usize::from(*offset), usize::from(*limit));
    let parts = page.fenced(&Source::new("s", "t"), id).parts;
    for part in parts {
        if let model::Part::Text(fenced) = part {
            assert_one_fence(&fenced, id);
        }
    }
}

fn assert_one_fence(fenced: &str, id: FenceId) {
    let head = format!("{OPENING}\nsource: mcp_");
    let tail = format!("\n{CLOSING}{id}>>>");
    assert!(fenced.starts_with(&head) && fenced.ends_with(&tail), "{fenced:?}");
    let inside = &fenced[head.len()..fenced.len() - tail.len()];
    let hidden = |c: &char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
    let seen: String = inside.chars().filter(|c| !hidden(c)).nfkc().flat_map(char::to_lowercase).collect();
    for forged in [
        "<<<end_untrusted",
        "<<<external_untrusted",
        "<<untrusted",
        "end_untrusted_content",
        "<|im_start|>",
        "<|im_end|>",
        "[inst]",
        "[/inst]",
        "<start_of_turn>",
        "<|user|>",
        "<<sys>>",
        "</s>",
    ] {
        assert!(!seen.contains(forged), "{forged} in {inside:?}");
    }
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    assert!(!inside.contains(control), "{inside:?}");
}

//! The promise of the fence as a function that panics when it does not hold: shared by the
//! fuzz target and by the test that replays its corpus. Reads the outcome by itself, with
//! NFKC. Not part of the library's API.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
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
    let (again, found) = sanitise(&out);
    assert!(again == out && found == Found::default(), "a second pass changes {out:?}");
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

/// What must not be seen between the lines of a fence.
const FORGERIES: [&str; 12] = [
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
];

/// All of them are looked for in one go: most of a fuzzing run is spent in this check.
static FORGED: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(FORGERIES).ok());

fn assert_one_fence(fenced: &str, id: FenceId) {
    let head = format!("{OPENING}\nsource: mcp_");
    let tail = format!("\n{CLOSING}{id}>>>");
    assert!(fenced.starts_with(&head) && fenced.ends_with(&tail), "{fenced:?}");
    let inside = &fenced[head.len()..fenced.len() - tail.len()];
    let hidden = |c: &char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
    let seen: String = if inside.is_ascii() {
        inside.to_ascii_lowercase()
    } else {
        inside.chars().filter(|c| !hidden(c)).nfkc().flat_map(char::to_lowercase).collect()
    };
    let Some(forged) = &*FORGED else { panic!("the list of forgeries is broken") };
    let forged = forged.find(&seen);
    assert!(forged.is_none(), "{:?} in {inside:?}", forged.map(|found| &seen[found.range()]));
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    assert!(!inside.contains(control), "{inside:?}");
}

//! Takes out of a text what nobody sees: control characters, escape sequences, marks of
//! direction, characters of no width, tags. Letters, emoji with their joiners, tabs and line
//! ends (CRLF too) stay as they are. Called by `sanitise`, before anything is searched.

use std::borrow::Cow;

use super::caps::floor;
use super::terminal::{is_hidden, is_introducer, is_joining, joins, sequence_len};

/// The text without hidden characters, and how many there were; those of a complete escape
/// sequence count each. Idempotent.
pub(super) fn strip(text: &str) -> (Cow<'_, str>, usize) {
    let Some(first) = first_suspect(text.as_bytes()) else { return (Cow::Borrowed(text), 0) };
    let mut out = String::new();
    let (mut removed, mut kept_from) = (0, 0);
    // A joiner looks at the character before it, so the walk begins one earlier.
    let mut at = floor(text, first.saturating_sub(4));
    let mut before = None;
    while let Some(c) = text[at..].chars().next() {
        if is_plain(c) {
            let rest = &text.as_bytes()[at..];
            at += first_suspect(rest).unwrap_or(rest.len());
            before = text.as_bytes().get(at - 1).map(|last| char::from(*last));
            continue;
        }
        let mut end = at + c.len_utf8();
        let next = || text[end..].char_indices().peekable();
        if is_usual(c)
            || !is_hidden(c) && !is_joining(c) && !is_introducer(c)
            || c == '\r' && text[end..].starts_with('\n')
            || is_joining(c) && joins(c, before, &mut next())
        {
            before = Some(c);
            at = end;
            continue;
        }
        if is_introducer(c)
            && let Some(len) = sequence_len(&text[at..])
        {
            end = at + len;
        }
        out.push_str(&text[kept_from..at]);
        removed += text[at..end].chars().count();
        (kept_from, at) = (end, end);
    }
    if removed == 0 {
        return (Cow::Borrowed(text), 0);
    }
    out.push_str(&text[kept_from..]);
    (Cow::Owned(out), removed)
}

/// Block by block: within one every byte is looked at, which is quicker than to stop early.
fn first_suspect(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 64;
    if let Some(near) = bytes.iter().take(8).position(|b| is_suspect(*b)) {
        return Some(near);
    }
    let plain =
        bytes.chunks(BLOCK).take_while(|block| !block.iter().fold(false, |any, b| any | is_suspect(*b)));
    let from = plain.count() * BLOCK;
    bytes.get(from..)?.iter().position(|b| is_suspect(*b)).map(|at| from + at)
}

fn is_plain(c: char) -> bool {
    u8::try_from(c).is_ok_and(|byte| !is_suspect(byte))
}

fn is_suspect(byte: u8) -> bool {
    byte >= 0x7f || (byte < 0x20 && byte != b'\n' && byte != b'\t')
}

/// What most texts are made of: told quickly.
fn is_usual(c: char) -> bool {
    matches!(c, ' '..='~' | '\n' | '\t' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{34e}' | '\u{370}'..='\u{60f}'
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{ff01}'..='\u{ff9f}' | '\u{1d400}'..='\u{1d7ff}' | '\u{1f300}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_characters_go_and_are_counted() {
        for (text, want, count) in [
            ("plain\n\ttext", "plain\n\ttext", 0),
            ("a\r\nb", "a\r\nb", 0),
            ("a\rb\r\r\n", "ab\r\n", 2),
            ("pass\u{200b}wo\u{ad}rd\u{feff}", "password", 3),
            ("\u{1b}[31mred\u{1b}[0m", "red", 9),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;http://e\u{1b}\\y", "xy", 25),
            ("\u{9b}2Jx\u{1b}[2", "x[2", 4),
            ("\u{202e}abc\u{2066}\u{200f}", "abc", 3),
            ("a\u{e0041}\u{e007f}b", "ab", 2),
            ("a\u{fe0f}b\u{200d}c", "abc", 2),
            ("\u{0}\u{8}\u{7f}\u{85}x", "x", 4),
        ] {
            assert_eq!(strip(text), (Cow::Borrowed(want), count), "{text:?}");
        }
    }

    #[test]
    fn joiners_of_emoji_and_scripts_stay() {
        for text in ["👩‍👩‍👧‍👦 👍🏽 ❤️‍🔥 1️⃣ 🏳️‍🌈", "می‌خواهم क्‍ष", "葛\u{e0100}", "naïve e\u{301} 日本語"]
        {
            assert_eq!(strip(text), (Cow::Borrowed(text), 0));
        }
    }

    #[test]
    fn what_is_usual_is_never_hidden() {
        for c in ('\0'..=char::MAX).filter(|c| is_usual(*c)) {
            assert!((!is_hidden(c) || matches!(c, '\n' | '\t')) && !is_joining(c), "U+{:04X}", u32::from(c));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]
        #[test]
        fn a_second_pass_finds_nothing(text in "[a\u{1b}\\[\\]m0;\u{7}\r\né👩\u{200d}\u{200c}\u{fe0f}\u{e0041}\u{202e}\u{9b}]{0,24}") {
            let (once, _) = strip(&text);
            prop_assert_eq!(strip(&once), (once.clone(), 0));
            prop_assert!(!once.replace("\r\n", "").chars().any(|c| is_hidden(c) && c != '\n' && c != '\t'), "{:?}", once);
        }
    }
}

//! Makes text safe to print: nothing that a server wrote can move the cursor, change
//! a title, hide itself or reverse the reading order. What can't be shown as it is
//! becomes visible as `\u{…}`; colours and other complete escape sequences go.
//! Called by `render` and through it by everything that prints.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::CharIndices;

use unicode_width::UnicodeWidthChar;

/// The longest escape sequence that is taken out whole; a longer one stays visible as text.
const SEQUENCE_LEN_MAX: usize = 4096;

/// The text without control, escape, bidirectional and invisible characters; LF and TAB
/// stay, CRLF becomes LF. Letters, emoji and their joiners stay as they are. Idempotent.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\n' || b == b'\t') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.char_indices().peekable();
    let mut before = None;
    while let Some((at, c)) = chars.next() {
        if is_introducer(c)
            && let Some(len) = sequence_len(&text[at..])
        {
            while chars.next_if(|(next, _)| *next < at + len).is_some() {}
            continue;
        }
        match c {
            '\r' if chars.peek().is_some_and(|(_, next)| *next == '\n') => continue,
            '\n' | '\t' => out.push(c),
            _ if is_hidden(c) || (is_joining(c) && !joins(c, before, &mut chars)) => {
                out.extend(c.escape_unicode());
                before = Some('}');
                continue;
            }
            _ => out.push(c),
        }
        before = Some(c);
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// Columns that a printable character takes at most; a tab goes on to the next multiple of eight.
pub fn columns(c: char) -> usize {
    if c == '\t' { 8 } else { c.width().unwrap_or(0) }
}

/// The text as one printable line of at most `width_max` columns, cut with `…`; white space
/// and line ends become single spaces.
pub fn one_line(text: &str, width_max: usize) -> String {
    let clean = printable(text);
    let mut line = String::new();
    let mut width = 0;
    for (i, word) in clean.split_whitespace().enumerate() {
        let gap = usize::from(i > 0);
        if gap > 0 {
            line.push(' ');
            width += 1;
        }
        for c in word.chars() {
            line.push(c);
            width += c.width().unwrap_or(0);
        }
        // What lies further out can't fit any more.
        if width > width_max {
            break;
        }
    }
    if width > width_max { cut_to(&line, width_max) } else { line }
}

fn cut_to(line: &str, width_max: usize) -> String {
    if width_max == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut width = 0;
    for c in line.chars() {
        width += c.width().unwrap_or(0);
        if width > width_max - 1 {
            break;
        }
        out.push(c);
    }
    let kept = out.trim_end_matches(|c: char| is_joining(c) || c == ' ').len();
    out.truncate(kept);
    out.push('…');
    out
}

pub(super) fn is_introducer(c: char) -> bool {
    matches!(c, '\u{1b}' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}')
}

/// Length in bytes of the complete escape sequence at the start of `text`.
pub(super) fn sequence_len(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    let (_, first) = chars.next()?;
    let kind = if first == '\u{1b}' { chars.next()?.1 } else { char::from_u32(u32::from(first) - 0x40)? };
    let body = chars.offset();
    match kind {
        '[' => {
            let rest = &text.as_bytes()[body..];
            let end = rest.iter().position(|b| !(0x20..0x40).contains(b))?;
            ((0x40..0x7f).contains(&rest[end]) && end < SEQUENCE_LEN_MAX).then_some(body + end + 1)
        }
        ']' | 'P' | 'X' | '^' | '_' => string_end(&text[body..]).map(|end| body + end),
        ' '..='/' => {
            let rest = &text.as_bytes()[body..];
            let end = rest.iter().position(|b| !(0x20..0x30).contains(b))?;
            ((0x30..0x7f).contains(&rest[end]) && end < SEQUENCE_LEN_MAX).then_some(body + end + 1)
        }
        '0'..='~' => Some(body),
        _ => None,
    }
}

/// Where the string of an OSC, DCS, SOS, PM or APC ends, terminator included; it must end on its line.
fn string_end(text: &str) -> Option<usize> {
    for (at, c) in text.char_indices() {
        match c {
            _ if at > SEQUENCE_LEN_MAX => return None,
            '\u{7}' | '\u{9c}' => return Some(at + c.len_utf8()),
            '\u{1b}' => return text[at + 1..].starts_with('\\').then_some(at + 2),
            '\n' | '\r' => return None,
            // What begins inside ends what was open, so that no character is looked at twice.
            c if is_introducer(c) => return None,
            _ => {}
        }
    }
    None
}

/// Characters that are never shown as they are.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{10ffff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Joiners and variation selectors: fine inside emoji and scripts that need them.
pub(super) fn is_joining(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a joining character does its work here, and is not there to hide something.
pub(super) fn joins(c: char, before: Option<char>, chars: &mut Peekable<CharIndices<'_>>) -> bool {
    let carries = |c: char| !c.is_ascii() && !is_hidden(c);
    let Some(before) = before else { return false };
    match c {
        '\u{200c}' | '\u{200d}' => {
            let after = chars.peek().map(|(_, next)| *next);
            let variant = matches!(before, '\u{fe0e}' | '\u{fe0f}');
            carries(before)
                && (variant || !is_joining(before))
                && after.is_some_and(|a| carries(a) && !is_joining(a))
        }
        _ => !is_joining(before) && (carries(before) || matches!(before, '0'..='9' | '#' | '*')),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_go_and_the_text_stays() {
        for (text, want) in [
            ("\x1b[2J\x1b[1;1Hhi\x1b[0m", "hi"),
            ("\x1b]0;owned\x07hi", "hi"),
            ("\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b]52;c;Zm9v\u{9c}x", "x"),
            ("\u{9b}31mred\u{9b}m", "red"),
            ("\x1bPq#0\x1b\\x", "x"),
            ("\x1b(0x\x1bc", "x"),
            ("\x1b_a\x1b\\\x1b^b\x1b\\\x1bXc\x1b\\d", "d"),
        ] {
            assert_eq!(printable(text), want, "{text:?}");
        }
    }

    #[test]
    fn broken_sequences_hide_nothing() {
        for (text, want) in [
            ("\x1b]0;never ends, all this is text", "\\u{1b}]0;never ends, all this is text"),
            ("\x1b]0;line\nnext\x07", "\\u{1b}]0;line\nnext\\u{7}"),
            ("\x1b", "\\u{1b}"),
            ("\x1b[31", "\\u{1b}[31"),
            ("\x1b[3é", "\\u{1b}[3é"),
            ("\x1b\x1b[mx", "\\u{1b}x"),
            ("\x1b]0;a\x1b[mb", "\\u{1b}]0;ab"),
        ] {
            assert_eq!(printable(text), want, "{text:?}");
        }
        for (len, gone) in [(4095, true), (4096, true), (4097, false)] {
            let text = format!("\x1b]{}\x07", "x".repeat(len));
            assert_eq!(printable(&text).is_empty(), gone, "{len}");
        }
    }

    #[test]
    fn control_and_hidden_characters_become_visible() {
        for (text, want) in [
            ("a\rb\r\nc\td", "a\\u{d}b\nc\td"),
            ("a\x08\x7f\0\u{85}", "a\\u{8}\\u{7f}\\u{0}\\u{85}"),
            ("ad\u{202e}cba\u{2066}", "ad\\u{202e}cba\\u{2066}"),
            ("pass\u{200b}word\u{feff}", "pass\\u{200b}word\\u{feff}"),
            ("hi\u{e0041}\u{e0042}", "hi\\u{e0041}\\u{e0042}"),
            ("a\u{200d}b", "a\\u{200d}b"),
            ("x\u{fe0f}\u{fe0f}", "x\\u{fe0f}\\u{fe0f}"),
            ("é\u{fe00}\u{fe01}", "é\u{fe00}\\u{fe01}"),
            ("\u{2028}\u{fffe}\u{f0000}", "\\u{2028}\\u{fffe}\\u{f0000}"),
        ] {
            assert_eq!(printable(text), want, "{text:?}");
        }
    }

    #[test]
    fn languages_and_emoji_stay_readable() {
        for text in [
            "日本語 한국어 العربية עברית Ελληνικά naïve",
            "👩‍👩‍👧‍👦 👍🏽 ❤️‍🔥 1️⃣ 🏳️‍🌈",
            "می‌خواهم क्‍ष",
            "葛\u{e0100}",
            "ascii only\n\ttabbed",
            "─┼│ ✓ … €",
        ] {
            assert!(
                matches!(printable(text), Cow::Borrowed(same) if same == text),
                "{text}: {}",
                printable(text)
            );
        }
    }

    #[test]
    fn one_line_fits_its_width() {
        assert_eq!(one_line("  a\n\n b\tc  ", 80), "a b c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("ab cdefg", 4), "ab…");
        assert_eq!(one_line("日本語", 6), "日本語");
        assert_eq!(one_line("日本語", 5), "日本…");
        assert_eq!(one_line("日本語", 4), "日…");
        assert_eq!(one_line("x", 0), "");
        assert_eq!(one_line("", 5), "");
        assert_eq!(one_line("👩‍👩‍👧", 3), "👩…");
        assert_eq!(one_line("\x1b[31mred\x1b[0m\r\nx", 80), "red x");
    }

    fn nasty() -> impl Strategy<Value = String> {
        let piece = proptest::sample::select(vec![
            "\x1b",
            "[",
            "]",
            "0;",
            "m",
            "\x07",
            "\\",
            "\u{9b}",
            "\u{9d}",
            "\u{9c}",
            "\r",
            "\n",
            "é",
            "👩",
            "\u{200d}",
            "\u{200c}",
            "\u{fe0f}",
            "\u{e0041}",
            "\u{202e}",
            "a",
            "7",
            " ",
            "P",
            "\u{e0100}",
            "葛",
            "\u{200b}",
        ]);
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn output_is_safe_and_a_second_pass_changes_nothing(text in nasty(), width in 0usize..20) {
            let out = printable(&text).into_owned();
            prop_assert!(!out.chars().any(|c| is_hidden(c) && c != '\n' && c != '\t'), "{:?}", out);
            prop_assert_eq!(printable(&out).into_owned(), out.clone());
            prop_assert!(out.len() <= text.len() * 8);
            let line = one_line(&text, width);
            let wide: usize = line.chars().map(|c| c.width().unwrap_or(0)).sum();
            prop_assert!(wide <= width && !line.contains('\n'), "{:?}", line);
        }

        #[test]
        fn any_text_is_taken(text in any::<String>()) {
            let out = printable(&text).into_owned();
            prop_assert!(!out.chars().any(|c| is_hidden(c) && c != '\n' && c != '\t'));
        }
    }
}

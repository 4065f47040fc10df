//! Cuts a text that is too long, on the boundary of a character that a person sees, and says
//! so; and gives the pages of a text that was kept whole. Called by `model`.

use std::ops::Range;

use unicode_segmentation::GraphemeCursor;

/// Room for the words about the cut, bytes.
pub const NOTICE_LEN_MAX: usize = 96;
/// Longest visible character that is not cut, bytes.
const CHARACTER_LEN_MAX: usize = 128;

/// The last line of a text that was cut. `total` and `kept` are bytes of what there was and of
/// what is there.
pub fn notice(total: usize, kept: usize) -> String {
    format!("[mcp output truncated: {total} bytes total, {kept} kept]")
}

/// The greatest length up to `max` at which the text can be cut: between two visible
/// characters; between two code points when one character has more than a hundred bytes.
pub fn cut_at(text: &str, max: usize) -> usize {
    if max >= text.len() {
        return text.len();
    }
    let at = floor(text, max);
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    let boundary = match cursor.is_boundary(text, 0) {
        Ok(true) => Some(at),
        _ => cursor.prev_boundary(text, 0).ok().flatten(),
    };
    boundary.filter(|boundary| at - boundary <= CHARACTER_LEN_MAX).unwrap_or(at)
}

/// The last boundary of a code point up to `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The part of a text that a page shows: from `offset` on, at most `limit` bytes; both moved to
/// the boundaries of characters. Empty behind the end. A page that is not at the end shows at
/// least one character, so that reading on comes to an end.
pub fn page(text: &str, offset: usize, limit: usize) -> Range<usize> {
    let from = floor(text, offset);
    let rest = &text[from..];
    let len = match cut_at(rest, limit.max(1)) {
        0 => rest.chars().next().map_or(0, char::len_utf8),
        len => len,
    };
    from..from + len
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_never_splits_what_a_person_sees_as_one_character() {
        for (text, at) in
            [("ab👩‍👩‍👧c", 2), ("abe\u{301}c", 2), ("ab🇩🇪c", 2), ("ab\r\nc", 2), ("ab日c", 2), ("ab한c", 2)]
        {
            let end = text.len() - 1;
            for max in at..end {
                assert_eq!(cut_at(text, max), at, "{text:?} at {max}");
            }
            assert_eq!(cut_at(text, end), end);
            assert_eq!(cut_at(text, 1), 1);
            assert_eq!(cut_at(text, 0), 0);
            assert_eq!(cut_at(text, 100), text.len());
        }
        let long = format!("a{}", "\u{301}".repeat(500));
        assert_eq!(cut_at(&long, 500), 499, "a character without end is cut all the same");
    }

    #[test]
    fn the_notice_is_worded_as_promised_and_fits_its_room() {
        assert_eq!(notice(2_000_000, 1_048_576), "[mcp output truncated: 2000000 bytes total, 1048576 kept]");
        assert!(notice(usize::MAX, usize::MAX).len() <= NOTICE_LEN_MAX);
    }

    proptest! {
        #[test]
        fn pages_put_together_are_the_whole(text in "[aé日👩\u{200d}\u{301}\r\n🇩]{0,60}", limit in 0usize..12) {
            let mut whole = String::new();
            let mut at = 0;
            while at < text.len() {
                let span = page(&text, at, limit);
                prop_assert!(span.start == at && span.end > at);
                whole.push_str(&text[span.clone()]);
                at = span.end;
            }
            prop_assert_eq!(whole, text);
        }
    }
}

//! Floor 5. The words of a line that is typed at the prompt: split as a shell does it, but JSON
//! stands as it is typed, without quotes around it. Pure. Used by `input`, `mcp` and `candidates`.

use std::ops::Range;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// What it means: without its quotes.
    pub text: String,
    /// Where it stands in the line, in bytes.
    pub at: Range<usize>,
}

/// The words of a line. What is never closed goes on to the end: a lone apostrophe loses nothing.
pub fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut from = 0;
    while let Some(start) = line[from..].find(|c: char| !c.is_whitespace()).map(|at| from + at) {
        let word = word(line, start);
        from = word.at.end;
        words.push(word);
    }
    words
}

/// The texts of the words.
pub fn texts(line: &str) -> Vec<String> {
    words(line).into_iter().map(|word| word.text).collect()
}

/// The word that begins at `start`.
fn word(line: &str, start: usize) -> Word {
    let mut text = String::new();
    let mut at = start;
    while let Some(c) = line[at..].chars().next() {
        let rest = &line[at..];
        let json = (text.is_empty() || text.ends_with('=')).then(|| json_len(rest)).flatten();
        if let Some(len) = json {
            text.push_str(&rest[..len]);
            at += len;
            continue;
        }
        match c {
            c if c.is_whitespace() => break,
            '\'' | '"' => match quoted(rest, c) {
                Some((inner, len)) => {
                    text.push_str(&inner);
                    at += len;
                }
                // Nothing closes it: it is a letter like any other.
                None => {
                    text.push(c);
                    at += 1;
                }
            },
            '\\' if rest[1..].starts_with(|next: char| next.is_whitespace() || "'\"\\".contains(next)) => {
                let next = rest[1..].chars().next().unwrap_or_default();
                text.push(next);
                at += 1 + next.len_utf8();
            }
            c => {
                text.push(c);
                at += c.len_utf8();
            }
        }
    }
    Word { text, at: start..at }
}

/// The inside of a quotation at the start of `rest`, and its length with the quotes.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((inner, at + 1)),
            '\\' if quote == '"' && rest[at + 1..].starts_with(['"', '\\']) => {
                inner.extend(chars.next().map(|(_, next)| next));
            }
            c => inner.push(c),
        }
    }
    None
}

/// The length of the JSON object or array at the start of `rest`; `None` when there is none, or
/// when it is not closed.
fn json_len(rest: &str) -> Option<usize> {
    if !rest.starts_with(['{', '[']) {
        return None;
    }
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text as one word of a line: in quotes where it needs them.
pub fn as_word(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !"'\"\\".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with(['{', '[']) {
        return text.to_owned();
    }
    if text.contains('\'') {
        return format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    }
    format!("'{text}'")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does_and_json_stands_as_typed() {
        for (line, want) in [
            ("", &[][..]),
            ("  a   b ", &["a", "b"]),
            ("a 'b  c' d", &["a", "b  c", "d"]),
            (r#"k="a b" j='x "y"'"#, &["k=a b", "j=x \"y\""]),
            (
                r#"call s t {"a": "x  y", "b": [1, 2]} z"#,
                &["call", "s", "t", r#"{"a": "x  y", "b": [1, 2]}"#, "z"],
            ),
            (r#"k:={"a": 1} l"#, &[r#"k:={"a": 1}"#, "l"]),
            (r#"{"t":"brace } and \" quote"} x"#, &[r#"{"t":"brace } and \" quote"}"#, "x"]),
            ("it's fine", &["it's", "fine"]),
            ("{ open", &["{", "open"]),
            (r"C:\temp\x a\ b", &[r"C:\temp\x", "a b"]),
            ("tab\tand\nline", &["tab", "and", "line"]),
            ("''", &[""]),
        ] {
            assert_eq!(texts(line), want, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_goes_into_a_word_and_comes_back(text in "[a-z '\"\\\\{}\\[\\]é漢=:]{0,20}", after in "[a-z]{1,4}") {
            let line = format!("{} {after}", as_word(&text));
            prop_assert_eq!(texts(&line), vec![text, after]);
        }

        #[test]
        fn no_line_is_too_odd_and_places_are_in_order(line in any::<String>()) {
            let mut end = 0;
            for word in words(&line) {
                prop_assert!(word.at.start >= end && word.at.end > word.at.start);
                prop_assert!(line.get(word.at.clone()).is_some());
                end = word.at.end;
            }
            prop_assert!(line[end..].trim().is_empty());
        }
    }
}

//! Text out of HTML that strangers wrote: the title of a page, the words between tags, references.
//! No tree is built; every byte is looked at a bounded number of times. Pure.

/// Longest title or extract, characters.
pub(super) const TEXT_CHARS_MAX: usize = 512;
/// So far into a page its character set is looked for, bytes.
const CHARSET_WITHIN: usize = 2048;
/// Longest reference (`&…;`), bytes.
const REFERENCE_LEN_MAX: usize = 12;

const NAMED: [(&str, char); 30] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("hellip", '…'),
    ("mdash", '—'),
    ("ndash", '–'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("middot", '·'),
    ("bull", '•'),
    ("euro", '€'),
    ("pound", '£'),
    ("deg", '°'),
    ("times", '×'),
    ("auml", 'ä'),
    ("ouml", 'ö'),
    ("uuml", 'ü'),
    ("szlig", 'ß'),
    ("eacute", 'é'),
    ("egrave", 'è'),
];

/// What windows-1252 has at 0x80 to 0x9f, where ISO 8859-1 has nothing to show.
const WINDOWS: [char; 32] = [
    '€', '\u{fffd}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{fffd}', 'Ž', '\u{fffd}',
    '\u{fffd}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{fffd}', 'ž', 'Ÿ',
];

/// The page as text: UTF-8, UTF-16 with a mark, or what the page says of the old western sets.
pub(super) fn decode(bytes: &[u8]) -> String {
    let wide = |rest: &[u8], join: fn([u8; 2]) -> u16| {
        let units = rest.chunks_exact(2).map(|pair| join([pair[0], pair[1]]));
        char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')).collect()
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => return wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => return wide(rest, u16::from_be_bytes),
        _ => {}
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.trim_start_matches('\u{feff}').to_owned();
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(CHARSET_WITHIN)]).to_ascii_lowercase();
    let says = head.split("charset=").nth(1).unwrap_or_default().trim_start_matches(['"', '\'']);
    let western = ["iso-8859-1", "iso8859-1", "latin1", "windows-1252", "cp1252", "us-ascii"];
    if western.iter().any(|name| says.starts_with(name)) {
        let char_of = |byte: &u8| match byte {
            0x80..=0x9f => WINDOWS[usize::from(byte - 0x80)],
            byte => char::from(*byte),
        };
        return bytes.iter().map(char_of).collect();
    }
    String::from_utf8_lossy(bytes).into_owned()
}

/// The title of a page.
pub(super) fn title(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let mut from = 0;
    while let Some(found) = lower[from..].find("<title") {
        let at = from + found + "<title".len();
        from = at;
        // `<titles>` is another element.
        if !lower[at..].starts_with(|c: char| c == '>' || c.is_ascii_whitespace()) {
            continue;
        }
        let begin = at + lower[at..].find('>')? + 1;
        let end = lower[begin..].find("</title").map_or(page.len(), |end| begin + end);
        let title = tidy(&references(&page[begin..end]));
        if !title.is_empty() {
            return Some(title);
        }
    }
    None
}

/// The words of a piece of HTML, without its tags.
pub(super) fn words(html: &str) -> String {
    let mut out = String::with_capacity(html.len().min(4096));
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        out.push_str(&rest[..open]);
        rest = rest[open..].find('>').map_or("", |close| &rest[open + close + 1..]);
    }
    out.push_str(rest);
    tidy(&references(&out))
}

/// White space as one space, nothing that is not shown, and not too long.
pub(super) fn tidy(text: &str) -> String {
    let mut out = String::new();
    let visible = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().filter(visible));
        if out.len() > 4 * TEXT_CHARS_MAX {
            break;
        }
    }
    match out.char_indices().nth(TEXT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &out[..at]),
        None => out,
    }
}

/// With characters in place of references, once.
fn references(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.bytes().take(REFERENCE_LEN_MAX).position(|byte| byte == b';');
        match end.and_then(|end| Some((end, reference(&rest[..end])?))) {
            Some((end, meant)) => {
                out.push(meant);
                rest = &rest[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

fn reference(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMED.iter().find(|(known, _)| *known == name).map(|(_, meant)| *meant);
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(code).filter(|meant| *meant != '\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn titles_are_found_decoded_and_bounded() {
        for (page, wanted) in [
            (
                "<html><head><TITLE lang=en>\n A &amp; B\t&#8212; &#x63;&bogus;</Title>",
                Some("A & B — c&bogus;"),
            ),
            ("<titles>no</titles><title></title><title>yes</title>", Some("yes")),
            ("<title>never closed", Some("never closed")),
            ("<title", None),
            ("nothing", None),
            ("<title>a\u{202e}b\u{200b}c</title>", Some("abc")),
            ("<title>&amp;lt;script&amp;gt;</title>", Some("&lt;script&gt;")),
        ] {
            assert_eq!(title(page).as_deref(), wanted, "{page}");
        }
        let long = title(&format!("<title>{}</title>", "é".repeat(2000))).unwrap();
        assert_eq!(long.chars().count(), TEXT_CHARS_MAX + 1);
    }

    #[test]
    fn pages_in_old_sets_are_read() {
        assert_eq!(
            decode(b"<meta charset=\"ISO-8859-1\"><title>caf\xe9 \x80</title>").split('>').nth(2),
            Some("café €</title")
        );
        assert_eq!(decode(b"\xff\xfeh\0i\0"), "hi");
        assert_eq!(decode(b"\xef\xbb\xbfhi"), "hi");
        assert!(decode(b"caf\xe9").contains('\u{fffd}'));
        assert_eq!(words("<b>a</b> <i>&lt;b&gt;</i><broken"), "a <b>");
    }

    proptest! {
        #[test]
        fn no_page_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[<>/&#;titleé]{0,80}") {
            let _ = (title(&decode(&bytes)), title(&text), words(&text));
        }
    }
}

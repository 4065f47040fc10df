//! The view of a text in which markers and tokens are searched: ASCII, lower case, nothing
//! hidden, character references and escapes read, with a map back to the bytes of the text.
//! Built in linear time; a plain ASCII text needs no map. Called by `sanitise`.

use std::ops::Range;

use memchr::{memchr3, memchr3_iter};

use super::fold::fold_into;

/// How often what was read is read again: `&amp;lt;` is one reading, `%26lt%3b` two.
const READINGS_MAX: usize = 3;
/// Longest number or name of a reference that is read, in bytes of the view.
const REFERENCE_LEN_MAX: usize = 16;

/// A text as whoever looks for tokens sees it.
#[derive(Debug)]
pub(super) struct View {
    /// What is searched.
    pub bytes: Vec<u8>,
    /// From this view down to the text; none where both are the same.
    levels: Vec<Vec<Piece>>,
}

/// A piece of a level and the bytes of the level below that it stands for.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    below: usize,
    below_end: usize,
    /// How many bytes below each byte stands for; 0: the piece as a whole.
    step: usize,
}

impl View {
    /// Shows the text as it stands, and again after each reading of its references: one reading may
    /// swallow what another sees. `&#xdEND` is a letter and `ND`, or `END` behind four signs.
    pub fn each(text: &str, mut look: impl FnMut(&Self)) {
        let mut view = if text.is_ascii() {
            Self { bytes: text.to_ascii_lowercase().into_bytes(), levels: Vec::new() }
        } else {
            folded(text)
        };
        look(&view);
        for _ in 0..READINGS_MAX {
            if !view.read_references() {
                break;
            }
            look(&view);
        }
    }

    /// The view of a text whose references are all read.
    #[cfg(test)]
    pub fn of(text: &str) -> Self {
        let mut last = None;
        Self::each(text, |view| last = Some(Self { bytes: view.bytes.clone(), levels: view.levels.clone() }));
        last.unwrap()
    }

    /// Where in the text pieces of the view stand; always at ends of characters. Quick for pieces in
    /// the order of their starts: each level is walked along once.
    pub fn in_text(&self, spans: &mut [Range<usize>]) {
        for level in self.levels.iter().rev() {
            let mut place = 0;
            for span in spans.iter_mut().filter(|span| span.start < span.end) {
                place = index(level, span.start, place);
                let end = index(level, span.end - 1, place);
                *span = below(level, place, span.start).start..below(level, end, span.end - 1).end;
            }
        }
    }

    /// Replaces every reference by what it means. `false` when there was none.
    fn read_references(&mut self) -> bool {
        let bytes = &self.bytes;
        if memchr3(b'&', b'\\', b'%', bytes).is_none() {
            return false;
        }
        let mut out = Vec::new();
        let mut level = Vec::new();
        let (mut done, mut tried) = (0, 0);
        for at in memchr3_iter(b'&', b'\\', b'%', bytes) {
            if at < done.max(tried) {
                continue;
            }
            let Some((len, c)) = reference(&bytes[at..]) else {
                // Of a run of backslashes only the first one looks behind the run.
                tried = at + bytes[at..].iter().take_while(|b| **b == b'\\').count();
                continue;
            };
            copy(bytes, done..at, &mut out, &mut level);
            let start = out.len();
            fold_into(c, &mut out);
            if out.len() > start {
                level.push(Piece { at: start, below: at, below_end: at + len, step: 0 });
            }
            done = at + len;
        }
        if done == 0 {
            return false;
        }
        copy(bytes, done..bytes.len(), &mut out, &mut level);
        self.bytes = out;
        self.levels.push(level);
        true
    }
}

/// The piece of a level that has the byte at `at`; `near` is a guess, from which it is walked on.
fn index(level: &[Piece], at: usize, near: usize) -> usize {
    const STEPS_MAX: usize = 16;
    if level.get(near).is_some_and(|piece| piece.at <= at) {
        let starts_later = |place: &usize| level.get(place + 1).is_none_or(|next| next.at > at);
        if let Some(place) = (near..near + STEPS_MAX).find(starts_later) {
            return place;
        }
    }
    level.partition_point(|piece| piece.at <= at).saturating_sub(1)
}

fn below(level: &[Piece], place: usize, at: usize) -> Range<usize> {
    match level.get(place) {
        Some(piece) if piece.step > 0 => {
            let start = piece.below + (at - piece.at) * piece.step;
            start..start + piece.step
        }
        Some(piece) => piece.below..piece.below_end,
        None => at..at + 1,
    }
}

fn copy(from: &[u8], span: Range<usize>, out: &mut Vec<u8>, level: &mut Vec<Piece>) {
    if !span.is_empty() {
        level.push(Piece { at: out.len(), below: span.start, below_end: span.end, step: 1 });
        out.extend_from_slice(&from[span]);
    }
}

/// The view of a text that is not ASCII alone.
fn folded(text: &str) -> View {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut level: Vec<Piece> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let plain = ascii_len(&bytes[at..]);
        if plain > 0 {
            level.push(Piece { at: out.len(), below: at, below_end: at + plain, step: 1 });
            out.extend(bytes[at..at + plain].iter().map(u8::to_ascii_lowercase));
            at += plain;
        }
        for c in text[at..].chars() {
            if c.is_ascii() {
                break;
            }
            let start = out.len();
            fold_into(c, &mut out);
            let end = at + c.len_utf8();
            // A word of such letters is one piece: most of them look like one of ours each.
            let step = if out.len() - start == 1 { end - at } else { 0 };
            match level.last_mut() {
                Some(last) if step > 0 && last.step == step && last.below_end == at => last.below_end = end,
                _ if out.len() > start => level.push(Piece { at: start, below: at, below_end: end, step }),
                _ => {}
            }
            at = end;
        }
    }
    View { bytes: out, levels: vec![level] }
}

/// How many of the first bytes are ASCII.
fn ascii_len(bytes: &[u8]) -> usize {
    const STEP: usize = 32;
    let whole = bytes.chunks_exact(STEP).take_while(|chunk| chunk.is_ascii()).count() * STEP;
    whole + bytes[whole..].iter().take_while(|b| b.is_ascii()).count()
}

/// Length and meaning of the reference at the start: `&lt;` `&#60;` `&#x3c` `\u003c` `\u{3c}`
/// `\x3c` `%3c`, also behind any number of `amp;`, `%25` or further backslashes.
fn reference(view: &[u8]) -> Option<(usize, char)> {
    match view.first()? {
        b'&' => entity(view),
        b'\\' => escape(view),
        _ => percent(view),
    }
}

fn entity(view: &[u8]) -> Option<(usize, char)> {
    let mut at = 1;
    // `&amp;amp;lt;`: each reading by somebody takes one away.
    loop {
        let rest = &view[at..];
        let again = [&b"amp;"[..], b"#38;", b"#x26;"].into_iter().find(|again| rest.starts_with(again));
        match again {
            Some(again) => at += again.len(),
            None => break,
        }
    }
    let rest = &view[at..];
    let (len, c) = if rest.first() == Some(&b'#') {
        let hex = rest.get(1) == Some(&b'x');
        let (digits, c) = number(&rest[if hex { 2 } else { 1 }..], if hex { 16 } else { 10 })?;
        (digits + if hex { 2 } else { 1 }, c)
    } else {
        let (name, c) = NAMED.iter().find(|(name, _)| rest.starts_with(name.as_bytes()))?;
        (name.len(), *c)
    };
    let end = at + len;
    Some((end + usize::from(view.get(end) == Some(&b';')), c))
}

/// References by name that tokens can be written with.
const NAMED: [(&str, char); 22] = [
    ("lt", '<'),
    ("gt", '>'),
    ("vert", '|'),
    ("verbar", '|'),
    ("verticalline", '|'),
    ("lsqb", '['),
    ("lbrack", '['),
    ("rsqb", ']'),
    ("rbrack", ']'),
    ("sol;", '/'),
    ("lowbar", '_'),
    ("underbar", '_'),
    ("num;", '#'),
    ("colon", ':'),
    ("nbsp", ' '),
    ("newline", '\n'),
    ("zwj", '\u{200d}'),
    ("zwnj", '\u{200c}'),
    ("shy", '\u{ad}'),
    ("zerowidthspace", '\u{200b}'),
    ("bsol", '\\'),
    ("percnt", '%'),
];

fn escape(view: &[u8]) -> Option<(usize, char)> {
    let slashes = view.iter().take_while(|b| **b == b'\\').count();
    let rest = &view[slashes..];
    let fixed = |digits: usize| {
        let code = rest.get(1..=digits).filter(|text| text.iter().all(u8::is_ascii_hexdigit))?;
        Some((slashes + 1 + digits, number(code, 16)?.1))
    };
    match rest.first()? {
        b'u' if rest.get(1) == Some(&b'{') => {
            let (digits, c) = number(&rest[2..], 16)?;
            (rest.get(2 + digits) == Some(&b'}')).then_some((slashes + digits + 3, c))
        }
        b'u' => fixed(4).or_else(|| fixed(8)),
        b'x' => fixed(2),
        _ => None,
    }
}

fn percent(view: &[u8]) -> Option<(usize, char)> {
    let mut at = 1;
    while view[at..].starts_with(b"25") {
        at += 2;
    }
    let byte = view.get(at..at + 2).filter(|text| text.iter().all(u8::is_ascii_hexdigit))?;
    let (_, c) = number(byte, 16)?;
    // Bytes of longer characters are no tokens'.
    c.is_ascii().then_some((at + 2, c))
}

/// Length and character of a number, at the start.
fn number(view: &[u8], radix: u32) -> Option<(usize, char)> {
    let digits = view.iter().take(REFERENCE_LEN_MAX).take_while(|b| char::from(**b).is_digit(radix)).count();
    let text = std::str::from_utf8(&view[..digits]).ok()?;
    let c = char::from_u32(u32::from_str_radix(text, radix).ok()?)?;
    // A control character that was written out is text, and stays it.
    (!c.is_control() || c == '\n').then_some((digits, c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(view: &View, span: Range<usize>) -> Range<usize> {
        let mut spans = [span];
        view.in_text(&mut spans);
        let [span] = spans;
        span
    }

    fn seen(text: &str) -> String {
        String::from_utf8(View::of(text).bytes).unwrap()
    }

    #[test]
    fn references_of_every_spelling_are_read() {
        for text in [
            "&lt;",
            "&LT;",
            "&lt",
            "&#60;",
            "&#x3C;",
            "&#x3c",
            "&#0060;",
            "&amp;lt;",
            "&amp;amp;#60;",
            "&#38;lt;",
            "\\u003c",
            "\\\\u003C",
            "\\u{3c}",
            "\\x3c",
            "%3C",
            "%253c",
            "%26lt%3b",
            "＆lt；",
            "&l\u{200b}t;",
            "&#65308;",
            "≮",
        ] {
            assert_eq!(seen(text), "<", "{text}");
        }
        for text in
            ["&", "&&", "a & b", "&amp", "%", "100 %", "%zz", "\\", "\\n", "\\u12", "\\u{12", "&#;", "&#x;"]
        {
            assert_eq!(seen(text), text.to_lowercase(), "{text}");
        }
    }

    #[test]
    fn a_place_in_the_view_leads_back_to_the_text() {
        let text = "é a &lt;ｂ\u{301}&amp;gt; z";
        let view = View::of(text);
        assert_eq!(view.bytes, b"e a <b> z");
        for (seen, written) in
            [("<", "&lt;"), ("<b>", "&lt;ｂ\u{301}&amp;gt;"), ("b", "ｂ"), ("z", "z"), ("e", "é")]
        {
            let at = std::str::from_utf8(&view.bytes).unwrap().find(seen).unwrap();
            assert_eq!(&text[place(&view, at..at + seen.len())], written, "{seen}");
        }
    }

    proptest! {
        #[test]
        fn every_place_is_one_of_whole_characters(text in "[a<&;lt#x60\\\\u{}%é漢｜\u{301}\u{200b}]{0,40}") {
            let view = View::of(&text);
            let mut last = 0;
            for at in 0..view.bytes.len() {
                let span = place(&view, at..at + 1);
                prop_assert!(text.get(span.clone()).is_some(), "{:?}", span);
                prop_assert!(span.start >= last);
                last = span.start;
            }
        }
    }
}

//! Floor 5. The signs inside a line of markdown: bold, italic, code. Where nothing can be painted they
//! stay as they were written. Pure. Used by `markdown` and `grid`.

use unicode_width::UnicodeWidthStr;

use crate::cli::out::{Style, Tone};

/// How a line is shown besides its signs.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// What can be painted.
    pub style: Style,
    /// The tone of the line.
    pub tone: Tone,
}

/// What is open at this place of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inline {
    bold: bool,
    italic: bool,
    code: bool,
}

impl Inline {
    /// One word, printable, without white space: how it is shown, and its width in columns.
    pub fn word(&mut self, word: &str, look: Look) -> (String, usize) {
        if !look.style.color {
            return (word.to_owned(), word.width());
        }
        let (mut shown, mut width, mut piece) = (String::new(), 0, String::new());
        let mut rest = word;
        let mut before: Option<char> = None;
        while let Some(c) = rest.chars().next() {
            let len = self.sign(rest, before, c);
            if len > 0 {
                self.flush(&mut piece, &mut shown, &mut width, look);
                self.turn(&rest[..len]);
                rest = &rest[len..];
                before = Some(c);
                continue;
            }
            // A backslash before a sign takes its meaning.
            let escaped = c == '\\'
                && !self.code
                && rest[1..].starts_with(|n: char| "\\`*_{}[]<>()#+-.!|~".contains(n));
            let c = if escaped { rest[1..].chars().next().unwrap_or(c) } else { c };
            rest = &rest[c.len_utf8() + usize::from(escaped)..];
            piece.push(c);
            before = Some(c);
        }
        self.flush(&mut piece, &mut shown, &mut width, look);
        (shown, width)
    }

    /// How many bytes at the start of `rest` are a sign here.
    fn sign(self, rest: &str, before: Option<char>, c: char) -> usize {
        let after = |len: usize| rest[len..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match c {
            '`' => 1,
            _ if self.code => 0,
            '*' if rest.starts_with("**") => {
                let fits = if self.bold { before.is_some() } else { after(2).is_some_and(|c| c != '*') };
                if fits { 2 } else { 0 }
            }
            '*' => {
                let fits =
                    if self.italic { before.is_some() } else { after(1).is_some() && !is_word(before) };
                usize::from(fits)
            }
            '_' if !rest.starts_with("__") => {
                let fits = if self.italic {
                    before.is_some() && !is_word(after(1))
                } else {
                    !is_word(before) && is_word(after(1))
                };
                usize::from(fits)
            }
            _ => 0,
        }
    }

    fn turn(&mut self, sign: &str) {
        match sign {
            "`" => self.code = !self.code,
            "**" => self.bold = !self.bold,
            _ => self.italic = !self.italic,
        }
    }

    fn flush(self, piece: &mut String, shown: &mut String, width: &mut usize, look: Look) {
        if piece.is_empty() {
            return;
        }
        let tone = match self {
            Self { code: true, .. } => Tone::Code,
            Self { bold: true, .. } => Tone::Strong,
            Self { italic: true, .. } => Tone::Italic,
            _ => look.tone,
        };
        *width += piece.width();
        shown.push_str(&look.style.paint(tone, piece));
        piece.clear();
    }

    /// A whole line, as `word` does it for words.
    pub fn line(line: &str, look: Look) -> (String, usize) {
        let (mut inline, mut shown, mut width) = (Self::default(), String::new(), 0);
        for (at, word) in line.split(' ').enumerate() {
            if at > 0 {
                shown.push(' ');
                width += 1;
            }
            let (word, columns) = inline.word(word, look);
            shown.push_str(&word);
            width += columns;
        }
        (shown, width)
    }
}

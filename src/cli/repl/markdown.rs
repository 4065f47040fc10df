//! Floor 5. What a model writes, for a terminal: markdown as it comes, word by word, fitted to the
//! width. Nothing in it steers the terminal. However a text is cut into pieces, the same is shown.
//! Pure. Used by `talk`.

use unicode_width::UnicodeWidthStr;

use super::grid::grid;
use super::inline::{Inline, Look};
use crate::cli::out::{Style, Tone};
use crate::shaping::render::printable;

/// Columns when the width is not known.
const WIDTH_DEFAULT: u16 = 100;
/// Widest that text is set: longer lines are hard to read.
const TEXT_WIDTH_MAX: usize = 120;
/// Rows of a table that are held back until it is whole; longer ones are shown as they were written.
const TABLE_ROWS_MAX: usize = 200;
/// Longest piece without white space that is held back, in bytes.
const WORD_MAX: usize = 4096;

/// What the line is that comes in.
#[derive(Debug, PartialEq)]
enum At {
    /// Its beginning, as far as it is there: what it is, is not decided.
    Head,
    /// Text, word by word.
    Words,
    /// Shown when it is whole: code, a row of a table, a rule, a fence.
    Line,
}

/// What the beginning of a line says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Needs the whole line.
    Whole,
    /// A heading; how much of the line is its sign.
    Heading(usize),
    /// An item of a list: how far in, and how long its sign is with what is before it.
    Item(usize, usize),
    /// A quotation.
    Quote(usize),
    /// Anything else, that far in.
    Text(usize),
}

/// Shows a text as it comes.
#[derive(Debug)]
pub struct Markdown {
    style: Style,
    width: usize,
    at: At,
    /// What is held back of the line.
    held: String,
    /// Inside a block of code: what closes it.
    fence: Option<String>,
    table: Vec<String>,
    inline: Inline,
    /// Where the next word goes, in columns.
    column: usize,
    /// How far in further lines of this one begin.
    hang: String,
    /// The tone of the whole line.
    tone: Tone,
    space: bool,
    out: String,
}

impl Markdown {
    /// For that screen.
    pub fn new(style: Style) -> Self {
        let width = usize::from(style.width.unwrap_or(WIDTH_DEFAULT)).saturating_sub(1).max(20);
        Self {
            style,
            width: width.min(TEXT_WIDTH_MAX),
            at: At::Head,
            held: String::new(),
            fence: None,
            table: Vec::new(),
            inline: Inline::default(),
            column: 0,
            hang: String::new(),
            tone: Tone::Plain,
            space: false,
            out: String::new(),
        }
    }

    /// More of the text; what is to be shown now.
    pub fn push(&mut self, text: &str) -> String {
        for c in text.chars() {
            match c {
                '\n' => self.end_line(),
                '\r' => {}
                c => self.take(c),
            }
        }
        std::mem::take(&mut self.out)
    }

    /// The text is over; what was held back. Ends with a line end, if anything was shown.
    pub fn finish(&mut self) -> String {
        if !self.held.is_empty() || self.column > 0 {
            self.end_line();
        }
        self.end_table();
        self.fence = None;
        std::mem::take(&mut self.out)
    }

    fn take(&mut self, c: char) {
        match self.at {
            At::Words if c.is_whitespace() => self.end_word(),
            At::Words => {
                self.held.push(c);
                if self.held.len() > WORD_MAX {
                    self.end_word();
                    self.space = false;
                }
            }
            At::Line => self.held.push(c),
            At::Head => {
                self.held.push(c);
                self.decide(false);
            }
        }
    }

    /// Finds out what the line is, when its beginning says so.
    fn decide(&mut self, whole: bool) {
        if self.fence.is_some() {
            self.at = At::Line;
            return;
        }
        let Some(kind) = kind(&self.held, whole) else { return };
        if kind == Kind::Whole {
            self.at = At::Line;
            return;
        }
        self.end_table();
        let held = std::mem::take(&mut self.held);
        self.at = At::Words;
        let sign = match kind {
            Kind::Heading(len) => {
                self.tone = Tone::Strong;
                (len, String::new())
            }
            Kind::Item(indent, len) => {
                let marker = held[indent..len].trim();
                let marker = if marker.len() == 1 { "•" } else { marker };
                (len, format!("{}{marker} ", " ".repeat(indent)))
            }
            Kind::Quote(len) => (len, "│ ".to_owned()),
            Kind::Text(indent) => (indent, " ".repeat(indent)),
            Kind::Whole => (0, String::new()),
        };
        let (len, start) = sign;
        self.hang = if matches!(kind, Kind::Quote(_)) { start.clone() } else { " ".repeat(start.width()) };
        self.column = start.width();
        self.out.push_str(
            &self.style.paint(if start.trim().is_empty() { Tone::Plain } else { Tone::Dim }, &start),
        );
        for c in held[len..].chars() {
            self.take(c);
        }
    }

    fn end_word(&mut self) {
        if self.held.is_empty() {
            self.space = self.column > self.hang.width();
            return;
        }
        let word = std::mem::take(&mut self.held);
        let word = printable(&word).replace(['\n', '\t'], " ");
        let look = Look { style: self.style, tone: self.tone };
        let (shown, width) = self.inline.word(&word, look);
        let gap = usize::from(self.space);
        if self.column + gap + width > self.width && self.column > self.hang.width() {
            self.out.push('\n');
            self.out.push_str(&self.hang);
            self.column = self.hang.width();
        } else if gap > 0 {
            self.out.push(' ');
            self.column += 1;
        }
        self.out.push_str(&shown);
        self.column += width;
        self.space = true;
    }

    fn end_line(&mut self) {
        if self.at == At::Head && !self.held.is_empty() {
            self.decide(true);
        }
        match self.at {
            At::Head => {
                self.end_table();
                self.out.push('\n');
            }
            At::Words => {
                self.end_word();
                self.out.push('\n');
            }
            At::Line => {
                let line = std::mem::take(&mut self.held);
                self.whole_line(&printable(&line).replace('\n', " "));
            }
        }
        self.held.clear();
        self.inline = Inline::default();
        self.at = At::Head;
        self.column = 0;
        self.hang.clear();
        self.tone = Tone::Plain;
        self.space = false;
    }

    fn whole_line(&mut self, line: &str) {
        let trimmed = line.trim();
        if let Some(fence) = &self.fence {
            if trimmed.starts_with(fence.as_str()) && trimmed.chars().all(|c| fence.starts_with(c)) {
                self.fence = None;
            } else {
                self.out.push_str(&format!("  {}\n", self.style.paint(Tone::Code, line)));
            }
            return;
        }
        if trimmed.starts_with('|') {
            self.table.push(trimmed.to_owned());
            if self.table.len() > TABLE_ROWS_MAX {
                self.end_table();
            }
            return;
        }
        self.end_table();
        let sign: String = trimmed.chars().take_while(|c| trimmed.starts_with(*c)).collect();
        if matches!(sign.chars().next(), Some('`' | '~')) {
            self.fence = Some(sign);
            return;
        }
        self.out.push_str(&self.style.paint(Tone::Dim, &"─".repeat(self.width.min(40))));
        self.out.push('\n');
    }

    fn end_table(&mut self) {
        if !self.table.is_empty() {
            self.out.push_str(&grid(&std::mem::take(&mut self.table), self.style, self.width));
        }
    }
}

/// What a line is; `None` while what is there does not decide it.
fn kind(head: &str, whole: bool) -> Option<Kind> {
    let body = head.trim_start_matches([' ', '\t']);
    let indent = head.len() - body.len();
    let text = Some(Kind::Text(indent.min(8)));
    let Some(first) = body.chars().next() else { return whole.then_some(Kind::Text(indent.min(8))) };
    let sign = body.len() - body.trim_start_matches(first).len();
    let rest = &body[sign..];
    let after = rest.chars().next();
    match first {
        '|' => Some(Kind::Whole),
        '>' => Some(Kind::Quote(indent + 1)),
        '#' if sign > 6 => text,
        '#' => match after {
            Some(' ') => Some(Kind::Heading(indent + sign + 1)),
            Some(_) => text,
            None => whole.then_some(Kind::Text(indent.min(8))),
        },
        '`' | '~' => match after {
            _ if sign >= 3 => Some(Kind::Whole),
            Some(_) => text,
            None => whole.then_some(Kind::Text(indent.min(8))),
        },
        '-' | '*' | '_' | '+' => {
            let is_rule = first != '+' && sign >= 3 && rest.trim().is_empty();
            match after {
                None if whole && is_rule => Some(Kind::Whole),
                None => whole.then_some(Kind::Text(indent.min(8))),
                Some(' ') if sign == 1 && first != '_' => Some(Kind::Item(indent, indent + 2)),
                Some(_) if is_rule => whole.then_some(Kind::Whole),
                Some(_) => text,
            }
        }
        '0'..='9' => {
            let digits = body.len() - body.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let mut rest = body[digits..].chars();
            match (rest.next(), rest.next()) {
                _ if digits > 4 => text,
                (Some('.' | ')'), Some(' ')) => Some(Kind::Item(indent, indent + digits + 2)),
                (Some('.' | ')') | None, None) if !whole => None,
                _ => text,
            }
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests;

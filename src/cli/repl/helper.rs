//! Floor 5. What the editor asks while a line is typed: what completes it, what still is wanted, how
//! the prompt looks now, whether the line is whole. Used by `editor`.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use rustyline::Context;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::candidates::{Known, candidates, hint};
use super::editor::open;
use crate::cli::out::{Style, Terminal, Tone, write_stdout};

/// What stands before what is typed.
const SIGN: &str = "› ";
/// Widest that the bar is, in columns.
const BAR_WIDTH_MAX: u16 = 110;

/// What the editor's thread reads and the event loop writes.
#[derive(Debug)]
pub struct Shared {
    known: Mutex<Known>,
    /// The bar for a width.
    bar: Mutex<Box<dyn Bar>>,
    /// Columns that the bar of the prompt which is shown has.
    width: Mutex<usize>,
    /// The line as it is edited, and the place of the cursor in it.
    line: Mutex<(String, usize)>,
    /// What waits to be shown above it.
    news: Mutex<Vec<String>>,
    style: Style,
    state: AtomicU8,
    /// The prompt stands as usual: nothing is searched.
    usual: AtomicBool,
}

/// What writes the bar.
pub trait Bar: Send + std::fmt::Debug {
    /// The bar in exactly so many columns.
    fn draw(&self, style: Style, width: usize) -> String;
}

/// What is being read.
const NOTHING: u8 = 0;
const MAIN: u8 = 1;
const ANSWER: u8 = 2;

/// Lines that wait to be shown; older ones are left out.
const NEWS_MAX: usize = 40;
/// What is between these is shown at once, by terminals that can.
const BEGIN: &str = "\u{1b}[?2026h";
const END: &str = "\u{1b}[?2026l";
/// Takes away everything from the cursor on.
const CLEAR: &str = "\u{1b}[J";
/// Columns between two stops of a tab, as the editor has them.
const TAB: usize = 8;

/// A place, counted from where the prompt begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    row: usize,
    column: usize,
}

impl Place {
    /// Where the cursor is after that text, as the editor reckons it.
    fn after(mut self, text: &str, columns: usize) -> Self {
        for c in text.chars() {
            if c == '\n' {
                self = Self { row: self.row + 1, column: 0 };
                continue;
            }
            let wide = if c == '\t' { TAB - self.column % TAB } else { c.width().unwrap_or_default() };
            self.column += wide;
            if self.column > columns {
                self = Self { row: self.row + 1, column: wide };
            }
        }
        if self.column == columns { Self { row: self.row + 1, column: 0 } } else { self }
    }
}

impl Shared {
    /// With a first bar.
    pub fn new(style: Style, bar: Box<dyn Bar>) -> Self {
        Self {
            known: Mutex::default(),
            bar: Mutex::new(bar),
            width: Mutex::new(0),
            line: Mutex::default(),
            news: Mutex::default(),
            style,
            state: AtomicU8::new(NOTHING),
            usual: AtomicBool::new(false),
        }
    }

    /// What completion goes by from now on.
    pub fn know(&self, known: Known) {
        *open(&self.known) = known;
    }

    /// The bar from now on, at once where it is seen.
    pub fn set_bar(&self, bar: Box<dyn Bar>) {
        *open(&self.bar) = bar;
        self.draw();
    }

    /// Shows a text above the line that is edited; when none is, before the next one.
    pub fn show(&self, text: &str) {
        let mut news = open(&self.news);
        if news.len() == NEWS_MAX {
            news.remove(0);
        }
        news.push(format!("{}\n", text.trim_end_matches('\n')));
        drop(news);
        self.draw();
    }

    /// What waits to be shown.
    pub fn take_news(&self) -> String {
        std::mem::take(&mut *open(&self.news)).concat()
    }

    /// Draws bar and line anew, with what waits above them. All moves are relative, so that the
    /// editor finds its line where it left it.
    fn draw(&self) {
        if !self.at_prompt() || !self.usual.load(Ordering::Acquire) {
            return;
        }
        let columns = usize::from(Terminal::detect(false).width);
        let (line, pos) = open(&self.line).clone();
        let hint = if pos == line.len() { hint(&line, &open(&self.known)) } else { None };
        let hint = hint.unwrap_or_default();
        let sign = Place { row: 1, column: SIGN.width() };
        let cursor = sign.after(&line[..pos], columns);
        let end = sign.after(&format!("{line}{hint}"), columns);
        let bar = open(&self.bar).draw(self.style, *open(&self.width));
        let full = if end.column == 0 && !line.ends_with('\n') { "\n" } else { "" };
        let moves =
            |count: usize, way: char| if count > 0 { format!("\u{1b}[{count}{way}") } else { String::new() };
        let text = format!(
            "{BEGIN}\r{up}{CLEAR}{news}{bar}\n{sign}{line}{hint}{full}{back}\r{right}{END}",
            up = moves(cursor.row, 'A'),
            news = self.take_news(),
            sign = self.style.paint(Tone::Strong, SIGN),
            hint = self.style.paint(Tone::Dim, &hint),
            back = moves(end.row - cursor.row, 'A'),
            right = moves(cursor.column, 'C'),
        );
        let _ = write_stdout(&text);
    }

    /// Whether a line is being edited at the prompt.
    pub fn at_prompt(&self) -> bool {
        self.state.load(Ordering::Acquire) == MAIN
    }

    /// Whether anything is being edited.
    pub fn reads(&self) -> bool {
        self.state.load(Ordering::Acquire) != NOTHING
    }

    /// The prompt as the editor measures it: the bar's place, and the sign.
    pub(super) fn prompt(&self) -> String {
        let width = usize::from(Terminal::detect(false).width.min(BAR_WIDTH_MAX)).saturating_sub(1);
        *open(&self.width) = width;
        format!("{}\n{SIGN}", " ".repeat(width))
    }

    pub(super) fn begin(&self, main: bool) {
        *open(&self.line) = (String::new(), 0);
        self.usual.store(false, Ordering::Release);
        self.state.store(if main { MAIN } else { ANSWER }, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.state.store(NOTHING, Ordering::Release);
    }
}

/// The one who is asked.
#[derive(Debug)]
pub struct Helper {
    shared: std::sync::Arc<Shared>,
}

impl Helper {
    /// Goes by that.
    pub fn new(shared: std::sync::Arc<Shared>) -> Self {
        Self { shared }
    }

    fn at_prompt(&self) -> bool {
        self.shared.at_prompt()
    }
}

impl rustyline::Helper for Helper {}

impl Completer for Helper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        if !self.at_prompt() {
            return Ok((pos, Vec::new()));
        }
        let (at, found) = candidates(line, pos, &open(&self.shared.known));
        let alone = found.len() == 1;
        let pairs = found.into_iter().map(|one| {
            let goes_on = one.text.ends_with('=') || one.text.starts_with('@') || !alone;
            let space = if goes_on { "" } else { " " };
            Pair { replacement: format!("{}{space}", one.text), display: one.shown }
        });
        Ok((at, pairs.collect()))
    }
}

/// Words behind the cursor, which are not put into the line.
#[derive(Debug)]
pub struct Shown(String);

impl Hint for Shown {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Helper {
    type Hint = Shown;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<Shown> {
        if !self.at_prompt() || pos < line.len() {
            return None;
        }
        hint(line, &open(&self.shared.known)).map(Shown)
    }
}

impl Highlighter for Helper {
    fn highlight<'l>(&self, line: &'l str, pos: usize) -> Cow<'l, str> {
        *open(&self.shared.line) = (line.to_owned(), pos);
        Cow::Borrowed(line)
    }

    /// Every change is drawn whole: so the line is always known.
    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        self.at_prompt()
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, default: bool) -> Cow<'b, str> {
        self.shared.usual.store(default, Ordering::Release);
        if !default || !self.at_prompt() {
            return Cow::Borrowed(prompt);
        }
        let (width, style) = (*open(&self.shared.width), self.shared.style);
        let bar = open(&self.shared.bar).draw(style, width);
        Cow::Owned(format!("{bar}\n{}", style.paint(Tone::Strong, SIGN)))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(self.shared.style.paint(Tone::Dim, hint))
    }
}

impl Validator for Helper {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = ctx.input().ends_with('\\') && self.at_prompt();
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_cursor_is_that_of_the_editor() {
        let sign = Place { row: 1, column: 2 };
        for (text, row, column) in [
            ("", 1, 2),
            ("abc", 1, 5),
            ("12345678", 2, 0),
            ("123456789", 2, 1),
            ("a\nb", 2, 1),
            ("1234567漢", 2, 2),
            ("\t", 1, 8),
        ] {
            assert_eq!(sign.after(text, 10), Place { row, column }, "{text:?}");
        }
    }
}

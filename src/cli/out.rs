//! Floor 5. The only owner of stdout and stderr in the command line: turns what a
//! verb answers into text for people or one JSON object for scripts. Knows no verb.
//! A closed pipe ends the output quietly.

use std::io::{self, IsTerminal};

use serde::Serialize;
use serde_json::value::RawValue;

use super::exit::Exit;
use super::failure::Failure;
use super::stream::write_whole;
use super::text;
use crate::config::host::ColorChoice;

/// What the process is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Whether somebody can type.
    pub stdin: bool,
    /// Whether stdout is a screen.
    pub stdout: bool,
    /// Whether stderr is a screen.
    pub stderr: bool,
    /// Where colours are wanted.
    pub color: ColorChoice,
    /// Columns of the screen behind stdout.
    pub width: u16,
    /// Lines of that screen.
    pub height: u16,
    /// Columns of the screen behind stderr.
    pub width_err: u16,
}

/// Columns and lines when the screen does not say.
const SIZE_DEFAULT: (u16, u16) = (100, 40);

fn size(of: impl std::os::fd::AsFd) -> (u16, u16) {
    match rustix::termios::tcgetwinsize(of) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => SIZE_DEFAULT,
    }
}

impl Terminal {
    /// Looks at the three standard streams, NO_COLOR and TERM.
    pub fn detect(no_color: bool) -> Self {
        let (width, height) = size(io::stdout());
        Self {
            stdin: io::stdin().is_terminal(),
            stdout: io::stdout().is_terminal(),
            stderr: io::stderr().is_terminal(),
            color: if no_color || !color_wanted() { ColorChoice::Never } else { ColorChoice::Auto },
            width,
            height,
            width_err: size(io::stderr()).0,
        }
    }

    /// The same with the size that the screen has now.
    #[must_use]
    pub fn resized(mut self) -> Self {
        (self.width, self.height) = size(io::stdout());
        self
    }

    /// The same with the configured choice; a flag, NO_COLOR and a dumb terminal are stronger.
    #[must_use]
    pub fn colored(mut self, configured: ColorChoice) -> Self {
        if self.color != ColorChoice::Never {
            self.color = configured;
        }
        self
    }

    /// How to write to stdout.
    pub fn style(&self) -> Style {
        Style { color: self.color_on(self.stdout), width: self.stdout.then_some(self.width) }
    }

    /// How to write to stderr.
    pub fn style_err(&self) -> Style {
        Style { color: self.color_on(self.stderr), width: self.stderr.then_some(self.width_err) }
    }

    fn color_on(&self, screen: bool) -> bool {
        match self.color {
            ColorChoice::Never => false,
            ColorChoice::Auto => screen,
            ColorChoice::Always => true,
        }
    }

    /// Whether a person can be asked a question: types here and sees stderr.
    pub fn can_ask(&self) -> bool {
        self.stdin && self.stderr
    }
}

/// <https://no-color.org>: any non-empty NO_COLOR; and terminals that can't.
#[expect(clippy::disallowed_methods, reason = "the convention for colour is an environment variable")]
fn color_wanted() -> bool {
    let set = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    !set && !dumb
}

/// How text for people is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences for colour are written.
    pub color: bool,
    /// Columns to fit; `None` for a pipe or file, where nothing is cut or wrapped.
    pub width: Option<u16>,
}

impl Style {
    /// For pipes, files and tests.
    pub const PLAIN: Self = Self { color: false, width: None };

    /// The text in that tone.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        match tone.ansi() {
            Some(code) if self.color && !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}

/// What a piece of text means; each has one colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// Works.
    Good,
    /// In between, or to be looked at.
    Warn,
    /// Does not work.
    Bad,
    /// Less important.
    Dim,
    /// A heading or a name.
    Strong,
    /// Code in a text.
    Code,
    /// Stressed in a text.
    Italic,
}

impl Tone {
    fn ansi(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Warn => Some("33"),
            Self::Bad => Some("31"),
            Self::Dim => Some("2"),
            Self::Strong => Some("1"),
            Self::Code => Some("36"),
            Self::Italic => Some("3"),
        }
    }
}

/// What a verb answers when it did what was asked.
#[derive(Debug)]
pub struct Answer {
    /// Name and version of the shape of `data`, such as `callboard.status/1`.
    pub schema: &'static str,
    /// The value of `data`.
    pub data: Box<RawValue>,
    /// The same for a person; printable; empty for nothing to say.
    pub human: String,
    /// Doubts worth telling.
    pub warnings: Vec<String>,
    /// What the process ends with.
    pub exit: Exit,
}

impl Answer {
    /// An answer that ends with 0. Fails only if `data` can't be written as JSON, a bug of ours.
    pub fn new(
        schema: &'static str,
        data: &impl Serialize,
        human: impl Into<String>,
    ) -> Result<Self, Failure> {
        let data = serde_json::value::to_raw_value(data)
            .map_err(|e| Failure::new("internal", Exit::Unhealthy, format!("can't write the answer: {e}")))?;
        Ok(Self { schema, data, human: human.into(), warnings: Vec::new(), exit: Exit::Ok })
    }

    /// The same answer with doubts.
    #[must_use]
    pub fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// The same answer with another exit code.
    #[must_use]
    pub fn ending(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
}

/// The outcome with these warnings before its own; none is told twice.
pub fn told(outcome: Result<Answer, Failure>, warnings: &[String]) -> Result<Answer, Failure> {
    let before = |own: &mut Vec<String>, message: &str| {
        let new = warnings.iter().filter(|new| !own.contains(new) && *new != message).cloned();
        let all = new.collect::<Vec<_>>();
        own.splice(0..0, all);
    };
    outcome
        .map(|mut answer| {
            before(&mut answer.warnings, "");
            answer
        })
        .map_err(|mut failure| {
            before(&mut failure.warnings, &failure.message);
            failure
        })
}

#[derive(Serialize)]
struct OkView<'a> {
    schema: &'a str,
    ok: bool,
    data: &'a RawValue,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct ErrView<'a> {
    schema: &'a str,
    ok: bool,
    error: super::failure::FailureView<'a>,
    warnings: &'a [String],
}

/// What goes to the two streams.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// For stdout.
    pub stdout: String,
    /// For stderr.
    pub stderr: String,
    /// Whether `stdout` is JSON, which a screen gets in another spelling of the same value.
    pub is_json: bool,
}

impl Printed {
    /// What goes to stdout: byte for byte, but for a screen.
    fn for_stdout(&self, screen: bool) -> std::borrow::Cow<'_, str> {
        if screen && self.is_json {
            text::json_for_screens(&self.stdout).into()
        } else {
            self.stdout.as_str().into()
        }
    }
}

/// One answer as text for both streams.
pub fn answer_text(answer: &Answer, json: bool, stderr: Style) -> Printed {
    if json {
        let view = OkView { schema: answer.schema, ok: true, data: &answer.data, warnings: &answer.warnings };
        return Printed { stdout: json_line(&view), stderr: String::new(), is_json: true };
    }
    let mut printed = Printed { stdout: with_newline(&answer.human), ..Printed::default() };
    warnings_text(&answer.warnings, stderr, &mut printed.stderr);
    printed
}

/// One failure as text for both streams.
pub fn failure_text(schema: &str, failure: &Failure, json: bool, stderr: Style) -> Printed {
    if json {
        let view = ErrView { schema, ok: false, error: failure.view(), warnings: &failure.warnings };
        return Printed { stdout: json_line(&view), stderr: String::new(), is_json: true };
    }
    let mut text = String::new();
    warnings_text(&failure.warnings, stderr, &mut text);
    text.push_str(&stderr.paint(Tone::Bad, "error:"));
    text.push(' ');
    text.push_str(failure.message.trim_end());
    text.push('\n');
    if let Some(fix) = &failure.fix {
        text.push_str(&stderr.paint(Tone::Good, "fix:"));
        text.push(' ');
        text.push_str(fix.trim_end());
        text.push('\n');
    }
    Printed { stderr: text, ..Printed::default() }
}

fn warnings_text(warnings: &[String], style: Style, out: &mut String) {
    for warning in warnings {
        out.push_str(&style.paint(Tone::Warn, "warning:"));
        out.push(' ');
        out.push_str(warning.trim_end());
        out.push('\n');
    }
}

fn json_line(view: &impl Serialize) -> String {
    // Strings, numbers and raw values only: this can't fail.
    let mut line = serde_json::to_string(view).unwrap_or_default();
    line.push('\n');
    line
}

fn with_newline(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// Writes both parts and returns what the process ends with: `exit`, unless stdout did not take
/// the answer (a full disk): what is lost is told on stderr, and never ends with 0. A reader that
/// went away has seen what it wanted.
pub fn tell(printed: &Printed, exit: Exit) -> Exit {
    write_stderr(&printed.stderr);
    match to_stdout(&printed.for_stdout(io::stdout().is_terminal())) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let failure = unwritten(&error);
            write_stderr(&failure_text("", &failure, false, Style::PLAIN).stderr);
            if exit == Exit::Ok { failure.exit } else { exit }
        }
        _ => exit,
    }
}

/// The failure of a verb whose answer stdout did not take.
pub fn unwritten(error: &io::Error) -> Failure {
    Failure::io(Exit::Unhealthy, format!("can't write the answer to stdout: {error}"))
        .fix("what was asked for is done, only its answer is lost; check where stdout goes")
}

/// Writes text to stdout at once. `false` when its reader is gone; fails when it can't be written.
pub fn write_stdout(text: &str) -> Result<bool, Failure> {
    match to_stdout(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritten(&error)),
        other => Ok(other.is_ok()),
    }
}

fn to_stdout(text: &str) -> io::Result<()> {
    write_whole(io::stdout().lock(), text.as_bytes())
}

/// Writes text to stderr: questions and progress, never answers.
pub fn write_stderr(text: &str) {
    let _ = write_whole(io::stderr().lock(), text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        Answer::new("callboard.list/1", &serde_json::json!({"servers": []}), "nothing")
            .unwrap()
            .warn(["odd".to_owned()])
    }

    #[test]
    fn an_answer_for_scripts_is_one_object_and_stderr_stays_empty() {
        let printed = answer_text(&answer(), true, Style::PLAIN);
        assert_eq!(
            printed.stdout,
            "{\"schema\":\"callboard.list/1\",\"ok\":true,\"data\":{\"servers\":[]},\"warnings\":[\"odd\"]}\n"
        );
        assert_eq!(printed.stderr, "");
    }

    #[test]
    fn an_answer_for_people_keeps_warnings_off_stdout() {
        let printed = answer_text(&answer(), false, Style::PLAIN);
        assert_eq!(
            printed,
            Printed { stdout: "nothing\n".into(), stderr: "warning: odd\n".into(), is_json: false }
        );
    }

    #[test]
    fn a_failure_tells_error_and_fix_on_stderr() {
        let failure = Failure::usage("no").fix("do that");
        let printed = failure_text("callboard.error/1", &failure, false, Style::PLAIN);
        assert_eq!(
            printed,
            Printed { stdout: String::new(), stderr: "error: no\nfix: do that\n".into(), is_json: false }
        );
    }

    #[test]
    fn a_failure_for_scripts_has_every_key() {
        let failure = Failure::usage("no");
        let printed = failure_text("callboard.error/1", &failure, true, Style::PLAIN);
        let value: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
        assert_eq!(value["ok"], false);
        let keys: Vec<_> = value["error"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            keys,
            ["code", "message", "server", "tool", "phase", "delivery", "retry_after_ms", "fix", "exit_code"]
        );
    }

    #[test]
    fn raw_data_goes_out_byte_for_byte() {
        let raw = r#"{"n":1.0000,"big":123456789012345678901234567890,"u":"\u00e9"}"#;
        let answer =
            Answer::new("callboard.call/1", &RawValue::from_string(raw.into()).unwrap(), "").unwrap();
        assert!(answer_text(&answer, true, Style::PLAIN).stdout.contains(raw));
    }

    #[test]
    fn json_shows_a_terminal_nothing_to_obey_and_stays_the_same_value() {
        let raw = "{\"t\":\"a\u{9b}31m\u{202e}b\u{2028}\\\\\u{85}é😀\u{7f}\"}";
        let answer =
            Answer::new("callboard.call/1", &RawValue::from_string(raw.into()).unwrap(), "").unwrap();
        let printed = answer_text(&answer, true, Style::PLAIN);
        assert!(printed.for_stdout(false).contains(raw), "a program gets the bytes as they came");
        let printed = printed.for_stdout(true).into_owned();
        let shown = r#""data":{"t":"a\u009b31m\u202eb\u2028\\\u0085é😀\u007f"}"#;
        assert!(printed.contains(shown), "{printed}");
        let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(value["data"], serde_json::from_str::<serde_json::Value>(raw).unwrap());
        let failure = Failure::usage("no\u{9b}\u{2066}");
        let printed = failure_text("callboard.error/1", &failure, true, Style::PLAIN);
        assert!(printed.for_stdout(true).contains(r"no\u009b\u2066"), "{printed:?}");
    }

    #[test]
    fn colour_only_where_it_is_wanted() {
        let colored = Style { color: true, width: Some(80) };
        assert_eq!(colored.paint(Tone::Good, "ready"), "\u{1b}[32mready\u{1b}[0m");
        assert_eq!(Style::PLAIN.paint(Tone::Good, "ready"), "ready");
    }
}

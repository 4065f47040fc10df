//! Floor 5. The question before a call that needs a person's yes: server, tool and arguments,
//! with as much of the arguments as leaves their subject on the screen. Pure. Used by `invoke`.

use super::text;
use crate::shaping::render::{columns, one_line};

/// Lines of the screen that the arguments take at most.
const ROWS_MAX: usize = 12;
/// Longest name that is repeated whole, in columns.
const NAME_WIDTH_MAX: usize = 80;
/// What stands before each line of arguments.
const INDENT: &str = "  ";

/// A question, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What is to be called with what, as far as it is shown.
    pub head: String,
    /// The line that is answered: it names server and tool once more.
    pub line: String,
    /// All of the arguments, when `head` shows a part of them.
    pub whole: Option<String>,
}

/// The question about a call. The texts are clean; `width` is that of the screen, in columns.
pub fn question(server: &str, tool: &str, arguments: &str, width: u16) -> Question {
    let [server, tool] = [server, tool].map(|name| one_line(name, NAME_WIDTH_MAX));
    let room = usize::from(width).saturating_sub(INDENT.len()).max(1);
    let kept = fits(arguments, ROWS_MAX, room);
    let mut head = format!("Call {tool} of {server} with\n{}\n", text::indent(&arguments[..kept], INDENT));
    let rest = &arguments[kept..];
    if !rest.is_empty() {
        head.push_str(&format!(
            "{INDENT}… and {} more, of {} in all; s shows all of it\n",
            text::count(rest.chars().count(), "character"),
            arguments.chars().count()
        ));
    }
    let whole = (!rest.is_empty()).then(|| format!("{}\n", text::indent(arguments, INDENT)));
    Question { head, line: format!("Call {tool} of {server}?"), whole }
}

/// How many bytes of a text fit into that many rows of a screen.
fn fits(text: &str, rows_max: usize, width: usize) -> usize {
    let (mut rows, mut used) = (1, 0);
    for (at, c) in text.char_indices() {
        let needs = if c == '\n' { 0 } else { columns(c) };
        if c == '\n' || used + needs > width {
            rows += 1;
            used = 0;
            if rows > rows_max {
                return at;
            }
        }
        used += needs;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_question_shows_everything() {
        let asked = question("s", "t", r#"{"a":1}"#, 80);
        assert_eq!(asked.head, "Call t of s with\n  {\"a\":1}\n");
        assert_eq!((asked.line.as_str(), asked.whole), ("Call t of s?", None));
    }

    #[test]
    fn long_arguments_never_scroll_their_subject_away_and_say_how_much_there_is_more() {
        let lines = format!("{{{}}}", "\n".repeat(5000));
        let wide = format!(r#"{{"text":"{}"}}"#, "漢".repeat(5000));
        let long = format!(r#"{{"text":"{}","then":"rm"}}"#, "x".repeat(50_000));
        for arguments in [lines, wide, long] {
            let asked = question("git", "push", &arguments, 80);
            assert!(asked.head.lines().count() <= ROWS_MAX + 2, "{}", asked.head.lines().count());
            assert!(asked.head.chars().count() < 2000);
            let of = format!("of {} in all", arguments.chars().count());
            assert!(asked.head.contains(" more, ") && asked.head.contains(&of), "{}", asked.head);
            assert!(asked.line.contains("git") && asked.line.contains("push"));
            let whole = asked.whole.unwrap();
            assert_eq!(
                whole.replace([' ', '\n'], ""),
                arguments.replace([' ', '\n'], ""),
                "nothing is left out"
            );
        }
    }

    #[test]
    fn a_long_name_stays_on_its_line() {
        let asked = question(&"s".repeat(500), &"t".repeat(500), "{}", 80);
        assert!(asked.line.chars().count() < 200, "{}", asked.line);
    }

    proptest! {
        #[test]
        fn what_is_shown_fits_and_is_a_prefix(text in "[a-z漢\n]{0,400}", width in 1_u16..60) {
            let asked = question("s", "t", &text, width);
            prop_assert_eq!(asked.whole.is_some(), asked.head.contains(" in all"));
            prop_assert!(fits(&text, 3, 10) <= text.len());
        }
    }
}

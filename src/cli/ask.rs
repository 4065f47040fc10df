//! Floor 5. Questions to the person at the terminal. Asked on stderr, answered on
//! stdin; whoever has no terminal is never asked. Used by `call`, `approve` and `add`.

use std::io::BufRead;

use super::exit::Exit;
use super::failure::Failure;
use super::out::write_stderr;
use crate::policy::approve::Answer;

/// Longest line that is read as an answer, in bytes.
const ANSWER_LEN_MAX: u64 = 64 * 1024;

/// Asks a yes-or-no question; anything but yes is no. Must be called only where somebody can
/// answer. Runs beside the event loop: servers go on meanwhile.
pub async fn yes_or_no(question: &str) -> bool {
    is_yes(&line(&format!("{question} [y/N] ")).await)
}

/// What is said to a request for approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// This.
    Answer(Answer),
    /// Show all of it, then ask again.
    Show,
}

/// Asks whether a call may happen once, always (if that `can_keep`), or not; anything else is no.
/// Offers to show what was left out, if there `is_more`. As [`yes_or_no`].
pub async fn approval(question: &str, can_keep: bool, is_more: bool) -> Reply {
    let letters = if can_keep { "y: once, a: always; [y/a/N" } else { "[y/N" };
    let more = if is_more { ", s shows all" } else { "" };
    reply(&line(&format!("{question} {letters}{more}] ")).await, can_keep, is_more)
}

/// What an answer means.
fn reply(answer: &str, can_keep: bool, is_more: bool) -> Reply {
    match answer.trim().to_lowercase().as_str() {
        "s" | "show" if is_more => Reply::Show,
        "a" | "always" if can_keep => Reply::Answer(Answer::Always),
        answer if is_yes(answer) => Reply::Answer(Answer::Once),
        _ => Reply::Answer(Answer::Deny),
    }
}

/// Writes a prompt and reads the answer; empty when there is none.
async fn line(prompt: &str) -> String {
    write_stderr(prompt);
    let answer = tokio::task::spawn_blocking(read_line).await;
    let answer = answer.ok().flatten();
    if answer.is_none() {
        write_stderr("\n");
    }
    answer.unwrap_or_default()
}

/// Whether an answer means yes.
pub fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

fn read_line() -> Option<String> {
    use std::io::Read;
    let mut line = String::new();
    let read = std::io::stdin().lock().take(ANSWER_LEN_MAX).read_line(&mut line).ok()?;
    (read > 0).then_some(line)
}

/// Asks for a value that must not be seen: the terminal does not echo it.
pub fn hidden(question: &str) -> Result<String, Failure> {
    let failed = |e: String| Failure::io(Exit::Usage, format!("can't read the value: {e}"));
    // Before the question: whoever answers at once must not be seen, nor lose a letter.
    let echo = EchoOff::new().map_err(|e| failed(e.to_string()))?;
    write_stderr(&format!("{question}: "));
    let line = read_line();
    drop(echo);
    write_stderr("\n");
    let line = line.ok_or_else(|| failed("there was none".to_owned()))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Keeps what is typed off the screen while it lives.
#[derive(Debug)]
struct EchoOff {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl EchoOff {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Flush, &quiet)?;
        Ok(Self { before })
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_to_see_all_is_neither_yes_nor_no() {
        for (answer, means) in [
            ("s\n", Reply::Show),
            ("Show", Reply::Show),
            ("y", Reply::Answer(Answer::Once)),
            ("A", Reply::Answer(Answer::Always)),
            ("al", Reply::Answer(Answer::Deny)),
            ("", Reply::Answer(Answer::Deny)),
        ] {
            assert_eq!(reply(answer, true, true), means, "{answer:?}");
        }
        for not_offered in ["s", "a"] {
            assert_eq!(reply(not_offered, false, false), Reply::Answer(Answer::Deny));
        }
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        for yes in ["y", "Y\n", " yes ", "YES"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "n", "no", "yeah", "j", "1", "y es"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}

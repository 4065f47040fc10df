//! Floor 5. The terminal itself: kept as it was found, whatever ends the program; quiet while
//! nobody is to type; emptied of what was typed ahead before a question. Used by `repl`.

use crate::cli::out::write_stdout;

/// What the editor turns on: pasting as one piece goes off, and the cursor is shown.
const AS_BEFORE: &str = "\u{1b}[?2004l\u{1b}[?25h";

/// Puts the terminal back when it goes.
#[derive(Debug)]
pub struct Kept {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Kept {
    /// Remembers how the terminal behind stdin is.
    pub fn take() -> Self {
        Self {
            #[cfg(unix)]
            before: rustix::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
            let raw = tcgetattr(std::io::stdin()).is_ok_and(|now| now.local_modes != before.local_modes);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
            if raw {
                // The editor was interrupted in the middle of a line.
                let _ = write_stdout(AS_BEFORE).and_then(|_| write_stdout("\n"));
            }
        }
    }
}

/// Keeps what is typed off the screen while it lives; it is read later. Ctrl-C goes on to be a signal.
#[derive(Debug)]
pub struct Quiet {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Quiet {
    /// From now on.
    pub fn take() -> Self {
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
            let before = tcgetattr(std::io::stdin()).ok();
            if let Some(before) = &before {
                let mut quiet = before.clone();
                quiet.local_modes.remove(LocalModes::ECHO);
                let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &quiet);
            }
            Self { before }
        }
        #[cfg(not(unix))]
        Self {}
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Forgets what was typed and not read: it must not answer a question that nobody had seen.
pub fn forget_typed() {
    #[cfg(unix)]
    {
        use rustix::termios::{QueueSelector, tcflush};
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    }
}

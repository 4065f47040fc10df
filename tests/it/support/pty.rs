//! A program on a terminal that is drawn: what a person would see, line by line.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Seconds of silence after which a program counts as stuck.
const SILENCE_S_MAX: i64 = 60;

/// Ctrl-C, Ctrl-D, Tab, as a terminal sends them.
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const TAB: &str = "\t";

/// The program, and the terminal that it is on.
pub(crate) struct Pty {
    child: Child,
    master: File,
    screen: vt100::Parser,
    /// Every byte that was shown.
    pub(crate) raw: Vec<u8>,
}

impl Pty {
    /// Starts it on a terminal of that size.
    pub(crate) fn start(mut command: Command, (rows, columns): (u16, u16)) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let peer =
            || -> OwnedFd { ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap() };
        let command = command.env("TERM", "xterm-256color").stdin(Stdio::from(peer()));
        let child = command.stdout(Stdio::from(peer())).stderr(Stdio::from(peer())).spawn().unwrap();
        let size = |n: u16| std::num::NonZeroU16::new(n).unwrap();
        let screen = vt100::Parser::new(size(rows), size(columns), 2000);
        Self { child, master: File::from(master), screen, raw: Vec::new() }
    }

    /// What is on the screen now.
    pub(crate) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads until the screen shows that.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> &mut Self {
        self.until_it(text, |screen| screen.contains(text))
    }

    /// Reads until the screen is so.
    #[track_caller]
    pub(crate) fn until_it(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> &mut Self {
        while !is_so(&self.text()) {
            assert!(self.more(), "{what:?} never came:\n{}", self.text());
        }
        self
    }

    /// Reads once; `false` when the program has gone.
    #[track_caller]
    fn more(&mut self) -> bool {
        let mut waits = [PollFd::new(&self.master, PollFlags::IN)];
        let limit = Timespec { tv_sec: SILENCE_S_MAX, tv_nsec: 0 };
        if rustix::event::poll(&mut waits, Some(&limit)).unwrap() == 0 {
            self.child.kill().unwrap();
            panic!("it neither says anything nor ends:\n{}", self.text());
        }
        let mut bytes = [0; 4096];
        match self.master.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.raw.extend_from_slice(&bytes[..n]);
                self.screen.process(&bytes[..n]);
                true
            }
        }
    }

    /// Types that.
    pub(crate) fn type_in(&mut self, text: &str) -> &mut Self {
        self.master.write_all(text.as_bytes()).unwrap();
        self
    }

    /// Reads until a line is being edited at an empty prompt.
    #[track_caller]
    pub(crate) fn ready(&mut self) -> &mut Self {
        let edits = |raw: &[u8]| {
            let raw = String::from_utf8_lossy(raw);
            raw.rfind("\u{1b}[?2004h") > raw.rfind("\u{1b}[?2004l")
        };
        while !(edits(&self.raw) && self.text().trim_end().ends_with('›')) {
            assert!(self.more(), "no prompt ever came:\n{}", self.text());
        }
        self
    }

    /// Types a line at the prompt.
    #[track_caller]
    pub(crate) fn enter(&mut self, line: &str) -> &mut Self {
        self.ready().type_in(&format!("{line}\r"))
    }

    /// Sends a signal.
    pub(crate) fn signal(&mut self, signal: Signal) -> &mut Self {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self
    }

    /// Whether what is typed is shown by the terminal itself, as it is outside of an editor.
    pub(crate) fn is_plain(&self) -> bool {
        tcgetattr(&self.master).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Reads to the end; the exit code.
    #[track_caller]
    pub(crate) fn end(&mut self) -> i32 {
        while self.more() {}
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Floor 2. The guard: `callboard __guard`. One thread, no event loop, no environment. Starts
//! one server in a process group of its own, below itself in a session of its own; as a child
//! subreaper it keeps every process of the server's tree below itself, also daemons. It ends
//! when that tree has ended, and sees to that when the server or the host is gone.
//!
//! Of the signals that would end it, TERM, INT, HUP and QUIT make it end its tree first; KILL
//! can't be heard, and then the server dies with it and the host sweeps up. A terminal's Ctrl-C
//! does not reach it: the session is its own.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, WaitOptions, WaitStatus, getpid, pidfd_open, set_child_subreaper, setsid, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::course::{Act, Course, Event};
use super::passing;
use super::proc::Identity;
use super::sandbox;
use super::tree;
use super::wire::{Confine, Launch, PREFIX, REPORT, Report, Stage, Step};
use super::{EXEC_VERB, SELF};
use crate::time::Monotonic;

/// What `ps -o comm` calls a guard; at most 15 bytes.
pub(super) const NAME: &str = "callboard-guard";

/// Plays the guard until nothing of its server is left.
pub(super) fn main() -> ExitCode {
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn keep() -> io::Result<()> {
    // The name comes before the session: whoever looks for strays knows a guard by it.
    let _ = std::fs::write("/proc/self/comm", NAME);
    // Fails for the leader of a group only, which a child of the host is not.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let host = passing::from_stdin()?;
    let signals = Signals::listen()?;
    match start(&host) {
        Ok((server, confine)) => {
            let kept = Keeper::new(host, signals, server).and_then(Keeper::run);
            confine.as_ref().map(sandbox::clear);
            kept
        }
        Err((stage, error)) => {
            let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            (&host).write_all(&Report::Failed { stage, errno }.encode())
        }
    }
}

/// Starts the server by way of the stage; returns when its program runs, with what it is confined to.
fn start(host: &UnixStream) -> Result<(Pid, Option<Confine>), (Stage, io::Error)> {
    let failed = |error| (Stage::Guard, error);
    let (launch, ends) = passing::receive(host).map_err(failed)?;
    let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut child = {
        let mut command = Command::new(SELF);
        command.arg0("callboard").args([EXEC_VERB, &std::process::id().to_string()]);
        command.stdin(OwnedFd::from(theirs)).env_clear().process_group(0);
        // The command holds the other end; it must be gone before we wait for its end.
        command.spawn().map_err(failed)?
    };
    let sent = passing::send(&ours, &launch, &ends).map_err(failed);
    let confine = launch.get(PREFIX..).and_then(Launch::decode).and_then(|launch| launch.confine);
    drop((launch, ends));
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    match sent.and_then(|()| became_server(&mut ours)).map(|()| pid) {
        Ok(Some(pid)) => Ok((pid, confine)),
        Ok(None) => Err(failed(io::ErrorKind::InvalidData.into())),
        Err(fault) => {
            // It has said all that it had to say, and is waited for so that nobody inherits it.
            let _ = child.kill();
            let _ = child.wait();
            Err(fault)
        }
    }
}

/// Waits until the stage has become the server.
fn became_server(stage: &mut UnixStream) -> Result<(), (Stage, io::Error)> {
    let failed = |error| (Stage::Guard, error);
    let mut report = [0; REPORT];
    match stage.read_exact(&mut report).map(|()| Report::decode(report)) {
        // It closed without a word, as it does when the program takes its place.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Ok(Some(Report::Failed { stage, errno })) => Err((stage, io::Error::from_raw_os_error(errno))),
        Ok(_) => Err(failed(io::ErrorKind::InvalidData.into())),
        Err(error) => Err(failed(error)),
    }
}

/// Signals, turned into something that `poll` waits for.
struct Signals {
    /// Readable after any of them.
    woken: UnixStream,
    /// One that asks this guard to leave.
    asked: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
            signal_hook::flag::register(signal, asked.clone())?;
        }
        // After the flags: who is woken by a signal finds its flag set.
        for signal in [SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
            signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(Self { woken, asked })
    }

    fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.woken).read(&mut bytes), Ok(1..)) {}
    }
}

struct Keeper {
    /// `None` once it is gone.
    host: Option<UnixStream>,
    signals: Signals,
    server: Pid,
    /// Tells the server's end at once; `None` once that was reported.
    exit: Option<OwnedFd>,
    course: Course,
    me: i32,
    /// Who has had its TERM.
    told: BTreeSet<Identity>,
    empty: bool,
}

/// What woke the guard.
#[derive(Clone, Copy)]
struct Woken {
    host: bool,
    asked: bool,
}

impl Keeper {
    fn new(host: UnixStream, signals: Signals, server: Pid) -> io::Result<Self> {
        // A child that nobody has waited for keeps its number: this is the server. Where such a
        // descriptor is refused, SIGCHLD says the same.
        let exit = pidfd_open(server, PidfdFlags::empty()).ok();
        host.set_nonblocking(true)?;
        let me = getpid().as_raw_nonzero().get();
        let mut keeper = Self {
            host: Some(host),
            signals,
            server,
            exit,
            course: Course::Keeping,
            me,
            told: BTreeSet::new(),
            empty: false,
        };
        keeper.report(Report::Started { pid: server.as_raw_nonzero().get() });
        Ok(keeper)
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            let woken = self.wait()?;
            self.reap();
            if woken.host {
                self.hear();
            }
            if woken.asked {
                self.take(Event::Signalled);
            }
            self.take(Event::Looked);
            if self.empty && self.course.is_ending() {
                return Ok(());
            }
        }
    }

    fn wait(&self) -> io::Result<Woken> {
        let look = self.course.look(Monotonic::now());
        let look = look.map(|look| Timespec { tv_sec: 0, tv_nsec: i64::from(look.subsec_nanos()) });
        let mut fds = vec![PollFd::new(&self.signals.woken, PollFlags::IN)];
        fds.extend(self.exit.as_ref().map(|exit| PollFd::new(exit, PollFlags::IN)));
        fds.extend(self.host.as_ref().map(|host| PollFd::new(host, PollFlags::IN)));
        match poll(&mut fds, look.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let host = self.host.is_some() && fds.last().is_some_and(|fd| !fd.revents().is_empty());
        self.signals.drain();
        Ok(Woken { host, asked: self.signals.asked.swap(false, Ordering::SeqCst) })
    }

    /// Takes what has ended: the server, and every process of its tree that was left to us.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.server => self.server_ended(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => {
                    self.empty = false;
                    return;
                }
                // No child: as a subreaper we are the parent of whatever has lost its own, so
                // there is no process of the tree at all.
                Err(_) => {
                    self.empty = true;
                    return;
                }
            }
        }
    }

    fn server_ended(&mut self, status: WaitStatus) {
        self.exit = None;
        self.report(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Report::Left { code },
            (None, signal) => Report::Killed { signal: signal.unwrap_or_default() },
        });
        self.take(Event::ServerEnded);
    }

    /// Reads what the host says, or that it is gone.
    fn hear(&mut self) {
        let mut bytes = [0; 16];
        loop {
            let Some(host) = &mut self.host else { return };
            match host.read(&mut bytes) {
                Ok(count @ 1..) => {
                    for step in bytes[..count].iter().filter_map(|byte| Step::decode(*byte)) {
                        self.take(Event::Asked(step));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => {
                    self.host = None;
                    self.take(Event::HostGone);
                    return;
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        match self.course.on(event, Monotonic::now()) {
            Act::Wait => {}
            Act::Term => tree::term(self.me, &mut self.told),
            Act::Kill => tree::kill(self.me),
        }
    }

    /// A host that does not listen any more is noticed when we read.
    fn report(&mut self, report: Report) {
        if let Some(host) = &mut self.host {
            let _ = host.write_all(&report.encode());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_name_is_one_that_the_kernel_keeps_whole() {
        assert!(super::NAME.len() <= 15);
    }
}

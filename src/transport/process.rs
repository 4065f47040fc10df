//! Floor 2. The process of a stdio server, as `stdio` sees it: below a guard where there is
//! one, else with a process group and nothing more. Starts, tells its end, ends its tree.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::OwnedSemaphorePermit;

use super::{LinkFault, StdioLaunch};

/// How the fault of a program that is not there begins: it has a cure of its own.
pub const COMMAND_NOT_FOUND: &str = "command not found";
/// How long what a server without a guard left behind may take after TERM.
const GROUP_GRACE: Duration = Duration::from_millis(1500);
/// Longest wait for a killed server; the kernel may hold it for longer.
const KILL_MAX: Duration = Duration::from_secs(1);
/// Between looks at a group that was told to leave.
const GROUP_LOOK: Duration = Duration::from_millis(10);

/// Our ends of the three pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub stdin: pipe::Sender,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody knows.
    Unknown,
    /// Its guard was killed, and it with its guard.
    GuardLost,
}

impl From<io::Result<ExitStatus>> for Ended {
    fn from(status: io::Result<ExitStatus>) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let Ok(status) = status else { return Self::Unknown };
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

/// Why there is no process.
#[derive(Debug)]
pub(super) enum StartFault {
    /// The working directory can't be entered.
    Cwd(io::Error),
    /// The program can't be run.
    Exec(io::Error),
    /// Arguments and environment are longer than any system takes.
    TooLong,
    /// The guard, or what carries a server: this machine's fault.
    Guard(String),
}

impl StartFault {
    /// The fault in words: of the entry where a change of the entry cures it.
    pub(super) fn into_fault(self, launch: &StdioLaunch) -> LinkFault {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        let program = &launch.command;
        let folder = || launch.cwd.as_deref().map(|cwd| cwd.display().to_string()).unwrap_or_default();
        match self {
            Self::Cwd(error) if matches!(error.kind(), NotFound | NotADirectory) => {
                LinkFault::Config(format!("the working directory {} does not exist", folder()))
            }
            Self::Cwd(error) => {
                LinkFault::Config(format!("the working directory {} can't be entered: {error}", folder()))
            }
            Self::Exec(error) if error.kind() == NotFound => {
                let looked_up = if program.contains('/') { "" } else { " (looked up in PATH)" };
                LinkFault::Config(format!("{COMMAND_NOT_FOUND}: {program}{looked_up}"))
            }
            Self::Exec(error) if error.kind() == PermissionDenied => {
                LinkFault::Config(format!("{program} may not be executed: permission denied"))
            }
            Self::Exec(error) if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                LinkFault::Config(format!("{program} is not an executable this system can run"))
            }
            Self::Exec(error) => LinkFault::Network(format!("starting {program} failed: {error}")),
            Self::TooLong => {
                LinkFault::Config(format!("the arguments and variables of {program} are too long"))
            }
            Self::Guard(text) => LinkFault::Network(format!("starting {program} failed: {text}")),
        }
    }
}

/// A running server.
#[derive(Debug)]
pub(super) enum Process {
    /// With a process group of its own.
    Plain(Plain),
    /// Below a guard.
    #[cfg(target_os = "linux")]
    Guarded(Box<super::guard::host::Guarded>),
}

impl Process {
    /// Starts it, below a guard if the launch names one and there are guards here. `place` is taken
    /// for as long as that takes, even when nobody waits for it any more.
    pub(super) async fn start(
        launch: &StdioLaunch,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<(Self, Pipes), StartFault> {
        #[cfg(target_os = "linux")]
        if let Some(guarding) = &launch.guard {
            let (guarded, pipes) = super::guard::host::start(launch, guarding, place).await?;
            return Ok((Self::Guarded(Box::new(guarded)), pipes));
        }
        let started = Plain::start(launch).map(|(plain, pipes)| (Self::Plain(plain), pipes));
        drop(place);
        started
    }

    /// Process id of the server.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Plain(plain) => plain.child.id(),
            #[cfg(target_os = "linux")]
            Self::Guarded(guarded) => Some(guarded.pid()),
        }
    }

    /// Process id of its guard.
    pub(super) fn guard_pid(&self) -> Option<u32> {
        match self {
            Self::Plain(_) => None,
            #[cfg(target_os = "linux")]
            Self::Guarded(guarded) => guarded.guard_pid(),
        }
    }

    /// Waits for its end. Can be given up and asked again.
    pub(super) async fn ended(&mut self) -> Ended {
        match self {
            Self::Plain(plain) => plain.child.wait().await.into(),
            #[cfg(target_os = "linux")]
            Self::Guarded(guarded) => guarded.ended().await,
        }
    }

    /// TERM to its whole tree.
    pub(super) async fn term(&mut self) {
        match self {
            Self::Plain(plain) => plain.signal(Signal::TERM),
            #[cfg(target_os = "linux")]
            Self::Guarded(guarded) => guarded.term().await,
        }
    }

    /// KILL to its whole tree, and waits for its end, for a bounded time.
    pub(super) async fn kill(&mut self) {
        match self {
            Self::Plain(plain) => {
                plain.signal(Signal::KILL);
                let _ = tokio::time::timeout(KILL_MAX, plain.child.wait()).await;
            }
            #[cfg(target_os = "linux")]
            Self::Guarded(guarded) => guarded.kill().await,
        }
    }

    /// Waits until the server and what it left behind is gone. Can be given up and asked again.
    pub(super) async fn emptied(&mut self) {
        match self {
            Self::Plain(plain) => plain.emptied().await,
            #[cfg(target_os = "linux")]
            Self::Guarded(guarded) => guarded.emptied().await,
        }
    }
}

/// A child with a process group of its own: what leaves the group, and what outlives a killed
/// host, is out of reach.
#[derive(Debug)]
pub(super) struct Plain {
    child: Child,
    group: Option<Pid>,
}

impl Plain {
    fn start(launch: &StdioLaunch) -> Result<(Self, Pipes), StartFault> {
        if let Some(cwd) = &launch.cwd
            && !std::fs::metadata(cwd).map_err(StartFault::Cwd)?.is_dir()
        {
            return Err(StartFault::Cwd(io::ErrorKind::NotADirectory.into()));
        }
        let mut command = Command::new(&launch.command);
        command.args(&launch.args).env_clear().envs(launch.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        if let Some(cwd) = &launch.cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn().map_err(StartFault::Exec)?;
        let failed = |error: io::Error| StartFault::Guard(error.to_string());
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StartFault::Guard("the child has no pipes".to_owned()));
        };
        let pipes = Pipes {
            stdin: stdin.into_owned_fd().and_then(pipe::Sender::from_owned_fd).map_err(failed)?,
            stdout: stdout.into_owned_fd().and_then(pipe::Receiver::from_owned_fd).map_err(failed)?,
            stderr: stderr.into_owned_fd().and_then(pipe::Receiver::from_owned_fd).map_err(failed)?,
        };
        let group = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Ok((Self { child, group }, pipes))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }

    /// The leader is gone: what is left of its group gets TERM, then KILL.
    async fn emptied(&mut self) {
        let _ = self.child.wait().await;
        let Some(group) = self.group else { return };
        if test_kill_process_group(group).is_err() {
            return;
        }
        self.signal(Signal::TERM);
        let left = tokio::time::timeout(GROUP_GRACE, async {
            let mut look = tokio::time::interval(GROUP_LOOK);
            while test_kill_process_group(group).is_ok() {
                look.tick().await;
            }
        });
        if left.await.is_err() {
            self.signal(Signal::KILL);
        }
    }
}

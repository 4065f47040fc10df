//! Floor 2. The process of a stdio server, as `stdio` sees it: below a guard where there is
//! one, else with a process group and nothing more. Starts, tells its end, ends its tree.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::OwnedSemaphorePermit;

use super::{LinkFault, StdioLaunch};
use crate::policy;

/// How the fault of a program that is not there begins: it has a cure of its own.
pub const COMMAND_NOT_FOUND: &str = "command not found";
/// How the fault of a sandbox begins: it has a cure of its own.
pub const SANDBOX: &str = "sandbox: ";
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
    /// The confinement can't be kept, or makes no sense.
    Sandbox(String),
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
            Self::Cwd(error) if error.kind() == NotFound => {
                LinkFault::Config(format!("the working directory {} does not exist", folder()))
            }
            Self::Cwd(error) if error.kind() == NotADirectory => {
                LinkFault::Config(format!("the working directory {} is no folder", folder()))
            }
            Self::Cwd(error) => {
                LinkFault::Config(format!("the working directory {} can't be entered: {error}", folder()))
            }
            Self::Exec(error) if error.kind() == NotFound && program_file(launch).is_some() => {
                LinkFault::Config(match program_file(launch).as_deref().and_then(interpreter) {
                    Some(name) => format!("{program} wants to be run by {name}, which is not there"),
                    None => format!(
                        "{program} is there, but what would load it is not: it was built for another system"
                    ),
                })
            }
            Self::Exec(error) if error.kind() == NotFound => {
                let looked_up = if program.contains('/') { "" } else { " (looked up in PATH)" };
                LinkFault::Config(format!("{COMMAND_NOT_FOUND}: {program}{looked_up}"))
            }
            Self::Exec(error) if error.kind() == PermissionDenied && is_folder(launch) => {
                LinkFault::Config(format!("{program} is a folder, not a program"))
            }
            Self::Exec(error) if error.kind() == PermissionDenied => {
                LinkFault::Config(format!("{program} may not be executed: permission denied"))
            }
            Self::Exec(error) if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                LinkFault::Config(format!("{program} is not an executable this system can run"))
            }
            Self::Exec(error) => LinkFault::Network(format!("starting {program} failed: {error}")),
            Self::Sandbox(text) => LinkFault::Config(format!("{SANDBOX}{text}")),
            Self::TooLong => {
                LinkFault::Config(format!("the arguments and variables of {program} are too long"))
            }
            Self::Guard(text) => LinkFault::Network(format!("starting {program} failed: {text}")),
        }
    }
}

/// Longest first line of a script that is looked at, bytes: what Linux looks at (execve(2)).
const SHEBANG_MAX: u64 = 256;

/// Where the program stands, when the entry says that by a path.
fn program_path(launch: &StdioLaunch) -> Option<PathBuf> {
    let path = Path::new(&launch.command);
    let within = launch.cwd.clone().unwrap_or_default();
    launch.command.contains('/').then(|| within.join(path))
}

fn program_file(launch: &StdioLaunch) -> Option<PathBuf> {
    program_path(launch).filter(|path| path.is_file())
}

fn is_folder(launch: &StdioLaunch) -> bool {
    program_path(launch).is_some_and(|path| path.is_dir())
}

/// What the first line of a script names to run it. Without it the system says that the script
/// itself is not there.
fn interpreter(script: &Path) -> Option<String> {
    let mut head = Vec::new();
    std::fs::File::open(script).ok()?.take(SHEBANG_MAX).read_to_end(&mut head).ok()?;
    let line = String::from_utf8_lossy(head.strip_prefix(b"#!")?).into_owned();
    line.lines().next()?.split_whitespace().next().map(str::to_owned)
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
        if let Some(fault) = unkept(launch) {
            return Err(StartFault::Sandbox(fault));
        }
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

/// Why a confined server would run with less than it asks for; nothing is started then.
fn unkept(launch: &StdioLaunch) -> Option<String> {
    let plan = launch.sandbox.as_ref()?;
    if launch.guard.is_none() || !cfg!(target_os = "linux") {
        return Some(format!("\"{}\" needs the guard process, which is not there", plan.asked));
    }
    policy::sandbox::lacking(plan, super::guard::powers())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_that_cannot_start_is_told_by_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for (name, text) in [("script", "#!/nope/runner -x\necho\n"), ("binary", "\x7fELF")] {
            std::fs::write(at(name), text).unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::create_dir(at("folder")).unwrap();
        let told = |command: &str, cwd: Option<&str>, fault: StartFault| {
            let launch = StdioLaunch {
                command: command.to_owned(),
                args: Vec::new(),
                env: Vec::new(),
                cwd: cwd.map(PathBuf::from),
                guard: None,
                sandbox: None,
            };
            fault.into_fault(&launch).to_string()
        };
        let exec = |kind: io::ErrorKind| StartFault::Exec(kind.into());
        let home = folder.path().display().to_string();
        for (command, kind, wanted) in [
            (at("script"), io::ErrorKind::NotFound, "wants to be run by /nope/runner, which is not there"),
            (at("binary"), io::ErrorKind::NotFound, "what would load it is not"),
            (at("nothing"), io::ErrorKind::NotFound, "command not found: /"),
            ("nothing".to_owned(), io::ErrorKind::NotFound, "command not found: nothing (looked up in PATH)"),
            (at("folder"), io::ErrorKind::PermissionDenied, "is a folder, not a program"),
            (at("script"), io::ErrorKind::PermissionDenied, "may not be executed"),
        ] {
            let text = told(&command, None, exec(kind));
            assert!(text.contains(wanted), "{command}: {text}");
        }
        let text = told("./script", Some(home.as_str()), exec(io::ErrorKind::NotFound));
        assert!(text.contains("/nope/runner"), "relative to its folder: {text}");
        let cwd = at("script");
        let text = told("x", Some(cwd.as_str()), StartFault::Cwd(io::ErrorKind::NotADirectory.into()));
        assert!(text.ends_with("is no folder"), "{text}");
    }
}

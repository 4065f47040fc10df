//! Floor 2. A server as a child process on pipes: spawn, watch, stop. The child has
//! its own process group; nothing of the group outlives the link. Used by
//! [`super::connect`] only.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};

use super::inbound::Inbound;
use super::pipe::{self, ChildEnd, PipeCarrier, PipeWriter, STOP_ASKS_MAX};
use super::stderr::{self, StderrRing};
use super::{LinkFault, LinkSettings, StdioLaunch, task};

/// Between the steps of an ordered stop: stdin closed, TERM, KILL (spec section 2).
pub const STOP_STEP: Duration = Duration::from_secs(2);
/// How long the exit status and the end of stderr are waited for after stdout has closed, and
/// the other way round.
const STATUS_GRACE: Duration = Duration::from_millis(50);
/// Between looks at a group that was told to leave.
const GROUP_POLL: Duration = Duration::from_millis(10);
/// Lines of stderr that travel with a failure.
pub(super) const STDERR_LINES: usize = 20;
/// Exit codes that mean the entry is wrong, before a handshake: not executable, not found, EX_CONFIG.
const CONFIG_EXIT_CODES: [i32; 3] = [126, 127, 78];
/// How the fault of a program that is not there begins: it has a cure of its own.
pub const COMMAND_NOT_FOUND: &str = "command not found";
/// Room asked for in each pipe, in bytes.
#[cfg(target_os = "linux")]
const PIPE_SIZE: usize = 1024 * 1024;

/// Spawns the child and its tasks. An error is a fault of the entry, or of this machine.
pub(crate) fn connect(
    launch: &StdioLaunch,
    settings: &LinkSettings,
    inbound: Arc<Inbound>,
) -> Result<Arc<PipeCarrier>, LinkFault> {
    let mut child = spawn(launch)?;
    let (Some(stdin), Some(stdout), Some(err)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(LinkFault::Network("the child has no pipes".to_owned()));
    };
    widen(&stdin);
    widen(&stdout);
    let pid = child.id();
    let ring = StderrRing::default();
    let (writer, queue) = PipeWriter::new(inbound.clone());
    let (stop, stop_asked) = mpsc::channel(STOP_ASKS_MAX);
    let (gone_in, gone) = watch::channel(false);
    let (established, handshake_done) = watch::channel(false);
    let (ended_in, ended) = tokio::sync::oneshot::channel();

    let write_task = task::spawn(pipe::write_loop(stdin, queue, inbound.clone()));
    let read_task = {
        let (inbound, writer, frame_max) = (inbound.clone(), writer.clone(), settings.frame_max);
        task::spawn(async move {
            let _ = ended_in.send(pipe::read_loop(stdout, inbound, writer, frame_max).await);
        })
    };
    let err_task = task::spawn(stderr::drain(err, ring.clone()));
    let watch = Watch {
        child,
        group: pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw),
        inbound,
        ring: ring.clone(),
        handshake_done,
        write_task,
        read_task,
        err_task,
    };
    // It outlives every handle on purpose: it is what stops the child when they are gone.
    task::spawn(async move {
        watch.run(ended, stop_asked).await;
        let _ = gone_in.send(true);
    })
    .detach();
    let child = Some(ChildEnd { pid, ring, handshake_done: established });
    Ok(Arc::new(PipeCarrier { writer, stop, gone, child }))
}

fn spawn(launch: &StdioLaunch) -> Result<Child, LinkFault> {
    if let Some(cwd) = &launch.cwd
        && !cwd.is_dir()
    {
        return Err(LinkFault::Config(format!("the working directory {} does not exist", cwd.display())));
    }
    let mut command = Command::new(&launch.command);
    command.args(&launch.args).env_clear().envs(launch.env.iter().map(|(k, v)| (k, v)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    command.spawn().map_err(|error| {
        let program = &launch.command;
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                let looked_up = if program.contains('/') { "" } else { " (looked up in PATH)" };
                LinkFault::Config(format!("{COMMAND_NOT_FOUND}: {program}{looked_up}"))
            }
            std::io::ErrorKind::PermissionDenied => {
                LinkFault::Config(format!("{program} may not be executed: permission denied"))
            }
            _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                LinkFault::Config(format!("{program} is not an executable this system can run"))
            }
            _ => LinkFault::Network(format!("starting {program} failed: {error}")),
        }
    })
}

/// Larger pipes save a fifth of the time of a 1 MB answer; a refusal is harmless.
fn widen(fd: &impl std::os::fd::AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE_SIZE);
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

/// Owns the child from spawn to reap.
struct Watch {
    child: Child,
    group: Option<Pid>,
    inbound: Arc<Inbound>,
    ring: StderrRing,
    handshake_done: watch::Receiver<bool>,
    write_task: task::Owned,
    read_task: task::Owned,
    err_task: task::Owned,
}

/// What ended first.
enum First {
    Stop,
    Exit(Option<ExitStatus>),
    Stream(LinkFault),
}

impl Watch {
    async fn run(
        mut self,
        mut stream_ended: tokio::sync::oneshot::Receiver<LinkFault>,
        mut stop: mpsc::Receiver<()>,
    ) {
        let first = tokio::select! {
            biased;
            _ = stop.recv() => First::Stop,
            status = self.child.wait() => First::Exit(status.ok()),
            fault = &mut stream_ended => First::Stream(fault.unwrap_or(LinkFault::Closed)),
        };
        match first {
            First::Stop => {
                self.write_task.abort();
                self.stop_in_order().await;
                self.inbound.end(LinkFault::Closed);
            }
            First::Exit(status) => {
                // What it wrote before it left still counts; a grandchild may hold the pipe open.
                let all = async { tokio::join!(&mut stream_ended, self.err_task.ended()) };
                let _ = tokio::time::timeout(STATUS_GRACE, all).await;
                let fault = self.exit_fault(status);
                self.inbound.end(fault);
                self.sweep_group().await;
            }
            First::Stream(fault) => {
                let (status, _) = tokio::join!(
                    tokio::time::timeout(STATUS_GRACE, self.child.wait()),
                    tokio::time::timeout(STATUS_GRACE, self.err_task.ended()),
                );
                let fault = match (fault, status) {
                    (LinkFault::Closed, Ok(status)) => self.exit_fault(status.ok()),
                    (fault, _) => fault,
                };
                self.inbound.end(fault);
                self.write_task.abort();
                self.stop_in_order().await;
            }
        }
        self.read_task.abort();
        // A grandchild that left the group may hold stderr open for ever: don't wait for its end.
        self.err_task.abort();
    }

    fn exit_fault(&self, status: Option<ExitStatus>) -> LinkFault {
        use std::os::unix::process::ExitStatusExt;
        let code = status.and_then(|s| s.code());
        let stderr = self.ring.tail(STDERR_LINES);
        if let Some(code) = code.filter(|code| CONFIG_EXIT_CODES.contains(code))
            && !*self.handshake_done.borrow()
        {
            let last = stderr.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
            return LinkFault::Config(format!("the command left with exit code {code}{last}"));
        }
        LinkFault::Exited { code, signal: status.and_then(|s| s.signal()), stderr }
    }

    /// stdin is closed by now: 2 s, TERM, 2 s, KILL, reap (spec section 2).
    async fn stop_in_order(&mut self) {
        if tokio::time::timeout(STOP_STEP, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            if tokio::time::timeout(STOP_STEP, self.child.wait()).await.is_err() {
                self.signal(Signal::KILL);
                let _ = self.child.wait().await;
            }
        }
        self.sweep_group().await;
    }

    /// The leader is gone: what is left of its group gets TERM, then KILL.
    async fn sweep_group(&self) {
        let Some(group) = self.group else { return };
        if test_kill_process_group(group).is_err() {
            return;
        }
        self.signal(Signal::TERM);
        let emptied = tokio::time::timeout(STOP_STEP, async {
            let mut look = tokio::time::interval(GROUP_POLL);
            while test_kill_process_group(group).is_ok() {
                look.tick().await;
            }
        });
        if emptied.await.is_err() {
            self.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }
}

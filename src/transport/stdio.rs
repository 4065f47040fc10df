//! Floor 2. A server as a child process on pipes: joins process, pipes and tasks, watches
//! for the end, stops in order. Nothing of the process's tree outlives the link. Used by
//! [`super::connect`] only.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::inbound::Inbound;
use super::pipe::{self, ChildEnd, PipeCarrier, PipeWriter, STOP_ASKS_MAX};
pub use super::process::{COMMAND_NOT_FOUND, SANDBOX};
use super::process::{Ended, Pipes, Process};
use super::stderr::{self, StderrRing};
use super::{LinkFault, LinkSettings, StdioLaunch, task};

/// Between the steps of an ordered stop: stdin closed, TERM, KILL (spec section 2).
pub const STOP_STEP: Duration = Duration::from_secs(2);
/// How long the exit status and the end of stderr are waited for after stdout has closed, and
/// the other way round.
const STATUS_GRACE: Duration = Duration::from_millis(50);
/// Lines of stderr that travel with a failure.
pub(super) const STDERR_LINES: usize = 20;
/// Exit codes that mean the entry is wrong, before a handshake: not executable, not found, EX_CONFIG.
const CONFIG_EXIT_CODES: [i32; 3] = [126, 127, 78];
/// Room asked for in each pipe, in bytes.
#[cfg(target_os = "linux")]
const PIPE_SIZE: usize = 1024 * 1024;

/// Starts the server and its tasks. An error is a fault of the entry, or of this machine.
pub(crate) async fn connect(
    launch: &StdioLaunch,
    settings: &LinkSettings,
    inbound: Arc<Inbound>,
) -> Result<Arc<PipeCarrier>, LinkFault> {
    let place = settings.spawns.place().await;
    let started = Process::start(launch, place).await;
    let (process, pipes) = started.map_err(|fault| fault.into_fault(launch))?;
    let Pipes { stdin, stdout, stderr: err } = pipes;
    widen(&stdin);
    widen(&stdout);
    let (pid, guard_pid) = (process.pid(), process.guard_pid());
    let ring = StderrRing::tapped(settings.tap.clone());
    let (writer, queue) = PipeWriter::new(inbound.clone());
    let (stop, stop_asked) = mpsc::channel(STOP_ASKS_MAX);
    let (gone_in, gone) = watch::channel(false);
    let (established, handshake_done) = watch::channel(false);
    let (ended_in, ended) = tokio::sync::oneshot::channel();

    let (unwritable_in, unwritable) = tokio::sync::oneshot::channel();
    let write_task = {
        let write = pipe::write_loop(stdin, queue, inbound.clone());
        task::spawn(async move {
            if write.await.is_err() {
                let _ = unwritable_in.send(());
            }
        })
    };
    let read_task = {
        let (inbound, writer, frame_max) = (inbound.clone(), writer.clone(), settings.frame_max);
        task::spawn(async move {
            let _ = ended_in.send(pipe::read_loop(stdout, inbound, writer, frame_max).await);
        })
    };
    let err_task = task::spawn(stderr::drain(err, ring.clone()));
    let watch =
        Watch { process, inbound, ring: ring.clone(), handshake_done, write_task, read_task, err_task };
    // It outlives every handle on purpose: it is what stops the child when they are gone.
    task::spawn(async move {
        watch.run(ended, unwritable, stop_asked).await;
        let _ = gone_in.send(true);
    })
    .detach();
    let child = Some(ChildEnd { pid, guard_pid, ring, handshake_done: established });
    Ok(Arc::new(PipeCarrier { writer, stop, gone, child }))
}

/// Larger pipes save a fifth of the time of a 1 MB answer; a refusal is harmless.
fn widen(fd: &impl std::os::fd::AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE_SIZE);
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

/// Owns the process from its start until nothing of it is left.
struct Watch {
    process: Process,
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
    Exit(Ended),
    Stream(LinkFault),
    /// It closed its input: nothing can be asked of it any more.
    Unwritable,
}

impl Watch {
    async fn run(
        mut self,
        mut stream_ended: tokio::sync::oneshot::Receiver<LinkFault>,
        unwritable: tokio::sync::oneshot::Receiver<()>,
        mut stop: mpsc::Receiver<()>,
    ) {
        let first = tokio::select! {
            biased;
            _ = stop.recv() => First::Stop,
            ended = self.process.ended() => First::Exit(ended),
            fault = &mut stream_ended => First::Stream(fault.unwrap_or(LinkFault::Closed)),
            Ok(()) = unwritable => First::Unwritable,
        };
        match first {
            First::Stop => {
                self.write_task.abort();
                self.stop_in_order().await;
                self.inbound.end(LinkFault::Closed);
            }
            First::Exit(ended) => {
                // What it wrote before it left still counts; a grandchild may hold the pipe open.
                let all = async { tokio::join!(&mut stream_ended, self.err_task.ended()) };
                let _ = tokio::time::timeout(STATUS_GRACE, all).await;
                let fault = self.exit_fault(ended);
                self.inbound.end(fault);
                self.empty().await;
            }
            First::Stream(fault) => self.broke(fault, async {}).await,
            // What it wrote before still counts.
            First::Unwritable => self.broke(LinkFault::Closed, async { _ = stream_ended.await }).await,
        }
        self.read_task.abort();
        // A grandchild that left the group may hold stderr open for ever: don't wait for its end.
        self.err_task.abort();
    }

    /// One of its streams has ended; `rest` is what may still come on the others.
    async fn broke(&mut self, fault: LinkFault, rest: impl Future<Output = ()>) {
        let (ended, _, _) = tokio::join!(
            tokio::time::timeout(STATUS_GRACE, self.process.ended()),
            tokio::time::timeout(STATUS_GRACE, self.err_task.ended()),
            tokio::time::timeout(STATUS_GRACE, rest),
        );
        let fault = match (fault, ended) {
            (LinkFault::Closed, Ok(ended)) => self.exit_fault(ended),
            (fault, _) => fault,
        };
        self.inbound.end(fault);
        self.write_task.abort();
        self.stop_in_order().await;
    }

    fn exit_fault(&self, ended: Ended) -> LinkFault {
        let (code, signal) = match ended {
            Ended::Code(code) => (Some(code), None),
            Ended::Signal(signal) => (None, Some(signal)),
            Ended::Unknown => (None, None),
            Ended::GuardLost => {
                let text = "the guard process of the server was killed, and the server with it";
                return LinkFault::Network(text.to_owned());
            }
        };
        let stderr = self.ring.tail(STDERR_LINES);
        if let Some(code) = code.filter(|code| CONFIG_EXIT_CODES.contains(code))
            && !*self.handshake_done.borrow()
        {
            let last = stderr.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
            return LinkFault::Config(format!("the command left with exit code {code}{last}"));
        }
        LinkFault::Exited { code, signal, stderr }
    }

    /// stdin is closed by now: 2 s, TERM, 2 s, KILL, reap (spec section 2).
    async fn stop_in_order(&mut self) {
        if tokio::time::timeout(STOP_STEP, self.process.ended()).await.is_err() {
            self.process.term().await;
        }
        self.empty().await;
    }

    /// The tree has left, or was told to: another 2 s, then KILL.
    async fn empty(&mut self) {
        if tokio::time::timeout(STOP_STEP, self.process.emptied()).await.is_err() {
            self.process.kill().await;
        }
    }
}

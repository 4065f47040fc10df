//! Floor 2. The host's side of a guard: starts it, hands over what to run, hears how it goes,
//! tells it the steps of an ordered stop, and sweeps up if somebody killed it. Used by
//! `stdio` only.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Once;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, waitpid};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::OwnedSemaphorePermit;

use super::lease::{self, Lease};
use super::passing;
use super::proc::{self, Identity};
use super::sandbox;
use super::wire::{Confine, Launch, REPORT, Report, Stage, Step};
use super::{GUARD_VERB, Guarding, VERSION, keeper, tree};
use crate::transport::process::{Ended, Pipes, StartFault};
use crate::transport::{StdioLaunch, task};

/// Longest time for a guard to say that the server's program runs.
const START_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a tree that is being killed; the kernel may hold a process for longer.
const KILL_MAX: Duration = Duration::from_secs(1);
/// Longest sweep after the death of a guard.
const SWEEP_MAX: Duration = Duration::from_secs(1);
/// Between looks of a sweep.
const SWEEP_LOOK: Duration = Duration::from_millis(5);

/// One server below its guard. Dropped, the guard ends the server's whole tree.
#[derive(Debug)]
pub(in crate::transport) struct Guarded {
    guard: Child,
    identity: Option<Identity>,
    control: tokio::net::UnixStream,
    /// Bytes of a report that has not come whole yet.
    partial: Vec<u8>,
    ended: Option<Ended>,
    server: u32,
    /// The folder of its own goes with it.
    confine: Option<Confine>,
    _lease: Option<Lease>,
}

/// Starts a guard and its server; returns when the server's program runs, or can't. `place` is
/// free again then.
pub(in crate::transport) async fn start(
    launch: &StdioLaunch,
    guarding: &Guarding,
    place: Option<OwnedSemaphorePermit>,
) -> Result<(Guarded, Pipes), StartFault> {
    let (launch, guarding) = (launch.clone(), guarding.clone());
    // Given up meanwhile, what it returns is dropped, and the guard ends the server.
    let begin = move || {
        let _place = place;
        match (begin(&launch, &guarding, &guarding.program), &guarding.spare) {
            (Err(StartFault::Guard(_)), Some(spare)) => begin(&launch, &guarding, spare),
            (begun, _) => begun,
        }
    };
    match task::blocking(begin).await {
        Some(begun) => begun,
        None => Err(StartFault::Guard("the task that starts servers was lost".to_owned())),
    }
}

fn begin(launch: &StdioLaunch, guarding: &Guarding, program: &Path) -> Result<(Guarded, Pipes), StartFault> {
    adopt();
    let mut env: Vec<_> = launch.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let confine = launch.sandbox.as_ref().map(|plan| sandbox::lay_out(plan, launch, &mut env));
    let confine = confine.transpose().map_err(StartFault::Sandbox)?;
    let begun = hand_over(launch, guarding, program, Surroundings { env, confine: confine.clone() });
    if let (Err(_), Some(confine)) = (&begun, &confine) {
        sandbox::clear(confine);
    }
    begun
}

/// What a server finds around it, looked up on this machine.
struct Surroundings {
    env: Vec<(OsString, OsString)>,
    confine: Option<Confine>,
}

fn hand_over(
    launch: &StdioLaunch,
    guarding: &Guarding,
    program: &Path,
    around: Surroundings,
) -> Result<(Guarded, Pipes), StartFault> {
    let failed = |error: io::Error| StartFault::Guard(error.to_string());
    let spec = Launch {
        program: (&launch.command).into(),
        args: launch.args.iter().map(Into::into).collect(),
        env: around.env,
        cwd: launch.cwd.as_ref().map(|cwd| cwd.as_os_str().to_owned()),
        confine: around.confine,
    };
    let bytes = spec.encode().ok_or(StartFault::TooLong)?;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()));
    let ((in_read, in_write), (out_read, out_write), (err_read, err_write)) = (pipe()?, pipe()?, pipe()?);
    let (mut control, theirs) = UnixStream::pair().map_err(failed)?;
    let guard = spawn(program, theirs).map_err(failed)?;
    let pid = guard.id().and_then(|pid| i32::try_from(pid).ok());
    control.set_read_timeout(Some(START_MAX)).map_err(failed)?;
    control.set_write_timeout(Some(START_MAX)).map_err(failed)?;
    passing::send(&control, &bytes, &[in_read, out_write, err_write]).map_err(failed)?;
    let server = first_report(&mut control)?;
    control.set_nonblocking(true).map_err(failed)?;
    let lease = match (&guarding.leases, pid) {
        (Some(folder), Some(pid)) => lease::write(folder, pid, server)
            .map_err(
                |error| tracing::info!(%error, "no lease: a crash of host and guard would leave the server"),
            )
            .ok()
            .flatten(),
        _ => None,
    };
    let guarded = Guarded {
        identity: pid.and_then(Identity::of),
        guard,
        control: tokio::net::UnixStream::from_std(control).map_err(failed)?,
        partial: Vec::with_capacity(REPORT),
        ended: None,
        server: server.unsigned_abs(),
        confine: spec.confine,
        _lease: lease,
    };
    let pipes = Pipes {
        stdin: pipe::Sender::from_owned_fd(in_write).map_err(failed)?,
        stdout: pipe::Receiver::from_owned_fd(out_read).map_err(failed)?,
        stderr: pipe::Receiver::from_owned_fd(err_read).map_err(failed)?,
    };
    Ok((guarded, pipes))
}

/// The command holds the other end of the socket; it is gone when this returns.
fn spawn(program: &Path, control: UnixStream) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg0("callboard").args([GUARD_VERB, VERSION]).env_clear();
    command.stdin(OwnedFd::from(control)).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()
}

fn first_report(control: &mut UnixStream) -> Result<i32, StartFault> {
    let mut bytes = [0; REPORT];
    control.read_exact(&mut bytes).map_err(|error| {
        StartFault::Guard(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the guard process ended before the server ran".to_owned(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the guard process said nothing within {START_MAX:?}")
            }
            _ => error.to_string(),
        })
    })?;
    match Report::decode(bytes) {
        Some(Report::Started { pid }) => Ok(pid),
        Some(Report::Failed { stage, errno }) => {
            let error = io::Error::from_raw_os_error(errno);
            Err(match stage {
                Stage::Cwd => StartFault::Cwd(error),
                Stage::Exec => StartFault::Exec(error),
                Stage::Confine => StartFault::Sandbox(format!("the kernel refuses it: {error}")),
                Stage::Guard | Stage::Prepare => StartFault::Guard(error.to_string()),
            })
        }
        Some(Report::Left { .. } | Report::Killed { .. }) | None => {
            Err(StartFault::Guard("the guard process spoke out of turn".to_owned()))
        }
    }
}

/// Makes this process the parent of what a killed guard leaves behind.
fn adopt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(error) = set_child_subreaper(Some(getpid())) {
            tracing::warn!(%error, "what a killed guard leaves behind can't be swept");
        }
    });
}

impl Guarded {
    /// Process id of the server.
    pub(in crate::transport) fn pid(&self) -> u32 {
        self.server
    }

    /// Process id of the guard.
    pub(in crate::transport) fn guard_pid(&self) -> Option<u32> {
        self.identity.and_then(|guard| u32::try_from(guard.pid).ok())
    }

    /// Waits for the server's end. Can be given up and asked again.
    pub(in crate::transport) async fn ended(&mut self) -> Ended {
        while self.ended.is_none() {
            self.ended = match self.report().await {
                Some(Report::Left { code }) => Some(Ended::Code(code)),
                Some(Report::Killed { signal }) => Some(Ended::Signal(signal)),
                Some(Report::Started { .. } | Report::Failed { .. }) => None,
                // Only its own death makes a guard silent, and the server died with it.
                None => Some(Ended::GuardLost),
            };
        }
        self.ended.unwrap_or(Ended::GuardLost)
    }

    async fn report(&mut self) -> Option<Report> {
        while self.partial.len() < REPORT {
            let missing = (REPORT - self.partial.len()) as u64;
            match (&mut self.control).take(missing).read_buf(&mut self.partial).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
        let bytes = self.partial.as_slice().try_into().ok()?;
        self.partial.clear();
        Report::decode(bytes)
    }

    /// Has the whole tree told to leave.
    pub(in crate::transport) async fn term(&mut self) {
        let _ = self.control.write_all(&Step::Term.encode()).await;
    }

    /// Waits until nothing of the tree is left. Can be given up and asked again.
    pub(in crate::transport) async fn emptied(&mut self) {
        let ended = self.ended().await;
        let _ = self.guard.wait().await;
        if let (Ended::GuardLost, Some(guard)) = (ended, self.identity) {
            sweep(guard).await;
            if let Some(confine) = self.confine.take() {
                task::blocking(move || sandbox::clear(&confine)).await;
            }
        }
    }

    /// Ends the whole tree now.
    pub(in crate::transport) async fn kill(&mut self) {
        let _ = self.control.write_all(&Step::Kill.encode()).await;
        if tokio::time::timeout(KILL_MAX, self.emptied()).await.is_ok() {
            return;
        }
        // Somebody stopped the guard, or the kernel holds a process: we do its work.
        tracing::warn!(server = self.server, "the guard does not end its tree: it is killed");
        let _ = self.guard.start_kill();
        let _ = tokio::time::timeout(KILL_MAX, self.emptied()).await;
    }
}

/// Ends what a killed guard left to us. By number only: a wait for any child would take the
/// ends of others.
async fn sweep(guard: Identity) {
    let swept = async {
        let mut look = tokio::time::interval(SWEEP_LOOK);
        loop {
            let strays = strays(guard);
            if strays.is_empty() {
                return;
            }
            for pid in strays {
                tree::kill(pid);
                tree::send(pid, Signal::KILL, |stat| is_stray(stat, guard));
                if let Some(pid) = Pid::from_raw(pid) {
                    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
                }
            }
            look.tick().await;
        }
    };
    if tokio::time::timeout(SWEEP_MAX, swept).await.is_err() {
        tracing::warn!("some of what a killed guard left behind does not end even by KILL");
    }
}

fn strays(guard: Identity) -> Vec<i32> {
    let children = proc::children(getpid().as_raw_nonzero().get());
    children.into_iter().filter(|pid| proc::stat(*pid).is_some_and(|stat| is_stray(&stat, guard))).collect()
}

/// Whether a child of ours was one of a guard's: younger than the guard, in its session or in
/// one that it made itself, never in ours, and no guard.
fn is_stray(stat: &proc::Stat, guard: Identity) -> bool {
    let me = getpid().as_raw_nonzero().get();
    // By /proc, not by getsid: in a container our session may be one from outside, number 0,
    // which rustix takes for impossible.
    let ours = proc::stat(me).map(|me| me.session);
    stat.parent == me && ours != Some(stat.session) && stat.start >= guard.start && stat.name != keeper::NAME
}

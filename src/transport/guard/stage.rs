//! Floor 2. The step between guard and server: `callboard __exec PID`. Sets up what a process
//! must set up for itself, then becomes the server's program. If it can't, it says at which
//! point and why, which no exit code of a server can be mistaken for: the socket on which it
//! would say so closes by itself when the program runs.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit, umask};

use super::passing::{self, Ends};
use super::sandbox;
use super::wire::{Launch, PREFIX, Report, Stage};

/// What a server's new files may be: nothing for the group and others.
const FILES_OF_OTHERS: Mode = Mode::from_raw_mode(0o077);

/// The first descriptor that is not standard input, output or error.
const FIRST_FOREIGN: i32 = 3;

/// Plays the stage; returns only if it did not become the server.
pub(super) fn main(guard: &OsStr) -> ExitCode {
    let Ok(mut socket) = passing::from_stdin() else { return ExitCode::FAILURE };
    let started = passing::receive(&socket)
        .map_err(|error| (Stage::Guard, error))
        .and_then(|(launch, ends)| become_server(guard, &launch, ends));
    let Err((stage, error)) = started;
    let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::INVAL.raw_os_error());
    let _ = socket.write_all(&Report::Failed { stage, errno }.encode());
    ExitCode::FAILURE
}

fn become_server(guard: &OsStr, launch: &[u8], ends: Ends) -> Result<Infallible, (Stage, io::Error)> {
    let at = |stage| move |error| (stage, error);
    let launch = launch.get(PREFIX..).and_then(Launch::decode);
    let launch = launch.ok_or_else(|| (Stage::Guard, io::ErrorKind::InvalidData.into()))?;
    prepare(guard).map_err(at(Stage::Prepare))?;
    if let Some(cwd) = &launch.cwd {
        std::env::set_current_dir(cwd).map_err(at(Stage::Cwd))?;
    }
    let [stdin, stdout, stderr] = ends.map(Stdio::from);
    let mut command = Command::new(&launch.program);
    command.args(&launch.args).env_clear().envs(launch.env);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    if let Some(confine) = &launch.confine {
        // Last of all: what is set up before needs more than the server may.
        sandbox::enter(confine).map_err(at(Stage::Confine))?;
    }
    Err((Stage::Exec, command.exec()))
}

/// The signal mask and SIGPIPE are set back by `exec` itself.
fn prepare(guard: &OsStr) -> io::Result<()> {
    // The guard has one thread, so that the signal comes with its end and not before.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if parent.as_deref().map(OsStr::new) != Some(guard) {
        return Err(io::Error::from(rustix::io::Errno::SRCH));
    }
    // No memory image with secrets in it is ever written.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    umask(FILES_OF_OTHERS);
    // What our own parent left open, and its parent, is no server's.
    close_fds::set_fds_cloexec(FIRST_FOREIGN, &[]);
    Ok(())
}

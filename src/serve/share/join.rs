//! The way of a client's process to the host of its user: connects to the one that runs, or starts it.
//! Of several that start one at once, one host stays; the others end by themselves. Blocks.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::hello::{Hello, LINE_MAX, Reply};
use super::place::Place;
use crate::time::Monotonic;

/// The hidden word with which the program is a host.
pub const HOST_VERB: &str = "__host";
/// A host that has not opened its door by then has failed.
const START_MAX: Duration = Duration::from_secs(10);
/// A host that runs answers the first line within that time.
const REPLY_MAX: Duration = Duration::from_secs(30);
/// Between two tries, when a host is on its way in or out.
const AGAIN_AFTER: Duration = Duration::from_millis(10);
/// Tries that may find a host which is just ending.
const TRIES_MAX: usize = 200;

/// A connection to the host of this place, with its reply; one is started when none runs.
///
/// # Errors
/// When no host can be started, or it does not answer.
pub fn join(place: &Place, hello: &Hello, program: &Path) -> io::Result<(UnixStream, Reply)> {
    place.prepare()?;
    let until = Monotonic::now() + START_MAX;
    let mut last = io::Error::from(io::ErrorKind::NotConnected);
    for _ in 0..TRIES_MAX {
        match ask(place, hello) {
            Ok(joined) => return Ok(joined),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(error) => last = error,
        }
        if Monotonic::now() >= until {
            break;
        }
        if matches!(last.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            start(place, program)?;
        }
        std::thread::sleep(AGAIN_AFTER);
    }
    Err(last)
}

/// Says hello to the host that runs.
///
/// # Errors
/// When none runs, or it ends meanwhile.
pub fn ask(place: &Place, hello: &Hello) -> io::Result<(UnixStream, Reply)> {
    ask_within(place, hello, Duration::ZERO)
}

/// The same for something that may take so much longer.
///
/// # Errors
/// As of [`ask`].
pub fn ask_within(place: &Place, hello: &Hello, more: Duration) -> io::Result<(UnixStream, Reply)> {
    let stream = place.connect()?;
    let mut line = serde_json::to_vec(hello)?;
    line.push(b'\n');
    (&stream).write_all(&line)?;
    stream.set_read_timeout(Some(REPLY_MAX + more))?;
    let reply = reply(&stream)?;
    stream.set_read_timeout(None)?;
    Ok((stream, reply))
}

/// One line, and not a byte more: what follows is the client's.
fn reply(mut stream: &UnixStream) -> io::Result<Reply> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        if stream.read(&mut byte)? == 0 || line.len() > LINE_MAX {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if byte[0] == b'\n' {
            return Ok(serde_json::from_slice(&line)?);
        }
        line.push(byte[0]);
    }
}

/// Starts a host that outlives this process, and waits until it has opened its door or has ended.
fn start(place: &Place, program: &Path) -> io::Result<()> {
    let mut child = Process::new(program)
        .arg(HOST_VERB)
        .env("CALLBOARD_HOME", place.home())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(place.open_log()?)
        .spawn()?;
    if let Some(stdout) = child.stdout.take() {
        // It closes its end when the door is open.
        let limit = Timespec { tv_sec: START_MAX.as_secs().cast_signed(), tv_nsec: 0 };
        let _ = poll(&mut [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)], Some(&limit));
    }
    // Whenever it ends, it leaves no zombie as long as we live.
    std::thread::Builder::new().name("host".to_owned()).spawn(move || child.wait())?;
    Ok(())
}

/// This program, also when its file was replaced meanwhile.
///
/// # Errors
/// When the system does not say.
pub fn program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(if program.exists() { program } else { PathBuf::from("/proc/self/exe") })
}

//! Stdin and stdout of this process, or of one that lends us its own, as streams: pipes and sockets without a thread in between, all else
//! through the blocking pool. The file descriptors of others are not changed: a pipe is opened anew.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// What messages of a client are read from.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// What messages to a client are written to.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Stdin.
///
/// # Errors
/// When it is closed.
pub fn input() -> io::Result<Input> {
    input_of(io::stdin().as_fd())
}

/// The stream that is read from this descriptor, which is not kept.
///
/// # Errors
/// When it can't be had.
pub fn input_of(from: BorrowedFd<'_>) -> io::Result<Input> {
    Ok(match kind(from)? {
        FileType::Fifo => match pipe::OpenOptions::new().open_receiver(path(from)) {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(pipe::Receiver::from_owned_fd(copy(from)?)?),
        },
        FileType::Socket => Box::new(socket(from)?),
        _ => Box::new(tokio::fs::File::from_std(File::from(copy(from)?))),
    })
}

/// Stdout.
///
/// # Errors
/// When it is closed.
pub fn output() -> io::Result<Output> {
    output_of(io::stdout().as_fd())
}

/// The stream that is written to this descriptor, which is not kept.
///
/// # Errors
/// When it can't be had.
pub fn output_of(to: BorrowedFd<'_>) -> io::Result<Output> {
    widen(to);
    Ok(match kind(to)? {
        FileType::Fifo => match pipe::OpenOptions::new().open_sender(path(to)) {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(pipe::Sender::from_owned_fd(copy(to)?)?),
        },
        FileType::Socket => Box::new(socket(to)?),
        _ => Box::new(tokio::fs::File::from_std(File::from(copy(to)?))),
    })
}

/// Whether stdin and stdout are such that another process can read and write them as we do.
pub fn can_be_lent() -> bool {
    let lends =
        |fd: BorrowedFd<'_>| kind(fd).is_ok_and(|kind| matches!(kind, FileType::Fifo | FileType::Socket));
    lends(io::stdin().as_fd()) && lends(io::stdout().as_fd())
}

/// A pipe's own name: opened anew, it is ours alone.
fn path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Room asked for in the pipe to a client, in bytes: a large answer is written in few pieces.
#[cfg(target_os = "linux")]
const OUTPUT_ROOM: usize = 512 * 1024;

/// Asks for more room in a pipe; what the system refuses stays as it is.
fn widen(fd: BorrowedFd<'_>) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(fd, OUTPUT_ROOM);
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

fn kind(fd: BorrowedFd<'_>) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

fn copy(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    fd.try_clone_to_owned()
}

fn socket(fd: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(copy(fd)?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

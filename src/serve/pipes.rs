//! Stdin and stdout of this process as streams: pipes and sockets without a thread in between, all else
//! through the blocking pool. The file descriptors of others are not changed: a pipe is opened anew.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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
    let stdin = io::stdin();
    Ok(match kind(stdin.as_fd())? {
        FileType::Fifo => match pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(pipe::Receiver::from_owned_fd(copy(stdin.as_fd())?)?),
        },
        FileType::Socket => Box::new(socket(stdin.as_fd())?),
        _ => Box::new(tokio::fs::File::from_std(File::from(copy(stdin.as_fd())?))),
    })
}

/// Stdout.
///
/// # Errors
/// When it is closed.
pub fn output() -> io::Result<Output> {
    let stdout = io::stdout();
    Ok(match kind(stdout.as_fd())? {
        FileType::Fifo => match pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
            Ok(pipe) => Box::new(pipe),
            Err(_) => Box::new(pipe::Sender::from_owned_fd(copy(stdout.as_fd())?)?),
        },
        FileType::Socket => Box::new(socket(stdout.as_fd())?),
        _ => Box::new(tokio::fs::File::from_std(File::from(copy(stdout.as_fd())?))),
    })
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

//! The process of a client that joined a host. Where stdin and stdout are pipes, the host gets them and
//! this process waits for the end. Else stdin goes to the socket, the socket to stdout, bytes unchanged: two
//! threads that read and write; nothing is parsed, nothing is gathered, and who does not read is not read
//! from.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::oneshot;

use super::lent;
use crate::transport::task;

/// Bytes that are moved at once.
const MOVE_LEN: usize = 64 * 1024;

/// Stands aside while the host reads and writes the client's own pipes; see [`run`].
///
/// # Errors
/// When a copy of a file descriptor can't be had.
pub async fn lend(stream: UnixStream, asked: impl Future<Output = ()>) -> io::Result<End> {
    let (to_end, stream) = (stream.try_clone()?, stream);
    let standing = task::blocking(move || {
        let (input, output) = (io::stdin(), io::stdout());
        if !speaks(&input, &stream) || lent::send(&stream, input.as_fd(), output.as_fd()).is_err() {
            return End::Host { spoken: false };
        }
        let mut word = [0; lent::FAREWELL.len()];
        match (&stream).read_exact(&mut word) {
            Ok(()) if word == lent::FAREWELL => End::Client,
            _ => End::Host { spoken: true },
        }
    });
    tokio::pin!(standing, asked);
    let ended = tokio::select! {
        biased;
        ended = &mut standing => ended,
        () = &mut asked => {
            let _ = to_end.shutdown(Shutdown::Write);
            // Whatever the host says to that, it was the client's end.
            standing.await.map(|_| End::Client)
        }
    };
    ended.ok_or_else(|| io::ErrorKind::Interrupted.into())
}

/// How a bridge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client ended its input, or does not read any more.
    Client,
    /// The host ended the connection before the client did.
    Host {
        /// Whether the client had said something, or had ended; if not, its input was not touched.
        spoken: bool,
    },
}

/// Moves bytes until one side ends. What the client said last reaches the host, and what the host
/// answers to it reaches the client. When it is `asked` to end, the client says nothing more, and what runs
/// has the host's grace.
///
/// # Errors
/// When a copy of a file descriptor can't be had.
pub async fn run(stream: UnixStream, asked: impl Future<Output = ()>) -> io::Result<End> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (to_host, to_end, from_host) = (stream.try_clone()?, stream.try_clone()?, stream);
    let ended = Arc::new(AtomicBool::new(false));
    let spoken = Arc::new(AtomicBool::new(false));
    let (over, said) = (ended.clone(), spoken.clone());
    let (begun, begins) = oneshot::channel();
    // Not waited for: it may sit in a read of an input that never ends.
    let _reading = task::spawn(async move {
        task::blocking(move || {
            let speaks = speaks(&input, &to_host);
            said.store(speaks, Ordering::Release);
            let _ = begun.send(());
            if !speaks {
                return;
            }
            let moved = copy(&input, &to_host);
            if moved != Moved::NoTaker {
                over.store(true, Ordering::Release);
            }
            let _ = to_host.shutdown(Shutdown::Write);
        })
        .await;
    });
    let moving = task::blocking(move || {
        let moved = copy(&from_host, &output);
        let _ = from_host.shutdown(Shutdown::Both);
        moved
    });
    tokio::pin!(moving, asked);
    let moved = tokio::select! {
        biased;
        moved = &mut moving => moved,
        () = &mut asked => {
            ended.store(true, Ordering::Release);
            let _ = to_end.shutdown(Shutdown::Write);
            moving.await
        }
    };
    let client = moved == Some(Moved::NoTaker) || ended.load(Ordering::Acquire);
    if !client {
        // It ends with the host at the latest, so nothing is read any more that nobody would get.
        let _ = begins.await;
    }
    Ok(if client { End::Client } else { End::Host { spoken: spoken.load(Ordering::Acquire) } })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// Nothing more comes.
    All,
    /// Nobody takes it.
    NoTaker,
}

/// Waits for the client's first word, or its end, and reads nothing; false when the host is gone before.
fn speaks<R: AsFd, W: AsFd>(input: &R, host: &W) -> bool {
    loop {
        // The end of the other side is told unasked.
        let mut both = [PollFd::new(host, PollFlags::empty()), PollFd::new(input, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) if !both[0].revents().is_empty() => return false,
            Ok(_) if !both[1].revents().is_empty() => return true,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // What can't be waited for can be read.
            Err(_) => return true,
        }
    }
}

/// Copies until either end is closed.
fn copy<R: AsFd, W: AsFd>(from: &R, to: &W) -> Moved
where
    for<'a> &'a R: Read,
    for<'a> &'a W: Write,
{
    let mut buffer = vec![0; MOVE_LEN];
    loop {
        let count = match { from }.read(&mut buffer) {
            Ok(0) => return Moved::All,
            Ok(count) => count,
            Err(error) if waits(&error, from.as_fd(), PollFlags::IN) => continue,
            Err(_) => return Moved::All,
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match { to }.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if waits(&error, to.as_fd(), PollFlags::OUT) => {}
                Err(_) => return Moved::NoTaker,
            }
        }
    }
}

/// Whether it is worth another try, after waiting if need be: others may have made a pipe non-blocking.
fn waits(error: &io::Error, fd: BorrowedFd<'_>, what: PollFlags) -> bool {
    match error.kind() {
        io::ErrorKind::Interrupted => true,
        io::ErrorKind::WouldBlock => {
            let _ = poll(&mut [PollFd::from_borrowed_fd(fd, what)], None);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_messages_pass_unchanged_through_pipes_that_do_not_block() {
        let (mut writer, from) = UnixStream::pair().unwrap();
        let (to, mut reader) = UnixStream::pair().unwrap();
        from.set_nonblocking(true).unwrap();
        to.set_nonblocking(true).unwrap();
        let sent: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
        let whole = sent.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(&sent).unwrap());
            scope.spawn(move || {
                assert_eq!(copy(&from, &to), Moved::All);
            });
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            assert!(got == whole);
        });
    }

    #[test]
    fn a_reader_that_left_ends_the_copy() {
        let (mut writer, from) = UnixStream::pair().unwrap();
        let (to, reader) = UnixStream::pair().unwrap();
        drop(reader);
        writer.write_all(b"x").unwrap();
        assert_eq!(copy(&from, &to), Moved::NoTaker);
    }

    #[test]
    fn before_a_client_speaks_its_input_is_not_touched() {
        let (mut writer, mut input) = UnixStream::pair().unwrap();
        let (host, other) = UnixStream::pair().unwrap();
        writer.write_all(b"x").unwrap();
        assert!(speaks(&input, &host), "it has something to say");
        drop(other);
        assert!(!speaks(&input, &host), "nobody would get it");
        let mut byte = [0];
        input.read_exact(&mut byte).unwrap();
        let (host, _other) = UnixStream::pair().unwrap();
        drop(writer);
        assert!(speaks(&input, &host), "its end is a word too");
    }
}

//! A client's own pipes in the hands of the host: the client's process sends its stdin and stdout over the
//! socket, and from then on stands aside. The socket stays as the line between the two: when the process
//! ends, or was asked to, the host reads the client no further; when the host is done, it says farewell.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncRead, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::UnixStream;

use crate::serve::client::Client;
use crate::serve::pipes::{self, Input};
use crate::serve::stdio::{self, End};

/// What comes with the descriptors, so that there is a message at all.
const HERE: [u8; 1] = *b"p";
/// What the host says when its client was the one who ended.
pub(super) const FAREWELL: [u8; 1] = *b".";

/// Lends these to the host.
pub(super) fn send(host: &StdStream, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<()> {
    let both = [input, output];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    if !with.push(SendAncillaryMessage::ScmRights(&both)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(host, &[IoSlice::new(&HERE)], &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What a client's process lends; `None`: it ended before it did.
async fn receive(line: &UnixStream) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    let take = || {
        let mut byte = [0; HERE.len()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut byte)];
        let got = recvmsg(line.as_fd(), into, &mut with, RecvFlags::CMSG_CLOEXEC)?;
        let mut lent = Vec::new();
        for message in with.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                lent.extend(fds);
            }
        }
        Ok((got.bytes, lent))
    };
    let (bytes, lent) = line.async_io(Interest::READABLE, take).await?;
    match (bytes, <[OwnedFd; 2]>::try_from(lent)) {
        (0, _) => Ok(None),
        (_, Ok([input, output])) => Ok(Some((input, output))),
        (_, Err(_)) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Serves a client on the pipes that its process lends, until either of them ends.
pub(super) async fn carry(client: &Arc<Client>, line: UnixStream, frame_max: usize) -> io::Result<()> {
    let Some((input, output)) = receive(&line).await? else { return Ok(()) };
    let (from, to) = (pipes::input_of(input.as_fd())?, pipes::output_of(output.as_fd())?);
    drop((input, output));
    let (line, mut back) = line.into_split();
    let leashed = Leashed { input: from, line, is_cut: false };
    if stdio::carry(client, leashed, to, frame_max).await != End::Ended {
        // It may have left without waiting for that.
        let _ = back.write_all(&FAREWELL).await;
    }
    Ok(())
}

/// An input that ends with itself, or when the line to whoever lent it does.
struct Leashed<L> {
    input: Input,
    line: L,
    is_cut: bool,
}

impl<L: AsyncRead + Unpin> AsyncRead for Leashed<L> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Nothing is ever said on it: whatever comes is its end.
        let mut byte = [0];
        if !self.is_cut && Pin::new(&mut self.line).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready() {
            self.is_cut = true;
        }
        if self.is_cut {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.input).poll_read(cx, into)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn line() -> (StdStream, UnixStream) {
        let (theirs, ours) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (theirs, UnixStream::from_std(ours).unwrap())
    }

    #[tokio::test]
    async fn what_is_lent_is_read_and_written_as_by_its_owner_and_stays_blocking_for_it() {
        let (theirs, ours) = line();
        let (stdin, mut says) = io::pipe().unwrap();
        let (mut hears, stdout) = io::pipe().unwrap();
        send(&theirs, stdin.as_fd(), stdout.as_fd()).unwrap();
        let (input, output) = receive(&ours).await.unwrap().unwrap();
        let mut from = pipes::input_of(input.as_fd()).unwrap();
        let mut to = pipes::output_of(output.as_fd()).unwrap();
        says.write_all(b"word").unwrap();
        let mut word = [0; 4];
        from.read_exact(&mut word).await.unwrap();
        to.write_all(&word).await.unwrap();
        hears.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"word");
        for fd in [stdin.as_fd(), stdout.as_fd()] {
            let flags = rustix::fs::fcntl_getfl(fd).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "others read and write it too");
        }
    }

    #[tokio::test]
    async fn an_input_ends_with_the_line_to_its_owner() {
        let (theirs, ours) = line();
        let (stdin, _says) = io::pipe().unwrap();
        let input = pipes::input_of(stdin.as_fd()).unwrap();
        let mut leashed = Leashed { input, line: ours, is_cut: false };
        let mut byte = [0];
        let waits = futures_util::FutureExt::now_or_never(leashed.read(&mut byte));
        assert!(waits.is_none(), "both stand");
        drop(theirs);
        assert_eq!(leashed.read(&mut byte).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn who_leaves_before_it_lends_anything_is_no_fault_and_who_lends_too_little_is() {
        let (theirs, ours) = line();
        drop(theirs);
        assert!(receive(&ours).await.unwrap().is_none());
        let (mut theirs, ours) = line();
        theirs.write_all(&HERE).unwrap();
        assert!(receive(&ours).await.is_err());
    }
}

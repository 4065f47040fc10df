//! Floor 2. Hands a launch and its three pipe ends over a socket. Blocking.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::wire::{LAUNCH_BYTES_MAX, PREFIX};

/// stdin, stdout, stderr of the server: the ends that it gets.
pub(super) type Ends = [OwnedFd; 3];

/// This process's stdin as the socket that the one who started it left there.
pub(super) fn from_stdin() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Sends an encoded launch, the ends along with its first bytes.
pub(super) fn send(mut socket: &UnixStream, launch: &[u8], ends: &Ends) -> io::Result<()> {
    let ends: [BorrowedFd<'_>; 3] = [ends[0].as_fd(), ends[1].as_fd(), ends[2].as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    along.push(SendAncillaryMessage::ScmRights(&ends));
    let sent = sendmsg(socket, &[IoSlice::new(launch)], &mut along, SendFlags::NOSIGNAL)?;
    socket.write_all(launch.get(sent..).unwrap_or_default())
}

/// Receives what [`send`] sent: the encoded launch with its length in front, and the ends.
pub(super) fn receive(mut socket: &UnixStream) -> io::Result<(Vec<u8>, Ends)> {
    let mut launch = vec![0; PREFIX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let got =
        recvmsg(socket, &mut [IoSliceMut::new(&mut launch)], &mut along, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut ends = Vec::new();
    for message in along.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            ends.extend(fds);
        }
    }
    socket.read_exact(&mut launch[got..])?;
    let length = launch.iter().rev().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
    let ends = Ends::try_from(ends).map_err(|_| io::ErrorKind::InvalidData)?;
    if length > LAUNCH_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    launch.resize(PREFIX + length, 0);
    socket.read_exact(&mut launch[PREFIX..])?;
    Ok((launch, ends))
}

#[cfg(test)]
mod tests {
    use super::super::wire::Launch;
    use super::*;
    use std::fs::File;

    #[test]
    fn a_launch_larger_than_any_socket_buffer_arrives_with_its_pipes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let value = "v".repeat(3_000_000);
        let launch =
            Launch { program: "p".into(), env: vec![("BIG".into(), value.into())], ..Launch::default() };
        let (reads, writes): (Vec<_>, Vec<_>) = (0..3).map(|_| io::pipe().unwrap()).unzip();
        let ends = Ends::try_from(writes.into_iter().map(OwnedFd::from).collect::<Vec<_>>()).unwrap();
        let bytes = launch.encode().unwrap();
        let (got, fds) = std::thread::scope(|scope| {
            scope.spawn(|| send(&ours, &bytes, &ends).unwrap());
            receive(&theirs).unwrap()
        });
        assert_eq!(Launch::decode(&got[PREFIX..]), Some(launch));
        drop(ends);
        for (number, (mut read, write)) in reads.into_iter().zip(fds).enumerate() {
            File::from(write).write_all(&[u8::try_from(number).unwrap()]).unwrap();
            let mut all = Vec::new();
            read.read_to_end(&mut all).unwrap();
            assert_eq!(all, [u8::try_from(number).unwrap()], "the order is kept, and no copy holds it open");
        }
    }

    #[test]
    fn a_launch_without_pipes_or_with_an_absurd_length_is_refused() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&ours).write_all(&[0; PREFIX]).unwrap();
        assert_eq!(receive(&theirs).unwrap_err().kind(), io::ErrorKind::InvalidData);
        (&ours).write_all(&[0xff; PREFIX]).unwrap();
        assert_eq!(receive(&theirs).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(ours);
        assert_eq!(receive(&theirs).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

//! Floor 5. Whole texts to stdout and stderr, past the standard library: a stream in non-blocking
//! mode is waited for until it takes more, and one that can't be written to is told as such.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Writes everything, however slowly the other side reads. Blocks until then; fails with what the
/// system says, such as a broken pipe or a full disk.
pub(super) fn write_whole(to: impl AsFd, text: &[u8]) -> io::Result<()> {
    let mut rest = text;
    while !rest.is_empty() {
        match rustix::io::write(&to, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::AGAIN) => wait_writable(&to)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits without a bound, as a write to a stream in blocking mode does.
fn wait_writable(to: &impl AsFd) -> io::Result<()> {
    match poll(&mut [PollFd::new(to, PollFlags::OUT)], None) {
        // A stream that broke is writable too: the next write says how.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// More than a pipe holds.
    const LONG: usize = 300_000;

    fn non_blocking_pipe() -> (io::PipeReader, io::PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        (reader, writer)
    }

    #[test]
    fn a_non_blocking_stream_gets_the_whole_text_however_late_it_is_read() {
        let (mut reader, writer) = non_blocking_pipe();
        std::thread::scope(|scope| {
            let written = scope.spawn(move || write_whole(writer, &[b'x'; LONG]));
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            written.join().unwrap().unwrap();
            assert_eq!(read.len(), LONG);
        });
    }

    #[test]
    fn a_reader_that_leaves_ends_the_wait() {
        let (mut reader, writer) = non_blocking_pipe();
        std::thread::scope(|scope| {
            let written = scope.spawn(move || write_whole(writer, &[b'x'; LONG]));
            reader.read_exact(&mut [0]).unwrap();
            drop(reader);
            assert_eq!(written.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn a_stream_that_is_not_open_for_writing_is_an_error() {
        let unwritable = std::fs::File::open("/dev/null").unwrap();
        assert!(write_whole(unwritable, b"x").is_err());
    }
}

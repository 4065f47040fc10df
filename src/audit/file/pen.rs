//! The pen of a log that is open and locked: lines in, whole bundles of them out, and the head file
//! behind them.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};

use super::{AuditError, Files, Place, at};
use crate::audit::chain::Key;
use crate::audit::head::HEAD_BYTES;
use crate::audit::record::{Event, Line};
use crate::audit::{CHECKPOINT_EVERY, LINE_BYTES_MAX};
use crate::time::{rfc3339, wall};

/// Writes lines, in bundles of whole ones.
pub struct Pen<'a> {
    pub(super) key: &'a Key,
    pub(super) head: &'a File,
    pub(super) place: &'a Place,
    pub(super) boot: &'a str,
    pub(super) files: &'a mut Files,
    pub(super) buffer: &'a mut Vec<u8>,
    pub(super) must_sync: bool,
}

impl fmt::Debug for Pen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pen").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Pen<'_> {
    /// The key of the log.
    pub fn key(&self) -> &Key {
        self.key
    }

    /// Puts down one line, behind a checkpoint where one belongs.
    pub fn put(&mut self, line: &Line<'_>) -> Result<(), AuditError> {
        if (self.files.head.tip.seq + 1).is_multiple_of(CHECKPOINT_EVERY) {
            self.must_sync = true;
            let ts = rfc3339(wall());
            self.seal(&Line::new(Event::Checkpoint, self.boot, &ts))?;
        }
        self.seal(line)
    }

    fn seal(&mut self, line: &Line<'_>) -> Result<(), AuditError> {
        let before = self.buffer.len();
        self.files.head.tip.seal_line(self.key, line, self.buffer);
        if self.buffer.len() > LINE_BYTES_MAX && before > 0 {
            let last = self.buffer.split_off(before);
            self.flush()?;
            *self.buffer = last;
        }
        Ok(())
    }

    /// One write for the lines in the buffer. What could only be written in part is taken back.
    pub(super) fn flush(&mut self) -> Result<(), AuditError> {
        let length = self.buffer.len();
        let written = loop {
            match (&self.files.log).write(self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.clear();
        match written {
            Ok(all) if all == length => {
                self.files.head.bytes += length as u64;
                Ok(())
            }
            other => {
                let _ = self.files.log.set_len(self.files.head.bytes);
                let error = other.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                Err(AuditError::Io(self.place.log(), error))
            }
        }
    }

    pub(super) fn write_head(&mut self) -> Result<(), AuditError> {
        let text = self.files.head.encode(self.key);
        let written = write_from_start(self.head, &text);
        // What was read before and is as long as a head needs no cut.
        let cut = || match self.files.head_text.len() {
            HEAD_BYTES => Ok(()),
            _ => self.head.set_len(HEAD_BYTES as u64),
        };
        written.and_then(|()| cut()).map_err(at(&self.place.head()))?;
        self.files.head_text = text;
        Ok(())
    }
}

#[cfg(unix)]
fn write_from_start(file: &File, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, 0)
}

#[cfg(not(unix))]
fn write_from_start(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    use std::io::Seek as _;
    file.seek(io::SeekFrom::Start(0))?;
    file.write_all(bytes)
}

//! Floor 2. Reading a log that others may be writing: its files in their order, as far as they go at
//! one moment, for `audit verify`, `tail` and `export`. Never writes.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::LINE_BYTES_MAX;
use super::chain::Key;
use super::file::{AuditError, Held, Place, full_files, read_key};
use super::head::{HEAD_BYTES, Head, Reading};
use super::verify::{Report, Verifier};

/// A log at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// Its files in their order, with the bytes that count.
    pub files: Vec<(PathBuf, u64)>,
    head: Vec<u8>,
    key: Option<Key>,
}

/// Looks at a log while nobody writes; at most 2 s are waited for that.
pub fn snapshot(place: &Place) -> Result<Snapshot, AuditError> {
    let path = place.head();
    let head = match File::open(&path) {
        Ok(head) => Some(head),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(AuditError::Io(path, error)),
    };
    let held = head.as_ref().map(|head| Held::wait(head, &path)).transpose()?;
    let mut files = Vec::new();
    for path in full_files(place)?.into_iter().chain([place.log()]) {
        match fs::metadata(&path) {
            Ok(file) => files.push((path, file.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(AuditError::Io(path, error)),
        }
    }
    let mut text = Vec::new();
    if let Some(head) = &head {
        let read = head.take(HEAD_BYTES as u64 + 1).read_to_end(&mut text);
        read.map_err(|error| AuditError::Io(path.clone(), error))?;
    }
    drop(held);
    Ok(Snapshot { files, head: text, key: read_key(place)? })
}

impl Snapshot {
    /// Whether nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.files.iter().all(|(_, bytes)| *bytes == 0)
    }

    /// Verifies it with the key that lies beside it.
    pub fn verify(&self, place: &Place) -> Result<Report, AuditError> {
        let Some(key) = &self.key else {
            return if self.is_empty() { Ok(Report::default()) } else { Err(AuditError::NoKey(place.key())) };
        };
        let mut verifier = Verifier::new(key);
        for (index, (path, bytes)) in self.files.iter().enumerate() {
            if index > 0 {
                verifier.next_file();
            }
            each_line(path, 0, *bytes, |line, ended| verifier.line(line, ended))?;
        }
        Ok(verifier.finish(Head::decode(&self.head, key)))
    }

    /// What the head file says, if it is sound.
    pub fn head(&self) -> Option<Head> {
        match Head::decode(&self.head, self.key.as_ref()?) {
            Reading::Sound(head) => Some(head),
            Reading::Missing | Reading::Forged => None,
        }
    }

    /// Hands over every line, without its line end.
    pub fn each(&self, mut take: impl FnMut(&[u8])) -> Result<(), AuditError> {
        for (path, bytes) in &self.files {
            each_line(path, 0, *bytes, |line, _| take(line))?;
        }
        Ok(())
    }
}

/// Hands over the lines between two places of a file; returns where the last whole one ends. A line
/// that is longer than any of ours is handed over in pieces.
pub fn each_line(
    path: &Path,
    from: u64,
    to: u64,
    mut take: impl FnMut(&[u8], bool),
) -> Result<u64, AuditError> {
    let failed = |error| AuditError::Io(path.to_path_buf(), error);
    let mut file = File::open(path).map_err(failed)?;
    io::Seek::seek(&mut file, io::SeekFrom::Start(from)).map_err(failed)?;
    let mut reader = BufReader::with_capacity(LINE_BYTES_MAX, file.take(to.saturating_sub(from)));
    let (mut line, mut at, mut whole) = (Vec::new(), from, from);
    loop {
        line.clear();
        let max = 2 * LINE_BYTES_MAX as u64;
        let read = (&mut reader).take(max).read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            return Ok(whole);
        }
        at += read as u64;
        let ended = line.pop_if(|byte| *byte == b'\n').is_some();
        if ended {
            whole = at;
        }
        take(&line, ended);
    }
}

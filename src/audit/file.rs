//! Floor 2. The files of an audit log, and how one more line gets into it: under a lock that all
//! processes of one user share, whole, with the head file brought up to date before anybody goes on.
//! Blocking; called by the audit writer (`actors::audit`), and by commands that change who is trusted.

mod pen;
mod recover;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::pen::Pen;
use self::recover::catch_up;
use super::CHECKPOINT_EVERY;
use super::chain::{Key, MAC_BYTES};
use super::head::{HEAD_BYTES, Head};
use super::record::{Event, Record};
use crate::store::{self, StoreError};
use crate::time::{rfc3339, wall};

/// Longest wait for another process that is writing.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);

/// Why no line could be written, or the log can't be read.
#[derive(Debug)]
pub enum AuditError {
    /// A file of the log can't be read or written.
    Io(PathBuf, io::Error),
    /// Another process has held the lock for too long.
    Locked(PathBuf),
    /// There is a log and no key that belongs to it.
    NoKey(PathBuf),
    /// The file of the key holds something else.
    BadKey(PathBuf),
    /// Others may read the key.
    Exposed(PathBuf),
    /// The system gave no random bytes.
    NoRandom,
    /// There is no place for the log.
    NoHome(String),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Locked(path) => {
                write!(f, "{}: another process has held its lock for 2 s", path.display())
            }
            Self::NoKey(path) => write!(
                f,
                "{} is missing, and a log that was sealed with it is there; bring it back, or move the \
                 folder away to begin a new log",
                path.display()
            ),
            Self::BadKey(path) => write!(f, "{} holds no key; bring the right one back", path.display()),
            Self::Exposed(path) => {
                write!(f, "others may read the key; run: chmod 600 {}", path.display())
            }
            Self::NoRandom => f.write_str("the system gives no random bytes for a key"),
            Self::NoHome(why) => write!(f, "there is no place for the log: {why}"),
        }
    }
}

impl std::error::Error for AuditError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

/// Where a log is, and how large its files get.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its folder.
    pub folder: PathBuf,
    /// A longer file is closed and kept under another name, bytes.
    pub file_max: u64,
}

impl Place {
    /// The log below Callboard's own folder.
    pub fn below(home: &Path, file_max: u64) -> Self {
        Self { folder: home.join("audit"), file_max }
    }

    /// The file that lines are added to.
    pub fn log(&self) -> PathBuf {
        self.folder.join("audit.jsonl")
    }

    /// The head file.
    pub fn head(&self) -> PathBuf {
        self.folder.join("head")
    }

    /// The key.
    pub fn key(&self) -> PathBuf {
        self.folder.join("key")
    }

    /// The name that a file gets once it is full: that of its first line.
    pub(super) fn full(&self, segment: u64) -> PathBuf {
        self.folder.join(format!("audit-{segment:012}.jsonl"))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> AuditError {
    let path = path.to_path_buf();
    move |error| AuditError::Io(path, error)
}

fn of_store(error: StoreError) -> AuditError {
    match error {
        StoreError::Io(path, error) => AuditError::Io(path, error),
        StoreError::NotText(path) | StoreError::NotRegular(path) | StoreError::TooLarge(path, ..) => {
            AuditError::BadKey(path)
        }
        StoreError::Locked(path) => AuditError::Locked(path),
    }
}

/// The key of a log that is there.
pub fn read_key(place: &Place) -> Result<Option<Key>, AuditError> {
    let path = place.key();
    let Some(text) = store::read_text(&path, 256).map_err(of_store)? else { return Ok(None) };
    if store::is_readable_by_others(&path) {
        return Err(AuditError::Exposed(path));
    }
    let bytes = super::chain::Mac::parse(text.trim().as_bytes()).ok_or(AuditError::BadKey(path))?;
    Ok(Some(Key::new(&bytes.bytes())))
}

/// The key, made when there is neither key nor log. The lock is held.
fn key(place: &Place) -> Result<Key, AuditError> {
    if let Some(key) = read_key(place)? {
        return Ok(key);
    }
    if fs::metadata(place.log()).is_ok_and(|log| log.len() > 0) || !full_files(place)?.is_empty() {
        return Err(AuditError::NoKey(place.key()));
    }
    let mut bytes = [0; MAC_BYTES];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).map_err(|_| AuditError::NoRandom)?;
    let text = super::chain::Mac::of(bytes).hex();
    store::write_atomic(&place.key(), text.as_bytes(), store::Mode::Private).map_err(of_store)?;
    Ok(Key::new(&bytes))
}

/// The full files of a log, in their order.
pub(super) fn full_files(place: &Place) -> Result<Vec<PathBuf>, AuditError> {
    let entries = match fs::read_dir(&place.folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AuditError::Io(place.folder.clone(), error)),
    };
    let is_full = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("audit-")?.strip_suffix(".jsonl"));
        number.is_some_and(|number| number.len() >= 12 && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_full).collect();
    files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(files)
}

fn open(path: &Path, append: bool) -> Result<File, AuditError> {
    let mut options = OpenOptions::new();
    options.read(true).create(true);
    if append {
        options.append(true);
    } else {
        options.write(true);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path).map_err(at(path))?;
    if !file.metadata().map_err(at(path))?.is_file() {
        return Err(AuditError::Io(path.to_path_buf(), io::Error::other("not a regular file")));
    }
    Ok(file)
}

/// Holds the lock of a log: while it lives, nobody else writes.
pub(super) struct Held<'a>(&'a File);

impl<'a> Held<'a> {
    /// Waits for the lock of the head file, at most 2 s.
    pub(super) fn wait(head: &'a File, path: &Path) -> Result<Self, AuditError> {
        const STEP: Duration = Duration::from_millis(1);
        let mut waited = Duration::ZERO;
        loop {
            match head.try_lock() {
                Ok(()) => return Ok(Self(head)),
                Err(fs::TryLockError::WouldBlock) if waited < LOCK_WAIT_MAX => {
                    std::thread::sleep(STEP);
                    waited += STEP;
                }
                Err(fs::TryLockError::WouldBlock) => return Err(AuditError::Locked(path.to_path_buf())),
                Err(fs::TryLockError::Error(error)) => return Err(AuditError::Io(path.to_path_buf(), error)),
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// The files of a log that is open.
struct Files {
    log: File,
    /// What the head file said when we last looked, and how long the log was.
    head_text: Vec<u8>,
    head: Head,
}

/// The writing end of a log. One for each process; several processes take turns.
pub struct Ledger {
    place: Place,
    boot: String,
    key: Option<Key>,
    head: Option<File>,
    files: Option<Files>,
    /// The lock was taken by [`Ledger::is_free`], for the lines that follow.
    is_held: bool,
    buffer: Vec<u8>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Ledger {
    /// A log at that place, written by the run `boot`. Nothing is opened or created before the first line.
    pub fn new(place: Place, boot: String) -> Self {
        Self { place, boot, key: None, head: None, files: None, is_held: false, buffer: Vec::new() }
    }

    /// The run that writes.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// The key, once the log has been opened.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// Opens the log, unless it is open and still where it was.
    pub fn prepare(&mut self) -> Result<(), AuditError> {
        if self.head.as_ref().is_some_and(is_removed) {
            // Somebody took the folder away: what is written to its files would be seen by nobody.
            self.forget();
        }
        if self.head.is_none() || self.key.is_none() {
            self.is_held = false;
            store::create_private_dir(&self.place.folder).map_err(of_store)?;
            let path = self.place.head();
            let head = open(&path, false)?;
            {
                let _held = Held::wait(&head, &path)?;
                self.key = Some(key(&self.place)?);
            }
            self.head = Some(head);
        }
        Ok(())
    }

    /// Whether that many lines can be written now without waiting: the log is open, no file is full, no
    /// checkpoint is due, and nobody else writes. After a yes the lock is held for the `append` that has to
    /// follow.
    pub fn is_free(&mut self, lines: usize) -> bool {
        let (Some(files), Some(head)) = (&self.files, &self.head) else { return false };
        let (seq, lines) = (files.head.tip.seq, lines as u64);
        let is_plain = files.head.bytes < self.place.file_max
            && seq / CHECKPOINT_EVERY == (seq + lines + 1) / CHECKPOINT_EVERY;
        self.is_held = is_plain && head.try_lock().is_ok();
        self.is_held
    }

    /// Whatever was open: the next try looks at everything afresh. A lock goes with its file.
    fn forget(&mut self) {
        (self.files, self.head, self.key, self.is_held) = (None, None, None, false);
    }

    /// Writes the records, in their order. When it returns without an error, all of them are in the
    /// log and would survive the death of this process; they are forced to the disk at checkpoints and
    /// when `sync` says so. On an error none of them counts, though some may be there.
    pub fn append(&mut self, records: &mut [Record], sync: bool) -> Result<(), AuditError> {
        self.write(sync, |pen| records.iter().try_for_each(|record| pen.put(&record.line())))
    }

    /// The same for the lines that `lines` puts down.
    pub fn write(
        &mut self,
        sync: bool,
        lines: impl FnOnce(&mut Pen<'_>) -> Result<(), AuditError>,
    ) -> Result<(), AuditError> {
        let done = self.try_write(sync, lines);
        if done.is_err() {
            self.forget();
        }
        done
    }

    fn try_write(
        &mut self,
        sync: bool,
        lines: impl FnOnce(&mut Pen<'_>) -> Result<(), AuditError>,
    ) -> Result<(), AuditError> {
        self.prepare()?;
        let (Some(key), Some(head)) = (&self.key, &self.head) else {
            return Err(AuditError::NoKey(self.place.key()));
        };
        let path = self.place.head();
        let _held = match std::mem::take(&mut self.is_held) {
            true => Held(head),
            false => Held::wait(head, &path)?,
        };
        let mut first = Vec::new();
        let mut files = match self.files.take() {
            Some(files) if is_current(&files, head)? => files,
            _ => catch_up(&self.place, key, head, &self.boot, &mut first)?,
        };
        if files.head.bytes >= self.place.file_max {
            files = rotate(&self.place, files)?;
            first.push(Record::new(Event::Rotated, self.boot.as_str(), rfc3339(wall())));
        }
        self.buffer.clear();
        let mut pen = Pen {
            key,
            head,
            place: &self.place,
            boot: &self.boot,
            files: &mut files,
            buffer: &mut self.buffer,
            must_sync: sync,
        };
        first.iter().try_for_each(|record| pen.put(&record.line()))?;
        lines(&mut pen)?;
        pen.flush()?;
        pen.write_head()?;
        if pen.must_sync {
            files.log.sync_data().map_err(at(&self.place.log()))?;
            head.sync_data().map_err(at(&path))?;
        }
        self.files = Some(files);
        Ok(())
    }
}

/// Whether nobody else has written since, and nobody touched the files.
fn is_current(files: &Files, head: &File) -> Result<bool, AuditError> {
    if read_head(head)? != files.head_text {
        return Ok(false);
    }
    let log = files.log.metadata().map_err(at(Path::new("audit.jsonl")))?;
    Ok(log.len() == files.head.bytes && !has_no_name(&log))
}

/// Whether an open file has no name any more.
fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|file| has_no_name(&file))
}

fn has_no_name(file: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        file.nlink() == 0
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}

/// What the head file holds, and one byte more if it is longer than it should be.
fn read_head(head: &File) -> Result<Vec<u8>, AuditError> {
    let mut text = vec![0; HEAD_BYTES + 1];
    let mut length = 0;
    while length < text.len() {
        match read_from(head, &mut text[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(AuditError::Io(PathBuf::from("head"), error)),
        }
        // A regular file gives all that it has at once: less than was asked for is its end.
        if length >= HEAD_BYTES {
            break;
        }
    }
    text.truncate(length);
    Ok(text)
}

/// One call of the system instead of two.
#[cfg(unix)]
fn read_from(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, at)
}

#[cfg(not(unix))]
fn read_from(mut file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    use std::io::{Read as _, Seek as _};
    file.seek(io::SeekFrom::Start(at))?;
    file.read(buffer)
}

/// The file is full: it gets the name of its first line, and a new one begins.
fn rotate(place: &Place, files: Files) -> Result<Files, AuditError> {
    files.log.sync_data().map_err(at(&place.log()))?;
    fs::rename(place.log(), place.full(files.head.segment)).map_err(at(&place.log()))?;
    let head = Head { segment: files.head.tip.seq + 1, bytes: 0, ..files.head };
    Ok(Files { log: open(&place.log(), true)?, head_text: Vec::new(), head })
}

/// A name for this run: random, so that no two runs share one.
pub fn fresh_boot() -> String {
    let mut bytes = [0; 8];
    let _ = rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;

//! The event log of a conversation: JSON Lines, appended, in a file of its owner alone (`sessions` in
//! Callboard's own folder), through the one redactor. Can be taken up again after any end, in the middle of a
//! line too. Images are not kept. Blocking and short; called by `engine`.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;

use super::chat::Part;
use super::turn::Entry;
use crate::store::{self, StoreError};
use crate::telemetry::Redaction;
use crate::time::{rfc3339, wall};

/// Largest log, bytes; nothing is appended beyond it.
pub const LOG_BYTES_MAX: u64 = 256 << 20;
/// Sessions that are listed at most.
const LISTED_MAX: usize = 1000;
/// Longest beginning of what the user said that a list shows, characters.
const TITLE_MAX: usize = 80;
const ENDING: &str = ".jsonl";

/// Why there is no log.
#[derive(Debug)]
pub enum LogError {
    /// No session of that id.
    Unknown(String),
    /// Another process has it.
    InUse(String),
    /// The file.
    Store(StoreError),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(id) => write!(f, "there is no session {id}"),
            Self::InUse(id) => write!(f, "the session {id} is in use by another process"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LogError {}

impl From<StoreError> for LogError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The log of one conversation, held by this process.
#[derive(Debug)]
pub struct Log {
    id: String,
    path: PathBuf,
    file: File,
    bytes: u64,
    redaction: Redaction,
}

/// What was in a log.
#[derive(Debug, Default)]
pub struct Read {
    /// Everything that could be read, in order.
    pub entries: Vec<Entry>,
    /// Lines that could not.
    pub broken: usize,
}

/// One session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Session {
    /// By which it is taken up again.
    pub id: String,
    /// When it was last written to, RFC 3339.
    pub at: String,
    /// The beginning of what the user said first.
    pub title: String,
    /// What the user said, in turns.
    pub turns: usize,
}

impl Log {
    /// The log of a new conversation below Callboard's own folder.
    pub fn create(home: &Path, redaction: Redaction) -> Result<Self, LogError> {
        let folder = folder(home);
        store::create_private_dir(&folder)?;
        for _ in 0..8 {
            let id = fresh_id();
            let path = folder.join(format!("{id}{ENDING}"));
            let mut options = OpenOptions::new();
            options.append(true).create_new(true);
            match private(&mut options).open(&path) {
                Ok(file) => return Self::held(id, path, file, redaction),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::Io(path, error).into()),
            }
        }
        let taken = io::Error::from(io::ErrorKind::AlreadyExists);
        Err(StoreError::Io(folder, taken).into())
    }

    /// The log of an earlier conversation, to go on with it. A line that was cut off by the end of its process
    /// is taken out.
    pub fn resume(home: &Path, id: &str, redaction: Redaction) -> Result<(Self, Read), LogError> {
        let unknown = || LogError::Unknown(id.chars().take(64).collect());
        if !is_id(id) {
            return Err(unknown());
        }
        let path = folder(home).join(format!("{id}{ENDING}"));
        let failed = |error| LogError::Store(StoreError::Io(path.clone(), error));
        let mut options = OpenOptions::new();
        options.append(true).read(true);
        let file = match private(&mut options).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown()),
            Err(error) => return Err(failed(error)),
        };
        let log = Self::held(id.to_owned(), path.clone(), file, redaction)?;
        let bytes = bytes_of(&log.file).map_err(failed)?;
        // The last line may have been cut off anywhere, within a character too.
        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        if whole < bytes.len() {
            log.file.set_len(whole as u64).map_err(failed)?;
        }
        let read = read(&String::from_utf8_lossy(&bytes[..whole]));
        Ok((Self { bytes: whole as u64, ..log }, read))
    }

    fn held(id: String, path: PathBuf, mut file: File, redaction: Redaction) -> Result<Self, LogError> {
        let failed = |error| LogError::Store(StoreError::Io(path.clone(), error));
        if !store::try_lock(&file).map_err(failed)? {
            return Err(LogError::InUse(id));
        }
        let bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { id, path, file, bytes, redaction })
    }

    /// By which it is taken up again.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one entry down, without any secret that is known.
    pub fn append(&mut self, entry: &Entry) -> Result<(), LogError> {
        let failed = |error| LogError::Store(StoreError::Io(self.path.clone(), error));
        let mut line = line(entry, &self.redaction).map_err(failed)?;
        line.push('\n');
        if self.bytes + line.len() as u64 > LOG_BYTES_MAX {
            return Err(StoreError::TooLarge(self.path.clone(), LOG_BYTES_MAX, None).into());
        }
        self.file.write_all(line.as_bytes()).map_err(failed)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Makes sure that what was written outlives the machine.
    pub fn sync(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(|error| LogError::Store(StoreError::Io(self.path.clone(), error)))
    }
}

/// The whole file from its beginning.
fn bytes_of(mut file: &File) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The sessions below this home, the newest first. Those in which nothing was said are not among them.
pub fn sessions(home: &Path) -> Vec<Session> {
    files(home).into_iter().take(LISTED_MAX).filter_map(session).collect()
}

/// The id of the newest session, for `--continue`.
pub fn newest(home: &Path) -> Option<String> {
    files(home).into_iter().find_map(session).map(|session| session.id)
}

/// The logs, the newest first.
fn files(home: &Path) -> Vec<(SystemTime, String, PathBuf)> {
    let Ok(files) = fs::read_dir(folder(home)) else { return Vec::new() };
    let mut found: Vec<_> = files
        .flatten()
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let id = name.strip_suffix(ENDING).filter(|id| is_id(id))?.to_owned();
            Some((file.metadata().ok()?.modified().ok()?, id, file.path()))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found
}

fn session((at, id, path): (SystemTime, String, PathBuf)) -> Option<Session> {
    let bytes = bytes_of(&File::open(path).ok()?).ok()?;
    let entries = read(&String::from_utf8_lossy(&bytes)).entries;
    let mut said = entries.iter().filter_map(|entry| match entry {
        Entry::User { text } => Some(text),
        _ => None,
    });
    let title = said.next()?.chars().take(TITLE_MAX).map(printed).collect();
    Some(Session { id, at: rfc3339(at), title, turns: said.count() + 1 })
}

fn printed(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

fn folder(home: &Path) -> PathBuf {
    home.join("sessions")
}

/// An id is a file name: letters, digits and dashes.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Sorts by time.
fn fresh_id() -> String {
    let stamp: String = rfc3339(wall()).chars().filter(char::is_ascii_digit).take(14).collect();
    let chance = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id())) & 0xff_ffff;
    format!("{stamp}-{chance:06x}")
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options
}

fn read(text: &str) -> Read {
    let mut all = Read::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(entry) => all.entries.push(entry),
            Err(_) => all.broken += 1,
        }
    }
    all
}

fn line(entry: &Entry, redaction: &Redaction) -> io::Result<String> {
    let mut entry = entry.clone();
    if let Entry::Result { result, .. } = &mut entry {
        for part in &mut result.parts {
            if let Part::Image { mime, base64 } = part {
                let text = format!("[image {mime}, {} bytes, not kept in the log]", base64.len() * 3 / 4);
                *part = Part::Text(text);
            }
        }
    }
    let mut value = serde_json::to_value(&entry)?;
    redact(&mut value, redaction);
    serde_json::to_string(&value).map_err(io::Error::from)
}

/// Takes secrets out of every text. What an endpoint wants back unchanged is not a text of anybody.
fn redact(value: &mut Value, redaction: &Redaction) {
    match value {
        Value::String(text) => *text = redaction.text(text),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, redaction)),
        Value::Object(members) => {
            let open =
                members.iter_mut().filter(|(key, _)| !matches!(key.as_str(), "signature" | "hidden" | "id"));
            open.for_each(|(_, member)| redact(member, redaction));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::chat::{Said, ToolCall, ToolResult};
    use crate::agent::turn::Conversation;
    use crate::config::spec::SecretText;

    fn user(text: &str) -> Entry {
        Entry::User { text: text.into() }
    }

    fn said(text: &str, arguments: &str) -> Entry {
        let call = ToolCall { id: "a".into(), name: "t".into(), arguments: arguments.into() };
        Entry::Said {
            said: Said { text: text.into(), calls: vec![call], ..Said::default() },
            stop: "calls".into(),
            usage: None,
        }
    }

    fn file(home: &Path) -> PathBuf {
        fs::read_dir(folder(home)).unwrap().next().unwrap().unwrap().path()
    }

    #[test]
    fn a_log_is_its_owners_and_comes_back_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let entries = [user("hi \u{1F600}\nthere"), said("so", "{\"n\":1.00}"), Entry::Cancelled {}];
        let mut log = Log::create(home.path(), Redaction::default()).unwrap();
        entries.iter().for_each(|entry| log.append(entry).unwrap());
        log.sync().unwrap();
        let id = log.id().to_owned();
        assert!(matches!(Log::resume(home.path(), &id, Redaction::default()), Err(LogError::InUse(_))));
        drop(log);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(file(home.path())).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(newest(home.path()).as_deref(), Some(id.as_str()));
        let (mut log, read) = Log::resume(home.path(), &id, Redaction::default()).unwrap();
        assert_eq!((read.entries.as_slice(), read.broken), (entries.as_slice(), 0));
        log.append(&user("more")).unwrap();
        assert_eq!(sessions(home.path())[0].turns, 2);
        assert_eq!(sessions(home.path())[0].title, "hi \u{1F600} there");
    }

    #[test]
    fn wherever_a_process_ended_the_log_can_be_taken_up_again() {
        let home = tempfile::tempdir().unwrap();
        let mut log = Log::create(home.path(), Redaction::default()).unwrap();
        for entry in [user("one"), said("two é", "{}"), user("three")] {
            log.append(&entry).unwrap();
        }
        let id = log.id().to_owned();
        drop(log);
        let whole = fs::read(file(home.path())).unwrap();
        for end in 0..=whole.len() {
            fs::write(file(home.path()), &whole[..end]).unwrap();
            let (mut log, read) = Log::resume(home.path(), &id, Redaction::default()).unwrap();
            assert_eq!(read.broken, 0);
            log.append(&user("again")).unwrap();
            drop(log);
            let (_, again) = Log::resume(home.path(), &id, Redaction::default()).unwrap();
            assert_eq!((again.entries.len(), again.broken), (read.entries.len() + 1, 0), "{end}");
            assert_eq!(crate::agent::turn::fold::fault(&Conversation::of(&again.entries).messages()), None);
        }
    }

    #[test]
    fn no_secret_and_no_image_is_written_down() {
        let home = tempfile::tempdir().unwrap();
        let redaction = Redaction::default();
        redaction.learn(&[SecretText::new("canary-value-\"1")]);
        let mut log = Log::create(home.path(), redaction).unwrap();
        log.append(&user("my key is canary-value-\"1")).unwrap();
        let image = Part::Image { mime: "image/png".into(), base64: "QUJDREVGR0g=".into() };
        let result = ToolResult { id: "a".into(), name: "t".into(), parts: vec![image], is_error: false };
        log.append(&Entry::Result { result, server: None, elapsed_ms: 1 }).unwrap();
        let text = fs::read_to_string(file(home.path())).unwrap();
        assert!(!text.contains("canary") && !text.contains("QUJD") && text.contains("[redacted]"), "{text}");
    }

    #[test]
    fn an_id_that_is_no_file_name_of_ours_is_unknown() {
        let home = tempfile::tempdir().unwrap();
        for id in ["../x", "", "a/b", "nothing-like-it", "x.jsonl"] {
            assert!(
                matches!(Log::resume(home.path(), id, Redaction::default()), Err(LogError::Unknown(_))),
                "{id}"
            );
        }
        assert_eq!(newest(home.path()), None);
    }
}

//! Floor 2. Files that Callboard keeps: read with a guard (regular, bounded), written 0600 in
//! one step (unique temporary file in the same folder, fsync, rename, fsync of the folder),
//! changed under a lock, so that two writers never lose an edit. Blocking; called by
//! `config`, the audit and the caches, off the latency path.

#[cfg(unix)]
pub mod beneath;
pub mod names;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest configuration file that is read, bytes.
pub const FILE_BYTES_MAX: u64 = 2_000_000;
/// How the names of our temporary files begin and end.
const TEMPORARY: (&str, &str) = (".callboard-", ".tmp");
/// Age from which such a file has lost its writer, who needs far less.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);
/// Longest wait for another writer.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// Why a file can't be read or written.
#[derive(Debug)]
pub enum StoreError {
    /// Not a regular file: a folder, a pipe, a device.
    NotRegular(PathBuf),
    /// More bytes than allowed: the limit and, where it is known, how many there are.
    TooLarge(PathBuf, u64, Option<u64>),
    /// Not UTF-8.
    NotText(PathBuf),
    /// Another writer kept the lock for too long.
    Locked(PathBuf),
    /// Anything else that the system says.
    Io(PathBuf, io::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegular(path) => write!(f, "{}: not a regular file", path.display()),
            Self::TooLarge(path, max, size) => {
                write!(f, "{}: {}; make it smaller or split it", path.display(), too_large(*max, *size))
            }
            Self::NotText(path) => write!(f, "{}: not UTF-8; save it as UTF-8", path.display()),
            Self::Locked(path) => {
                write!(f, "{}: another program has held its lock for 10 s; try again", path.display())
            }
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::NotRegular(_) | Self::TooLarge(..) | Self::NotText(_) | Self::Locked(_) => None,
        }
    }
}

/// The clause that says that something is over a limit, with its size where that is known; bytes.
pub fn too_large(max: u64, size: Option<u64>) -> String {
    match size {
        Some(size) => format!("it has {size} bytes, and at most {max} are read"),
        None => format!("it has more than {max} bytes, the most that are read"),
    }
}

/// Reads a text file of at most `bytes_max` bytes; `None` when there is no such file. Never
/// blocks on a pipe or device.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<Option<String>, StoreError> {
    let failed = |error| StoreError::Io(path.to_path_buf(), error);
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(StoreError::NotRegular(path.to_path_buf()));
    }
    let size = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        return Err(StoreError::TooLarge(
            path.to_path_buf(),
            bytes_max,
            Some(size).filter(|size| *size > bytes_max),
        ));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| StoreError::NotText(path.to_path_buf()))
}

/// What happens to the permissions of a file that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 0600, whatever it was.
    Private,
    /// Those of the file that is there; 0600 for a new one.
    Keep,
}

/// Writes a whole file in one step: readers see the old or the new content, never a part. A
/// symbolic link is followed and stays. The folder is created 0700 when missing.
pub fn write_atomic(path: &Path, content: &[u8], mode: Mode) -> Result<(), StoreError> {
    let path = &resolve(path);
    if path.is_symlink() {
        // A circle of links leads to no file.
        return Err(StoreError::NotRegular(path.clone()));
    }
    put(path, content, mode)
}

/// The same for a file that nobody but this program has a reason to touch, such as one of a cache:
/// 0600, and a symbolic link in its place is replaced, not followed.
pub fn replace_atomic(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    put(path, content, Mode::Private)
}

fn put(path: &Path, content: &[u8], mode: Mode) -> Result<(), StoreError> {
    let failed = |error| StoreError::Io(path.to_path_buf(), error);
    let folder = parent(path);
    create_private_dir(folder)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(TEMPORARY.0)
        .suffix(TEMPORARY.1)
        .tempfile_in(folder)
        .map_err(failed)?;
    temporary.write_all(content).map_err(failed)?;
    if let (Mode::Keep, Ok(old)) = (mode, fs::metadata(path)) {
        if !old.is_file() {
            return Err(StoreError::NotRegular(path.to_path_buf()));
        }
        temporary.as_file().set_permissions(old.permissions()).map_err(failed)?;
    }
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    sync_dir(folder).map_err(failed)
}

/// Creates a folder and its parents, new ones 0700. An existing folder is left as it is.
pub fn create_private_dir(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path).map_err(|error| StoreError::Io(path.to_path_buf(), error))
}

/// An exclusive lock for changing a file; released when dropped. It is taken on the folder
/// of the file (links resolved), so nothing is left behind and no rename can slip past it.
#[derive(Debug)]
pub struct Lock {
    _folder: File,
}

impl Lock {
    /// Waits until no other writer, in this process or another, changes a file of the same
    /// folder; at most 10 s. The folder is created 0700 when missing. What killed writers left in
    /// it is removed.
    pub fn acquire(path: &Path) -> Result<Self, StoreError> {
        const STEP: Duration = Duration::from_millis(5);
        let path = resolve(path);
        let folder = parent(&path);
        create_private_dir(folder)?;
        let file = File::open(folder).map_err(|error| StoreError::Io(path.clone(), error))?;
        let mut waited = Duration::ZERO;
        loop {
            match try_lock(&file) {
                Ok(true) => {
                    sweep(folder);
                    return Ok(Self { _folder: file });
                }
                Ok(false) if waited < LOCK_WAIT_MAX => {
                    std::thread::sleep(STEP);
                    waited += STEP;
                }
                Ok(false) => return Err(StoreError::Locked(path)),
                Err(error) => return Err(StoreError::Io(path, error)),
            }
        }
    }
}

/// Removes temporary files whose writer was killed. What can't be removed stays: the write that
/// comes next does not depend on it.
fn sweep(folder: &Path) {
    /// A folder of a project can hold very many files; a sweep must not be felt.
    const ENTRIES_MAX: usize = 10_000;
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.take(ENTRIES_MAX).flatten() {
        if is_temporary(&entry.file_name()) && is_abandoned(&entry) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether [`write_atomic`] gives such names: six letters or digits in the middle.
fn is_temporary(name: &std::ffi::OsStr) -> bool {
    let middle = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY.0)?.strip_suffix(TEMPORARY.1));
    middle.is_some_and(|middle| middle.len() == 6 && middle.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// A file, not a link or folder, that nobody has written for a while.
fn is_abandoned(entry: &fs::DirEntry) -> bool {
    let Ok(metadata) = entry.metadata() else { return false };
    let age = metadata.modified().ok().and_then(|written| written.elapsed().ok());
    metadata.is_file() && age.is_some_and(|age| age > ABANDONED_AFTER)
}

#[cfg(unix)]
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// The file that a path means once symbolic links are followed, also when the last link
/// points to a file that does not exist yet.
pub fn resolve(path: &Path) -> PathBuf {
    const LINKS_MAX: usize = 32;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        if let Ok(real) = fs::canonicalize(&path) {
            return real;
        }
        match fs::read_link(&path) {
            Ok(target) => path = parent(&path).join(target),
            Err(_) => break,
        }
    }
    path
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(unix)]
fn sync_dir(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_dir(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Why a folder can't hold files of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Something else than a folder has its name.
    NoFolder,
    /// Its file system can't be written.
    ReadOnly,
    /// The system does not let us; what it says.
    Denied(String),
}

/// What stands in the way of files in a folder, and where: the folder itself, or, while that is
/// not there, the nearest one above it. `None` when it can be used.
pub fn unusable(folder: &Path) -> Option<(PathBuf, Unusable)> {
    let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok())?;
    let why = match there.metadata() {
        Ok(metadata) if !metadata.is_dir() => Some(Unusable::NoFolder),
        Ok(_) => denied(there),
        Err(error) => Some(Unusable::Denied(error.to_string())),
    };
    why.map(|why| (there.to_path_buf(), why))
}

#[cfg(unix)]
fn denied(folder: &Path) -> Option<Unusable> {
    use rustix::fs::Access;
    let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::access(folder, wanted) {
        Ok(()) => None,
        Err(rustix::io::Errno::ROFS) => Some(Unusable::ReadOnly),
        Err(error) => Some(Unusable::Denied(io::Error::from(error).to_string())),
    }
}

#[cfg(not(unix))]
fn denied(folder: &Path) -> Option<Unusable> {
    let read_only = fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().readonly());
    read_only.then_some(Unusable::ReadOnly)
}

/// Whether others than the owner may write a file; `false` where that can't be told.
pub fn is_writable_by_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o022 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Whether others than the owner may read a file; `false` where that can't be told.
pub fn is_readable_by_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    #[test]
    fn reading_is_bounded_to_the_byte_and_a_missing_file_is_none() {
        let (_keep, folder) = folder();
        let path = folder.join("f");
        assert!(read_text(&path, 4).unwrap().is_none());
        assert!(read_text(&path.join("below/a/missing/folder"), 4).unwrap().is_none());
        fs::write(&path, "1234").unwrap();
        assert_eq!(read_text(&path, 4).unwrap().unwrap(), "1234");
        assert!(matches!(read_text(&path, 3), Err(StoreError::TooLarge(_, 3, Some(4)))));
        assert!(read_text(&path.join("below/a/file"), 4).unwrap().is_none());
        assert!(matches!(read_text(&folder, 4), Err(StoreError::NotRegular(_))));
        fs::write(&path, [0xff]).unwrap();
        assert!(matches!(read_text(&path, 4), Err(StoreError::NotText(_))));
    }

    #[test]
    fn errors_name_the_file() {
        let (_keep, folder) = folder();
        let error = read_text(&folder, 4).unwrap_err().to_string();
        assert!(error.starts_with(&folder.display().to_string()), "{error}");
        assert!(StoreError::Locked(folder).to_string().contains("try again"));
    }

    #[test]
    #[cfg(unix)]
    fn a_new_file_is_private_from_its_first_byte() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_keep, folder) = folder();
        let path = folder.join("a/b/f");
        write_atomic(&path, b"x", Mode::Keep).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.join("a/b")), mode(&folder.join("a"))), (0o600, 0o700, 0o700));
        assert!(!is_readable_by_others(&path));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(is_readable_by_others(&path));
        write_atomic(&path, b"y", Mode::Keep).unwrap();
        assert_eq!(mode(&path), 0o640);
        write_atomic(&path, b"z", Mode::Private).unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"z".to_vec()));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_rubbish() {
        let (_keep, folder) = folder();
        fs::create_dir(folder.join("f")).unwrap();
        assert!(write_atomic(&folder.join("f"), b"x", Mode::Private).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(folder.join("f").is_dir());
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_at_the_next_change() {
        let (_keep, folder) = folder();
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = |name: &str, old: bool| {
            let file = File::create(folder.join(name)).unwrap();
            if old {
                file.set_modified(long_ago).unwrap();
            }
        };
        file(".callboard-aB3dE9.tmp", true);
        let kept =
            [".callboard-aB3dE8.tmp", ".callboard-mine.tmp", ".callboard-aB3dE9.tmp.bak", "aB3dE9.tmp"];
        for name in kept {
            file(name, name != kept[0]);
        }
        fs::create_dir(folder.join(".callboard-folder.tmp")).unwrap();
        drop(Lock::acquire(&folder.join("f")).unwrap());
        assert!(!folder.join(".callboard-aB3dE9.tmp").exists());
        assert!(kept.iter().all(|name| folder.join(name).exists()));
        assert!(folder.join(".callboard-folder.tmp").is_dir());
        // The names that are given are the names that are looked for.
        let named =
            tempfile::Builder::new().prefix(TEMPORARY.0).suffix(TEMPORARY.1).tempfile_in(&folder).unwrap();
        assert!(is_temporary(named.path().file_name().unwrap()));
    }

    #[test]
    fn readers_never_see_half_a_file() {
        let (_keep, folder) = folder();
        let path = folder.join("f");
        let whole = [b"a".repeat(200_000), b"b".repeat(200_000)];
        write_atomic(&path, &whole[0], Mode::Private).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=40 {
                    write_atomic(&path, &whole[round % 2], Mode::Private).unwrap();
                }
                done.store(true, Ordering::SeqCst);
            });
            while !done.load(Ordering::SeqCst) {
                let seen = fs::read(&path).unwrap();
                assert!(whole.contains(&seen), "{} bytes", seen.len());
            }
        });
    }

    #[test]
    fn one_writer_at_a_time_and_nothing_is_left_behind() {
        let (_keep, folder) = folder();
        let path = folder.join("f");
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let _lock = Lock::acquire(&path).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    #[cfg(unix)]
    fn links_are_followed_also_to_files_that_do_not_exist_yet() {
        let (_keep, folder) = folder();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
        link("second", "first");
        link("file", "second");
        assert_eq!(resolve(&folder.join("first")), folder.join("file"));
        write_atomic(&folder.join("first"), b"x", Mode::Private).unwrap();
        assert_eq!(resolve(&folder.join("first")), folder.join("file"));
        assert!(folder.join("first").symlink_metadata().unwrap().is_symlink());
        link("round", "round");
        assert!(matches!(
            write_atomic(&folder.join("round"), b"x", Mode::Private),
            Err(StoreError::NotRegular(_))
        ));
    }
}

//! Floor 2. Files below one folder, for whoever acts for a model or writes under a name that
//! others chose: opened relative to a descriptor of the folder, judged by what was opened and not
//! by the string, regular files only, of bounded size, written in one step. Blocking.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::TEMPORARY;
use crate::store::names::{Purpose, forbidden};

/// What a new file may be.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);
/// How often a lookup is tried again that the kernel gave up because something was moved meanwhile.
const MOVED_MAX: usize = 16;
/// How often another name is tried for a temporary file.
const NAMES_MAX: usize = 16;

/// Why a path is not read or written.
#[derive(Debug)]
pub enum PathError {
    /// It leads out of the folder, or is no path at all.
    Outside(PathBuf),
    /// It is one of those that nobody may touch; why.
    Forbidden(PathBuf, &'static str),
    /// A folder, a pipe, a device, a link.
    NotRegular(PathBuf),
    /// More bytes than allowed.
    TooLarge(PathBuf, u64),
    /// Anything else that the system says.
    Io(PathBuf, io::Error),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(path) => write!(f, "{}: leads out of the folder", path.display()),
            Self::Forbidden(path, why) => write!(f, "{}: not touched: {why}", path.display()),
            Self::NotRegular(path) => write!(f, "{}: not a regular file", path.display()),
            Self::TooLarge(path, max) => write!(f, "{}: larger than {max} bytes", path.display()),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for PathError {}

/// How a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The kernel keeps it below the folder; links that stay there are followed.
    Kernel,
    /// Step by step, where a kernel can't: no link is followed at all.
    Steps,
}

/// A folder, held open: what it is called later does not matter.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    real: PathBuf,
    own: Vec<PathBuf>,
    way: Way,
}

impl Root {
    /// Opens a folder. `own` are folders below which nothing is touched: Callboard's own.
    pub fn open(folder: &Path, own: &[PathBuf]) -> Result<Self, PathError> {
        let failed = |error: io::Error| PathError::Io(folder.to_path_buf(), error);
        let real = folder.canonicalize().map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, &real, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let own = own.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
        let way = if cfg!(target_os = "linux") { Way::Kernel } else { Way::Steps };
        Ok(Self { folder: opened, real, own, way })
    }

    /// Reads a regular file of at most `bytes_max` bytes. A pipe or device is never waited for.
    pub fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, PathError> {
        let inner = self.inner(path)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let (file, real) = self.reach(&inner, flags)?;
        self.judge(&real, Purpose::Read)?;
        let failed = |error: io::Error| PathError::Io(path.to_path_buf(), error);
        if !is_regular(&file).map_err(failed)? {
            return Err(PathError::NotRegular(path.to_path_buf()));
        }
        let mut bytes = Vec::new();
        File::from(file).take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > bytes_max {
            return Err(PathError::TooLarge(path.to_path_buf(), bytes_max));
        }
        Ok(bytes)
    }

    /// Writes a whole file in one step: 0600 if it is new, else with the rights that it has. The
    /// folder that it is in must be there; a link in its place is not followed.
    pub fn write(&self, path: &Path, content: &[u8]) -> Result<(), PathError> {
        self.write_where(path, content, |_| None).map(drop)
    }

    /// As [`Root::write`], where `refuse` has no reason against the real path that it is given; returns
    /// that path.
    pub fn write_where(
        &self,
        path: &Path,
        content: &[u8],
        refuse: impl Fn(&Path) -> Option<&'static str>,
    ) -> Result<PathBuf, PathError> {
        let inner = self.inner(path)?;
        let Some(name) = inner.file_name() else { return Err(PathError::NotRegular(path.to_path_buf())) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let (folder, real) = self.reach(inner.parent().unwrap_or(Path::new("")), flags)?;
        let real = real.join(name);
        self.judge(&real, Purpose::Write)?;
        if let Some(why) = refuse(&real) {
            return Err(PathError::Forbidden(real, why));
        }
        let failed = |error: Errno| PathError::Io(path.to_path_buf(), error.into());
        let mode = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) if FileType::from_raw_mode(old.st_mode) == FileType::RegularFile => {
                Mode::from_raw_mode(old.st_mode) & Mode::from_raw_mode(0o777)
            }
            Ok(_) => return Err(PathError::NotRegular(path.to_path_buf())),
            Err(Errno::NOENT) => PRIVATE,
            Err(errno) => return Err(failed(errno)),
        };
        let (temporary, file) = temporary(&folder).map_err(failed)?;
        let written = fill(file, content, mode).and_then(|()| renameat(&folder, &temporary, &folder, name));
        if written.is_err() {
            let _ = unlinkat(&folder, &temporary, AtFlags::empty());
        }
        written.and_then(|()| rustix::fs::fsync(&folder)).map_err(failed)?;
        Ok(real)
    }

    /// The part of a path below the folder, without a step up: what the kernel is asked for.
    fn inner(&self, path: &Path) -> Result<PathBuf, PathError> {
        let outside = || PathError::Outside(path.to_path_buf());
        let inner =
            if path.is_absolute() { path.strip_prefix(&self.real).map_err(|_| outside())? } else { path };
        let mut clean = PathBuf::new();
        for part in inner.components() {
            match part {
                Component::Normal(part) => clean.push(part),
                Component::CurDir => {}
                // `a/..` is not where it seems to be when `a` is a link: nobody needs it.
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        Ok(clean)
    }

    fn judge(&self, real: &Path, purpose: Purpose) -> Result<(), PathError> {
        if !real.starts_with(&self.real) {
            return Err(PathError::Outside(real.to_path_buf()));
        }
        if self.own.iter().any(|own| real.starts_with(own)) {
            return Err(PathError::Forbidden(real.to_path_buf(), "it is Callboard's own"));
        }
        match forbidden(real, purpose) {
            Some(why) => Err(PathError::Forbidden(real.to_path_buf(), why)),
            None => Ok(()),
        }
    }

    /// Opens what is there, and tells where it really is.
    fn reach(&self, inner: &Path, flags: OFlags) -> Result<(OwnedFd, PathBuf), PathError> {
        let failed = |errno: Errno| match errno {
            Errno::XDEV | Errno::LOOP | Errno::MLINK => PathError::Outside(inner.to_path_buf()),
            errno => PathError::Io(inner.to_path_buf(), errno.into()),
        };
        #[cfg(target_os = "linux")]
        if self.way == Way::Kernel {
            match self.by_kernel(inner, flags) {
                Err(Errno::NOSYS | Errno::PERM) => {}
                Ok(file) => {
                    let real = real_path(&file).map_err(|error| PathError::Io(inner.to_path_buf(), error))?;
                    return Ok((file, real));
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
        // Without links the path is what it says.
        Ok((self.by_steps(inner, flags).map_err(failed)?, self.real.join(inner)))
    }

    #[cfg(target_os = "linux")]
    fn by_kernel(&self, inner: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        use rustix::fs::{ResolveFlags, openat2};
        let inner = if inner.as_os_str().is_empty() { Path::new(".") } else { inner };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..MOVED_MAX {
            outcome = openat2(&self.folder, inner, flags, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }

    fn by_steps(&self, inner: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let parts: Vec<&OsStr> = inner.iter().collect();
        let into = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some((name, folders)) = parts.split_last() else {
            return openat(&self.folder, ".", flags, Mode::empty());
        };
        let mut at: Option<OwnedFd> = None;
        for folder in folders {
            let from = at.as_ref().map_or(self.folder.as_fd(), AsFd::as_fd);
            at = Some(openat(from, *folder, into, Mode::empty())?);
        }
        let from = at.as_ref().map_or(self.folder.as_fd(), AsFd::as_fd);
        openat(from, *name, flags | OFlags::NOFOLLOW, Mode::empty())
    }
}

/// Where an open file really is; one that was removed meanwhile is nowhere.
#[cfg(target_os = "linux")]
fn real_path(file: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn is_regular(file: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode) == FileType::RegularFile)
}

/// A new file that nobody else can read, in that folder.
fn temporary(folder: &OwnedFd) -> Result<(OsString, OwnedFd), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut outcome = Err(Errno::EXIST);
    for _ in 0..NAMES_MAX {
        let name = OsString::from(format!("{}{}{}", TEMPORARY.0, letters(), TEMPORARY.1));
        outcome = openat(folder, &name, flags, PRIVATE).map(|file| (name, file));
        if !matches!(outcome, Err(Errno::EXIST)) {
            break;
        }
    }
    outcome
}

/// Six letters and digits that nobody can foretell.
fn letters() -> String {
    const ALL: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut number = RandomState::new().hash_one(0_u8);
    let mut next = || {
        let letter = ALL[usize::try_from(number % 36).unwrap_or_default()];
        number /= 36;
        char::from(letter)
    };
    (0..6).map(|_| next()).collect()
}

fn fill(file: OwnedFd, content: &[u8], mode: Mode) -> Result<(), Errno> {
    let mut file = File::from(file);
    let written = file.write_all(content);
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if mode != PRIVATE {
        rustix::fs::fchmod(&file, mode)?;
    }
    rustix::fs::fsync(&file)
}

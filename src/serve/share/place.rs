//! Where the host of a user is found: a socket in `run` below Callboard's own folder, named by the
//! version of the program, beside the lock that its one owner holds. The folder is the user's alone,
//! and so is the socket; the peer's user is checked on both sides besides.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::store::{create_private_dir, try_lock};

/// The version that both ends must have.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A longer path does not fit into the address of a socket.
const ADDRESS_MAX: usize = 100;
/// A log that is longer is begun again, in bytes; one older part is kept.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// The place of the host of one folder and one version.
#[derive(Clone, Debug)]
pub struct Place {
    home: PathBuf,
}

/// The right to be the host of a place; ends with the process at the latest.
#[derive(Debug)]
pub struct Claim {
    place: Place,
    lock: File,
}

impl Place {
    /// The place below Callboard's own folder.
    pub fn below(home: &Path) -> Self {
        Self { home: home.to_path_buf() }
    }

    /// Callboard's own folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.run().join(format!("host-{VERSION}.sock"))
    }

    /// The log of the host.
    pub fn log(&self) -> PathBuf {
        self.home.join("log").join("host.log")
    }

    fn run(&self) -> PathBuf {
        self.home.join("run")
    }

    fn lock(&self) -> PathBuf {
        self.run().join(format!("host-{VERSION}.lock"))
    }

    /// Makes the folder of the socket, and sees that it is the user's alone.
    ///
    /// # Errors
    /// When it can't be made, or belongs to somebody else.
    pub fn prepare(&self) -> io::Result<()> {
        let run = self.run();
        create_private_dir(&run).map_err(io::Error::other)?;
        let found = fs::symlink_metadata(&run)?;
        if !found.is_dir() || found.uid() != getuid().as_raw() {
            let text = format!("{} is no folder of yours", run.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(&run, Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// Connects to the host that runs.
    ///
    /// # Errors
    /// When none runs, or what is there belongs to another user.
    pub fn connect(&self) -> io::Result<UnixStream> {
        let stream = self.addressed(|path| UnixStream::connect(path))?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        is_ours(peer.uid.as_raw())?;
        Ok(stream)
    }

    /// Becomes the host of this place; `None` when another process is.
    ///
    /// # Errors
    /// When the lock can't be taken for another reason.
    pub fn claim(&self) -> io::Result<Option<Claim>> {
        self.prepare()?;
        let path = self.lock();
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(try_lock(&lock)?.then(|| Claim { place: self.clone(), lock }))
    }

    /// Other versions whose host runs at this place.
    pub fn others(&self) -> Vec<String> {
        let own = self.socket();
        let entries = fs::read_dir(self.run()).into_iter().flatten().flatten();
        let others = entries.map(|entry| entry.path()).filter(|path| *path != own);
        let live = others.filter(|path| {
            path.extension().is_some_and(|end| end == "sock") && UnixStream::connect(path).is_ok()
        });
        let version = |path: PathBuf| Some(path.file_stem()?.to_str()?.strip_prefix("host-")?.to_owned());
        live.filter_map(version).collect()
    }

    /// The log, opened to write at its end.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn open_log(&self) -> io::Result<File> {
        let path = self.log();
        create_private_dir(&self.home.join("log")).map_err(io::Error::other)?;
        OpenOptions::new().append(true).create(true).mode(0o600).open(path)
    }

    /// Begins the log again when it is long; what was in it is kept once. The host writes on in the
    /// same file.
    pub fn trim_log(&self) {
        let path = self.log();
        if fs::metadata(&path).is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
            let _ = fs::copy(&path, path.with_extension("log.1"));
            let _ = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(0));
        }
    }

    /// Does something with the socket's path, or with one that is as good and short enough.
    fn addressed<T>(&self, act: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
        let path = self.socket();
        if path.as_os_str().len() <= ADDRESS_MAX {
            return act(&path);
        }
        let folder = File::open(self.run())?;
        let name = path.file_name().unwrap_or_default();
        act(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
    }
}

impl Claim {
    /// Opens the door: what a dead host left is replaced.
    ///
    /// # Errors
    /// When the socket can't be made.
    pub fn listen(&self) -> io::Result<UnixListener> {
        self.close();
        let listener = self.place.addressed(|path| UnixListener::bind(path))?;
        fs::set_permissions(self.place.socket(), Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Opens the door again when somebody took it away; `None` while it stands. A claim whose own file went
    /// too is made anew, unless another process was faster: then the place is that one's.
    ///
    /// # Errors
    /// When the socket can't be made.
    pub fn reopen(&mut self) -> io::Result<Option<UnixListener>> {
        if fs::symlink_metadata(self.place.socket()).is_ok() {
            return Ok(None);
        }
        if !self.stands() {
            let Some(claim) = self.place.claim()? else { return Ok(None) };
            *self = claim;
        }
        self.listen().map(Some)
    }

    /// Takes the door away, unless it is another host's by now. Who comes from now on starts a host of its
    /// own, as soon as the claim is gone.
    pub fn close(&self) {
        if self.stands() {
            let _ = fs::remove_file(self.place.socket());
        }
    }

    /// Whether the file that is locked is the one that others would lock.
    fn stands(&self) -> bool {
        let found = fs::symlink_metadata(self.place.lock()).and_then(|at| Ok((at, self.lock.metadata()?)));
        found.is_ok_and(|(at, own)| (at.dev(), at.ino()) == (own.dev(), own.ino()))
    }
}

/// Whether a peer is a process of the same user.
///
/// # Errors
/// When it is not.
pub fn is_ours(uid: u32) -> io::Result<()> {
    if uid == getuid().as_raw() {
        return Ok(());
    }
    let text = format!("the other end belongs to user {uid}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_is_the_host_and_the_door_is_the_users_alone() {
        let home = tempfile::tempdir().unwrap();
        let long = home.path().join("x".repeat(120));
        for home in [home.path(), &long] {
            let place = Place::below(home);
            assert!(place.connect().is_err());
            let claim = place.claim().unwrap().unwrap();
            assert!(place.claim().unwrap().is_none());
            let listener = claim.listen().unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
            assert_eq!((mode(&place.socket()), mode(&place.run())), (0o600, 0o700));
            place.connect().unwrap();
            drop(listener);
            assert!(place.connect().is_err(), "a stale socket is no host");
            let _listener = claim.listen().unwrap();
            place.connect().unwrap();
            claim.close();
            drop(claim);
            assert!(place.claim().unwrap().is_some());
        }
    }

    #[test]
    fn a_door_that_somebody_took_away_is_opened_again() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::below(home.path());
        let mut claim = place.claim().unwrap().unwrap();
        let _first = claim.listen().unwrap();
        assert!(claim.reopen().unwrap().is_none(), "it stands");
        fs::remove_file(place.socket()).unwrap();
        let _second = claim.reopen().unwrap().unwrap();
        place.connect().unwrap();
        // With the whole folder, the claim is gone too.
        fs::remove_dir_all(place.run()).unwrap();
        let _third = claim.reopen().unwrap().unwrap();
        place.connect().unwrap();
        assert!(place.claim().unwrap().is_none());
    }

    #[test]
    fn a_host_whose_place_another_one_took_leaves_that_ones_door_alone() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::below(home.path());
        let mut claim = place.claim().unwrap().unwrap();
        let _listener = claim.listen().unwrap();
        fs::remove_dir_all(place.run()).unwrap();
        let other = place.claim().unwrap().unwrap();
        assert!(claim.reopen().unwrap().is_none(), "the other one has not opened yet");
        let _theirs = other.listen().unwrap();
        assert!(claim.reopen().unwrap().is_none());
        claim.close();
        place.connect().unwrap();
    }

    #[test]
    fn a_folder_that_others_may_enter_is_closed_first() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::below(home.path());
        fs::create_dir(place.run()).unwrap();
        fs::set_permissions(place.run(), Permissions::from_mode(0o755)).unwrap();
        place.prepare().unwrap();
        assert_eq!(fs::metadata(place.run()).unwrap().mode() & 0o777, 0o700);
        assert!(is_ours(getuid().as_raw()).is_ok() && is_ours(getuid().as_raw() + 1).is_err());
    }
}

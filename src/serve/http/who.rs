//! Who sends a request: a process of the same user, by the kernel's word about the connection, or
//! the holder of a token. Keeps the book of tokens fresh.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::watch;

use super::doors;
use crate::serve::Caller;
use crate::serve::tokens::{self, Fingerprint, TokenBook, TokenError};

/// Proof of identity that was accepted, with what is needed to look again.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Who it is.
    pub caller: Caller,
    /// The token that was shown; `None`: the kernel vouched, or nobody has to.
    print: Option<Fingerprint>,
}

/// Why a request has no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// Nothing was shown, and it is not known to be the same user.
    Nameless,
    /// The token is unknown, removed or expired.
    BadToken,
}

/// What decides who is let in.
#[derive(Debug)]
pub struct Gate {
    home: Option<PathBuf>,
    /// `--no-auth`: whoever reaches the port is the same user.
    open: bool,
    uid: u32,
    book: Mutex<Arc<TokenBook>>,
    seen: Mutex<[Option<Stamp>; 2]>,
    changed: watch::Sender<u64>,
}

/// What tells one content of a file from the next without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

impl Gate {
    /// The gate for the tokens in this folder; without one, only the same user comes in.
    ///
    /// # Errors
    /// When the tokens can't be read.
    pub fn new(home: Option<PathBuf>, open: bool) -> Result<Self, TokenError> {
        let book = match &home {
            Some(home) if !open => TokenBook::load(home)?,
            _ => TokenBook::default(),
        };
        let uid = rustix::process::geteuid().as_raw();
        let gate = Self {
            home,
            open,
            uid,
            book: Mutex::new(Arc::new(book)),
            seen: Mutex::default(),
            changed: watch::channel(0).0,
        };
        gate.note_stamps();
        Ok(gate)
    }

    /// Who sends this; `peer` is the user at the other end, where the kernel says.
    ///
    /// # Errors
    /// Why nobody.
    pub fn admit(&self, headers: &HeaderMap, peer: Option<u32>, now: SystemTime) -> Result<Pass, Stranger> {
        if self.open {
            return Ok(Pass { caller: Caller::same_user(), print: None });
        }
        // A token that is shown must be a good one, whoever shows it: so a removed one opens nothing.
        match doors::one(headers, AUTHORIZATION.as_str()) {
            Ok(None) if peer == Some(self.uid) => Ok(Pass { caller: Caller::same_user(), print: None }),
            Ok(None) => Err(Stranger::Nameless),
            Err(_) => Err(Stranger::BadToken),
            Ok(Some(line)) => {
                let token = line.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                let (_, token) = token.ok_or(Stranger::BadToken)?;
                let print = tokens::fingerprint(token.trim());
                let caller = self.book().find(&print, now).ok_or(Stranger::BadToken)?;
                Ok(Pass { caller, print: Some(print) })
            }
        }
    }

    /// Whether a pass still counts.
    pub fn still(&self, pass: &Pass, now: SystemTime) -> bool {
        let Some(print) = &pass.print else { return true };
        self.book().find(print, now).is_some_and(|caller| caller.identity == pass.caller.identity)
    }

    /// Resolves whenever the tokens, or what the clock says about them, may have changed.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Looks whether the files changed. A file that can't be used any more lets nobody in.
    pub fn refresh(&self) {
        if self.open || !self.note_stamps() {
            return;
        }
        let Some(home) = &self.home else { return };
        let book = TokenBook::load(home).unwrap_or_else(|error| {
            tracing::warn!(%error, "no token counts until this is mended");
            TokenBook::default()
        });
        *self.book.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(book);
        self.tick();
    }

    /// Has the passes of open streams looked at again if one may have expired.
    pub fn tick_expiring(&self) {
        if self.book().expires() {
            self.tick();
        }
    }

    /// Has the passes of open streams looked at again.
    pub fn tick(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn book(&self) -> Arc<TokenBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes how the files look; whether they look different.
    fn note_stamps(&self) -> bool {
        let Some(home) = &self.home else { return false };
        let now = [tokens::file(home), tokens::own_file(home)].map(|path| {
            let found = std::fs::metadata(path).ok()?;
            #[cfg(unix)]
            let inode = std::os::unix::fs::MetadataExt::ino(&found);
            #[cfg(not(unix))]
            let inode = 0;
            Some(Stamp { modified: found.modified().ok(), len: found.len(), inode })
        });
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *seen != now;
        *seen = now;
        changed
    }
}

//! Tokens by which clients over HTTP say who they are. The host's own token lies in
//! `$CALLBOARD_HOME/http-token` (0600, made at the first start): whoever can read it is the same
//! user. Named tokens are kept in `tokens.json` (0600) as SHA-256 of 256 random bits, shown once
//! when they are made. Blocking; used by the HTTP front and by `callboard token`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::caller::{Caller, Globs, Identity};
use crate::call::Door;
use crate::config::mode::Mode;
use crate::config::spec::Rate;
use crate::store::{self, FILE_BYTES_MAX, Lock, StoreError};

/// How each token begins, so that it is recognised where it should not be.
pub const PREFIX: &str = "callboard_";
/// Most named tokens.
pub const TOKENS_MAX: usize = 1000;
/// Longest name of a token, characters.
const NAME_LEN_MAX: usize = 64;

/// SHA-256 of a token.
pub type Fingerprint = [u8; 32];

/// Why tokens can't be used or changed. Never contains a token.
#[derive(Debug)]
pub enum TokenError {
    /// The file can't be read or written.
    Store(StoreError),
    /// Others than the owner may read it.
    Exposed(PathBuf),
    /// It does not hold what we write.
    Broken(PathBuf, String),
    /// Not a name: the text.
    BadName(String),
    /// There is one of that name.
    Taken(String),
    /// There is none of that name.
    Unknown(String),
    /// There are [`TOKENS_MAX`] already.
    Full,
    /// The system gives no random bytes.
    NoChance(String),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Exposed(path) => write!(
                f,
                "{path}: others may read it, so it is not used; run: chmod 600 {path}",
                path = path.display()
            ),
            Self::Broken(path, why) => {
                write!(f, "{}: {why}; repair or delete it", path.display())
            }
            Self::BadName(name) => {
                write!(f, "{name:?} can't name a token: use up to {NAME_LEN_MAX} letters, digits, and _ - .")
            }
            Self::Taken(name) => write!(f, "there is a token {name} already; remove it first"),
            Self::Unknown(name) => write!(f, "no token is called {name}"),
            Self::Full => write!(f, "there are {TOKENS_MAX} tokens, the most that are kept; remove some"),
            Self::NoChance(why) => write!(f, "no random bytes: {why}"),
        }
    }
}

impl std::error::Error for TokenError {}

impl From<StoreError> for TokenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What is kept of a named token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// Its name, which the audit log shows.
    pub name: String,
    /// SHA-256 of the token, hexadecimal.
    sha256: String,
    /// Patterns of what it may see; empty: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<TokenRate>,
    /// A mode of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// When it was made, RFC 3339.
    pub created: String,
    /// Until when it counts, RFC 3339; absent: until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// A limit as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRate {
    /// Requests per second, sustained.
    pub per_second: u32,
    /// Requests at once; 0: as many as per second.
    pub burst: u32,
}

/// What a new token may do.
#[derive(Clone, Debug, Default)]
pub struct TokenTerms {
    /// Patterns of what it may see; empty: everything.
    pub only: Vec<String>,
    /// Its limit.
    pub rate: Option<TokenRate>,
    /// A mode of its own.
    pub mode: Option<Mode>,
    /// Until when it counts.
    pub expires: Option<SystemTime>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    tokens: Vec<TokenEntry>,
}

/// The file of named tokens.
pub fn file(home: &Path) -> PathBuf {
    home.join("tokens.json")
}

/// The file of the host's own token.
pub fn own_file(home: &Path) -> PathBuf {
    home.join("http-token")
}

/// All named tokens, in the order in which they were made.
///
/// # Errors
/// When the file can't be read, or others can read it.
pub fn read(home: &Path) -> Result<Vec<TokenEntry>, TokenError> {
    let path = file(home);
    let Some(text) = private_text(&path)? else { return Ok(Vec::new()) };
    let broken = |why: String| TokenError::Broken(path.clone(), why);
    let file: File = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    if file.version != 1 {
        return Err(broken(format!("version {} was written by another Callboard", file.version)));
    }
    if let Some(bad) = file.tokens.iter().find(|token| Known::of(token).is_none()) {
        return Err(broken(format!("the entry of {:?} can't be read", bad.name)));
    }
    Ok(file.tokens)
}

/// Makes a token; the token itself is returned once and kept nowhere.
///
/// # Errors
/// When the name or a pattern is no such, when there is one of that name, or the file can't be
/// written.
pub fn add(home: &Path, name: &str, terms: &TokenTerms, now: SystemTime) -> Result<String, TokenError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(plain) {
        return Err(TokenError::BadName(name.to_owned()));
    }
    let token = fresh()?;
    change(home, |tokens| {
        if tokens.iter().any(|known| known.name == name) {
            return Err(TokenError::Taken(name.to_owned()));
        }
        if tokens.len() >= TOKENS_MAX {
            return Err(TokenError::Full);
        }
        tokens.push(TokenEntry {
            name: name.to_owned(),
            sha256: hex(&fingerprint(&token)),
            only: terms.only.clone(),
            rate: terms.rate,
            mode: terms.mode.map(|mode| mode.as_str().to_owned()),
            created: crate::time::rfc3339(now),
            expires: terms.expires.map(crate::time::rfc3339),
        });
        Ok(())
    })?;
    Ok(token)
}

/// Removes a token; a host that runs notices within two seconds.
///
/// # Errors
/// When there is none of that name, or the file can't be written.
pub fn remove(home: &Path, name: &str) -> Result<(), TokenError> {
    change(home, |tokens| {
        let before = tokens.len();
        tokens.retain(|known| known.name != name);
        if tokens.len() == before { Err(TokenError::Unknown(name.to_owned())) } else { Ok(()) }
    })
}

/// The host's own token, made when there is none.
///
/// # Errors
/// When its file can't be read or written, or others can read it.
pub fn own(home: &Path) -> Result<String, TokenError> {
    let path = own_file(home);
    let _lock = Lock::acquire(&path)?;
    if let Some(text) = private_text(&path)? {
        let token = text.trim();
        if token.len() >= PREFIX.len() + 43 {
            return Ok(token.to_owned());
        }
        return Err(TokenError::Broken(path, "it holds no token of ours".to_owned()));
    }
    let token = fresh()?;
    store::replace_atomic(&path, format!("{token}\n").as_bytes())?;
    Ok(token)
}

fn private_text(path: &Path) -> Result<Option<String>, TokenError> {
    let text = store::read_text(path, FILE_BYTES_MAX)?;
    if text.is_some() && store::is_readable_by_others(path) {
        return Err(TokenError::Exposed(path.to_path_buf()));
    }
    Ok(text)
}

fn change(
    home: &Path,
    edit: impl FnOnce(&mut Vec<TokenEntry>) -> Result<(), TokenError>,
) -> Result<(), TokenError> {
    let path = file(home);
    let _lock = Lock::acquire(&path)?;
    let mut tokens = read(home)?;
    edit(&mut tokens)?;
    let mut text = serde_json::to_string_pretty(&File { version: 1, tokens })
        .map_err(|error| TokenError::Broken(path.clone(), error.to_string()))?;
    text.push('\n');
    Ok(store::write_atomic(&path, text.as_bytes(), store::Mode::Private)?)
}

fn fresh() -> Result<String, TokenError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::NoChance(error.to_string()))?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// SHA-256 of a token. What is compared is this, so no comparison tells anything about a token.
pub fn fingerprint(token: &str) -> Fingerprint {
    Sha256::digest(token.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Fingerprint> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (slot, at) in out.iter_mut().zip((0..64).step_by(2)) {
        *slot = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(out)
}

/// Whether two fingerprints are equal, in a time that does not depend on where they differ.
fn same(a: &Fingerprint, b: &Fingerprint) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0_u8, |seen, (a, b)| seen | (a ^ b))) == 0
}

#[derive(Clone, Debug)]
struct Known {
    fingerprint: Fingerprint,
    expires: Option<SystemTime>,
    caller: Caller,
}

impl Known {
    fn of(entry: &TokenEntry) -> Option<Self> {
        let only = match entry.only.as_slice() {
            [] => None,
            patterns => Some(Globs::new(patterns.iter().map(String::as_str)).ok()?),
        };
        let mode = match &entry.mode {
            Some(word) => Some(Mode::parse(word)?),
            None => None,
        };
        let expires = match &entry.expires {
            Some(text) => Some(humantime::parse_rfc3339(text).ok()?),
            None => None,
        };
        let rate = entry.rate.map(|rate| Rate { per_second: rate.per_second, burst: rate.burst });
        let identity = Identity::Token(entry.name.as_str().into());
        Some(Self {
            fingerprint: unhex(&entry.sha256)?,
            expires,
            caller: Caller { identity, only, mode, rate, door: Door::Host },
        })
    }
}

/// The tokens that count now, as a value.
#[derive(Clone, Debug, Default)]
pub struct TokenBook {
    own: Option<Fingerprint>,
    named: Vec<Known>,
}

impl TokenBook {
    /// What counts: the host's own token and those of the file.
    ///
    /// # Errors
    /// As [`own`] and [`read`].
    pub fn load(home: &Path) -> Result<Self, TokenError> {
        let own = Some(fingerprint(&own(home)?));
        Ok(Self { own, named: read(home)?.iter().filter_map(Known::of).collect() })
    }

    /// Whether one of them ends by itself.
    pub fn expires(&self) -> bool {
        self.named.iter().any(|known| known.expires.is_some())
    }

    /// Whose token it is. Time says nothing about a token that is nearly right: what is compared is the
    /// hash of what was shown, so neither its length nor how much of it fits is seen in here (hashing takes
    /// as long as the shown text is, which its sender knows); of each hash all bytes are compared, and all
    /// tokens are, whichever fits.
    pub fn find(&self, print: &Fingerprint, now: SystemTime) -> Option<Caller> {
        self.look(now, |known| same(known, print))
    }

    fn look(&self, now: SystemTime, mut fits: impl FnMut(&Fingerprint) -> bool) -> Option<Caller> {
        let mut found = None;
        for known in &self.named {
            let counts = known.expires.is_none_or(|until| now < until);
            if fits(&known.fingerprint) && counts {
                found = Some(known.caller.clone());
            }
        }
        match &self.own {
            Some(own) if fits(own) => Some(Caller::same_user()),
            _ => found,
        }
    }
}

#[cfg(test)]
mod tests;

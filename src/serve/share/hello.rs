//! What is said first on the socket: one line from the client, one from the host; then the socket is a
//! pipe. The line holds what the client's configuration is expanded with, secrets of its environment
//! among them: it goes over the user's own socket only, and is written nowhere.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::place::VERSION;
use crate::call::{Delivery, Phase};
use crate::config::load::{Env, LoadOptions};
use crate::serve::talk::Said;

/// Longest line, in bytes: an environment can be large, and so can the arguments of a call.
pub const LINE_MAX: usize = 40 << 20;

/// The first line of a client.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the program.
    pub version: String,
    /// Callboard's own folder.
    pub home: PathBuf,
    /// What it wants.
    pub wants: Wants,
}

/// What a client wants of the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wants {
    /// To be served from now on.
    Join(Join),
    /// One thing done.
    Command(Command),
}

/// A client: what decides what it is served.
#[derive(Clone, Serialize, Deserialize)]
pub struct Join {
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Names of variables that are set to something that is not UTF-8.
    pub unreadable: Vec<String>,
    /// Its working folder, absolute.
    pub cwd: PathBuf,
    /// `--mcp-config`
    pub config_files: Vec<PathBuf>,
    /// `--strict-mcp-config`
    pub strict: bool,
    /// Settings from flags: dotted key and value.
    pub settings: Vec<(String, String)>,
    /// `--only`
    pub only: Vec<String>,
    /// `--approval client`
    pub approves: Option<bool>,
    /// It lends the host its stdin and stdout before its first word, and says nothing itself.
    #[serde(default)]
    pub lends: bool,
    /// `--no-watch`: its files are read again only when somebody asks.
    pub watch: bool,
}

/// Without the environment.
impl std::fmt::Debug for Join {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Join").field("cwd", &self.cwd).field("only", &self.only).finish_non_exhaustive()
    }
}

impl Join {
    /// A client with these options.
    pub fn of(options: &LoadOptions) -> Self {
        Self {
            env: options.env.to_map(),
            unreadable: options.env.unreadable().map(str::to_owned).collect(),
            cwd: options.cwd.clone(),
            config_files: options.config_files.clone(),
            strict: options.strict,
            settings: options.settings.clone(),
            only: Vec::new(),
            approves: None,
            lends: false,
            watch: true,
        }
    }

    /// What its configuration is loaded with.
    pub fn options(&self) -> LoadOptions {
        let mut env: Env = self.env.clone().into_iter().collect();
        for name in &self.unreadable {
            env.set_os(name.into(), OsString::from_vec(vec![0xff]));
        }
        LoadOptions {
            config_files: self.config_files.clone(),
            strict: self.strict,
            settings: self.settings.clone(),
            ..LoadOptions::new(env, &self.cwd)
        }
    }
}

/// One thing that is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Command {
    /// Whose view it is about.
    pub client: Join,
    /// The verb.
    pub verb: String,
    /// The servers that are meant; none: all.
    pub servers: Vec<String>,
    /// How long to wait at most, where the verb waits.
    pub within_ms: Option<u64>,
    /// What else the verb takes, in a form that the edge on both ends knows.
    pub args: Option<Box<RawValue>>,
    /// What the process that asks is attached to.
    pub screen: Screen,
}

/// What a process that asks is attached to.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Screen {
    /// Columns behind its stdout, if that is a screen.
    pub width: Option<u16>,
    /// Whether in colour.
    pub color: bool,
    /// Columns behind its stderr, if that is a screen.
    pub width_err: Option<u16>,
    /// Whether it wants JSON.
    pub json: bool,
    /// Whether somebody can be asked.
    pub asks: bool,
}

/// The first line of the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The client is served; the socket is its pipe.
    Joined {
        /// Process of the host.
        pid: u32,
    },
    /// It is not, and why.
    Refused {
        /// Stable code.
        code: String,
        /// Why, for people.
        message: String,
    },
    /// A word before the end of a command.
    Says(Said),
    /// What came of a command.
    Did(Deed),
}

/// What came of a command, ready to be shown.
#[derive(Debug, Serialize, Deserialize)]
pub struct Deed {
    /// What the command's process ends with.
    pub exit: u8,
    /// The answer as JSON, byte for byte.
    pub data: Box<RawValue>,
    /// The same for a person.
    pub human: String,
    /// Doubts worth telling.
    pub warnings: Vec<String>,
    /// Why it was not done, if it was not.
    pub failure: Option<Failing>,
}

/// Why something was not done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failing {
    /// Stable code.
    pub code: String,
    /// Why, for people.
    pub message: String,
    /// The causes behind it, for scripts.
    pub detail: Option<String>,
    /// What cures it.
    pub fix: Option<String>,
    /// The server that it is about.
    pub server: Option<String>,
    /// The tool, resource or prompt.
    pub tool: Option<String>,
    /// Where a call ended.
    pub phase: Option<Phase>,
    /// What is known about its execution.
    pub delivery: Option<Delivery>,
    /// When to try again, if waiting helps.
    pub retry_after_ms: Option<u64>,
    /// What the server answered, as sent.
    pub rpc_error: Option<Box<RawValue>>,
}

impl Reply {
    /// A refusal.
    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::Refused { code: code.to_owned(), message: message.into() }
    }
}

impl Hello {
    /// What this program says.
    pub fn new(home: PathBuf, wants: Wants) -> Self {
        Self { version: VERSION.to_owned(), home, wants }
    }

    /// Why this host is not the one of such a client.
    pub fn misfit(&self, home: &std::path::Path) -> Option<Reply> {
        if self.version != VERSION {
            let text = format!("this host is version {VERSION}, its client {}", self.version);
            return Some(Reply::refused("other_version", text));
        }
        (self.home != home).then(|| {
            let text = format!("this host serves {}, not {}", home.display(), self.home.display());
            Reply::refused("other_home", text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_loaded_with_what_it_said_and_its_environment_is_never_shown() {
        let mut env: Env = [("TOKEN", "s3cr3t")].into_iter().collect();
        env.set_os("ODD".into(), OsString::from_vec(vec![0xfe]));
        let join = Join::of(&LoadOptions { strict: true, ..LoadOptions::new(env, "/work") });
        let line = serde_json::to_string(&Hello::new("/h".into(), Wants::Join(join))).unwrap();
        let hello: Hello = serde_json::from_str(&line).unwrap();
        assert!(!format!("{hello:?}").contains("s3cr3t"));
        let Wants::Join(join) = hello.wants else { panic!("a client") };
        let options = join.options();
        assert_eq!((options.env.get("TOKEN"), options.strict), (Some("s3cr3t"), true));
        assert!(options.env.is_unreadable("ODD") && options.cwd == std::path::Path::new("/work"));
    }

    #[test]
    fn another_version_and_another_folder_are_other_hosts() {
        let command = || Wants::Join(Join::of(&LoadOptions::new(Env::default(), "/")));
        let home = std::path::Path::new("/h");
        assert!(Hello::new("/h".into(), command()).misfit(home).is_none());
        assert!(Hello::new("/g".into(), command()).misfit(home).is_some());
        let other = Hello { version: "0.0.0".to_owned(), ..Hello::new("/h".into(), command()) };
        assert!(matches!(other.misfit(home), Some(Reply::Refused { code, .. }) if code == "other_version"));
    }
}

//! Floor 1. The validated configuration: what the runtime runs on. No serde here;
//! a value of these types is known to be sound. Written by `config::validate` only.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use super::bounds::{BreakerSpec, Limits, Rate, RestartSpec, Timeouts};
pub use super::issue::{Issue, IssueCode, Severity};
use crate::id::ServerId;

/// A value that is never shown: `Debug` and `Display` print `[redacted]`.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself: for the child's environment, a header, or the redactor.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The scope that a source belongs to. Later scopes win per server name (spec section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Built-in defaults.
    Default,
    /// The user's own file.
    User,
    /// A file of the project: not trusted until approved.
    Project,
    /// A path in `CALLBOARD_MCP_CONFIG`.
    EnvFile,
    /// Inline JSON in the environment.
    EnvInline,
    /// `--mcp-config FILE`.
    Flag,
    /// `/etc/callboard`: cannot be overridden.
    Managed,
}

impl Scope {
    /// The word used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User => "user",
            Self::Project => "project",
            Self::EnvFile => "env_file",
            Self::EnvInline => "env_inline",
            Self::Flag => "flag",
            Self::Managed => "managed",
        }
    }

    /// The scope of that word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [
            Self::Default,
            Self::User,
            Self::Project,
            Self::EnvFile,
            Self::EnvInline,
            Self::Flag,
            Self::Managed,
        ];
        all.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its scope.
    pub scope: Scope,
    /// File path, or the name of the environment variable.
    pub origin: Arc<str>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.scope.as_str(), self.origin)
    }
}

/// The whole effective set of servers.
#[derive(Clone, Debug, Default)]
pub struct ServerSet {
    /// One entry per name, sorted by name.
    pub entries: Vec<Entry>,
    /// Project entries that wait for approval while an entry of the same name from another
    /// source stays effective; sorted by name. They neither shadow nor disable anything.
    pub pending: Vec<Entry>,
    /// Issues of whole files; those of an entry are in the entry.
    pub issues: Vec<Issue>,
    /// Every secret value that is known from the configuration, for the redactor.
    pub secrets: Vec<SecretText>,
    /// The credentials among them by the servers that use them; for the outbound guard.
    pub credentials: BTreeMap<ServerId, Vec<SecretText>>,
}

impl ServerSet {
    /// The entry of that name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id.as_str() == name)
    }
}

/// One configured name, whatever state it is in.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name.
    pub id: ServerId,
    /// Where the winning definition stands.
    pub source: Source,
    /// Root of the project that it belongs to, where servers of several projects run together; `None`:
    /// that of the run.
    pub project: Option<Arc<Path>>,
    /// Definitions of the same name that it hides, strongest first.
    pub shadows: Vec<Source>,
    /// What can be done with it.
    pub state: EntryState,
    /// Everything noticed about this entry.
    pub issues: Vec<Issue>,
    /// SHA-256 (hex) over the canonical unexpanded entry: what an approval is bound to.
    pub hash: String,
    /// `stdio`, `http`, `sse` or `invalid`; `-` for an entry that only turns a name off. For
    /// display of entries that have no spec.
    pub transport: &'static str,
    /// Command line or URL as written, unexpanded, secrets masked; for display.
    pub summary: String,
    /// `label`: a name for people, as written.
    pub label: Option<String>,
    /// `description`: a text for people, as written.
    pub description: Option<String>,
    /// `required`: the host is not healthy while this server is not usable.
    pub required: bool,
    /// What holds it down although the configuration lets it run.
    pub down: Option<Down>,
}

/// Why an entry is held down, and what lets it go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// The reason, for people.
    pub why: Arc<str>,
    /// The command that lets it go.
    pub fix: Arc<str>,
}

/// What can be done with an entry.
#[derive(Clone, Debug)]
pub enum EntryState {
    /// It may run.
    Ready(Arc<ServerSpec>),
    /// Kept, but turned off.
    Disabled,
    /// A project entry that waits for approval: nothing of it is expanded or started.
    Pending,
    /// Not usable as written; the issues say why.
    Invalid,
}

/// One server, validated and fully expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// The name.
    pub id: ServerId,
    /// Hash of the unexpanded entry.
    pub hash: String,
    /// How to reach it.
    pub transport: TransportSpec,
    /// Globs on raw tool names that decide what is listed.
    pub filter: ToolFilter,
    /// `allowedTools`: when present, only these may be called, and these run without asking.
    pub allowed_tools: Option<Globs>,
    /// `deniedTools`: beats everything.
    pub denied_tools: Globs,
    /// How far its word counts.
    pub trust: Trust,
    /// `allowAllTools`
    pub allow_all_tools: bool,
    /// `allowHostProcess`
    pub allow_host_process: bool,
    /// The limits in time.
    pub timeouts: Timeouts,
    /// Era choice.
    pub protocol: Protocol,
    /// Breaker figures.
    pub breaker: BreakerSpec,
    /// Restart law.
    pub restart: RestartSpec,
    /// Bounds.
    pub limits: Limits,
    /// Rate limit, if any.
    pub rate: Option<Rate>,
    /// When to start.
    pub start: StartMode,
    /// Stop after that long without a call.
    pub idle_stop: Option<Duration>,
    /// Files whose change restarts it (globs).
    pub watch: Vec<String>,
    /// One process for all clients or one for each.
    pub sharing: Sharing,
    /// It acts as one person, by a credential that stands in the entry or a login, and the entry does not
    /// say `shared_identity`: nobody but that person is served by it.
    pub is_personal: bool,
    /// Further host variables that the child may see.
    pub env_passthrough: Vec<String>,
    /// Confinement.
    pub sandbox: Sandbox,
}

/// How to reach a server; exactly one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportSpec {
    /// A child process.
    Stdio {
        /// Program as written, expanded.
        command: String,
        /// Arguments, expanded.
        args: Vec<SecretText>,
        /// Configured variables, expanded; the minimal environment is added at launch.
        env: Vec<(String, SecretText)>,
        /// Absolute working directory.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// Absolute URL, expanded.
        url: SecretText,
        /// Headers, expanded, `Authorization` from `bearer_token_env` included.
        headers: Vec<(String, SecretText)>,
    },
    /// The old HTTP+SSE transport was asked for: parked as config error until it is spoken.
    LegacySse {
        /// Absolute URL, expanded.
        url: SecretText,
    },
}

/// Glob patterns on raw tool names, case-sensitive, whole name.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    patterns: Vec<String>,
    set: Option<globset::GlobSet>,
}

impl PartialEq for Globs {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for Globs {}

impl Globs {
    /// Compiles the patterns; the error names the bad one. `*` matches any characters, `/` included.
    pub fn compile(patterns: &[String]) -> Result<Self, String> {
        let mut builder = globset::GlobSetBuilder::new();
        for pattern in patterns {
            let glob = globset::GlobBuilder::new(pattern)
                .literal_separator(false)
                .build()
                .map_err(|e| format!("bad pattern {pattern:?}: {}", e.kind()))?;
            builder.add(glob);
        }
        let set = builder.build().map_err(|e| format!("patterns too complex: {}", e.kind()))?;
        Ok(Self { patterns: patterns.to_vec(), set: Some(set) })
    }

    /// Whether a name matches any pattern.
    pub fn matches(&self, name: &str) -> bool {
        self.set.as_ref().is_some_and(|set| set.is_match(name))
    }

    /// The first pattern, as written, that matches a name.
    pub fn first_match(&self, name: &str) -> Option<&str> {
        let index = *self.set.as_ref()?.matches(name).first()?;
        self.patterns.get(index).map(String::as_str)
    }

    /// The patterns as written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

/// Which tools are listed at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// When not empty: only these.
    pub include: Globs,
    /// Used when `include` is empty: not these.
    pub exclude: Globs,
}

impl ToolFilter {
    /// Whether a raw tool name is listed.
    pub fn keeps(&self, raw: &str) -> bool {
        if self.include.is_empty() { !self.exclude.matches(raw) } else { self.include.matches(raw) }
    }
}

/// How far a server's own word about its tools counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Not at all.
    #[default]
    Untrusted,
    /// As untrusted, and tools that look mutating are refused.
    ReadOnly,
    /// Its read-only hints count.
    Trusted,
}

impl Trust {
    /// As in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::ReadOnly => "read-only",
            Self::Trusted => "trusted",
        }
    }
}

/// `protocol`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Find out, remember.
    #[default]
    Auto,
    /// Up to 2025-11-25.
    Legacy,
    /// From 2026-07-28.
    Modern,
}

/// `start`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StartMode {
    /// With the host.
    #[default]
    Eager,
    /// At the first use.
    Lazy,
}

/// `sharing`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// One process for all sessions.
    #[default]
    Shared,
    /// One for each.
    Session,
}

/// `sandbox`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// None.
    #[default]
    Off,
    /// Working and temporary folder only.
    Fs,
    /// And no network.
    FsNet,
    /// Spelled out.
    Custom {
        /// Readable paths.
        read: Vec<String>,
        /// Writable paths.
        write: Vec<String>,
        /// Whether the network is open.
        net: bool,
    },
}

/// How exposed names are made (spec section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NamingStyle {
    /// `mcp__server__tool`
    #[default]
    McpDouble,
    /// `mcp_server_tool`, lowercase, numbered collisions.
    McpSingle,
    /// `server__tool`
    ServerTool,
    /// `tool`; a clash is a conflict.
    Bare,
}

impl ServerSpec {
    /// A server with the built-in defaults: what an entry that says nothing else means.
    pub fn new(name: &str, transport: TransportSpec) -> Self {
        Self {
            id: ServerId::new(name),
            hash: String::new(),
            transport,
            filter: ToolFilter::default(),
            allowed_tools: None,
            denied_tools: Globs::default(),
            trust: Trust::default(),
            allow_all_tools: false,
            allow_host_process: false,
            timeouts: Timeouts::default(),
            protocol: Protocol::default(),
            breaker: BreakerSpec::default(),
            restart: RestartSpec::default(),
            limits: Limits::default(),
            rate: None,
            start: StartMode::default(),
            idle_stop: None,
            watch: Vec::new(),
            sharing: Sharing::default(),
            is_personal: false,
            env_passthrough: Vec::new(),
            sandbox: Sandbox::default(),
        }
    }
}

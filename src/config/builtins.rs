//! Floor 1. The settings of the host's own tools: which are offered, where they read and write, where
//! they search. The keys are in the table of `host_keys`.

use std::path::PathBuf;

/// `serve.builtins`: which of the host's own tools are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BuiltinsChoice {
    /// All when no server is configured, else those that describe.
    #[default]
    Auto,
    /// All.
    All,
    /// Those that describe what is there.
    Describe,
    /// None.
    None,
}

/// `builtins.web_search.provider`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SearchProvider {
    /// There is no search.
    #[default]
    Off,
    /// A SearXNG of the user's own, with `json` among its formats.
    SearXng,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// The pages of DuckDuckGo for browsers without scripts.
    DuckDuckGo,
}

/// `builtins.web_search.*`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchSettings {
    /// `provider`
    pub provider: SearchProvider,
    /// `url`: where it is; empty for the provider's own place.
    pub url: String,
    /// `key`: a reference to the secret, as written; never the secret.
    pub key: String,
}

/// The settings of the host's own tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltinsSettings {
    /// `serve.builtins`
    pub choice: BuiltinsChoice,
    /// `serve.read_roots`: folders below which files are read; none: the project's root.
    pub read_roots: Vec<PathBuf>,
    /// `serve.allow_writes`: whether `write_file` is there.
    pub allow_writes: bool,
    /// `builtins.disabled`: globs on names of tools.
    pub disabled: Vec<String>,
    /// `builtins.allowed_paths`: globs on absolute paths; none: everything below the read roots.
    pub allowed_paths: Vec<String>,
    /// `builtins.blocked_paths`: globs on absolute paths; they beat the allowed ones.
    pub blocked_paths: Vec<String>,
    /// `builtins.web_search.*`
    pub search: SearchSettings,
}

//! Floor 1. The words of the keys that hold one of a few, with what each means. A part of the table in
//! `host_keys`.

use super::builtins::{BuiltinsChoice, SearchProvider};
use super::host::{AuditMode, ColorChoice, LogLevel};
use super::mode::{Mode, SpawnCheck};
use super::serve::ServeApproval;
use super::spec::NamingStyle;

pub(super) const NAMING_WORDS: [(&str, NamingStyle); 4] = [
    ("mcp__server__tool", NamingStyle::McpDouble),
    ("mcp_server_tool", NamingStyle::McpSingle),
    ("server__tool", NamingStyle::ServerTool),
    ("bare", NamingStyle::Bare),
];
pub(super) const COLOR_WORDS: [(&str, ColorChoice); 3] =
    [("auto", ColorChoice::Auto), ("always", ColorChoice::Always), ("never", ColorChoice::Never)];
pub(super) const AUDIT_WORDS: [(&str, AuditMode); 3] =
    [("strict", AuditMode::Strict), ("best-effort", AuditMode::BestEffort), ("off", AuditMode::Off)];
pub(super) const LOG_WORDS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
pub(super) const MODE_WORDS: [(&str, Mode); 4] =
    [("plan", Mode::Plan), ("safe", Mode::Safe), ("readonly", Mode::ReadOnly), ("auto", Mode::Auto)];
pub(super) const CHECK_WORDS: [(&str, SpawnCheck); 2] =
    [("safe", SpawnCheck::Safe), ("always", SpawnCheck::Always)];
pub(super) const SERVE_APPROVAL_WORDS: [(&str, ServeApproval); 2] =
    [("elicitation", ServeApproval::Elicitation), ("client", ServeApproval::Client)];
pub(super) const BUILTINS_WORDS: [(&str, BuiltinsChoice); 4] = [
    ("auto", BuiltinsChoice::Auto),
    ("all", BuiltinsChoice::All),
    ("describe", BuiltinsChoice::Describe),
    ("none", BuiltinsChoice::None),
];
pub(super) const SEARCH_WORDS: [(&str, SearchProvider); 5] = [
    ("off", SearchProvider::Off),
    ("searxng", SearchProvider::SearXng),
    ("tavily", SearchProvider::Tavily),
    ("exa", SearchProvider::Exa),
    ("duckduckgo", SearchProvider::DuckDuckGo),
];

pub(super) fn word_of<T: Copy + PartialEq, const N: usize>(
    words: &[(&'static str, T); N],
    value: T,
) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

pub(super) fn value_of<T: Copy, const N: usize>(words: &[(&'static str, T); N], word: &str) -> Option<T> {
    words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

/// The word of a log level.
pub(super) fn log_word(level: LogLevel) -> &'static str {
    word_of(&LOG_WORDS, level)
}

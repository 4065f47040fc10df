//! Floor 1. The keys of `callboard.toml`, as one table that says for each what it may be,
//! what a project may do with it, and which field it is. `default.toml`, the files, the
//! environment and `mcp config` all go through it. Called by `config::load` and `effective`.

use std::path::PathBuf;

use super::agent_keys::AGENT_KEYS;
use super::host::{HostKey, Kind, ProjectRule, Setting};
use super::host_words::{
    AUDIT_WORDS, BUILTINS_WORDS, CHECK_WORDS, COLOR_WORDS, LOG_WORDS, MODE_WORDS, NAMING_WORDS, SEARCH_WORDS,
    SERVE_APPROVAL_WORDS, value_of, word_of,
};
use super::raw::{COUNT_MAX, START_WORDS};
use super::spec::Rate;

/// The environment variable of a key: `CALLBOARD_` and the name in capitals, with `_` for each dot.
pub fn variable(name: &str) -> String {
    format!("CALLBOARD_{}", name.replace('.', "_").to_ascii_uppercase())
}

/// The key of that name.
pub fn find(name: &str) -> Option<&'static HostKey> {
    HOST_KEYS.iter().find(|key| key.name == name)
}

macro_rules! host_key {
    ($name:literal, $kind:expr, $rule:expr, $variant:ident, |$s:ident| $get:expr, |$t:ident, $v:ident| $set:expr) => {
        HostKey {
            name: $name,
            kind: $kind,
            project: $rule,
            get: |$s| Setting::$variant($get),
            set: |$t, setting| {
                if let Setting::$variant($v) = setting {
                    $set
                }
            },
        }
    };
}

pub(super) const LOWER: ProjectRule = ProjectRule::Lower { zero_is_unlimited: false };
pub(super) const TIME: Kind = Kind::Duration;
pub(super) const SOME: Kind = Kind::Count { min: 1, max: COUNT_MAX };
pub(super) use host_key;

/// Every key, in the order of the manual.
pub const HOST_KEYS: &[HostKey] = &joined::<{ OWN_KEYS.len() + AGENT_KEYS.len() }>(OWN_KEYS, AGENT_KEYS);

const fn joined<const N: usize>(first: &[HostKey], rest: &[HostKey]) -> [HostKey; N] {
    let mut all = [first[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() { first[at] } else { rest[at - first.len()] };
        at += 1;
    }
    all
}

const ANY: Kind = Kind::Count { min: 0, max: COUNT_MAX };

/// The keys of the host.
const OWN_KEYS: &[HostKey] = &[
    host_key!(
        "mode",
        Kind::Word(&["plan", "safe", "readonly", "auto"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&MODE_WORDS, s.mode),
        |t, v| t.mode = value_of(&MODE_WORDS, v).unwrap_or(t.mode)
    ),
    host_key!(
        "start",
        Kind::Word(&["eager", "lazy"]),
        ProjectRule::Free,
        Word,
        |s| word_of(&START_WORDS, s.start),
        |t, v| t.start = value_of(&START_WORDS, v).unwrap_or(t.start)
    ),
    host_key!(
        "roots",
        Kind::Folders,
        ProjectRule::Never,
        Texts,
        |s| s.roots.iter().map(|folder| folder.to_string_lossy().into_owned()).collect(),
        |t, v| t.roots = v.iter().map(PathBuf::from).collect()
    ),
    host_key!(
        "naming.style",
        Kind::Word(&["mcp__server__tool", "mcp_server_tool", "server__tool", "bare"]),
        ProjectRule::Free,
        Word,
        |s| word_of(&NAMING_WORDS, s.naming),
        |t, v| t.naming = value_of(&NAMING_WORDS, v).unwrap_or(t.naming)
    ),
    host_key!(
        "naming.name_len_max",
        Kind::Count { min: 24, max: 64 },
        ProjectRule::Free,
        Count,
        |s| wide(s.name_len_max),
        |t, v| t.name_len_max = size(*v)
    ),
    host_key!("naming.reserved", Kind::Texts, ProjectRule::Free, Texts, |s| s.reserved.clone(), |t, v| t
        .reserved
        .clone_from(v)),
    host_key!(
        "display.color",
        Kind::Word(&["auto", "always", "never"]),
        ProjectRule::Free,
        Word,
        |s| word_of(&COLOR_WORDS, s.color),
        |t, v| t.color = value_of(&COLOR_WORDS, v).unwrap_or(t.color)
    ),
    host_key!(
        "log.level",
        Kind::Word(&["off", "error", "warn", "info", "debug", "trace"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&LOG_WORDS, s.log_level),
        |t, v| t.log_level = value_of(&LOG_WORDS, v).unwrap_or(t.log_level)
    ),
    host_key!(
        "audit.mode",
        Kind::Word(&["strict", "best-effort", "off"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&AUDIT_WORDS, s.audit),
        |t, v| t.audit = value_of(&AUDIT_WORDS, v).unwrap_or(t.audit)
    ),
    host_key!(
        "audit.file_max",
        Kind::Bytes,
        ProjectRule::Never,
        Bytes,
        |s| wide(s.audit_file_max),
        |t, v| t.audit_file_max = size(*v)
    ),
    host_key!("timeouts.idle", TIME, LOWER, Duration, |s| s.timeouts.idle, |t, v| t.timeouts.idle = *v),
    host_key!("timeouts.connect", TIME, LOWER, Duration, |s| s.timeouts.connect, |t, v| t.timeouts.connect =
        *v),
    host_key!("timeouts.max_start", TIME, LOWER, Duration, |s| s.timeouts.max_start, |t, v| t
        .timeouts
        .max_start =
        *v),
    host_key!("timeouts.total", TIME, LOWER, Duration, |s| s.timeouts.total, |t, v| t.timeouts.total = *v),
    host_key!("timeouts.list", TIME, LOWER, Duration, |s| s.timeouts.list, |t, v| t.timeouts.list = *v),
    host_key!("timeouts.permit", TIME, LOWER, Duration, |s| s.timeouts.permit, |t, v| t.timeouts.permit = *v),
    host_key!(
        "breaker.failures",
        ANY,
        ProjectRule::Never,
        Count,
        |s| u64::from(s.breaker.failures),
        |t, v| t.breaker.failures = small(*v)
    ),
    host_key!("breaker.open_for", TIME, ProjectRule::Never, Duration, |s| s.breaker.open_for, |t, v| t
        .breaker
        .open_for =
        *v),
    host_key!(
        "breaker.count_tool_errors",
        Kind::Flag,
        ProjectRule::Never,
        Flag,
        |s| s.breaker.count_tool_errors,
        |t, v| t.breaker.count_tool_errors = *v
    ),
    host_key!(
        "restart.max",
        ANY,
        ProjectRule::Lower { zero_is_unlimited: true },
        Count,
        |s| u64::from(s.restart.max),
        |t, v| t.restart.max = small(*v)
    ),
    host_key!("restart.window", TIME, ProjectRule::Never, Duration, |s| s.restart.window, |t, v| t
        .restart
        .window =
        *v),
    host_key!("restart.min", TIME, ProjectRule::Never, Duration, |s| s.restart.min_delay, |t, v| t
        .restart
        .min_delay =
        *v),
    host_key!("restart.max_delay", TIME, ProjectRule::Never, Duration, |s| s.restart.max_delay, |t, v| t
        .restart
        .max_delay =
        *v),
    host_key!("limits.in_flight", SOME, LOWER, Count, |s| wide(s.limits.in_flight), |t, v| t
        .limits
        .in_flight =
        size(*v)),
    host_key!("limits.queue", ANY, LOWER, Count, |s| wide(s.limits.queue), |t, v| t.limits.queue = size(*v)),
    host_key!("limits.frame_max", Kind::Bytes, LOWER, Bytes, |s| wide(s.limits.frame_max), |t, v| t
        .limits
        .frame_max =
        size(*v)),
    host_key!("limits.result_max", Kind::Bytes, LOWER, Bytes, |s| wide(s.limits.result_max), |t, v| t
        .limits
        .result_max =
        size(*v)),
    host_key!("limits.in_flight_max", SOME, LOWER, Count, |s| wide(s.in_flight_max), |t, v| t
        .in_flight_max =
        size(*v)),
    host_key!("limits.spawns_max", SOME, LOWER, Count, |s| wide(s.spawns_max), |t, v| t.spawns_max =
        size(*v)),
    host_key!(
        "rate.per_second",
        ANY,
        ProjectRule::Lower { zero_is_unlimited: true },
        Count,
        |s| s.rate.map_or(0, |rate| u64::from(rate.per_second)),
        |t, v| t.rate = rate(small(*v), t.rate.map_or(0, |rate| rate.burst))
    ),
    host_key!(
        "rate.burst",
        ANY,
        ProjectRule::Lower { zero_is_unlimited: true },
        Count,
        |s| s.rate.map_or(0, |rate| u64::from(rate.burst)),
        |t, v| t.rate = rate(t.rate.map_or(0, |rate| rate.per_second), small(*v))
    ),
    host_key!(
        "refresh.poll",
        Kind::Interval,
        ProjectRule::Never,
        Duration,
        |s| s.refresh_poll.unwrap_or_default(),
        |t, v| t.refresh_poll = (!v.is_zero()).then_some(*v)
    ),
    host_key!(
        "env.passthrough",
        Kind::Variables,
        ProjectRule::Never,
        Texts,
        |s| s.env_passthrough.clone(),
        |t, v| t.env_passthrough.clone_from(v)
    ),
    host_key!("approval.expires", TIME, ProjectRule::Never, Duration, |s| s.approval_expires, |t, v| t
        .approval_expires =
        *v),
    host_key!("spawn.enabled", Kind::Flag, ProjectRule::Never, Flag, |s| s.spawn_enabled, |t, v| t
        .spawn_enabled =
        *v),
    host_key!(
        "spawn.check",
        Kind::Word(&["safe", "always"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&CHECK_WORDS, s.spawn_check),
        |t, v| t.spawn_check = value_of(&CHECK_WORDS, v).unwrap_or(t.spawn_check)
    ),
    host_key!("spawn.allow", Kind::Paths, ProjectRule::Never, Texts, |s| s.spawn_allow.clone(), |t, v| t
        .spawn_allow
        .clone_from(v)),
    host_key!(
        "serve.naming",
        Kind::Word(&["mcp__server__tool", "mcp_server_tool", "server__tool", "bare"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&NAMING_WORDS, s.serve.naming),
        |t, v| t.serve.naming = value_of(&NAMING_WORDS, v).unwrap_or(t.serve.naming)
    ),
    host_key!(
        "serve.name_len_max",
        Kind::Count { min: 24, max: 64 },
        ProjectRule::Never,
        Count,
        |s| wide(s.serve.name_len_max),
        |t, v| t.serve.name_len_max = size(*v)
    ),
    host_key!(
        "serve.approval",
        Kind::Word(&["elicitation", "client"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&SERVE_APPROVAL_WORDS, s.serve.approval),
        |t, v| t.serve.approval = value_of(&SERVE_APPROVAL_WORDS, v).unwrap_or(t.serve.approval)
    ),
    host_key!(
        "serve.read_project_mcp",
        Kind::Flag,
        ProjectRule::Never,
        Flag,
        |s| s.serve.read_project_mcp,
        |t, v| t.serve.read_project_mcp = *v
    ),
    host_key!(
        "serve.instructions_max",
        Kind::Bytes,
        ProjectRule::Never,
        Bytes,
        |s| wide(s.serve.instructions_max),
        |t, v| t.serve.instructions_max = size(*v)
    ),
    host_key!("serve.calls_max", SOME, ProjectRule::Never, Count, |s| wide(s.serve.calls_max), |t, v| t
        .serve
        .calls_max =
        size(*v)),
    host_key!("serve.park_ttl", TIME, ProjectRule::Never, Duration, |s| s.serve.park_ttl, |t, v| t
        .serve
        .park_ttl =
        *v),
    host_key!("serve.grace", TIME, ProjectRule::Never, Duration, |s| s.serve.grace, |t, v| t.serve.grace =
        *v),
    host_key!("serve.linger", TIME, ProjectRule::Never, Duration, |s| s.serve.linger, |t, v| t
        .serve
        .linger =
        *v),
    host_key!(
        "serve.body_max",
        Kind::Bytes,
        ProjectRule::Never,
        Bytes,
        |s| wide(s.serve.body_max),
        |t, v| t.serve.body_max = size(*v)
    ),
    host_key!(
        "serve.sessions_max",
        SOME,
        ProjectRule::Never,
        Count,
        |s| wide(s.serve.sessions_max),
        |t, v| t.serve.sessions_max = size(*v)
    ),
    host_key!("serve.session_idle", TIME, ProjectRule::Never, Duration, |s| s.serve.session_idle, |t, v| t
        .serve
        .session_idle =
        *v),
    host_key!(
        "serve.builtins",
        Kind::Word(&["auto", "all", "describe", "none"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&BUILTINS_WORDS, s.builtins.choice),
        |t, v| t.builtins.choice = value_of(&BUILTINS_WORDS, v).unwrap_or(t.builtins.choice)
    ),
    host_key!(
        "serve.read_roots",
        Kind::Folders,
        ProjectRule::Never,
        Texts,
        |s| s.builtins.read_roots.iter().map(|folder| folder.to_string_lossy().into_owned()).collect(),
        |t, v| t.builtins.read_roots = v.iter().map(PathBuf::from).collect()
    ),
    host_key!(
        "serve.allow_writes",
        Kind::Flag,
        ProjectRule::Never,
        Flag,
        |s| s.builtins.allow_writes,
        |t, v| t.builtins.allow_writes = *v
    ),
    host_key!(
        "serve.rate.per_second",
        ANY,
        ProjectRule::Never,
        Count,
        |s| s.serve.rate.map_or(0, |rate| u64::from(rate.per_second)),
        |t, v| t.serve.rate = rate(small(*v), t.serve.rate.map_or(0, |rate| rate.burst))
    ),
    host_key!(
        "serve.rate.burst",
        ANY,
        ProjectRule::Never,
        Count,
        |s| s.serve.rate.map_or(0, |rate| u64::from(rate.burst)),
        |t, v| t.serve.rate = rate(t.serve.rate.map_or(0, |rate| rate.per_second), small(*v))
    ),
    host_key!("http.host", Kind::Address, ProjectRule::Never, Text, |s| s.serve.http_host.clone(), |t, v| t
        .serve
        .http_host
        .clone_from(v)),
    host_key!(
        "http.port",
        Kind::Count { min: 0, max: 65_535 },
        ProjectRule::Never,
        Count,
        |s| u64::from(s.serve.http_port),
        |t, v| t.serve.http_port = u16::try_from(*v).unwrap_or(t.serve.http_port)
    ),
    host_key!(
        "http.hosts",
        Kind::Texts,
        ProjectRule::Never,
        Texts,
        |s| s.serve.http_hosts.clone(),
        |t, v| t.serve.http_hosts.clone_from(v)
    ),
    host_key!(
        "http.origins",
        Kind::Texts,
        ProjectRule::Never,
        Texts,
        |s| s.serve.http_origins.clone(),
        |t, v| t.serve.http_origins.clone_from(v)
    ),
    host_key!(
        "builtins.disabled",
        Kind::Texts,
        ProjectRule::Never,
        Texts,
        |s| s.builtins.disabled.clone(),
        |t, v| t.builtins.disabled.clone_from(v)
    ),
    host_key!(
        "builtins.allowed_paths",
        Kind::Paths,
        ProjectRule::Never,
        Texts,
        |s| s.builtins.allowed_paths.clone(),
        |t, v| t.builtins.allowed_paths.clone_from(v)
    ),
    host_key!(
        "builtins.blocked_paths",
        Kind::Paths,
        ProjectRule::Never,
        Texts,
        |s| s.builtins.blocked_paths.clone(),
        |t, v| t.builtins.blocked_paths.clone_from(v)
    ),
    host_key!(
        "builtins.web_search.provider",
        Kind::Word(&["off", "searxng", "tavily", "exa", "duckduckgo"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&SEARCH_WORDS, s.builtins.search.provider),
        |t, v| t.builtins.search.provider = value_of(&SEARCH_WORDS, v).unwrap_or(t.builtins.search.provider)
    ),
    host_key!(
        "builtins.web_search.url",
        Kind::Url,
        ProjectRule::Never,
        Text,
        |s| s.builtins.search.url.clone(),
        |t, v| t.builtins.search.url.clone_from(v)
    ),
    host_key!(
        "builtins.web_search.key",
        Kind::Reference,
        ProjectRule::Never,
        Text,
        |s| s.builtins.search.key.clone(),
        |t, v| t.builtins.search.key.clone_from(v)
    ),
];

/// A rate from its two keys; without a number of calls there is none.
fn rate(per_second: u32, burst: u32) -> Option<Rate> {
    (per_second > 0).then_some(Rate { per_second, burst: if burst == 0 { per_second } else { burst } })
}

pub(super) fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(super) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(super) fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

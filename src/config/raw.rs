//! Floor 1. The mirror of one entry: every key with its type, nothing expanded, nothing
//! defaulted. Reading reports all faults at once. A project entry that nobody approved gets
//! no further than this. Called by `config::validate` and `config::merge`.

use std::time::Duration;

use serde_json::Value;

use super::document::Definition;
use super::expand;
use super::fields::{Fields, Key, key};
use super::issue::{Issue, IssueCode, Severity};
use super::raw_target;
use super::spec::{Globs, Protocol, Rate, Sandbox, Sharing, StartMode, ToolFilter, Trust};

/// One entry with its types checked, unexpanded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawServer {
    /// `enabled` and `disabled` together.
    pub disabled: bool,
    /// How to reach it; `None` for an entry that only turns a name off.
    pub target: Option<RawTarget>,
    /// `tools`
    pub filter: ToolFilter,
    /// `allowedTools`
    pub allowed_tools: Option<Globs>,
    /// `deniedTools`
    pub denied_tools: Globs,
    /// `trust` and `readOnly` together.
    pub trust: Trust,
    /// `allowAllTools`
    pub allow_all_tools: bool,
    /// `allowHostProcess`
    pub allow_host_process: bool,
    /// What it says about times and bounds.
    pub overrides: Overrides,
    /// `protocol`
    pub protocol: Protocol,
    /// `start`
    pub start: Option<StartMode>,
    /// `idle_stop`
    pub idle_stop: Option<Duration>,
    /// `required`
    pub required: bool,
    /// `watch`
    pub watch: Vec<String>,
    /// `sharing`
    pub sharing: Sharing,
    /// `shared_identity`
    pub shared_identity: bool,
    /// `env_passthrough`
    pub env_passthrough: Vec<String>,
    /// `sandbox`
    pub sandbox: Sandbox,
    /// `label`
    pub label: Option<String>,
    /// `description`
    pub description: Option<String>,
}

/// How to reach a server, unexpanded. `Debug` shows no value: literals may be secret.
#[derive(Clone, PartialEq, Eq)]
pub enum RawTarget {
    /// A child process.
    Stdio {
        /// `command`
        command: String,
        /// `args`
        args: Vec<String>,
        /// `env`, in its order.
        env: Vec<(String, String)>,
        /// `cwd`
        cwd: Option<String>,
    },
    /// An address.
    Http {
        /// `url`
        url: String,
        /// `headers`, in their order.
        headers: Vec<(String, String)>,
        /// `bearer_token_env`
        bearer_token_env: Option<String>,
        /// `transport` is `sse`: the old transport.
        sse: bool,
    },
}

impl std::fmt::Debug for RawTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind())
    }
}

impl RawTarget {
    /// The word for tables.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { sse: false, .. } => "http",
            Self::Http { sse: true, .. } => "sse",
        }
    }
}

/// What an entry says about times and bounds; the rest comes from the host settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `timeout`
    pub idle: Option<Duration>,
    /// `connect_timeout`
    pub connect: Option<Duration>,
    /// `max_timeout`
    pub total: Option<Duration>,
    /// `breaker.failures`
    pub breaker_failures: Option<u32>,
    /// `breaker.open_for`
    pub breaker_open_for: Option<Duration>,
    /// `breaker.count_tool_errors`
    pub breaker_count_tool_errors: Option<bool>,
    /// `restart.max`
    pub restart_max: Option<u32>,
    /// `restart.window`
    pub restart_window: Option<Duration>,
    /// `restart.min`
    pub restart_min: Option<Duration>,
    /// `restart.max_delay`
    pub restart_max_delay: Option<Duration>,
    /// `limits.in_flight`
    pub in_flight: Option<usize>,
    /// `limits.queue`
    pub queue: Option<usize>,
    /// `limits.frame_max`, bytes
    pub frame_max: Option<usize>,
    /// `limits.result_max`, bytes
    pub result_max: Option<usize>,
    /// `rate`; `Some(None)` turns a default off.
    pub rate: Option<Option<Rate>>,
}

const KEYS: &[Key] = &[
    key("command"),
    key("args"),
    key("env"),
    key("cwd"),
    key("url"),
    key("headers"),
    key("bearer_token_env"),
    key("oauth"),
    Key { name: "transport", aliases: &["type"] },
    key("enabled"),
    key("disabled"),
    key("tools"),
    Key { name: "allowedTools", aliases: &["allowTools", "allow"] },
    Key { name: "deniedTools", aliases: &["denyTools", "deny"] },
    Key { name: "trust", aliases: &["policy"] },
    key("readOnly"),
    key("allowAllTools"),
    Key { name: "allowHostProcess", aliases: &["hostProcess"] },
    key("timeout"),
    Key { name: "requestTimeoutMs", aliases: &["timeoutMs"] },
    key("connect_timeout"),
    key("startupTimeoutMs"),
    key("max_timeout"),
    key("protocol"),
    key("breaker"),
    key("restart"),
    key("limits"),
    key("rate"),
    key("start"),
    key("idle_stop"),
    key("required"),
    key("watch"),
    key("sharing"),
    key("shared_identity"),
    key("env_passthrough"),
    key("sandbox"),
    Key { name: "label", aliases: &["title"] },
    key("description"),
];
const TOOLS_KEYS: &[Key] = &[key("include"), key("exclude")];
const BREAKER_KEYS: &[Key] = &[key("failures"), key("open_for"), key("count_tool_errors")];
const RESTART_KEYS: &[Key] = &[key("max"), key("window"), key("min"), key("max_delay")];
const LIMITS_KEYS: &[Key] = &[key("in_flight"), key("queue"), key("frame_max"), key("result_max")];
const RATE_KEYS: &[Key] = &[key("per_second"), key("burst")];
const SANDBOX_KEYS: &[Key] = &[key("read"), key("write"), key("net")];

/// The trust words of the configuration.
pub const TRUST_WORDS: [(&str, Trust); 3] =
    [("untrusted", Trust::Untrusted), ("read-only", Trust::ReadOnly), ("trusted", Trust::Trusted)];
/// The start words of the configuration.
pub const START_WORDS: [(&str, StartMode); 2] = [("eager", StartMode::Eager), ("lazy", StartMode::Lazy)];
/// Most calls in flight, waiting, or per second that a setting may allow.
pub const COUNT_MAX: u64 = 1_000_000;
/// Smallest frame or result bound, bytes.
pub const BYTES_MIN: u64 = 1 << 10;
/// Largest frame or result bound, bytes.
pub const BYTES_MAX: u64 = 1 << 30;

/// Reads one entry. With an issue of severity `Error` the entry can't be used as written;
/// what could be read is there all the same.
pub fn read(definition: &Definition) -> (RawServer, Vec<Issue>) {
    let mut issues = definition.issues.clone();
    let Value::Object(map) = &definition.value else {
        let kind = super::fields::kind(&definition.value);
        issues.push(definition.issue(
            IssueCode::Value,
            Severity::Error,
            "",
            format!("must be an object, not {kind}"),
        ));
        return (RawServer::default(), issues);
    };
    let mut fields = Fields::new(definition, map, "", KEYS);
    let mut server = RawServer::default();
    server.disabled = read_disabled(&mut fields);
    server.target = raw_target::read(&mut fields, server.disabled);
    read_policy(&mut fields, &mut server);
    server.overrides = read_overrides(&mut fields);
    read_life(&mut fields, &mut server);
    issues.append(&mut fields.issues);
    (server, issues)
}

fn read_disabled(fields: &mut Fields<'_>) -> bool {
    let enabled = fields.flag("enabled");
    let disabled = fields.flag("disabled");
    if enabled.is_some() && disabled == enabled {
        fields.warn(
            IssueCode::Conflict,
            "disabled",
            "contradicts \"enabled\"; the server is off",
            Some("keep one of them"),
        );
    }
    enabled == Some(false) || disabled == Some(true)
}

fn read_policy(fields: &mut Fields<'_>, server: &mut RawServer) {
    if let Some(filter) = fields.object("tools", TOOLS_KEYS, |tools| ToolFilter {
        include: tools.globs("include").unwrap_or_default(),
        exclude: tools.globs("exclude").unwrap_or_default(),
    }) {
        server.filter = filter;
    }
    server.allowed_tools = fields.globs("allowedTools");
    if server.allowed_tools.as_ref().is_some_and(Globs::is_empty) {
        fields.warn(IssueCode::Value, "allowedTools", "is empty: no tool of this server may be called", None);
    }
    server.denied_tools = fields.globs("deniedTools").unwrap_or_default();
    let trust = fields.word("trust", &TRUST_WORDS);
    let read_only = fields.flag("readOnly");
    if read_only == Some(true) && trust.is_some_and(|trust| trust != Trust::ReadOnly) {
        fields.warn(
            IssueCode::Conflict,
            "readOnly",
            "\"trust\" is written and counts",
            Some("remove \"readOnly\""),
        );
    }
    server.trust = match (trust, read_only) {
        (Some(trust), _) => trust,
        (None, Some(true)) => Trust::ReadOnly,
        (None, _) => Trust::Untrusted,
    };
    server.allow_all_tools = fields.flag("allowAllTools").unwrap_or(false);
    server.allow_host_process = fields.flag("allowHostProcess").unwrap_or(false);
    server.env_passthrough = fields.texts("env_passthrough").unwrap_or_default();
    for (index, name) in server.env_passthrough.iter().enumerate() {
        if !expand::is_variable_name(name) {
            let at = format!("env_passthrough[{index}]");
            fields.report(IssueCode::Value, Severity::Error, &at, "is not the name of a variable", None);
        }
    }
    server.sandbox = read_sandbox(fields);
}

fn read_sandbox(fields: &mut Fields<'_>) -> Sandbox {
    match fields.value("sandbox") {
        None => Sandbox::Off,
        Some(Value::Object(_)) => fields
            .object("sandbox", SANDBOX_KEYS, |inner| Sandbox::Custom {
                read: inner.texts("read").unwrap_or_default(),
                write: inner.texts("write").unwrap_or_default(),
                net: inner.flag("net").unwrap_or(false),
            })
            .unwrap_or_default(),
        Some(_) => {
            let words = [("off", 0), ("fs", 1), ("fs+net", 2)];
            match fields.word("sandbox", &words) {
                Some(1) => Sandbox::Fs,
                Some(2) => Sandbox::FsNet,
                _ => Sandbox::Off,
            }
        }
    }
}

fn read_overrides(fields: &mut Fields<'_>) -> Overrides {
    /// From here on a bare `timeout` is more likely meant as milliseconds.
    const AMBIGUOUS_MIN: f64 = 1000.0;
    let mut overrides = Overrides::default();
    if fields.number("timeout").is_some_and(|number| number >= AMBIGUOUS_MIN) {
        let fix = "write a word such as \"30s\" or \"20m\", or use \"requestTimeoutMs\"";
        fields.error(
            IssueCode::Value,
            "timeout",
            "seconds or milliseconds? A bare number of 1000 or more is ambiguous",
            Some(fix),
        );
    } else {
        overrides.idle = fields.duration("timeout", &["requestTimeoutMs"]);
    }
    overrides.connect = fields.duration("connect_timeout", &["startupTimeoutMs"]);
    overrides.total = fields.duration("max_timeout", &[]);
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    fields.object("breaker", BREAKER_KEYS, |breaker| {
        overrides.breaker_failures = breaker.count("failures", 0, COUNT_MAX).map(small);
        overrides.breaker_open_for = breaker.duration("open_for", &[]);
        overrides.breaker_count_tool_errors = breaker.flag("count_tool_errors");
    });
    fields.object("restart", RESTART_KEYS, |restart| {
        overrides.restart_max = restart.count("max", 0, COUNT_MAX).map(small);
        overrides.restart_window = restart.duration("window", &[]);
        overrides.restart_min = restart.duration("min", &[]);
        overrides.restart_max_delay = restart.duration("max_delay", &[]);
    });
    fields.object("limits", LIMITS_KEYS, |limits| {
        overrides.in_flight = limits.count("in_flight", 1, COUNT_MAX).map(size);
        overrides.queue = limits.count("queue", 0, COUNT_MAX).map(size);
        overrides.frame_max = limits.bytes("frame_max", BYTES_MIN, BYTES_MAX).map(size);
        overrides.result_max = limits.bytes("result_max", BYTES_MIN, BYTES_MAX).map(size);
    });
    overrides.rate = fields.object("rate", RATE_KEYS, |rate| {
        let burst = rate.count("burst", 1, COUNT_MAX).map(small);
        match rate.count("per_second", 0, COUNT_MAX).map(small) {
            Some(0) => None,
            Some(per_second) => Some(Rate { per_second, burst: burst.unwrap_or(per_second) }),
            None => {
                if !rate.has("per_second") {
                    rate.error(
                        IssueCode::Missing,
                        "per_second",
                        "is missing",
                        Some("write a number of calls; 0 turns the limit off"),
                    );
                }
                None
            }
        }
    });
    overrides
}

fn read_life(fields: &mut Fields<'_>, server: &mut RawServer) {
    let protocols = [("auto", Protocol::Auto), ("legacy", Protocol::Legacy), ("modern", Protocol::Modern)];
    server.protocol = fields.word("protocol", &protocols).unwrap_or_default();
    server.start = fields.word("start", &START_WORDS);
    server.idle_stop = fields.duration("idle_stop", &[]);
    server.required = fields.flag("required").unwrap_or(false);
    server.watch = fields.globs("watch").map(|globs| globs.patterns().to_vec()).unwrap_or_default();
    let sharing = [("shared", Sharing::Shared), ("session", Sharing::Session)];
    server.sharing = fields.word("sharing", &sharing).unwrap_or_default();
    server.shared_identity = fields.flag("shared_identity").unwrap_or(false);
    server.label = fields.text("label");
    server.description = fields.text("description");
}

/// Every host variable that an entry reads (`VAR`, `secret:NAME`), sorted, each once: what an
/// approval has to show.
pub fn env_reads(server: &RawServer) -> Vec<String> {
    let mut names: Vec<String> = server.env_passthrough.clone();
    match &server.target {
        Some(RawTarget::Stdio { command, args, env, cwd }) => {
            let texts =
                [command].into_iter().chain(args).chain(env.iter().map(|(_, value)| value)).chain(cwd);
            names.extend(texts.flat_map(|text| expand::reads(text)));
        }
        Some(RawTarget::Http { url, headers, bearer_token_env, .. }) => {
            let texts = [url].into_iter().chain(headers.iter().map(|(_, value)| value));
            names.extend(texts.flat_map(|text| expand::reads(text)));
            names.extend(bearer_token_env.clone());
        }
        None => {}
    }
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::{self, Form};
    use crate::config::spec::{Scope, Source};
    use proptest::prelude::*;
    use serde_json::json;
    use std::path::Path;

    fn definition(entry: &Value) -> Definition {
        let source = Source { scope: Scope::User, origin: "f.json".into() };
        let text = json!({"mcpServers": {"s": entry}}).to_string();
        document::parse(&text, &source, Path::new("/"), Form::File).definitions.remove(0)
    }

    fn is_usable(entry: &Value) -> bool {
        read(&definition(entry)).1.iter().all(|issue| issue.severity != Severity::Error)
    }

    #[test]
    fn every_variable_that_an_entry_reads_is_known_without_expanding_it() {
        let (server, _) = read(&definition(&json!({
            "command": "${A}/x", "args": ["${B:-d}", "$${NOT}", "${A}"], "env": {"E": "${C}${secret:K}"},
            "cwd": "${D}", "env_passthrough": ["P"]
        })));
        assert_eq!(env_reads(&server), ["A", "B", "C", "D", "P", "secret:K"]);
        let (server, _) = read(&definition(&json!({
            "url": "https://${H}/", "headers": {"X": "${T}"}, "bearer_token_env": "BEARER"
        })));
        assert_eq!(env_reads(&server), ["BEARER", "H", "T"]);
        assert!(env_reads(&read(&definition(&json!({"enabled": false}))).0).is_empty());
    }

    #[test]
    fn all_faults_of_an_entry_are_reported_at_once() {
        let (_, issues) = read(&definition(&json!({
            "command": 1, "args": "x", "env": [], "timeout": -1, "trust": "all", "tools": {"include": 5},
            "limits": {"queue": -1}, "start": true, "sandbox": 7, "unknown": 0
        })));
        let paths: Vec<&str> =
            issues.iter().map(|issue| issue.path.trim_start_matches("mcpServers.s.")).collect();
        assert_eq!(
            paths,
            [
                "unknown",
                "command",
                "args",
                "env",
                "tools.include",
                "trust",
                "sandbox",
                "timeout",
                "limits.queue",
                "start"
            ]
        );
    }

    #[test]
    fn an_entry_that_only_turns_a_name_off_needs_nothing_else() {
        for entry in [json!({"enabled": false}), json!({"disabled": true, "label": "x"})] {
            let (server, issues) = read(&definition(&entry));
            assert!(server.disabled && server.target.is_none() && issues.is_empty(), "{entry}");
        }
        assert!(!is_usable(&json!({"enabled": true})) && !is_usable(&json!({})));
    }

    #[test]
    fn debug_output_shows_no_literal() {
        let (server, _) =
            read(&definition(&json!({"command": "canary", "args": ["canary"], "env": {"K": "canary"}})));
        assert!(!format!("{server:?}").contains("canary"));
        let definition = definition(&json!({"url": "http://canary/", "headers": {"K": "canary"}}));
        assert!(!format!("{definition:?}").contains("canary"));
    }

    /// Any JSON, a few levels deep.
    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e6f64..1e6).prop_map(Value::from),
            "[ -~]{0,12}".prop_map(Value::from),
            prop_oneof![Just("30s"), Just("stdio"), Just("trusted"), Just("fs"), Just("${X}"), Just("[")]
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z_]{1,8}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_key() -> impl Strategy<Value = String> {
        let known: Vec<String> = KEYS
            .iter()
            .flat_map(|key| key.aliases.iter().chain(std::iter::once(&key.name)))
            .map(ToString::to_string)
            .collect();
        prop_oneof![4 => proptest::sample::select(known), 1 => "[a-zA-Z_]{1,10}"]
    }

    proptest! {
        /// Whatever stands in an entry: no panic, every issue has its place within the entry,
        /// a message, and a key path; and only what is wrong makes it unusable.
        #[test]
        fn any_entry_is_read_with_placed_issues(
            entry in proptest::collection::btree_map(any_key(), any_value(), 0..8),
        ) {
            let entry = Value::Object(entry.into_iter().collect());
            let (_, issues) = read(&definition(&entry));
            for issue in &issues {
                prop_assert!(issue.position.is_some() && !issue.message.is_empty());
                prop_assert!(issue.path.starts_with("mcpServers.s"), "{}", issue.path);
            }
        }

        /// Unknown keys never change what an entry means.
        #[test]
        fn unknown_keys_only_warn(name in "x_[a-z]{3,10}", value in any_value()) {
            let plain = json!({"command": "x", "args": ["a"], "timeout": 5});
            let mut more = plain.clone();
            more[&name] = value;
            let (expected, _) = read(&definition(&plain));
            let (read, issues) = read(&definition(&more));
            prop_assert_eq!(read, expected);
            prop_assert!(issues.iter().all(|issue| issue.severity == Severity::Warning));
        }

        /// Milliseconds, seconds and words are three ways to write one thing.
        #[test]
        fn three_spellings_of_a_time_agree(millis in 1u64..999_999) {
            let idle = |entry: Value| read(&definition(&entry)).0.overrides.idle;
            let expected = Some(Duration::from_millis(millis));
            prop_assert_eq!(idle(json!({"command": "x", "requestTimeoutMs": millis})), expected);
            prop_assert_eq!(idle(json!({"command": "x", "timeoutMs": millis})), expected);
            prop_assert_eq!(idle(json!({"command": "x", "timeout": format!("{millis}ms")})), expected);
            let seconds = idle(json!({"command": "x", "timeout": millis as f64 / 1000.0}));
            prop_assert_eq!(seconds.map(|d| d.as_millis()), expected.map(|d| d.as_millis()));
        }
    }
}

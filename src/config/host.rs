//! Floor 1. The host settings (`callboard.toml`): their types, and one table that says for
//! every key what it may be, what a project may do with it, and which field it is. The table
//! is what `default.toml`, the files, the environment and `mcp config` all go through.
//! Called by `config::load` and `config::effective`.

use std::time::Duration;

use serde_json::Value;

use super::duration::{self, Unit};
use super::expand::is_variable_name;
use super::raw::{BYTES_MAX, BYTES_MIN, COUNT_MAX};
use super::spec::{BreakerSpec, Limits, NamingStyle, Rate, RestartSpec, StartMode, Timeouts};
use super::suggest;

/// The manual, and at the same time the weakest source.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// The validated host settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSettings {
    /// `start`: default of the entries.
    pub start: StartMode,
    /// `naming.style`
    pub naming: NamingStyle,
    /// `naming.name_len_max`, characters.
    pub name_len_max: usize,
    /// `naming.reserved`: exposed names that no server may take.
    pub reserved: Vec<String>,
    /// `display.color`
    pub color: ColorChoice,
    /// `log.level`
    pub log_level: LogLevel,
    /// `timeouts.*`: defaults of the entries.
    pub timeouts: Timeouts,
    /// `breaker.*`: defaults of the entries.
    pub breaker: BreakerSpec,
    /// `restart.*`: defaults of the entries.
    pub restart: RestartSpec,
    /// `limits.*`: defaults of the entries.
    pub limits: Limits,
    /// `limits.in_flight_max`: calls in flight in all.
    pub in_flight_max: usize,
    /// `limits.spawns_max`: processes being started at once.
    pub spawns_max: usize,
    /// `rate.*`: default of the entries.
    pub rate: Option<Rate>,
    /// `refresh.poll`: how often lists are read again; `None` means never.
    pub poll: Option<Duration>,
    /// `env.passthrough`: further host variables that every child may see.
    pub env_passthrough: Vec<String>,
}

/// `display.color`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// `log.level`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Errors.
    Error,
    /// And warnings.
    #[default]
    Warn,
    /// And milestones.
    Info,
    /// And decisions.
    Debug,
    /// And frames' metadata.
    Trace,
}

impl LogLevel {
    /// As in the configuration.
    pub fn as_str(self) -> &'static str {
        word_of(&LOG_WORDS, self)
    }
}

impl Default for HostSettings {
    /// The values of `default.toml` (a test compares them).
    fn default() -> Self {
        Self {
            start: StartMode::Eager,
            naming: NamingStyle::McpDouble,
            name_len_max: 64,
            reserved: Vec::new(),
            color: ColorChoice::Auto,
            log_level: LogLevel::Warn,
            timeouts: Timeouts {
                idle: Duration::from_secs(120),
                connect: Duration::from_secs(15),
                max_start: Duration::from_secs(120),
                total: Duration::from_secs(30 * 60),
                list: Duration::from_secs(30),
                permit: Duration::from_secs(5),
            },
            breaker: BreakerSpec { failures: 3, open_for: Duration::from_secs(60), count_tool_errors: false },
            restart: RestartSpec {
                max: 5,
                window: Duration::from_secs(60),
                min_delay: Duration::from_millis(500),
                max_delay: Duration::from_secs(60),
            },
            limits: Limits { in_flight: 64, queue: 256, frame_max: 16 << 20, result_max: 1 << 20 },
            in_flight_max: 1024,
            spawns_max: 8,
            rate: None,
            poll: Some(Duration::from_secs(60)),
            env_passthrough: Vec::new(),
        }
    }
}

const NAMING_WORDS: [(&str, NamingStyle); 4] = [
    ("mcp__server__tool", NamingStyle::McpDouble),
    ("mcp_server_tool", NamingStyle::McpSingle),
    ("server__tool", NamingStyle::ServerTool),
    ("bare", NamingStyle::Bare),
];
const COLOR_WORDS: [(&str, ColorChoice); 3] =
    [("auto", ColorChoice::Auto), ("always", ColorChoice::Always), ("never", ColorChoice::Never)];
const LOG_WORDS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
use super::raw::START_WORDS;

fn word_of<T: Copy + PartialEq, const N: usize>(words: &[(&'static str, T); N], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

fn value_of<T: Copy, const N: usize>(words: &[(&'static str, T); N], word: &str) -> Option<T> {
    words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

/// What a key may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A duration; `zero_is_off` when zero is allowed and turns the thing off.
    Duration {
        /// Whether zero is allowed.
        zero_is_off: bool,
    },
    /// A whole number.
    Count {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// Bytes.
    Bytes,
    /// `true` or `false`.
    Flag,
    /// Names of host variables.
    Variables,
    /// Any strings.
    Texts,
}

/// A checked value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A word of the key's set.
    Word(&'static str),
    /// A duration; zero means off.
    Duration(Duration),
    /// A whole number.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// A flag.
    Flag(bool),
    /// Strings.
    Texts(Vec<String>),
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Duration(duration) => f.write_str(&duration::to_word(*duration)),
            Self::Count(count) => write!(f, "{count}"),
            Self::Bytes(bytes) => f.write_str(&duration::bytes_to_word(*bytes)),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Texts(texts) => write!(f, "{texts:?}"),
        }
    }
}

impl Setting {
    /// The value as JSON: durations and sizes as words.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Count(count) => Value::from(*count),
            Self::Flag(flag) => Value::from(*flag),
            Self::Texts(texts) => Value::from(texts.clone()),
            word => Value::from(word.to_string()),
        }
    }
}

/// What a project's file may do with a key (spec section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectRule {
    /// Set it freely.
    Free,
    /// Only lower it; `zero_is_unlimited` when zero is the highest value, not the lowest.
    Lower {
        /// Whether zero means no limit.
        zero_is_unlimited: bool,
    },
    /// Not touch it.
    Never,
}

/// One key of `callboard.toml`.
#[derive(Clone, Copy, Debug)]
pub struct HostKey {
    /// Dotted name.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// What a project may do.
    pub project: ProjectRule,
    /// Reads its field.
    pub get: fn(&HostSettings) -> Setting,
    /// Writes its field; a value of another kind changes nothing.
    pub set: fn(&mut HostSettings, &Setting),
}

impl HostKey {
    /// The environment variable that sets it: `CALLBOARD_` and the name in capitals, with `_`
    /// for each dot.
    pub fn variable(&self) -> String {
        format!("CALLBOARD_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// Checks a value from a file.
    pub fn check(&self, value: &Value) -> Result<Setting, String> {
        let texts = |items: &[Value]| -> Option<Vec<String>> {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        match (self.kind, value) {
            (Kind::Duration { .. }, Value::Number(number)) => {
                self.duration(duration::from_number(number.as_f64().unwrap_or(f64::NAN), Unit::Seconds))
            }
            (Kind::Count { .. } | Kind::Bytes, Value::Number(number)) => {
                self.whole(number.as_u64().ok_or_else(|| "must be a whole number".to_owned())?)
            }
            (Kind::Flag, Value::Bool(flag)) => Ok(Setting::Flag(*flag)),
            (Kind::Variables | Kind::Texts, Value::Array(items)) => {
                self.texts(texts(items).ok_or_else(|| "must be a list of strings".to_owned())?)
            }
            (Kind::Word(_) | Kind::Duration { .. } | Kind::Bytes, Value::String(word)) => {
                self.check_text(word)
            }
            _ => Err(format!("must be {}, not {}", self.wanted(), super::fields::kind(value))),
        }
    }

    /// Checks a value from the environment or a flag: lists are separated by commas.
    pub fn check_text(&self, text: &str) -> Result<Setting, String> {
        let text = text.trim();
        match self.kind {
            Kind::Word(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Setting::Word(word)),
                None => {
                    let near = suggest::nearest(text, words.iter().copied());
                    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                    Err(format!("unknown word; must be one of {}{hint}", words.join(", ")))
                }
            },
            Kind::Duration { .. } => self.duration(duration::from_word(text, Unit::Seconds)),
            Kind::Count { .. } => self.whole(text.parse().map_err(|_| format!("must be {}", self.wanted()))?),
            Kind::Bytes => self.whole(duration::bytes_from_word(text)?),
            Kind::Flag => match text {
                "true" | "1" | "yes" | "on" => Ok(Setting::Flag(true)),
                "false" | "0" | "no" | "off" => Ok(Setting::Flag(false)),
                _ => Err("must be true or false".into()),
            },
            Kind::Variables | Kind::Texts => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                self.texts(items.map(str::to_owned).collect())
            }
        }
    }

    fn duration(&self, read: Result<Duration, String>) -> Result<Setting, String> {
        match (read?, self.kind) {
            (Duration::ZERO, Kind::Duration { zero_is_off: false }) => Err("must be more than zero".into()),
            (duration, _) => Ok(Setting::Duration(duration)),
        }
    }

    fn whole(&self, number: u64) -> Result<Setting, String> {
        match self.kind {
            Kind::Bytes if (BYTES_MIN..=BYTES_MAX).contains(&number) => Ok(Setting::Bytes(number)),
            Kind::Count { min, max } if (min..=max).contains(&number) => Ok(Setting::Count(number)),
            _ => Err(format!("must be {}", self.wanted())),
        }
    }

    fn texts(&self, texts: Vec<String>) -> Result<Setting, String> {
        match (self.kind, texts.iter().find(|text| !is_variable_name(text))) {
            (Kind::Variables, Some(wrong)) => Err(format!("{wrong:?} is not the name of a variable")),
            _ => Ok(Setting::Texts(texts)),
        }
    }

    fn wanted(&self) -> String {
        match self.kind {
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Duration { .. } => "a number of seconds or a word such as \"30s\"".into(),
            Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Bytes => format!(
                "a size from {} to {}",
                duration::bytes_to_word(BYTES_MIN),
                duration::bytes_to_word(BYTES_MAX)
            ),
            Kind::Flag => "true or false".into(),
            Kind::Variables => "a list of names of variables".into(),
            Kind::Texts => "a list of strings".into(),
        }
    }

    /// Whether a project may set `wanted` where `now` is in force; the reason if not.
    pub fn allows_project(&self, wanted: &Setting, now: &Setting) -> Result<(), String> {
        let lower = match (self.project, wanted, now) {
            (ProjectRule::Free, ..) => return Ok(()),
            (ProjectRule::Never, ..) => return Err("a project may not set this".into()),
            (ProjectRule::Lower { zero_is_unlimited }, wanted, now) => {
                let amount = |setting: &Setting| match setting {
                    Setting::Duration(duration) => duration.as_millis(),
                    Setting::Count(number) | Setting::Bytes(number) => u128::from(*number),
                    Setting::Word(_) | Setting::Flag(_) | Setting::Texts(_) => u128::MAX,
                };
                let height = |setting| match amount(setting) {
                    0 if zero_is_unlimited => u128::MAX,
                    amount => amount,
                };
                height(wanted) <= height(now)
            }
        };
        if lower { Ok(()) } else { Err(format!("a project may only lower this; {now} is in force")) }
    }
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

const LOWER: ProjectRule = ProjectRule::Lower { zero_is_unlimited: false };
const TIME: Kind = Kind::Duration { zero_is_off: false };
const SOME: Kind = Kind::Count { min: 1, max: COUNT_MAX };
const ANY: Kind = Kind::Count { min: 0, max: COUNT_MAX };

/// Every key, in the order of the manual.
pub const HOST_KEYS: &[HostKey] = &[
    host_key!(
        "start",
        Kind::Word(&["eager", "lazy"]),
        ProjectRule::Free,
        Word,
        |s| word_of(&START_WORDS, s.start),
        |t, v| t.start = value_of(&START_WORDS, v).unwrap_or(t.start)
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
        Kind::Count { min: 16, max: 64 },
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
        Kind::Duration { zero_is_off: true },
        ProjectRule::Never,
        Duration,
        |s| s.poll.unwrap_or_default(),
        |t, v| t.poll = Some(*v).filter(|poll| !poll.is_zero())
    ),
    host_key!(
        "env.passthrough",
        Kind::Variables,
        ProjectRule::Never,
        Texts,
        |s| s.env_passthrough.clone(),
        |t, v| t.env_passthrough.clone_from(v)
    ),
];

/// A rate from its two keys; without a number of calls there is none.
fn rate(per_second: u32, burst: u32) -> Option<Rate> {
    (per_second > 0).then_some(Rate { per_second, burst: if burst == 0 { per_second } else { burst } })
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

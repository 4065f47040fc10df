//! Floor 1. The host settings (`callboard.toml`): their types, their defaults, and how a
//! value of a key is checked. The keys themselves are the table in `host_keys`.
//! Called by `config::load` and the edges.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::builtins::BuiltinsSettings;
use super::decimal::{MILLION, decimal, millionths};
use super::duration::{self, Unit};
use super::expand::{self, is_variable_name};
use super::mode::{Mode, SpawnCheck};
use super::model::{AgentSettings, ModelSettings};
use super::raw::{BYTES_MAX, BYTES_MIN};
use super::serve::ServeSettings;
use super::spec::{BreakerSpec, Limits, NamingStyle, Rate, RestartSpec, StartMode, Timeouts};
use super::suggest;

/// The manual, and at the same time the weakest source.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// The validated host settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSettings {
    /// `mode`: how much runs without asking.
    pub mode: Mode,
    /// `start`: default of the entries.
    pub start: StartMode,
    /// `roots`: folders that servers are told to work in, absolute.
    pub roots: Vec<PathBuf>,
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
    /// `audit.mode`
    pub audit: AuditMode,
    /// `audit.file_max`, bytes.
    pub audit_file_max: usize,
    /// `timeouts.*`: defaults of the entries.
    pub timeouts: Timeouts,
    /// `breaker.*`: defaults of the entries.
    pub breaker: BreakerSpec,
    /// `restart.*`: defaults of the entries.
    pub restart: RestartSpec,
    /// `limits.*`: defaults of the entries.
    pub limits: Limits,
    /// `limits.in_flight_max`: calls in flight or waiting in all.
    pub in_flight_max: usize,
    /// `limits.spawns_max`: servers whose process is being started at once.
    pub spawns_max: usize,
    /// `refresh.poll`: how often lists are read again; `None` means never.
    pub refresh_poll: Option<Duration>,
    /// `rate.*`: default of the entries.
    pub rate: Option<Rate>,
    /// `env.passthrough`: further host variables that every child may see.
    pub env_passthrough: Vec<String>,
    /// `approval.expires`: how long a request for approval waits for an answer.
    pub approval_expires: Duration,
    /// `spawn.enabled`: whether servers that are processes start at all.
    pub spawn_enabled: bool,
    /// `spawn.check`
    pub spawn_check: SpawnCheck,
    /// `spawn.allow`: globs on the absolute path of a command.
    pub spawn_allow: Vec<String>,
    /// `serve.*`
    pub serve: ServeSettings,
    /// `builtins.*`, and of `serve.*` what the host's own tools go by.
    pub builtins: BuiltinsSettings,
    /// `model.*`
    pub model: ModelSettings,
    /// `agent.*`
    pub agent: AgentSettings,
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

/// `audit.mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AuditMode {
    /// What may change something is refused when its line can't be written.
    #[default]
    Strict,
    /// Calls go on without.
    BestEffort,
    /// Nothing is written.
    Off,
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
        super::host_words::log_word(self)
    }
}

impl Default for HostSettings {
    /// The values of `default.toml` (a test compares them).
    fn default() -> Self {
        Self {
            mode: Mode::ReadOnly,
            start: StartMode::Eager,
            roots: Vec::new(),
            naming: NamingStyle::McpDouble,
            name_len_max: 64,
            reserved: Vec::new(),
            color: ColorChoice::Auto,
            log_level: LogLevel::Warn,
            audit: AuditMode::Strict,
            audit_file_max: 64 << 20,
            timeouts: Timeouts::default(),
            breaker: BreakerSpec::default(),
            restart: RestartSpec::default(),
            limits: Limits::default(),
            in_flight_max: 1024,
            spawns_max: 8,
            refresh_poll: Some(Duration::from_secs(60)),
            rate: None,
            env_passthrough: Vec::new(),
            approval_expires: Duration::from_secs(300),
            spawn_enabled: true,
            spawn_check: SpawnCheck::Safe,
            spawn_allow: Vec::new(),
            serve: ServeSettings::default(),
            builtins: BuiltinsSettings::default(),
            model: ModelSettings::default(),
            agent: AgentSettings::default(),
        }
    }
}

/// What a key may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A duration of more than zero.
    Duration,
    /// `true` or `false`.
    Flag,
    /// A duration, or `0` or `off` for never.
    Interval,
    /// A whole number.
    Count {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// Bytes.
    Bytes,
    /// Names of host variables.
    Variables,
    /// Folders: absolute paths, or such that begin with `~`.
    Folders,
    /// Globs on absolute paths, or such that begin with `~`.
    Paths,
    /// Any strings.
    Texts,
    /// One string on one line, or nothing.
    Line,
    /// A number with at most six decimals, or nothing.
    Decimal {
        /// Largest.
        max: u32,
    },
    /// An absolute http or https URL, or nothing.
    Url,
    /// An address to listen on, or `localhost`.
    Address,
    /// Where a secret is to be had, `${secret:NAME}` or `${VAR}`, or nothing; never the secret itself.
    Reference,
}

/// A checked value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A word of the key's set.
    Word(&'static str),
    /// A duration.
    Duration(Duration),
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Strings.
    Texts(Vec<String>),
    /// A string.
    Text(String),
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => f.write_str(text),
            Self::Duration(duration) => f.write_str(&duration::to_word(*duration)),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Bytes(bytes) => f.write_str(&duration::bytes_to_word(*bytes)),
            Self::Texts(texts) => write!(f, "{texts:?}"),
        }
    }
}

impl Setting {
    /// The value as JSON: durations and sizes as words.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Flag(flag) => Value::from(*flag),
            Self::Count(count) => Value::from(*count),
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
    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        super::host_keys::variable(self.name)
    }

    /// Checks a value from a file.
    pub fn check(&self, value: &Value) -> Result<Setting, String> {
        let texts = |items: &[Value]| -> Option<Vec<String>> {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        match (self.kind, value) {
            (Kind::Duration, Value::Number(number)) => {
                more_than_zero(duration::from_number(number.as_f64().unwrap_or(f64::NAN), Unit::Seconds))
            }
            (Kind::Flag, Value::Bool(flag)) => Ok(Setting::Flag(*flag)),
            (Kind::Interval, Value::Number(number)) => {
                interval(duration::from_number(number.as_f64().unwrap_or(f64::NAN), Unit::Seconds)?)
            }
            (Kind::Count { .. } | Kind::Bytes, Value::Number(number)) => {
                self.whole(number.as_u64().ok_or_else(|| "must be a whole number".to_owned())?)
            }
            (Kind::Variables | Kind::Folders | Kind::Paths | Kind::Texts, Value::Array(items)) => {
                self.texts(texts(items).ok_or_else(|| "must be a list of strings".to_owned())?)
            }
            (
                Kind::Word(_)
                | Kind::Duration
                | Kind::Interval
                | Kind::Bytes
                | Kind::Url
                | Kind::Address
                | Kind::Line
                | Kind::Decimal { .. }
                | Kind::Reference,
                Value::String(word),
            ) => self.check_text(word),
            (Kind::Decimal { .. } | Kind::Line, Value::Number(number)) => {
                self.check_text(&number.to_string())
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
            Kind::Duration => more_than_zero(duration::from_word(text, Unit::Seconds)),
            Kind::Flag => match text {
                "true" => Ok(Setting::Flag(true)),
                "false" => Ok(Setting::Flag(false)),
                _ => Err(format!("must be {}", self.wanted())),
            },
            Kind::Interval if text == OFF => Ok(Setting::Duration(Duration::ZERO)),
            Kind::Interval => interval(duration::from_word(text, Unit::Seconds)?),
            Kind::Count { .. } => self.whole(text.parse().map_err(|_| format!("must be {}", self.wanted()))?),
            Kind::Bytes => self.whole(duration::bytes_from_word(text)?),
            Kind::Url if text.is_empty() || is_web_url(text) => Ok(Setting::Text(text.to_owned())),
            Kind::Address if is_address(text) => Ok(Setting::Text(text.to_owned())),
            Kind::Line if is_line(text) => Ok(Setting::Text(text.to_owned())),
            Kind::Decimal { .. } if text.is_empty() => Ok(Setting::Text(String::new())),
            Kind::Decimal { max } => match millionths(text).filter(|n| *n <= u64::from(max) * MILLION) {
                Some(number) => Ok(Setting::Text(decimal(number))),
                None => Err(format!("must be {}", self.wanted())),
            },
            // What is wrong may be the secret itself: it is not shown.
            Kind::Reference if text.is_empty() || expand::reads(text).len() == 1 => {
                Ok(Setting::Text(text.to_owned()))
            }
            Kind::Url | Kind::Address | Kind::Line | Kind::Reference => {
                Err(format!("must be {}", self.wanted()))
            }
            Kind::Variables | Kind::Folders | Kind::Paths | Kind::Texts => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                self.texts(items.map(str::to_owned).collect())
            }
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
        let (fits, or): (fn(&str) -> bool, _) = match self.kind {
            Kind::Variables => (is_variable_name, "is not the name of a variable"),
            Kind::Folders => (is_folder, "must be an absolute path, or begin with \"~/\""),
            Kind::Paths => (is_path_glob, "must be a pattern of absolute paths, without \"..\""),
            _ => return Ok(Setting::Texts(texts)),
        };
        match texts.iter().find(|text| !fits(text)) {
            Some(wrong) => Err(format!("{wrong:?} {or}")),
            None => Ok(Setting::Texts(texts)),
        }
    }

    fn wanted(&self) -> String {
        match self.kind {
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Flag => "true or false".into(),
            Kind::Duration => "a number of seconds or a word such as \"30s\"".into(),
            Kind::Interval => "a number of seconds, a word such as \"30s\", or \"off\"".into(),
            Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Bytes => format!(
                "a size from {} to {}",
                duration::bytes_to_word(BYTES_MIN),
                duration::bytes_to_word(BYTES_MAX)
            ),
            Kind::Variables => "a list of names of variables".into(),
            Kind::Folders => "a list of folders".into(),
            Kind::Paths => "a list of patterns of absolute paths".into(),
            Kind::Texts => "a list of strings".into(),
            Kind::Line => format!("a text on one line, at most {LINE_LEN_MAX} bytes"),
            Kind::Decimal { max } => format!("a number from 0 to {max} with at most six decimals, or empty"),
            Kind::Url => "an absolute http or https URL without credentials".into(),
            Kind::Address => "an IP address, or localhost for both loopbacks".into(),
            Kind::Reference => "a reference such as ${secret:NAME}, not the secret itself".into(),
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
                    Setting::Word(_) | Setting::Flag(_) | Setting::Texts(_) | Setting::Text(_) => u128::MAX,
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

/// Longest text of one line, bytes.
const LINE_LEN_MAX: usize = 256;
fn is_line(text: &str) -> bool {
    text.len() <= LINE_LEN_MAX && !text.chars().any(char::is_control)
}

/// The form of a folder; that it exists is looked at where the settings are loaded.
fn is_folder(text: &str) -> bool {
    let rest = text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    (Path::new(text).is_absolute() || rest.is_some()) && !text.contains('\0')
}

/// A pattern that a whole path can fit: absolute, without a way back.
fn is_path_glob(text: &str) -> bool {
    is_folder(text) && !text.split('/').any(|part| part == "..") && path_glob(text).is_some()
}

/// The pattern of a path: `*` stays within a folder, `**` does not. `None` for one that makes no sense.
pub fn path_glob(text: &str) -> Option<globset::GlobMatcher> {
    let glob = globset::GlobBuilder::new(text).literal_separator(true).build();
    glob.ok().map(|glob| glob.compile_matcher())
}

/// No name but this one is looked up: an address is what it says.
fn is_address(text: &str) -> bool {
    let literal = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    text.eq_ignore_ascii_case("localhost") || literal.parse::<core::net::IpAddr>().is_ok()
}

/// A URL of the web, without a name or password in it.
fn is_web_url(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
    })
}

/// The word for "never" of an interval.
const OFF: &str = "off";
/// Shortest interval: a host that does nothing else is no use to anybody.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

fn interval(duration: Duration) -> Result<Setting, String> {
    match duration {
        Duration::ZERO => Ok(Setting::Duration(duration)),
        short if short < INTERVAL_MIN => Err("must be a second or more, or \"off\"".into()),
        duration => Ok(Setting::Duration(duration)),
    }
}

fn more_than_zero(read: Result<Duration, String>) -> Result<Setting, String> {
    match read? {
        Duration::ZERO => Err("must be more than zero".into()),
        duration => Ok(Setting::Duration(duration)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::host_keys::find;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn values_of_files_are_checked_by_kind() {
        let check = |name: &str, value: Value| find(name).unwrap().check(&value);
        assert_eq!(check("timeouts.idle", json!(30)), Ok(Setting::Duration(Duration::from_secs(30))));
        assert_eq!(check("timeouts.idle", json!("2m")), Ok(Setting::Duration(Duration::from_secs(120))));
        for off in [json!(0), json!("0"), json!("off")] {
            assert_eq!(check("refresh.poll", off), Ok(Setting::Duration(Duration::ZERO)));
        }
        assert_eq!(check("refresh.poll", json!("5m")), Ok(Setting::Duration(Duration::from_secs(300))));
        assert_eq!(check("limits.frame_max", json!("1MiB")), Ok(Setting::Bytes(1 << 20)));
        assert_eq!(check("env.passthrough", json!(["A"])), Ok(Setting::Texts(vec!["A".into()])));
        for (name, value) in [
            ("refresh.poll", json!("never")),
            ("refresh.poll", json!(0.5)),
            ("refresh.poll", json!(false)),
            ("timeouts.idle", json!(0)),
            ("timeouts.idle", json!(true)),
            ("timeouts.idle", json!(-1)),
            ("limits.in_flight", json!(1.5)),
            ("limits.in_flight", json!("4")),
            ("limits.in_flight", json!(0)),
            ("naming.style", json!("MCP")),
            ("env.passthrough", json!("A")),
            ("env.passthrough", json!(["A", 1])),
            ("naming.reserved", json!(null)),
        ] {
            let refused = check(name, value.clone());
            assert!(
                refused.as_ref().is_err_and(|message| !message.is_empty()),
                "{name} = {value}: {refused:?}"
            );
        }
    }

    #[test]
    fn values_of_the_environment_are_words() {
        let check = |name: &str, text: &str| find(name).unwrap().check_text(text);
        assert_eq!(check("env.passthrough", " A, B ,"), Ok(Setting::Texts(vec!["A".into(), "B".into()])));
        assert_eq!(check("limits.queue", " 7 "), Ok(Setting::Count(7)));
        assert!(check("limits.queue", "many").is_err() && check("timeouts.idle", "0").is_err());
        assert!(check("naming.style", "mcp__server_tool").unwrap_err().contains("did you mean"));
    }

    #[test]
    fn zero_is_the_highest_where_it_means_unlimited() {
        let allows = |name: &str, wanted: u64, now: u64| {
            find(name).unwrap().allows_project(&Setting::Count(wanted), &Setting::Count(now)).is_ok()
        };
        assert!(allows("restart.max", 1, 5) && allows("restart.max", 5, 0) && allows("restart.max", 0, 0));
        assert!(!allows("restart.max", 0, 5) && !allows("restart.max", 6, 5));
        assert!(allows("limits.queue", 0, 5) && !allows("limits.queue", 6, 5));
        assert!(!allows("restart.window", 1, 5));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_check_panic(text in ".{0,40}") {
            for key in crate::config::host_keys::HOST_KEYS {
                let _ = (key.check_text(&text), key.check(&Value::from(text.clone())));
            }
        }
    }
}

//! The kinds of value that a flag takes, and how each is read from one word of the command line.
//! Owns the syntax (`256KB@call`, `200/s`, `307:/mcp/`), must never act on it. Called by `args`.

use std::path::PathBuf;

/// How many words a flag takes after its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arity {
    None,
    One,
    Optional,
}

/// One flag's slot in `Flags`.
pub(crate) trait Flag {
    fn arity(&self) -> Arity;
    /// Whether a flag with an optional value takes this word.
    fn takes(&self, word: &str) -> bool;
    fn set(&mut self, word: Option<&str>) -> Result<(), String>;
}

/// A value that is read from one word.
pub(crate) trait Value: Sized {
    fn read(word: &str) -> Result<Self, String>;
}

impl Flag for bool {
    fn arity(&self) -> Arity {
        Arity::None
    }
    fn takes(&self, _: &str) -> bool {
        false
    }
    fn set(&mut self, _: Option<&str>) -> Result<(), String> {
        *self = true;
        Ok(())
    }
}

impl<T: Value> Flag for Option<T> {
    fn arity(&self) -> Arity {
        Arity::One
    }
    fn takes(&self, _: &str) -> bool {
        true
    }
    fn set(&mut self, word: Option<&str>) -> Result<(), String> {
        *self = Some(T::read(word.unwrap_or_default())?);
        Ok(())
    }
}

/// Comma-separated; a repeated flag adds to the list.
impl<T: Value> Flag for Vec<T> {
    fn arity(&self) -> Arity {
        Arity::One
    }
    fn takes(&self, _: &str) -> bool {
        true
    }
    fn set(&mut self, word: Option<&str>) -> Result<(), String> {
        for part in word.unwrap_or_default().split(',') {
            self.push(T::read(part)?);
        }
        Ok(())
    }
}

/// A flag that works alone or with a value.
#[derive(Clone, Debug, Default)]
pub(crate) enum Maybe<T> {
    #[default]
    Off,
    On(Option<T>),
}

impl<T> Maybe<T> {
    pub(crate) fn on(&self) -> bool {
        matches!(self, Self::On(_))
    }
    pub(crate) fn value(&self) -> Option<&T> {
        match self {
            Self::On(value) => value.as_ref(),
            Self::Off => None,
        }
    }
}

impl<T: Value> Flag for Maybe<T> {
    fn arity(&self) -> Arity {
        Arity::Optional
    }
    fn takes(&self, word: &str) -> bool {
        T::read(word).is_ok()
    }
    fn set(&mut self, word: Option<&str>) -> Result<(), String> {
        *self = Self::On(word.map(T::read).transpose()?);
        Ok(())
    }
}

/// Where a behaviour is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Start,
    Call,
    List,
}

impl Value for Place {
    fn read(word: &str) -> Result<Self, String> {
        match word {
            "@start" | "@init" => Ok(Self::Start),
            "@call" => Ok(Self::Call),
            "@list" => Ok(Self::List),
            _ => Err(format!("{word:?} is no place; use @start, @call or @list")),
        }
    }
}

/// `VALUE@place`; without a place the flag's own default holds.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    place: Option<Place>,
}

impl<T> At<T> {
    /// The value, when the behaviour belongs here.
    pub(crate) fn at(&self, here: Place, default: Place) -> Option<&T> {
        (self.place.unwrap_or(default) == here).then_some(&self.value)
    }
}

impl<T> At<T> {
    /// The value, when the behaviour belongs here; without a place it belongs everywhere.
    pub(crate) fn anywhere(&self, here: Option<Place>) -> Option<&T> {
        (self.place.is_none() || self.place == here).then_some(&self.value)
    }
}

/// The value of `slot`, when the behaviour belongs `here`.
pub(crate) fn at<T>(slot: &Option<At<T>>, here: Place, default: Place) -> Option<&T> {
    slot.as_ref().and_then(|at| at.at(here, default))
}

impl<T: Value> Value for At<T> {
    fn read(word: &str) -> Result<Self, String> {
        let (value, place) = match word.rfind('@').map(|at| (&word[..at], Place::read(word[at..].trim()))) {
            Some((value, Ok(place))) => (value, Some(place)),
            _ => (word, None),
        };
        Ok(Self { value: T::read(value.trim())?, place })
    }
}

/// Comma-separated values as one.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T: Value> Value for List<T> {
    fn read(word: &str) -> Result<Self, String> {
        word.split(',').map(|part| T::read(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl Value for String {
    fn read(word: &str) -> Result<Self, String> {
        Ok(word.to_owned())
    }
}

impl Value for PathBuf {
    fn read(word: &str) -> Result<Self, String> {
        if word.is_empty() { Err("a path is expected".into()) } else { Ok(Self::from(word)) }
    }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Value for $t {
            fn read(word: &str) -> Result<Self, String> {
                word.parse().map_err(|_| format!("{word:?} is not a number of kind {}", stringify!($t)))
            }
        }
    )*};
}
numbers!(u64, u16, i64, usize);

/// A size in bytes: `512`, `256KB`, `0.13MB`, `2GB` (1 KB = 1024 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// A size where a bare number counts megabytes (1 MB = 1024 × 1024 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Megabytes(pub(crate) u64);

fn scaled(word: &str, bare: f64) -> Result<u64, String> {
    let split = word.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(split);
    let factor = match unit.trim().to_ascii_uppercase().as_str() {
        "" => bare,
        "B" => 1.0,
        "K" | "KB" | "KIB" => 1024.0,
        "M" | "MB" | "MIB" => 1024.0 * 1024.0,
        "G" | "GB" | "GIB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("{word:?}: unknown unit {unit:?}; use B, KB, MB or GB")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{word:?} is not a size"))?;
    Ok((number * factor) as u64)
}

impl Value for Size {
    fn read(word: &str) -> Result<Self, String> {
        scaled(word, 1.0).map(Self)
    }
}

impl Value for Megabytes {
    fn read(word: &str) -> Result<Self, String> {
        scaled(word, 1024.0 * 1024.0).map(Self)
    }
}

/// A rate: `200/s`, `200` or `0.5/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hertz(pub(crate) f64);

impl Hertz {
    pub(crate) fn period(self) -> std::time::Duration {
        std::time::Duration::from_secs_f64(1.0 / self.0)
    }
}

impl Value for Hertz {
    fn read(word: &str) -> Result<Self, String> {
        let digits = word.strip_suffix("/s").unwrap_or(word);
        match digits.parse::<f64>() {
            Ok(hz) if hz.is_finite() && hz > 0.001 => Ok(Self(hz)),
            _ => Err(format!("{word:?} is not a rate; write 200/s")),
        }
    }
}

/// Any JSON value.
#[derive(Clone, Debug)]
pub(crate) struct Json(pub(crate) serde_json::Value);

impl Value for Json {
    fn read(word: &str) -> Result<Self, String> {
        serde_json::from_str(word).map(Self).map_err(|e| format!("not JSON: {e}"))
    }
}

/// Where POSTs are redirected.
#[derive(Clone, Debug)]
pub(crate) enum Redirect {
    Loop,
    To { code: u16, target: String },
}

impl Value for Redirect {
    fn read(word: &str) -> Result<Self, String> {
        if word == "loop" {
            return Ok(Self::Loop);
        }
        let (code, target) = word.split_once(':').ok_or("write CODE:TARGET or loop")?;
        Ok(Self::To { code: u16::read(code)?, target: target.to_owned() })
    }
}

/// `STATUS[xN][:SECONDS]`: the first N requests get that HTTP status, with Retry-After when seconds are given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpFail {
    pub(crate) status: u16,
    pub(crate) times: u64,
    pub(crate) retry_after_s: Option<u64>,
}

impl Value for HttpFail {
    fn read(word: &str) -> Result<Self, String> {
        let (head, retry) = word.split_once(':').map_or((word, None), |(h, r)| (h, Some(r)));
        let (status, times) = head.split_once('x').map_or((head, None), |(s, n)| (s, Some(n)));
        Ok(Self {
            status: u16::read(status)?,
            times: times.map_or(Ok(u64::MAX), u64::read)?,
            retry_after_s: retry.map(u64::read).transpose()?,
        })
    }
}

/// `huge(SIZE)` and plain words among the kinds of description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DescKind {
    Inject,
    Ansi,
    Tags,
    Bidi,
    ZeroWidth,
    Huge(Size),
}

impl Value for DescKind {
    fn read(word: &str) -> Result<Self, String> {
        match word {
            "inject" => Ok(Self::Inject),
            "ansi" => Ok(Self::Ansi),
            "tags" => Ok(Self::Tags),
            "bidi" => Ok(Self::Bidi),
            "zero-width" => Ok(Self::ZeroWidth),
            _ => {
                let size = word.strip_prefix("huge(").and_then(|rest| rest.strip_suffix(')'));
                size.map_or_else(
                    || Err(format!("{word:?}: use inject, ansi, tags, bidi, zero-width or huge(SIZE)")),
                    |size| Size::read(size).map(Self::Huge),
                )
            }
        }
    }
}

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($variant:ident = $word:literal),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($variant),* }

        impl Value for $name {
            fn read(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("{word:?} is unknown here; use one of: {}", [$($word),*].join(", "))),
                }
            }
        }
    )*};
}

words! {
    /// Which protocol the server speaks.
    EraFlag { Legacy = "legacy", Modern = "modern", Both = "both" }
    /// What stands in place of the right id.
    WrongId { Zero = "zero", Null = "null", Random = "random" }
    /// Reaction to `notifications/cancelled`.
    OnCancel { Honour = "honour", Ignore = "ignore" }
    /// A request from server to client.
    Ask { Roots = "roots", Sampling = "sampling", Elicitation = "elicitation", Ping = "ping", Unknown = "unknown" }
    /// A sort of odd tool name.
    NameKind {
        Long = "long", Dots = "dots", Slash = "slash", Space = "space", Unicode = "unicode", Empty = "empty",
        Sep = "sep",
    }
    /// A sort of broken tool definition.
    BadSchema {
        AnyofTop = "anyof-top", StringRoot = "string-root", Missing = "missing", EmptyObject = "empty-object",
        RequiredNull = "required-null", NullTool = "null-tool",
    }
    /// A sort of broken output schema.
    BadOutput { NoType = "no-type", Garbage = "garbage" }
    /// A kind of content block.
    ContentKind {
        Text = "text", Image = "image", Audio = "audio", ResourceLink = "resource_link", Embedded = "embedded",
        Blob = "blob", Unknown = "unknown",
    }
    /// The authentication that is asked for.
    Auth { Bearer = "bearer" }
    /// Where escape sequences are put.
    Everywhere { Everywhere = "everywhere" }
    /// What is refused until `notifications/initialized` was seen.
    Strictness { Hide = "hide", Error = "error" }
    /// A capability that is left out.
    Capability {
        Tools = "tools", Resources = "resources", Prompts = "prompts", Logging = "logging",
        ListChanged = "list-changed", Subscribe = "subscribe", Completions = "completions",
    }
    /// How HTTP answers are framed.
    HttpAnswer { Auto = "auto", Json = "json", Sse = "sse" }
}

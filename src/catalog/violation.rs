//! What is wrong with arguments, in words that a person or a model can act on: the
//! path, what was expected, what was found, and the nearest right spelling. Values of
//! fields whose name speaks of credentials are never repeated. Called by `schema`.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use super::json::cut;
use super::merge::closest;

/// How many violations of one call are told.
pub const VIOLATIONS_MAX: usize = 8;
/// How many allowed values or known names a message lists.
const LISTED_MAX: usize = 20;
/// How much of a value is repeated, in bytes.
const VALUE_LEN_MAX: usize = 40;
/// How deep alternatives in alternatives are looked into.
const BRANCH_DEPTH_MAX: usize = 4;

/// One thing that is wrong with the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where: `filters[0].kind`; `arguments` for the whole.
    pub path: String,
    /// What, without the path.
    pub message: String,
}

impl Violation {
    /// A violation of the arguments as a whole.
    pub(super) fn of_all(message: impl Into<String>) -> Self {
        Self { path: "arguments".to_owned(), message: message.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// All violations in one sentence, for the message of an error.
pub fn sentence(tool: &str, violations: &[Violation]) -> String {
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    format!("the arguments of {tool} do not fit its schema: {}", list.join("; "))
}

/// The kind of a value, with its article.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(n) if n.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Turns what the validator found into violations; at most `VIOLATIONS_MAX`.
pub(super) fn explain<'a>(
    schema: &Value,
    errors: impl Iterator<Item = ValidationError<'a>>,
) -> Vec<Violation> {
    let mut out: Vec<Violation> = Vec::new();
    for error in errors {
        for violation in explain_one(schema, &error, 0) {
            if out.len() == VIOLATIONS_MAX {
                return out;
            }
            if !out.contains(&violation) {
                out.push(violation);
            }
        }
    }
    out
}

fn explain_one(schema: &Value, error: &ValidationError<'_>, depth: usize) -> Vec<Violation> {
    use ValidationErrorKind as Kind;
    let path = error.instance_path();
    let value: &Value = error.instance();
    let say = |message: String| vec![Violation { path: written(path), message }];
    let got = || shown(path, value);
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![Violation { path: below(path, name), message: missing(schema, error, name, value) }]
        }
        Kind::Type { kind } => say(format!("must be {}, got {}", types(kind), got())),
        Kind::Enum { options } => say(not_among(options, value, &got())),
        Kind::Constant { expected_value } => say(format!("must be {}, got {}", one(expected_value), got())),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected.iter().take(VIOLATIONS_MAX).map(|name| unknown(schema, error, name)).collect()
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } if depth < BRANCH_DEPTH_MAX => {
            alternatives(schema, error, context, depth)
        }
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            say("matches none of the allowed forms".to_owned())
        }
        Kind::OneOfMultipleValid { .. } => {
            say("matches more than one of the allowed forms; exactly one may fit".to_owned())
        }
        Kind::Minimum { limit } => say(format!("must be at least {limit}, got {}", got())),
        Kind::Maximum { limit } => say(format!("must be at most {limit}, got {}", got())),
        Kind::ExclusiveMinimum { limit } => say(format!("must be more than {limit}, got {}", got())),
        Kind::ExclusiveMaximum { limit } => say(format!("must be less than {limit}, got {}", got())),
        Kind::MultipleOf { multiple_of } => {
            say(format!("must be a multiple of {multiple_of}, got {}", got()))
        }
        Kind::MinLength { limit } => say(format!("must have at least {limit} characters")),
        Kind::MaxLength { limit } => say(format!("must have at most {limit} characters")),
        Kind::MinItems { limit } => say(format!("must have at least {limit} items, got {}", len(value))),
        Kind::MaxItems { limit } => say(format!("must have at most {limit} items, got {}", len(value))),
        Kind::AdditionalItems { limit } => {
            say(format!("must have at most {limit} items, got {}", len(value)))
        }
        Kind::MinProperties { limit } => {
            say(format!("must have at least {limit} members, got {}", len(value)))
        }
        Kind::MaxProperties { limit } => {
            say(format!("must have at most {limit} members, got {}", len(value)))
        }
        Kind::UniqueItems => say("must not have equal items".to_owned()),
        Kind::Contains => say("must have an item of the required form".to_owned()),
        Kind::Pattern { pattern } => {
            say(format!("must match the pattern {}, got {}", cut(pattern, 120), got()))
        }
        Kind::Format { format } => say(format!("must have the format {}, got {}", cut(format, 40), got())),
        // An object that may have no members at all is reported as a whole.
        Kind::FalseSchema if error.schema_path().as_str().ends_with("/additionalProperties") => {
            say("takes no members".to_owned())
        }
        Kind::FalseSchema => say("is not allowed".to_owned()),
        Kind::Not { .. } => say("has a form that is not allowed".to_owned()),
        Kind::PropertyNames { .. } => say("has a member whose name is not allowed".to_owned()),
        Kind::UnevaluatedItems { .. } => say("has items that are not allowed".to_owned()),
        // The check itself gave up: that is no fault of the arguments.
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } | Kind::Referencing(_) => {
            Vec::new()
        }
        other => say(format!("violates `{}` of the schema", other.keyword())),
    }
}

fn len(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

/// The schema that holds the violated keyword.
fn holder<'a>(schema: &'a Value, error: &ValidationError<'_>) -> Option<&'a Value> {
    let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
    schema.pointer(parent)
}

fn names(holder: Option<&Value>) -> Vec<&str> {
    let fields = holder.and_then(|h| h.get("properties")).and_then(Value::as_object);
    fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn missing(schema: &Value, error: &ValidationError<'_>, name: &str, value: &Value) -> String {
    let holder = holder(schema, error);
    let declared = holder.and_then(|h| h.get("properties")?.get(name)?.get("type"));
    let kind = match declared {
        Some(Value::String(kind)) => format!(" ({})", cut(kind, 20)),
        _ => String::new(),
    };
    // A member that the schema does not know may be this one, misspelt.
    let known = names(holder);
    let extra = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .filter(|key| !known.contains(key));
    match closest(name, extra.map(|key| (key, key)), 1).first() {
        Some(near) => format!("is missing{kind}; {near:?} was given instead"),
        None => format!("is missing{kind}"),
    }
}

fn unknown(schema: &Value, error: &ValidationError<'_>, name: &str) -> Violation {
    let known = names(holder(schema, error));
    let hint = match closest(name, known.iter().map(|known| (*known, *known)), 1).first() {
        Some(near) => format!("did you mean {near:?}?"),
        None if known.is_empty() => "no other members are allowed".to_owned(),
        None => format!("known: {}", listed(known.iter().map(|known| (*known).to_owned()))),
    };
    Violation { path: below(error.instance_path(), name), message: format!("is unknown; {hint}") }
}

fn types(kind: &TypeKind) -> String {
    let name = |kind: JsonType| match kind.as_str() {
        "string" => "text (string)",
        "integer" => "an integer",
        "array" => "an array",
        "object" => "an object",
        "boolean" => "a boolean",
        "number" => "a number",
        other => other,
    };
    match kind {
        TypeKind::Single(kind) => name(*kind).to_owned(),
        TypeKind::Multiple(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
    }
}

fn not_among(options: &Value, value: &Value, got: &str) -> String {
    let options: Vec<&Value> = options.as_array().map(|list| list.iter().collect()).unwrap_or_default();
    let text = format!("must be one of {}, got {got}", listed(options.iter().map(|option| one(option))));
    let words = options.iter().filter_map(|option| option.as_str()).map(|word| (word, word));
    match value.as_str().map(|wrong| closest(wrong, words, 1)).as_deref() {
        Some([near]) => format!("{text}; did you mean {near:?}?"),
        _ => text,
    }
}

fn listed(mut options: impl Iterator<Item = String>) -> String {
    let mut shown: Vec<String> = options.by_ref().take(LISTED_MAX).collect();
    let more = options.count();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

/// A value of the schema, short.
fn one(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= VALUE_LEN_MAX * 2 { text } else { format!("{}…", cut(&text, VALUE_LEN_MAX * 2)) }
}

/// A value of the caller, short: its kind, and itself where that helps and is no secret.
fn shown(path: &Location, value: &Value) -> String {
    let kind = kind_of(value);
    if path.iter().any(|part| matches!(&part, LocationSegment::Property(name) if speaks_of_credentials(name)))
    {
        return format!("{kind} (not shown)");
    }
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => kind.to_owned(),
        _ => {
            let text = value.to_string();
            if text.len() <= VALUE_LEN_MAX {
                format!("{kind} {text}")
            } else {
                format!("{kind} {}…", cut(&text, VALUE_LEN_MAX))
            }
        }
    }
}

/// Whether a field's name says that its value is a secret.
pub fn speaks_of_credentials(name: &str) -> bool {
    const WORDS: [&str; 12] = [
        "token",
        "secret",
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "apikey",
        "credential",
        "credentials",
        "authorization",
        "cookie",
        "auth",
    ];
    let words = super::words::words(name);
    let joined = words.concat();
    // `nextPageToken` and `max_tokens` are about pages and counts.
    let about_pages =
        words.iter().any(|w| matches!(w.as_str(), "page" | "next" | "continuation" | "cursor" | "sync"));
    (!about_pages && words.iter().any(|word| WORDS.contains(&word.as_str())))
        || ["apikey", "privatekey", "accesskey", "secretkey"].iter().any(|key| joined.contains(key))
}

/// Why none of several forms fits: the one that was meant, if that can be told.
fn alternatives(
    schema: &Value,
    error: &ValidationError<'_>,
    context: &[Vec<ValidationError<'static>>],
    depth: usize,
) -> Vec<Violation> {
    let path = error.instance_path();
    let of_kind = |e: &ValidationError<'_>| {
        e.instance_path().as_str() == path.as_str() && matches!(e.kind(), ValidationErrorKind::Type { .. })
    };
    let other_kind = |branch: &&Vec<ValidationError<'static>>| branch.iter().any(of_kind);
    let fitting: Vec<_> = context.iter().filter(|branch| !other_kind(branch)).collect();
    if fitting.is_empty() {
        let mut kinds: Vec<String> = Vec::new();
        for e in context.iter().flatten() {
            if let ValidationErrorKind::Type { kind } = e.kind()
                && of_kind(e)
                && !kinds.contains(&types(kind))
            {
                kinds.push(types(kind));
            }
        }
        let got = shown(path, error.instance());
        return vec![Violation {
            path: written(path),
            message: format!("must be {}, got {got}", kinds.join(" or ")),
        }];
    }
    // A branch whose tag (a `const` or `enum`) does not fit was not meant.
    let tagged = |branch: &&&Vec<ValidationError<'static>>| {
        branch.iter().any(|e| {
            matches!(e.kind(), ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. })
                && e.instance_path().as_str() != path.as_str()
        })
    };
    let meant: Vec<_> = fitting.iter().filter(|branch| !tagged(branch)).collect();
    let pool: Vec<&Vec<ValidationError<'static>>> =
        if meant.is_empty() { fitting.clone() } else { meant.into_iter().copied().collect() };
    let best = pool.iter().min_by_key(|branch| branch.len());
    let Some(best) = best else {
        return vec![Violation {
            path: written(path),
            message: "matches none of the allowed forms".to_owned(),
        }];
    };
    let mut found: Vec<Violation> = best.iter().flat_map(|e| explain_one(schema, e, depth + 1)).collect();
    found.truncate(VIOLATIONS_MAX);
    if pool.len() > 1
        && let Some(first) = found.first_mut()
    {
        first.message = format!("{} (in the nearest of {} forms)", first.message, context.len());
    }
    found
}

/// `a.b[0]["odd key"]`; `arguments` for the root.
fn written(path: &Location) -> String {
    let mut out = String::new();
    for part in path.iter() {
        match part {
            LocationSegment::Index(i) => out += &format!("[{i}]"),
            LocationSegment::Property(name) => push_name(&mut out, &name),
        }
    }
    if out.is_empty() { "arguments".to_owned() } else { out }
}

fn below(path: &Location, name: &str) -> String {
    let mut out = if path.as_str().is_empty() { String::new() } else { written(path) };
    push_name(&mut out, name);
    out
}

fn push_name(out: &mut String, name: &str) {
    let name = cut(name, 120);
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    if !plain {
        *out += &format!("[{name:?}]");
        return;
    }
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}

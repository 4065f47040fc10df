//! Floor 5. A form that a server asks a person to fill in (`elicitation/create`): its fields as the
//! schema types them, and what was typed read back. The schema is a flat object of primitives
//! (protocol, revisions 2025-06-18 to 2026-07-28). Pure. Used by `asking`.

use serde_json::{Map, Value, json};
use url::Url;

/// Fields that a form may have; a longer one is no form for a person.
pub const FIELDS_MAX: usize = 50;

/// What a server asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Values for fields. No fields at all: just a yes.
    Form {
        /// What it says; as sent.
        message: String,
        /// The fields, in order.
        fields: Vec<Field>,
    },
    /// That an address is opened in a browser.
    Visit {
        /// What it says; as sent.
        message: String,
        /// The address.
        url: Url,
    },
}

/// One field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its key.
    pub key: String,
    /// What it is called; as sent.
    pub title: Option<String>,
    /// What it is for; as sent.
    pub about: Option<String>,
    /// Whether it must be filled in.
    pub required: bool,
    /// What counts when nothing is typed.
    pub default: Option<Value>,
    /// What fits.
    pub kind: Kind,
}

/// What fits into a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A text; least and most characters; its format.
    Text(Option<u64>, Option<u64>, Option<String>),
    /// A number; whole or not; least and most.
    Number(bool, Option<f64>, Option<f64>),
    /// Yes or no.
    Flag,
    /// One of these.
    One(Vec<Choice>),
    /// Some of these; least and most.
    Some(Vec<Choice>, Option<u64>, Option<u64>),
}

/// One of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is sent.
    pub value: String,
    /// What is shown.
    pub name: String,
}

/// Reads the `params` of `elicitation/create`.
///
/// # Errors
/// In a few words, when it is no form that a person can fill in.
pub fn read(params: &[u8]) -> Result<Request, String> {
    let params: Value = serde_json::from_slice(params).map_err(|e| format!("it is not valid JSON: {e}"))?;
    let message = text(&params, "message").unwrap_or_default();
    match params.get("mode").and_then(Value::as_str).unwrap_or("form") {
        "url" => {
            let url = text(&params, "url").ok_or("it names no URL")?;
            let url = Url::parse(&url).map_err(|e| format!("its URL is none: {e}"))?;
            if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
                return Err(format!("a URL of the kind {}: is never shown", url.scheme()));
            }
            Ok(Request::Visit { message, url })
        }
        "form" => Ok(Request::Form { message, fields: fields(params.get("requestedSchema"))? }),
        other => Err(format!("it is of a kind that is not known: {other}")),
    }
}

fn text(of: &Value, key: &str) -> Option<String> {
    of.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn fields(schema: Option<&Value>) -> Result<Vec<Field>, String> {
    let schema = schema.ok_or("it has no schema")?;
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    if properties.len() > FIELDS_MAX {
        return Err(format!("it has {} fields, more than {FIELDS_MAX}", properties.len()));
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |key: &str| required.is_some_and(|all| all.iter().any(|name| name == key));
    properties
        .iter()
        .map(|(key, property)| {
            let kind =
                kind(property).ok_or_else(|| format!("its field {key} is of no kind that can be typed"))?;
            Ok(Field {
                key: key.clone(),
                title: text(property, "title"),
                about: text(property, "description"),
                required: is_required(key),
                default: property.get("default").filter(|value| !value.is_null()).cloned(),
                kind,
            })
        })
        .collect()
}

fn kind(property: &Value) -> Option<Kind> {
    let count = |key: &str| property.get(key).and_then(Value::as_u64);
    let limit = |key: &str| property.get(key).and_then(Value::as_f64);
    if let Some(choices) = choices(property) {
        return Some(Kind::One(choices));
    }
    match property.get("type").and_then(Value::as_str)? {
        "string" => Some(Kind::Text(count("minLength"), count("maxLength"), text(property, "format"))),
        "number" => Some(Kind::Number(false, limit("minimum"), limit("maximum"))),
        "integer" => Some(Kind::Number(true, limit("minimum"), limit("maximum"))),
        "boolean" => Some(Kind::Flag),
        "array" => Some(Kind::Some(choices(property.get("items")?)?, count("minItems"), count("maxItems"))),
        _ => None,
    }
}

/// `enum` with or without `enumNames`, or `oneOf` or `anyOf` of `{const, title}`.
fn choices(of: &Value) -> Option<Vec<Choice>> {
    if let Some(words) = of.get("enum").and_then(Value::as_array) {
        let names = of.get("enumNames").and_then(Value::as_array);
        let name = |at: usize| names.and_then(|names| names.get(at)).and_then(Value::as_str);
        let words = words.iter().enumerate();
        return words
            .map(|(at, word)| {
                let value = word.as_str()?.to_owned();
                Some(Choice { name: name(at).unwrap_or(&value).to_owned(), value })
            })
            .collect::<Option<Vec<_>>>()
            .filter(|all| !all.is_empty());
    }
    let titled = of.get("oneOf").or_else(|| of.get("anyOf")).and_then(Value::as_array)?;
    titled
        .iter()
        .map(|one| {
            let value = text(one, "const")?;
            Some(Choice { name: text(one, "title").unwrap_or_else(|| value.clone()), value })
        })
        .collect::<Option<Vec<_>>>()
        .filter(|all| !all.is_empty())
}

impl Field {
    /// What is asked for, in a few words beside its name: what fits, whether it may be left out.
    pub fn hint(&self) -> String {
        let mut parts = Vec::new();
        match &self.kind {
            Kind::Text(min, max, format) => {
                parts.extend(format.clone());
                parts.extend(range(min.as_ref(), max.as_ref(), " characters"));
            }
            Kind::Number(whole, min, max) => {
                parts.push(if *whole { "whole number" } else { "number" }.to_owned());
                parts.extend(range(min.as_ref(), max.as_ref(), ""));
            }
            Kind::Flag => parts.push("yes or no".to_owned()),
            Kind::One(_) => parts.push("one of them, by number or name".to_owned()),
            Kind::Some(_, min, max) => {
                parts.push("several, with commas between".to_owned());
                parts.extend(range(min.as_ref(), max.as_ref(), ""));
            }
        }
        if let Some(default) = &self.default {
            parts.push(format!("default {}", shown(default)));
        } else if !self.required {
            parts.push("may be left empty".to_owned());
        }
        parts.join(", ")
    }

    /// What is offered to choose from.
    pub fn choices(&self) -> &[Choice] {
        match &self.kind {
            Kind::One(choices) | Kind::Some(choices, ..) => choices,
            _ => &[],
        }
    }

    /// Whether what is asked for looks like a credential, which no form may ask for.
    pub fn looks_secret(&self) -> bool {
        let name = format!("{} {}", self.key, self.title.as_deref().unwrap_or_default()).to_lowercase();
        ["password", "passwd", "secret", "token", "api key", "apikey", "api_key", "credential", "private key"]
            .iter()
            .any(|word| name.contains(word))
    }

    /// What was typed, as the value that is sent; `None` leaves the field out.
    ///
    /// # Errors
    /// With what would fit.
    pub fn take(&self, typed: &str) -> Result<Option<Value>, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if self.required => Err("it must be filled in (Ctrl-C leaves the form)".to_owned()),
                None => Ok(None),
            };
        }
        self.value(typed).map(Some)
    }

    fn value(&self, typed: &str) -> Result<Value, String> {
        match &self.kind {
            Kind::Text(min, max, format) => {
                let count = typed.chars().count() as u64;
                if min.is_some_and(|min| count < min) || max.is_some_and(|max| count > max) {
                    let wanted = range(min.as_ref(), max.as_ref(), " characters").unwrap_or_default();
                    return Err(format!("it has {count} characters; wanted: {wanted}"));
                }
                check_format(typed, format.as_deref())?;
                Ok(Value::from(typed))
            }
            Kind::Number(whole, min, max) => number(typed, *whole, *min, *max),
            Kind::Flag => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" | "1" | "on" => Ok(json!(true)),
                "n" | "no" | "false" | "0" | "off" => Ok(json!(false)),
                _ => Err("yes or no".to_owned()),
            },
            Kind::One(choices) => chosen(choices, typed).map(Value::from),
            Kind::Some(choices, min, max) => {
                let mut all: Vec<String> = Vec::new();
                for word in typed.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                    let value = chosen(choices, word)?;
                    if !all.contains(&value) {
                        all.push(value);
                    }
                }
                let count = all.len() as u64;
                if min.is_some_and(|min| count < min) || max.is_some_and(|max| count > max) {
                    let wanted = range(min.as_ref(), max.as_ref(), "").unwrap_or_default();
                    return Err(format!("{count} are chosen; wanted: {wanted}"));
                }
                Ok(Value::from(all))
            }
        }
    }
}

fn number(typed: &str, whole: bool, min: Option<f64>, max: Option<f64>) -> Result<Value, String> {
    let value: Value = if whole {
        let number: i64 = typed.parse().map_err(|_| format!("{typed} is no whole number"))?;
        Value::from(number)
    } else {
        let number: f64 =
            typed.parse().ok().filter(|n: &f64| n.is_finite()).ok_or(format!("{typed} is no number"))?;
        Value::from(number)
    };
    let number = value.as_f64().unwrap_or_default();
    if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
        return Err(range(min.as_ref(), max.as_ref(), "").unwrap_or_default());
    }
    Ok(value)
}

/// By its number in the list, its value or its name.
fn chosen(choices: &[Choice], typed: &str) -> Result<String, String> {
    let exact = choices.iter().find(|choice| choice.value == typed || choice.name == typed);
    let same = |choice: &&Choice| {
        choice.value.eq_ignore_ascii_case(typed) || choice.name.eq_ignore_ascii_case(typed)
    };
    let number = typed.parse::<usize>().ok().and_then(|at| choices.get(at.checked_sub(1)?));
    let found = exact.or(number).or_else(|| choices.iter().find(same));
    found.map(|choice| choice.value.clone()).ok_or_else(|| format!("{typed} is not in the list"))
}

fn check_format(typed: &str, format: Option<&str>) -> Result<(), String> {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let is_date = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        matches!(parts.as_slice(), [y, m, d] if digits(y, 4) && digits(m, 2) && digits(d, 2)
            && ("01"..="12").contains(m) && ("01"..="31").contains(d))
    };
    let fits = match format {
        Some("email") => typed.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && host.contains('.') && !typed.contains(char::is_whitespace)
        }),
        Some("uri") => Url::parse(typed).is_ok(),
        Some("date") => is_date(typed),
        Some("date-time") => humantime::parse_rfc3339_weak(typed).is_ok() || is_offset_time(typed),
        _ => true,
    };
    match format {
        Some(format) if !fits => Err(match format {
            "email" => "an address such as name@example.com".to_owned(),
            "uri" => "a URI such as https://example.com/x".to_owned(),
            "date" => "a date such as 2026-07-28".to_owned(),
            _ => "a time such as 2026-07-28T12:00:00Z".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// RFC 3339 with an offset in place of `Z`.
fn is_offset_time(typed: &str) -> bool {
    let Some(at) = typed.rfind(['+', '-']).filter(|at| *at > 10) else { return false };
    let (time, offset) = typed.split_at(at);
    let offset = &offset[1..];
    offset.len() == 5
        && offset.as_bytes()[2] == b':'
        && humantime::parse_rfc3339_weak(&format!("{time}Z")).is_ok()
}

fn range<T: std::fmt::Display>(min: Option<&T>, max: Option<&T>, unit: &str) -> Option<String> {
    match (min, max) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}")),
        (Some(min), None) => Some(format!("at least {min}{unit}")),
        (None, Some(max)) => Some(format!("at most {max}{unit}")),
        (None, None) => None,
    }
}

/// A value in a few letters.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Array(all) => all.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The `result` for a form that was filled in.
pub fn accepted(content: Map<String, Value>) -> Value {
    json!({"action": "accept", "content": content})
}

/// The `result` for one that was not: `decline` or `cancel`.
pub fn refused(action: &str) -> Value {
    json!({ "action": action })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields_of(properties: Value, required: &[&str]) -> Vec<Field> {
        let params = json!({"message": "m", "requestedSchema": {"type": "object", "properties": properties, "required": required}});
        match read(params.to_string().as_bytes()).unwrap() {
            Request::Form { fields, .. } => fields,
            other => panic!("{other:?}"),
        }
    }

    fn one(property: Value) -> Field {
        fields_of(json!({ "f": property }), &["f"]).remove(0)
    }

    #[test]
    fn what_is_typed_becomes_a_value_of_the_type_of_the_schema() {
        let titled = json!([{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]);
        for (property, typed, want) in [
            (json!({"type": "string"}), "  a b ", json!("a b")),
            (json!({"type": "string", "format": "email"}), "a@b.org", json!("a@b.org")),
            (json!({"type": "string", "format": "uri"}), "https://e.org", json!("https://e.org")),
            (json!({"type": "string", "format": "date"}), "2026-07-28", json!("2026-07-28")),
            (
                json!({"type": "string", "format": "date-time"}),
                "2026-07-28T10:00:00Z",
                json!("2026-07-28T10:00:00Z"),
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                "2026-07-28T10:00:00+02:00",
                json!("2026-07-28T10:00:00+02:00"),
            ),
            (json!({"type": "integer"}), "-7", json!(-7)),
            (json!({"type": "number"}), "0.5", json!(0.5)),
            (json!({"type": "boolean"}), "Y", json!(true)),
            (json!({"type": "boolean"}), "no", json!(false)),
            (json!({"type": "string", "enum": ["a", "b"]}), "2", json!("b")),
            (json!({"type": "string", "enum": ["a", "b"], "enumNames": ["Anna", "Bea"]}), "anna", json!("a")),
            (json!({"type": "string", "oneOf": titled}), "Green", json!("#0f0")),
            (
                json!({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}),
                "3, a,c",
                json!(["c", "a"]),
            ),
            (json!({"type": "array", "items": {"anyOf": titled}}), "Red", json!(["#f00"])),
            (json!({"type": "string", "enum": ["1", "2", "10"]}), "2", json!("2")),
        ] {
            assert_eq!(one(property.clone()).take(typed), Ok(Some(want)), "{property} {typed}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        for (property, typed) in [
            (json!({"type": "string", "minLength": 3}), "ab"),
            (json!({"type": "string", "maxLength": 2}), "äöü"),
            (json!({"type": "string", "format": "email"}), "nobody"),
            (json!({"type": "string", "format": "date"}), "2026-13-01"),
            (json!({"type": "string", "format": "date-time"}), "noon"),
            (json!({"type": "integer"}), "1.5"),
            (json!({"type": "integer", "minimum": 1, "maximum": 5}), "6"),
            (json!({"type": "number"}), "NaN"),
            (json!({"type": "boolean"}), "maybe"),
            (json!({"type": "string", "enum": ["a"]}), "b"),
            (json!({"type": "string", "enum": ["a"]}), "0"),
            (json!({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}), "a,b"),
            (json!({"type": "string"}), "  "),
        ] {
            let told = one(property.clone()).take(typed).unwrap_err();
            assert!(!told.is_empty(), "{property} {typed}");
        }
    }

    #[test]
    fn an_empty_answer_is_the_default_or_nothing_or_an_error() {
        let fields =
            fields_of(json!({"d": {"type": "integer", "default": 3}, "o": {"type": "string"}}), &["d"]);
        assert_eq!(fields[0].take(""), Ok(Some(json!(3))));
        assert_eq!(fields[1].take(""), Ok(None));
        assert!(fields[0].hint().contains("default 3") && fields[1].hint().contains("left empty"));
    }

    #[test]
    fn what_is_no_form_is_told_and_an_odd_address_is_never_shown() {
        for params in [
            json!({"mode": "url", "url": "file:///etc/passwd"}),
            json!({"mode": "url", "url": "javascript:alert(1)"}),
            json!({"mode": "url", "url": "nonsense"}),
            json!({"mode": "url"}),
            json!({"mode": "dance", "requestedSchema": {}}),
            json!({"requestedSchema": {"properties": {"a": {"type": "object"}}}}),
            json!({"requestedSchema": {"properties": {"a": {"type": "array", "items": {"type": "string"}}}}}),
            json!({"message": "m"}),
        ] {
            assert!(read(params.to_string().as_bytes()).is_err(), "{params}");
        }
        let many: Map<String, Value> =
            (0..=FIELDS_MAX).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
        assert!(read(json!({"requestedSchema": {"properties": many}}).to_string().as_bytes()).is_err());
        let url = read(br#"{"mode":"url","message":"go","url":"https://user@e.org:8443/x?y"}"#).unwrap();
        assert!(matches!(url, Request::Visit { url, .. } if url.host_str() == Some("e.org")));
    }

    #[test]
    fn a_field_that_wants_a_credential_is_seen() {
        let named = |key: &str| fields_of(json!({ key: {"type": "string"} }), &[])[0].looks_secret();
        assert!(named("password") && named("github_token") && named("apiKey"));
        assert!(!named("city"));
    }
}

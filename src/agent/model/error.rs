//! What goes wrong with a model, in kinds that decide what comes next: whether waiting helps, whether the
//! conversation has to be shortened, whether a person has to change something. Pure.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// Longest text of an endpoint that is told, characters.
const TOLD_MAX: usize = 600;

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// The endpoint wants another key, or more rights (401, 403).
    Auth,
    /// Too many requests (429).
    RateLimited,
    /// It is overloaded or broken (5xx).
    Overloaded,
    /// The conversation is longer than the model can look at.
    TooLong,
    /// It does not take the request: no such model, a schema, an image.
    BadRequest,
    /// It was not reached, or the answer broke off.
    Network,
    /// Nobody wants the answer any more.
    Cancelled,
}

impl Trouble {
    /// The stable word, as in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "model_auth",
            Self::RateLimited => "model_rate_limited",
            Self::Overloaded => "model_overloaded",
            Self::TooLong => "model_context_too_long",
            Self::BadRequest => "model_bad_request",
            Self::Network => "model_network",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why there is no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// The kind.
    pub trouble: Trouble,
    /// One sentence, redacted.
    pub message: String,
    /// What to do about it, where that is known.
    pub fix: Option<String>,
    /// When to come back, if the endpoint said so.
    pub retry_after: Option<Duration>,
    /// Whether the same request may succeed later.
    pub may_pass: bool,
    /// Whether a part of the answer came before: it is not asked for again by itself.
    pub broke_off: bool,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}

impl ModelError {
    /// An error of that kind.
    pub fn new(trouble: Trouble, message: impl Into<String>) -> Self {
        let may_pass = matches!(trouble, Trouble::RateLimited | Trouble::Overloaded | Trouble::Network);
        Self { trouble, message: message.into(), fix: None, retry_after: None, may_pass, broke_off: false }
    }

    /// The same with a cure.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Nobody wants the answer any more.
    pub fn cancelled() -> Self {
        Self::new(Trouble::Cancelled, "cancelled")
    }

    /// An answer that is not what the protocol says.
    pub fn nonsense(what: &str) -> Self {
        let mut error = Self::new(Trouble::Network, format!("the model's endpoint answers {what}"))
            .fix("check model.provider and model.base_url: they may be of another protocol");
        error.may_pass = false;
        error
    }

    /// What an HTTP status and the body with it mean.
    pub fn of_status(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let told = told(body);
        let trouble = match status {
            401 | 403 => Trouble::Auth,
            400 | 413 | 422 if speaks_of_length(&told) => Trouble::TooLong,
            429 if told.contains("insufficient_quota") => Trouble::BadRequest,
            408 | 425 | 429 => Trouble::RateLimited,
            500..=599 if speaks_of_length(&told) => Trouble::TooLong,
            500..=599 => Trouble::Overloaded,
            _ => Trouble::BadRequest,
        };
        let why = if told.is_empty() { String::new() } else { format!(": {told}") };
        let mut error = Self::new(trouble, format!("the model's endpoint answered HTTP {status}{why}"));
        error.retry_after = retry_after;
        match trouble {
            Trouble::Auth => error.fix("set model.api_key to a key of this endpoint"),
            Trouble::BadRequest if status == 404 => {
                error.fix("check model.name and model.base_url; the endpoint does not know one of them")
            }
            _ => error,
        }
    }

    /// What an endpoint says in the middle of its answer, as its own kind and words.
    pub fn in_stream(kind: &str, message: &str) -> Self {
        let text = format!("{kind} {message}");
        let trouble = if speaks_of_length(&text) {
            Trouble::TooLong
        } else if kind.contains("overloaded") || kind.contains("server") || kind.contains("api_error") {
            Trouble::Overloaded
        } else if kind.contains("rate_limit") {
            Trouble::RateLimited
        } else if kind.contains("auth") || kind.contains("permission") {
            Trouble::Auth
        } else {
            Trouble::BadRequest
        };
        let message: String = message.chars().take(TOLD_MAX).collect();
        Self::new(trouble, format!("the model's endpoint broke off: {message}"))
    }
}

/// What the body of a refusal says: the message in it, wherever endpoints put one.
fn told(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(value) => {
            // Some wrap their errors into a list.
            let value = value.get(0).unwrap_or(&value);
            let error = value.get("error").unwrap_or(value);
            let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
            let message = error.as_str().unwrap_or_else(|| word("message"));
            let message = if message.is_empty() { word("detail") } else { message };
            let kind = [word("code"), word("type")].into_iter().find(|kind| !kind.is_empty());
            match kind {
                Some(kind) if !message.contains(kind) && !message.is_empty() => format!("{message} ({kind})"),
                Some(kind) if message.is_empty() => kind.to_owned(),
                _ => message.to_owned(),
            }
        }
        // A page of a proxy says little in its mark-up.
        Err(_) if body.trim_ascii_start().starts_with(b"<") => "with a web page".to_owned(),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().chars().take(TOLD_MAX).collect()
}

/// Whether words of an endpoint mean that the conversation is too long for its model.
fn speaks_of_length(text: &str) -> bool {
    const SIGNS: [&str; 11] = [
        "context_length_exceeded",
        "context length",
        "context window",
        "context_window",
        "prompt is too long",
        "input is too long",
        "too many tokens",
        "maximum context",
        "exceeds the maximum number of tokens",
        "input token count",
        "exceed context",
    ];
    let text = text.to_ascii_lowercase();
    SIGNS.iter().any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_of_its_kind_and_says_what_the_endpoint_said() {
        let cases = [
            (401, r#"{"error":{"message":"bad key","type":"auth"}}"#, Trouble::Auth, "bad key (auth)"),
            (429, r#"{"error":{"message":"slow down"}}"#, Trouble::RateLimited, "slow down"),
            (
                429,
                r#"{"error":{"message":"no money","code":"insufficient_quota"}}"#,
                Trouble::BadRequest,
                "no money",
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
                Trouble::Overloaded,
                "overloaded",
            ),
            (503, "<html>gone</html>", Trouble::Overloaded, "with a web page"),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens"}}"#,
                Trouble::TooLong,
                "8192",
            ),
            (
                400,
                r#"{"type":"error","error":{"message":"prompt is too long: 2"}}"#,
                Trouble::TooLong,
                "long",
            ),
            (404, r#"{"error":"model \"x\" not found"}"#, Trouble::BadRequest, "model \"x\" not found"),
            (400, r#"[{"error":{"message":"listed"}}]"#, Trouble::BadRequest, "listed"),
            (418, "", Trouble::BadRequest, "HTTP 418"),
        ];
        for (status, body, trouble, says) in cases {
            let error = ModelError::of_status(status, body.as_bytes(), None);
            assert_eq!(error.trouble, trouble, "{status} {body}");
            assert!(error.message.contains(says), "{}", error.message);
        }
    }

    #[test]
    fn only_what_may_pass_is_worth_another_try() {
        let passes = |status| ModelError::of_status(status, b"", None).may_pass;
        assert!(passes(429) && passes(500) && passes(529) && !passes(400) && !passes(401) && !passes(404));
        assert!(!ModelError::nonsense("x").may_pass && ModelError::new(Trouble::Network, "x").may_pass);
        assert_eq!(ModelError::in_stream("overloaded_error", "busy").trouble, Trouble::Overloaded);
        assert_eq!(ModelError::in_stream("invalid_request_error", "no").trouble, Trouble::BadRequest);
    }
}

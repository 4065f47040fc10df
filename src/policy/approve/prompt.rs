//! What a person sees of a request: server, tool and arguments, without secrets, without anything
//! that steers a terminal, and never longer than one can read.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::RequestId;
use crate::id::{ServerId, SessionId};
use crate::shaping::redact::Redactor;
use crate::shaping::render::printable;

/// Bytes of the arguments that are shown; of longer ones the beginning and the end.
pub const ARGUMENTS_SHOWN_MAX: usize = 4096;
/// How much of that is the end.
const TAIL: usize = 1024;

/// One request, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What to answer.
    pub id: RequestId,
    /// The session that asks.
    pub session: SessionId,
    /// The server.
    pub server: ServerId,
    /// Raw name of the tool, fit for a terminal.
    pub tool: String,
    /// The arguments as the caller wrote them, redacted, fit for a terminal, capped.
    pub arguments: String,
    /// The rule that asks.
    pub rule: String,
    /// Whether an answer for good can be kept.
    pub can_keep: bool,
    /// How long it waits for an answer.
    pub expires_in: Duration,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// This wants an answer.
    Asked(Prompt),
    /// This is settled: answered by somebody else, expired, or its caller left.
    Settled(RequestId),
}

/// Text of others, fit to be shown: no secret that is known, nothing that steers a terminal.
pub fn fit(text: &str, redactor: &Redactor) -> String {
    redactor.text(&printable(text)).into_owned()
}

/// The arguments in the parameters of a call, fit to be shown. Parameters that are not understood
/// are shown whole: what is asked about must not be hidden behind a repeated key.
pub fn arguments(params: &[u8], redactor: &Redactor) -> String {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let text = String::from_utf8_lossy(params);
    let only = serde_json::from_str::<Params<'_>>(&text).ok().map(|params| params.arguments);
    let text: Cow<'_, str> = match only {
        Some(Some(arguments)) => Cow::Borrowed(arguments.get()),
        Some(None) => Cow::Borrowed("{}"),
        None => text,
    };
    cap(&fit(&text, redactor))
}

fn cap(text: &str) -> String {
    if text.len() <= ARGUMENTS_SHOWN_MAX {
        return text.to_owned();
    }
    let whole = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=ARGUMENTS_SHOWN_MAX - TAIL).rev().find(whole).unwrap_or_default();
    let tail = (text.len() - TAIL..text.len()).find(whole).unwrap_or(text.len());
    format!("{}\n… {} bytes are not shown …\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::SecretText;

    #[test]
    fn arguments_are_shown_as_written_without_secrets_and_steering() {
        let redactor = Redactor::new(&[SecretText::new("s3cr3t-value-1")]);
        let shown = |params: &str| arguments(params.as_bytes(), &redactor);
        assert_eq!(shown(r#"{"name":"t","arguments":{"n":1.00}}"#), r#"{"n":1.00}"#);
        assert_eq!(shown(r#"{"name":"t"}"#), "{}");
        assert_eq!(shown("{\"arguments\":{\"k\":\"s3cr3t-value-1\u{9b}2J\"}}"), r#"{"k":"[redacted]"}"#);
        let twice = r#"{"arguments":{"a":1},"arguments":{"b":2}}"#;
        assert_eq!(shown(twice), twice, "nothing is hidden behind a repeated key");
        assert_eq!(shown("nonsense"), "nonsense");
    }

    #[test]
    fn long_arguments_keep_both_ends_and_say_what_is_missing() {
        for letter in ["x", "é", "漢"] {
            let long = letter.repeat(20_000);
            let params = format!("{{\"arguments\":\"BEGIN{long}END\"}}");
            let shown = arguments(params.as_bytes(), &Redactor::default());
            assert!(shown.len() < ARGUMENTS_SHOWN_MAX + 100);
            assert!(
                shown.starts_with("\"BEGIN")
                    && shown.ends_with("END\"")
                    && shown.contains("bytes are not shown")
            );
        }
    }
}

//! Floor 1. One record of the audit log: its fields, in the order in which a line has them. Texts are
//! bounded here and redacted by whoever builds the record; arguments and results are never in it.

use serde::{Deserialize, Serialize};

/// The version of the form of a line.
pub const VERSION: u8 = 1;
/// Longest text of a field, in characters; the longest line that can come of it stays below the limit.
pub const TEXT_CHARS_MAX: usize = 1024;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// A call is about to be sent.
    #[serde(rename = "started")]
    Started,
    /// A call that was started has ended.
    #[serde(rename = "finished")]
    Finished,
    /// A call was refused before anything was sent: its only line.
    #[serde(rename = "refused")]
    Refused,
    /// A person said yes to a call.
    #[serde(rename = "approval.given")]
    ApprovalGiven,
    /// A person said no to a call: its only line.
    #[serde(rename = "approval.denied")]
    ApprovalDenied,
    /// A server of a project was approved.
    #[serde(rename = "trust.approved")]
    TrustApproved,
    /// Such an approval was taken back.
    #[serde(rename = "trust.revoked")]
    TrustRevoked,
    /// An allow rule was made.
    #[serde(rename = "rule.allowed")]
    RuleAllowed,
    /// An allow rule was taken back.
    #[serde(rename = "rule.revoked")]
    RuleRevoked,
    /// A changed definition was accepted.
    #[serde(rename = "pin.accepted")]
    PinAccepted,
    /// A line at a fixed distance, forced to the disk.
    #[serde(rename = "checkpoint")]
    Checkpoint,
    /// The first line of a new file; the chain goes on.
    #[serde(rename = "rotated")]
    Rotated,
    /// The log was not as its writer had left it; `found` says what was wrong.
    #[serde(rename = "recovered")]
    Recovered,
    /// Ends of calls that no line could be written for.
    #[serde(rename = "lost")]
    Lost,
}

impl Event {
    /// The word in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Finished => "finished",
            Self::Refused => "refused",
            Self::ApprovalGiven => "approval.given",
            Self::ApprovalDenied => "approval.denied",
            Self::TrustApproved => "trust.approved",
            Self::TrustRevoked => "trust.revoked",
            Self::RuleAllowed => "rule.allowed",
            Self::RuleRevoked => "rule.revoked",
            Self::PinAccepted => "pin.accepted",
            Self::Checkpoint => "checkpoint",
            Self::Rotated => "rotated",
            Self::Recovered => "recovered",
            Self::Lost => "lost",
        }
    }
}

/// What was wrong with a log when its next writer came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Bytes of a line that was never finished, or that nobody with the key wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torn_bytes: Option<u64>,
    /// The first of them as SHA-256, keyed as arguments are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torn_hash: Option<String>,
    /// Lines that the head file knew and the log did not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The head file was `missing` or `forged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

macro_rules! record {
    ($($(#[$doc:meta])* $name:ident : $type:ty),* $(,)?) => {
        /// One line, without its mac. A field that says nothing is left out.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Record {
            /// Version of the form: [`VERSION`].
            pub v: u8,
            /// Number of the line, from 1, over all files of the log.
            pub seq: u64,
            /// When, in UTC.
            pub ts: String,
            /// The run of the program that wrote it.
            pub boot_id: String,
            /// What it is about.
            pub event: Event,
            $($(#[$doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
            /// The mac of the line before, as hex.
            pub prev: String,
        }

        impl Record {
            /// A record that says only what happened, in which run and when.
            pub fn new(event: Event, boot_id: impl Into<String>, ts: impl Into<String>) -> Self {
                Self {
                    v: VERSION,
                    seq: 0,
                    ts: ts.into(),
                    boot_id: boot_id.into(),
                    event,
                    $($name: None,)*
                    prev: String::new(),
                }
            }
        }
    };
}

record! {
    /// The door by which it came: `cli`, later `repl`, `host`, `api`.
    door: String,
    /// The client that asked, within its run; 0 is the program's own edge.
    session: u64,
    /// The call, within its run.
    call_id: u64,
    /// The trace that the caller named in `_meta.traceparent`.
    trace_id: String,
    /// The server.
    server: String,
    /// `tool`, `resource` or `prompt`.
    kind: String,
    /// The raw name of the tool or prompt, or the URI.
    tool: String,
    /// Fingerprint of the tool's definition, as in `mcp pin list`, when it was known.
    pin: String,
    /// Keyed hash of the arguments; never the arguments.
    args_hash: String,
    /// `run`, `refuse` or `ask`.
    decision: String,
    /// The rule that decided.
    decided_by: String,
    /// What a person answered: `once`, `session`, `always` or `no`.
    answer: String,
    /// Who was asked, within the run.
    listener: u64,
    /// The refusal in words.
    reason: String,
    /// `ok`, `tool_error`, `rpc_error`, `failed`, `abandoned` or `lost`.
    outcome: String,
    /// The code of the error.
    error_type: String,
    /// From admission to the end, in milliseconds.
    duration_ms: f64,
    /// Bytes of the answer.
    bytes_in: u64,
    /// Bytes of the parameters.
    bytes_out: u64,
    /// How often it was sent.
    exec_count: u64,
    /// What a recovery found.
    found: Found,
}

/// A text that fits a field: cut at a character, with `…` where something is missing.
pub fn fit(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::LINE_BYTES_MAX;
    use crate::audit::chain::{Key, Tip};

    #[test]
    fn the_longest_record_fits_a_line() {
        // Every character costs six bytes in JSON.
        let text = Some(fit(&"\u{1}".repeat(100_000)));
        let record = Record {
            door: text.clone(),
            trace_id: text.clone(),
            server: text.clone(),
            tool: text.clone(),
            pin: text.clone(),
            decided_by: text.clone(),
            reason: text.clone(),
            error_type: text,
            ..Record::new(Event::Refused, "b", "t")
        };
        let mut line = Vec::new();
        Tip::START.clone().seal(&Key::new(&[1; 32]), &mut record.clone(), &mut line);
        assert!(line.len() < LINE_BYTES_MAX, "{}", line.len());
    }

    #[test]
    fn events_are_written_as_their_words() {
        for event in [Event::Started, Event::ApprovalGiven, Event::Recovered, Event::Lost] {
            assert_eq!(serde_json::to_string(&event).unwrap(), format!("\"{}\"", event.as_str()));
        }
    }

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!(fit("é"), "é");
        let long = "é".repeat(TEXT_CHARS_MAX + 1);
        assert_eq!(fit(&long).chars().count(), TEXT_CHARS_MAX + 1);
        assert!(fit(&long).ends_with('…'));
    }
}

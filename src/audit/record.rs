//! Floor 1. One record of the audit log: its fields, in the order in which a line has them. Texts are
//! bounded here and redacted by whoever builds the record; arguments and results are never in it.

use serde::{Deserialize, Serialize};

use super::chain::Mac;

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

/// What a field holds: how a line lends it, and how it is written. JSON as `serde_json` writes it, which
/// reads it again.
pub trait Field {
    /// The same, borrowed.
    type Lent<'a>: Copy
    where
        Self: 'a;
    /// Lends it.
    fn lend(&self) -> Self::Lent<'_>;
    /// Writes it.
    fn write(lent: Self::Lent<'_>, out: &mut Vec<u8>);
}

impl Field for String {
    type Lent<'a> = &'a str;

    fn lend(&self) -> &str {
        self
    }

    fn write(lent: &str, out: &mut Vec<u8>) {
        // Nearly no text of a log holds anything that must be escaped.
        let bad = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        if lent.bytes().fold(false, |any, byte| any | bad(byte)) {
            put(lent, out);
        } else {
            out.push(b'"');
            out.extend_from_slice(lent.as_bytes());
            out.push(b'"');
        }
    }
}

impl Field for u64 {
    type Lent<'a> = Self;

    fn lend(&self) -> Self {
        *self
    }

    fn write(lent: Self, out: &mut Vec<u8>) {
        put(&lent, out);
    }
}

impl Field for f64 {
    type Lent<'a> = Self;

    fn lend(&self) -> Self {
        *self
    }

    fn write(lent: Self, out: &mut Vec<u8>) {
        put(&lent, out);
    }
}

impl Field for Found {
    type Lent<'a> = &'a Self;

    fn lend(&self) -> &Self {
        self
    }

    fn write(lent: &Self, out: &mut Vec<u8>) {
        put(lent, out);
    }
}

fn put<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and no value here has a map with keys that are not text.
    let _ = serde_json::to_writer(out, value);
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

            /// The same for a line that is about to be sealed.
            pub fn line(&self) -> Line<'_> {
                Line {
                    ts: &self.ts,
                    boot_id: &self.boot_id,
                    event: self.event,
                    $($name: self.$name.as_ref().map(Field::lend),)*
                }
            }
        }

        /// A record on its way into the log, which borrows its texts: two of them are made for each call.
        #[derive(Clone, Copy, Debug)]
        pub struct Line<'a> {
            /// When, in UTC.
            pub ts: &'a str,
            /// The run of the program that writes it.
            pub boot_id: &'a str,
            /// What it is about.
            pub event: Event,
            $($(#[$doc])* pub $name: Option<<$type as Field>::Lent<'a>>,)*
        }

        impl<'a> Line<'a> {
            /// A line that says only what happened, in which run and when.
            pub fn new(event: Event, boot_id: &'a str, ts: &'a str) -> Self {
                Self { ts, boot_id, event, $($name: None,)* }
            }

            /// Writes the record with this number, behind a line with this mac.
            pub(super) fn write(&self, seq: u64, prev: &Mac, out: &mut Vec<u8>) {
                out.extend_from_slice(br#"{"v":"#);
                put(&VERSION, out);
                out.extend_from_slice(br#","seq":"#);
                put(&seq, out);
                out.extend_from_slice(br#","ts":"#);
                String::write(self.ts, out);
                out.extend_from_slice(br#","boot_id":"#);
                String::write(self.boot_id, out);
                out.extend_from_slice(br#","event":"#);
                String::write(self.event.as_str(), out);
                $(if let Some(value) = self.$name {
                    out.extend_from_slice(concat!(",\"", stringify!($name), "\":").as_bytes());
                    <$type as Field>::write(value, out);
                })*
                out.extend_from_slice(br#","prev":""#);
                prev.write_hex(out);
                out.extend_from_slice(br#""}"#);
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
    fn a_line_is_written_as_its_record_is_read() {
        let odd = ["", "plain", "a \"quoted\" \\ text", "line\nend\u{1}", "é\u{7f}…"]
            .map(|text| Some(text.to_owned()));
        for (at, text) in odd.into_iter().enumerate() {
            let record = Record {
                seq: u64::MAX,
                prev: Mac::ZERO.hex(),
                door: text.clone(),
                session: Some(0),
                tool: text,
                duration_ms: Some([0.0, 1.5, 1e-7, 1e21, 0.1][at]),
                exec_count: Some(1),
                found: (at == 1).then(|| Found { torn_bytes: Some(3), ..Found::default() }),
                ..Record::new(Event::ApprovalGiven, "b", "t")
            };
            let mut line = Vec::new();
            record.line().write(u64::MAX, &Mac::ZERO, &mut line);
            assert_eq!(String::from_utf8(line.clone()).unwrap(), serde_json::to_string(&record).unwrap());
            assert_eq!(serde_json::from_slice::<Record>(&line).unwrap(), record);
        }
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

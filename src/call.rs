//! Floor 0. One call: what is asked, what comes back, and what can go wrong.
//! Plain values only; no clock, no I/O. Built by the edges, answered by the actors.

mod asked;
mod door;
mod era;
mod error;
mod grant;
mod notice;

pub use asked::{ASKED_MAX, Asked, AskedAnswer, AskedReply};
pub use door::Door;
pub use era::Era;
pub use error::CallError;
pub use grant::Grant;
pub use notice::{NOTICES_MAX, Notice};

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{CallId, Generation, ServerId, SessionId};

/// Which catalogue item a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An exposed tool name, resolved by table in the catalogue snapshot.
    Exposed(String),
    /// One item of one server, by its raw name.
    Direct {
        /// The server that owns the item.
        server: ServerId,
        /// What kind of item it is.
        kind: ItemKind,
        /// Raw tool or prompt name, resource URI, or method.
        name: String,
    },
}

/// The kinds of items that servers offer and calls address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// `tools/call`
    Tool,
    /// `resources/read`
    Resource,
    /// `prompts/get`
    Prompt,
    /// Any other request of the protocol; its name is the method.
    Method,
}

impl ItemKind {
    /// The JSON-RPC method that uses the item of this kind and that name.
    pub fn method(self, name: &str) -> &str {
        match self {
            Self::Tool => "tools/call",
            Self::Resource => "resources/read",
            Self::Prompt => "prompts/get",
            Self::Method => name,
        }
    }

    /// The key of `params` that carries the item's name; other requests have none.
    pub fn name_key(self) -> Option<&'static str> {
        match self {
            Self::Resource => Some("uri"),
            Self::Tool | Self::Prompt => Some("name"),
            Self::Method => None,
        }
    }
}

/// Limits that one caller sets for one call; absent means the server's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Longest silence, reset by progress.
    pub idle: Option<Duration>,
    /// Longest duration in all, counted from admission.
    pub total: Option<Duration>,
}

/// One request on its way to a server. The parameters are the caller's bytes.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// Unique in this process.
    pub id: CallId,
    /// The session that asks.
    pub session: SessionId,
    /// What is called.
    pub target: Target,
    /// `params` as the caller wrote it. Its name becomes the raw one, `_meta` is adapted; nothing else is touched.
    pub params: Bytes,
    /// The caller's own limits.
    pub limits: CallLimits,
    /// Proof that a person approved exactly this call.
    pub grant: Option<Grant>,
}

impl CallRequest {
    /// The kind of item that is called. An exposed name is that of a tool.
    pub fn kind(&self) -> ItemKind {
        match self.target {
            Target::Exposed(_) => ItemKind::Tool,
            Target::Direct { kind, .. } => kind,
        }
    }

    /// The name it goes by: the raw one as soon as the target is direct.
    pub fn name(&self) -> &str {
        match &self.target {
            Target::Exposed(name) | Target::Direct { name, .. } => name,
        }
    }
}

/// The answer of a server, byte for byte.
#[derive(Clone, Debug)]
pub struct CallReply {
    /// The whole JSON-RPC response as the server sent it (its id is ours), on one line: it never
    /// holds LF or CR. Where a server wrote it over several lines, each line end is a space.
    pub frame: Bytes,
    /// Where the value of `result` or `error` stands in `frame`.
    pub body: Range<usize>,
    /// Where the value of `id` stands in `frame`.
    pub id: Range<usize>,
    /// Whether `body` is a JSON-RPC error.
    pub is_error: bool,
    /// The era in which it was answered.
    pub era: Era,
    /// Who answered.
    pub server: ServerId,
    /// The connection that answered.
    pub generation: Generation,
    /// From admission to the answer.
    pub elapsed: Duration,
}

impl CallReply {
    /// The bytes of the `result` or `error` value.
    pub fn body(&self) -> Bytes {
        self.frame.slice(self.body.clone())
    }
}

/// What reaches a caller while its call runs.
#[derive(Debug)]
pub enum CallEvent {
    /// The `params` of a progress notification for this call, as sent, on one line.
    Progress(Bytes),
    /// A notification of the server: it came on the call's own stream, or while no other call ran.
    Note {
        /// Its method.
        method: String,
        /// The whole message, on one line.
        frame: Bytes,
    },
    /// The server asks the caller something in the middle of the call.
    Asked(Asked),
    /// It does not want to know any more: the id of what it asked, raw.
    Withdrawn(Bytes),
    /// It waits here for its turn.
    Waits {
        /// What is known about the try before this one, when there was one.
        before: Option<Delivery>,
    },
    /// Its turn came: from here on its bytes may have left. Told after [`CallEvent::Waits`] alone.
    Sent,
}

/// Where in the life of a call it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Name not found, or not unique.
    Resolve,
    /// Refused by policy.
    Policy,
    /// Arguments refused before sending.
    Validate,
    /// Waiting for a permit, the queue, or the server to be ready.
    Admission,
    /// The server was being started or contacted.
    Connect,
    /// Writing the request.
    Send,
    /// Waiting for the answer.
    Await,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The caller: bad name, bad arguments, cancelled.
    Caller,
    /// The configuration or the policy.
    Config,
    /// This host: a bound of ours was reached, or a bug.
    Host,
    /// The connection: pipe, socket, process.
    Transport,
    /// The server: what it sent, or did not send.
    Server,
}

/// What is known about execution: the only thing that decides about a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// No byte left this process: safe to send again.
    NotSent,
    /// Bytes may have left; whether it ran is not known.
    Unknown,
    /// The server answered: it ran.
    Executed,
}

/// How an outcome counts for the breaker (`reliability.md` 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerClass {
    /// One failure more.
    Trip,
    /// A sign of life: the counter goes to zero.
    Heal,
    /// Says nothing about the server.
    Neutral,
    /// The server asks for time: no failure, but no success of a probe either.
    Exhausted,
}

/// Stable codes of everything that can refuse or fail a call; each has a page
/// (`callboard explain CODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// No server of that name.
    UnknownServer,
    /// The server has no such tool.
    UnknownTool,
    /// The server has no such resource.
    UnknownResource,
    /// The server has no such prompt.
    UnknownPrompt,
    /// A bare name that several servers offer.
    AmbiguousName,
    /// Arguments that violate the tool's schema.
    InvalidArguments,
    /// Refused by policy.
    Denied,
    /// Would need a person's answer, and none is there.
    NeedsApproval,
    /// The arguments hold a known credential of another server.
    SecretInArguments,
    /// A project entry that nobody approved.
    PendingApproval,
    /// The tool's definition is not the one that was pinned.
    Held,
    /// Turned off in the configuration.
    Disabled,
    /// The entry cannot be started as it is written.
    ConfigError,
    /// The server wants credentials.
    NeedsAuth,
    /// Given up after too many restarts.
    GivenUp,
    /// The server is not ready, and the wait ended.
    NotReady,
    /// The breaker is open.
    BreakerOpen,
    /// Too many calls in flight or waiting.
    Busy,
    /// A rate limit.
    RateLimited,
    /// The host is shutting down, or the server was removed.
    Draining,
    /// The connection could not be made.
    ConnectFailed,
    /// Process ended or connection lost while the call was running.
    ConnectionLost,
    /// No sign of life within the idle limit.
    TimeoutIdle,
    /// The absolute limit passed.
    TimeoutTotal,
    /// The caller went away or cancelled.
    Cancelled,
    /// The answer breaks JSON or JSON-RPC.
    MalformedAnswer,
    /// A frame over the cap.
    FrameTooLarge,
    /// An HTTP status that carries no JSON-RPC answer.
    HttpStatus,
    /// The audit log can't be written, and the call may change something.
    AuditUnavailable,
    /// A bug of ours.
    Internal,
}

impl ErrorCode {
    /// Every code, in the order of `callboard explain`.
    pub const ALL: [Self; 30] = [
        Self::UnknownServer,
        Self::UnknownTool,
        Self::UnknownResource,
        Self::UnknownPrompt,
        Self::AmbiguousName,
        Self::InvalidArguments,
        Self::Denied,
        Self::NeedsApproval,
        Self::SecretInArguments,
        Self::PendingApproval,
        Self::Held,
        Self::Disabled,
        Self::ConfigError,
        Self::NeedsAuth,
        Self::GivenUp,
        Self::NotReady,
        Self::BreakerOpen,
        Self::Busy,
        Self::RateLimited,
        Self::Draining,
        Self::ConnectFailed,
        Self::ConnectionLost,
        Self::TimeoutIdle,
        Self::TimeoutTotal,
        Self::Cancelled,
        Self::MalformedAnswer,
        Self::FrameTooLarge,
        Self::HttpStatus,
        Self::AuditUnavailable,
        Self::Internal,
    ];

    /// The stable word, as in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownServer => "unknown_server",
            Self::UnknownTool => "unknown_tool",
            Self::UnknownResource => "unknown_resource",
            Self::UnknownPrompt => "unknown_prompt",
            Self::AmbiguousName => "ambiguous_name",
            Self::InvalidArguments => "invalid_arguments",
            Self::Denied => "denied",
            Self::NeedsApproval => "needs_approval",
            Self::SecretInArguments => "secret_in_arguments",
            Self::PendingApproval => "pending_approval",
            Self::Held => "held",
            Self::Disabled => "disabled",
            Self::ConfigError => "config_error",
            Self::NeedsAuth => "needs_auth",
            Self::GivenUp => "given_up",
            Self::NotReady => "not_ready",
            Self::BreakerOpen => "breaker_open",
            Self::Busy => "busy",
            Self::RateLimited => "rate_limited",
            Self::Draining => "draining",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectionLost => "connection_lost",
            Self::TimeoutIdle => "timeout_idle",
            Self::TimeoutTotal => "timeout_total",
            Self::Cancelled => "cancelled",
            Self::MalformedAnswer => "malformed_answer",
            Self::FrameTooLarge => "frame_too_large",
            Self::HttpStatus => "http_status",
            Self::AuditUnavailable => "audit_unavailable",
            Self::Internal => "internal",
        }
    }

    /// The code of our own JSON-RPC error for clients: −32602 for what the
    /// caller can correct, else −32000…−32019, the range MCP leaves to us.
    pub fn json_rpc(self) -> i32 {
        match self {
            Self::UnknownServer
            | Self::UnknownTool
            | Self::UnknownResource
            | Self::UnknownPrompt
            | Self::AmbiguousName
            | Self::InvalidArguments => -32602,
            Self::Denied
            | Self::NeedsApproval
            | Self::SecretInArguments
            | Self::PendingApproval
            | Self::Held
            | Self::Disabled
            | Self::AuditUnavailable => -32001,
            Self::ConfigError | Self::NeedsAuth | Self::GivenUp => -32002,
            Self::NotReady | Self::BreakerOpen | Self::Draining | Self::ConnectFailed => -32003,
            Self::Busy | Self::RateLimited => -32004,
            Self::ConnectionLost => -32005,
            Self::TimeoutIdle | Self::TimeoutTotal => -32006,
            Self::Cancelled => -32007,
            Self::MalformedAnswer | Self::FrameTooLarge | Self::HttpStatus => -32008,
            Self::Internal => -32603,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_word_and_stays_in_our_range() {
        let words: std::collections::BTreeSet<_> = ErrorCode::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(words.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            let n = code.json_rpc();
            assert!(n == -32602 || n == -32603 || (-32019..=-32000).contains(&n), "{code} is {n}");
        }
    }
}

//! Floor 5. Why a verb could not do what was asked: what a person reads on stderr
//! and what a script reads under `error`. Never empty, never without a code that
//! `callboard explain` knows. Made by the verbs, shown by `out`.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::course::Known;
use super::exit::{Exit, exit_code};
use crate::call::{CallError, Delivery, Phase};
pub use crate::config::suggest::nearest;

/// A verb that failed.
#[derive(Debug)]
pub struct Failure {
    /// The stable code, with a page in `callboard explain`.
    pub code: Cow<'static, str>,
    /// One or more lines for a person; redacted and printable.
    pub message: String,
    /// The causes behind the message as they were told, for scripts.
    pub detail: Option<String>,
    /// What to do about it.
    pub fix: Option<String>,
    /// What the process ends with.
    pub exit: Exit,
    /// The server concerned.
    pub server: Option<String>,
    /// Raw name of the tool, resource or prompt concerned.
    pub tool: Option<String>,
    /// Where in the life of a call it ended.
    pub phase: Option<Phase>,
    /// What is known about execution.
    pub delivery: Option<Delivery>,
    /// When to try again, if waiting helps.
    pub retry_after: Option<Duration>,
    /// The JSON-RPC error that a server answered with, as sent.
    pub rpc_error: Option<Box<RawValue>>,
    /// Doubts that were noticed before it failed.
    pub warnings: Vec<String>,
}

impl Failure {
    /// A failure that concerns no server.
    pub fn new(code: &'static str, exit: Exit, message: impl Into<String>) -> Self {
        Self {
            code: Cow::Borrowed(code),
            message: message.into(),
            detail: None,
            fix: None,
            exit,
            server: None,
            tool: None,
            phase: None,
            delivery: None,
            retry_after: None,
            rpc_error: None,
            warnings: Vec::new(),
        }
    }

    /// Wrong usage: exit 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new("usage", Exit::Usage, message)
    }

    /// Arguments of a call that can't be sent: exit 2.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        let mut failure = Self::new("invalid_arguments", Exit::Usage, message);
        failure.phase = Some(Phase::Validate);
        failure.delivery = Some(Delivery::NotSent);
        failure
    }

    /// The configuration is in the way: exit 3.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new("config_error", Exit::Config, message)
    }

    /// Refused by policy: exit 5; nothing was sent.
    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        let mut failure = Self::new(code, Exit::Refused, message);
        failure.phase = Some(Phase::Policy);
        failure.delivery = Some(Delivery::NotSent);
        failure
    }

    /// A file of the user's can't be read or written.
    pub fn io(exit: Exit, message: impl Into<String>) -> Self {
        Self::new("io_error", exit, message)
    }

    /// No server of that name: exit 4, with the closest names.
    pub fn unknown_server<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let near = nearest(name, known);
        let shown = crate::cli::text::quoted(name);
        let mut failure = Self::new("unknown_server", Exit::NotFound, format!("no server is called {shown}"));
        failure.server = Some(name.to_owned());
        failure.fix = Some(match near {
            Some(near) => format!("did you mean {near}? `callboard mcp list` shows all names"),
            None => "`callboard mcp list` shows the configured names".to_owned(),
        });
        failure
    }

    /// Ended by Ctrl-C: exit 130.
    pub fn interrupted() -> Self {
        Self::new("cancelled", Exit::Interrupted, "interrupted")
    }

    /// The same failure with a cure.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The same failure, naming the server.
    #[must_use]
    pub fn on(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    /// The same failure, naming the tool, resource or prompt.
    #[must_use]
    pub fn about(mut self, item: impl Into<String>) -> Self {
        self.tool = Some(item.into());
        self
    }

    /// The same failure as the end of a call of `item`: it names both, and an interruption says
    /// what is known about execution.
    #[must_use]
    pub fn of_call(mut self, server: &str, item: &str, known: Known) -> Self {
        if self.exit == Exit::Interrupted && self.delivery.is_none() {
            let (text, delivery) = match known {
                Known::NotSent => ("nothing was sent", Delivery::NotSent),
                Known::PutOff => ("the server had put the call off, and it did not run", Delivery::NotSent),
                Known::Sent => ("the server was told; whether it ran is not known", Delivery::Unknown),
            };
            self.message = format!("interrupted: {text}");
            self.delivery = Some(delivery);
        }
        self.server.get_or_insert_with(|| server.to_owned());
        self.tool.get_or_insert_with(|| item.to_owned());
        self
    }

    /// The value of `error` in `--json`.
    pub fn view(&self) -> FailureView<'_> {
        FailureView {
            code: &self.code,
            message: &self.message,
            detail: self.detail.as_deref(),
            server: self.server.as_deref(),
            tool: self.tool.as_deref(),
            phase: self.phase,
            delivery: self.delivery,
            retry_after_ms: self.retry_after.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            fix: self.fix.as_deref(),
            exit_code: self.exit.code(),
            rpc_error: self.rpc_error.as_deref(),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let exit = exit_code(&error);
        Self {
            code: Cow::Borrowed(error.code.as_str()),
            message: error.message,
            detail: error.detail,
            fix: error.fix,
            exit,
            server: error.server.map(|s| s.as_str().to_owned()),
            tool: error.item,
            phase: Some(error.phase),
            delivery: Some(error.delivery),
            retry_after: error.retry_after,
            rpc_error: None,
            warnings: Vec::new(),
        }
    }
}

/// The value of `error` in `--json`: every key is always there, `rpc_error` only
/// when a server answered with one, `detail` only when the message leaves causes out.
#[derive(Debug, Serialize)]
pub struct FailureView<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    server: Option<&'a str>,
    tool: Option<&'a str>,
    phase: Option<Phase>,
    delivery: Option<Delivery>,
    retry_after_ms: Option<u64>,
    fix: Option<&'a str>,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    rpc_error: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{ErrorCode, Origin};
    use crate::id::ServerId;

    #[test]
    fn a_call_error_keeps_everything_it_knows() {
        let error =
            CallError::refused(ErrorCode::Busy, Phase::Admission, Origin::Host, "too many calls wait")
                .on(&ServerId::new("git"))
                .about("log")
                .after(Duration::from_millis(1500))
                .fix("try again later");
        let failure = Failure::from(error);
        let json = serde_json::to_string(&failure.view()).unwrap();
        assert_eq!(
            json,
            r#"{"code":"busy","message":"too many calls wait","server":"git","tool":"log","phase":"admission","delivery":"not_sent","retry_after_ms":1500,"fix":"try again later","exit_code":7}"#
        );
    }

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_a_stranger_is_not() {
        let known = ["github", "filesystem", "git"];
        assert_eq!(nearest("gihtub", known), Some("github"));
        assert_eq!(nearest("Github", known), Some("github"));
        assert_eq!(nearest("filesytem", known), Some("filesystem"));
        assert_eq!(nearest("weather", known), None);
    }

    #[test]
    fn an_unknown_server_says_which_name_was_meant() {
        let failure = Failure::unknown_server("gti", ["git", "time"]);
        assert_eq!(failure.exit, Exit::NotFound);
        assert!(failure.fix.unwrap().contains("did you mean git?"));
    }
}

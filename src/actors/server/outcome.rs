//! From what a link reports to the error that a caller sees: one place for wording,
//! delivery and breaker class (`reliability.md` 2.2). Pure but for its inputs' types.

use std::time::Duration;

use super::call::Shared;
use super::cure;
use crate::call::{BreakerClass, CallError, Delivery, ErrorCode, Origin, Phase};
use crate::id::ServerId;
use crate::id::shell_word;
use crate::policy::budget::Limit;
use crate::policy::classify::Ending;
use crate::transport::LinkFault;
use crate::transport::link::{ExchangeError, ExchangeFault, LinkCounters, Reply};
use crate::wire::envelope;
use crate::wire::splice::SpliceError;

/// The caller's parameters can't be sent.
pub(super) fn bad_params(server: &ServerId, item: &str, error: &SpliceError) -> CallError {
    let text = match error {
        SpliceError::NotAnObject => "params must be a JSON object".to_owned(),
        SpliceError::MetaNotAnObject => "params._meta must be a JSON object".to_owned(),
        SpliceError::ArgumentsNotAnObject => "params.arguments must be a JSON object".to_owned(),
        SpliceError::Json(fault) => format!("params are {fault}"),
    };
    CallError::refused(ErrorCode::InvalidArguments, Phase::Validate, Origin::Caller, text)
        .on(server)
        .about(item)
}

/// The server actor ended before the call did: a bug, or the end of the host.
pub(super) fn actor_gone(server: &ServerId) -> CallError {
    CallError::refused(
        ErrorCode::Draining,
        Phase::Admission,
        Origin::Host,
        format!("{server} was stopped before the call could run"),
    )
    .on(server)
}

/// The wait for a turn ended without one.
pub(super) fn wait_ended(server: &ServerId, item: &str, waited: Duration, ready: bool) -> CallError {
    let secs = waited.as_secs_f64();
    let error = if ready {
        CallError::refused(
            ErrorCode::Busy,
            Phase::Admission,
            Origin::Host,
            format!("{server} has all its places taken; waited {secs:.1} s for one (limits.in_flight)"),
        )
        .after(Duration::from_secs(1))
    } else {
        CallError::refused(
            ErrorCode::NotReady,
            Phase::Admission,
            Origin::Transport,
            format!("{server} did not become ready while the call waited ({secs:.1} s); nothing was sent"),
        )
        .fix(format!("callboard mcp why {}", shell_word(server.as_str())))
    };
    error.on(server).about(item)
}

/// A limit fired while the answer was awaited.
pub(super) fn timed_out(shared: &Shared, item: &str, limit: Limit, counters: &LinkCounters) -> CallError {
    let server = &shared.server;
    let (code, mut text, fix) = match limit {
        Limit::Idle(idle) => (
            ErrorCode::TimeoutIdle,
            format!("{server} gave no sign of life for {} (idle limit); outcome unknown", secs(idle)),
            "raise `timeout` of this server if the tool needs longer without reporting progress",
        ),
        Limit::Total(total) => (
            ErrorCode::TimeoutTotal,
            format!("{server} took longer than {} (absolute limit); outcome unknown", secs(total)),
            "if the tool needs longer, give the call more time, or raise `max_timeout` of this server",
        ),
    };
    if let Some(id) = &counters.last_unmatched {
        let id = shared.redactor.text(id);
        text.push_str(&format!("; the server answered with a wrong id: {id}"));
    }
    CallError::refused(code, Phase::Await, Origin::Server, text)
        .delivered(Delivery::Unknown)
        .on(server)
        .about(item)
        .fix(fix)
}

/// A limit in bytes, in the unit that it is written with.
fn size(bytes: usize) -> String {
    const MIB: usize = 1024 * 1024;
    match bytes {
        0 => "0 bytes".to_owned(),
        n if n % MIB == 0 => format!("{} MiB", n / MIB),
        n if n % 1024 == 0 => format!("{} KiB", n / 1024),
        n => format!("{n} bytes"),
    }
}

fn secs(d: Duration) -> String {
    humantime::format_duration(d).to_string()
}

/// The exchange failed.
pub(super) fn failed(shared: &Shared, item: &str, error: ExchangeError, stderr: &str) -> CallError {
    let server = &shared.server;
    let known = match error.delivery {
        Delivery::NotSent => "nothing was sent",
        Delivery::Unknown => "outcome unknown",
        Delivery::Executed => "it was executed",
    };
    let built = match error.fault {
        ExchangeFault::Malformed(cause) => answer_error(
            ErrorCode::MalformedAnswer,
            Ending::Malformed,
            format!("{server} broke the protocol: {cause}"),
        ),
        ExchangeFault::TooLong(max) => answer_error(
            ErrorCode::FrameTooLarge,
            Ending::TooLarge,
            format!("the answer of {server} is larger than {} (limits.frame_max)", size(max)),
        )
        .fix("ask the tool for less (a part, a page), or raise `limits.frame_max` of this server"),
        ExchangeFault::Http { status, body } => answer_error(
            ErrorCode::HttpStatus,
            Ending::of_status(status),
            format!("{server} answered HTTP {status}{}", first_line(&shared.redactor.piece(&body))),
        ),
        ExchangeFault::NeedsAuth(text) => CallError::refused(
            ErrorCode::NeedsAuth,
            Phase::Await,
            Origin::Server,
            format!("{server} wants credentials: {}", shared.redactor.text(&text)),
        ),
        ExchangeFault::Throttled(after) => CallError::refused(
            ErrorCode::RateLimited,
            Phase::Await,
            Origin::Server,
            format!("{server} asks to wait {} before the next call", secs(after)),
        )
        .counting(Ending::Throttled.class(false))
        .after(after),
        ExchangeFault::Lost(fault) => lost(shared, &fault, stderr),
    };
    let mut error_out = built.delivered(error.delivery).on(server).about(item);
    if error_out.delivery != Delivery::NotSent || error_out.code == ErrorCode::ConnectionLost {
        error_out.message.push_str("; ");
        error_out.message.push_str(known);
    }
    error_out
}

fn answer_error(code: ErrorCode, ending: Ending, text: String) -> CallError {
    CallError::refused(code, Phase::Await, Origin::Server, text).counting(ending.class(false))
}

/// How an answer counts. What a tool reports is looked for only where it matters.
pub(super) fn answered(reply: &Reply, count_tool_errors: bool) -> BreakerClass {
    if !count_tool_errors {
        return Ending::Answered.class(false);
    }
    let body = reply.body();
    let value = |key| envelope::member(&body, key).and_then(|span| std::str::from_utf8(&body[span]).ok());
    let ending = if reply.response.is_error {
        Ending::of_rpc_code(value("code").and_then(|code| code.parse().ok()).unwrap_or_default())
    } else if value("isError") == Some("true") {
        Ending::ToolError
    } else {
        Ending::Answered
    };
    ending.class(true)
}

fn lost(shared: &Shared, fault: &LinkFault, stderr: &str) -> CallError {
    let server = &shared.server;
    let mut text = format!("{server}: {}", shared.redactor.text(&fault.to_string()));
    let from_fault = match fault {
        LinkFault::Exited { stderr, .. } => stderr.as_str(),
        _ => "",
    };
    let tail = if from_fault.is_empty() { stderr } else { from_fault };
    if let Some(last) = tail.lines().rev().find(|line| !line.trim().is_empty()) {
        text.push_str(&format!("; last stderr line: {}", shared.redactor.piece(last)));
    }
    let look = format!("callboard mcp why {}", shell_word(server.as_str()));
    let detail = fault.detail().map(|detail| shared.redactor.text(detail));
    let error = CallError::refused(ErrorCode::ConnectionLost, Phase::Await, Origin::Transport, text)
        .counting(Ending::ConnectionLost.class(false))
        .fix(cure::and(look, shared.withheld.hint(&shared.redactor.text(tail))));
    CallError { detail, ..error }
}

fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    if line.is_empty() { String::new() } else { format!(": {}", line.chars().take(200).collect::<String>()) }
}

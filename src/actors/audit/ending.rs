//! The end of a call that was started: whoever holds its answer port reports it, exactly once,
//! also when the port is dropped without an answer.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::call::{CallError, CallReply, Door, ErrorCode};
use crate::id::{CallId, ServerId, SessionId};
use crate::time::Monotonic;

/// How a call ended, for its second line.
#[derive(Debug)]
pub(crate) struct End {
    pub call: CallId,
    pub session: SessionId,
    pub door: Door,
    pub server: ServerId,
    pub kind: &'static str,
    pub tool: String,
    pub how: How,
    /// From admission.
    pub took: Duration,
    /// How often it was sent.
    pub sends: u32,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum How {
    /// The server answered, with `result` or with an error.
    Answered {
        /// The value of `result` or `error`.
        body: Bytes,
        /// Whether it is an error.
        is_error: bool,
        /// Bytes of the whole answer.
        bytes: usize,
    },
    /// There is no answer.
    Failed(ErrorCode),
    /// The caller left.
    Abandoned,
    /// Nobody answered: a bug of ours, or the end of the host.
    Lost,
}

/// Knows a call that is running, until it ends.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(super) ends: mpsc::WeakSender<Box<End>>,
    pub(super) admitted: Monotonic,
    pub(super) call: CallId,
    pub(super) session: SessionId,
    pub(super) door: Door,
    pub(super) server: ServerId,
    pub(super) kind: &'static str,
    pub(super) tool: String,
}

impl Ending {
    /// Reports an answer or a failure.
    pub(crate) fn answered(self, answer: &Result<CallReply, CallError>, sends: u32) {
        let how = match answer {
            Ok(reply) => {
                let (body, bytes) = (reply.body(), reply.frame.len());
                How::Answered { body, is_error: reply.is_error, bytes }
            }
            Err(error) if error.code == ErrorCode::Cancelled => How::Abandoned,
            Err(error) => How::Failed(error.code),
        };
        self.report(how, sends);
    }

    /// Reports that nobody answered.
    pub(crate) fn dropped(self, caller_left: bool, sends: u32) {
        self.report(if caller_left { How::Abandoned } else { How::Lost }, sends);
    }

    fn report(self, how: How, sends: u32) {
        let took = Monotonic::now().since(self.admitted);
        let Self { ends, call, session, door, server, kind, tool, .. } = self;
        let end = End { call, session, door, server, kind, tool, how, took, sends };
        let told = ends.upgrade().is_some_and(|ends| ends.try_send(Box::new(end)).is_ok());
        if !told {
            tracing::warn!(call = call.0, "the end of a call is not in the audit log: its writer is gone");
        }
    }
}

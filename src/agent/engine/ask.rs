//! Whom a conversation asks: a person at a terminal, or nobody.

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _};

use crate::call::AskedAnswer;
use crate::id::ServerId;
use crate::policy::approve::{Answer, Prompt};

/// What a server wants to know in the middle of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who asks.
    pub server: ServerId,
    /// `elicitation/create`, `sampling/createMessage`, `roots/list`, or what we do not know.
    pub method: String,
    /// Raw JSON, as the server wrote it: not fit for a terminal.
    pub params: Bytes,
}

/// Whom a conversation asks. An answer that nobody waits for any more is dropped in the middle.
pub trait Ask: Send + Sync {
    /// Whether a person is there: without one, what needs approval is refused at once.
    fn is_there(&self) -> bool;

    /// Asks about a call.
    fn approve(&self, prompt: Prompt) -> BoxFuture<'static, Answer>;

    /// Answers a server. By itself nobody does.
    fn asked(&self, question: Question) -> BoxFuture<'static, AskedAnswer> {
        declined(&question).boxed()
    }
}

/// Nobody is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Ask for Nobody {
    fn is_there(&self) -> bool {
        false
    }

    fn approve(&self, _: Prompt) -> BoxFuture<'static, Answer> {
        std::future::ready(Answer::Deny).boxed()
    }
}

/// The answer of nobody, as the protocol has it.
fn declined(question: &Question) -> impl Future<Output = AskedAnswer> + Send + 'static + use<> {
    std::future::ready(match question.method.as_str() {
        "elicitation/create" => AskedAnswer::Result(Bytes::from_static(br#"{"action":"decline"}"#)),
        "sampling/createMessage" => AskedAnswer::error(-1, "the user did not allow it"),
        method => AskedAnswer::error(-32601, &format!("{method} is not answered here")),
    })
}

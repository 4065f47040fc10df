//! What a server asks its client in the middle of a call: sampling, elicitation, roots, and what we
//! do not know. Its bytes pass; the answer goes back under the server's own id.

use bytes::Bytes;

use crate::id::{Generation, ServerId};

/// Requests of its server that may be open for one call; one more is refused.
pub const ASKED_MAX: usize = 16;

/// The answer to a request of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedAnswer {
    /// The value of `result`, raw JSON.
    Result(Bytes),
    /// The value of `error`, raw JSON.
    Error(Bytes),
}

impl AskedAnswer {
    /// An error of ours. Control characters of the message become spaces.
    pub fn error(code: i64, message: &str) -> Self {
        let mut text = String::with_capacity(message.len());
        for c in message.chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                c if c < ' ' => text.push(' '),
                c => text.push(c),
            }
        }
        Self::Error(format!(r#"{{"code":{code},"message":"{text}"}}"#).into())
    }
}

/// The way back to a server. Dropped without an answer, it tells the server that there is none.
pub trait AskedReply: std::fmt::Debug + Send {
    /// Answers; too late changes nothing.
    fn answer(self: Box<Self>, answer: AskedAnswer);
}

/// One request of a server to the caller of a running call. Dropped unanswered, it is refused.
#[derive(Debug)]
pub struct Asked {
    /// Who asks.
    pub server: ServerId,
    /// The connection on which it asks.
    pub generation: Generation,
    /// The server's own id of it, raw JSON: names it in [`super::CallEvent::Withdrawn`].
    pub id: Bytes,
    /// Its method.
    pub method: String,
    /// Its `params`, raw JSON, on one line; empty when it has none.
    pub params: Bytes,
    reply: Box<dyn AskedReply>,
}

impl Asked {
    /// A request, and the way back.
    pub fn new(
        (server, generation): (ServerId, Generation),
        id: Bytes,
        method: String,
        params: Bytes,
        reply: Box<dyn AskedReply>,
    ) -> Self {
        Self { server, generation, id, method, params, reply }
    }

    /// Answers it. One that is withdrawn meanwhile hears nothing.
    pub fn answer(self, answer: AskedAnswer) {
        self.reply.answer(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_ours_is_json_whatever_its_message_says() {
        let AskedAnswer::Error(error) = AskedAnswer::error(-32601, "a \"b\" \\ c\nd é") else { panic!() };
        assert_eq!(error, "{\"code\":-32601,\"message\":\"a \\\"b\\\" \\\\ c d é\"}");
    }
}

//! Requests of the server: answered by us, or handed to the call that they belong to; and the way
//! back of the answers. Part of [`Inbound`].

use std::ops::Range;
use std::sync::{MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::Inbound;
use crate::call::AskedAnswer;
use crate::transport::asked::{self, AMBIGUOUS, LinkAsked, LinkReply, Nobody};
use crate::transport::waiting::Heard;
use crate::wire::{envelope, splice};

impl Inbound {
    /// A request of the server: answered at once by us, or handed to the call that it belongs to.
    pub(super) fn request(
        &self,
        frame: &Bytes,
        id: Range<usize>,
        method: Range<usize>,
        params: Option<Range<usize>>,
        stream: Option<u64>,
    ) -> Option<Bytes> {
        let method = String::from_utf8_lossy(&frame[method]).into_owned();
        let (id, params) = (frame.slice(id), params.map_or_else(Bytes::new, |span| frame.slice(span)));
        if method == "ping" || (method == "roots/list" && !self.roots.is_empty()) {
            return Some(self.answer(&id, &method));
        }
        let state = self.lock();
        let running = state.waiting.iter().filter_map(|(call, one)| Some((*call, one.session?)));
        let owner = asked::owner(running.filter(|(call, _)| stream.is_none_or(|stream| stream == *call)));
        let call = match owner {
            Ok(call) => call,
            Err(Nobody::NoCall) => return Some(self.answer(&id, &method)),
            Err(Nobody::Several) => {
                let text = format!(
                    "{method} is refused: calls of several clients are running, and nothing says whose it is \
                     (`sharing: session` in the server's entry gives each client a server of its own)"
                );
                return Some(splice::failure(&id, AMBIGUOUS, &text, None));
            }
        };
        let waiting = state.waiting.get(&call)?;
        // One that asks and takes back faster than its caller listens meets the bound of reports.
        let number = if waiting.call.has_room() { self.asked().add(call, id.clone()) } else { None };
        let Some(number) = number else {
            let text = "too many requests wait for an answer already";
            return Some(splice::failure(&id, AMBIGUOUS, text, None));
        };
        let reply = Box::new(LinkReply::new(self.me.clone(), number, waiting.call.teller()));
        waiting.call.tell(Heard::Asked(LinkAsked { id, method, params, reply }));
        None
    }

    pub(super) fn asked(&self) -> MutexGuard<'_, asked::Open> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the answer to a request of the server, unless it is over.
    pub(in crate::transport) fn answered(&self, number: u64, answer: &AskedAnswer) {
        let Some((_, id)) = self.asked().take(number) else { return };
        self.send_back(match answer {
            AskedAnswer::Result(result) => splice::answer_with(&id, "result", result),
            AskedAnswer::Error(error) => splice::answer_with(&id, "error", error),
        });
    }

    /// The server does not want to know any more what it asked; `false` when that is nothing we know.
    pub(super) fn withdrawn(&self, params: &Bytes) -> bool {
        let Some(span) = envelope::member(params, "requestId") else { return false };
        let withdrawn = self.asked().withdraw(&params[span]);
        let Some((call, id)) = withdrawn else { return false };
        if let Some(waiting) = self.lock().waiting.get(&call) {
            waiting.call.tell(Heard::AskedOver(Some(id)));
        }
        true
    }

    /// A call is over: what the server still asks for it gets no answer of its caller.
    pub(super) fn no_more_asked(&self, call: u64) {
        let over = {
            let mut asked = self.asked();
            if asked.is_empty() {
                return;
            }
            asked.of(call)
        };
        for id in over {
            self.send_back(splice::failure(&id, -32603, "the call that this belongs to is over", None));
        }
    }

    fn send_back(&self, message: Bytes) {
        if let Some(carrier) = self.carrier.get().and_then(Weak::upgrade) {
            carrier.notify(message);
        }
    }

    /// What we answer ourselves: `ping`, roots if declared, −32601 for the rest.
    fn answer(&self, id: &[u8], method: &str) -> Bytes {
        match method {
            "ping" => splice::success(id, "{}"),
            "roots/list" if !self.roots.is_empty() => {
                let roots: Vec<_> = self
                    .roots
                    .iter()
                    .map(|root| match &root.name {
                        Some(name) => serde_json::json!({"uri": root.uri, "name": name}),
                        None => serde_json::json!({"uri": root.uri}),
                    })
                    .collect();
                splice::success(id, &serde_json::json!({ "roots": roots }).to_string())
            }
            other => splice::failure(id, -32601, &format!("{other} is not supported by this client"), None),
        }
    }
}

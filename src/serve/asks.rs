//! Requests to a client: of a server in the middle of a call, or of ours (approvals). Numbered by
//! us, answered once, withdrawn when nobody waits any more. Only what the client said that it can is asked.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::oneshot;

use super::client::Client;
use super::sink::{Outgoing, Sink};
use crate::call::{Asked, AskedAnswer};
use crate::id::ServerId;
use crate::wire::envelope::{Response, member, text};
use crate::wire::era::Era;
use crate::wire::splice;

/// Requests that may be open at one client.
pub const ASKS_MAX: usize = 64;
/// Links that are remembered for one client.
const LINKS_MAX: usize = 256;

/// The requests that are open at one client.
#[derive(Debug, Default)]
pub(super) struct Asks {
    last: u64,
    open: HashMap<u64, oneshot::Sender<Answered>>,
    /// Links that were shown, by the server and its id: it says when such a one is done. Newest last.
    links: VecDeque<(ServerId, String)>,
}

impl Asks {
    /// Notes a link that a server wants to be shown.
    pub(super) fn show_link(&mut self, server: &ServerId, params: &[u8]) {
        let Some(id) = member(params, "elicitationId").and_then(|span| text(&params[span])) else { return };
        if self.links.len() >= LINKS_MAX {
            self.links.pop_front();
        }
        self.links.push_back((server.clone(), id.into_owned()));
    }

    /// Whether that link of that server was shown.
    pub(super) fn showed_link(&self, server: &ServerId, id: &str) -> bool {
        self.links.iter().any(|(of, shown)| of == server && shown == id)
    }
}

/// What a client answered, raw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// The value of `result`.
    Result(Bytes),
    /// The value of `error`.
    Error(Bytes),
}

/// Why a client was not asked, or gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    /// It never said that it can be asked this.
    NotDeclared,
    /// Too many are open, or it is gone.
    NoPlace,
}

impl Client {
    /// Whether it said that it can answer this.
    pub(super) fn can_answer(&self, method: &str, params: &[u8]) -> bool {
        {
            let state = self.state();
            if state.era != Some(Era::Legacy) || state.gone {
                return false;
            }
        }
        self.declares(method, params)
    }

    /// Whether it said that it can answer this, in whichever way its era has.
    pub(super) fn declares(&self, method: &str, params: &[u8]) -> bool {
        declares(&self.state().capabilities, method, params)
    }

    /// Whether its user can be asked for an approval.
    pub(super) fn can_be_asked(&self) -> bool {
        self.can_answer("elicitation/create", b"{}")
    }

    /// Asks the client, and waits for its answer. Dropping the future withdraws the question.
    pub(super) async fn ask(
        self: &Arc<Self>,
        method: &str,
        params: &[u8],
        to: &Sink,
    ) -> Result<Answered, Unasked> {
        if !self.can_answer(method, params) {
            return Err(Unasked::NotDeclared);
        }
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = self.state();
            if state.gone || state.asks.open.len() >= ASKS_MAX {
                return Err(Unasked::NoPlace);
            }
            state.asks.last += 1;
            let id = state.asks.last;
            state.asks.open.insert(id, answer);
            id
        };
        let question = Question { client: self, to, id };
        self.put(to, Outgoing::Ask(request(id, method, params))).await;
        let answered = answered.await;
        drop(question);
        answered.map_err(|_| Unasked::NoPlace)
    }

    /// An answer of the client to a request of ours; others change nothing.
    pub(super) fn answered(&self, frame: &Bytes, response: &Response) {
        let asked = response.number.and_then(|id| self.state().asks.open.remove(&id));
        let Some(port) = asked else {
            tracing::debug!(session = self.session().0, "an answer to nothing that is open");
            return;
        };
        let body = frame.slice(response.body.clone());
        let answered = if response.is_error { Answered::Error(body) } else { Answered::Result(body) };
        // Who asked may have left meanwhile.
        let _ = port.send(answered);
    }
}

/// Whether a client with these capabilities, a raw JSON object, can answer this.
pub(super) fn declares(capabilities: &[u8], method: &str, params: &[u8]) -> bool {
    let of = |key: &str| member(capabilities, key).map(|span| &capabilities[span]);
    match method {
        "sampling/createMessage" => of("sampling").is_some(),
        "roots/list" => of("roots").is_some(),
        "elicitation/create" => {
            let url = member(params, "mode").and_then(|span| text(&params[span])).as_deref() == Some("url");
            of("elicitation").is_some_and(|can| match url {
                true => member(can, "url").is_some(),
                // Before there were two kinds, it was the form.
                false => member(can, "form").is_some() || member(can, "url").is_none(),
            })
        }
        // Whoever does not know it says so.
        _ => true,
    }
}

/// Puts what a server asks in the middle of a call to the client of that call, and hands its answer
/// back, byte for byte. A client that can't be asked gives the protocol's refusal: we told the server before
/// we knew the client (`HostPlan`). Requests that have to cross into the modern era, where a client is
/// asked by the result of its call, branch off here.
pub(super) async fn put(client: &Arc<Client>, asked: Asked, to: &Sink) {
    client.state().asks.show_link(&asked.server, &asked.params);
    let answer = match client.ask(&asked.method, &asked.params, to).await {
        Ok(Answered::Result(result)) => AskedAnswer::Result(result),
        Ok(Answered::Error(error)) => AskedAnswer::Error(error),
        Err(Unasked::NotDeclared) if asked.method == "elicitation/create" => {
            AskedAnswer::Result(Bytes::from_static(br#"{"action":"decline"}"#))
        }
        Err(Unasked::NotDeclared) => {
            AskedAnswer::error(-32601, &format!("the client of this call does not answer {}", asked.method))
        }
        Err(Unasked::NoPlace) => AskedAnswer::error(-32004, "the client of this call can't be asked now"),
    };
    asked.answer(answer);
}

/// A question that is open; withdrawn when it is dropped without an answer.
struct Question<'a> {
    client: &'a Client,
    to: &'a Sink,
    id: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let open = self.client.state().asks.open.remove(&self.id).is_some();
        if open {
            let params = json!({"requestId": self.id, "reason": "nobody waits for the answer any more"});
            self.to.note(splice::notification("notifications/cancelled", Some(&params.to_string())));
        }
    }
}

/// A request of ours; `params` is raw JSON, or empty.
fn request(id: u64, method: &str, params: &[u8]) -> Bytes {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{}"#, serde_json::Value::from(method));
    let params: &[&[u8]] = if params.is_empty() { &[] } else { &[br#","params":"#, params] };
    let mut out = head.into_bytes();
    params.iter().for_each(|part| out.extend_from_slice(part));
    out.push(b'}');
    out.into()
}

//! Questions of a server in the middle of a call, across eras. A server of the legacy era asks while
//! the call runs; a client of the modern era is told by the result of its request (`input_required`),
//! the call stays parked, and the client makes it again with the answers. A server of the modern era
//! asks by its result; a client of the legacy era is asked as it knows it, and the call is made again
//! for it. Bytes of questions and answers pass unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::asks::{self, Answered, Unasked};
use super::client::Client;
use super::host::{Host, locked};
use super::message::{Request, RpcError, success};
use super::park::Owner;
use super::sink::{Outgoing, Sink};
use crate::call::{
    Asked, AskedAnswer, CallError, CallEvent, CallReply, ErrorCode, Events, EventsIn, Origin, Phase, events,
};
use crate::id::ServerId;
use crate::time::Monotonic;
use crate::transport::task;
use crate::wire::envelope::member;
use crate::wire::rounds;

/// Rounds of one call that are made for a legacy client; the SDKs give up after as many.
pub const ROUNDS_MAX: usize = 10;

/// How long further questions of the same moment are waited for before the client is told.
pub(super) const GATHER: std::time::Duration = std::time::Duration::from_millis(20);

/// A call that is on its way to its server.
pub(super) struct Flight {
    /// Its one answer.
    pub(super) reply: BoxFuture<'static, Result<CallReply, CallError>>,
    /// What happens meanwhile.
    pub(super) heard: Events,
    /// Where it flies.
    pub(super) server: ServerId,
    /// Questions that were put so far.
    pub(super) asked: usize,
    /// Between the call and `heard`, from the first time on that its client is away.
    pub(super) relay: Option<Relay>,
}

/// Takes what a call says off it while nobody listens: reports are for nobody then, and must not take the
/// place of questions, which wait for the client to come back.
pub(super) struct Relay {
    away: Arc<AtomicBool>,
    _task: task::Owned,
}

impl Flight {
    /// Its client is away from now on, or back.
    fn is_away(&mut self, away: bool) {
        if let Some(relay) = &self.relay {
            relay.away.store(away, Ordering::Relaxed);
        } else if away {
            let (to, heard) = events();
            let from = std::mem::replace(&mut self.heard, heard);
            let away = Arc::new(AtomicBool::new(true));
            let _task = task::spawn(relay(from, to, away.clone()));
            self.relay = Some(Relay { away, _task });
        }
    }
}

async fn relay(mut from: Events, to: EventsIn, away: Arc<AtomicBool>) {
    while let Some(event) = from.recv().await {
        let asks = matches!(event, CallEvent::Asked(_) | CallEvent::Withdrawn(_));
        if asks || !away.load(Ordering::Relaxed) {
            // What finds no room is refused to the server by its drop, as everywhere.
            to.put(event);
        }
    }
}

/// A call that waits for its client to come back.
pub(super) struct Parked {
    flight: Flight,
    /// What the server waits for, by the keys under which it was put.
    questions: Vec<(String, Asked)>,
}

impl std::fmt::Debug for Parked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parked").field("server", &self.flight.server).finish_non_exhaustive()
    }
}

/// What a request is about, whichever round it is.
fn call_of(request: &Request) -> [u8; 32] {
    let first = rounds::first(&request.params);
    let mut hash = Sha256::new();
    for key in ["name", "uri", "arguments"] {
        let value = member(&first, key).map(|span| first.slice(span)).unwrap_or_default();
        hash.update(value.len().to_le_bytes());
        hash.update(&value);
    }
    hash.update(request.method.as_bytes());
    hash.finalize().into()
}

/// A state that leads back to a parked call: 192 random bits.
fn fresh_state() -> Option<String> {
    let mut random = [0_u8; 24];
    getrandom::fill(&mut random).ok()?;
    Some(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a result may ask this of a client with these capabilities: the protocol has three questions.
pub(super) fn may_ask(capabilities: &[u8], one: &Asked) -> bool {
    matches!(one.method.as_str(), "elicitation/create" | "sampling/createMessage" | "roots/list")
        && asks::declares(capabilities, &one.method, &one.params)
}

/// Parks a call and tells its client what is asked. `None` from it: the client declared nothing that it
/// could be asked, or there is no place; the server has its refusals then, and the flight goes on.
pub(super) fn park(
    client: &Client,
    request: &Request,
    mut flight: Flight,
    asked: Vec<Asked>,
) -> Result<Outgoing, Flight> {
    let Some(state) = fresh_state() else { return Err(flight) };
    let mut questions = Vec::new();
    for one in asked {
        flight.asked += 1;
        questions.push((format!("q{}", flight.asked), one));
    }
    let result = rounds::ask(
        questions.iter().map(|(key, one)| (key.as_str(), one.method.as_str(), one.params.as_ref())),
        &state,
    );
    flight.is_away(true);
    let until = Monotonic::now() + client.pane().part.settings.park_ttl;
    let key = (client.parks_as(), call_of(request));
    let parked = Parked { flight, questions };
    match locked(&client.host.parked).put(state, key, until, parked) {
        Ok(()) => {
            client.host.park_changed.notify_one();
            Ok(success(&request.id, &result))
        }
        // Its questions are refused by their drop.
        Err(mut parked) => {
            parked.flight.is_away(false);
            Err(parked.flight)
        }
    }
}

/// Takes up the call that a request comes back for: the server has its answers, and what it still
/// waits for is returned with the flight.
pub(super) fn resume(client: &Client, request: &Request) -> Result<(Flight, Vec<Asked>), RpcError> {
    let retry = rounds::retry(&request.params).unwrap_or_default();
    let gone = || {
        RpcError::params(
            "`requestState` leads to no call that waits for this client: it is over, was answered, or was \
             made with other parameters; make the call anew without it",
        )
        .data(&json!({"code": "unknown_request_state", "delivery": "unknown"}))
    };
    let state = retry.state.as_deref().ok_or_else(gone)?;
    if let Some((key, _)) = retry.responses.iter().find(|(_, response)| response.first() != Some(&b'{')) {
        return Err(RpcError::params(format!("`inputResponses.{key:.64}` must be an object")));
    }
    let key = (&client.parks_as(), &call_of(request));
    let parked = locked(&client.host.parked).take(state, key, Monotonic::now()).map_err(|_| gone())?;
    let Parked { mut flight, questions } = parked;
    flight.is_away(false);
    let mut open = Vec::new();
    for (key, asked) in questions {
        match retry.responses.iter().find(|(given, _)| *given == key) {
            Some((_, response)) => asked.answer(AskedAnswer::Result(response.clone())),
            None => open.push(asked),
        }
    }
    Ok((flight, open))
}

/// Ends what nobody came back for, as long as the host lives.
pub(super) async fn sweep(host: std::sync::Weak<Host>) {
    loop {
        let Some(strong) = host.upgrade() else { return };
        let (changed, next) = (strong.park_changed.clone(), locked(&strong.parked).next_end());
        drop(strong);
        match next {
            None => changed.notified().await,
            Some(end) => {
                tokio::select! {
                    () = tokio::time::sleep_until(end.into_tokio()) => {}
                    () = changed.notified() => continue,
                }
                let Some(strong) = host.upgrade() else { return };
                // Dropped behind the lock: a call that nobody waits for is cancelled at its server.
                let over = locked(&strong.parked).expired(Monotonic::now());
                drop(over);
            }
        }
    }
}

/// What a result of the modern era asks a client of the legacy era; its answers as the parameters of
/// the next round. `None`: it asks nothing.
pub(super) async fn next_round(
    client: &Arc<Client>,
    request: &Request,
    reply: &CallReply,
    to: &Sink,
) -> Option<Result<Bytes, CallError>> {
    let required = rounds::input_required(&reply.body())?;
    for one in &required.requests {
        client.state().asks.show_link(&reply.server, &one.params);
    }
    let asking = required.requests.iter().map(|one| async move {
        let answered = client.ask(&one.method, &one.params, to).await;
        (one, answered)
    });
    let mut responses = Vec::new();
    for (one, answered) in join_all(asking).await {
        let response = match answered {
            Ok(Answered::Result(result)) => result,
            Ok(Answered::Error(_)) | Err(_) if one.method == "elicitation/create" => {
                Bytes::from_static(br#"{"action":"decline"}"#)
            }
            Ok(Answered::Error(error)) => {
                let why = String::from_utf8_lossy(&error).into_owned();
                return Some(Err(unanswered(&reply.server, &one.method, &format!("it answered {why}"))));
            }
            Err(Unasked::NotDeclared) => {
                return Some(Err(unanswered(
                    &reply.server,
                    &one.method,
                    "it never said that it can answer that",
                )));
            }
            Err(Unasked::NoPlace) => {
                return Some(Err(unanswered(&reply.server, &one.method, "it can't be asked now")));
            }
        };
        responses.push((one.key.clone(), response));
    }
    Some(Ok(rounds::again(&request.params, &responses, required.state.as_ref())))
}

/// The error of a call whose server gets no answer from the client.
fn unanswered(server: &ServerId, method: &str, why: &str) -> CallError {
    let text = format!("{server} asks {method} of the client of this call, and {why}");
    CallError::refused(ErrorCode::Cancelled, Phase::Await, Origin::Caller, text)
        .on(server)
        .delivered(crate::call::Delivery::Executed)
}

/// The error of a call that asks without end.
pub(super) fn endless(server: &ServerId) -> CallError {
    let text =
        format!("{server} asks the client of this call again and again; given up after {ROUNDS_MAX} rounds");
    CallError::refused(ErrorCode::MalformedAnswer, Phase::Await, Origin::Server, text)
        .on(server)
        .delivered(crate::call::Delivery::Executed)
}

impl Client {
    /// Who may come back for a call that this client has parked.
    fn parks_as(&self) -> Owner {
        if self.is_passing() {
            Owner::Identity(self.who().identity.clone())
        } else {
            Owner::Connection(self.session())
        }
    }
}

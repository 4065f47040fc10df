//! Resources that clients follow, counted over all of them: a server is asked once for each, again on
//! every new connection, and told to stop when the last client does. In which way it is asked is the
//! link's matter: a modern server has a filter of its stream for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::calls;
use super::client::Client;
use super::host::{Host, locked};
use super::message::{Request, RpcError, success};
use super::refusal;
use super::sink::{Outgoing, Sink};
use crate::call::{
    CallError, CallLimits, CallReply, CallRequest, Door, ErrorCode, ItemKind, Origin, Phase, Target,
};
use crate::config::mode::Mode;
use crate::id::{CallId, Generation, ServerId, SessionId};
use crate::transport::task;
use crate::wire::era::Era;

/// Resources that one client may follow.
pub const SUBSCRIBED_MAX: usize = 1024;
/// How long servers may take to say that they tell of a resource; a `subscriptions/listen` is acknowledged
/// without those that take longer.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);

const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";

/// A resource of a server.
type Key = (ServerId, String);

/// On which connection a server was asked, and in which era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    generation: Option<Generation>,
    era: Era,
}

/// Whether a server tells of a resource. One asks it, the others wait for that.
type Asked = Arc<tokio::sync::Mutex<Option<Told>>>;

/// What all clients follow, with how many times.
#[derive(Debug, Default)]
pub(super) struct Follows {
    all: Mutex<HashMap<Key, (usize, Asked)>>,
}

impl Follows {
    /// One time more.
    fn enter(&self, host: &Arc<Host>, key: Key) -> Follow {
        let mut all = locked(&self.all);
        let (count, asked) = all.entry(key.clone()).or_default();
        *count += 1;
        Follow { host: Arc::downgrade(host), asked: asked.clone(), key }
    }

    /// One time less; whether it was the last one. The entry stays until its server has been told.
    fn leave(&self, key: &Key) -> bool {
        let mut all = locked(&self.all);
        let Some((count, _)) = all.get_mut(key) else { return false };
        *count = count.saturating_sub(1);
        *count == 0
    }

    fn is_followed(&self, key: &Key) -> bool {
        locked(&self.all).get(key).is_some_and(|(count, _)| *count > 0)
    }

    fn forget(&self, key: &Key) {
        let mut all = locked(&self.all);
        if all.get(key).is_some_and(|(count, _)| *count == 0) {
            all.remove(key);
        }
    }

    fn followed(&self) -> Vec<(Key, Asked)> {
        let all = locked(&self.all);
        let followed = all.iter().filter(|(_, (count, _))| *count > 0);
        followed.map(|(key, (_, asked))| (key.clone(), asked.clone())).collect()
    }
}

/// One client's interest in a resource. Dropped, it is over.
#[derive(Debug)]
pub(super) struct Follow {
    host: Weak<Host>,
    key: Key,
    asked: Asked,
}

impl Follow {
    /// The server that has it.
    pub(super) fn server(&self) -> &ServerId {
        &self.key.0
    }

    /// Whether an update of this server is about it.
    pub(super) fn is_of(&self, server: &ServerId) -> bool {
        self.key.0 == *server
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let Some(host) = self.host.upgrade() else { return };
        if !host.follows.leave(&self.key) {
            return;
        }
        let (key, asked) = (self.key.clone(), self.asked.clone());
        let stopping = async move {
            let mut told = asked.lock().await;
            // Somebody may have come meanwhile.
            if host.follows.is_followed(&key) {
                return;
            }
            if let Some(Told { era, .. }) = told.take() {
                let ask = Ask { session: SessionId(0), door: Door::Host, mode: None, params: None };
                if let Err(error) = call(&host, &key, UNSUBSCRIBE, era, &ask).await {
                    tracing::debug!(server = %key.0, %error, "a server was not told that nobody follows a resource");
                }
            }
            host.follows.forget(&key);
        };
        task::spawn(stopping).detach();
    }
}

/// For whom a server is asked.
struct Ask<'a> {
    session: SessionId,
    door: Door,
    mode: Option<Mode>,
    /// The parameters of the client, if it is one that asks.
    params: Option<&'a Bytes>,
}

impl Ask<'_> {
    fn of(client: &Client) -> Self {
        Self { session: client.session(), door: client.who().door, mode: client.mode(), params: None }
    }
}

async fn call(
    host: &Arc<Host>,
    (server, uri): &Key,
    method: &str,
    era: Era,
    ask: &Ask<'_>,
) -> Result<CallReply, CallError> {
    let target = Target::Direct { server: server.clone(), kind: ItemKind::Method, name: method.to_owned() };
    let params = ask.params.cloned().unwrap_or_else(|| json!({"uri": uri}).to_string().into());
    let request = CallRequest {
        id: CallId::fresh(),
        session: ask.session,
        target,
        params,
        limits: CallLimits::default(),
        grant: None,
    };
    host.frontend(ask.door).at_most(ask.mode).in_era(era).call(request, None).await
}

/// Asks a server unless it was asked on this connection. First on the connection that tells of lists as
/// well; a server of both eras that does not do it there may do it on the one of the legacy era.
async fn ensure(
    host: &Arc<Host>,
    key: &Key,
    asked: &Asked,
    ask: Ask<'_>,
) -> Option<Result<CallReply, CallError>> {
    let mut told = asked.lock().await;
    let now = host.generation_of(&key.0);
    if told.is_some_and(|told| told.generation == now) {
        return None;
    }
    // Until there is an answer nothing is known; a caller that leaves meanwhile leaves it so.
    *told = None;
    let mut answer = None;
    for era in [Era::Modern, Era::Legacy] {
        let reply = call(host, key, SUBSCRIBE, era, &ask).await;
        match &reply {
            Ok(reply) if !reply.is_error => {
                *told = Some(Told { generation: Some(reply.generation), era });
                return Some(Ok(reply.clone()));
            }
            // Only what is spoken to in the modern era has another side.
            Ok(refused) if refused.era == Era::Modern && era == Era::Modern => {
                answer = Some(Ok(refused.clone()))
            }
            _ => return Some(reply),
        }
    }
    answer
}

/// Asks those servers again that have a new connection, and know nothing of it.
pub(super) fn renew(host: &Arc<Host>) {
    for (key, asked) in host.follows.followed() {
        let now = host.generation_of(&key.0);
        // One that is being asked at this moment is left to whoever asks.
        let stale = asked.try_lock().is_ok_and(|told| told.is_some_and(|told| told.generation != now));
        if now.is_none() || !stale {
            continue;
        }
        let host = host.clone();
        let renewing = async move {
            let ask = Ask { session: SessionId(0), door: Door::Host, mode: None, params: None };
            let failed = match ensure(&host, &key, &asked, ask).await {
                Some(Ok(reply)) if reply.is_error => String::from_utf8_lossy(&reply.body()).into_owned(),
                Some(Err(error)) => error.to_string(),
                Some(Ok(_)) | None => return,
            };
            tracing::warn!(server = %key.0, error = failed, "a server does not tell of a resource any more");
        };
        task::spawn(renewing).detach();
    }
}

/// `resources/subscribe`
pub(super) fn subscribe(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let uri = request.named("uri")?;
    if client.state().subscribed.len() >= SUBSCRIBED_MAX {
        return Err(RpcError::new(-32004, format!("{SUBSCRIBED_MAX} resources are followed already")));
    }
    let me = client.clone();
    client.run(request.id.clone(), to, async move { Some(subscribed(&me, &request, uri).await) });
    Ok(())
}

async fn subscribed(client: &Arc<Client>, request: &Request, uri: String) -> Outgoing {
    let view = client.settled_view().await;
    let Some(server) = view.owner(&uri, client.who()).cloned() else {
        return calls::no_resource(client, &uri).answer(&request.id);
    };
    if let Err(wait) = client.take_turn() {
        let text = "too many requests of this client (serve.rate); nothing was sent";
        let error = CallError::refused(ErrorCode::RateLimited, Phase::Admission, Origin::Caller, text);
        return refusal::of_request(client, &request.id, &error.after(wait));
    }
    let follow = client.host.follows.enter(&client.host, (server, uri.clone()));
    let (key, asked) = (follow.key.clone(), follow.asked.clone());
    // First: what changes between the two must not be missed.
    let before = client.state().subscribed.insert(uri.clone(), follow);
    drop(before);
    let ask = Ask { params: Some(&request.params), ..Ask::of(client) };
    let answer = match ensure(&client.host, &key, &asked, ask).await {
        None => return success(&request.id, "{}"),
        Some(Ok(reply)) if !reply.is_error => return calls::answer(client, request, &reply),
        Some(Ok(reply)) => calls::answer(client, request, &reply),
        Some(Err(error)) => refusal::of_request(client, &request.id, &error),
    };
    let failed = client.state().subscribed.remove(&uri);
    drop(failed);
    answer
}

/// `resources/unsubscribe`: what nobody follows any more is told to its server.
pub(super) fn unsubscribe(client: &Arc<Client>, request: &Request, to: &Sink) -> Result<(), RpcError> {
    let uri = request.named("uri")?;
    let follow = client.state().subscribed.remove(&uri);
    drop(follow);
    client.reply(to, success(&request.id, "{}"));
    Ok(())
}

/// Follows resources for a `subscriptions/listen`: returns those of which their servers tell.
pub(super) async fn follow(client: &Arc<Client>, uris: Vec<String>) -> Vec<(String, Follow)> {
    if uris.is_empty() {
        return Vec::new();
    }
    let view = client.settled_view().await;
    let asking = uris.into_iter().filter_map(|uri| {
        let server = view.owner(&uri, client.who())?.clone();
        let follow = client.host.follows.enter(&client.host, (server, uri.clone()));
        Some(async move {
            let asked = ensure(&client.host, &follow.key, &follow.asked, Ask::of(client));
            match tokio::time::timeout(FOLLOWED_WITHIN, asked).await {
                Ok(None) => Some((uri, follow)),
                Ok(Some(Ok(reply))) if !reply.is_error => Some((uri, follow)),
                Ok(Some(_)) | Err(_) => None,
            }
        })
    });
    futures_util::future::join_all(asking).await.into_iter().flatten().collect()
}

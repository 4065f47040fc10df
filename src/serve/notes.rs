//! Notifications to clients: lists that changed, as each of them would see it, to those who said that
//! they listen. A client is told once for each real change.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};

use super::client::Client;
use super::host::Host;
use super::message::{Request, RpcError, success};
use super::sink::Sink;
use super::subscriptions::{self, Follow};
use super::view::View;
use crate::call::Notice;
use crate::catalog::items::ListKind;
use crate::catalog::merge::Catalog;
use crate::runtime::ViewWatch;
use crate::wire::envelope::{elements, member, text};
use crate::wire::era::Era;
use crate::wire::splice;

/// Changes within that time are told as one.
const GATHER: Duration = Duration::from_millis(50);
/// URIs that one `subscriptions/listen` may name.
const LISTEN_URIS_MAX: usize = 1024;
/// `subscriptions/listen` requests of one client.
const LISTENS_MAX: usize = 16;
const LOG_MESSAGE: &str = "notifications/message";
const UPDATED: &str = "notifications/resources/updated";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Levels of log messages, least first.
pub(super) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The kinds of changes, by the key of a filter, with their notification and lists.
const CHANGES: [(&str, &str, &[ListKind]); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed", &[ListKind::Tools]),
    ("promptsListChanged", "notifications/prompts/list_changed", &[ListKind::Prompts]),
    (
        "resourcesListChanged",
        "notifications/resources/list_changed",
        &[ListKind::Resources, ListKind::Templates],
    ),
];

/// One open `subscriptions/listen`.
#[derive(Debug)]
pub(super) struct Listen {
    to: Sink,
    /// Which of [`CHANGES`] it wants.
    wants: [bool; 3],
    /// Resources that it follows: the URI, and its place among those of the server.
    pub(super) follows: Vec<(String, Follow)>,
    /// What its client sees of each kind of list.
    seen: [u64; 4],
}

/// Hands on what servers say to nobody in particular, as long as the host lives.
pub(super) async fn hear(host: Weak<Host>, mut notices: broadcast::Receiver<Notice>) {
    loop {
        let notice = match notices.recv().await {
            Ok(notice) => notice,
            Err(broadcast::error::RecvError::Lagged(count)) => {
                tracing::warn!(count, "servers say more than can be handed on; what is oldest is lost");
                continue;
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
        let Some(host) = host.upgrade() else { return };
        let mut clients = host.clients();
        clients.retain(|client| host.reaches(&client.pane(), &notice.server));
        let alone = clients.windows(2).all(|two| two[0].who().identity == two[1].who().identity);
        for client in clients {
            client.tell(&notice, alone);
        }
    }
}

/// Tells the clients what changed, as long as the host lives.
pub(super) async fn follow(host: Weak<Host>, mut catalog: watch::Receiver<Arc<Catalog>>) {
    while catalog.changed().await.is_ok() {
        tokio::time::sleep(GATHER).await;
        catalog.borrow_and_update();
        let Some(host) = host.upgrade() else { return };
        for client in host.clients() {
            client.tell_changes(&client.view());
        }
        // One that was not known when they were set has its levels still to come.
        host.level_servers();
    }
}

/// Tells servers with a new connection what they have forgotten, as long as the host lives. Their lists
/// need not have changed.
pub(super) async fn keep_up(host: Weak<Host>, mut views: ViewWatch) {
    loop {
        views.changed().await;
        tokio::time::sleep(GATHER).await;
        let Some(host) = host.upgrade() else { return };
        host.level_servers();
        subscriptions::renew(&host);
    }
}

impl Client {
    /// Whether a notification in the middle of a call is for this client: log messages have a level.
    pub(super) fn wants(&self, method: &str, frame: &[u8]) -> bool {
        if method != LOG_MESSAGE {
            return true;
        }
        let state = self.state();
        // A modern client says it with each request, and its server goes by that.
        let Some(least) = state.level.filter(|_| state.era == Some(Era::Legacy)) else { return true };
        let level = param(frame, "level").and_then(|word| LEVELS.iter().position(|known| *known == word));
        level.is_none_or(|level| level >= least)
    }

    /// Tells it what a server says to nobody in particular, if it is for this client: updates to those who
    /// follow, what belongs to a task or a question to whose it is, log messages to whoever sees the server,
    /// and what we do not know too, as long as all that have the server are of one identity (`alone`).
    fn tell(&self, notice: &Notice, alone: bool) {
        if notice.method == UPDATED {
            return self.tell_update(notice);
        }
        let concerns = match notice.method.as_str() {
            LOG_MESSAGE => self.who().sees_server(&notice.server) && self.wants(LOG_MESSAGE, &notice.frame),
            "notifications/elicitation/complete" => param(&notice.frame, "elicitationId")
                .is_some_and(|id| self.state().asks.showed_link(&notice.server, &id)),
            "notifications/tasks" | "notifications/tasks/status" => param(&notice.frame, "taskId")
                .is_some_and(|id| self.task_at(&id).as_ref() == Some(&notice.server)),
            _ => alone && self.who().sees_server(&notice.server),
        };
        let state = self.state();
        if concerns
            && state.era == Some(Era::Legacy)
            && state.initialized
            && let Some(to) = &state.standing
        {
            to.note(notice.frame.clone());
        }
    }

    fn tell_update(&self, notice: &Notice) {
        let uri = param(&notice.frame, "uri").unwrap_or_default();
        let state = self.state();
        let follows = |follow: &Follow| follow.is_of(&notice.server);
        if let Some(to) = state.standing.as_ref().filter(|_| state.subscribed.get(&uri).is_some_and(follows))
        {
            to.note(without_subscription(&notice.frame));
        }
        for (id, listen) in &state.listens {
            if listen.follows.iter().any(|(followed, follow)| *followed == uri && follows(follow)) {
                let params = format!(r#"{{"_meta":{},"uri":{}}}"#, meta_of(id), json!(uri));
                listen.to.note(splice::notification(UPDATED, Some(&params)));
            }
        }
    }

    /// Tells it what it would see another way than before.
    pub(super) fn tell_changes(&self, view: &View) {
        let marks = ListKind::ALL.map(|kind| view.mark(kind, self.who()));
        let mut guard = self.state();
        let state = &mut *guard;
        if state.era == Some(Era::Legacy) && state.initialized {
            for (_, method, kinds) in CHANGES {
                let mut changed = false;
                for kind in kinds {
                    let seen = &mut state.seen[*kind as usize];
                    changed |= seen.is_some_and(|seen| seen != marks[*kind as usize]);
                    *seen = Some(marks[*kind as usize]);
                }
                if let Some(to) = state.standing.as_ref().filter(|_| changed) {
                    to.note(splice::notification(method, None));
                }
            }
        }
        for (id, listen) in &mut state.listens {
            let before = std::mem::replace(&mut listen.seen, marks);
            for (index, (_, method, kinds)) in CHANGES.into_iter().enumerate() {
                let changed = kinds.iter().any(|kind| before[*kind as usize] != marks[*kind as usize]);
                if changed && listen.wants[index] {
                    let params = format!(r#"{{"_meta":{}}}"#, meta_of(id));
                    listen.to.note(splice::notification(method, Some(&params)));
                }
            }
        }
    }
}

/// A member of the `params` of a message that is text.
pub(super) fn param(frame: &[u8], key: &str) -> Option<String> {
    let params = &frame[member(frame, "params")?];
    text(&params[member(params, key)?]).map(std::borrow::Cow::into_owned)
}

/// The `_meta` of a notification for the `subscriptions/listen` of that id.
fn meta_of(id: &[u8]) -> String {
    format!(r#"{{"{SUBSCRIPTION_ID}":{}}}"#, String::from_utf8_lossy(id))
}

/// An update as a server says it, but for the stream of ours on which a modern one does: that is no
/// business of a client.
fn without_subscription(frame: &Bytes) -> Bytes {
    let of_stream = member(frame, "params").and_then(|params| {
        let params = &frame[params];
        let meta = &params[member(params, "_meta")?];
        member(meta, SUBSCRIPTION_ID)
    });
    if of_stream.is_none() {
        return frame.clone();
    }
    let uri = param(frame, "uri").unwrap_or_default();
    splice::notification(UPDATED, Some(&json!({"uri": uri}).to_string()))
}

/// `logging/setLevel`
pub(super) fn set_level(client: &Arc<Client>, request: &Request, to: &Sink) -> Result<(), RpcError> {
    let level = request.named("level")?;
    let Some(at) = LEVELS.iter().position(|known| *known == level) else {
        return Err(RpcError::params(format!("`params.level` must be one of {}", LEVELS.join(", "))));
    };
    client.state().level = Some(at);
    client.host.level_servers();
    client.reply(to, success(&request.id, "{}"));
    Ok(())
}

/// `subscriptions/listen`: runs until the client cancels it or leaves.
pub(super) fn listen(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let filter = request.param("notifications").filter(|filter| filter.first() == Some(&b'{'));
    let Some(filter) = filter else {
        return Err(RpcError::params("`params.notifications` is missing, or is no object"));
    };
    if client.state().listens.len() >= LISTENS_MAX {
        return Err(RpcError::new(-32004, format!("{LISTENS_MAX} subscriptions of this client are open")));
    }
    let part = |key: &str| member(&filter, key).map(|span| filter.slice(span));
    let wants = CHANGES.map(|(key, _, _)| part(key).as_deref() == Some(b"true".as_slice()));
    let list = part("resourceSubscriptions").unwrap_or_default();
    let uris: Vec<String> = elements(&list)
        .into_iter()
        .take(LISTEN_URIS_MAX)
        .filter_map(|span| text(&list[span]).map(std::borrow::Cow::into_owned))
        .collect();
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        let follows = subscriptions::follow(&me, uris).await;
        let view = me.view();
        let id = Bytes::copy_from_slice(&request.id);
        let accepted = accepted(wants, &follows);
        let params = format!(r#"{{"_meta":{},"notifications":{accepted}}}"#, meta_of(&id));
        let seen = ListKind::ALL.map(|kind| view.mark(kind, me.who()));
        let listen = Listen { to: out.clone(), wants, follows, seen };
        {
            // In one step: nothing is told before it is acknowledged, and nothing is missed after.
            let mut state = me.state();
            out.note(splice::notification("notifications/subscriptions/acknowledged", Some(&params)));
            state.listens.insert(id.clone(), listen);
        }
        let _over = Over { client: &me, id };
        out.closed().await;
        None
    });
    Ok(())
}

/// The part of a filter that is served.
fn accepted(wants: [bool; 3], follows: &[(String, Follow)]) -> Value {
    let mut all = Map::new();
    for ((key, _, _), wanted) in CHANGES.iter().zip(wants) {
        if wanted {
            all.insert((*key).to_owned(), json!(true));
        }
    }
    if !follows.is_empty() {
        let uris: Vec<&String> = follows.iter().map(|(uri, _)| uri).collect();
        all.insert("resourceSubscriptions".to_owned(), json!(uris));
    }
    Value::Object(all)
}

/// Takes a subscription out when its request ends.
struct Over<'a> {
    client: &'a Arc<Client>,
    id: Bytes,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // Dropped behind the lock: servers are told what nobody follows any more.
        let listen = self.client.state().listens.remove(&self.id);
        drop(listen);
    }
}

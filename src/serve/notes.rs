//! Notifications to clients: lists that changed, as each of them would see it, to those who said that
//! they listen. A client is told once for each real change.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::client::Client;
use super::host::Host;
use super::message::{Request, RpcError, success};
use super::sink::Sink;
use super::view::View;
use crate::catalog::items::ListKind;
use crate::catalog::merge::Catalog;
use crate::wire::era::Era;
use crate::wire::splice;

/// Changes within that time are told as one.
const GATHER: Duration = Duration::from_millis(50);
/// `subscriptions/listen` requests of one client.
const LISTENS_MAX: usize = 16;
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
    /// What its client sees of each kind of list.
    seen: [u64; 4],
}

/// Tells the clients what changed, as long as the host lives.
pub(super) async fn follow(host: Weak<Host>, mut catalog: watch::Receiver<Arc<Catalog>>) {
    while catalog.changed().await.is_ok() {
        tokio::time::sleep(GATHER).await;
        catalog.borrow_and_update();
        let Some(host) = host.upgrade() else { return };
        let view = host.view();
        for client in host.clients() {
            client.tell_changes(&view);
        }
    }
}

impl Client {
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

/// The `_meta` of a notification for the `subscriptions/listen` of that id.
fn meta_of(id: &[u8]) -> String {
    format!(r#"{{"{SUBSCRIPTION_ID}":{}}}"#, String::from_utf8_lossy(id))
}

/// `logging/setLevel`
pub(super) fn set_level(client: &Arc<Client>, request: &Request, to: &Sink) -> Result<(), RpcError> {
    let level = request.named("level")?;
    let Some(at) = LEVELS.iter().position(|known| *known == level) else {
        return Err(RpcError::params(format!("`params.level` must be one of {}", LEVELS.join(", "))));
    };
    client.state().level = Some(at);
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
    let part = |key: &str| crate::wire::envelope::member(&filter, key).map(|span| filter.slice(span));
    let wants = CHANGES.map(|(key, _, _)| part(key).as_deref() == Some(b"true".as_slice()));
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        let view = me.host.view();
        let id = Bytes::copy_from_slice(&request.id);
        let accepted = accepted(wants);
        let params = format!(r#"{{"_meta":{},"notifications":{accepted}}}"#, meta_of(&id));
        out.note(splice::notification("notifications/subscriptions/acknowledged", Some(&params)));
        let seen = ListKind::ALL.map(|kind| view.mark(kind, me.who()));
        let listen = Listen { to: out.clone(), wants, seen };
        me.state().listens.insert(id.clone(), listen);
        let _over = Over { client: &me, id };
        out.closed().await;
        None
    });
    Ok(())
}

/// The part of a filter that is served.
fn accepted(wants: [bool; 3]) -> Value {
    let mut all = Map::new();
    for ((key, _, _), wanted) in CHANGES.iter().zip(wants) {
        if wanted {
            all.insert((*key).to_owned(), json!(true));
        }
    }
    Value::Object(all)
}

/// Takes a subscription out when its request ends.
struct Over<'a> {
    client: &'a Client,
    id: Bytes,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let listen = self.client.state().listens.remove(&self.id);
        drop(listen);
    }
}

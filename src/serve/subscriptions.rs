//! Resources that clients follow. A server is asked once more for each client that subscribes, which
//! changes nothing for it, and told to stop when the last one does.

use std::sync::Arc;

use serde_json::json;

use super::calls;
use super::client::Client;
use super::message::{Request, RpcError, success};
use super::sink::{Outgoing, Sink};
use super::view::View;
use crate::id::ServerId;
use crate::wire::era::Era;

/// Resources that one client may follow.
pub const SUBSCRIBED_MAX: usize = 1024;

/// `resources/subscribe`
pub(super) fn subscribe(client: &Arc<Client>, request: Request, to: &Sink) -> Result<(), RpcError> {
    let uri = request.named("uri")?;
    if client.state().subscribed.len() >= SUBSCRIBED_MAX {
        return Err(RpcError::new(-32004, format!("{SUBSCRIBED_MAX} resources are followed already")));
    }
    let (me, out) = (client.clone(), to.clone());
    client.run(request.id.clone(), to, async move {
        let view = me.settled_view().await;
        let Some(server) = view.owner(&uri, me.who()).cloned() else {
            return Some(calls::no_resource(&me, &uri).answer(&request.id));
        };
        // First: what changes between the two must not be missed.
        me.state().subscribed.insert(uri.clone(), server.clone());
        let answer = calls::forward(&me, calls::method(&server, "resources/subscribe"), &request, &out).await;
        if !answer.as_ref().is_some_and(is_success) {
            me.state().subscribed.remove(&uri);
        }
        answer
    });
    Ok(())
}

/// `resources/unsubscribe`: what nobody follows any more is told to its server.
pub(super) fn unsubscribe(client: &Arc<Client>, request: &Request, to: &Sink) -> Result<(), RpcError> {
    let uri = request.named("uri")?;
    let server = client.state().subscribed.remove(&uri);
    if let Some(server) = server {
        stop(client, &server, &uri);
    }
    client.reply(to, success(&request.id, "{}"));
    Ok(())
}

/// Follows a resource for a `subscriptions/listen`.
pub(super) async fn follow(client: &Arc<Client>, view: &View, uri: &str) {
    let Some(server) = view.owner(uri, client.who()) else { return };
    let legacy = client.host.revision_of(server).is_none_or(|revision| revision.era() == Era::Legacy);
    if legacy {
        client.state().subscribed.insert(uri.to_owned(), server.clone());
        client.host.tell_server(server, "resources/subscribe", json!({"uri": uri}).to_string());
    }
}

/// Ends that.
pub(super) fn unfollow(client: &Arc<Client>, uri: &str) {
    let server = client.state().subscribed.remove(uri);
    if let Some(server) = server {
        stop(client, &server, uri);
    }
}

/// Ends all of a client that left.
pub(super) fn forget(client: &Arc<Client>) {
    let all = std::mem::take(&mut client.state().subscribed);
    for (uri, server) in all {
        stop(client, &server, &uri);
    }
}

/// Tells a server that nobody follows a resource any more, if nobody does.
fn stop(client: &Arc<Client>, server: &ServerId, uri: &str) {
    let others = client.host.clients();
    let followed = others.iter().any(|other| other.state().subscribed.get(uri) == Some(server));
    if !followed {
        client.host.tell_server(server, "resources/unsubscribe", json!({"uri": uri}).to_string());
    }
}

fn is_success(answer: &Outgoing) -> bool {
    let Outgoing::Answer(parts) = answer else { return false };
    crate::wire::envelope::member(&parts.to_bytes(), "result").is_some()
}

//! The watcher of one connection: takes what its link reports besides answers, passes on what
//! the actor goes by, and reports the end. However fast a server talks, the mailbox of its
//! actor gets at most [`NOTICES_PER_SECOND_MAX`] messages of it.

use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{broadcast, mpsc};

use super::msg::ServerMsg;
use crate::call::Notice;
use crate::catalog::items::ListKinds;
use crate::id::{Generation, ServerId};
use crate::time::Monotonic;
use crate::transport::link::{Link, LinkEvent};

/// Notices that reach the actor of one server; what comes faster is gathered into one.
pub(super) const NOTICES_PER_SECOND_MAX: u32 = 100;

/// Watches until the connection ends.
pub(super) async fn watch(
    link: Link,
    mut events: mpsc::Receiver<LinkEvent>,
    (server, generation): (ServerId, Generation),
    me: ActorRef<ServerMsg>,
    notices: broadcast::Sender<Notice>,
) -> ServerMsg {
    let gap = Duration::from_secs(1) / NOTICES_PER_SECOND_MAX;
    let mut next = Monotonic::now();
    let mut waits = false;
    let ended = link.ended();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            biased;
            fault = &mut ended => return ServerMsg::Ended(generation, fault),
            () = tokio::time::sleep_until(next.into_tokio()), if waits => waits = false,
            // The link keeps what changed; the event itself is only a sign to look.
            Some(event) = events.recv() => {
                if let LinkEvent::Notification { method, frame } = event
                    && ListKinds::announced_by(&method).is_empty()
                {
                    // Nobody may be listening.
                    let _ = notices.send(Notice { server: server.clone(), generation, method, frame });
                    continue;
                }
                waits = waits || Monotonic::now() < next;
            }
        }
        if waits {
            continue;
        }
        let stale = link.take_stale();
        if !stale.is_empty() {
            let _ = me.cast(ServerMsg::Notified(generation, stale));
            next = Monotonic::now() + gap;
        }
    }
}

//! Floor 2. The legacy era beside the modern one: a server on HTTP that speaks both is also spoken to
//! in the legacy era, over a connection of its own, for calls whose client is of that era. So nothing of
//! such a call has to be adapted, and what the server asks in mid-call arrives as it asks it. Opened by the first
//! such call, opened again when it was lost; it ends with the connection that it stands beside.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;

use super::link::{Link, LinkEvent};
use super::task::{self, Owned};
use super::{Attempt, Connector, LinkSettings, ProtocolChoice, connect};
use crate::call::Notice;
use crate::catalog::items::ListKinds;
use crate::id::{Generation, ServerId};
use crate::wire::era::Era;
use crate::wire::splice::MetaRewrite;

/// The connection beside the first one of a server.
#[derive(Debug)]
pub struct LegacySide {
    connector: Connector,
    settings: LinkSettings,
    timeout: Duration,
    from: (ServerId, Generation),
    notices: broadcast::Sender<Notice>,
    /// One opens it, the others wait for that.
    opening: tokio::sync::Mutex<()>,
    open: Mutex<Known>,
}

#[derive(Debug, Default)]
enum Known {
    /// Nobody asked for it yet, or it was lost.
    #[default]
    No,
    /// It stands.
    Open(Side),
    /// The server does not speak that era.
    Never,
}

#[derive(Clone, Debug)]
struct Side {
    link: Link,
    meta: Arc<MetaRewrite>,
    _events: Arc<Owned>,
}

impl LegacySide {
    /// A side that can be opened, for a connection in the modern era to a server on HTTP whose era is
    /// not prescribed; `None` for any other. `timeout` bounds one opening.
    pub fn beside(
        (connector, settings): (&Connector, &LinkSettings),
        spoken: Era,
        timeout: Duration,
        from: (ServerId, Generation),
        notices: broadcast::Sender<Notice>,
    ) -> Option<Arc<Self>> {
        let may = matches!(connector, Connector::Http(_)) && settings.protocol == ProtocolChoice::Auto;
        if spoken != Era::Modern || !may {
            return None;
        }
        let settings =
            LinkSettings { protocol: ProtocolChoice::Legacy, remembered: None, ..settings.clone() };
        Some(Arc::new(Self {
            connector: connector.clone(),
            settings,
            timeout,
            from,
            notices,
            opening: tokio::sync::Mutex::default(),
            open: Mutex::default(),
        }))
    }

    /// The link, and what goes into the `_meta` of its requests; `None` when the server has no such
    /// side, or it can't be reached now: the modern one has to do then.
    pub async fn link(&self) -> Option<(Link, Arc<MetaRewrite>)> {
        if let Some(known) = self.known() {
            return known;
        }
        let _one = self.opening.lock().await;
        if let Some(known) = self.known() {
            return known;
        }
        let attempt = Attempt::default();
        let opened = connect(&self.connector, &self.settings, &attempt);
        let found = match tokio::time::timeout(self.timeout, opened).await {
            Ok(Ok(connection)) if connection.established.revision.era() == Era::Legacy => {
                let events = task::spawn(hear(connection.events, self.from.clone(), self.notices.clone()));
                let meta = Arc::new(connection.established.meta);
                Known::Open(Side { link: connection.link, meta, _events: Arc::new(events) })
            }
            Ok(Ok(_)) => Known::Never,
            Ok(Err(error)) if error.fault.may_pass() => Known::No,
            Ok(Err(error)) => {
                tracing::debug!(server = %self.from.0, %error.fault, "no legacy era beside the modern one");
                Known::Never
            }
            Err(_) => Known::No,
        };
        let side = match &found {
            Known::Open(side) => Some((side.link.clone(), side.meta.clone())),
            Known::No | Known::Never => None,
        };
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = found;
        side
    }

    /// What is known without asking; `None`: it has to be opened.
    fn known(&self) -> Option<Option<(Link, Arc<MetaRewrite>)>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match &*open {
            Known::Open(side) if side.link.fault().is_none() => {
                Some(Some((side.link.clone(), side.meta.clone())))
            }
            Known::Open(_) | Known::No => None,
            Known::Never => Some(None),
        }
    }
}

/// Passes on what the server says on this side, but for lists: the first connection tells of those.
async fn hear(
    mut events: tokio::sync::mpsc::Receiver<LinkEvent>,
    (server, generation): (ServerId, Generation),
    notices: broadcast::Sender<Notice>,
) {
    while let Some(event) = events.recv().await {
        if let LinkEvent::Notification { method, frame } = event
            && ListKinds::announced_by(&method).is_empty()
        {
            // Nobody may be listening.
            let _ = notices.send(Notice { server: server.clone(), generation, method, frame });
        }
    }
}

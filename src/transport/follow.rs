//! Floor 2. What a modern server is listened to for: `subscriptions/listen` on one link. Callers
//! say `resources/subscribe` whatever the era; here it becomes a filter. When that changes, a new stream
//! is opened and acknowledged before the old one ends, so nothing is missed between. On pipes
//! the same stream tells of lists; HTTP has one of its own for those. Ends with its link.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;

use super::handshake::Established;
use super::link::{Ends, Exchange, Link, Outbound};
use super::task::{self, Owned};
use super::waiting::Heard;
use crate::catalog::items::ListKinds;
use crate::wire::envelope::{elements, member, text};
use crate::wire::splice::{self, MetaRewrite, RequestSplice};

/// `resources/subscribe` and its opposite that may wait; more are refused.
pub const WANTS_MAX: usize = 1024;
/// How long a server may take to acknowledge a stream.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(10);
/// The first wait before a stream that ended is opened again; doubles with each try in vain.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest.
const WAIT_MAX: Duration = Duration::from_secs(60);
const LISTEN: &str = "subscriptions/listen";
/// The notification by which a server says what it will tell of.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The filter of `subscriptions/listen` for each announcement.
const LISTS: [(&str, &str); 3] = [
    ("notifications/tools/list_changed", "toolsListChanged"),
    ("notifications/prompts/list_changed", "promptsListChanged"),
    ("notifications/resources/list_changed", "resourcesListChanged"),
];
/// Errors that another try can't change.
const FINAL_CODES: [i64; 5] = [-32601, -32602, -32020, -32021, -32022];

/// A request to follow a resource, or to follow it no longer.
#[derive(Debug)]
struct Want {
    /// The request that waits for the answer.
    id: u64,
    uri: String,
    follow: bool,
}

/// What follows resources for one link.
#[derive(Debug)]
pub(super) struct Follower {
    wants: mpsc::Sender<Want>,
    _task: Owned,
}

impl Follower {
    /// For a link whose handshake is done. `lists`: which changes of lists its stream tells of.
    pub(super) fn new(link: Weak<Ends>, established: &Established, lists: ListKinds) -> Self {
        let (wants, wanted) = mpsc::channel(WANTS_MAX);
        let named = LISTS.iter().filter(|(method, _)| lists.has_all(ListKinds::announced_by(method)));
        let follow = Follow {
            link,
            meta: established.meta.clone(),
            lists: named.map(|(_, key)| *key).collect(),
            uris: BTreeSet::new(),
            stream: None,
            in_vain: 0,
        };
        Self { wants, _task: task::spawn(follow.run(wanted)) }
    }

    /// Whether a method is one that is answered here.
    pub(super) fn answers(method: &str) -> bool {
        matches!(method, "resources/subscribe" | "resources/unsubscribe")
    }

    /// Takes one over; why not, if it can't.
    pub(super) fn take(&self, request: &Outbound<'_>) -> Result<(), (i64, &'static str)> {
        let message = request.parts.to_bytes();
        let uri = member(&message, "params").and_then(|params| {
            let params = &message[params];
            Some(text(&params[member(params, "uri")?])?.into_owned())
        });
        let Some(uri) = uri else { return Err((-32602, "`params.uri` is missing, or is no text")) };
        let want = Want { id: request.id, uri, follow: request.method == "resources/subscribe" };
        self.wants.try_send(want).map_err(|_| (-32004, "too many subscriptions wait already"))
    }
}

/// How the opening of a stream ended.
enum Opened {
    /// It stands, for these URIs; `None`: the server did not say.
    Stands(Exchange, Option<BTreeSet<String>>),
    /// The server refused it: its error, raw, and the code.
    Refused(Bytes, i64),
    /// No answer, or the connection is gone.
    Unanswered,
}

struct Follow {
    link: Weak<Ends>,
    meta: MetaRewrite,
    lists: Vec<&'static str>,
    uris: BTreeSet<String>,
    stream: Option<Exchange>,
    /// Tries in a row that brought nothing.
    in_vain: u32,
}

impl Follow {
    async fn run(mut self, mut wanted: mpsc::Receiver<Want>) {
        let mut reopen = !self.lists.is_empty();
        let mut wants = Vec::new();
        loop {
            let wait = if self.in_vain == 0 { Duration::ZERO } else { wait(self.in_vain) };
            tokio::select! {
                biased;
                count = wanted.recv_many(&mut wants, WANTS_MAX) => {
                    if count == 0 {
                        return;
                    }
                    self.serve(std::mem::take(&mut wants)).await;
                    reopen = self.stream.is_none() && !self.wants_nothing();
                }
                () = over(&mut self.stream) => {
                    self.stream = None;
                    self.in_vain = self.in_vain.saturating_add(1);
                    reopen = !self.wants_nothing();
                }
                () = tokio::time::sleep(wait), if reopen => {
                    reopen = self.again().await;
                }
            }
            if self.link().is_none() {
                return;
            }
        }
    }

    /// The link, while it stands.
    fn link(&self) -> Option<Link> {
        Link::of(&self.link).filter(|link| link.fault().is_none())
    }

    fn wants_nothing(&self) -> bool {
        self.lists.is_empty() && self.uris.is_empty()
    }

    /// Opens the stream that ended once more; whether to go on trying.
    async fn again(&mut self) -> bool {
        match self.open(self.uris.clone()).await {
            Opened::Stands(stream, _) => {
                (self.stream, self.in_vain) = (Some(stream), 0);
                false
            }
            Opened::Refused(_, code) if FINAL_CODES.contains(&code) => false,
            Opened::Refused(..) | Opened::Unanswered => {
                self.in_vain = self.in_vain.saturating_add(1);
                true
            }
        }
    }

    /// Answers requests that came together, with one new stream for all of them.
    async fn serve(&mut self, wants: Vec<Want>) {
        let mut uris = self.uris.clone();
        for want in &wants {
            match want.follow {
                true => uris.insert(want.uri.clone()),
                false => uris.remove(&want.uri),
            };
        }
        let unchanged = uris == self.uris && (self.stream.is_some() || uris.is_empty());
        let mut refusal = None;
        if !unchanged {
            if uris.is_empty() && self.lists.is_empty() {
                self.replace(None);
                self.uris.clear();
            } else {
                refusal = self.change(uris).await;
            }
        }
        let Some(link) = self.link() else { return };
        for Want { id, uri, follow } in wants {
            if !follow || self.uris.contains(&uri) {
                link.settle(&splice::success(id.to_string().as_bytes(), "{}"));
                continue;
            }
            let id = id.to_string();
            link.settle(&match &refusal {
                Some(error) => splice::answer_with(id.as_bytes(), "error", error),
                None => {
                    let text = "the server does not tell of changes of this resource";
                    splice::failure(id.as_bytes(), -32602, text, None)
                }
            });
        }
    }

    /// Changes the filter to these; the server's refusal, if it has one: then nothing is added.
    async fn change(&mut self, uris: BTreeSet<String>) -> Option<Bytes> {
        match self.open(uris.clone()).await {
            Opened::Stands(stream, told) => {
                self.uris = match told {
                    Some(told) => uris.intersection(&told).cloned().collect(),
                    None => uris,
                };
                self.in_vain = 0;
                self.replace(Some(stream));
                None
            }
            other => {
                self.uris.retain(|uri| uris.contains(uri));
                Some(match other {
                    Opened::Refused(error, _) => error,
                    _ => {
                        json!({"code": -32603, "message": "the server did not acknowledge the subscription"})
                            .to_string()
                            .into()
                    }
                })
            }
        }
    }

    /// The old stream ends when the new one stands.
    fn replace(&mut self, stream: Option<Exchange>) {
        let old = std::mem::replace(&mut self.stream, stream);
        if let (Some(old), Some(link)) = (old, self.link()) {
            link.cancel(old.id, "another stream took its place");
        }
    }

    async fn open(&self, uris: BTreeSet<String>) -> Opened {
        let Some(mut exchange) = self.start(&uris) else { return Opened::Unanswered };
        let acknowledged = async {
            loop {
                match exchange.waiting.heard().await {
                    Some(Heard::Note(method, frame)) if method == ACKNOWLEDGED => return Ok(served(&frame)),
                    Some(Heard::Answer(Ok(reply))) if reply.response.is_error => {
                        return Err(Some(reply.body()));
                    }
                    Some(Heard::Answer(_)) | None => return Err(None),
                    Some(_) => {}
                }
            }
        };
        match tokio::time::timeout(ACKNOWLEDGED_WITHIN, acknowledged).await {
            Ok(Ok(told)) => Opened::Stands(exchange, told),
            Ok(Err(Some(error))) => {
                let code = member(&error, "code");
                let code = code.and_then(|span| std::str::from_utf8(&error[span]).ok()?.parse().ok());
                Opened::Refused(error, code.unwrap_or_default())
            }
            Ok(Err(None)) => Opened::Unanswered,
            Err(_) => {
                if let Some(link) = self.link() {
                    link.cancel(exchange.id, "it was not acknowledged in time");
                }
                Opened::Unanswered
            }
        }
    }

    fn start(&self, uris: &BTreeSet<String>) -> Option<Exchange> {
        let link = self.link()?;
        let mut filter = serde_json::Map::new();
        for key in &self.lists {
            filter.insert((*key).to_owned(), true.into());
        }
        if !uris.is_empty() {
            filter.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        let id = link.next_id();
        let params = Bytes::from(json!({"notifications": filter}).to_string());
        let parts = splice::request(&RequestSplice {
            session: None,
            id,
            method: LISTEN,
            params: &params,
            name: None,
            arguments_default: false,
            progress: false,
            meta: &self.meta,
        });
        let parts = parts.ok()?;
        Some(link.start(Outbound {
            id,
            method: LISTEN,
            name: None,
            parts,
            headers: Vec::new(),
            session: None,
        }))
    }
}

/// The URIs that an acknowledgement names; `None`: it does not say what is told.
fn served(frame: &[u8]) -> Option<BTreeSet<String>> {
    let params = &frame[member(frame, "params")?];
    let filter = &params[member(params, "notifications")?];
    let Some(span) = member(filter, "resourceSubscriptions") else { return Some(BTreeSet::new()) };
    let list = &filter[span];
    Some(elements(list).into_iter().filter_map(|span| Some(text(&list[span])?.into_owned())).collect())
}

/// Resolves when the stream has ended; never without one.
async fn over(stream: &mut Option<Exchange>) {
    match stream {
        Some(exchange) => loop {
            if let None | Some(Heard::Answer(_)) = exchange.waiting.heard().await {
                return;
            }
        },
        None => std::future::pending().await,
    }
}

/// The wait before the next try.
fn wait(in_vain: u32) -> Duration {
    WAIT_MIN.saturating_mul(1 << in_vain.saturating_sub(1).min(6)).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_tells_of_is_what_its_acknowledgement_names() {
        let frame =
            |params: &str| format!(r#"{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}","params":{params}}}"#);
        let told = |params: &str| served(frame(params).as_bytes());
        assert_eq!(told(r#"{"_meta":{}}"#), None);
        assert_eq!(told(r#"{"notifications":{"toolsListChanged":true}}"#), Some(BTreeSet::new()));
        let all = told(r#"{"notifications":{"resourceSubscriptions":["a:/1","a:/\u0032",7]}}"#);
        assert_eq!(all, Some(BTreeSet::from(["a:/1".to_owned(), "a:/2".to_owned()])));
    }

    #[test]
    fn waits_grow_with_tries_in_vain() {
        for (in_vain, seconds) in [(0, 1), (1, 1), (2, 2), (6, 32), (7, 60), (u32::MAX, 60)] {
            assert_eq!(wait(in_vain), Duration::from_secs(seconds), "{in_vain}");
        }
    }
}

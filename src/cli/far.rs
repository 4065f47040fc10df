//! Floor 5. A verb that is done by the running host for another process: what that process asks for, and how
//! what happens meanwhile reaches it. Written by `control` on one side, read by `deeds` on the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ctx::Ctx;
use super::failure::Failure;
use super::look::What;
use super::out::Answer as Answered;
use super::perform::Wanted;
use super::question::Question;
use crate::actors::frontend::FrontendRef;
use crate::call::{CallError, ErrorCode};
use crate::catalog::merge::Catalog;
use crate::catalog::naming::NamingRule;
use crate::catalog::part::{Own, part};
use crate::config::spec::{Entry, EntryState, Scope, ToolFilter};
use crate::id::{ServerId, SessionId};
use crate::policy::approve::{Answer, Denied};
use crate::runtime::Runtime;
use crate::serve::talk::{Asking, Talk};
use crate::serve::visitor::Visitor;
use crate::view::LifeState;

/// The code of a host's refusal that says: this is not among what runs here.
pub const NOT_HERE: &str = "not_here";

/// One use of servers.
#[derive(Debug, Deserialize)]
pub struct Use {
    /// The entries that it is about, as the process that asks reads them.
    pub entries: Vec<Known>,
    /// What is wanted.
    pub work: Work,
}

/// The same as it is written.
#[derive(Debug, Serialize)]
pub struct Uses<'a> {
    /// The entries.
    pub entries: Vec<Known>,
    /// What is wanted.
    pub work: &'a Work,
}

/// An entry by which both sides must mean the same.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    name: ServerId,
    hash: String,
    scope: String,
}

/// What is wanted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A list.
    Look {
        /// Of what.
        what: What,
        /// Of one server only.
        server: Option<ServerId>,
        /// How long servers are waited for.
        within_ms: Option<u64>,
    },
    /// The account of one server.
    Why {
        /// The server.
        server: ServerId,
        /// One of its tools.
        tool: Option<String>,
        /// How long it is waited for.
        within_ms: Option<u64>,
    },
    /// The parameters of a tool.
    Help {
        /// The server.
        server: ServerId,
        /// The tool.
        tool: String,
        /// How long it is waited for.
        within_ms: Option<u64>,
    },
    /// One request.
    Perform {
        /// Which.
        wanted: Wanted,
        /// Its user said yes beforehand.
        given: bool,
    },
}

/// The process that asked.
#[derive(Debug)]
pub struct Far {
    /// The way to it.
    pub talk: Talk,
    /// As which it uses the servers.
    pub visitor: Visitor,
    /// Its user said yes beforehand.
    pub given: bool,
    /// The servers that it may use, and which of their tools are listed.
    pub servers: BTreeMap<ServerId, ToolFilter>,
}

impl Work {
    /// From names of entries to the servers that they lead to in a host.
    pub fn lead(&mut self, to: impl Fn(&ServerId) -> Option<ServerId>) {
        let server = match self {
            Self::Look { server, .. } => server.as_mut(),
            Self::Why { server, .. } | Self::Help { server, .. } => Some(server),
            Self::Perform { wanted, .. } => Some(&mut wanted.server),
        };
        if let Some(server) = server
            && let Some(id) = to(server)
        {
            *server = id;
        }
    }
}

impl Far {
    /// Asks its user.
    pub async fn ask(&self, question: impl FnOnce() -> Question, can_keep: bool) -> Answer {
        if self.given {
            return Answer::Once;
        }
        let Question { head, line, whole } = question();
        self.talk.ask(Asking { number: 0, head, line, whole, can_keep }).await
    }
}

/// Does it on the running host of this user; `None` when none runs, or not with what it is about.
pub async fn using(
    ctx: &Ctx,
    schema: &'static str,
    server: Option<&ServerId>,
    work: &Work,
) -> Result<Option<Answered>, Failure> {
    #[cfg(unix)]
    if ctx.once.is_none() && ctx.house.is_none() {
        return super::control::using(ctx, schema, known(ctx, server), work).await;
    }
    let _ = (ctx, schema, server, work);
    Ok(None)
}

/// A duration as it is sent.
pub fn ms(within: Option<Duration>) -> Option<u64> {
    within.map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX))
}

/// The entries of a configuration that may run: that one, or all.
pub fn known(ctx: &Ctx, server: Option<&ServerId>) -> Vec<Known> {
    let runs = |entry: &&Entry| matches!(entry.state, EntryState::Ready(_));
    let meant = |entry: &&Entry| server.is_none_or(|server| entry.id == *server);
    let entries = ctx.loaded.servers.entries.iter().filter(runs).filter(meant);
    entries.map(|entry| known_as(entry, entry.source.scope)).collect()
}

fn known_as(entry: &Entry, scope: Scope) -> Known {
    Known { name: entry.id.clone(), hash: entry.hash.clone(), scope: scope.as_str().to_owned() }
}

/// The names of these entries, if the host reads all of them in the same way.
pub fn are_here(ctx: &Ctx, entries: &[Known]) -> Option<Vec<ServerId>> {
    let here = |known: &Known| {
        let entry = ctx.loaded.servers.get(known.name.as_str());
        entry.is_some_and(|entry| known_as(entry, entry.source.scope) == *known)
    };
    let all = !entries.is_empty() && entries.iter().all(here);
    all.then(|| entries.iter().map(|known| known.name.clone()).collect())
}

/// The session of a call for another process.
pub fn session(ctx: &Ctx) -> Option<SessionId> {
    ctx.far.as_ref().map(|far| far.visitor.session())
}

/// The way to call for another process: in no laxer mode than its own, and for somebody who can answer
/// nothing that a server asks.
pub fn bound(ctx: &Ctx, frontend: FrontendRef) -> FrontendRef {
    match &ctx.far {
        Some(_) => frontend.at_most(Some(ctx.loaded.settings.mode)).declaring("{}".into()),
        None => frontend,
    }
}

/// What the servers of a runtime offer; of a host's runtime those that are meant, as if there were no others.
pub fn catalog(ctx: &Ctx, runtime: &Runtime) -> Arc<Catalog> {
    let Some(far) = &ctx.far else { return runtime.catalog() };
    let settings = &ctx.loaded.settings;
    let rule =
        NamingRule { style: settings.naming, len_max: settings.name_len_max, reserved: &settings.reserved };
    let none = BTreeMap::new();
    Arc::new(part(&runtime.catalog().servers, &Own { servers: &far.servers, rule, remembered: &none }))
}

/// The error in the words of a process that has nobody to ask.
pub fn unasked(ctx: &Ctx, mut error: CallError) -> CallError {
    let deaf = ctx.far.is_some() && (!ctx.term.can_ask() || ctx.global.json);
    if deaf && error.code == ErrorCode::NeedsApproval {
        error.message = error.message.replace(Denied::ByPerson.why(), Denied::NoListener.why());
    }
    error
}

/// A server of the host that waits to be used, and of which nothing is known, is started for a look.
pub fn wake(runtime: &Runtime, server: &ServerId) {
    let views = runtime.status();
    let rests = views.iter().find(|view| view.id == *server && view.state == LifeState::Dormant);
    if rests.is_some_and(|view| view.kept_from.is_none()) {
        runtime.start_server(server);
    }
}

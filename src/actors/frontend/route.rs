//! From a request to the server that takes it, or to the refusal: a decision on
//! snapshots. A stale snapshot can refuse, never misroute: identity is (server, raw name).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::gate::{Known, Policy, Wanted};
use crate::actors::audit::Passage;
use crate::actors::directory::{Directory, DirectoryEntry};
use crate::actors::server::ServerRef;
use crate::actors::server::msg::Submission;
use crate::call::{CallError, CallRequest, ErrorCode, ItemKind, Origin, Phase, Target};
use crate::catalog::items::{Item, ListKind};
use crate::catalog::merge::{Catalog, Resolution};
use crate::config::mode::Mode;
use crate::config::spec::Trust;
use crate::id::ServerId;
use crate::id::shell_word;
use crate::policy::access::methods;
use crate::policy::outbound::{self, Carried};
use crate::policy::share;
use crate::view::{LifeState, ParkReason};

/// How many look-alikes a refusal names.
const SIMILAR_MAX: usize = 3;
/// When one that was refused for the sake of others may ask again.
const CROWDED_RETRY: Duration = Duration::from_secs(1);

/// Where a call goes.
#[derive(Debug)]
pub(super) struct Routed {
    pub server: ServerRef,
    /// What its exposed name stands for; `None` if the target was direct already.
    pub direct: Option<Target>,
    /// What a person has to approve first.
    pub wanted: Option<Box<Wanted>>,
}

pub(super) type Refusal = Box<CallError>;

/// What all decisions about calls go by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshots<'a> {
    pub catalog: &'a Catalog,
    pub directory: &'a Directory,
    pub policy: Policy<'a>,
    /// Calls in flight or waiting, in all.
    pub in_flight_max: usize,
}

/// Decides about one call; `passage` tells how that went.
pub(super) fn decide(call: &Submission, by: Snapshots<'_>, passage: &mut Passage) -> Result<Routed, Refusal> {
    let caller = Caller { carried: &call.carried, most: call.mode, reach: call.reach.as_deref() };
    let to = route(&call.request, caller, by.catalog, by.directory, by.policy, passage)?;
    share(&to, by.directory, call.permit.semaphore().available_permits(), by.in_flight_max)?;
    Ok(to)
}

/// Whose call it is.
#[derive(Clone, Copy)]
struct Caller<'a> {
    /// Credentials that the parameters hold.
    pub carried: &'a Carried,
    /// The caller's own mode.
    pub most: Option<Mode>,
    /// The servers that there are for it; `None`: all.
    pub reach: Option<&'a BTreeSet<ServerId>>,
}

impl Caller<'_> {
    fn reaches(&self, server: &ServerId) -> bool {
        self.reach.is_none_or(|reach| reach.contains(server))
    }
}

/// Finds the server and item of a request and asks the policy; `passage` tells how that went.
fn route(
    request: &CallRequest,
    caller: Caller<'_>,
    catalog: &Catalog,
    directory: &Directory,
    access: Policy<'_>,
    passage: &mut Passage,
) -> Result<Routed, Refusal> {
    if directory.draining {
        let text = "the host is shutting down; nothing was sent";
        return Err(refusal(ErrorCode::Draining, Phase::Admission, Origin::Host, text));
    }
    let facts = Facts { request, caller, catalog, directory, access };
    match &request.target {
        Target::Direct { server, kind, name } => {
            let (server, wanted) = facts.way_to(server, *kind, name, passage)?;
            Ok(Routed { server, direct: None, wanted })
        }
        Target::Exposed(exposed) => {
            let (id, name) = resolve(exposed, catalog)?;
            passage.found = Some((id.clone(), name.to_owned()));
            let (server, wanted) = facts.way_to(id, ItemKind::Tool, name, passage)?;
            let direct = Target::Direct { server: id.clone(), kind: ItemKind::Tool, name: name.to_owned() };
            Ok(Routed { server, direct: Some(direct), wanted })
        }
    }
}

/// Refuses one more call of a server whose calls crowd out those of others: `free` of `all` places
/// of the host are left.
fn share(to: &Routed, directory: &Directory, free: usize, all: usize) -> Result<(), Refusal> {
    let id = to.server.id();
    let Some(entry) = directory.entries.get(id) else { return Ok(()) };
    let held = {
        let view = entry.view.borrow();
        view.in_flight + view.queued
    };
    if !share::is_much(held, free, all) {
        return Ok(());
    }
    let servers = directory.entries.values().filter(|entry| entry.server.is_some()).count();
    if !share::is_spent(held, free, all, servers) {
        return Ok(());
    }
    let text = format!(
        "{held} calls of {id} are running or waiting, and of the host's {all} places {free} are left: \
         those are for other servers (in_flight_max)"
    );
    let error = refusal(ErrorCode::Busy, Phase::Admission, Origin::Host, text).after(CROWDED_RETRY);
    Err(Box::new(error.on(id)))
}

/// What is known when a call arrives.
struct Facts<'a> {
    request: &'a CallRequest,
    caller: Caller<'a>,
    catalog: &'a Catalog,
    directory: &'a Directory,
    access: Policy<'a>,
}

impl Facts<'_> {
    /// The server that takes a call of this item, if it exists and the policy lets the call pass;
    /// with it what a person has to approve first.
    fn way_to(
        &self,
        server: &ServerId,
        kind: ItemKind,
        name: &str,
        passage: &mut Passage,
    ) -> Result<(ServerRef, Option<Box<Wanted>>), Refusal> {
        let found = self.directory.entries.get(server).filter(|_| self.caller.reaches(server));
        let Some(entry) = found else {
            return Err(unknown_server(server, self.directory, &self.caller));
        };
        let Some(actor) = &entry.server else { return Err(cannot_run(server, entry)) };
        let item = known(server, kind, name, self.catalog, entry)?;
        if let Err(error) = self.keeps_to_itself(server) {
            passage.rule = Some("credential of another server".to_owned());
            return Err(Box::new(error.on(server).about(name)));
        }
        let held = self.catalog.held(server, name).filter(|_| kind == ItemKind::Tool);
        let known = Known { item: item.as_deref(), held };
        let (rule, may_run) = self.access.check(self.request, entry, (kind, name), known, self.caller.most);
        passage.rule = Some(rule.describe());
        passage.pin = known.item.filter(|_| kind == ItemKind::Tool).map(Item::pinned_by);
        passage.read_only = changes_nothing((kind, name), entry, known.item);
        let wanted = may_run.map_err(|error| Box::new(error.on(server).about(name)))?;
        let named = |wanted: Wanted| {
            let refusal = wanted.refusal.on(server).about(name);
            Box::new(Wanted { refusal, ..wanted })
        };
        Ok((actor.clone(), wanted.map(named)))
    }

    /// No credential of another server goes along, whatever else is allowed.
    fn keeps_to_itself(&self, server: &ServerId) -> Result<(), CallError> {
        let Some(owner) = outbound::offended(self.caller.carried, server) else { return Ok(()) };
        let owner = match self.caller.reaches(owner) {
            true => format!("the server {owner}"),
            false => "a server of another client".to_owned(),
        };
        let text = format!(
            "the arguments hold a credential of {owner}, which {server} must not get; nothing was sent"
        );
        let fix =
            "take it out of the arguments; what this server needs belongs in `env` or `headers` of its entry";
        let error = CallError::refused(ErrorCode::SecretInArguments, Phase::Policy, Origin::Caller, text);
        Err(error.fix(fix))
    }
}

/// Whether an item is known to change nothing: hints count only where the server is trusted.
fn changes_nothing((kind, name): (ItemKind, &str), entry: &DirectoryEntry, item: Option<&Item>) -> bool {
    match kind {
        ItemKind::Resource | ItemKind::Prompt => true,
        ItemKind::Method => methods::is_harmless(name),
        ItemKind::Tool => {
            entry.spec.as_ref().is_some_and(|spec| spec.trust == Trust::Trusted)
                && item.is_some_and(|item| item.hints.read_only == Some(true))
        }
    }
}

fn resolve<'a>(exposed: &str, catalog: &'a Catalog) -> Result<(&'a ServerId, &'a str), Refusal> {
    match catalog.resolve(exposed) {
        Resolution::One(route) => Ok((&route.server, &route.item.name)),
        Resolution::Ambiguous(candidates) => {
            let text = format!("{exposed} is offered by several servers: {}", candidates.join(", "));
            let error = refusal(ErrorCode::AmbiguousName, Phase::Resolve, Origin::Caller, text);
            Err(Box::new(error.fix("use one of these names")))
        }
        Resolution::Unknown => {
            let text =
                format!("no tool is called {exposed}{}", hint(&catalog.similar(exposed, None, SIMILAR_MAX)));
            Err(refusal(ErrorCode::UnknownTool, Phase::Resolve, Origin::Caller, text))
        }
    }
}

fn unknown_server(server: &ServerId, directory: &Directory, caller: &Caller<'_>) -> Refusal {
    let reached = directory.entries.keys().filter(|id| caller.reaches(id));
    let names: Vec<&str> = reached.map(ServerId::as_str).collect();
    let text = if names.is_empty() {
        format!("no server is called {server}: none is configured")
    } else {
        format!("no server is called {server}; configured: {}", names.join(", "))
    };
    let error = refusal(ErrorCode::UnknownServer, Phase::Resolve, Origin::Caller, text);
    Box::new(error.on(server).fix("callboard mcp list"))
}

/// The refusal of an entry that has no actor: it says what its view says.
fn cannot_run(server: &ServerId, entry: &DirectoryEntry) -> Refusal {
    let view = entry.view.borrow();
    let code = match view.state {
        LifeState::Parked(ParkReason::Disabled) => ErrorCode::Disabled,
        LifeState::Parked(ParkReason::PendingApproval) => ErrorCode::PendingApproval,
        LifeState::Parked(ParkReason::GivenUp) => ErrorCode::GivenUp,
        _ => ErrorCode::ConfigError,
    };
    let why = view.why.clone().unwrap_or_else(|| "it can't be started".to_owned());
    let error = refusal(code, Phase::Policy, Origin::Config, format!("{server}: {why}")).on(server);
    Box::new(match &view.fix {
        Some(fix) => error.fix(fix.clone()),
        None => error,
    })
}

/// The item, if the catalogue knows it. An item that a fully listed server does not have is
/// refused here; before that the server itself decides. Resources may exist unlisted.
fn known(
    server: &ServerId,
    kind: ItemKind,
    name: &str,
    catalog: &Catalog,
    entry: &DirectoryEntry,
) -> Result<Option<Arc<Item>>, Refusal> {
    let item = catalog.find(server, kind, name).cloned();
    let (list, code, word) = match kind {
        ItemKind::Tool => (ListKind::Tools, ErrorCode::UnknownTool, "tool"),
        ItemKind::Prompt => (ListKind::Prompts, ErrorCode::UnknownPrompt, "prompt"),
        ItemKind::Resource | ItemKind::Method => return Ok(item),
    };
    let hidden = kind == ItemKind::Tool && entry.spec.as_ref().is_some_and(|spec| !spec.filter.keeps(name));
    if hidden {
        let text = format!("{server} hides the tool {name} (tools.include / tools.exclude)");
        let error = refusal(ErrorCode::Denied, Phase::Policy, Origin::Config, text);
        return Err(Box::new(error.on(server).about(name)));
    }
    if item.is_some() {
        return Ok(item);
    }
    // The catalogue may lag behind the view, and know less than the server told.
    let (listed, generation) = {
        let view = entry.view.borrow();
        (view.listed, view.generation)
    };
    let whole = catalog.servers.get(server).filter(|known| known.listed && known.generation == generation);
    let Some(offered) = whole.map(|known| known.list(list)).filter(|list| listed && !list.incomplete) else {
        return Ok(None);
    };
    let text = match offered.quarantined.iter().find(|bad| bad.name == name) {
        Some(bad) => format!("the definition of {name} on {server} is quarantined: {}", bad.reason),
        None => {
            let similar = catalog.similar(name, Some(server), SIMILAR_MAX);
            format!("{server} has no {word} called {name}{}", hint(&similar))
        }
    };
    let error = refusal(code, Phase::Resolve, Origin::Caller, text).on(server).about(name);
    Err(Box::new(error.fix(format!("callboard mcp {word}s {}", shell_word(server.as_str())))))
}

fn hint(similar: &[String]) -> String {
    if similar.is_empty() { String::new() } else { format!("; did you mean {}?", similar.join(" or ")) }
}

fn refusal(code: ErrorCode, phase: Phase, origin: Origin, text: impl Into<String>) -> Refusal {
    Box::new(CallError::refused(code, phase, origin, text))
}

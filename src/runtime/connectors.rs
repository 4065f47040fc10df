//! From a configured entry to the recipe that connects: the child's environment, the
//! working directory, the endpoint. Pure but for the values that it is given.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use url::Url;

use super::RuntimePlan;
use super::pins::Books;
use super::surroundings::Around;
use crate::actors::server::Autostart;
use crate::actors::supervisor::Planned;
use crate::catalog::pin::Book;
use crate::config::child_env::Withheld;
use crate::config::secret::{Collector, is_ordinary_variable};
use crate::config::spec::{Entry, EntryState, SecretText, ServerSpec, StartMode, TransportSpec};
use crate::id::ServerId;
use crate::policy::sandbox::confinement;
use crate::transport::kept::{Kept, KeptAll};
use crate::transport::memory::Revisions;
use crate::transport::{Connector, HttpEndpoint, LinkFault, Root, StdioLaunch};
use crate::wire::era::Revision;

/// One planned server per entry.
pub(super) fn plan(
    plan: &RuntimePlan,
    remembered: &Revisions,
    mut kept: KeptAll,
    mut books: Books,
) -> Vec<Planned> {
    let entries = plan.servers.entries.iter();
    entries
        .map(|entry| {
            let known = Known {
                revision: remembered.get(&entry.hash).copied(),
                kept: kept.remove(&entry.id),
                pins: books.remove(&entry.id).unwrap_or_default(),
            };
            planned(plan, entry, known)
        })
        .collect()
}

/// Everything secret of a plan, and the credentials among it by server: what the configuration says,
/// and what the host's own environment passes on to children.
pub(super) fn secrets(plan: &RuntimePlan) -> (Vec<SecretText>, BTreeMap<ServerId, Vec<SecretText>>) {
    let (mut all, mut credentials) = (plan.servers.secrets.clone(), plan.servers.credentials.clone());
    for entry in &plan.servers.entries {
        let EntryState::Ready(spec) = &entry.state else { continue };
        let mut passed = Collector::default();
        let around = Around::of(plan, &entry.id);
        for (name, value) in around.child_env(spec) {
            if !is_ordinary_variable(&name) && around.host_env.get(&name) == Some(&value) {
                passed.named(&name, &value);
            }
        }
        credentials.entry(entry.id.clone()).or_default().extend(passed.credentials());
        all.extend(passed.finish());
    }
    (all, credentials)
}

/// A folder as servers are told about it; `None` for one that is not absolute.
fn root(folder: &Path) -> Option<Root> {
    let uri = Url::from_file_path(folder).ok()?.to_string();
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Some(Root { uri, name })
}

/// What is known of a server from earlier runs.
struct Known {
    revision: Option<Revision>,
    kept: Option<Kept>,
    pins: Book,
}

fn planned(plan: &RuntimePlan, entry: &Entry, known: Known) -> Planned {
    let around = Around::of(plan, &entry.id);
    let withheld = match &entry.state {
        EntryState::Ready(spec) if matches!(spec.transport, TransportSpec::Stdio { .. }) => {
            Withheld::of(around.host_env, &around.child_env(spec))
        }
        _ => Withheld::default(),
    };
    let connector = match (plan.in_process.get(&entry.id), &entry.state) {
        (Some(peer), _) => Ok(Connector::Duplex(peer.clone())),
        (None, EntryState::Ready(spec)) => connector(plan, &around, spec),
        (None, _) => Err(LinkFault::Config("this entry can't run".to_owned())),
    };
    Planned {
        entry: Arc::new(entry.clone()),
        connector,
        roots: around.roots.iter().filter_map(|folder| root(folder)).collect(),
        declared: plan.declared_for.get(&entry.id).unwrap_or(&plan.declared).clone(),
        withheld,
        remembered: known.revision,
        poll: around.poll,
        autostart: autostart(plan, entry, known.kept.is_some()),
        kept: known.kept,
        pins: known.pins,
        seed: plan.seed,
    }
}

/// A server that was asked for starts, lazy or not. Otherwise one that is eager does, and one of
/// which nothing is known.
fn autostart(plan: &RuntimePlan, entry: &Entry, is_known: bool) -> Autostart {
    match (&plan.only, &entry.state) {
        (_, EntryState::Disabled | EntryState::Pending | EntryState::Invalid) => Autostart::No,
        (Some(only), EntryState::Ready(spec)) if only.contains(&entry.id) => {
            let rests = plan.only_to_look && is_known && spec.start == StartMode::Lazy;
            if rests { Autostart::No } else { Autostart::ToUse }
        }
        (Some(_), EntryState::Ready(_)) => Autostart::No,
        (None, EntryState::Ready(spec)) if spec.start == StartMode::Eager => Autostart::ToUse,
        (None, EntryState::Ready(_)) if is_known => Autostart::No,
        (None, EntryState::Ready(_)) => Autostart::ToLearn,
    }
}

fn connector(plan: &RuntimePlan, around: &Around<'_>, spec: &ServerSpec) -> Result<Connector, LinkFault> {
    match &spec.transport {
        TransportSpec::Stdio { command, args, cwd, .. } => Ok(Connector::Stdio(StdioLaunch {
            command: command.clone(),
            args: args.iter().map(|arg| arg.reveal().to_owned()).collect(),
            env: around.child_env(spec),
            cwd: cwd.clone(),
            guard: plan.guard.clone(),
            sandbox: confinement(spec, around.home(), plan.own.as_deref()).map(Arc::new),
        })),
        TransportSpec::Http { url, headers } => Ok(Connector::Http(HttpEndpoint {
            url: url.reveal().to_owned(),
            headers: headers.iter().map(|(k, v)| (k.clone(), v.reveal().to_owned())).collect(),
        })),
        TransportSpec::LegacySse { .. } => Err(LinkFault::Config(
            "the old HTTP+SSE transport is not spoken yet; use the server's Streamable HTTP endpoint"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_percent_encoded_file_uri_with_the_name_of_its_folder() {
        let told = |folder: &str| root(Path::new(folder)).map(|root| (root.uri, root.name));
        let (uri, name) = told("/home/me/my notes/50% #1?").unwrap();
        assert_eq!(uri, "file:///home/me/my%20notes/50%25%20%231%3F");
        assert_eq!(name.as_deref(), Some("50% #1?"));
        assert_eq!(told("/srv/été/").unwrap(), ("file:///srv/%C3%A9t%C3%A9".into(), Some("été".into())));
        assert_eq!(told("/").unwrap(), ("file:///".into(), None));
        assert_eq!(told("relative"), None);
    }
}

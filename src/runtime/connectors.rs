//! From a configured entry to the recipe that connects: the child's environment, the
//! working directory, the endpoint. Pure but for the values that it is given.

use std::sync::Arc;

use super::RuntimePlan;
use crate::actors::supervisor::Planned;
use crate::config::child_env::child_env;
use crate::config::spec::{Entry, EntryState, ServerSpec, TransportSpec};
use crate::transport::memory::Revisions;
use crate::transport::{Connector, HttpEndpoint, LinkFault, StdioLaunch};
use crate::wire::era::Revision;

/// One planned server per entry.
pub(super) fn plan(plan: &RuntimePlan, remembered: &Revisions) -> Vec<Planned> {
    let entries = plan.servers.entries.iter();
    entries.map(|entry| planned(plan, entry, remembered.get(&entry.hash).copied())).collect()
}

fn planned(plan: &RuntimePlan, entry: &Entry, remembered: Option<Revision>) -> Planned {
    let connector = match (plan.in_process.get(&entry.id), &entry.state) {
        (Some(peer), _) => Ok(Connector::Duplex(peer.clone())),
        (None, EntryState::Ready(spec)) => connector(plan, spec),
        (None, _) => Err(LinkFault::Config("this entry can't run".to_owned())),
    };
    Planned {
        entry: Arc::new(entry.clone()),
        connector,
        roots: Vec::new(),
        remembered,
        autostart: plan.only.as_ref().is_none_or(|only| only.contains(&entry.id)),
    }
}

fn connector(plan: &RuntimePlan, spec: &ServerSpec) -> Result<Connector, LinkFault> {
    match &spec.transport {
        TransportSpec::Stdio { command, args, cwd, .. } => Ok(Connector::Stdio(StdioLaunch {
            command: command.clone(),
            args: args.iter().map(|arg| arg.reveal().to_owned()).collect(),
            env: child_env(&plan.host_env, spec, &plan.env_passthrough),
            cwd: cwd.clone(),
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

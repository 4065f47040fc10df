//! The configuration of the demo: its servers as the runtime takes them. Pure.
//! Called by the tour.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{SERVER_VERB, SERVERS};
use crate::config::spec::{
    Entry, EntryState, Scope, SecretText, ServerSet, ServerSpec, Source, Timeouts, TransportSpec, Trust,
};
use crate::runtime::RuntimePlan;
use crate::transport::guard::Guarding;

/// A runtime with every demo server, each a child process of `program`.
pub(super) fn plan(program: &Path) -> RuntimePlan {
    RuntimePlan {
        servers: ServerSet {
            entries: SERVERS.map(|name| entry(name, program)).into(),
            ..ServerSet::default()
        },
        in_flight_max: 64,
        // The program that contains the servers contains their guards, too.
        guard: Some(Guarding { program: program.to_path_buf(), spare: None, leases: None }),
        ..RuntimePlan::default()
    }
}

fn entry(name: &str, program: &Path) -> Entry {
    let spec = spec(name, program);
    Entry {
        id: spec.id.clone(),
        source: Source { scope: Scope::Default, origin: "built in".into() },
        project: None,
        shadows: Vec::new(),
        issues: Vec::new(),
        hash: spec.hash.clone(),
        transport: "stdio",
        summary: format!("callboard {SERVER_VERB} {name}"),
        label: None,
        description: None,
        required: false,
        down: None,
        state: EntryState::Ready(Arc::new(spec)),
    }
}

fn spec(name: &str, program: &Path) -> ServerSpec {
    let transport = TransportSpec::Stdio {
        command: program.to_string_lossy().into_owned(),
        args: vec![SecretText::new(SERVER_VERB), SecretText::new(name)],
        env: Vec::new(),
        cwd: None,
    };
    ServerSpec {
        hash: format!("demo-{name}"),
        // The demo calls its own servers on behalf of the person who started it.
        trust: Trust::Untrusted,
        allow_all_tools: true,
        timeouts: Timeouts {
            idle: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            max_start: Duration::from_secs(10),
            total: Duration::from_secs(20),
            list: Duration::from_secs(5),
            permit: Duration::from_secs(5),
        },
        ..ServerSpec::new(name, transport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demo_server_is_a_child_of_this_program() {
        let plan = plan(Path::new("/opt/callboard"));
        assert_eq!(plan.servers.entries.len(), SERVERS.len());
        for (entry, name) in plan.servers.entries.iter().zip(SERVERS) {
            let EntryState::Ready(spec) = &entry.state else { panic!("{name} is not ready") };
            let TransportSpec::Stdio { command, args, .. } = &spec.transport else {
                panic!("{name} is no child")
            };
            assert_eq!(command, "/opt/callboard");
            assert_eq!(args.iter().map(SecretText::reveal).collect::<Vec<_>>(), [SERVER_VERB, name]);
        }
    }
}

//! The configuration of the demo: its servers as the runtime takes them. Pure.
//! Called by the tour.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{SERVER_VERB, SERVERS};
use crate::config::spec::{
    BreakerSpec, Entry, EntryState, Globs, Limits, Protocol, RestartSpec, Sandbox, Scope, SecretText,
    ServerSet, ServerSpec, Sharing, Source, StartMode, Timeouts, ToolFilter, TransportSpec, Trust,
};
use crate::id::ServerId;
use crate::runtime::RuntimePlan;

/// A runtime with every demo server, each a child process of `program`.
pub(super) fn plan(program: &Path) -> RuntimePlan {
    RuntimePlan {
        servers: ServerSet {
            entries: SERVERS.map(|name| entry(name, program)).into(),
            ..ServerSet::default()
        },
        in_flight_max: 64,
        ..RuntimePlan::default()
    }
}

fn entry(name: &str, program: &Path) -> Entry {
    let spec = spec(name, program);
    Entry {
        id: spec.id.clone(),
        source: Source { scope: Scope::Default, origin: "built in".into() },
        shadows: Vec::new(),
        issues: Vec::new(),
        hash: spec.hash.clone(),
        transport: "stdio",
        summary: format!("callboard {SERVER_VERB} {name}"),
        label: None,
        description: None,
        required: false,
        state: EntryState::Ready(Arc::new(spec)),
    }
}

fn spec(name: &str, program: &Path) -> ServerSpec {
    ServerSpec {
        id: ServerId::new(name),
        hash: format!("demo-{name}"),
        transport: TransportSpec::Stdio {
            command: program.to_string_lossy().into_owned(),
            args: vec![SecretText::new(SERVER_VERB), SecretText::new(name)],
            env: Vec::new(),
            cwd: None,
        },
        filter: ToolFilter::default(),
        allowed_tools: None,
        denied_tools: Globs::default(),
        // The demo calls its own servers on behalf of the person who started it.
        trust: Trust::Trusted,
        allow_all_tools: true,
        allow_host_process: true,
        timeouts: Timeouts {
            idle: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            max_start: Duration::from_secs(10),
            total: Duration::from_secs(20),
            list: Duration::from_secs(5),
            permit: Duration::from_secs(5),
        },
        protocol: Protocol::Auto,
        breaker: BreakerSpec { failures: 3, open_for: Duration::from_secs(60), count_tool_errors: false },
        restart: RestartSpec {
            max: 5,
            window: Duration::from_secs(60),
            min_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(60),
        },
        limits: Limits { in_flight: 16, queue: 64, frame_max: 16 << 20, result_max: 1 << 20 },
        rate: None,
        start: StartMode::Eager,
        idle_stop: None,
        watch: Vec::new(),
        sharing: Sharing::Shared,
        env_passthrough: Vec::new(),
        sandbox: Sandbox::Off,
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

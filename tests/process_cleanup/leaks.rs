//! Nothing is lost over many connections: descriptors, processes, zombies, threads, leases.

use std::time::Duration;

use callboard::runtime::Runtime;
use callboard::view::LifeState;

use crate::support::bad::{alone, program, until};
use crate::support::spec;
use crate::trees::{children, guarding, id, plan, rounds};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn reconnects_lose_no_descriptor_and_leave_no_zombie() {
    alone("leaks::reconnects_lose_no_descriptor_and_leave_no_zombie", async {
        let folder = tempfile::tempdir().unwrap();
        let leases = folder.path().join("leases");
        let mut one = spec("s");
        one.transport = callboard::config::spec::TransportSpec::Stdio {
            command: program().display().to_string(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
        };
        let mut plan = plan(vec![one]);
        plan.guard = Some(guarding(Some(leases.clone())));
        let runtime = Runtime::start(plan).await.unwrap();
        let me = id(std::process::id());
        let mut first: Option<usize> = None;
        for round in 0..=rounds("CALLBOARD_RECONNECT_ROUNDS", 200) {
            let before = (round > 0).then(|| runtime.status()[0].generation);
            if round > 0 {
                assert!(runtime.restart_server(&"s".into()));
            }
            let mut watch = runtime.watch(&[]);
            let ready = async {
                while !watch.look().iter().all(|view| {
                    view.state == LifeState::Ready && view.listed && Some(view.generation) > before
                }) {
                    watch.changed().await;
                }
            };
            let again = tokio::time::timeout(Duration::from_secs(20), ready).await;
            assert!(again.is_ok(), "round {round}: not ready again: {:?}", runtime.status());
            if round == 5 {
                until("the old ones are gone", || children(me).len() == 1).await;
                first = Some(descriptors());
            }
        }
        until("one guard is left", || children(me).len() == 1).await;
        // The first look may have met one that was just being closed.
        until("no descriptor was lost", || first.is_some_and(|first| descriptors() <= first)).await;
        assert_eq!(std::fs::read_dir(&leases).unwrap().count(), 1);
        runtime.shutdown().await;
        assert!(children(me).is_empty(), "{:?}", children(me));
        assert_eq!(std::fs::read_dir(&leases).unwrap().count(), 0);
    });
}

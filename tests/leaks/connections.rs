//! Nothing is lost over many connections, however they end.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use callboard::runtime::Runtime;
use callboard::transport::guard::Guarding;
use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::holdings::*;
use crate::support::bad::{runs, until};
use crate::support::{call, request};
use crate::trees::{guarding, plan, rounds};

/// Servers that are reconnected side by side.
const SERVERS: usize = 4;
/// Most resident memory that may have been added, in bytes.
const MEMORY_MAX: u64 = 4 * MIB;

/// Restarts each server so often, each as soon as it is ready again.
async fn reconnect(runtime: &Runtime, times: u32) {
    let names: Vec<String> = (0..SERVERS).map(|number| format!("s{number}")).collect();
    let each = names.iter().map(|name| async move {
        for _ in 0..times {
            let old = view(runtime, name).pid;
            assert!(runtime.restart_server(&name.as_str().into()));
            fresh(runtime, name, old).await;
        }
    });
    join_all(each).await;
}

#[test]
fn reconnects_lose_nothing() {
    alone("connections::reconnects_lose_nothing", async {
        let folder = tempfile::tempdir().unwrap();
        let leases = folder.path().join("leases");
        let mut plan = plan((0..SERVERS).map(|number| server(&format!("s{number}"), &[])).collect());
        plan.guard = Some(Guarding { leases: Some(leases.clone()), ..guarding(None) });
        let runtime = Runtime::start(plan).await.unwrap();
        let ready = (0..SERVERS).map(|number| format!("s{number}"));
        for name in ready {
            fresh(&runtime, &name, None).await;
        }
        let times = rounds("CALLBOARD_RECONNECTS", 1_000) / SERVERS as u32;
        reconnect(&runtime, times / 4).await;
        let (before, memory) = (Holdings::quiet().await, resident());
        let began = Instant::now();
        reconnect(&runtime, times).await;
        let took = began.elapsed();
        let after = Holdings::settle(&before, "after the reconnects").await;
        let grown = resident().saturating_sub(memory);
        figure(&format!(
            "{} reconnects in {took:.1?}: {after:?} as before, {:.1} MiB more resident",
            times as usize * SERVERS,
            grown as f64 / MIB as f64
        ));
        assert!(grown <= MEMORY_MAX, "{} KiB more", grown >> 10);
        assert_eq!((after.children, after.zombies), (SERVERS, 0), "one guard for each");
        assert_eq!(std::fs::read_dir(&leases).unwrap().count(), SERVERS);
        runtime.shutdown().await;
        assert_eq!(Holdings::now().children, 0);
        assert_eq!(std::fs::read_dir(&leases).unwrap().count(), 0);
    });
}

/// The pipes and sockets that a process holds.
fn ends(pid: &str) -> BTreeSet<PathBuf> {
    let ends = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let leads = ends.filter_map(|end| std::fs::read_link(end.path()).ok());
    leads
        .filter(|to| ["pipe:", "socket:"].iter().any(|kind| to.to_string_lossy().starts_with(kind)))
        .collect()
}

#[test]
fn starts_and_stops_lose_no_descriptor_where_there_are_few() {
    alone("connections::starts_and_stops_lose_no_descriptor_where_there_are_few", async {
        setrlimit(Resource::Nofile, Rlimit { current: Some(128), maximum: Some(128) }).unwrap();
        let times = rounds("CALLBOARD_CYCLES", 300);
        // What whoever runs the tests left open here is not ours.
        let inherited = ends("self");
        let own = |pid: Option<u32>| ends(&pid.unwrap().to_string()).difference(&inherited).count();
        let [healthy, crashing] = runs("B121");
        let both = || {
            let mut dies = server("dies", &crashing);
            lively(&mut dies);
            vec![dies, server("x", &healthy)]
        };
        let (on, off) = (plan(both()), plan(vec![both().remove(0)]));
        let runtime = Runtime::start(on.clone()).await.unwrap();
        let mut first = None;
        for round in 0..times {
            let old = fresh(&runtime, "dies", None).await.pid;
            call(&runtime, "dies", "t0").await.unwrap_err();
            let ((), view) = tokio::join!(
                async {
                    runtime.reload(&off).await.unwrap();
                    runtime.reload(&on).await.unwrap();
                },
                fresh(&runtime, "dies", old)
            );
            assert_eq!(own(view.pid), 3, "its own three pipes, and none of another");
            let view = fresh(&runtime, "x", None).await;
            assert_eq!(own(view.pid), 3);
            runtime.frontend().call(request("x", "t0", r#"{"name":"t0"}"#), None).await.expect("it answers");
            if round == 5 {
                first = Some(Holdings::now());
            }
        }
        let first = first.expect("there were more than five");
        until("no descriptor was lost", || {
            let now = Holdings::now();
            now.descriptors <= first.descriptors && now.children == 2 && now.zombies == 0
        })
        .await;
        runtime.shutdown().await;
        assert_eq!(Holdings::now().children, 0);
    });
}

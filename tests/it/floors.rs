//! What servers say leads this program nowhere: no URL of theirs is fetched, no name of theirs
//! becomes a path outside of our own folders.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::bad::{self, Yard};

#[tokio::test]
async fn no_url_that_a_server_names_is_contacted() {
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let port = canary.local_addr().unwrap().port().to_string();
    for (number, flags) in bad::runs::<4>("B136").into_iter().enumerate() {
        let flags: Vec<String> = flags.iter().map(|flag| flag.replace("CANARY", &port)).collect();
        let host = Yard::new().with("s", &flags).await.start().await;
        let views = host.runtime.settle(&[], bad::PATIENCE).await;
        if number < 2 {
            assert!(views[0].listed, "{views:?}");
            let reply = host.call("s", "t0", &json!({})).await.unwrap();
            assert!(String::from_utf8_lossy(&reply.body()).contains(&port), "the URL stands in the answer");
        } else {
            assert!(!views[0].listed, "it wants a login, or sends us away: {views:?}");
        }
        host.end().await;
        assert!(canary.accept().is_err(), "contacted by way of {flags:?}");
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()))
        } else {
            _ = found.insert(entry.path())
        }
    }
    found
}

#[tokio::test]
async fn names_of_servers_and_tools_never_become_paths_outside_of_our_folder() {
    let [flags] = bad::runs("B137");
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("a/b/state");
    std::fs::write(folder.path().join("victim"), "as it was").unwrap();
    let long = "n".repeat(200);
    for name in ["../../x", "/../../../victim", "..", &long, "a\\..\\b", "CON", "."] {
        let yard = Yard::new().with(name, &flags).await.plan(|plan| {
            plan.catalogs = Some(state.join("catalogs"));
            plan.memory = Some(state.join("memory.json"));
        });
        let host = yard.ready().await;
        assert!(!host.tools(name).is_empty());
        host.end().await;
    }
    let outside: Vec<PathBuf> =
        files(folder.path()).into_iter().filter(|file| !file.starts_with(&state)).collect();
    assert_eq!(outside, [folder.path().join("victim")]);
    // A link that somebody planted in place of a file of ours is replaced, not followed.
    let kept = files(&state.join("catalogs"));
    assert_eq!(kept.len(), 7, "{kept:?}");
    for file in &kept {
        std::fs::remove_file(file).unwrap();
        std::os::unix::fs::symlink(folder.path().join("victim"), file).unwrap();
    }
    let host = Yard::new().with("../../x", &flags).await.plan(|plan| {
        plan.catalogs = Some(state.join("catalogs"));
    });
    host.ready().await.end().await;
    let victim = std::fs::read_to_string(folder.path().join("victim")).unwrap();
    assert_eq!(victim, "as it was");
}

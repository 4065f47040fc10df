//! Servers as a user configures them: files are written, loaded, and made a plan of, so that a
//! test covers the whole way from the key to the behaviour.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use callboard::config::load::{Env, LoadOptions, load};
use callboard::id::ServerId;
use callboard::runtime::{Runtime, RuntimePlan};
use callboard::transport::DuplexPeer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::peer::{Script, Wire, duplex, good, method_of};

/// A user's files; scripted servers may stand in for the programs of its entries.
pub struct Files {
    folder: TempDir,
    env: Vec<(String, String)>,
    peers: BTreeMap<ServerId, DuplexPeer>,
}

impl Files {
    /// With the entry `s`, whose tools may all be called.
    pub fn with(keys: &Value) -> Self {
        let mut entry = json!({"command": "in-process", "allowAllTools": true});
        entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let files = Self { folder: tempfile::tempdir().unwrap(), env: Vec::new(), peers: BTreeMap::new() };
        files.write("mcp.json", &json!({"mcpServers": {"s": entry}}).to_string());
        files
    }

    /// The home folder.
    pub fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Writes one of the user's files.
    pub fn write(&self, name: &str, text: &str) {
        let home = self.path().join(".callboard");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join(name), text).unwrap();
    }

    /// The settings of the host.
    pub fn host(self, toml: &str) -> Self {
        self.write("callboard.toml", toml);
        self
    }

    /// A variable of this process.
    pub fn var(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What stands in for the program of `s`.
    pub fn server(mut self, script: impl Script) -> Self {
        self.peers.insert("s".into(), duplex(script));
        self
    }

    /// What the files mean.
    pub fn plan(&self) -> RuntimePlan {
        self.plan_with(&[])
    }

    /// The same with these variables of this process too.
    pub fn plan_with(&self, variables: &[(&str, &str)]) -> RuntimePlan {
        let mut env: Env = self.env.iter().cloned().collect();
        for (name, value) in variables {
            env.set(*name, *value);
        }
        env.set("HOME", self.path().to_str().unwrap());
        env.set("PATH", "/usr/local/bin:/usr/bin:/bin");
        let mut options = LoadOptions::new(env, self.path());
        options.managed_dir = self.path().join("managed");
        let loaded = load(&options);
        let issues: Vec<String> = loaded.issues().map(ToString::to_string).collect();
        assert!(issues.is_empty(), "{issues:?}");
        let plan = RuntimePlan::of(&loaded, &options.env);
        // The audit log has a thread of its own, for which no paused clock waits.
        RuntimePlan { in_process: self.peers.clone(), memory: None, catalogs: None, audit: None, ..plan }
    }

    /// What runs then, settled.
    pub async fn ready(&self) -> Runtime {
        let runtime = Runtime::start(self.plan()).await.unwrap();
        runtime.settle(&[], Duration::from_secs(600)).await;
        runtime
    }
}

/// Answers every call with `{}`.
pub fn quick(message: &Value, wire: &Wire) {
    if !good(message, wire) {
        wire.result(message, "{}");
    }
}

/// A server of the modern era only: it answers nothing of the older one.
pub fn modern(message: &Value, wire: &Wire) {
    let result = match method_of(message) {
        "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
        "tools/list" => json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"resultType": "complete", "content": []}),
        _ => return,
    };
    wire.result(message, &result.to_string());
}

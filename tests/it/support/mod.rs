//! What the integration tests share: a runtime on in-process servers that follow a
//! script, and short ways to call them. The fakes are at the wire; our own actors are real.

pub mod bad;
pub mod client;
mod files;
pub mod http_client;
mod peer;
pub mod pty;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callboard::call::{CallError, CallLimits, CallReply, CallRequest, ItemKind, Target};
use callboard::config::spec::{Entry, EntryState, Scope, ServerSpec, Source, TransportSpec, Trust};
use callboard::id::{CallId, ServerId, SessionId};
use callboard::runtime::{Runtime, RuntimePlan};
use callboard::transport::DuplexPeer;

pub use files::{Files, modern, quick};
pub use peer::{Script, Tape, Wire, answer, good, id_of, method_of};

/// A specification with the defaults of the product.
pub fn spec(name: &str) -> ServerSpec {
    let transport = TransportSpec::Stdio {
        command: "in-process".to_owned(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
    };
    ServerSpec {
        hash: format!("hash-of-{name}"),
        trust: Trust::Untrusted,
        allow_all_tools: true,
        ..ServerSpec::new(name, transport)
    }
}

/// The entry of a specification.
pub fn entry(spec: ServerSpec) -> Entry {
    Entry {
        id: spec.id.clone(),
        source: Source { scope: Scope::Flag, origin: "test".into() },
        project: None,
        shadows: Vec::new(),
        issues: Vec::new(),
        hash: spec.hash.clone(),
        transport: "stdio",
        summary: "in-process".to_owned(),
        label: None,
        description: None,
        required: false,
        down: None,
        state: EntryState::Ready(Arc::new(spec)),
    }
}

/// A plan of in-process servers.
#[derive(Default)]
pub struct Fleet {
    plan: RuntimePlan,
    peers: BTreeMap<ServerId, DuplexPeer>,
}

impl Fleet {
    /// Adds a server that follows a script.
    pub fn with(mut self, spec: ServerSpec, script: impl Script) -> Self {
        self.peers.insert(spec.id.clone(), peer::duplex(script));
        self.plan.servers.entries.push(entry(spec));
        self
    }

    /// Changes the plan.
    pub fn plan(mut self, change: impl FnOnce(&mut RuntimePlan)) -> Self {
        change(&mut self.plan);
        self
    }

    /// The plan as it is.
    pub fn into_plan(self) -> RuntimePlan {
        RuntimePlan { in_process: self.peers, ..self.plan }
    }

    /// Starts it.
    pub async fn start(self) -> Runtime {
        Runtime::start(self.into_plan()).await.expect("the runtime starts")
    }

    /// Starts it and waits until every server is settled.
    pub async fn ready(self) -> Runtime {
        let runtime = self.start().await;
        runtime.settle(&[], Duration::from_secs(600)).await;
        runtime
    }
}

/// A runtime with one server that follows a script, settled.
pub async fn one(script: impl Script) -> Runtime {
    Fleet::default().with(spec("s"), script).ready().await
}

/// A request for a tool of one server.
pub fn request(server: &str, tool: &str, params: &str) -> CallRequest {
    CallRequest {
        id: CallId::fresh(),
        session: SessionId(0),
        target: Target::Direct { server: ServerId::new(server), kind: ItemKind::Tool, name: tool.to_owned() },
        params: Bytes::copy_from_slice(params.as_bytes()),
        limits: CallLimits::default(),
        grant: None,
    }
}

/// Calls a tool with no arguments.
pub async fn call(runtime: &Runtime, server: &str, tool: &str) -> Result<CallReply, CallError> {
    runtime.frontend().call(request(server, tool, "{}"), None).await
}

/// The body of an answer as text.
pub fn text(reply: &CallReply) -> String {
    String::from_utf8(reply.body().to_vec()).expect("answers are UTF-8")
}

/// Runs the other tasks until they all wait.
pub async fn idle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

//! Floor 5. The servers behind the prompt: one runtime for as long as it is there, the configuration
//! that it follows, and what is held down by hand. Every verb that is typed uses them through `Ctx`.
//! One writer: whoever holds its lock. Made by `repl`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::Mutex;

use super::editor::Editor;
use super::helper::Shared;
use crate::agent::engine::reserved;
use crate::builtins::Builtins;
use crate::cli::ctx::Ctx;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::serve::without_ourselves;
use crate::cli::session;
use crate::config::load::load;
use crate::config::mode::Mode;
use crate::config::spec::EntryState;
use crate::id::ServerId;
use crate::runtime::{Reloaded, Runtime, RuntimePlan};
use crate::serve::share::Hold;
use crate::transport::Declared;

/// What is told as the place where such a server is turned off.
const BY_HAND: &str = "by hand, at the prompt, until `/mcp start` or `/mcp on`";

/// How a file was: when it was changed, and its size.
type Mark = Option<(SystemTime, u64)>;

/// The servers behind the prompt.
#[derive(Debug)]
pub struct House {
    runtime: Arc<Runtime>,
    /// Whoever types.
    person: Arc<Mutex<Editor>>,
    shared: Arc<Shared>,
    builtins: Builtins,
    now: Mutex<Now>,
}

/// What it goes by.
#[derive(Debug)]
struct Now {
    ctx: Ctx,
    held: Held,
    seen: Vec<Mark>,
}

/// What is held down.
#[derive(Clone, Debug, Default)]
struct Held {
    all: bool,
    servers: BTreeSet<ServerId>,
}

impl House {
    /// Starts the servers; returns before any of them has answered.
    ///
    /// # Errors
    /// When the core can't be started.
    pub async fn start(ctx: &Ctx, person: Arc<Mutex<Editor>>) -> Result<Arc<Self>, Failure> {
        let shared = person.lock().await.shared.clone();
        let builtins = Builtins::default();
        let held = Held::default();
        let runtime = Runtime::start(plan(ctx, &held, &builtins))
            .await
            .map_err(|e| Failure::new("internal", Exit::Unavailable, e.to_string()))?;
        builtins.attach(&runtime);
        let now = Mutex::new(Now { ctx: ctx.clone(), held, seen: marks(ctx) });
        Ok(Arc::new(Self { runtime: Arc::new(runtime), person, shared, builtins, now }))
    }

    /// What calls go through.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The same, for a conversation.
    pub fn shared_runtime(&self) -> Arc<Runtime> {
        self.runtime.clone()
    }

    /// Whether something is being typed right now.
    pub fn reads(&self) -> bool {
        self.shared.reads()
    }

    /// Whoever types; one asks them at a time.
    pub fn person(&self) -> &Arc<Mutex<Editor>> {
        &self.person
    }

    /// What a verb works with that is typed now.
    pub async fn ctx(self: &Arc<Self>) -> Ctx {
        let ctx = self.now.lock().await.ctx.clone();
        Ctx { house: Some(self.clone()), term: ctx.term.resized(), ..ctx }
    }

    /// Whether a file of the configuration is another one than at the last look.
    pub async fn is_stale(&self) -> bool {
        let now = self.now.lock().await;
        now.seen != marks(&now.ctx)
    }

    /// Reads the configuration again and makes the servers equal to it; calls of unchanged ones go on.
    ///
    /// # Errors
    /// When a source can't be read: then nothing changes.
    pub async fn reload(&self) -> Result<Reloaded, Failure> {
        let mut now = self.now.lock().await;
        let mode = now.ctx.loaded.settings.mode;
        let before = now.ctx.loaded.clone();
        now.ctx.loaded = load(&now.ctx.options);
        now.ctx.loaded.settings.mode = mode;
        now.ctx.redaction.learn(&now.ctx.loaded.servers.secrets);
        now.seen = marks(&now.ctx);
        let done = self.runtime.reload(&plan(&now.ctx, &now.held, &self.builtins)).await;
        done.map_err(|refused| {
            let text = now.ctx.clean(&refused.to_string());
            now.ctx.loaded = before;
            Failure::config(text).fix("correct the file; it is read again when it changes")
        })
    }

    /// Holds servers down, or lets them go.
    ///
    /// # Errors
    /// As [`House::reload`].
    pub async fn hold(&self, hold: Hold, servers: &[ServerId]) -> Result<(), Failure> {
        let mut now = self.now.lock().await;
        match hold {
            Hold::Stop => now.held.servers.extend(servers.iter().cloned()),
            Hold::Start => servers.iter().for_each(|server| _ = now.held.servers.remove(server)),
            Hold::Off => now.held.all = true,
            Hold::On => now.held.all = false,
        }
        self.apply(&now).await
    }

    /// How much runs without asking, from now on, in this run.
    ///
    /// # Errors
    /// As [`House::reload`].
    pub async fn set_mode(&self, mode: Mode) -> Result<(), Failure> {
        let mut now = self.now.lock().await;
        now.ctx.loaded.settings.mode = mode;
        self.apply(&now).await
    }

    /// Settings of this run, stronger than those of the files. One that can't be used changes nothing.
    pub async fn set(&self, settings: &[(&str, &str)]) {
        let mut now = self.now.lock().await;
        let new = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        now.ctx.options.settings.extend(new);
        let mode = now.ctx.loaded.settings.mode;
        now.ctx.loaded = load(&now.ctx.options);
        now.ctx.loaded.settings.mode = mode;
    }

    async fn apply(&self, now: &Now) -> Result<(), Failure> {
        let done = self.runtime.reload(&plan(&now.ctx, &now.held, &self.builtins)).await;
        done.map(|_| ()).map_err(|refused| Failure::config(now.ctx.clean(&refused.to_string())))
    }

    /// Ends all servers, and says whom it waits for. Nobody else may use the house any more.
    pub async fn shutdown(self: Arc<Self>, ctx: &Ctx) {
        if let Some(runtime) = Arc::into_inner(self).and_then(|house| Arc::into_inner(house.runtime)) {
            session::shutdown(ctx, runtime).await;
        }
    }
}

fn plan(ctx: &Ctx, held: &Held, builtins: &Builtins) -> RuntimePlan {
    let mut plan = RuntimePlan { only: None, ..session::plan(ctx, &[]) };
    plan.servers = without_ourselves(plan.servers, std::env::current_exe().ok().as_deref());
    builtins.plan(&ctx.loaded, &mut plan);
    plan.reserved.extend(reserved());
    plan.declared = Declared::new(&declared());
    for entry in &mut plan.servers.entries {
        let is_held = held.all || held.servers.contains(&entry.id);
        if is_held && matches!(entry.state, EntryState::Ready(_)) {
            entry.state = EntryState::Disabled;
            entry.source.origin = Arc::from(BY_HAND);
        }
    }
    plan
}

/// What servers are told that the person here can be asked.
fn declared() -> serde_json::Map<String, serde_json::Value> {
    let mut all = serde_json::Map::new();
    all.insert("elicitation".to_owned(), serde_json::json!({"form": {}, "url": {}}));
    all
}

/// How the files of a configuration are now.
fn marks(ctx: &Ctx) -> Vec<Mark> {
    let files = ctx.loaded.files.iter().map(|file| &file.path);
    let mark = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    files.map(mark).collect()
}

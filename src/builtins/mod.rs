//! Floor 4. The tools of the host itself, as one more server: in this process, behind
//! `Connector::Duplex`, so that names, policy, limits and audit treat it as any other. Reads files below
//! the configured folders, fetches from public hosts; never runs a program. Called by the edges that
//! plan a host.

pub mod calculate;
mod describe;
mod files;
pub mod guests;
mod html;
pub mod last;
mod peer;
pub mod tool;
mod web;

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use self::describe::Live;
use self::files::Places;
use self::guests::Guests;
use self::last::LastOutputs;
use self::tool::{Tool, offered};
use self::web::Search;
use crate::config::builtins::{SearchProvider, SearchSettings};
use crate::config::load::Loaded;
use crate::config::spec::{
    Entry, EntryState, Protocol, Scope, SecretText, ServerSpec, Source, TransportSpec, Trust,
};
use crate::id::{BUILTINS, ServerId, SessionId};
use crate::runtime::{Runtime, RuntimePlan};
use crate::telemetry::Redaction;
use crate::transport::http::fetch::Fetcher;
use crate::transport::task;

/// Largest file that is read, bytes.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Largest file that is written, bytes.
pub const WRITE_BYTES_MAX: usize = 1024 * 1024;
/// Largest page of a text, bytes.
pub const PAGE_BYTES_MAX: usize = 256 * 1024;
/// A page when the caller does not say, bytes.
const PAGE_BYTES: usize = 64 * 1024;

/// What the host's own tools share over reloads: the running host, and each session's last result.
/// Cheap to clone: all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Builtins {
    live: Arc<OnceLock<Live>>,
    outputs: LastOutputs,
    guests: Guests,
    fetcher: Option<Fetcher>,
}

impl Builtins {
    /// Those that fetch through this: for tests, and for hosts that bring their own network.
    pub fn over(fetcher: Fetcher) -> Self {
        Self { fetcher: Some(fetcher), ..Self::default() }
    }

    /// Puts the tools that the settings offer into the plan, as a server of their own, and reserves all of
    /// their names. Again for each plan that a reload makes.
    pub fn plan(&self, loaded: &Loaded, plan: &mut RuntimePlan) {
        let settings = &loaded.settings.builtins;
        plan.reserved.extend(Tool::ALL.map(|tool| tool.name().to_owned()));
        let tools = offered(settings, plan.servers.entries.is_empty());
        if tools.is_empty() {
            return;
        }
        if tools.contains(&Tool::WriteFile) {
            tracing::warn!("write_file is offered: serve.allow_writes is on");
        }
        let roots = match settings.read_roots.as_slice() {
            [] => vec![loaded.project_root.clone()],
            roots => roots.to_vec(),
        };
        let places = Places {
            roots,
            own: loaded.home.iter().cloned().collect(),
            allowed: settings.allowed_paths.clone(),
            blocked: settings.blocked_paths.clone(),
        };
        let search = search(&settings.search, loaded.search_key.clone());
        let guardrails = guardrails(&places, &tools, loaded);
        let written = format!("{} {settings:?} {places:?} {tools:?}", env!("CARGO_PKG_VERSION"));
        let hash = Sha256::digest(written).iter().map(|byte| format!("{byte:02x}")).collect();
        let redaction = plan.redaction.clone();
        let hands = Hands { tools, places, search, guardrails, redaction, shared: self.clone() };
        plan.in_process.insert(ServerId::new(BUILTINS), peer::peer(Arc::new(hands)));
        // One that was misnamed so can't run, and is told of where the configuration is shown.
        plan.servers.entries.retain(|entry| entry.id.as_str() != BUILTINS);
        plan.servers.entries.push(entry(hash));
        plan.servers.entries.sort_by(|a, b| a.id.cmp(&b.id));
    }

    /// Hands over the running host: what `describe_…` tells is from its snapshots.
    pub fn attach(&self, runtime: &Runtime) {
        let _ = self.live.set(Live::of(runtime));
    }

    /// What the edge says of sessions that see only a part, or whose results are kept for another one.
    pub fn guests(&self) -> &Guests {
        &self.guests
    }

    /// Where the edge keeps each session's last result, and forgets it at the session's end.
    pub fn outputs(&self) -> &LastOutputs {
        &self.outputs
    }
}

/// The entry of the host itself. Its own word about its tools counts.
fn entry(hash: String) -> Entry {
    let id = ServerId::new(BUILTINS);
    let transport =
        TransportSpec::Stdio { command: "callboard".into(), args: Vec::new(), env: Vec::new(), cwd: None };
    let spec = ServerSpec {
        hash: hash.clone(),
        trust: Trust::Trusted,
        protocol: Protocol::Legacy,
        ..ServerSpec::new(BUILTINS, transport)
    };
    Entry {
        id,
        source: Source { scope: Scope::Default, origin: "serve.builtins".into() },
        project: None,
        shadows: Vec::new(),
        state: EntryState::Ready(Arc::new(spec)),
        issues: Vec::new(),
        hash,
        transport: "in-process",
        summary: "the tools of the host itself".into(),
        label: None,
        description: None,
        required: false,
        down: None,
    }
}

/// Where and how to search, and what is missing for it.
fn search(settings: &SearchSettings, key: Option<SecretText>) -> Search {
    let url = Url::parse(&settings.url).ok();
    let needs_key = matches!(settings.provider, SearchProvider::Tavily | SearchProvider::Exa);
    let lacks = if settings.provider == SearchProvider::SearXng && url.is_none() {
        Some("set builtins.web_search.url to the address of your SearXNG")
    } else if key.is_none() && (needs_key || !settings.key.is_empty()) {
        Some("builtins.web_search.key is missing, or refers to something that is not there")
    } else {
        None
    };
    Search { provider: settings.provider, url, key, lacks }
}

/// What is kept to, for a model that wants to know.
fn guardrails(places: &Places, tools: &[Tool], loaded: &Loaded) -> Vec<String> {
    let mut all = vec![
        "every call is decided by the policy of its server and the mode in force".to_owned(),
        "no tool of the host runs a program".to_owned(),
        "files of credentials are neither read nor written; links lead nowhere else".to_owned(),
        "URLs that others choose lead to public hosts only".to_owned(),
        "credentials of one server are not sent to another".to_owned(),
        format!("calls are written down: {:?}", loaded.settings.audit).to_lowercase(),
    ];
    let roots = places.roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(", ");
    all.push(format!("files are read below {roots} only"));
    all.push(match tools.contains(&Tool::WriteFile) {
        true => "files may be written there, when the policy lets a call run".to_owned(),
        false => "no file is written".to_owned(),
    });
    all
}

/// What a tool returns: the structure, and a text where that is better than the structure's JSON.
#[derive(Clone, Debug)]
struct Output {
    text: Option<String>,
    structured: Value,
}

/// What the tools of one plan work with.
#[derive(Debug)]
struct Hands {
    tools: Vec<Tool>,
    places: Places,
    search: Search,
    guardrails: Vec<String>,
    redaction: Redaction,
    shared: Builtins,
}

impl Hands {
    fn has(&self, tool: Tool) -> bool {
        self.tools.contains(&tool)
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Runs one call; no secret that we know is in what comes out.
    async fn run(
        self: Arc<Self>,
        tool: Tool,
        session: Option<SessionId>,
        arguments: Value,
    ) -> Result<Output, String> {
        let redaction = self.redaction.clone();
        match self.act(tool, session, arguments).await {
            Ok(mut output) if tool != Tool::Calculate => {
                output.text = output.text.map(|text| redaction.text(&text));
                clean(&mut output.structured, &redaction);
                Ok(output)
            }
            Ok(output) => Ok(output),
            Err(text) => Err(redaction.text(&text)),
        }
    }

    async fn act(
        self: Arc<Self>,
        tool: Tool,
        session: Option<SessionId>,
        arguments: Value,
    ) -> Result<Output, String> {
        match tool {
            Tool::Capabilities => {
                let guest = self.shared.guests.of(session);
                Ok(self.live()?.capabilities(&self.guardrails, &guest))
            }
            Tool::Describe => self.live()?.tool(&arguments, &self.shared.guests.of(session)),
            Tool::LastOutput => self.last_output(session, &arguments),
            Tool::Calculate => {
                let number = calculate::calculate(files::argument(&arguments, "expression")?);
                let number = number.map_err(|fault| fault.to_string())?;
                let structured = json!({"value": number.to_string(), "exact": number.is_exact()});
                Ok(Output { text: Some(number.to_string()), structured })
            }
            Tool::ReadText => {
                let redaction = self.redaction.clone();
                self.blocking(move |places| places.read(&arguments, &redaction)).await
            }
            Tool::WriteFile => self.blocking(move |places| places.write(&arguments)).await,
            Tool::PageTitle => web::title(&self.fetcher()?, &arguments).await,
            Tool::WebSearch => web::search(&self.fetcher()?, &self.search, &arguments).await,
        }
    }

    fn live(&self) -> Result<&Live, String> {
        self.shared.live.get().ok_or_else(|| "the host is still starting; try again".to_owned())
    }

    fn fetcher(&self) -> Result<Fetcher, String> {
        match &self.shared.fetcher {
            Some(fetcher) => Ok(fetcher.clone()),
            None => Fetcher::new().map_err(|error| error.to_string()),
        }
    }

    async fn blocking(
        self: Arc<Self>,
        work: impl FnOnce(&Places) -> Result<Output, String> + Send + 'static,
    ) -> Result<Output, String> {
        let done = task::blocking(move || work(&self.places)).await;
        done.unwrap_or_else(|| Err("the work was lost; try again".into()))
    }

    fn last_output(&self, session: Option<SessionId>, arguments: &Value) -> Result<Output, String> {
        let kept = self.shared.guests.of(session).keeps_as.or(session);
        let last = kept.and_then(|session| self.shared.outputs.of(session));
        let Some(last) = last else {
            return Err("no other tool has answered you in this session yet".into());
        };
        let Some(body) = last.body else {
            return Err(format!("the last result, of {}, was too large to be kept", last.tool));
        };
        // Before it is cut, so that no page begins or ends inside a secret.
        let text = self.redaction.text(&String::from_utf8_lossy(&body));
        let mut structured = page(&text, arguments)?;
        structured["tool"] = last.tool.into();
        structured["server"] = last.server.into();
        Ok(Output { text: structured["text"].as_str().map(str::to_owned), structured })
    }
}

/// One page of a text: `offset` and `limit` are bytes, moved to the characters around them.
fn page(text: &str, arguments: &Value) -> Result<Value, String> {
    let number = |name: &str, other: usize| match &arguments[name] {
        Value::Null => Ok(other),
        value => value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| format!("{name} must be a whole number, zero or more")),
    };
    let offset = number("offset", 0)?;
    let limit = number("limit", PAGE_BYTES)?.clamp(16, PAGE_BYTES_MAX);
    if offset > text.len() {
        return Err(format!("offset {offset} is behind the end: there are {} bytes", text.len()));
    }
    let boundary = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let from = boundary(offset);
    let to = boundary((from + limit).min(text.len()));
    Ok(json!({
        "offset": from, "bytes": to - from, "total_bytes": text.len(),
        "next_offset": (to < text.len()).then_some(to), "text": &text[from..to],
    }))
}

/// Takes secrets out of every text of a value.
fn clean(value: &mut Value, redaction: &Redaction) {
    match value {
        Value::String(text) => *text = redaction.text(text),
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, redaction)),
        Value::Object(members) => members.values_mut().for_each(|member| clean(member, redaction)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

//! `describe_capabilities` and `describe_tool`, from the snapshots of the running host alone: no file, no
//! socket, no process is touched, and no value of a configuration is shown.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Output;
use super::files::argument;
use super::guests::{Guest, Own};
use crate::actors::approvals::Gate;
use crate::actors::directory::Directory;
use crate::call::ItemKind;
use crate::catalog::merge::{Catalog, ExposedTool};
use crate::config::mode::Mode;
use crate::config::spec::EntryState;
use crate::id::ServerId;
use crate::policy::access::{Question, Verdict, decide};
use crate::runtime::Runtime;
use crate::time;

/// Tools that one answer lists; more are only counted.
const TOOLS_MAX: usize = 500;
/// Longest text about one tool or server in a list, characters.
const LINE_CHARS_MAX: usize = 120;
/// Bytes of JSON that are about one token of a model.
const TOKEN_BYTES: usize = 4;

/// The snapshots of a running host.
#[derive(Clone, Debug)]
pub(super) struct Live {
    catalog: watch::Receiver<Arc<Catalog>>,
    directory: watch::Receiver<Arc<Directory>>,
    gate: watch::Receiver<Arc<Gate>>,
}

/// What one caller sees.
struct Seen {
    catalog: Arc<Catalog>,
    mode: Mode,
    own: Option<Own>,
}

impl Live {
    pub(super) fn of(runtime: &Runtime) -> Self {
        Self {
            catalog: runtime.catalog_watch(),
            directory: runtime.directory_watch(),
            gate: runtime.gate_watch(),
        }
    }

    /// What a caller sees, and what holds for it.
    fn seen(&self, guest: &Guest) -> Seen {
        let mode = self.gate.borrow().mode;
        match guest.own() {
            Some(own) => Seen {
                catalog: own.catalog.clone(),
                mode: own.mode.map_or(mode, |most| most.stricter(mode)),
                own: Some(own),
            },
            None => Seen { catalog: self.catalog.borrow().clone(), mode, own: None },
        }
    }

    /// `describe_capabilities`
    pub(super) fn capabilities(&self, guardrails: &[String], guest: &Guest) -> Output {
        let directory = self.directory.borrow().clone();
        let Seen { catalog, mode, own } = self.seen(guest);
        let reaches = |server: &ServerId| own.as_ref().is_none_or(|own| (own.reaches)(server));
        let now = time::wall();
        let servers: Vec<Value> = directory
            .entries
            .values()
            .filter(|entry| entry.entry.id.as_str() != crate::id::BUILTINS)
            .filter(|entry| reaches(&entry.entry.id) && sees_any(guest, &entry.entry.id, &catalog))
            .map(|entry| {
                let view = entry.view.borrow();
                json!({
                    "name": view.id.as_str(), "state": view.state.as_str(), "transport": view.transport,
                    "trust": view.trust.as_str(), "tools": view.counts.tools,
                    "breaker": view.breaker.state_at(now).as_str(), "in_flight": view.in_flight,
                    "queued": view.queued, "why": view.why.as_deref().map(line), "fix": view.fix.as_deref().map(line),
                })
            })
            .collect();
        let seen: Vec<&ExposedTool> = catalog.tools.iter().filter(|tool| sees(guest, tool)).collect();
        let shown: Vec<Value> = seen.iter().take(TOOLS_MAX).map(|tool| tool_line(tool)).collect();
        let specs = directory.entries.values().filter_map(|entry| entry.spec.as_ref());
        let specs = specs.filter(|spec| reaches(&spec.id) && sees_any(guest, &spec.id, &catalog));
        let limits = specs.map(|spec| {
            let of = json!({
                "calls_in_flight": spec.limits.in_flight, "calls_queued": spec.limits.queue,
                "idle_seconds": spec.timeouts.idle.as_secs(), "total_seconds": spec.timeouts.total.as_secs(),
                "breaker_failures": spec.breaker.failures,
            });
            (spec.id.as_str().to_owned(), of)
        });
        let limits: serde_json::Map<String, Value> = limits.collect();
        let structured = json!({
            "host": {"name": "callboard", "version": env!("CARGO_PKG_VERSION")},
            "mode": mode.as_str(),
            "servers": servers,
            "tools": shown,
            "tools_left_out": seen.len().saturating_sub(TOOLS_MAX),
            "limits": limits,
            "guardrails": guardrails,
        });
        Output { text: None, structured }
    }

    /// `describe_tool`
    pub(super) fn tool(&self, arguments: &Value, guest: &Guest) -> Result<Output, String> {
        let name = argument(arguments, "name")?;
        let Seen { catalog, mode, .. } = self.seen(guest);
        let Some(tool) = catalog.exposed(name).filter(|tool| sees(guest, tool)) else {
            let mut near = catalog.similar(name, None, 3);
            near.retain(|name| catalog.exposed(name).is_some_and(|tool| sees(guest, tool)));
            let hint = if near.is_empty() {
                String::new()
            } else {
                format!("; did you mean {}?", near.join(" or "))
            };
            return Err(format!("there is no tool {:?}{hint}", line(name)));
        };
        let (server, item) = (&tool.route.server, &tool.route.item);
        let directory = self.directory.borrow().clone();
        let Some(entry) = directory.entries.get(server) else {
            return Err(format!("{server} is being removed"));
        };
        let gate = self.gate.borrow().clone();
        let held = catalog.held(server, &item.name);
        let verdict = decide(&Question {
            entry: &entry.entry,
            kind: ItemKind::Tool,
            name: &item.name,
            hints: item.hints,
            mode,
            rules: &gate.rules,
            held,
            granted: false,
        });
        let (verdict, why, fix) = match verdict {
            Verdict::Run(rule) => ("run", rule.describe(), None),
            Verdict::Ask(refusal) => ("ask", refusal.text, refusal.fix),
            Verdict::Refuse(refusal) => ("refuse", refusal.text, refusal.fix),
        };
        // What is held is not the tool that was accepted: its words reach no model.
        let definition = match held {
            Some(_) => json!({}),
            None => serde_json::from_slice(&item.raw).unwrap_or_default(),
        };
        let view = entry.view.borrow();
        let can_run = matches!(entry.entry.state, EntryState::Ready(_));
        let structured = json!({
            "name": tool.name, "server": server.as_str(),
            "state": if can_run { view.state.as_str() } else { "can't run" },
            "breaker": view.breaker.state_at(time::wall()).as_str(),
            "verdict": verdict, "why": why, "fix": fix,
            "definition_bytes": item.raw.len(), "definition_tokens_about": item.raw.len().div_ceil(TOKEN_BYTES),
            "definition": definition,
        });
        Ok(Output { text: None, structured })
    }
}

fn sees(guest: &Guest, tool: &ExposedTool) -> bool {
    guest.sees(&tool.route.server, &tool.route.item.name, &tool.name)
}

/// Whether a caller sees something of a server: all of it, or one of its tools.
fn sees_any(guest: &Guest, server: &ServerId, catalog: &Catalog) -> bool {
    let of_server = |tool: &&ExposedTool| tool.route.server == *server;
    guest.sees_all() || catalog.tools.iter().filter(of_server).any(|tool| sees(guest, tool))
}

fn tool_line(tool: &ExposedTool) -> Value {
    let item = &tool.route.item;
    let about = item.title.as_deref().or(item.description.as_deref()).unwrap_or_default();
    json!({"name": tool.name, "server": tool.route.server.as_str(), "about": line(about)})
}

/// The first line of a text, not too long.
fn line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    match first.char_indices().nth(LINE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &first[..at]),
        None => first.to_owned(),
    }
}

//! Floor 1. The file of allow rules as a value: one block per entry (scope, project, server). Read without
//! losing what is at fault in it, changed block by block, and turned into the rules in force for
//! one project. Pure; `config::rule_file` keeps the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::rules::{AllowRules, RuleFault, check_tool, split};
use crate::config::spec::Scope;
use crate::id::ServerId;

/// The version of the file that is written and understood.
const VERSION: u64 = 1;

/// The entry that a block of rules is for. A user's `git` and a project's `git` are two.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleKey {
    /// The scope of the entry.
    pub scope: Scope,
    /// Root of the project, for entries of one.
    pub project: Option<PathBuf>,
    /// Its name.
    pub server: ServerId,
}

impl RuleKey {
    /// The key of an entry that comes from `scope`, used in the project at `root`.
    pub fn of(scope: Scope, root: &Path, server: &ServerId) -> Self {
        let project = (scope == Scope::Project).then(|| root.to_path_buf());
        Self { scope, project, server: server.plain() }
    }
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleBook {
    /// The blocks as written: one that is at fault stays as it is.
    blocks: Vec<Value>,
}

impl RuleBook {
    /// Reads the text of the file; `None` when it can't be understood, so that nothing is allowed.
    pub fn parse(text: &str) -> Option<Self> {
        let Value::Object(mut top) = serde_json::from_str(text).ok()? else { return None };
        if top.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return None;
        }
        match top.remove("servers") {
            Some(Value::Array(blocks)) => Some(Self { blocks }),
            _ => None,
        }
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let top = json!({"version": VERSION, "servers": self.blocks});
        format!("{top:#}\n")
    }

    /// The tools that the rules of one entry name, sorted.
    pub fn tools(&self, key: &RuleKey) -> BTreeSet<String> {
        let blocks = self.blocks.iter().filter(|block| key_of(block).as_ref() == Ok(key));
        blocks.flat_map(tools_of).map(str::to_owned).collect()
    }

    /// Makes the rules of one entry exactly these tools; no tool takes the block out. A rule of the
    /// entry that is at fault goes too; blocks of other entries stay byte for byte.
    pub fn set(&mut self, key: &RuleKey, tools: &BTreeSet<String>) {
        let mut own = self.blocks.iter().position(|block| key_of(block).as_ref() == Ok(key));
        let block = block(key, tools);
        if let Some(at) = own {
            self.blocks[at] = block.clone();
        } else if !tools.is_empty() {
            own = Some(self.blocks.len());
            self.blocks.push(block);
        }
        let mut at = 0;
        self.blocks.retain(|block| {
            let keep = key_of(block).as_ref() != Ok(key) || (Some(at) == own && !tools.is_empty());
            at += 1;
            keep
        });
    }

    /// Replaces the block of one entry by rules as written, each of which must be one of that
    /// server: `server/tool` or `server/*`.
    ///
    /// # Errors
    /// Every rule that is none, or that is one of another server; then nothing changes.
    pub fn replace(&mut self, key: &RuleKey, rules: &[String]) -> Result<(), Vec<RuleFault>> {
        let mut tools = BTreeSet::new();
        let mut faults = Vec::new();
        for rule in rules {
            let fault = match split(rule) {
                Ok((server, tool)) if server == key.server => {
                    tools.insert(tool.to_owned());
                    continue;
                }
                Ok(_) => format!("is none of {}: its rules begin with {:?}", key.server, prefix(key)),
                Err(fault) => fault,
            };
            faults.push(RuleFault { rule: rule.clone(), fault, waits: false });
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        self.set(key, &tools);
        Ok(())
    }

    /// The rules in force in the project at `root`, and those that can't act. `known` says whether
    /// an entry of that scope and name is configured.
    pub fn in_force(
        &self,
        root: &Path,
        known: impl Fn(Scope, &ServerId) -> bool,
    ) -> (AllowRules, Vec<RuleFault>) {
        let mut rules = AllowRules::default();
        let mut faults = Vec::new();
        for block in &self.blocks {
            let key = match key_of(block) {
                Ok(key) => key,
                Err(fault) => {
                    faults.push(RuleFault { rule: named(block), fault: fault.to_owned(), waits: false });
                    continue;
                }
            };
            if key.project.as_deref().is_some_and(|project| project != root) {
                continue;
            }
            let written = |tool: &str| format!("{}{tool}", prefix(&key));
            for tool in listed(block) {
                let text = tool.as_str().unwrap_or_default();
                match (tool, check_tool(text)) {
                    (Value::String(_), Ok(())) => rules.allow(key.scope, key.server.clone(), text),
                    (Value::String(_), Err(fault)) => {
                        faults.push(RuleFault { rule: written(text), fault, waits: false })
                    }
                    (other, _) => {
                        let fault = "names a tool by what is no string".to_owned();
                        faults.push(RuleFault { rule: written(&other.to_string()), fault, waits: false });
                    }
                }
            }
            if !known(key.scope, &key.server) {
                let fault = format!("names a server that is not configured in {} scope", key.scope.as_str());
                faults.push(RuleFault { rule: written("…"), fault, waits: true });
            }
        }
        (rules, faults)
    }
}

/// What the rules of an entry begin with.
fn prefix(key: &RuleKey) -> String {
    format!("{}/", key.server)
}

fn block(key: &RuleKey, tools: &BTreeSet<String>) -> Value {
    let mut block = Map::new();
    block.insert("scope".to_owned(), Value::from(key.scope.as_str()));
    if let Some(project) = &key.project {
        block.insert("project".to_owned(), Value::from(project.to_string_lossy()));
    }
    block.insert("server".to_owned(), Value::from(key.server.as_str()));
    block.insert("tools".to_owned(), tools.iter().map(String::as_str).collect());
    Value::Object(block)
}

/// Whose block it is, or what is wrong with it.
fn key_of(block: &Value) -> Result<RuleKey, &'static str> {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    let server = text("server").filter(|name| !name.is_empty() && !name.contains('/'));
    let server = ServerId::new(server.ok_or("names no server")?);
    let scope = text("scope").and_then(Scope::parse).filter(|scope| *scope != Scope::Default);
    let scope = scope.ok_or("has no scope that entries have")?;
    let project = text("project").map(PathBuf::from);
    if project.is_some() != (scope == Scope::Project) {
        return Err("must name a project exactly when its scope is project");
    }
    if !block.get("tools").is_some_and(Value::is_array) {
        return Err("has no list of tools");
    }
    Ok(RuleKey { scope, project, server })
}

fn listed(block: &Value) -> impl Iterator<Item = &Value> {
    block.get("tools").and_then(Value::as_array).into_iter().flatten()
}

/// The tools of a block that can be named so.
fn tools_of(block: &Value) -> impl Iterator<Item = &str> {
    listed(block).filter_map(Value::as_str).filter(|tool| check_tool(tool).is_ok())
}

/// What a block at fault is called.
fn named(block: &Value) -> String {
    let server = block.get("server").and_then(Value::as_str).unwrap_or("?");
    format!("{server}/…")
}

#[cfg(test)]
mod tests;

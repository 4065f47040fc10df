//! Floor 5. What can stand at a place of a line at the prompt: commands, verbs, servers, tools and
//! their arguments by the schema, resources, prompts. Goes by the catalogue as it is now. Names that
//! could not be typed, or would steer the terminal, are not offered. Pure. Used by `editor`.

use std::sync::Arc;

use clap::Subcommand;
use serde_json::Value;

use super::input::{COMMANDS, PROMPT_PREFIX, names};
use super::words::{Word, as_word, words};
use crate::catalog::items::{Item, ListKind};
use crate::catalog::merge::Catalog;
use crate::catalog::prompt;
use crate::cli::args::Mcp;
use crate::cli::parameters::parameters;
use crate::config::mode::Mode;
use crate::shaping::render::{one_line, printable};

/// Candidates that are offered at once.
const OFFERED_MAX: usize = 200;
/// Columns of the words beside a candidate.
const ABOUT_WIDTH_MAX: usize = 60;

/// What is known now.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Names of the configured servers.
    pub servers: Vec<String>,
    /// What they offer.
    pub catalog: Arc<Catalog>,
    /// Ids of earlier conversations.
    pub sessions: Vec<String>,
}

/// One candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What is put into the line.
    pub text: String,
    /// What is shown in the list.
    pub shown: String,
}

/// Verbs whose first word is a server.
const OF_SERVER: [&str; 26] = [
    "get",
    "status",
    "why",
    "logs",
    "wait",
    "tools",
    "resources",
    "read",
    "prompts",
    "prompt",
    "call",
    "check",
    "start",
    "stop",
    "restart",
    "reconnect",
    "on",
    "off",
    "remove",
    "rm",
    "enable",
    "disable",
    "approve",
    "revoke",
    "allow",
    "review",
];

/// What can stand before `pos`, and where in the line it begins.
pub fn candidates(line: &str, pos: usize, known: &Known) -> (usize, Vec<Candidate>) {
    let head = line.get(..pos).unwrap_or(line);
    if !head.trim_start().starts_with('/') {
        return mention(head, known);
    }
    let all = words(head);
    let open = head.ends_with(char::is_whitespace) || all.is_empty();
    let (before, typed, at) = match all.split_last() {
        Some((last, before)) if !open => (before, last.text.clone(), last.at.start),
        _ => (&all[..], String::new(), head.len()),
    };
    let mut found = offered(before, &typed, known);
    found.truncate(OFFERED_MAX);
    (at, found)
}

fn offered(before: &[Word], typed: &str, known: &Known) -> Vec<Candidate> {
    let texts: Vec<&str> = before.iter().map(|word| word.text.as_str()).collect();
    let Some((command, after)) = texts.split_first() else { return commands(typed, known) };
    let command = command.trim_start_matches('/');
    match (command, after) {
        ("mcp" | "capabilities", []) => verbs(typed),
        ("mcp" | "capabilities", [verb, after @ ..]) => of_verb(verb, after, typed, known),
        ("tools", []) => plain(known.servers.iter().map(String::as_str), typed),
        ("tool", []) => exposed(typed, known),
        ("tool", [name, given @ ..]) => {
            let tool = known.catalog.exposed(name);
            tool.map_or_else(Vec::new, |tool| arguments(&tool.route.item, given, typed))
        }
        ("mode", []) => plain(Mode::ALL.iter().map(|mode| mode.as_str()), typed),
        ("help" | "?", []) => plain(names(), typed),
        ("resume", []) => plain(known.sessions.iter().map(String::as_str), typed),
        (name, given) if name.starts_with(PROMPT_PREFIX) => {
            let found = prompts(known).find(|(exposed, _)| exposed == name);
            found.map_or_else(Vec::new, |(_, item)| prompt_arguments(item, given, typed))
        }
        _ => Vec::new(),
    }
}

fn commands(typed: &str, known: &Known) -> Vec<Candidate> {
    let typed = typed.trim_start_matches('/');
    let ours =
        COMMANDS.iter().flat_map(|command| command.names.iter().map(move |name| (*name, command.about)));
    let prompts = prompts(known).map(|(name, item)| (name, about(item)));
    let ours = ours.filter(|(name, _)| name.starts_with(typed)).map(|(name, about)| Candidate {
        text: format!("/{name}"),
        shown: described(&format!("/{name}"), about),
    });
    let prompts = prompts.filter(|(name, _)| name.starts_with(typed)).map(|(name, about)| Candidate {
        text: format!("/{name}"),
        shown: described(&format!("/{name}"), &about),
    });
    ours.chain(prompts).collect()
}

fn verbs(typed: &str) -> Vec<Candidate> {
    let tree = Mcp::augment_subcommands(clap::Command::new("mcp"));
    let all = tree.get_subcommands().filter(|verb| verb.get_name().starts_with(typed));
    all.map(|verb| Candidate {
        text: verb.get_name().to_owned(),
        shown: described(verb.get_name(), &verb.get_about().map(ToString::to_string).unwrap_or_default()),
    })
    .collect()
}

fn of_verb(verb: &str, after: &[&str], typed: &str, known: &Known) -> Vec<Candidate> {
    match (verb, after) {
        ("pin", []) => plain(["review", "accept"].into_iter(), typed),
        ("pin", [_]) => plain(known.servers.iter().map(String::as_str), typed),
        (verb, []) if OF_SERVER.contains(&verb) => plain(known.servers.iter().map(String::as_str), typed),
        // These take several servers.
        ("restart" | "reconnect" | "start" | "stop" | "wait", _) => {
            plain(known.servers.iter().map(String::as_str).filter(|name| !after.contains(name)), typed)
        }
        ("call" | "why" | "allow", [server]) => items(known, server, ListKind::Tools, typed),
        ("read", [server]) => items(known, server, ListKind::Resources, typed),
        ("prompt", [server]) => items(known, server, ListKind::Prompts, typed),
        ("call", [server, tool, given @ ..]) => {
            let item = of_server(known, server, ListKind::Tools).find(|item| item.name == *tool);
            item.map_or_else(Vec::new, |item| arguments(item, given, typed))
        }
        ("prompt", [server, name, given @ ..]) => {
            let item = of_server(known, server, ListKind::Prompts).find(|item| item.name == *name);
            item.map_or_else(Vec::new, |item| prompt_arguments(item, given, typed))
        }
        _ => Vec::new(),
    }
}

/// `@server:uri` in a text.
fn mention(head: &str, known: &Known) -> (usize, Vec<Candidate>) {
    let at = head
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
    let Some(typed) = head[at..].strip_prefix('@') else { return (at, Vec::new()) };
    let mut found: Vec<Candidate> = known
        .servers
        .iter()
        .flat_map(|server| of_server(known, server, ListKind::Resources).map(move |item| (server, item)))
        .map(|(server, item)| (format!("{server}:{}", item.name), item))
        .filter(|(text, _)| {
            text.starts_with(typed) && is_typeable(text) && !text.contains(char::is_whitespace)
        })
        .map(|(text, item)| Candidate { shown: described(&text, &about(item)), text: format!("@{text}") })
        .collect();
    found.truncate(OFFERED_MAX);
    (at, found)
}

fn of_server<'a>(known: &'a Known, server: &str, kind: ListKind) -> impl Iterator<Item = &'a Arc<Item>> {
    let found = known.catalog.servers.iter().find(|(id, _)| id.as_str() == server);
    found.into_iter().flat_map(move |(_, catalog)| catalog.list(kind).items.iter())
}

fn items(known: &Known, server: &str, kind: ListKind, typed: &str) -> Vec<Candidate> {
    let fitting =
        of_server(known, server, kind).filter(|item| item.name.starts_with(typed) && is_typeable(&item.name));
    fitting
        .map(|item| Candidate { text: as_word(&item.name), shown: described(&item.name, &about(item)) })
        .collect()
}

fn exposed(typed: &str, known: &Known) -> Vec<Candidate> {
    let all = known.catalog.tools.iter().filter(|tool| tool.name.starts_with(typed));
    all.map(|tool| Candidate {
        text: tool.name.clone(),
        shown: described(&tool.name, &about(&tool.route.item)),
    })
    .collect()
}

/// How the prompt of a server is typed, without the slash.
pub fn prompt_name(server: &str, prompt: &str) -> String {
    format!("{PROMPT_PREFIX}{server}__{prompt}")
}

/// The prompts of all servers, each by the name that it is typed with.
fn prompts(known: &Known) -> impl Iterator<Item = (String, &Arc<Item>)> {
    known.catalog.servers.iter().flat_map(|(server, catalog)| {
        catalog.prompts.items.iter().map(move |item| (prompt_name(server.as_str(), &item.name), item))
    })
}

/// Arguments by the schema: those that are not given yet, and what fits into the one that is typed.
fn arguments(item: &Item, given: &[&str], typed: &str) -> Vec<Candidate> {
    let Some(schema) = item.schema_bytes().and_then(|raw| serde_json::from_slice::<Value>(raw).ok()) else {
        return Vec::new();
    };
    if let Some((key, value)) = typed.split_once('=') {
        let property = schema.get("properties").and_then(|all| all.get(key.trim_end_matches(':')));
        let mut values: Vec<String> = Vec::new();
        if let Some(all) = property.and_then(|property| property.get("enum")).and_then(Value::as_array) {
            values.extend(all.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)));
        } else if property.and_then(|property| property.get("type")) == Some(&Value::from("boolean")) {
            values.extend(["true", "false"].map(str::to_owned));
        }
        let fitting = values.into_iter().filter(|word| word.starts_with(value) && is_typeable(word));
        return fitting
            .map(|word| Candidate { text: as_word(&format!("{key}={word}")), shown: word })
            .collect();
    }
    keys(
        parameters(&schema).into_iter().map(|one| {
            let about = format!("{}{}", if one.required { "" } else { "optional " }, one.kind);
            (one.name, one.description.map_or(about.clone(), |more| format!("{about}: {more}")))
        }),
        given,
        typed,
    )
}

fn prompt_arguments(item: &Item, given: &[&str], typed: &str) -> Vec<Candidate> {
    let all = prompt::arguments(item).into_iter();
    keys(
        all.map(|one| (one.name, if one.required { "required" } else { "optional" }.to_owned())),
        given,
        typed,
    )
}

fn keys(all: impl Iterator<Item = (String, String)>, given: &[&str], typed: &str) -> Vec<Candidate> {
    let is_given = |key: &str| given.iter().any(|word| word.split(['=', ':']).next() == Some(key));
    let open = all.filter(|(key, _)| key.starts_with(typed) && !is_given(key) && is_typeable(key));
    open.map(|(key, about)| Candidate {
        shown: described(&format!("{key}="), &about),
        text: format!("{key}="),
    })
    .collect()
}

fn plain<'a>(all: impl Iterator<Item = &'a str>, typed: &str) -> Vec<Candidate> {
    let fitting = all.filter(|word| word.starts_with(typed) && is_typeable(word));
    fitting.map(|word| Candidate { text: as_word(word), shown: word.to_owned() }).collect()
}

/// Whether a name is what it looks like: nothing in it is hidden or steers.
fn is_typeable(name: &str) -> bool {
    !name.is_empty() && printable(name) == name && !name.contains(['\n', '\t'])
}

fn about(item: &Item) -> String {
    item.title.as_ref().or(item.description.as_ref()).cloned().unwrap_or_default()
}

fn described(name: &str, about: &str) -> String {
    let first = printable(about).lines().next().unwrap_or_default().to_owned();
    let about = one_line(&first, ABOUT_WIDTH_MAX);
    if about.is_empty() { name.to_owned() } else { format!("{name}  {about}") }
}

/// What a call of the tool on the line still wants, shown behind what is typed: required arguments
/// first. `None` when the line is no call, or nothing is left.
pub fn hint(line: &str, known: &Known) -> Option<String> {
    if !line.starts_with('/') || !line.ends_with(' ') {
        return None;
    }
    let all = words(line);
    let texts: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
    let open = match texts.as_slice() {
        ["/mcp", "call", server, tool, given @ ..] => {
            let item = of_server(known, server, ListKind::Tools).find(|item| item.name == *tool)?;
            arguments(item, given, "")
        }
        ["/tool", name, given @ ..] => arguments(&known.catalog.exposed(name)?.route.item, given, ""),
        ["/mcp"] => return Some("status · tools · call · why · add …  (Tab shows all)".to_owned()),
        _ => return None,
    };
    let words: Vec<&str> = open.iter().map(|one| one.text.as_str()).take(6).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests;

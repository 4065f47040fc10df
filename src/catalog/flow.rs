//! What flows together when one session has several servers: one reads what is private, one brings in
//! words of strangers, one can send something out. Each is sound alone; with all three, the words of a
//! stranger can carry private things away. A guess from the names of tools and parameters, told as a
//! label and never a gate. Pure; called by `view` and whoever shows servers.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::items::Item;
use super::words::words;

/// The three parts of such a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Reads what is the user's: files, mail, databases, notes.
    ReadsPrivate,
    /// Brings in what anybody may have written: pages, issues, mail.
    TakesUntrusted,
    /// Can send something to others: requests, messages, pages.
    SendsOut,
}

impl Part {
    /// All of them; only together they are a flow.
    pub const ALL: [Self; 3] = [Self::ReadsPrivate, Self::TakesUntrusted, Self::SendsOut];

    fn words(self) -> &'static str {
        match self {
            Self::ReadsPrivate => "reads private data",
            Self::TakesUntrusted => "takes in what strangers write",
            Self::SendsOut => "can send out",
        }
    }
}

/// The first tool of a server that shows each part; none where no tool does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach([Option<String>; 3]);

impl Reach {
    /// Of the tools that a session may call.
    pub fn of<'a>(tools: impl Iterator<Item = &'a Item>) -> Self {
        let mut reach = Self::default();
        for tool in tools {
            let shown = parts(tool);
            for (place, part) in reach.0.iter_mut().zip(Part::ALL) {
                if place.is_none() && shown.contains(&part) {
                    *place = Some(tool.name.clone());
                }
            }
        }
        reach
    }
}

/// One tool in a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its server.
    pub server: String,
    /// The first of its tools that shows the part, as the server names it: whoever prints it cleans it.
    pub tool: String,
}

/// Servers that make such a flow together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Who reads what is private.
    pub reads_private: Vec<Step>,
    /// Who brings in words of strangers.
    pub takes_untrusted: Vec<Step>,
    /// Who can send something out.
    pub sends_out: Vec<Step>,
}

/// The flow of these servers, by name; `None` unless they have all three parts together.
pub fn flow<'a>(servers: impl Iterator<Item = (&'a str, &'a Reach)>) -> Option<Flow> {
    let mut steps = [Vec::new(), Vec::new(), Vec::new()];
    for (server, reach) in servers {
        for (list, tool) in steps.iter_mut().zip(&reach.0) {
            list.extend(tool.iter().map(|tool| Step { server: server.to_owned(), tool: tool.clone() }));
        }
    }
    let [reads_private, takes_untrusted, sends_out] = steps;
    let whole = ![&reads_private, &takes_untrusted, &sends_out].iter().any(|list| list.is_empty());
    whole.then_some(Flow { reads_private, takes_untrusted, sends_out })
}

impl Flow {
    /// Whether that server is part of it.
    pub fn has(&self, server: &str) -> bool {
        self.lists().iter().any(|(_, list)| list.iter().any(|step| step.server == server))
    }

    /// With every name cleaned.
    #[must_use]
    pub fn cleaned(mut self, clean: &dyn Fn(&str) -> String) -> Self {
        for list in [&mut self.reads_private, &mut self.takes_untrusted, &mut self.sends_out] {
            list.iter_mut().for_each(|step| step.tool = clean(&step.tool));
        }
        self
    }

    fn lists(&self) -> [(Part, &[Step]); 3] {
        let [a, b, c] = Part::ALL;
        [(a, &self.reads_private), (b, &self.takes_untrusted), (c, &self.sends_out)]
    }
}

/// One sentence with the names.
impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("together these servers could carry private data away: ")?;
        for (i, (part, list)) in self.lists().into_iter().enumerate() {
            let names: Vec<String> =
                list.iter().map(|step| format!("{} ({})", step.server, step.tool)).collect();
            f.write_str(if i > 0 { "; " } else { "" })?;
            write!(f, "{}: {}", part.words(), names.join(", "))?;
        }
        Ok(())
    }
}

/// Things that are the user's own, and doings that reach them.
const PRIVATE: &[&str] = &[
    "account",
    "accounts",
    "address",
    "attachment",
    "attachments",
    "bookmark",
    "bookmarks",
    "calendar",
    "clipboard",
    "contact",
    "contacts",
    "credential",
    "credentials",
    "customer",
    "customers",
    "database",
    "db",
    "diff",
    "directories",
    "directory",
    "disk",
    "doc",
    "docs",
    "document",
    "documents",
    "drive",
    "email",
    "emails",
    "env",
    "environment",
    "event",
    "events",
    "file",
    "files",
    "filesystem",
    "folder",
    "folders",
    "gmail",
    "graph",
    "grep",
    "history",
    "inbox",
    "invoice",
    "invoices",
    "keychain",
    "location",
    "log",
    "logs",
    "mail",
    "mails",
    "memories",
    "memory",
    "message",
    "messages",
    "note",
    "notes",
    "password",
    "passwords",
    "photo",
    "photos",
    "profile",
    "profiles",
    "queries",
    "query",
    "repo",
    "repos",
    "repository",
    "screen",
    "screenshot",
    "secret",
    "secrets",
    "sheet",
    "spreadsheet",
    "sql",
    "table",
    "tables",
    "thread",
    "threads",
    "transaction",
    "transactions",
    "user",
    "users",
    "vault",
    "wallet",
    "workspace",
];

/// Places where anybody writes.
const OPEN: &[&str] = &[
    "article",
    "articles",
    "browse",
    "browser",
    "channel",
    "comment",
    "comments",
    "crawl",
    "discussion",
    "download",
    "email",
    "emails",
    "feed",
    "feeds",
    "fetch",
    "gmail",
    "goto",
    "html",
    "http",
    "inbox",
    "internet",
    "issue",
    "issues",
    "mail",
    "mails",
    "message",
    "messages",
    "navigate",
    "news",
    "page",
    "pages",
    "pr",
    "prs",
    "reddit",
    "request",
    "requests",
    "review",
    "reviews",
    "rss",
    "scrape",
    "site",
    "slack",
    "thread",
    "threads",
    "ticket",
    "tickets",
    "tweet",
    "tweets",
    "url",
    "urls",
    "web",
    "webpage",
    "website",
    "youtube",
];

/// Doings by which something leaves.
const SENDING: &[&str] = &[
    "browse", "browser", "comment", "crawl", "curl", "deploy", "dm", "download", "fetch", "forward", "goto",
    "http", "invite", "navigate", "notify", "post", "publish", "push", "reply", "request", "requests",
    "scrape", "send", "share", "sms", "submit", "transfer", "tweet", "upload", "webhook",
];

/// Things that are written to others when they are made.
const SHARED: &[&str] =
    &["comment", "discussion", "email", "gist", "issue", "message", "pr", "pull", "ticket"];
/// Making one of them.
const MAKING: &[&str] = &["add", "create", "draft", "make", "new", "open", "update", "write"];

/// What runs a program, which can do all of it.
const RUNNING: &[&str] = &[
    "bash", "cmd", "command", "commands", "eval", "evaluate", "exec", "execute", "python", "script", "shell",
    "terminal",
];

/// Parameters that name a place elsewhere.
const PLACES: [&str; 6] = ["endpoint", "link", "uri", "url", "urls", "webhook"];

/// The parts that a tool shows.
fn parts(tool: &Item) -> Vec<Part> {
    let name = words(&tool.name);
    let any = |list: &[&str]| name.iter().any(|word| list.contains(&word.as_str()));
    if any(RUNNING) {
        return Part::ALL.to_vec();
    }
    // A URL that a model writes brings a page in, and carries its own words out.
    let place = parameters(tool)
        .iter()
        .any(|parameter| words(parameter).last().is_some_and(|last| PLACES.contains(&last.as_str())));
    let sends = any(SENDING) || place || any(SHARED) && any(MAKING);
    let [private, open] = [any(PRIVATE), any(OPEN) || place || tool.hints.open_world == Some(true)];
    // What only sends or makes brings nothing in.
    let brings = !sends
        || place
        || any(&["browse", "browser", "crawl", "download", "fetch", "goto", "navigate", "scrape"]);
    let shown = [private && brings && !place, open && brings, sends];
    Part::ALL.into_iter().zip(shown).filter_map(|(part, shown)| shown.then_some(part)).collect()
}

fn parameters(tool: &Item) -> Vec<String> {
    let schema: Option<Value> = tool.schema_bytes().and_then(|bytes| serde_json::from_slice(bytes).ok());
    let properties = schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;

//! Whether a call may run: one decision in a fixed order, as data that names the rule
//! which decided. Enabled → approved → denied → not among the allowed → held by a pin → read-only
//! server → plan mode → allow rule → `allowedTools` / `allowAllTools` → read-only hint of a
//! trusted server → mode → ask. A person's grant answers *ask* and nothing else. The same order as
//! a table for people is `table.txt` beside this file; a test compares the two in every case.
//! Called by the front end for every call, and by edges that explain or list rights.

pub mod methods;

use super::verbs::{Look, look_of};
use crate::call::{ErrorCode, ItemKind};
use crate::catalog::items::Hints;
use crate::catalog::pin::Held;
pub use crate::config::mode::Mode;
use crate::config::rules::AllowRules;
use crate::config::spec::{Entry, EntryState, Scope, ServerSpec, Trust};
use crate::id::{ServerId, shell_word};

/// The whole order as people read it: facts and verdicts, one row after the other.
pub const TABLE: &str = include_str!("table.txt");

/// One call before the policy.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The server, as configured.
    pub entry: &'a Entry,
    /// What is called.
    pub kind: ItemKind,
    /// Its raw name or URI.
    pub name: &'a str,
    /// The server's own hints about it.
    pub hints: Hints,
    /// The mode in force.
    pub mode: Mode,
    /// The allow rules in force.
    pub rules: &'a AllowRules,
    /// Why a pin holds the item back; `None` when nothing does.
    pub held: Option<&'a Held>,
    /// A person approved exactly this call. Whoever asks has compared what the approval is bound to.
    pub granted: bool,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Run(Rule),
    /// It may not, whoever asks.
    Refuse(Refusal),
    /// A person has to say; without a yes it is a refusal with this text and the reason.
    Ask(Refusal),
}

/// Why not, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: ErrorCode,
    /// The rule that decided.
    pub rule: Rule,
    /// One sentence for a person or a model.
    pub text: String,
    /// What would change it.
    pub fix: Option<String>,
}

/// What decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The entry is turned off.
    Disabled,
    /// Nobody approved the project's entry.
    PendingApproval,
    /// The entry is not usable as written.
    ConfigError,
    /// This pattern of `deniedTools`.
    DeniedTools(String),
    /// `allowedTools` is there and has no pattern for it.
    NotAmongAllowed,
    /// A pin: the item is not what it was when it was last looked at.
    Held,
    /// `trust: read-only`, and the name looks like a change.
    ReadOnlyServer,
    /// This allow rule.
    AllowRule(String),
    /// This pattern of `allowedTools`.
    AllowedTools(String),
    /// `allowAllTools`
    AllowAllTools,
    /// `readOnlyHint` of a trusted server.
    ReadOnlyHint,
    /// A resource or prompt of an approved server: these have no effect.
    NoEffect,
    /// The mode.
    Mode(Mode),
    /// A person said yes to exactly this tool.
    Granted,
}

impl Rule {
    /// A stable word for audit and JSON, with the pattern where there is one.
    pub fn describe(&self) -> String {
        match self {
            Self::Disabled => "disabled".to_owned(),
            Self::PendingApproval => "pending_approval".to_owned(),
            Self::ConfigError => "config_error".to_owned(),
            Self::DeniedTools(pattern) => format!("deniedTools {pattern}"),
            Self::NotAmongAllowed => "allowedTools".to_owned(),
            Self::Held => "held by a pin".to_owned(),
            Self::ReadOnlyServer => "trust read-only".to_owned(),
            Self::AllowRule(rule) => format!("allow {rule}"),
            Self::AllowedTools(pattern) => format!("allowedTools {pattern}"),
            Self::AllowAllTools => "allowAllTools".to_owned(),
            Self::ReadOnlyHint => "readOnlyHint of a trusted server".to_owned(),
            Self::NoEffect => "no effect".to_owned(),
            Self::Mode(mode) => format!("mode {}", mode.as_str()),
            Self::Granted => "granted".to_owned(),
        }
    }
}

/// Decides about one call.
pub fn decide(q: &Question<'_>) -> Verdict {
    let spec = match usable(q) {
        Ok(spec) => spec,
        Err(refusal) => return Verdict::Refuse(*refusal),
    };
    let verdict = match q.kind {
        ItemKind::Tool => decide_tool(q, spec),
        ItemKind::Resource | ItemKind::Prompt => decide_reading(q, spec),
        ItemKind::Method if methods::is_harmless(q.name) => decide_reading(q, spec),
        // What we do not know may do anything: it needs what a tool of that name would need.
        ItemKind::Method => decide_tool(q, spec),
    };
    match verdict {
        Verdict::Ask(_) if q.granted => Verdict::Run(Rule::Granted),
        other => other,
    }
}

fn usable<'a>(q: &Question<'a>) -> Result<&'a ServerSpec, Box<Refusal>> {
    let server = &q.entry.id;
    let word = shell_word(server.as_str());
    let (code, rule, text, fix) = match &q.entry.state {
        EntryState::Ready(spec) => return Ok(spec),
        EntryState::Disabled => {
            let (text, fix) = match &q.entry.down {
                Some(down) => (format!("{server}: {}", down.why), down.fix.to_string()),
                None => (
                    format!("{server} is turned off in the configuration"),
                    format!("callboard mcp enable {word}"),
                ),
            };
            (ErrorCode::Disabled, Rule::Disabled, text, fix)
        }
        EntryState::Pending => (
            ErrorCode::PendingApproval,
            Rule::PendingApproval,
            format!("{server} comes from the project and nobody has approved it"),
            format!("callboard mcp approve {word}"),
        ),
        EntryState::Invalid => (
            ErrorCode::ConfigError,
            Rule::ConfigError,
            format!("{server} can't be used as it is configured"),
            format!("callboard mcp get {word}"),
        ),
    };
    Err(Box::new(Refusal { code, rule, text, fix: Some(fix) }))
}

fn decide_tool(q: &Question<'_>, spec: &ServerSpec) -> Verdict {
    let (server, tool) = (&q.entry.id, q.name);
    let refuse = |rule: Rule, why: String, fix: &str| {
        let text = format!("{tool} on {server} is refused: {why}");
        Verdict::Refuse(Refusal { code: ErrorCode::Denied, rule, text, fix: Some(fix.to_owned()) })
    };
    if let Some(pattern) = spec.denied_tools.first_match(tool) {
        let why = format!("deniedTools has {pattern:?}");
        return refuse(Rule::DeniedTools(pattern.to_owned()), why, "take it out of the server's deniedTools");
    }
    let allowed = spec.allowed_tools.as_ref().map(|globs| globs.first_match(tool));
    if allowed == Some(None) {
        let why = "allowedTools of the server does not have it".to_owned();
        return refuse(Rule::NotAmongAllowed, why, "add it to the server's allowedTools");
    }
    // What was granted or allowed was granted to the tool as it was.
    if let Some(held) = q.held {
        return Verdict::Refuse(held_refusal(&q.entry.id, q.name, held));
    }
    // Only a read-only server's tools are judged by their names.
    let look = (spec.trust == Trust::ReadOnly).then(|| look_of(tool));
    if look == Some(Look::Mutates) {
        let why = "the server is read-only and the name looks like a change".to_owned();
        return refuse(Rule::ReadOnlyServer, why, "give the server another `trust` if this tool is wanted");
    }
    let hinted = spec.trust == Trust::Trusted && q.hints.read_only == Some(true);
    // Plan mode promises that nothing has an effect: it goes before everything that allows.
    if q.mode == Mode::Plan && !hinted {
        let why = "in plan mode only read-only tools of trusted servers run".to_owned();
        return refuse(Rule::Mode(Mode::Plan), why, "leave plan mode");
    }
    if let Some(rule) = q.rules.rule_for(q.entry.source.scope, server, tool) {
        return Verdict::Run(Rule::AllowRule(rule));
    }
    if let Some(Some(pattern)) = allowed {
        return Verdict::Run(Rule::AllowedTools(pattern.to_owned()));
    }
    if spec.allow_all_tools {
        return Verdict::Run(Rule::AllowAllTools);
    }
    if hinted {
        return Verdict::Run(Rule::ReadOnlyHint);
    }
    // What a read-only server's tool does must be known from its name; unknown means ask.
    let must_ask = look == Some(Look::Unknown);
    if q.mode == Mode::Auto && !must_ask {
        return Verdict::Run(Rule::Mode(Mode::Auto));
    }
    let rule = if q.mode == Mode::Auto { Rule::ReadOnlyServer } else { Rule::Mode(q.mode) };
    Verdict::Ask(Refusal {
        code: ErrorCode::NeedsApproval,
        text: format!("{tool} on {server} needs approval ({})", rule.describe()),
        rule,
        fix: Some(approving(q)),
    })
}

/// The refusal of an item that a pin holds: nothing allows it but a person who looked at it.
pub fn held_refusal(server: &ServerId, tool: &str, held: &Held) -> Refusal {
    Refusal {
        code: ErrorCode::Held,
        rule: Rule::Held,
        text: format!("{tool} on {server} is held: {}", held.why()),
        fix: Some(held_cure(server, Some(tool), held)),
    }
}

/// What to do about one tool that is held, or about all of a server's.
pub fn held_cure(server: &ServerId, tool: Option<&str>, held: &Held) -> String {
    match held {
        Held::Unreadable { cure, .. } => cure.to_string(),
        Held::Changed { .. } | Held::Full => {
            // A name that a screen could obey is no part of a command.
            let named = tool.filter(|tool| tool.bytes().all(|b| (0x20..0x7f).contains(&b)));
            let tool = named.map(|tool| format!(" {}", shell_word(tool))).unwrap_or_default();
            format!("callboard mcp pin review {}{tool}", shell_word(server.as_str()))
        }
    }
}

/// How to say yes. A script may for every server but the project's: that file could be anybody's.
fn approving(q: &Question<'_>) -> String {
    let (server, tool) = (shell_word(q.entry.id.as_str()), shell_word(q.name));
    let script = if q.entry.source.scope == Scope::Project { "" } else { "give -y in a script, " };
    format!("answer y on a terminal, {script}or allow it for good: callboard mcp allow {server} {tool}")
}

/// Reading a resource or getting a prompt has no effect on the world, but brings text of the server in.
fn decide_reading(q: &Question<'_>, spec: &ServerSpec) -> Verdict {
    if let Some(held) = q.held {
        return Verdict::Refuse(held_refusal(&q.entry.id, q.name, held));
    }
    if q.mode == Mode::Safe && spec.trust != Trust::Trusted {
        let server = &q.entry.id;
        let what = match q.kind {
            ItemKind::Prompt => "prompts",
            ItemKind::Method => "such requests",
            ItemKind::Resource | ItemKind::Tool => "resources",
        };
        return Verdict::Refuse(Refusal {
            code: ErrorCode::Denied,
            rule: Rule::Mode(Mode::Safe),
            text: format!(
                "{} on {server} is refused: safe mode takes {what} from trusted servers only",
                q.name
            ),
            fix: Some("leave safe mode, or set `trust` of the server to \"trusted\"".to_owned()),
        });
    }
    Verdict::Run(Rule::NoEffect)
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;

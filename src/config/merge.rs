//! Floor 1. The order of the sources: which definition of a name counts, what it hides, and
//! what state it is in. Whole entries replace each other; an invalid one never falls back
//! silently; a project's entry that nobody approved is not expanded, shadows nothing and
//! disables nothing; a managed one can't be overridden. Called by `config::load`.

use std::collections::BTreeMap;
use std::path::Path;

use super::approval::{self, Approval, Verdict};
use super::canonical;
use super::document::Definition;
use super::raw::{self, RawServer, RawTarget};
use super::secret::{self, Collector};
use super::spec::{Entry, EntryState, Issue, Scope, ServerSet, Severity, Source};
use super::validate::{self, Context};
use crate::id::ServerId;

/// Longest name of a server, characters.
pub const NAME_LEN_MAX: usize = 80;

/// What the merge needs besides the definitions.
#[derive(Clone, Copy, Debug)]
pub struct Merge<'a> {
    /// For expansion and checks.
    pub context: Context<'a>,
    /// Root of the project.
    pub project: &'a Path,
    /// Everything that was approved.
    pub approvals: &'a [Approval],
}

/// Merges definitions, weakest first (managed ones last). `issues` are those of the sources.
pub fn merge(definitions: &[Definition], issues: Vec<Issue>, merge: Merge<'_>) -> ServerSet {
    let mut by_name: BTreeMap<&str, Vec<&Definition>> = BTreeMap::new();
    let mut misnamed: Vec<(&Definition, String)> = Vec::new();
    for definition in definitions {
        match check_name(&definition.name) {
            Ok(()) => by_name.entry(&definition.name).or_default().push(definition),
            Err(message) => misnamed.push((definition, message)),
        }
    }
    let mut set = ServerSet { issues, ..ServerSet::default() };
    let mut secrets = Collector::default();
    for of_name in by_name.values() {
        one_name(of_name, merge, &mut set, &mut secrets);
    }
    for (definition, message) in misnamed {
        add_misnamed(definition, message, &mut set);
    }
    set.entries.sort_by(|a, b| a.id.cmp(&b.id));
    set.pending.sort_by(|a, b| a.id.cmp(&b.id));
    set.secrets = secrets.finish();
    set
}

/// Whether a name can be that of a server; the cure if not.
pub fn check_name(name: &str) -> Result<(), String> {
    let invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    if name.is_empty() {
        return Err("has an empty name; give it one".into());
    }
    if name.chars().count() > NAME_LEN_MAX {
        return Err(format!("its name is longer than {NAME_LEN_MAX} characters; shorten it"));
    }
    if name.trim() != name {
        return Err("its name starts or ends with a space; remove it".into());
    }
    if name.contains('/') {
        return Err("its name contains \"/\", which separates server and tool; write \"-\" instead".into());
    }
    if name.chars().any(invisible) {
        return Err("its name contains an invisible or control character; remove it".into());
    }
    Ok(())
}

/// A name that can't be used still shows up, printable, and never in place of another entry.
fn add_misnamed(definition: &Definition, message: String, set: &mut ServerSet) {
    let issue = definition.issue(Severity::Error, "", message);
    let printable: String = definition.name.chars().take(NAME_LEN_MAX).flat_map(char::escape_debug).collect();
    let id = if printable.is_empty() { "(no name)".to_owned() } else { printable };
    if set.get(&id).is_some() {
        set.issues.push(issue);
        return;
    }
    let mut judged = Judged::new(definition);
    judged.issues.push(issue);
    let mut entry = judged.entry(EntryState::Invalid);
    entry.id = ServerId::new(id);
    set.entries.push(entry);
}

/// One definition with its types checked.
struct Judged<'a> {
    definition: &'a Definition,
    raw: RawServer,
    issues: Vec<Issue>,
    hash: String,
}

impl<'a> Judged<'a> {
    fn new(definition: &'a Definition) -> Self {
        let (raw, issues) = raw::read(definition);
        Self { definition, raw, issues, hash: canonical::hash(&definition.value) }
    }

    fn is_invalid(&self) -> bool {
        self.issues.iter().any(|issue| issue.severity == Severity::Error)
    }

    fn verdict(&self, merge: Merge<'_>) -> Verdict {
        if self.definition.source.scope != Scope::Project {
            return Verdict::Approved;
        }
        let program = || validate::program(self.definition, &self.raw, merge.context);
        approval::verdict(merge.approvals, merge.project, &self.definition.name, &self.hash, program)
    }

    fn entry(self, state: EntryState) -> Entry {
        let transport = match (&state, &self.raw.target) {
            (EntryState::Invalid, _) | (_, None) => "invalid",
            (_, Some(target)) => target.kind(),
        };
        let transport =
            if matches!(state, EntryState::Disabled) && transport == "invalid" { "-" } else { transport };
        Entry {
            id: ServerId::new(&self.definition.name),
            source: self.definition.source.clone(),
            shadows: Vec::new(),
            state,
            issues: self.issues,
            hash: self.hash,
            transport,
            summary: summary(&self.raw),
        }
    }

    /// The entry of a definition that counts.
    fn winner(mut self, merge: Merge<'_>, secrets: &mut Collector) -> Entry {
        if self.is_invalid() {
            return self.entry(EntryState::Invalid);
        }
        if self.raw.disabled {
            return self.entry(EntryState::Disabled);
        }
        let (spec, mut issues) =
            validate::resolve(self.definition, &self.raw, &self.hash, merge.context, secrets);
        self.issues.append(&mut issues);
        match spec {
            Some(spec) => self.entry(EntryState::Ready(spec)),
            None => self.entry(EntryState::Invalid),
        }
    }

    /// The entry of a definition that waits: nothing of it is expanded.
    fn waiting(mut self, verdict: &Verdict) -> Entry {
        let state = match (self.is_invalid(), self.raw.disabled) {
            (true, _) => EntryState::Invalid,
            (_, true) => EntryState::Disabled,
            _ => EntryState::Pending,
        };
        if let (EntryState::Pending, Some(reason)) = (&state, verdict.reason()) {
            let mut issue = self.definition.issue(Severity::Warning, "", reason);
            issue.fix = Some(approve_hint(&self.definition.name));
            self.issues.push(issue);
        }
        self.entry(state)
    }
}

/// The command that approves a name, quoted for a shell where needed.
fn approve_hint(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if plain {
        format!("callboard mcp approve {name}")
    } else {
        format!("callboard mcp approve '{}'", name.replace('\'', "'\\''"))
    }
}

fn one_name(of_name: &[&Definition], merge: Merge<'_>, set: &mut ServerSet, secrets: &mut Collector) {
    let mut hidden: Vec<Source> = Vec::new();
    let mut waiting: Vec<(Judged<'_>, Verdict)> = Vec::new();
    let mut winner: Option<Judged<'_>> = None;
    for definition in of_name.iter().rev() {
        if winner.is_some() {
            hidden.push(definition.source.clone());
            continue;
        }
        let judged = Judged::new(definition);
        match judged.verdict(merge) {
            Verdict::Approved => winner = Some(judged),
            verdict => waiting.push((judged, verdict)),
        }
    }
    match winner {
        None => {
            let mut waiting = waiting.into_iter();
            if let Some((judged, verdict)) = waiting.next() {
                let mut entry = judged.waiting(&verdict);
                entry.shadows = waiting.map(|(judged, _)| judged.definition.source.clone()).collect();
                set.entries.push(entry);
            }
        }
        Some(judged) => {
            let definition = judged.definition;
            let mut entry = judged.winner(merge, secrets);
            tell_override(definition, &hidden, &mut entry);
            entry.shadows = hidden;
            // Only the strongest of the waiting ones would count once it is approved.
            if let Some((judged, verdict)) = waiting.into_iter().next() {
                tell_waiting(definition, &judged, &mut entry);
                set.pending.push(judged.waiting(&verdict));
            }
            set.entries.push(entry);
        }
    }
}

/// A managed entry says who tried to override it.
fn tell_override(definition: &Definition, hidden: &[Source], entry: &mut Entry) {
    if definition.source.scope != Scope::Managed {
        return;
    }
    for source in hidden {
        let mut issue = definition.issue(
            Severity::Warning,
            "",
            "defined here too, without effect: managed entries can't be overridden",
        );
        issue.source = source.clone();
        issue.position = None;
        entry.issues.push(issue);
    }
}

/// The effective entry says that a project wants to replace it.
fn tell_waiting(definition: &Definition, waiting: &Judged<'_>, entry: &mut Entry) {
    let message = format!(
        "stays in force; another definition in {} waits for approval",
        waiting.definition.source.origin
    );
    let mut issue = definition.issue(Severity::Warning, "", message);
    issue.fix = Some(approve_hint(&definition.name));
    entry.issues.push(issue);
}

/// Command line or address as written, secrets masked.
pub fn summary(raw: &RawServer) -> String {
    match &raw.target {
        None => String::new(),
        Some(RawTarget::Http { url, .. }) => secret::mask_url(url),
        Some(RawTarget::Stdio { command, args, .. }) => {
            let mut words = vec![command.clone()];
            words.extend(args.iter().cloned());
            secret::mask_args(&words).join(" ")
        }
    }
}

//! Floor 1. The order of the sources: which definition of a name counts, what it hides, and
//! what state it is in. Whole entries replace each other; an invalid one never falls back
//! silently; a project's entry that nobody approved is not expanded, shadows nothing and
//! disables nothing; a managed one can't be overridden. Called by `config::load`.

use std::collections::BTreeMap;
use std::path::Path;

use super::approval::{self, Approval, Verdict};
use super::canonical;
use super::document::Definition;
use super::issue::{Issue, IssueCode, Severity};
use super::raw::{self, RawServer, RawTarget};
use super::secret::{self, Collector};
use super::spec::{Entry, EntryState, Scope, ServerSet, Source};
use super::validate::{self, Context};
use crate::id::{OWN_PREFIX, ServerId, shell_word};

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
    if name.starts_with(OWN_PREFIX) {
        return Err(format!(
            "its name starts with {OWN_PREFIX:?}, which is the host's own; give it another one"
        ));
    }
    if name.chars().any(invisible) {
        return Err("its name contains an invisible or control character; remove it".into());
    }
    Ok(())
}

/// A name that can't be used still shows up, printable, and never in place of another entry.
fn add_misnamed(definition: &Definition, message: String, set: &mut ServerSet) {
    let issue = definition.issue(IssueCode::Name, Severity::Error, "", message);
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
            project: None,
            shadows: Vec::new(),
            state,
            issues: self.issues,
            hash: self.hash,
            transport,
            summary: summary(&self.raw),
            label: self.raw.label,
            description: self.raw.description,
            required: self.raw.required,
            down: None,
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
            let mut issue = self.definition.issue(IssueCode::Waits, Severity::Warning, "", reason);
            issue.fix = Some(approve_hint(&self.definition.name));
            self.issues.push(issue);
        }
        self.entry(state)
    }
}

/// The command that approves a name, quoted for a shell where needed.
fn approve_hint(name: &str) -> String {
    format!("callboard mcp approve {}", shell_word(name))
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
            let mut own = Collector::default();
            let mut entry = judged.winner(merge, &mut own);
            set.credentials.insert(entry.id.clone(), own.credentials());
            secrets.absorb(own);
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
            IssueCode::NotAllowed,
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
    let mut issue = definition.issue(IssueCode::Waits, Severity::Warning, "", message);
    issue.fix = Some(approve_hint(&definition.name));
    entry.issues.push(issue);
}

/// Command line or address as written, secrets masked, control characters escaped.
pub fn summary(raw: &RawServer) -> String {
    let shown = match &raw.target {
        None => String::new(),
        Some(RawTarget::Http { url, .. }) => secret::mask_url(url),
        Some(RawTarget::Stdio { command, args, .. }) => {
            let mut words = vec![command.clone()];
            words.extend(args.iter().cloned());
            secret::mask_args(&words).join(" ")
        }
    };
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    shown.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::{self, Form};
    use crate::config::expand::Lookup;
    use crate::config::host::HostSettings;
    use crate::config::validate::World;
    use proptest::prelude::*;
    use std::path::PathBuf;

    /// A machine that must not be asked for more than a working directory.
    struct Bare;

    impl Lookup for Bare {
        fn var(&self, name: &str) -> Option<String> {
            (name == "SET").then(|| "value-of-set".to_owned())
        }
        fn secret(&self, _: &str) -> Option<String> {
            None
        }
    }

    impl World for Bare {
        fn is_dir(&self, path: &Path) -> bool {
            path == Path::new("/there")
        }
        fn is_program(&self, _: &Path) -> bool {
            false
        }
        fn search(&self, _: &str, _: &str, _: &Path) -> Option<PathBuf> {
            None
        }
    }

    fn definitions(scope: Scope, origin: &str, text: &str) -> Vec<Definition> {
        let source = Source { scope, origin: origin.into() };
        document::parse(text, &source, Path::new("/p"), Form::Inline).definitions
    }

    fn merged(definitions: &[Definition], approvals: &[Approval]) -> ServerSet {
        let settings = HostSettings::default();
        let context = Context { world: &Bare, settings: &settings, cwd: Path::new("/p") };
        merge(definitions, Vec::new(), Merge { context, project: Path::new("/p"), approvals })
    }

    fn approval(definition: &Definition) -> Approval {
        Approval {
            name: definition.name.clone(),
            project: "/p".into(),
            hash: canonical::hash(&definition.value),
            command: None,
            approved_at: String::new(),
        }
    }

    #[test]
    fn only_the_strongest_waiting_definition_is_shown() {
        let mut all = definitions(Scope::Project, "one", r#"{"s": {"command": "a"}}"#);
        all.extend(definitions(Scope::Project, "two", r#"{"s": {"command": "b"}}"#));
        let set = merged(&all, &[]);
        assert_eq!((set.entries.len(), set.pending.len()), (1, 0));
        assert_eq!((&*set.entries[0].source.origin, &*set.entries[0].shadows[0].origin), ("two", "one"));
        // The lower one approved: it stays in force, and the higher one waits.
        let set = merged(&all, std::slice::from_ref(&approval(&all[0])));
        assert_eq!((&*set.entries[0].source.origin, &*set.pending[0].source.origin), ("one", "two"));
    }

    #[test]
    fn no_entry_can_pose_as_the_hosts_own_tools() {
        let text = r#"{"callboard:builtins": {"command": "c"}, "plugin:x": {"command": "c"}}"#;
        let set = merged(&definitions(Scope::User, "f", text), &[]);
        let state = |name| &set.get(name).unwrap().state;
        assert!(matches!(state(crate::id::BUILTINS), EntryState::Invalid));
        assert!(matches!(state("plugin:x"), EntryState::Ready(_)), "a colon is nobody's");
    }

    #[test]
    fn a_waiting_entry_that_is_off_or_invalid_says_so() {
        let states =
            |text: &str| merged(&definitions(Scope::Project, "f", text), &[]).entries[0].state.clone();
        assert!(matches!(states(r#"{"s": {"enabled": false}}"#), EntryState::Disabled));
        assert!(matches!(states(r#"{"s": {"command": 1}}"#), EntryState::Invalid));
        assert!(matches!(states(r#"{"s": {"command": "${UNSET}"}}"#), EntryState::Pending));
    }

    #[test]
    fn attempts_to_override_a_managed_entry_are_named() {
        let mut all = definitions(Scope::Flag, "flag.json", r#"{"s": {"enabled": false}}"#);
        all.extend(definitions(Scope::Managed, "managed.json", r#"{"s": {"command": "m"}}"#));
        let entry = &merged(&all, &[]).entries[0];
        assert!(matches!(entry.state, EntryState::Ready(_)));
        assert_eq!(&*entry.issues[0].source.origin, "flag.json");
    }

    #[test]
    fn approval_hints_can_be_pasted_into_a_shell() {
        assert_eq!(approve_hint("git-hub.1"), "callboard mcp approve git-hub.1");
        assert_eq!(approve_hint("Büro (test)"), "callboard mcp approve 'Büro (test)'");
        assert_eq!(approve_hint("it's"), "callboard mcp approve 'it'\\''s'");
    }

    #[test]
    fn a_summary_carries_no_control_characters() {
        let set = merged(
            &definitions(Scope::User, "f", r#"{"s": {"command": "x", "args": ["\u001b[2J", "a\nb", "ü"]}}"#),
            &[],
        );
        assert_eq!(set.entries[0].summary, "x \\u{1b}[2J a\\nb ü");
    }

    #[test]
    fn a_misnamed_entry_never_takes_the_place_of_another_one() {
        let all =
            definitions(Scope::User, "f", r#"{"a\nb": {"command": "bad"}, "a\\nb": {"command": "good"}}"#);
        let set = merged(&all, &[]);
        assert_eq!(set.entries.len(), 1);
        assert!(matches!(set.entries[0].state, EntryState::Ready(_)));
        assert!(set.issues[0].message.contains("control character"));
    }

    const ORDER: [Scope; 6] =
        [Scope::User, Scope::Project, Scope::EnvFile, Scope::EnvInline, Scope::Flag, Scope::Managed];

    proptest! {
        /// Against the plainest reading of the rules: the strongest definition that is not a
        /// project's without approval counts, in the state that it is in by itself.
        #[test]
        fn the_strongest_admitted_definition_counts(
            kinds in proptest::collection::vec(prop::option::of(0usize..4), 6..=6),
            approved: bool,
        ) {
            let texts = [
                r#"{"s": {"command": "ok"}}"#,
                r#"{"s": {"enabled": false}}"#,
                r#"{"s": {"command": 1}}"#,
                r#"{"s": {"command": "${UNSET}"}}"#,
            ];
            let mut all = Vec::new();
            for (scope, kind) in ORDER.iter().zip(&kinds) {
                if let Some(kind) = kind {
                    all.extend(definitions(*scope, scope.as_str(), texts[*kind]));
                }
            }
            let approvals: Vec<Approval> = all.iter().filter(|_| approved).map(approval).collect();
            let set = merged(&all, &approvals);
            let admitted = |scope: Scope| scope != Scope::Project || approved;
            let present = || ORDER.iter().zip(&kinds).filter_map(|(scope, kind)| Some((*scope, (*kind)?)));
            match present().rfind(|(scope, _)| admitted(*scope)) {
                Some((scope, kind)) => {
                    let entry = &set.entries[0];
                    prop_assert_eq!(entry.source.scope, scope);
                    let fits = match kind {
                        0 => matches!(entry.state, EntryState::Ready(_)),
                        1 => matches!(entry.state, EntryState::Disabled),
                        _ => matches!(entry.state, EntryState::Invalid),
                    };
                    prop_assert!(fits, "{scope:?} {kind} {:?}", entry.state);
                    let mut hidden: Vec<Scope> =
                        present().map(|(other, _)| other).filter(|other| *other < scope || scope == Scope::Managed).collect();
                    hidden.retain(|other| *other != scope);
                    let waits = !approved && kinds[1].is_some() && scope == Scope::User;
                    prop_assert_eq!(set.pending.len(), usize::from(waits));
                    let mut shadows: Vec<Scope> = entry.shadows.iter().map(|source| source.scope).collect();
                    shadows.reverse();
                    prop_assert_eq!(shadows, hidden);
                }
                None => {
                    prop_assert_eq!(set.entries.len(), usize::from(kinds[1].is_some()));
                    prop_assert!(set.pending.is_empty());
                    prop_assert!(set.entries.iter().all(|entry| !matches!(entry.state, EntryState::Ready(_))));
                }
            }
        }
    }
}

//! Floor 2. What the user's files permit beyond the entries themselves: which commands may be
//! started (`spawn`), and the allow rules. Called by `load`.

use std::path::Path;

use super::{Definition, Issue, IssueCode, Severity, file_issue};
use crate::config::raw;
use crate::config::rule_file;
use crate::config::rules::AllowRules;
use crate::config::spawn;
use crate::config::spec::{EntryState, Scope, ServerSet};
use crate::config::validate::{self, Context};
use crate::id::ServerId;

/// Parks every entry whose command may not be started.
pub(super) fn spawning(servers: &mut ServerSet, definitions: &[Definition], context: Context<'_>) {
    for entry in &mut servers.entries {
        let EntryState::Ready(spec) = &entry.state else { continue };
        let of_entry = |definition: &&Definition| {
            definition.source == entry.source && definition.name == entry.id.as_str()
        };
        let Some(definition) = definitions.iter().rev().find(of_entry) else { continue };
        let program = || validate::program(definition, &raw::read(definition).0, context);
        if let Err(refusal) = spawn::check(context.settings, spec, program) {
            let mut issue = definition.issue(IssueCode::Spawn, Severity::Error, "", refusal.why);
            issue.fix = Some(refusal.fix);
            entry.issues.push(issue);
            entry.state = EntryState::Invalid;
        }
    }
}

/// What is configured, as far as it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) definitions: &'a [Definition],
    /// Whether the files of the user and of the project were looked at.
    pub(super) all: bool,
}

impl Known<'_> {
    /// Whether there may be an entry of that scope and name: a variable or flag of another run can
    /// bring one.
    fn may_have(self, scope: Scope, server: &ServerId) -> bool {
        let kept = matches!(scope, Scope::User | Scope::Project);
        let mut own = self.definitions.iter().filter(|definition| definition.source.scope == scope);
        !kept || !self.all || own.any(|definition| definition.name == server.as_str())
    }
}

/// The allow rules in force. What is wrong with them is an issue; a file that can't be understood
/// allows nothing.
pub(super) fn rules(
    servers: &mut ServerSet,
    home: Option<&Path>,
    root: &Path,
    known: Known<'_>,
) -> AllowRules {
    let Some(home) = home else { return AllowRules::default() };
    let file = rule_file::file(home);
    let broken = |error: &rule_file::RuleError| {
        let mut issue = file_issue(IssueCode::Store, Scope::User, &file, error.to_string());
        issue.fix = Some(format!("repair or delete {}", file.display()));
        issue
    };
    match rule_file::read(home) {
        Ok(book) => {
            let (rules, faults) = book.in_force(root, |scope, server| known.may_have(scope, server));
            servers.issues.extend(faults.iter().map(|fault| Issue {
                severity: Severity::Warning,
                ..file_issue(IssueCode::Rule, Scope::User, &file, fault.to_string())
            }));
            rules
        }
        Err(error) => {
            servers.issues.insert(0, broken(&error));
            AllowRules::default()
        }
    }
}

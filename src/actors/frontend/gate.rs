//! The policy at the door of calls: puts the facts about one call before `policy::access` and
//! turns its verdict into a refusal or a request. It decides nothing itself.

use crate::actors::approvals::Gate;
use crate::actors::directory::DirectoryEntry;
use crate::call::{CallError, CallRequest, ItemKind, Origin, Phase};
use crate::catalog::items::{Hints, Item};
use crate::catalog::pin::Held;
use crate::config::mode::Mode;
use crate::config::spec::Scope;
use crate::policy::access::{Question, Refusal, Rule, Verdict, decide};
use crate::policy::approve::CallKey;

/// What the policy goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy<'a>(pub &'a Gate);

/// A call that a person has to approve.
#[derive(Debug)]
pub(super) struct Wanted {
    pub key: CallKey,
    pub scope: Scope,
    pub rule: String,
    pub refusal: CallError,
}

/// What the catalogue knows of what is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    /// Its definition.
    pub item: Option<&'a Item>,
    /// Why it is held.
    pub held: Option<&'a Held>,
}

impl Policy<'_> {
    /// The rule that decides about this call, and whether it may run: `Ok(None)` when it may, and what to ask when a person has to say.
    /// An item that the catalogue does not know yet has no hints. `most`: the caller's own mode, which only
    /// makes the host's stricter.
    pub(super) fn check(
        &self,
        request: &CallRequest,
        entry: &DirectoryEntry,
        (kind, name): (ItemKind, &str),
        known: Known<'_>,
        most: Option<Mode>,
    ) -> (Rule, Result<Option<Wanted>, CallError>) {
        let definition = known.item.map(|item| item.raw.as_ref());
        let key = || CallKey::of(&entry.entry, name, definition, &request.params);
        let granted = request.grant.is_some_and(|grant| grant.is_for(&key().call));
        let verdict = decide(&Question {
            entry: &entry.entry,
            kind,
            name,
            hints: known.item.map_or(Hints::default(), |item| item.hints),
            held: known.held,
            mode: most.map_or(self.0.mode, |most| most.stricter(self.0.mode)),
            rules: self.0.all_rules(),
            granted,
        });
        match verdict {
            Verdict::Run(rule) => {
                tracing::debug!(server = %entry.entry.id, item = name, rule = %rule.describe(), "call allowed");
                (rule, Ok(None))
            }
            Verdict::Refuse(refusal) => (refusal.rule.clone(), Err(refused(refusal))),
            Verdict::Ask(refusal) => {
                let rule = refusal.rule.clone();
                let wanted = Wanted {
                    key: key(),
                    scope: entry.entry.source.scope,
                    rule: rule.describe(),
                    refusal: refused(refusal),
                };
                (rule, Ok(Some(wanted)))
            }
        }
    }
}

fn refused(refusal: Refusal) -> CallError {
    let error = CallError::refused(refusal.code, Phase::Policy, Origin::Config, refusal.text);
    match refusal.fix {
        Some(fix) => error.fix(fix),
        None => error,
    }
}

//! The policy gate of the front end: puts the facts about one call before
//! `policy::access` and turns its verdict into a refusal. It decides nothing itself.

use std::sync::Arc;

use crate::actors::directory::DirectoryEntry;
use crate::call::{CallError, CallRequest, ItemKind, Origin, Phase};
use crate::catalog::items::{Hints, Item};
use crate::policy::access::{Mode, Question, Refusal, Verdict, decide};
use crate::policy::rules::AllowRules;

/// What the policy goes by.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// How much runs without asking.
    pub mode: Mode,
    /// The allow rules in force.
    pub rules: Arc<AllowRules>,
}

impl Gate {
    /// Whether this call may run. An item that the catalogue does not know yet has no hints.
    pub(super) fn check(
        &self,
        request: &CallRequest,
        entry: &DirectoryEntry,
        kind: ItemKind,
        name: &str,
        item: Option<&Item>,
    ) -> Result<(), CallError> {
        let verdict = decide(&Question {
            entry: &entry.entry,
            kind,
            name,
            hints: item.map_or(Hints::default(), |item| item.hints),
            mode: self.mode,
            rules: &self.rules,
            grant: request.grant.as_ref(),
        });
        match verdict {
            Verdict::Run(rule) => {
                tracing::debug!(server = %entry.entry.id, item = name, rule = %rule.describe(), "call allowed");
                Ok(())
            }
            Verdict::Refuse(refusal) | Verdict::Ask(refusal) => Err(refused(refusal)),
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

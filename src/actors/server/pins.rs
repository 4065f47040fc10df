//! Pins of one server's tools: every list is held against them before anybody sees it. The book is
//! this actor's own; `runtime` writes it down. A tool that is held takes no call, and those that wait
//! for it are refused.

use std::sync::Arc;

use super::call;
use super::state::ServerState;
use crate::call::{CallError, CallRequest, ItemKind};
use crate::catalog::pin::Book;
use crate::policy::access::{held_cure, held_refusal};
use crate::policy::lifecycle::Life;
use crate::time;

/// Held tools that a warning names.
const NAMED_MAX: usize = 5;

/// The tool that a call is for.
pub(super) fn tool_of(request: &CallRequest) -> Option<String> {
    (request.kind() == ItemKind::Tool).then(|| request.name().to_owned())
}

impl ServerState {
    /// Holds the tools as they are known now against their pins, and pins those that are new.
    pub(super) fn judge_tools(&mut self) {
        let before = self.args.pins.borrow().clone();
        let mut book = Book::clone(&before);
        let held = book.see(&self.catalog.tools, &time::rfc3339(time::wall()));
        if book != *before {
            let _ = self.args.pins.send_replace(Arc::new(book));
        }
        if *self.catalog.held == held {
            return;
        }
        tracing::info!(server = %self.args.spec.id, held = held.len(), "tools held by their pins changed");
        Arc::make_mut(&mut self.catalog).held = Arc::new(held);
        self.dirty = true;
        self.refuse_held();
    }

    /// The list of tools was read, or can't be: nothing more is to be looked at first.
    pub(super) fn tools_looked_at(&mut self) {
        let waited = self.is_unjudged();
        self.tools_judged = true;
        if waited && matches!(self.life, Life::Ready { .. }) && !self.breaker.connection_decides() {
            self.admit_waiting();
        }
    }

    /// Whether tools were pinned in an earlier run and nobody has seen yet what they are now: until
    /// then no call goes out.
    pub(super) fn is_unjudged(&self) -> bool {
        !self.tools_judged && {
            let book = self.args.pins.borrow();
            book.is_unreadable() || !book.pins().is_empty()
        }
    }

    /// Why a call can't be taken, if its tool is held. The caller may have seen an older snapshot.
    pub(super) fn held_error(&self, request: &CallRequest) -> Option<CallError> {
        if request.kind() != ItemKind::Tool {
            return None;
        }
        let held = self.catalog.held.get(request.name())?;
        let id = &self.args.spec.id;
        let refusal = held_refusal(id, request.name(), held);
        let error = call::refuse(refusal.code, id, refusal.text);
        Some(match refusal.fix {
            Some(fix) => error.fix(fix),
            None => error,
        })
    }

    /// Refuses the calls that wait for a tool which is held now.
    fn refuse_held(&mut self) {
        let held = self.catalog.held.clone();
        let id = self.args.spec.id.clone();
        let waits = |tool: &Option<String>| tool.as_ref().is_some_and(|tool| held.contains_key(tool));
        for waiter in self.bulkhead.take(|waiter| waits(&waiter.tool)) {
            let Some((tool, why)) = waiter.tool.as_ref().and_then(|tool| held.get_key_value(tool)) else {
                continue;
            };
            let refusal = held_refusal(&id, tool, why);
            let error = call::refuse(refusal.code, &id, refusal.text).about(tool);
            let _ = waiter.turn.send(Err(match refusal.fix {
                Some(fix) => error.fix(fix),
                None => error,
            }));
        }
    }

    /// Takes over what the file says: what another program wrote there stands.
    pub(super) fn take_pins(&mut self, file: &Book) {
        let mut book = file.clone();
        if !book.is_unreadable() {
            let _ = self.args.pins.borrow().add_to(&mut book);
        }
        if book == **self.args.pins.borrow() {
            return;
        }
        let _ = self.args.pins.send_replace(Arc::new(book));
        if self.tools_judged {
            self.judge_tools();
            self.publish_catalog();
        }
    }

    /// What is said of held tools in the view.
    pub(super) fn held_warning(&self) -> Option<String> {
        let listed: Vec<_> =
            self.catalog.held.iter().filter(|(tool, _)| self.args.spec.filter.keeps(tool)).collect();
        let (first, why) = *listed.first()?;
        let more = listed.len().saturating_sub(NAMED_MAX);
        let names =
            listed.iter().take(NAMED_MAX).map(|(tool, _)| tool.as_str()).collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (is, one) = if listed.len() == 1 { ("is", Some(first.as_str())) } else { ("are", None) };
        let cure = held_cure(&self.args.spec.id, one, why);
        Some(format!("{names}{more} {is} held: {}; {cure}", why.why()))
    }
}

//! What the audit log gets to know of a person's answer: who said what about which call.

use crate::actors::audit::{AuditRef, Note, Said, Trail};
use crate::actors::server::msg::Submission;
use crate::audit::record::Event;
use crate::call::Target;

/// Writes down what a person says about one held call.
#[derive(Clone, Debug)]
pub(super) struct Minutes {
    audit: AuditRef,
    /// Everything but the answer.
    note: Note,
}

impl Minutes {
    /// Those of one call; `None` for one that the front end has not resolved.
    pub(super) fn of(call: &Submission, trail: &Trail) -> Option<Self> {
        let Target::Direct { server, kind, name } = &call.request.target else { return None };
        let note = Note {
            event: Event::ApprovalGiven,
            door: call.door,
            session: call.request.session,
            call: call.request.id,
            server: server.clone(),
            kind: *kind,
            tool: name.clone(),
            rule: trail.passage.rule.clone().unwrap_or_default(),
            pin: trail.passage.pin,
            said: None,
        };
        Some(Self { audit: trail.audit.clone(), note })
    }

    /// A person said yes.
    pub(super) fn given(&self, said: Said) {
        self.audit.note(Note { said: Some(said), ..self.note.clone() });
    }

    /// The answer for good became an allow rule.
    pub(super) fn rule_made(&self) {
        self.audit.note(Note { event: Event::RuleAllowed, ..self.note.clone() });
    }
}

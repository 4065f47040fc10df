//! Floor 5. The lines that a command writes into the audit log itself, without a running host: a change
//! of what is trusted. Called by the verbs that make one.

use super::ctx::Ctx;
use super::failure::Failure;
use crate::audit::file::{AuditError, Ledger, fresh_boot};
use crate::audit::record::{Event, Record, fit};
use crate::call::{Door, ErrorCode};
use crate::runtime::AuditPlan;
use crate::time::{rfc3339, wall};

/// One change: a line of its own.
#[derive(Debug, Default)]
pub struct Change<'a> {
    /// The tool, or the pattern of a rule.
    pub tool: Option<&'a str>,
    /// Fingerprint of its definition.
    pub pin: Option<String>,
    /// What it is about, in words.
    pub reason: String,
}

/// Writes down changes that give trust, before they are made.
///
/// # Errors
/// In strict mode, when they can't be written: then they must not be made.
pub fn note(ctx: &Ctx, event: Event, server: &str, changes: &[Change<'_>]) -> Result<(), Failure> {
    match written(ctx, event, server, changes) {
        Err((error, true)) => {
            let message = format!("nothing was changed, because the audit log can't be written: {error}");
            Err(Failure::refused(ErrorCode::AuditUnavailable.as_str(), message)
                .on(server)
                .fix("make the log writable, or set audit.mode = \"best-effort\" in callboard.toml"))
        }
        Err((error, false)) => {
            tracing::warn!(%error, "the audit log can't be written");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Writes down changes that took trust away: that is never held up.
pub fn note_taken(ctx: &Ctx, event: Event, server: &str, changes: &[Change<'_>]) {
    if let Err((error, _)) = written(ctx, event, server, changes) {
        tracing::warn!(%error, "what was taken back is not in the audit log: it can't be written");
    }
}

/// The trouble, and whether the log is strict.
fn written(ctx: &Ctx, event: Event, server: &str, changes: &[Change<'_>]) -> Result<(), (AuditError, bool)> {
    let Some(plan) = AuditPlan::of(&ctx.loaded).filter(|_| !changes.is_empty()) else { return Ok(()) };
    let boot = fresh_boot();
    let ts = rfc3339(wall());
    let text = |text: &str| Some(fit(&ctx.redacted(text)));
    let record = |change: &Change<'_>| Record {
        door: Some(Door::Cli.as_str().to_owned()),
        session: Some(0),
        server: text(server),
        tool: change.tool.and_then(text),
        pin: change.pin.clone(),
        decided_by: Some("a person".to_owned()),
        reason: text(&change.reason),
        ..Record::new(event, boot.as_str(), ts.as_str())
    };
    let mut records: Vec<Record> = changes.iter().map(record).collect();
    let written = match plan.place {
        Ok(place) => Ledger::new(place, boot).append(&mut records, true),
        Err(why) => Err(AuditError::NoHome(why)),
    };
    written.map_err(|error| (error, plan.strict))
}

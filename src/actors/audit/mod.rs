//! Floor 3. The audit of calls: one thread writes the log, so that a slow disk holds up nobody's event
//! loop. A call passes through it on its way to its server, and goes on only when its start is
//! written; its end is reported by its answer port. The thread is the log's only writer in this
//! process; several processes take turns at the files (`audit::file`).

mod desk;
mod ending;
mod reference;

pub(crate) use ending::Ending;
pub(crate) use reference::{AuditRef, Note, Passage, Said, Trail, Turned};

//! Floor 3. The audit of calls: one task writes the log, where the calls run while the disk is quick, and
//! on a thread while it is not. A call passes through it on its way to its server, and goes on only when
//! its start is written; its end is reported by its answer port. The task is the log's only writer in this
//! process; several processes take turns at the files (`audit::file`).

mod desk;
mod ending;
mod reference;
mod scribe;

pub(crate) use ending::Ending;
pub(crate) use reference::{AuditRef, Note, Passage, Said, Trail, Turned};

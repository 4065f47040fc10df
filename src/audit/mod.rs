//! Floor 1. The audit log as decisions: what a record holds, how lines are chained, what the head
//! file says, and how a log is verified. Every operation is one line before anything is sent and one
//! when it ended, each sealed with a key that lies beside the log. No clock, no I/O; only `file` and
//! `read` (floor 2) touch the disk. Used by the audit writer of the actors and by the command line.

pub mod arguments;
pub mod chain;
pub mod file;
pub mod head;
pub mod read;
pub mod record;
pub mod verify;

/// Longest line, bytes: one `write` puts it down whole.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Every line whose number is a multiple of this is a checkpoint, and is forced to the disk.
pub const CHECKPOINT_EVERY: u64 = 1000;

//! Stub.
pub mod redact;

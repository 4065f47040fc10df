//! Stub.
pub mod redact;
pub mod render;

//! What benches that run whole hosts share: the entry of a server as a configuration would give it.

use std::sync::Arc;

use callboard::config::spec::{Entry, EntryState, Scope, ServerSpec, Source};

/// The entry of `spec`.
pub fn entry(spec: ServerSpec) -> Entry {
    Entry {
        id: spec.id.clone(),
        source: Source { scope: Scope::Flag, origin: "bench".into() },
        project: None,
        shadows: Vec::new(),
        issues: Vec::new(),
        hash: spec.id.to_string(),
        transport: "stdio",
        summary: String::new(),
        label: None,
        description: None,
        required: false,
        down: None,
        state: EntryState::Ready(Arc::new(spec)),
    }
}

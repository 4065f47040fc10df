//! Floor 2. What `mcp config` and `mcp get` show: every setting with its value and source,
//! secrets masked. Called by the edges.

use serde_json::Value;

use super::host_keys::HOST_KEYS;
use super::load::Loaded;
use super::mask::mask_definition;
use super::spec::{Entry, EntryState, Scope, Source};
use super::suggest;

/// One line of the effective configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Dotted key: of `callboard.toml`, or `mcpServers.NAME.…` as the entry writes it.
    pub key: String,
    /// The value, masked.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
}

/// Every host setting in the order of the manual, then every key of every entry (effective
/// ones, then pending ones), unexpanded and masked.
pub fn effective(loaded: &Loaded) -> Vec<Setting> {
    let mut lines: Vec<Setting> = HOST_KEYS
        .iter()
        .map(|key| {
            let source = loaded.provenance.iter().find(|(name, _)| *name == key.name);
            let default = Source { scope: Scope::Default, origin: "default.toml".into() };
            Setting {
                key: key.name.to_owned(),
                value: (key.get)(&loaded.settings).to_json(),
                source: source.map_or(default, |(_, source)| source.clone()),
            }
        })
        .collect();
    for entry in loaded.servers.entries.iter().chain(&loaded.servers.pending) {
        let prefix = suggest::join("mcpServers", entry.id.as_str());
        let mut line = |key: String, value| lines.push(Setting { key, value, source: entry.source.clone() });
        line(suggest::join(&prefix, "state"), Value::from(state_word(entry)));
        match masked_entry(loaded, entry) {
            Some(Value::Object(map)) => {
                map.into_iter().for_each(|(key, value)| line(suggest::join(&prefix, &key), value));
            }
            Some(other) => line(prefix.clone(), other),
            None => {}
        }
    }
    lines
}

/// The entry as written, masked; `None` if it is not from these definitions.
pub fn masked_entry(loaded: &Loaded, entry: &Entry) -> Option<Value> {
    loaded.definition(entry).map(|definition| mask_definition(&definition.value))
}

/// The word for the state of an entry, as `mcp list --json` and `mcp get --json` print it. `usable` means that it may be
/// started as it is written: none was started to find out.
pub fn state_word(entry: &Entry) -> &'static str {
    match entry.state {
        EntryState::Ready(_) => "usable",
        EntryState::Disabled => "disabled",
        EntryState::Pending => "pending_approval",
        EntryState::Invalid => "config_error",
    }
}

//! What a conversation goes by, taken from the settings of the host once.

use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::agent::turn::Limits;
use crate::config::host::HostSettings;
use crate::config::model::{Exposure, ModelSettings, Prices};
use crate::id::ServerId;

/// What a conversation goes by.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// How the tools are shown.
    pub exposure: Exposure,
    /// Tools by name at most.
    pub tools_max: usize,
    /// How far a turn goes.
    pub limits: Limits,
    /// Bytes of the instructions of one server.
    pub instructions_max: usize,
    /// Servers whose instructions are not shown.
    pub instructions_off: GlobSet,
    /// Per cent of the window at which room is made.
    pub compact_at: u32,
    /// Bytes of one result.
    pub result_max: usize,
    /// What tokens cost.
    pub prices: Prices,
}

impl EngineSettings {
    /// As the host's settings say. A pattern that makes no sense hides nothing.
    pub fn of(settings: &HostSettings) -> Self {
        let agent = &settings.agent;
        let mut off = GlobSetBuilder::new();
        for glob in agent.instructions_off.iter().filter_map(|pattern| Glob::new(pattern).ok()) {
            off.add(glob);
        }
        Self {
            exposure: agent.exposure,
            tools_max: agent.tools_max,
            limits: Limits {
                rounds_max: agent.rounds_max,
                calls_max: agent.calls_max,
                turn_max: agent.turn_max.max(Duration::from_millis(1)),
            },
            instructions_max: agent.instructions_max,
            instructions_off: off.build().unwrap_or_else(|_| GlobSet::empty()),
            compact_at: agent.compact_at,
            result_max: settings.limits.result_max,
            prices: settings.model.prices,
        }
    }

    /// Whether the model is given the instructions of this server.
    pub fn tells(&self, server: &ServerId) -> bool {
        !self.instructions_off.is_match(server.as_str())
    }
}

/// What to set where an endpoint wants a key, or has none to speak to.
pub fn key_hint(settings: &ModelSettings) -> Option<&'static str> {
    let own_place = settings.base_url.is_empty();
    match (settings.api_key.is_empty(), own_place) {
        (false, _) => Some(
            "the key that model.api_key refers to was not taken; set it anew with `callboard secret set`",
        ),
        (true, true) => Some(
            "set OPENAI_API_KEY or ANTHROPIC_API_KEY, or model.api_key to a reference such as ${secret:NAME}",
        ),
        (true, false) => Some("set model.api_key to a reference such as ${secret:NAME}"),
    }
}

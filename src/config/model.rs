//! Floor 1. The settings of the agent: which chat model it speaks to, and how much it is given and may
//! do. Amounts with decimals are kept in millionths. The keys are in the table of `agent_keys`.

use std::time::Duration;

/// `model.provider`: which protocol the endpoint speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Provider {
    /// What `model.base_url` looks like.
    #[default]
    Auto,
    /// Chat Completions, as OpenAI and most others have them.
    OpenAi,
    /// Messages, of Anthropic.
    Anthropic,
    /// The own protocol of Ollama.
    Ollama,
}

/// `model.images`: whether the model is shown images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Images {
    /// Where it is known to see.
    #[default]
    Auto,
    /// Yes.
    On,
    /// No.
    Off,
}

/// `model.prices.*`: for a million tokens, in millionths of the unit that the user counts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// `input`
    pub input: Option<u64>,
    /// `output`
    pub output: Option<u64>,
    /// `cache_read`: input that the endpoint had kept.
    pub cache_read: Option<u64>,
    /// `cache_write`: input that the endpoint keeps.
    pub cache_write: Option<u64>,
}

/// `model.*`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSettings {
    /// `provider`
    pub provider: Provider,
    /// `name`; empty when none is chosen.
    pub name: String,
    /// `base_url`; empty for the provider's own place.
    pub base_url: String,
    /// `api_key`: a reference to the secret, as written; never the secret.
    pub api_key: String,
    /// `context_window`, tokens; 0 when the endpoint is to say.
    pub context_window: u64,
    /// `max_output`, tokens of one answer; 0 for the endpoint's own limit.
    pub max_output: u64,
    /// `temperature`, millionths; `None` for the endpoint's own.
    pub temperature: Option<u64>,
    /// `images`
    pub images: Images,
    /// `retries`: how often a request that was refused for a while is sent again.
    pub retries: u32,
    /// `idle`: longest silence of the endpoint.
    pub idle: Duration,
    /// `prices.*`
    pub prices: Prices,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            provider: Provider::Auto,
            name: String::new(),
            base_url: String::new(),
            api_key: String::new(),
            context_window: 0,
            max_output: 0,
            temperature: None,
            images: Images::Auto,
            retries: 4,
            idle: Duration::from_secs(300),
            prices: Prices::default(),
        }
    }
}

/// Where OpenAI's own models are.
pub const OPENAI_URL: &str = "https://api.openai.com/v1";
/// Where Anthropic's own models are.
pub const ANTHROPIC_URL: &str = "https://api.anthropic.com";
/// Where Ollama listens unless told otherwise.
pub const OLLAMA_URL: &str = "http://127.0.0.1:11434";

impl ModelSettings {
    /// The protocol that is spoken; `None` when nothing says which.
    pub fn spoken(&self) -> Option<Provider> {
        if self.provider != Provider::Auto {
            return Some(self.provider);
        }
        let url = url::Url::parse(&self.base_url).ok()?;
        let host = url.host_str().unwrap_or_default();
        Some(if host == "api.anthropic.com" || url.path().trim_end_matches('/').ends_with("/anthropic") {
            Provider::Anthropic
        } else if url.port() == Some(11_434) && !url.path().starts_with("/v1") {
            Provider::Ollama
        } else {
            Provider::OpenAi
        })
    }

    /// Where requests go: `base_url`, or the provider's own place.
    pub fn place(&self) -> Option<&str> {
        let own = match self.spoken()? {
            Provider::Auto | Provider::OpenAi => OPENAI_URL,
            Provider::Anthropic => ANTHROPIC_URL,
            Provider::Ollama => OLLAMA_URL,
        };
        Some(if self.base_url.is_empty() { own } else { &self.base_url })
    }

    /// The reference to the key: `api_key`, or the usual variable of a provider at its own place. A key in a
    /// variable is sent nowhere else unless somebody wrote so.
    pub fn key_reference(&self) -> &str {
        if !self.api_key.is_empty() || !self.base_url.is_empty() {
            return &self.api_key;
        }
        match self.provider {
            Provider::OpenAi => "${OPENAI_API_KEY:-}",
            Provider::Anthropic => "${ANTHROPIC_API_KEY:-}",
            Provider::Auto | Provider::Ollama => "",
        }
    }
}

/// `agent.exposure`: how the model sees the tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Exposure {
    /// `Direct` while that is cheap, else `Search`.
    #[default]
    Auto,
    /// Each tool under its own name.
    Direct,
    /// Seven tools that reach all servers.
    Bridge,
    /// One that finds tools, and one that calls them.
    Search,
}

impl Exposure {
    /// As in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Bridge => "bridge",
            Self::Search => "search",
        }
    }
}

/// `agent.*`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// `exposure`
    pub exposure: Exposure,
    /// `tools_max`: tools that the model is shown by name.
    pub tools_max: usize,
    /// `rounds_max`: answers of the model in one turn.
    pub rounds_max: u32,
    /// `calls_max`: calls in one turn.
    pub calls_max: u32,
    /// `turn_max`: longest turn.
    pub turn_max: Duration,
    /// `instructions_max`: bytes of one server's instructions.
    pub instructions_max: usize,
    /// `instructions_off`: globs on the names of servers whose instructions are not shown.
    pub instructions_off: Vec<String>,
    /// `compact_at`: per cent of the window at which earlier turns are shortened.
    pub compact_at: u32,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            exposure: Exposure::Auto,
            tools_max: 128,
            rounds_max: 50,
            calls_max: 200,
            turn_max: Duration::from_secs(3600),
            instructions_max: 8 << 10,
            instructions_off: Vec::new(),
            compact_at: 80,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(provider: Provider, base_url: &str) -> ModelSettings {
        ModelSettings { provider, base_url: base_url.into(), ..ModelSettings::default() }
    }

    #[test]
    fn an_address_says_what_is_spoken_there() {
        for (url, want) in [
            ("https://api.anthropic.com", Provider::Anthropic),
            ("https://api.deepseek.com/anthropic", Provider::Anthropic),
            ("http://127.0.0.1:11434", Provider::Ollama),
            ("http://127.0.0.1:11434/v1", Provider::OpenAi),
            ("https://openrouter.ai/api/v1", Provider::OpenAi),
        ] {
            assert_eq!(at(Provider::Auto, url).spoken(), Some(want), "{url}");
        }
        assert_eq!(at(Provider::Auto, "").spoken(), None);
        assert_eq!(at(Provider::Anthropic, "").place(), Some(ANTHROPIC_URL));
        assert_eq!(at(Provider::Auto, "").place(), None);
    }

    #[test]
    fn a_key_of_the_environment_goes_to_its_own_provider_only() {
        assert_eq!(at(Provider::OpenAi, "").key_reference(), "${OPENAI_API_KEY:-}");
        assert_eq!(at(Provider::OpenAi, "https://elsewhere.example/v1").key_reference(), "");
        let written =
            ModelSettings { api_key: "${MINE}".into(), ..at(Provider::OpenAi, "https://e.example") };
        assert_eq!(written.key_reference(), "${MINE}");
        assert_eq!(at(Provider::Ollama, "").key_reference(), "");
    }
}

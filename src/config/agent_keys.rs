//! Floor 1. The keys of `callboard.toml` that the agent goes by: `model.*` and `agent.*`. A part of the
//! table in `host_keys`, which says what a row means.

use super::decimal::{decimal, millionths};
use super::host::{HostKey, Kind, ProjectRule, Setting};
use super::host_keys::{LOWER, SOME, TIME, host_key, size, small, wide};
use super::host_words::{value_of, word_of};
use super::model::{Exposure, Images, Provider};
use super::raw::COUNT_MAX;

const PROVIDER_WORDS: [(&str, Provider); 4] = [
    ("auto", Provider::Auto),
    ("openai", Provider::OpenAi),
    ("anthropic", Provider::Anthropic),
    ("ollama", Provider::Ollama),
];
const IMAGE_WORDS: [(&str, Images); 3] = [("auto", Images::Auto), ("on", Images::On), ("off", Images::Off)];
const EXPOSURE_WORDS: [(&str, Exposure); 4] = [
    ("auto", Exposure::Auto),
    ("direct", Exposure::Direct),
    ("bridge", Exposure::Bridge),
    ("search", Exposure::Search),
];
/// Tokens: more than any window has.
const TOKENS: Kind = Kind::Count { min: 0, max: 1_000_000_000 };
/// The price of a million tokens.
const PRICE: Kind = Kind::Decimal { max: 1_000_000 };

fn shown(number: Option<u64>) -> String {
    number.map(decimal).unwrap_or_default()
}

/// The keys, in the order of the manual.
pub(super) const AGENT_KEYS: &[HostKey] = &[
    host_key!(
        "model.provider",
        Kind::Word(&["auto", "openai", "anthropic", "ollama"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&PROVIDER_WORDS, s.model.provider),
        |t, v| t.model.provider = value_of(&PROVIDER_WORDS, v).unwrap_or(t.model.provider)
    ),
    host_key!("model.name", Kind::Line, ProjectRule::Never, Text, |s| s.model.name.clone(), |t, v| t
        .model
        .name
        .clone_from(v)),
    host_key!("model.base_url", Kind::Url, ProjectRule::Never, Text, |s| s.model.base_url.clone(), |t, v| t
        .model
        .base_url
        .clone_from(v)),
    host_key!(
        "model.api_key",
        Kind::Reference,
        ProjectRule::Never,
        Text,
        |s| s.model.api_key.clone(),
        |t, v| t.model.api_key.clone_from(v)
    ),
    host_key!(
        "model.context_window",
        TOKENS,
        ProjectRule::Never,
        Count,
        |s| s.model.context_window,
        |t, v| t.model.context_window = *v
    ),
    host_key!("model.max_output", TOKENS, ProjectRule::Never, Count, |s| s.model.max_output, |t, v| t
        .model
        .max_output =
        *v),
    host_key!(
        "model.temperature",
        Kind::Decimal { max: 2 },
        ProjectRule::Never,
        Text,
        |s| shown(s.model.temperature),
        |t, v| t.model.temperature = millionths(v)
    ),
    host_key!(
        "model.images",
        Kind::Word(&["auto", "on", "off"]),
        ProjectRule::Never,
        Word,
        |s| word_of(&IMAGE_WORDS, s.model.images),
        |t, v| t.model.images = value_of(&IMAGE_WORDS, v).unwrap_or(t.model.images)
    ),
    host_key!(
        "model.retries",
        Kind::Count { min: 0, max: 64 },
        ProjectRule::Never,
        Count,
        |s| u64::from(s.model.retries),
        |t, v| t.model.retries = small(*v)
    ),
    host_key!("model.idle", TIME, ProjectRule::Never, Duration, |s| s.model.idle, |t, v| t.model.idle = *v),
    host_key!(
        "model.prices.input",
        PRICE,
        ProjectRule::Never,
        Text,
        |s| shown(s.model.prices.input),
        |t, v| t.model.prices.input = millionths(v)
    ),
    host_key!(
        "model.prices.output",
        PRICE,
        ProjectRule::Never,
        Text,
        |s| shown(s.model.prices.output),
        |t, v| t.model.prices.output = millionths(v)
    ),
    host_key!(
        "model.prices.cache_read",
        PRICE,
        ProjectRule::Never,
        Text,
        |s| shown(s.model.prices.cache_read),
        |t, v| t.model.prices.cache_read = millionths(v)
    ),
    host_key!(
        "model.prices.cache_write",
        PRICE,
        ProjectRule::Never,
        Text,
        |s| shown(s.model.prices.cache_write),
        |t, v| t.model.prices.cache_write = millionths(v)
    ),
    host_key!(
        "agent.exposure",
        Kind::Word(&["auto", "direct", "bridge", "search"]),
        ProjectRule::Free,
        Word,
        |s| s.agent.exposure.as_str(),
        |t, v| t.agent.exposure = value_of(&EXPOSURE_WORDS, v).unwrap_or(t.agent.exposure)
    ),
    host_key!("agent.tools_max", SOME, LOWER, Count, |s| wide(s.agent.tools_max), |t, v| t.agent.tools_max =
        size(*v)),
    host_key!("agent.rounds_max", SOME, LOWER, Count, |s| u64::from(s.agent.rounds_max), |t, v| t
        .agent
        .rounds_max =
        small(*v)),
    host_key!(
        "agent.calls_max",
        Kind::Count { min: 0, max: COUNT_MAX },
        LOWER,
        Count,
        |s| u64::from(s.agent.calls_max),
        |t, v| t.agent.calls_max = small(*v)
    ),
    host_key!("agent.turn_max", TIME, LOWER, Duration, |s| s.agent.turn_max, |t, v| t.agent.turn_max = *v),
    host_key!(
        "agent.instructions_max",
        Kind::Bytes,
        LOWER,
        Bytes,
        |s| wide(s.agent.instructions_max),
        |t, v| t.agent.instructions_max = size(*v)
    ),
    host_key!(
        "agent.instructions_off",
        Kind::Texts,
        ProjectRule::Never,
        Texts,
        |s| s.agent.instructions_off.clone(),
        |t, v| t.agent.instructions_off.clone_from(v)
    ),
    host_key!(
        "agent.compact_at",
        Kind::Count { min: 20, max: 95 },
        ProjectRule::Never,
        Count,
        |s| u64::from(s.agent.compact_at),
        |t, v| t.agent.compact_at = small(*v)
    ),
];

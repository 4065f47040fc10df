//! Looks for a model where none is configured: an Ollama on this machine, which of its models can call
//! tools, how far each looks. And what an endpoint says about a model that is configured. Asks loopback or
//! the configured place, nothing else.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::config::model::{ModelSettings, OLLAMA_URL, Provider};
use crate::transport::http::Client;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Largest answer, bytes.
const ANSWER_MAX: usize = 8 << 20;
/// Models that are looked at.
const MODELS_MAX: usize = 100;
/// The window that is asked of Ollama where nobody set one: more costs memory that may not be there.
pub const OLLAMA_WINDOW_MAX: u64 = 32_768;

/// A model that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// As Ollama calls it.
    pub name: String,
    /// How far it can look, tokens.
    pub window: Option<u64>,
    /// Whether it can call tools.
    pub tools: bool,
    /// Whether it sees images.
    pub sees: bool,
    /// Size on disk, bytes.
    pub size: u64,
}

/// The models of an Ollama at this address; `None` when there is none. Those that can call tools come first,
/// then by name.
pub async fn ollama(client: &Client, base: &str) -> Option<Vec<Found>> {
    let base = Url::parse(base).ok()?;
    let tags: Tags = ask(client, &base, "/api/tags", None).await?;
    let mut found = Vec::new();
    for tag in tags.models.into_iter().take(MODELS_MAX) {
        let shown: Option<Shown> = ask(client, &base, "/api/show", Some(json!({"model": tag.name}))).await;
        found.push(of(tag, shown.unwrap_or_default()));
    }
    found.sort_by(|a, b| (!a.tools, &a.name).cmp(&(!b.tools, &b.name)));
    Some(found)
}

/// The Ollama that listens on this machine.
pub async fn local(client: &Client) -> Option<Vec<Found>> {
    ollama(client, OLLAMA_URL).await
}

/// What the endpoint says about the configured model. For Ollama the window that is asked for: what the model
/// can look at, at most [`OLLAMA_WINDOW_MAX`]. `None` where the endpoint does not tell.
pub async fn about(client: &Client, settings: &ModelSettings) -> Option<Found> {
    if settings.spoken() != Some(Provider::Ollama) || settings.name.is_empty() {
        return None;
    }
    let base = Url::parse(settings.place()?).ok()?;
    let shown: Shown = ask(client, &base, "/api/show", Some(json!({"model": settings.name}))).await?;
    let mut found = of(Tag { name: settings.name.clone(), size: 0 }, shown);
    found.window = Some(found.window.unwrap_or(OLLAMA_WINDOW_MAX).min(OLLAMA_WINDOW_MAX));
    Some(found)
}

/// The window of models whose endpoint does not tell, as their makers tell it, rounded down; `None` for all
/// others.
pub fn known_window(name: &str) -> Option<u64> {
    let name = name.rsplit('/').next().unwrap_or(name);
    let starts = |start: &str| name.starts_with(start);
    if starts("claude") {
        return Some(200_000);
    }
    if starts("gpt-4.1") || starts("gemini-") {
        return Some(1_000_000);
    }
    if starts("gpt-4o") || starts("gpt-4-turbo") {
        return Some(128_000);
    }
    (starts("o1") || starts("o3") || starts("o4") || starts("gpt-5")).then_some(200_000)
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
    #[serde(default)]
    size: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Shown {
    capabilities: Vec<String>,
    model_info: serde_json::Map<String, Value>,
    parameters: String,
}

fn of(tag: Tag, shown: Shown) -> Found {
    let has = |word: &str| shown.capabilities.iter().any(|capability| capability == word);
    let real = shown.model_info.iter().find(|(key, _)| key.ends_with(".context_length"));
    let real = real.and_then(|(_, value)| value.as_u64());
    // A model may be made with less than it could.
    let made = shown.parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx"));
    let made = made.and_then(|rest| rest.trim().parse::<u64>().ok());
    let window = match (real, made) {
        (Some(real), Some(made)) => Some(made.min(real)),
        (real, made) => real.or(made),
    };
    Found { window, tools: has("tools"), sees: has("vision"), name: tag.name, size: tag.size }
}

async fn ask<T: for<'a> Deserialize<'a>>(
    client: &Client,
    base: &Url,
    path: &str,
    body: Option<Value>,
) -> Option<T> {
    let url = Url::parse(&format!("{}{path}", base.as_str().trim_end_matches('/'))).ok()?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let asked = async {
        let mut reply = client.send(method, &url, headers, body).await.ok()?;
        let mut all = Vec::new();
        while let Some(piece) = reply.chunk().await.ok()? {
            all.extend_from_slice(&piece);
            if all.len() > ANSWER_MAX {
                return None;
            }
        }
        (reply.status() == 200).then_some(all)
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await.ok()??;
    serde_json::from_slice(&answer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ollama_shows_says_what_a_model_can() {
        let shown: Shown = serde_json::from_value(json!({
            "capabilities": ["completion", "tools", "vision"],
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
            "parameters": "num_ctx    16384\nstop \"x\"",
        }))
        .unwrap();
        let found = of(Tag { name: "qwen3:8b".into(), size: 5 }, shown);
        let want = Found { name: "qwen3:8b".into(), window: Some(16_384), tools: true, sees: true, size: 5 };
        assert_eq!(found, want);
        assert_eq!(of(Tag { name: "x".into(), size: 0 }, Shown::default()).window, None);
    }

    #[test]
    fn only_windows_that_are_known_are_told() {
        assert_eq!(known_window("claude-sonnet-4-5"), Some(200_000));
        assert_eq!(known_window("openai/gpt-4o-mini"), Some(128_000));
        assert_eq!(known_window("my-own-model"), None);
    }
}

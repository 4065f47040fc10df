//! A model behind HTTP: writes the request of its protocol, carries it over the client of the house, reads
//! the stream, and sends the same again where that can do no harm. The key goes to the configured place
//! and nowhere else, and into no text.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use tokio::sync::mpsc;
use url::Url;

use super::decode::Decode;
use super::error::{ModelError, Trouble};
use super::openai::Wishes;
use super::retry::Tries;
use super::{About, Answer, Dialect, EVENTS_MAX, Model, ModelEvent, anthropic, ollama, openai};
use crate::agent::chat::Chat;
use crate::config::model::{Images, ModelSettings, Provider};
use crate::config::spec::SecretText;
use crate::telemetry::Redaction;
use crate::time::wall;
use crate::transport::http::{Client, NoReply, Reply};
use crate::transport::task;
use crate::wire::sse::{SseDecoder, SseItem};

/// Largest event of a stream, bytes.
const EVENT_MAX: usize = 16 << 20;
/// Largest answer in all, bytes.
const ANSWER_MAX: usize = 64 << 20;
/// As much of a refusal is read, bytes.
const REFUSAL_MAX: usize = 64 << 10;
/// The version of the protocol that Anthropic wants named.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// What a model is reached with, besides its settings.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The client of this process.
    pub client: Client,
    /// The key, if there is one.
    pub key: Option<SecretText>,
    /// Through which texts of the endpoint are told.
    pub redaction: Redaction,
}

/// A model behind HTTP.
#[derive(Clone)]
pub struct Endpoint {
    about: About,
    provider: Provider,
    url: Url,
    headers: HeaderMap,
    wishes: Wishes,
    retries: u32,
    idle: Duration,
    client: Client,
    redaction: Redaction,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("about", &self.about).finish_non_exhaustive()
    }
}

/// Why there is no model to speak to: in words, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoModel {
    /// One sentence.
    pub text: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for NoModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NoModel {}

fn lacking(text: &str, fix: &str) -> NoModel {
    NoModel { text: text.to_owned(), fix: fix.to_owned() }
}

impl Endpoint {
    /// The configured model. Sends nothing. Errors: no model is chosen, or its address can't be asked.
    pub fn open(settings: &ModelSettings, reach: Reach) -> Result<Self, NoModel> {
        let (Some(provider), Some(place)) = (settings.spoken(), settings.place()) else {
            return Err(lacking(
                "no chat model is configured",
                "set model.provider or model.base_url, and model.name, in callboard.toml",
            ));
        };
        if settings.name.is_empty() {
            return Err(lacking("no chat model is chosen", "set model.name, as the endpoint calls it"));
        }
        let unusable =
            |_| lacking("model.base_url is no address that can be asked", "correct model.base_url");
        let base = Url::parse(place).map_err(unusable)?;
        let url = Url::parse(&address(provider, &base)).map_err(unusable)?;
        reach.redaction.learn(reach.key.as_slice());
        let Some(headers) = headers(provider, reach.key.as_ref()) else {
            return Err(lacking("the model's key can't stand in a header", "set model.api_key anew"));
        };
        let about = about(settings, provider, &base);
        let wishes = Wishes {
            model: settings.name.clone(),
            max_output: settings.max_output,
            temperature: settings.temperature.map(|millionths| millionths as f64 / 1e6),
            sees: about.sees,
            own_place: base.host_str() == Some("api.openai.com"),
            window: about.window,
        };
        let (retries, idle) = (settings.retries, settings.idle);
        let Reach { client, redaction, .. } = reach;
        Ok(Self { about, provider, url, headers, wishes, retries, idle, client, redaction })
    }

    /// The same with what was learned about the model since: its window, whether it sees.
    #[must_use]
    pub fn knowing(mut self, window: Option<u64>, sees: Option<bool>) -> Self {
        self.about.window = self.about.window.or(window);
        self.about.sees = sees.unwrap_or(self.about.sees);
        self.wishes.window = self.about.window;
        self.wishes.sees = self.about.sees;
        self
    }

    fn body(&self, chat: &Chat) -> Result<Vec<u8>, ModelError> {
        match self.provider {
            Provider::Anthropic => anthropic::body(chat, &self.wishes),
            Provider::Ollama => ollama::body(chat, &self.wishes),
            Provider::Auto | Provider::OpenAi => openai::body(chat, &self.wishes),
        }
    }

    fn decoder(&self) -> Box<dyn Decode> {
        match self.provider {
            Provider::Anthropic => Box::<anthropic::Decoder>::default(),
            Provider::Ollama => Box::<ollama::Decoder>::default(),
            Provider::Auto | Provider::OpenAi => Box::<openai::Decoder>::default(),
        }
    }

    /// Asks until there is an answer, an error that stands, or nobody who reads.
    async fn run(self, chat: Arc<Chat>, out: Out) {
        let body = match self.body(&chat) {
            Ok(body) => Bytes::from(body),
            Err(error) => return drop(out.send(Err(error)).await),
        };
        drop(chat);
        let mut tries = Tries::new(self.retries);
        loop {
            let mut said = false;
            let Err(mut error) = self.once(body.clone(), &out, &mut said).await else { return };
            error.broke_off = said;
            error.message = self.redaction.text(&error.message);
            let Some((attempt, wait)) = tries.again(&error, random()) else {
                return drop(out.send(Err(error)).await);
            };
            let again = ModelEvent::Again { attempt, wait, why: error.message };
            if out.send(Ok(again)).await.is_err() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// One request and its answer. `said` is set when something of it was handed on.
    async fn once(&self, body: Bytes, out: &Out, said: &mut bool) -> Result<(), ModelError> {
        let sent = self.client.send(Method::POST, &self.url, self.headers.clone(), body);
        let mut reply = self.patient(sent).await?;
        let status = reply.status();
        if !(200..300).contains(&status) {
            let wait = reply.retry_after(wall());
            let text = self.refusal(&mut reply).await;
            return Err(ModelError::of_status(status, &text, wait));
        }
        let media = reply.media();
        let mut cutter = Cutter::of(self.provider, &media);
        let mut decoder = self.decoder();
        let mut total = 0;
        while let Some(piece) = self.patient(reply.chunk()).await? {
            total += piece.len();
            if total > ANSWER_MAX {
                return Err(ModelError::nonsense("without end"));
            }
            for event in cutter.cut(&piece)? {
                hand_on(decoder.as_mut(), &event, out, said).await?;
            }
            if decoder.is_over() {
                break;
            }
        }
        if let Some(event) = cutter.rest() {
            hand_on(decoder.as_mut(), &event, out, said).await?;
        }
        let mut events = Vec::new();
        decoder.end(&mut events)?;
        for event in events {
            *said = true;
            out.send(Ok(event)).await.map_err(|_| ModelError::cancelled())?;
        }
        Ok(())
    }

    /// Waits, but not for ever.
    async fn patient<T>(&self, waits: impl Future<Output = Result<T, NoReply>>) -> Result<T, ModelError> {
        match tokio::time::timeout(self.idle, waits).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(none)) => {
                let mut error = ModelError::new(Trouble::Network, none.text);
                error.may_pass = none.may_pass;
                error.fix = none.cure.map(str::to_owned);
                Err(error)
            }
            Err(_) => {
                let silent = humantime::format_duration(self.idle);
                Err(ModelError::new(
                    Trouble::Network,
                    format!("the model's endpoint said nothing for {silent}"),
                )
                .fix("raise model.idle, if it needs longer"))
            }
        }
    }

    /// The beginning of what stands in a refusal.
    async fn refusal(&self, reply: &mut Reply) -> Vec<u8> {
        let mut text = Vec::new();
        while let Ok(Some(piece)) = self.patient(reply.chunk()).await {
            text.extend_from_slice(&piece);
            if text.len() > REFUSAL_MAX {
                text.truncate(REFUSAL_MAX);
                break;
            }
        }
        text
    }
}

type Out = mpsc::Sender<Result<ModelEvent, ModelError>>;

async fn hand_on(
    decoder: &mut dyn Decode,
    event: &[u8],
    out: &Out,
    said: &mut bool,
) -> Result<(), ModelError> {
    let mut events = Vec::new();
    let read = decoder.event(event, &mut events);
    for event in events {
        *said |= !matches!(event, ModelEvent::Usage(_));
        // Nobody reads any more: the exchange ends with this task.
        out.send(Ok(event)).await.map_err(|_| ModelError::cancelled())?;
    }
    read
}

impl Model for Endpoint {
    fn about(&self) -> &About {
        &self.about
    }

    fn answer(&self, chat: Arc<Chat>) -> Answer {
        let (out, events) = mpsc::channel(EVENTS_MAX);
        Answer::new(events, Some(task::spawn(self.clone().run(chat, out))))
    }
}

/// The stream ended before the answer was whole.
pub(super) fn broke_off() -> ModelError {
    ModelError::new(Trouble::Network, "the model's answer broke off before it was whole")
}

/// Cuts what comes into what a decoder takes: events, lines, or the whole.
enum Cutter {
    Events(SseDecoder),
    Lines(Vec<u8>),
    Whole(Vec<u8>),
}

impl Cutter {
    fn of(provider: Provider, media: &str) -> Self {
        match (provider, media) {
            (Provider::Ollama, _) | (_, "application/x-ndjson") => Self::Lines(Vec::new()),
            (_, "application/json") => Self::Whole(Vec::new()),
            _ => Self::Events(SseDecoder::new(EVENT_MAX)),
        }
    }

    fn cut(&mut self, piece: &[u8]) -> Result<Vec<Bytes>, ModelError> {
        match self {
            Self::Whole(all) => {
                all.extend_from_slice(piece);
                Ok(Vec::new())
            }
            Self::Lines(open) => {
                let mut lines = Vec::new();
                let mut rest = piece;
                while let Some(at) = memchr::memchr(b'\n', rest) {
                    open.extend_from_slice(&rest[..at]);
                    lines.push(Bytes::from(std::mem::take(open)));
                    rest = &rest[at + 1..];
                }
                open.extend_from_slice(rest);
                Ok(lines)
            }
            Self::Events(decoder) => {
                let mut events = Vec::new();
                for item in decoder.push(piece) {
                    match item {
                        SseItem::Event { data, .. } => events.push(data),
                        SseItem::TooLong { .. } => {
                            return Err(ModelError::nonsense("with an event without end"));
                        }
                        SseItem::Retry(_) | SseItem::Comment => {}
                    }
                }
                Ok(events)
            }
        }
    }

    fn rest(self) -> Option<Bytes> {
        match self {
            Self::Whole(all) | Self::Lines(all) => Some(all.into()).filter(|all: &Bytes| !all.is_empty()),
            Self::Events(mut decoder) => decoder.unfinished(),
        }
    }
}

fn random() -> u64 {
    // Without chance all would come back at the same time; that is no reason to fail.
    getrandom::u64().unwrap_or(u64::MAX / 2)
}

/// Where requests go.
fn address(provider: Provider, base: &Url) -> String {
    let base = base.as_str().trim_end_matches('/');
    match provider {
        Provider::Anthropic => format!("{}/v1/messages", base.trim_end_matches("/v1")),
        Provider::Ollama => format!("{}/api/chat", base.trim_end_matches("/api")),
        Provider::Auto | Provider::OpenAi => match base.ends_with("/chat/completions") {
            true => base.to_owned(),
            false => format!("{base}/chat/completions"),
        },
    }
}

/// The headers of each request; `None` when the key can't stand in one.
fn headers(provider: Provider, key: Option<&SecretText>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("text/event-stream, application/x-ndjson, application/json"),
    );
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("callboard/", env!("CARGO_PKG_VERSION"))));
    if provider == Provider::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
    }
    let Some(key) = key else { return Some(headers) };
    let (name, text) = match provider {
        Provider::Anthropic => (HeaderName::from_static("x-api-key"), key.reveal().trim().to_owned()),
        _ => (AUTHORIZATION, format!("Bearer {}", key.reveal().trim())),
    };
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Some(headers)
}

/// What is known before anybody was asked.
fn about(settings: &ModelSettings, provider: Provider, base: &Url) -> About {
    let host = base.host_str().unwrap_or_default();
    let own = matches!(host, "api.openai.com" | "api.anthropic.com" | "generativelanguage.googleapis.com");
    let gemini = host == "generativelanguage.googleapis.com" || settings.name.contains("gemini");
    let (word, dialect) = match provider {
        Provider::Anthropic => ("anthropic", Dialect::Anthropic),
        Provider::Ollama => ("ollama", Dialect::OpenAi),
        Provider::Auto | Provider::OpenAi => ("openai", Dialect::OpenAi),
    };
    About {
        provider: word,
        name: settings.name.clone(),
        window: Some(settings.context_window).filter(|window| *window > 0),
        sees: match settings.images {
            Images::On => true,
            Images::Off => false,
            Images::Auto => own,
        },
        dialect: if gemini { Dialect::Gemini } else { dialect },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(key: Option<&str>) -> Reach {
        let key = key.map(SecretText::new);
        Reach { client: Client::new(), key, redaction: Redaction::default() }
    }

    fn settings(provider: Provider, base_url: &str) -> ModelSettings {
        ModelSettings { provider, base_url: base_url.into(), name: "m".into(), ..ModelSettings::default() }
    }

    #[test]
    fn requests_go_where_each_protocol_has_them_whatever_the_base_ends_with() {
        for (provider, base, want) in [
            (Provider::OpenAi, "", "https://api.openai.com/v1/chat/completions"),
            (Provider::Auto, "http://h.example/v1/", "http://h.example/v1/chat/completions"),
            (Provider::Anthropic, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
            (Provider::Anthropic, "", "https://api.anthropic.com/v1/messages"),
            (Provider::Ollama, "", "http://127.0.0.1:11434/api/chat"),
        ] {
            let endpoint = Endpoint::open(&settings(provider, base), reach(None)).unwrap();
            assert_eq!(endpoint.url.as_str(), want);
        }
    }

    #[test]
    fn a_key_is_in_its_header_marked_as_secret_and_in_no_debug_text() {
        let key = "canary-key-123456";
        for provider in [Provider::OpenAi, Provider::Anthropic, Provider::Ollama] {
            let endpoint = Endpoint::open(&settings(provider, ""), reach(Some(key))).unwrap();
            assert!(endpoint.headers.values().any(|value| value.is_sensitive()));
            assert!(!format!("{endpoint:?} {:?}", endpoint.headers).contains("canary"));
            assert_eq!(endpoint.redaction.text(key), "[redacted]");
        }
        assert!(Endpoint::open(&settings(Provider::OpenAi, ""), reach(Some("a\nb"))).is_err());
    }

    #[test]
    fn without_a_choice_it_says_what_to_set() {
        let none = Endpoint::open(&ModelSettings::default(), reach(None)).unwrap_err();
        assert!(none.fix.contains("model.provider"), "{none:?}");
        let mut unnamed = settings(Provider::OpenAi, "");
        unnamed.name.clear();
        assert!(Endpoint::open(&unnamed, reach(None)).unwrap_err().fix.contains("model.name"));
    }

    #[test]
    fn images_are_shown_where_the_model_is_known_to_see() {
        let sees =
            |provider, base: &str| Endpoint::open(&settings(provider, base), reach(None)).unwrap().about.sees;
        assert!(sees(Provider::OpenAi, "") && sees(Provider::Anthropic, ""));
        assert!(!sees(Provider::OpenAi, "http://127.0.0.1:8080/v1") && !sees(Provider::Ollama, ""));
    }
}

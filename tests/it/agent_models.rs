//! Chat models over HTTP: an endpoint in this process that writes what each protocol writes, byte for byte,
//! before the product's own client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use callboard::agent::chat::{Chat, Message};
use callboard::agent::model::endpoint::{Endpoint, Reach};
use callboard::agent::model::{Model, ModelError, ModelEvent, Stop, Trouble, find};
use callboard::config::model::{ModelSettings, Provider};
use callboard::config::spec::SecretText;
use callboard::telemetry::Redaction;
use callboard::transport::http::Client;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// An endpoint that gives one raw answer after the other, and keeps what it was asked.
struct Place {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn place(answers: Vec<String>) -> Place {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, answers) = (asked.clone(), Arc::new(Mutex::new(VecDeque::from(answers))));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answers.clone(), kept.clone()));
        }
    });
    Place { url, asked }
}

async fn serve(mut stream: TcpStream, answers: Arc<Mutex<VecDeque<String>>>, kept: Arc<Mutex<Vec<String>>>) {
    let mut seen = Vec::new();
    let mut piece = [0u8; 4096];
    loop {
        let Ok(count @ 1..) = stream.read(&mut piece).await else { return };
        seen.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() < length.unwrap_or(0) {
            continue;
        }
        kept.lock().unwrap().push(text);
        break;
    }
    let answer = answers.lock().unwrap().pop_front();
    if let Some(answer) = answer {
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

fn ok(media: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\nconnection: close\r\n\r\n{body}")
}

fn refused(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn model(provider: Provider, place: &Place, retries: u32) -> Endpoint {
    let base_url = if provider == Provider::OpenAi { format!("{}/v1", place.url) } else { place.url.clone() };
    let settings =
        ModelSettings { provider, base_url, name: "m".into(), retries, ..ModelSettings::default() };
    let key = Some(SecretText::new("canary-key-1234"));
    Endpoint::open(&settings, Reach { client: Client::new(), key, redaction: Redaction::default() }).unwrap()
}

async fn answer(model: &Endpoint) -> Result<Vec<ModelEvent>, ModelError> {
    let chat = Chat { system: "sys".into(), messages: vec![Message::User("hi".into())], ..Chat::default() };
    let mut answer = model.answer(Arc::new(chat));
    let mut events = Vec::new();
    while let Some(event) = answer.next().await {
        events.push(event?);
    }
    Ok(events)
}

fn words(events: &[ModelEvent]) -> String {
    events
        .iter()
        .filter_map(|event| if let ModelEvent::Text(text) = event { Some(text.as_str()) } else { None })
        .collect()
}

const OPENAI: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"he\"}}]}\n\n: ping\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"llo\",\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"t\",\"arguments\":\"{\\\"n\\\":1.00}\"}}]}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
const ANTHROPIC: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"t\",\"input\":{}}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"n\\\":1.00}\"}}\n\n\
    event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":2}}\n\n\
    event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const OLLAMA: &str = "{\"message\":{\"role\":\"assistant\",\"content\":\"hello\"},\"done\":false}\n\
    {\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"t\",\"arguments\":{\"n\":1.00}}}]},\"done\":false}\n\
    {\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":3,\"eval_count\":2}\n";

#[tokio::test]
async fn each_protocol_streams_words_and_calls_with_their_arguments_as_written() {
    for (provider, media, body, path, key) in [
        (
            Provider::OpenAi,
            "text/event-stream",
            OPENAI,
            "/v1/chat/completions",
            "authorization: Bearer canary-key-1234",
        ),
        (Provider::Anthropic, "text/event-stream", ANTHROPIC, "/v1/messages", "x-api-key: canary-key-1234"),
        (
            Provider::Ollama,
            "application/x-ndjson",
            OLLAMA,
            "/api/chat",
            "authorization: Bearer canary-key-1234",
        ),
    ] {
        let place = place(vec![ok(media, body)]).await;
        let events = answer(&model(provider, &place, 0)).await.unwrap();
        assert_eq!(words(&events), "hello", "{provider:?}");
        let call = events
            .iter()
            .find_map(|event| if let ModelEvent::Call(call) = event { Some(call) } else { None });
        assert_eq!(
            call.map(|call| (call.name.as_str(), call.arguments.as_str())),
            Some(("t", "{\"n\":1.00}"))
        );
        assert_eq!(events.last(), Some(&ModelEvent::Stop(Stop::Calls)));
        let asked = place.asked.lock().unwrap().join("");
        assert!(asked.starts_with(&format!("POST {path} HTTP/1.1")) && asked.contains(key), "{asked}");
        assert!(asked.contains("\"stream\":true"));
    }
}

#[tokio::test]
async fn a_refusal_for_a_while_is_told_and_the_same_is_sent_again_before_anything_was_said() {
    let busy = refused("503 Service Unavailable", "retry-after: 1\r\n", "{\"error\":{\"message\":\"busy\"}}");
    let place = place(vec![busy, ok("text/event-stream", OPENAI)]).await;
    let events = answer(&model(Provider::OpenAi, &place, 2)).await.unwrap();
    assert!(
        matches!(&events[0], ModelEvent::Again { attempt: 1, why, .. } if why.contains("busy")),
        "{events:?}"
    );
    assert_eq!(words(&events), "hello");
    let asked = place.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].split("\r\n\r\n").nth(1), asked[1].split("\r\n\r\n").nth(1));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_asked_for_again() {
    let half = OPENAI.split(": ping").next().unwrap();
    let place = place(vec![ok("text/event-stream", half), ok("text/event-stream", OPENAI)]).await;
    let error = answer(&model(Provider::OpenAi, &place, 5)).await.unwrap_err();
    assert!(error.trouble == Trouble::Network && error.broke_off, "{error:?}");
    assert_eq!(place.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn errors_are_of_their_kind_and_never_tell_the_key() {
    for (status, body, trouble) in [
        ("401 Unauthorized", "{\"error\":{\"message\":\"bad key canary-key-1234\"}}", Trouble::Auth),
        (
            "400 Bad Request",
            "{\"error\":{\"message\":\"maximum context length is 8 tokens\"}}",
            Trouble::TooLong,
        ),
        ("404 Not Found", "{\"error\":\"no such model\"}", Trouble::BadRequest),
        ("429 Too Many Requests", "{}", Trouble::RateLimited),
    ] {
        let place = place(vec![refused(status, "", body)]).await;
        let error = answer(&model(Provider::OpenAi, &place, 0)).await.unwrap_err();
        assert_eq!(error.trouble, trouble, "{status}");
        assert!(!error.message.contains("canary"), "{error:?}");
    }
    let nowhere = Place { url: "http://127.0.0.1:1".into(), asked: Arc::default() };
    let error = answer(&model(Provider::OpenAi, &nowhere, 0)).await.unwrap_err();
    assert!(error.trouble == Trouble::Network && error.fix.is_some(), "{error:?}");
}

#[tokio::test]
async fn an_ollama_tells_which_of_its_models_call_tools_and_how_far_they_look() {
    let json = |body: &str| refused("200 OK", "content-type: application/json\r\n", body);
    let place = place(vec![
        json("{\"models\":[{\"name\":\"a:1b\",\"size\":5},{\"name\":\"b:8b\",\"size\":9}]}"),
        json("{\"capabilities\":[\"completion\"],\"model_info\":{\"x.context_length\":2048}}"),
        json("{\"capabilities\":[\"completion\",\"tools\"],\"model_info\":{\"x.context_length\":131072}}"),
        json("{\"capabilities\":[\"tools\"],\"model_info\":{\"x.context_length\":131072}}"),
    ])
    .await;
    let found = find::ollama(&Client::new(), &place.url).await.unwrap();
    assert_eq!(
        found.iter().map(|one| (one.name.as_str(), one.tools)).collect::<Vec<_>>(),
        [("b:8b", true), ("a:1b", false)]
    );
    assert_eq!(found[0].window, Some(131_072));
    let settings = ModelSettings {
        provider: Provider::Ollama,
        base_url: place.url.clone(),
        name: "b:8b".into(),
        ..ModelSettings::default()
    };
    let about = find::about(&Client::new(), &settings).await.unwrap();
    assert_eq!(about.window, Some(find::OLLAMA_WINDOW_MAX));
    assert_eq!(find::ollama(&Client::new(), "http://127.0.0.1:1").await, None);
}

//! Chat Completions as OpenAI and most others speak them: the request as bytes, the answer from the events
//! of its stream. Pure. Lenient where endpoints differ: calls without index or in one piece, arguments as an
//! object, an answer that comes whole.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::decode::{Calls, Decode};
use super::error::ModelError;
use super::usage::Usage;
use super::{ModelEvent, Stop};
use crate::agent::chat::{Chat, Message};

/// What a request says besides the conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Wishes {
    pub(super) model: String,
    /// Tokens; 0 for the endpoint's own limit.
    pub(super) max_output: u64,
    pub(super) temperature: Option<f64>,
    /// Whether the model is shown images.
    pub(super) sees: bool,
    /// Whether it is OpenAI's own place, which has another word for the limit of output.
    pub(super) own_place: bool,
    /// Tokens that are asked for as window (Ollama).
    pub(super) window: Option<u64>,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Told<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Told<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<ContentPart>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// A tool in the form that OpenAI and Ollama take.
#[derive(Serialize)]
pub(super) struct Tool<'a> {
    r#type: &'static str,
    function: ToolFunction<'a>,
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Box<RawValue>,
}

/// The tools of a conversation.
pub(super) fn tools(chat: &Chat) -> Vec<Tool<'_>> {
    let tool = |tool: &'_ crate::agent::chat::ToolDef| RawValue::from_string(tool.schema.clone()).ok();
    let all = chat.tools.iter().filter_map(|def| Some((def, tool(def)?)));
    all.map(|(def, parameters)| Tool {
        r#type: "function",
        function: ToolFunction { name: &def.name, description: &def.description, parameters },
    })
    .collect()
}

/// The request.
pub(super) fn body(chat: &Chat, wishes: &Wishes) -> Result<Vec<u8>, ModelError> {
    let mut messages = Vec::with_capacity(chat.messages.len() + 1);
    if !chat.system.is_empty() {
        messages.push(Told::System { content: &chat.system });
    }
    for message in &chat.messages {
        add(message, wishes.sees, &mut messages);
    }
    let limit = Some(wishes.max_output).filter(|limit| *limit > 0);
    let body = Body {
        model: &wishes.model,
        messages,
        tools: tools(chat),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        temperature: wishes.temperature,
        max_tokens: limit.filter(|_| !wishes.own_place),
        max_completion_tokens: limit.filter(|_| wishes.own_place),
    };
    serde_json::to_vec(&body).map_err(|error| ModelError::nonsense(&error.to_string()))
}

fn add<'a>(message: &'a Message, sees: bool, to: &mut Vec<Told<'a>>) {
    match message {
        Message::User(text) => to.push(Told::User { content: Content::Text(text) }),
        Message::Model(said) => {
            let calls = said.calls.iter().map(|call| Call {
                id: &call.id,
                r#type: "function",
                function: Function { name: &call.name, arguments: arguments(&call.arguments) },
            });
            let content = Some(said.text.as_str()).filter(|text| !text.is_empty());
            to.push(Told::Assistant { content, tool_calls: calls.collect() });
        }
        Message::Results(results) => {
            let mut images = Vec::new();
            for result in results {
                to.push(Told::Tool { tool_call_id: &result.id, content: result.text(sees) });
                for (mime, base64) in result.images().filter(|_| sees) {
                    let text = format!("[an image of the result of {}]", result.name);
                    images.push(ContentPart::Text { text });
                    let url = format!("data:{mime};base64,{base64}");
                    images.push(ContentPart::ImageUrl { image_url: ImageUrl { url } });
                }
            }
            // A result holds text only here: images follow as what the user shows.
            if !images.is_empty() {
                to.push(Told::User { content: Content::Parts(images) });
            }
        }
    }
}

fn arguments(written: &str) -> &str {
    if written.trim().is_empty() { "{}" } else { written }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Used>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
    /// In an answer that comes whole.
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Used {
    prompt_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_details: Option<Details>,
    /// Where DeepSeek has it.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    calls: Calls,
    stop: Option<String>,
    done: bool,
}

impl Decode for Decoder {
    fn event(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let data = data.trim_ascii();
        if data.is_empty() || self.done {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_slice(data)
            .map_err(|_| ModelError::nonsense("with what is no chat completion"))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let message = error.as_str().map_or_else(|| word("message"), str::to_owned);
            return Err(ModelError::in_stream(&format!("{} {}", word("type"), word("code")), &message));
        }
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.choice(choice, out)?;
        }
        if let Some(used) = chunk.usage {
            out.push(ModelEvent::Usage(usage(used)));
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.stop.is_none() && !self.done {
            return Err(super::endpoint::broke_off());
        }
        let called = !self.calls.is_empty();
        self.calls.take(out);
        let stop = match self.stop.take().as_deref() {
            _ if called => Stop::Calls,
            None | Some("stop" | "") => Stop::Done,
            Some("length") => Stop::Length,
            Some("content_filter") => Stop::Filtered,
            Some("tool_calls" | "function_call") => Stop::Done,
            Some(other) => Stop::Other(other.to_owned()),
        };
        out.push(ModelEvent::Stop(stop));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.done
    }
}

impl Decoder {
    fn choice(&mut self, choice: Choice, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(delta) = choice.delta.or(choice.message) {
            if let Some(text) = delta.reasoning_content.as_ref().and_then(words) {
                out.push(ModelEvent::Reasoning(text));
            }
            let said = delta.content.as_ref().and_then(words).or(delta.refusal);
            if let Some(text) = said.filter(|text| !text.is_empty()) {
                out.push(ModelEvent::Text(text));
            }
            for (at, call) in delta.tool_calls.into_iter().flatten().enumerate() {
                self.call(at as u64, call, out)?;
            }
        }
        if choice.finish_reason.is_some() {
            self.stop = choice.finish_reason;
        }
        Ok(())
    }

    fn call(&mut self, nth: u64, delta: CallDelta, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let mark = delta.index.unwrap_or(nth);
        let id = delta.id.filter(|id| !id.is_empty());
        let known = self.calls.at(mark)?;
        // Some send all calls under one index: another id is another call.
        if id.as_ref().is_some_and(|id| !known.id.is_empty() && known.id != *id) {
            self.calls.begin(mark)?;
        }
        let call = self.calls.at(mark)?;
        if let Some(id) = id {
            call.id = id;
        }
        let Some(function) = delta.function else { return Ok(()) };
        if let Some(name) = function.name.filter(|name| !name.is_empty()) {
            if call.name.is_empty() {
                out.push(ModelEvent::Calling(name.clone()));
                call.name = name;
            } else if call.name != name {
                call.name.push_str(&name);
            }
        }
        if let Some(raw) = function.arguments {
            let piece = serde_json::from_str::<String>(raw.get()).ok();
            let piece = piece
                .unwrap_or_else(|| Some(raw.get()).filter(|raw| *raw != "null").unwrap_or("").to_owned());
            self.calls.write(mark, &piece)?;
        }
        Ok(())
    }
}

/// A text, or the texts of parts.
fn words(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

fn usage(used: Used) -> Usage {
    let cached = used.prompt_tokens_details.and_then(|details| details.cached_tokens);
    let cache_read = cached.or(used.prompt_cache_hit_tokens).unwrap_or_default().min(used.prompt_tokens);
    Usage {
        input: used.prompt_tokens - cache_read,
        cache_read,
        cache_write: 0,
        output: used.completion_tokens,
    }
}

/// The same for another file of this folder: the conversation with everything that can be in it.
#[cfg(test)]
pub(super) fn sample() -> std::sync::Arc<Chat> {
    use std::sync::Arc;

    use crate::agent::chat::{Part, Reasoning, Said, ToolCall, ToolDef, ToolResult};
    let call =
        |id: &str, arguments: &str| ToolCall { id: id.into(), name: "t".into(), arguments: arguments.into() };
    let result = |id: &str, parts: Vec<Part>, is_error| ToolResult {
        id: id.into(),
        name: "t".into(),
        parts,
        is_error,
    };
    Arc::new(Chat {
        system: "be good".into(),
        messages: vec![
            Message::User("hello".into()),
            Message::Model(Said {
                text: "let me see".into(),
                reasoning: vec![Reasoning {
                    text: "hm".into(),
                    signature: "sig".into(),
                    hidden: String::new(),
                }],
                calls: vec![call("a", r#"{"n":1.00}"#), call("b", "")],
            }),
            Message::Results(vec![
                result(
                    "a",
                    vec![
                        Part::Text("one".into()),
                        Part::Image { mime: "image/png".into(), base64: "AAAA".into() },
                    ],
                    false,
                ),
                result("b", vec![Part::Text("no".into())], true),
            ]),
            Message::User("go on".into()),
        ],
        tools: Arc::new(vec![ToolDef {
            name: "t".into(),
            description: "does".into(),
            schema: r#"{"type":"object","properties":{}}"#.into(),
        }]),
    })
}

#[cfg(test)]
mod tests;

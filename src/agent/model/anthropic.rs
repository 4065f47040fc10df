//! Messages, as Anthropic speaks them: the request as bytes, the answer from the events of its stream. Pure.
//! The end of the system prompt and the end of the conversation are marked as what the endpoint should keep.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::decode::{Calls, Decode};
use super::error::ModelError;
use super::openai::Wishes;
use super::usage::Usage;
use super::{ModelEvent, Stop};
use crate::agent::chat::{Chat, Message, Part, Reasoning, ToolResult};

/// Tokens of one answer where nobody says: the endpoint wants a number.
const MAX_OUTPUT: u64 = 8192;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Told<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Box<RawValue>,
}

#[derive(Serialize)]
struct Told<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    kind: Kind<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Ephemeral>,
}

#[derive(Serialize)]
struct Ephemeral {
    r#type: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Kind<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Value,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<Shown>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Shown {
    Text { text: String },
    Image { source: Source },
}

#[derive(Serialize)]
struct Source {
    r#type: &'static str,
    media_type: String,
    data: String,
}

fn block(kind: Kind<'_>) -> Block<'_> {
    Block { kind, cache_control: None }
}

/// The request.
pub(super) fn body(chat: &Chat, wishes: &Wishes) -> Result<Vec<u8>, ModelError> {
    let mut messages: Vec<Told<'_>> = Vec::with_capacity(chat.messages.len());
    for message in &chat.messages {
        let (role, content) = told(message, wishes.sees);
        match messages.last_mut() {
            // Results and what the user says next are one message here.
            Some(last) if last.role == role => last.content.extend(content),
            _ => messages.push(Told { role, content }),
        }
    }
    if let Some(last) = messages.last_mut().and_then(|message| message.content.last_mut()) {
        last.cache_control = Some(Ephemeral { r#type: "ephemeral" });
    }
    let mut system = Vec::new();
    if !chat.system.is_empty() {
        let cache_control = Some(Ephemeral { r#type: "ephemeral" });
        system.push(Block { kind: Kind::Text { text: &chat.system }, cache_control });
    }
    let tools = chat.tools.iter().filter_map(|tool| {
        let input_schema = RawValue::from_string(tool.schema.clone()).ok()?;
        Some(Tool { name: &tool.name, description: &tool.description, input_schema })
    });
    let body = Body {
        model: &wishes.model,
        max_tokens: if wishes.max_output == 0 { MAX_OUTPUT } else { wishes.max_output },
        system,
        tools: tools.collect(),
        messages,
        stream: true,
        temperature: wishes.temperature,
    };
    serde_json::to_vec(&body).map_err(|error| ModelError::nonsense(&error.to_string()))
}

fn told(message: &Message, sees: bool) -> (&'static str, Vec<Block<'_>>) {
    match message {
        Message::User(text) => ("user", vec![block(Kind::Text { text })]),
        Message::Model(said) => {
            let mut blocks: Vec<Block<'_>> = said.reasoning.iter().filter_map(thought).map(block).collect();
            if !said.text.trim().is_empty() {
                blocks.push(block(Kind::Text { text: said.text.trim_end() }));
            }
            let calls = said.calls.iter().map(|call| {
                // A value of JSON by now: the endpoint wants an object, not its text.
                let input = serde_json::from_str(call.object().get()).unwrap_or_default();
                block(Kind::ToolUse { id: &call.id, name: &call.name, input })
            });
            blocks.extend(calls);
            ("assistant", blocks)
        }
        Message::Results(results) => ("user", results.iter().map(|one| block(result(one, sees))).collect()),
    }
}

fn thought(reasoning: &Reasoning) -> Option<Kind<'_>> {
    if !reasoning.hidden.is_empty() {
        return Some(Kind::RedactedThinking { data: &reasoning.hidden });
    }
    let signed = !reasoning.signature.is_empty();
    signed.then_some(Kind::Thinking { thinking: &reasoning.text, signature: &reasoning.signature })
}

fn result(result: &ToolResult, sees: bool) -> Kind<'_> {
    let mut content = Vec::new();
    if sees {
        content.extend(result.parts.iter().filter_map(|part| match part {
            Part::Text(text) if text.trim().is_empty() => None,
            Part::Text(text) => Some(Shown::Text { text: text.clone() }),
            // An error is told in words only.
            Part::Image { .. } if result.is_error => None,
            Part::Image { mime, base64 } => {
                let source = Source { r#type: "base64", media_type: mime.clone(), data: base64.clone() };
                Some(Shown::Image { source })
            }
        }));
    }
    if content.is_empty() {
        content.push(Shown::Text { text: result.text(sees) });
    }
    Kind::ToolResult { tool_use_id: &result.id, content, is_error: result.is_error }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Started,
    },
    ContentBlockStart {
        index: u64,
        content_block: Opened,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Ended,
        usage: Option<Used>,
    },
    MessageStop {},
    Error {
        error: Fault,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Started {
    usage: Option<Used>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Opened {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Option<Value>,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    RedactedThinking {
        #[serde(default)]
        data: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Words { text: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(rename = "thinking_delta")]
    Thought { thinking: String },
    #[serde(rename = "signature_delta")]
    Mark { signature: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Ended {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    message: String,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Used {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    calls: Calls,
    thought: Option<(u64, Reasoning)>,
    usage: Usage,
    stop: Option<String>,
    over: bool,
}

impl Decode for Decoder {
    fn event(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let data = data.trim_ascii();
        if data.is_empty() || self.over {
            return Ok(());
        }
        let event: Event =
            serde_json::from_slice(data).map_err(|_| ModelError::nonsense("with what is no message"))?;
        match event {
            Event::MessageStart { message } => self.used(message.usage),
            Event::ContentBlockStart { index, content_block } => self.opened(index, content_block, out)?,
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, out)?,
            Event::ContentBlockStop { index } => {
                if let Some((_, thought)) = self.thought.take_if(|(at, _)| *at == index) {
                    out.push(ModelEvent::Reasoned(thought));
                }
            }
            Event::MessageDelta { delta, usage } => {
                self.stop = delta.stop_reason.or(self.stop.take());
                self.used(usage);
            }
            Event::MessageStop {} => self.over = true,
            Event::Error { error } => return Err(ModelError::in_stream(&error.r#type, &error.message)),
            Event::Other => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !self.over && self.stop.is_none() {
            return Err(super::endpoint::broke_off());
        }
        out.push(ModelEvent::Usage(self.usage));
        let called = !self.calls.is_empty();
        self.calls.take(out);
        let stop = match self.stop.take().as_deref() {
            _ if called => Stop::Calls,
            None | Some("end_turn" | "stop_sequence" | "tool_use") => Stop::Done,
            Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
            Some("refusal") => Stop::Filtered,
            Some(other) => Stop::Other(other.to_owned()),
        };
        out.push(ModelEvent::Stop(stop));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl Decoder {
    fn used(&mut self, used: Option<Used>) {
        let Some(used) = used else { return };
        let newer = |now: &mut u64, told: Option<u64>| *now = told.unwrap_or(*now);
        newer(&mut self.usage.input, used.input_tokens);
        newer(&mut self.usage.output, used.output_tokens);
        newer(&mut self.usage.cache_read, used.cache_read_input_tokens);
        newer(&mut self.usage.cache_write, used.cache_creation_input_tokens);
    }

    fn opened(&mut self, index: u64, block: Opened, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match block {
            Opened::Text { text } if !text.is_empty() => out.push(ModelEvent::Text(text)),
            Opened::ToolUse { id, name, input } => {
                self.calls.begin(index)?;
                let call = self.calls.at(index)?;
                out.push(ModelEvent::Calling(name.clone()));
                (call.id, call.name) = (id, name);
                // Mostly empty, and the pieces follow.
                let whole =
                    input.filter(|input| input.as_object().is_some_and(|members| !members.is_empty()));
                if let Some(input) = whole {
                    self.calls.write(index, &input.to_string())?;
                }
            }
            Opened::Thinking { thinking } => {
                self.thought = Some((index, Reasoning { text: thinking, ..Reasoning::default() }));
            }
            Opened::RedactedThinking { data } => {
                self.thought = Some((index, Reasoning { hidden: data, ..Reasoning::default() }));
            }
            Opened::Text { .. } | Opened::Other => {}
        }
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: Delta, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match delta {
            Delta::Words { text } => out.push(ModelEvent::Text(text)),
            Delta::Input { partial_json } => self.calls.write(index, &partial_json)?,
            Delta::Thought { thinking } => {
                if let Some((_, thought)) = &mut self.thought {
                    thought.text.push_str(&thinking);
                }
                out.push(ModelEvent::Reasoning(thinking));
            }
            Delta::Mark { signature } => {
                if let Some((_, thought)) = &mut self.thought {
                    thought.signature.push_str(&signature);
                }
            }
            Delta::Other => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

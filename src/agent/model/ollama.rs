//! The own protocol of Ollama (`/api/chat`): the request as bytes, the answer from the lines of its stream.
//! Pure. It names no calls, so ids are given by whoever keeps the conversation.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::decode::{Calls, Decode};
use super::error::ModelError;
use super::openai::{Tool, Wishes, tools};
use super::usage::Usage;
use super::{ModelEvent, Stop};
use crate::agent::chat::{Chat, Message};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Told<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    options: Options,
}

#[derive(Serialize)]
struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_ctx: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
}

#[derive(Default, Serialize)]
struct Told<'a> {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: Box<RawValue>,
}

/// The request.
pub(super) fn body(chat: &Chat, wishes: &Wishes) -> Result<Vec<u8>, ModelError> {
    let mut messages = Vec::with_capacity(chat.messages.len() + 1);
    if !chat.system.is_empty() {
        messages.push(Told { role: "system", content: chat.system.clone(), ..Told::default() });
    }
    for message in &chat.messages {
        add(message, wishes.sees, &mut messages);
    }
    let options = Options {
        temperature: wishes.temperature,
        num_ctx: wishes.window,
        num_predict: Some(wishes.max_output).filter(|limit| *limit > 0),
    };
    let body = Body { model: &wishes.model, messages, tools: tools(chat), stream: true, options };
    serde_json::to_vec(&body).map_err(|error| ModelError::nonsense(&error.to_string()))
}

fn add<'a>(message: &'a Message, sees: bool, to: &mut Vec<Told<'a>>) {
    match message {
        Message::User(text) => to.push(Told { role: "user", content: text.clone(), ..Told::default() }),
        Message::Model(said) => {
            let calls = said
                .calls
                .iter()
                .map(|call| Call { function: Function { name: &call.name, arguments: call.object() } });
            let (content, tool_calls) = (said.text.clone(), calls.collect());
            to.push(Told { role: "assistant", content, tool_calls, ..Told::default() });
        }
        Message::Results(results) => {
            let mut images = Vec::new();
            for result in results {
                let (content, tool_name) = (result.text(sees), Some(result.name.as_str()));
                to.push(Told { role: "tool", content, tool_name, ..Told::default() });
                images.extend(result.images().filter(|_| sees).map(|(_, base64)| base64));
            }
            if !images.is_empty() {
                let content = "[images of these results, in order]".to_owned();
                to.push(Told { role: "user", content, images, ..Told::default() });
            }
        }
    }
}

#[derive(Deserialize)]
struct Line {
    message: Option<Piece>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    error: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    content: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    tool_calls: Vec<Called>,
}

#[derive(Deserialize)]
struct Called {
    function: CalledFunction,
}

#[derive(Deserialize)]
struct CalledFunction {
    name: String,
    arguments: Option<Box<RawValue>>,
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    calls: Calls,
    seen: u64,
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
        let line: Line = serde_json::from_slice(data)
            .map_err(|_| ModelError::nonsense("with what is no line of Ollama's"))?;
        if let Some(error) = line.error {
            return Err(ModelError::in_stream("", &error));
        }
        if let Some(piece) = line.message {
            if !piece.thinking.is_empty() {
                out.push(ModelEvent::Reasoning(piece.thinking));
            }
            if !piece.content.is_empty() {
                out.push(ModelEvent::Text(piece.content));
            }
            for call in piece.tool_calls {
                let mark = self.seen;
                self.seen += 1;
                self.calls.at(mark)?.name = call.function.name.clone();
                out.push(ModelEvent::Calling(call.function.name));
                if let Some(arguments) = call.function.arguments.filter(|raw| raw.get() != "null") {
                    self.calls.write(mark, arguments.get())?;
                }
            }
        }
        self.usage.input = line.prompt_eval_count.unwrap_or(self.usage.input);
        self.usage.output = line.eval_count.unwrap_or(self.usage.output);
        self.stop = line.done_reason.or(self.stop.take());
        self.over = line.done;
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !self.over {
            return Err(super::endpoint::broke_off());
        }
        out.push(ModelEvent::Usage(self.usage));
        let called = !self.calls.is_empty();
        self.calls.take(out);
        let stop = match self.stop.take().as_deref() {
            _ if called => Stop::Calls,
            None | Some("stop") => Stop::Done,
            Some("length") => Stop::Length,
            Some(other) => Stop::Other(other.to_owned()),
        };
        out.push(ModelEvent::Stop(stop));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests;

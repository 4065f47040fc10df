//! The words of a conversation, as every provider can be told them: what the user says, what the model
//! says and wants called, what came of it. Plain values; `model` writes them for an endpoint, `turn` keeps
//! them in order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// All that one answer of a model depends on.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    /// What the model is told before everything else.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What it may call, in an order that stays.
    pub tools: Arc<Vec<ToolDef>>,
}

/// One tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDef {
    /// `[A-Za-z0-9_-]{1,64}`
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its parameters: a JSON Schema object, canonical.
    pub schema: String,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Of the user.
    User(String),
    /// Of the model.
    Model(Said),
    /// What came of the calls that the message before asked for: one for each, in order.
    Results(Vec<ToolResult>),
}

/// What a model said in one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Words for the user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Its reasoning, where the endpoint wants it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Reasoning>,
    /// What it wants called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
}

impl Said {
    /// Whether there is nothing that an endpoint takes as a message.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty()
    }
}

/// A piece of reasoning as the endpoint wants it back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The endpoint's own mark of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// What the endpoint hides from everybody.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hidden: String,
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in the conversation.
    pub id: String,
    /// The name of a tool, as the model wrote it.
    pub name: String,
    /// The arguments, byte for byte as the model wrote them; meant to be a JSON object.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments where they are JSON; an empty text counts as an empty object, as models mean it.
    pub fn json(&self) -> Option<Box<RawValue>> {
        let text = if self.arguments.trim().is_empty() { "{}" } else { self.arguments.trim() };
        RawValue::from_string(text.to_owned()).ok()
    }

    /// The arguments where they are a JSON object, else an empty one: for endpoints that take nothing else.
    pub fn object(&self) -> Box<RawValue> {
        let object = self.json().filter(|json| json.get().starts_with('{'));
        object.or_else(|| RawValue::from_string("{}".to_owned()).ok()).unwrap_or_default()
    }
}

/// What came of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Of the call.
    pub id: String,
    /// The tool as the model called it.
    pub name: String,
    /// What the model is given.
    pub parts: Vec<Part>,
    /// It failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// A text of ours in place of an answer.
    pub fn ours(call: &ToolCall, text: impl Into<String>) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            parts: vec![Part::Text(text.into())],
            is_error: true,
        }
    }

    /// All texts together, with a line for each image that can't be shown.
    pub fn text(&self, sees: bool) -> String {
        let mut all = String::new();
        for part in &self.parts {
            let line = match part {
                Part::Text(text) => text.clone(),
                Part::Image { .. } if sees => continue,
                Part::Image { mime, base64 } => {
                    format!("[image {mime}, {} bytes: this model is not shown images]", base64.len() * 3 / 4)
                }
            };
            if !all.is_empty() && !all.ends_with('\n') {
                all.push('\n');
            }
            all.push_str(&line);
        }
        if all.trim().is_empty() { "(no text)".to_owned() } else { all }
    }

    /// The images, as media type and base64.
    pub fn images(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Image { mime, base64 } => Some((mime.as_str(), base64.as_str())),
            Part::Text(_) => None,
        })
    }
}

/// A part of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A text; what a server said is in its fence.
    Text(String),
    /// An image that was checked.
    Image {
        /// Its media type.
        mime: String,
        /// The content.
        base64: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall { id: "1".into(), name: "t".into(), arguments: arguments.into() }
    }

    #[test]
    fn arguments_stay_as_they_were_written_and_are_an_object_where_one_must_be() {
        assert_eq!(call(r#"{"n":1.00}"#).object().get(), r#"{"n":1.00}"#);
        assert_eq!(call("").json().unwrap().get(), "{}");
        assert_eq!(call("{broken").json().map(|json| json.get().to_owned()), None);
        assert_eq!((call("[1]").object().get(), call("{broken").object().get()), ("{}", "{}"));
    }

    #[test]
    fn a_model_that_sees_nothing_is_told_what_there_was() {
        let result = ToolResult {
            id: "1".into(),
            name: "t".into(),
            parts: vec![
                Part::Text("a".into()),
                Part::Image { mime: "image/png".into(), base64: "AAAA".into() },
            ],
            is_error: false,
        };
        assert_eq!(result.text(true), "a");
        assert_eq!(result.text(false), "a\n[image image/png, 3 bytes: this model is not shown images]");
        assert_eq!(result.images().count(), 1);
    }
}

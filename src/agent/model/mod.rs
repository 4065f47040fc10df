//! Chat models: one small trait, and behind it three protocols over the HTTP client of this house
//! (`openai`, `anthropic`, `ollama` are pure; `endpoint` carries them), and one that follows a script. An
//! answer is a stream of events; dropping it ends the exchange at once. Called by `engine`.

mod anthropic;
mod decode;
pub mod endpoint;
mod error;
pub mod find;
mod ollama;
mod openai;
mod retry;
pub mod scripted;
mod usage;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::chat::{Chat, Reasoning, ToolCall};
use crate::transport::task::Owned;

pub use error::{ModelError, Trouble};
pub use usage::{Cost, Usage};

/// Events of one answer that may wait to be read.
pub const EVENTS_MAX: usize = 64;

/// What endpoints want of tool definitions, each in its own way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI and most that are like it.
    #[default]
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Gemini, by whatever way: a small part of JSON Schema.
    Gemini,
}

/// What is known of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The word of its provider.
    pub provider: &'static str,
    /// As the endpoint calls it.
    pub name: String,
    /// Tokens that it looks at; `None` when nobody knows.
    pub window: Option<u64>,
    /// Whether it is shown images.
    pub sees: bool,
    /// What it wants of definitions.
    pub dialect: Dialect,
}

/// A chat model.
pub trait Model: Send + Sync + fmt::Debug {
    /// What is known of it.
    fn about(&self) -> &About;

    /// Asks for the next answer. Must be called within a tokio runtime; returns at once.
    fn answer(&self, chat: Arc<Chat>) -> Answer;
}

/// What a model says, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelEvent {
    /// Words for the user.
    Text(String),
    /// Words of its reasoning.
    Reasoning(String),
    /// A piece of reasoning is whole, as it has to be sent back.
    Reasoned(Reasoning),
    /// It writes a call of this name; the call comes when it is whole.
    Calling(String),
    /// A call, whole.
    Call(ToolCall),
    /// What was used so far; the last one counts.
    Usage(Usage),
    /// The endpoint refused for a while, or was not reached; the same is sent again after `wait`. Nothing
    /// was said before.
    Again {
        /// Counts from 1.
        attempt: u32,
        /// How long.
        wait: Duration,
        /// Why.
        why: String,
    },
    /// The end, and why.
    Stop(Stop),
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is done.
    Done,
    /// It wants calls.
    Calls,
    /// It reached the limit of its output.
    Length,
    /// The endpoint kept it from going on.
    Filtered,
    /// Something else, in the endpoint's word.
    Other(String),
}

/// One answer on its way. Dropped, it ends.
#[derive(Debug)]
pub struct Answer {
    events: mpsc::Receiver<Result<ModelEvent, ModelError>>,
    /// Lives as long as somebody reads.
    _task: Option<Owned>,
}

impl Answer {
    /// An answer that this task writes.
    pub fn new(events: mpsc::Receiver<Result<ModelEvent, ModelError>>, task: Option<Owned>) -> Self {
        Self { events, _task: task }
    }

    /// The next event; `None` after [`ModelEvent::Stop`] or an error.
    pub async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        self.events.recv().await
    }
}

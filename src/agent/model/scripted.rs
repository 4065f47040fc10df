//! A model that follows a script: it answers one list of events after the other, and keeps what it was
//! asked. For tests and for tours; it reaches nobody.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc};

use super::{About, Answer, EVENTS_MAX, Model, ModelError, ModelEvent, Stop, Trouble};
use crate::agent::chat::{Chat, ToolCall};
use crate::transport::task;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// An event.
    Event(ModelEvent),
    /// It fails.
    Fail(ModelError),
    /// It says nothing more until somebody rings.
    Until(Arc<Notify>),
}

/// A model that follows a script.
#[derive(Debug, Default)]
pub struct Scripted {
    about: About,
    answers: Mutex<VecDeque<Vec<Step>>>,
    asked: Mutex<Vec<Arc<Chat>>>,
}

impl Scripted {
    /// One that answers so, one answer after the other; then it says that its script is at its end.
    pub fn new(answers: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let about = About {
            provider: "scripted",
            name: "scripted".to_owned(),
            window: Some(128_000),
            sees: true,
            ..About::default()
        };
        let answers = Mutex::new(answers.into_iter().collect());
        Self { about, answers, asked: Mutex::default() }
    }

    /// The same with other traits.
    #[must_use]
    pub fn known_as(mut self, change: impl FnOnce(&mut About)) -> Self {
        change(&mut self.about);
        self
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Arc<Chat>> {
        self.asked.lock().map(|asked| asked.clone()).unwrap_or_default()
    }
}

/// An answer of words alone.
pub fn says(text: &str) -> Vec<Step> {
    vec![Step::Event(ModelEvent::Text(text.to_owned())), Step::Event(ModelEvent::Stop(Stop::Done))]
}

/// An answer that calls tools, as id, name and arguments.
pub fn calls(calls: &[(&str, &str, &str)]) -> Vec<Step> {
    let call = |(id, name, arguments): &(&str, &str, &str)| {
        Step::Event(ModelEvent::Call(ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        }))
    };
    calls.iter().map(call).chain([Step::Event(ModelEvent::Stop(Stop::Calls))]).collect()
}

impl Model for Scripted {
    fn about(&self) -> &About {
        &self.about
    }

    fn answer(&self, chat: Arc<Chat>) -> Answer {
        if let Ok(mut asked) = self.asked.lock() {
            asked.push(chat);
        }
        let next = self.answers.lock().ok().and_then(|mut answers| answers.pop_front());
        let over = ModelError::new(Trouble::BadRequest, "the script has no further answer");
        let steps = next.unwrap_or_else(|| vec![Step::Fail(over)]);
        let (out, events) = mpsc::channel(EVENTS_MAX);
        let told = async move {
            for step in steps {
                let said = match step {
                    Step::Until(bell) => {
                        bell.notified().await;
                        continue;
                    }
                    Step::Event(event) => Ok(event),
                    Step::Fail(error) => Err(error),
                };
                if out.send(said).await.is_err() {
                    return;
                }
            }
        };
        Answer::new(events, Some(task::spawn(told)))
    }
}

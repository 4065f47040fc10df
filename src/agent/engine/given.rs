//! What the model is given of what a server said: shaped, fenced, capped; what was cut is kept whole and can
//! be read on in pages.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::agent::chat::Part;
use crate::fence_id;
use crate::outputs::{OutputId, Outputs};
use crate::shaping::fence::Source;
use crate::shaping::model::{self, ForModel, Prepared, Said, page, prepare};
use crate::telemetry::Redaction;
use crate::transport::task;

/// Results that were cut, while the conversation lasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    home: Option<PathBuf>,
    outputs: Arc<Mutex<Option<Outputs>>>,
}

/// Parts for the model, and what the user is told of them.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) parts: Vec<Part>,
    pub(super) is_error: bool,
    pub(super) notes: Vec<String>,
}

impl Kept {
    pub(super) fn new(home: Option<PathBuf>) -> Self {
        Self { home, outputs: Arc::default() }
    }

    async fn keep(&self, text: String) -> Option<OutputId> {
        let (home, outputs) = (self.home.clone()?, self.outputs.clone());
        let kept = move || {
            let mut outputs = outputs.lock().ok()?;
            if outputs.is_none() {
                *outputs = Outputs::open(&home).ok();
            }
            outputs.as_mut()?.keep(&text).ok()
        };
        task::blocking(kept).await.flatten()
    }

    async fn read(&self, id: u64) -> Option<String> {
        let outputs = self.outputs.clone();
        let read = move || outputs.lock().ok()?.as_ref()?.read(OutputId(id)).ok().flatten();
        task::blocking(read).await.flatten()
    }

    /// What something that a server said becomes.
    pub(super) async fn give(
        &self,
        said: Said<'_>,
        source: &Source,
        redaction: &Redaction,
        max: usize,
    ) -> Given {
        let prepared = prepare(said, &redaction.now(), max);
        let (text, whole) = (prepared.text().to_owned(), prepared.whole().map(str::to_owned));
        let mut given = fenced(prepared, source);
        if let Some(whole) = whole {
            let from = text.rfind("[mcp output truncated:").unwrap_or(text.len()).saturating_sub(1);
            let note = match self.keep(whole).await {
                Some(id) => format!(
                    "[cut; the whole is kept: mcp_read_output {{\"id\":{},\"offset\":{from}}} reads on; with \
                     mcp_call_tool, server \"callboard\"]",
                    id.0
                ),
                None => "[cut; the rest is not kept: ask for less]".to_owned(),
            };
            given.parts.push(Part::Text(note));
        }
        given
    }

    /// A page of what was kept.
    pub(super) async fn page(&self, id: u64, offset: usize, max: usize) -> Result<Given, String> {
        let Some(text) = self.read(id).await else { return Err(format!("no result {id} is kept")) };
        Ok(fenced(page(&text, offset, max), &Source::new("callboard", "read_output")))
    }
}

fn fenced(prepared: Prepared, source: &Source) -> Given {
    // The text is complete: only now has the fence a name.
    match fence_id::draw() {
        Ok(id) => given(prepared.fenced(source, id)),
        Err(error) => Given {
            parts: vec![Part::Text(format!(
                "the system gives no random numbers, so there is no fence: {error}"
            ))],
            is_error: true,
            notes: Vec::new(),
        },
    }
}

fn given(given: ForModel) -> Given {
    let parts = given.parts.into_iter().map(|part| match part {
        model::Part::Text(text) => Part::Text(text),
        model::Part::Image(image) => Part::Image { mime: image.mime.to_owned(), base64: image.base64 },
    });
    Given { parts: parts.collect(), is_error: given.is_error, notes: given.notes }
}

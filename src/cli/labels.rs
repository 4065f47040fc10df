//! Floor 5. Labels of tools as they are shown: for whoever lists, reviews, explains or approves one.
//! Pure but for the cleaning.

use serde::Serialize;

use super::ctx::Ctx;
use crate::catalog::items::Item;
use crate::catalog::lint::{Others, labels};
use crate::catalog::merge::Catalog;

/// One label in `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct LabelView {
    /// What it is about: `hidden`, `tag`, `imperative`, `other_name`, `secret_path`, `parameter`,
    /// `base64` or `long`.
    pub kind: &'static str,
    /// Where in the definition.
    pub path: String,
    /// First byte of the decoded text there.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
    /// One sentence.
    pub text: String,
}

impl LabelView {
    /// The label as a line for a person.
    pub fn line(&self) -> String {
        format!("{}: {}", self.path, self.text)
    }
}

/// What all servers of a catalogue are called and offer.
pub fn others(catalog: &Catalog) -> Others {
    let tools =
        catalog.routes.iter().flat_map(|(server, tools)| tools.keys().map(move |tool| (server, tool)));
    Others::of(
        tools.map(|(server, tool)| (server.as_str(), tool.as_str(), catalog.exposed_name(server, tool))),
    )
}

/// The labels of one tool, cleaned.
pub fn of(clean: &dyn Fn(&str) -> String, server: &str, item: &Item, others: &Others) -> Vec<LabelView> {
    let found = labels(server, item, others).into_iter();
    found
        .map(|label| LabelView {
            kind: label.kind.as_str(),
            path: clean(&label.path),
            start: label.span.start,
            end: label.span.end,
            text: clean(&label.text),
        })
        .collect()
}

/// The labels of a tool as lines, for a question about it.
pub fn lines(ctx: &Ctx, catalog: &Catalog, server: &str, item: &Item) -> Vec<String> {
    let found = of(&|text| ctx.clean(text), server, item, &others(catalog));
    found.iter().map(LabelView::line).collect()
}

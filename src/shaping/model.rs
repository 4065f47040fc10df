//! What a model is given of something that a server said: one text in one fence, and images as
//! parts of their own. Redacted, sanitised, capped, then fenced, in this order. Fetches
//! nothing. Called by whatever puts a model's context together; `mcp call --as-model` shows it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::caps::{self, NOTICE_LEN_MAX};
use super::fence::{Clean, FenceId, Source};
use super::redact::Redactor;
use super::render::{BinaryPart, BlockKind, RenderedBlock, raw_prompt, raw_resource, raw_result, size};
use super::sanitise::visible;

/// Something that a server said, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// The `result` of `tools/call`.
    Result(&'a [u8]),
    /// The `result` of `resources/read`.
    Resource(&'a [u8]),
    /// The `result` of `prompts/get`.
    Prompt(&'a [u8]),
    /// The `error` of any answer.
    Error(&'a [u8]),
    /// Words: a description, instructions, the end of stderr, a message that quotes one of them.
    Words(&'a str),
}

/// One part of what a model is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A text in its fence.
    Text(String),
    /// An image.
    Image(Image),
}

/// An image, checked by its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What it is, whatever the server said.
    pub mime: &'static str,
    /// The content in canonical base64.
    pub base64: String,
}

/// What a model is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForModel {
    /// One fenced text, then the images that it names, in order.
    pub parts: Vec<Part>,
    /// The server said that it failed.
    pub is_error: bool,
    /// What was changed or left out, in words of ours.
    pub notes: Vec<String>,
}

impl ForModel {
    /// The same as one text: the fence alone, or a JSON object with the images as data URLs in
    /// `image_0`, `image_1` … and the fence in `text`. A text of a server is inside the fence, so
    /// none can be taken for such an object.
    pub fn as_text(&self) -> String {
        let mut object = serde_json::Map::new();
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(fenced) => text.push_str(fenced),
                Part::Image(image) => {
                    let url = format!("data:{};base64,{}", image.mime, image.base64);
                    object.insert(format!("image_{}", object.len()), Value::from(url));
                }
            }
        }
        if object.is_empty() {
            return text;
        }
        object.insert("text".to_owned(), Value::from(text));
        Value::Object(object).to_string()
    }
}

/// Everything but the fence: complete, so that an id can be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    text: Clean,
    images: Vec<Image>,
    is_error: bool,
    notes: Vec<String>,
    whole: Option<String>,
}

impl Prepared {
    /// The text before it was cut, sanitised, to be kept for `page`; `None` when it was not cut.
    pub fn whole(&self) -> Option<&str> {
        self.whole.as_deref()
    }

    /// The text that stands in the fence.
    pub fn text(&self) -> &str {
        self.text.text()
    }

    /// Another word of ours.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Puts the fence around it. The id must have been drawn after this was prepared.
    pub fn fenced(self, source: &Source, id: FenceId) -> ForModel {
        let mut parts = vec![Part::Text(self.text.fenced(source, id))];
        parts.extend(self.images.into_iter().map(Part::Image));
        ForModel { parts, is_error: self.is_error, notes: self.notes }
    }
}

/// Makes of something that a server said what a model may be given: at most `result_max` bytes of
/// text and images together, line of the notice included. The rest of a text that is cut is in
/// `whole`.
pub fn prepare(said: Said<'_>, redactor: &Redactor, result_max: usize) -> Prepared {
    let mut draft = Draft::of(said, result_max);
    let lengths: usize = draft.blocks.iter().map(|(text, _)| text.len() + 1).sum();
    let mut left = result_max.saturating_sub(lengths);
    let mut total_images = draft.too_large;
    let mut images = Vec::new();
    let mut text = String::with_capacity(lengths);
    for (block, image) in draft.blocks {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let Some(image) = image else {
            text.push_str(&block);
            continue;
        };
        let len = image.base64.len();
        total_images += len;
        let what = format!("{}, {}", image.mime, size(image.base64.trim_end_matches('=').len() * 3 / 4));
        if len <= left {
            text.push_str(&format!("[image_{}: {what}]", images.len()));
            left -= len;
            images.push(image);
        } else {
            text.push_str(&format!("[image {what}, left out: over the cap]"));
            draft.notes.push("an image over the cap was left out".to_owned());
        }
    }
    let kept_images = images.iter().map(|image| image.base64.len()).sum();
    let clean = clean(&text, redactor);
    let sizes = Sizes { total_images, kept_images, result_max };
    let (text, whole, mut notes) = capped(clean, &sizes);
    notes.splice(0..0, text.found().notes());
    notes.splice(0..0, draft.notes);
    Prepared { text, images, is_error: draft.is_error, notes, whole }
}

/// A page of a text that was kept: what the built-in `mcp_read_output` gives a model. `kept` is a
/// `whole` of before; a page ends with a line that says where it stands in it.
pub fn page(kept: &str, offset: usize, limit: usize) -> Prepared {
    let span = caps::page(kept, offset, limit);
    let mut text = kept[span.clone()].to_owned();
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("[mcp output: bytes {} to {} of {}]", span.start, span.end, kept.len()));
    let text = Clean::new(&text);
    let notes = text.found().notes();
    Prepared { text, images: Vec::new(), is_error: false, notes, whole: None }
}

/// No secret and nothing hidden, so that neither hides the other; then sanitised.
fn clean(text: &str, redactor: &Redactor) -> Clean {
    let (text, found) = visible(text);
    Clean::new(&redactor.text(&text)).and_found(found)
}

struct Sizes {
    total_images: usize,
    kept_images: usize,
    result_max: usize,
}

/// The text within the cap; the whole of it and a note when something is left out.
fn capped(clean: Clean, sizes: &Sizes) -> (Clean, Option<String>, Vec<String>) {
    let whole = clean.text();
    let total = whole.len() + sizes.total_images;
    let room = sizes.result_max.saturating_sub(sizes.kept_images);
    if whole.len() <= room && sizes.kept_images == sizes.total_images {
        return (clean, None, Vec::new());
    }
    let at = caps::cut_at(whole, room.saturating_sub(NOTICE_LEN_MAX + 1));
    let notice = caps::notice(total, at + sizes.kept_images);
    let gap = if at == 0 || whole[..at].ends_with('\n') { "" } else { "\n" };
    let cut = Clean::new(&format!("{}{gap}{notice}", &whole[..at])).and_found(clean.found());
    if at == whole.len() {
        return (cut, None, Vec::new());
    }
    let note = format!("cut after {at} of {} bytes of text", whole.len());
    (cut, Some(whole.to_owned()), vec![note])
}

/// Blocks in order: a text, or an image with the words that stand for it.
struct Draft {
    blocks: Vec<(String, Option<Image>)>,
    is_error: bool,
    notes: Vec<String>,
    /// Bytes of images that nobody looked into, because they are over the cap alone.
    too_large: usize,
}

impl Draft {
    fn of(said: Said<'_>, result_max: usize) -> Self {
        let rendered = match said {
            Said::Result(result) => raw_result(result),
            Said::Resource(result) => raw_resource(result),
            Said::Prompt(result) => raw_prompt(result),
            Said::Error(error) => return Self::words(error_text(error), true),
            Said::Words(words) => return Self::words(words.to_owned(), false),
        };
        let mut draft =
            Self { blocks: Vec::new(), is_error: rendered.is_error, notes: Vec::new(), too_large: 0 };
        let mut blocks = rendered.blocks;
        if draft.is_error {
            let all = blocks.len();
            keep_text_only(&mut blocks);
            if blocks.len() < all {
                draft
                    .notes
                    .push(format!("{} parts of an error that are no text left out", all - blocks.len()));
            }
            if blocks.is_empty() {
                return Self { blocks: vec![("(no text)".to_owned(), None)], ..draft };
            }
        }
        for block in blocks {
            draft.add(block, result_max);
        }
        draft
    }

    fn words(text: String, is_error: bool) -> Self {
        let text = if text.trim().is_empty() { "(no text)".to_owned() } else { text };
        Self { blocks: vec![(text, None)], is_error, notes: Vec::new(), too_large: 0 }
    }

    fn add(&mut self, block: RenderedBlock, result_max: usize) {
        let image = match (block.kind, &block.binary) {
            (BlockKind::Image, Some(part)) => self.image(part, result_max),
            (BlockKind::Role, _) => {
                let role = block.text.trim_end_matches(':');
                return self.blocks.push((format!("[{role}]"), None));
            }
            _ => None,
        };
        self.blocks.push((block.text, image));
    }

    /// The image, if it is one that models are given; else a note why not.
    fn image(&mut self, part: &BinaryPart, result_max: usize) -> Option<Image> {
        if part.base64.len() > result_max.saturating_mul(2) {
            self.notes.push("an image over the cap was left out".to_owned());
            self.too_large += part.base64.len();
            return None;
        }
        let Ok(bytes) = part.decode() else {
            self.notes.push("an image was left out: its base64 is broken".to_owned());
            return None;
        };
        let Some(mime) = image_kind(&bytes) else {
            self.notes.push("an image was left out: it is no PNG, JPEG, GIF or WebP".to_owned());
            return None;
        };
        if !part.mime.trim().eq_ignore_ascii_case(mime) {
            self.notes.push(format!("an image is {mime}, and its type says something else"));
        }
        Some(Image { mime, base64: STANDARD.encode(bytes) })
    }
}

/// What an image is by its first bytes.
fn image_kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// An error keeps its text; JSON only where there is none.
fn keep_text_only(blocks: &mut Vec<RenderedBlock>) {
    let has_text = blocks.iter().any(|block| block.kind == BlockKind::Text);
    blocks.retain(|block| match block.kind {
        BlockKind::Text => true,
        BlockKind::Json => !has_text,
        _ => false,
    });
}

/// Number, message and data of an error.
fn error_text(error: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(error) else {
        return String::from_utf8_lossy(error).into_owned();
    };
    let message = value.get("message").and_then(Value::as_str).unwrap_or("without a message");
    let mut text = match value.get("code").and_then(Value::as_i64) {
        Some(code) => format!("error {code}: {message}"),
        None => format!("error: {message}"),
    };
    if let Some(data) = value.get("data").filter(|data| !data.is_null()) {
        text.push('\n');
        text.push_str(&data.as_str().map_or_else(|| data.to_string(), str::to_owned));
    }
    text
}

#[cfg(test)]
mod tests;

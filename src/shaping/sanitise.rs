//! Makes text of a server harmless for a model, mechanically: hidden characters go, tokens of
//! chat templates and what resembles a marker of the fence become words of ours. Says nothing
//! about what a text wants. Linear time, idempotent, at most four times as long. Called by
//! `model` for everything that a server said.

use std::borrow::Cow;
use std::ops::Range;

use super::detect::View;
use super::{hidden, markers, tokens};

/// What stands where a token of a chat template was.
pub const TOKEN: &str = "[chat token]";
/// What stands where something resembled a marker of the fence.
pub const MARKER: &str = "[marker]";
/// Rounds until nothing is left; a second one finds at most what the first one uncovered.
const ROUNDS_MAX: usize = 8;

/// Adds where something of a kind stands in the bytes of a view.
type Find = fn(&[u8], &mut Vec<Range<usize>>);

/// How much was taken out of a text, or replaced in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Hidden characters.
    pub hidden: usize,
    /// Tokens of chat templates.
    pub tokens: usize,
    /// What resembled a marker of the fence.
    pub markers: usize,
}

impl Found {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            hidden: self.hidden + other.hidden,
            tokens: self.tokens + other.tokens,
            markers: self.markers + other.markers,
        }
    }

    /// One sentence for each kind.
    pub fn notes(self) -> Vec<String> {
        let of = |count: usize, one: &str, many: &str, what: &str| {
            (count > 0).then(|| format!("{count} {} {what}", if count == 1 { one } else { many }))
        };
        [
            of(self.hidden, "hidden character", "hidden characters", "removed"),
            of(self.tokens, "chat-template token", "chat-template tokens", "replaced"),
            of(self.markers, "imitation", "imitations", "of the fence's markers replaced"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The text without anything hidden: for what is looked through before it is sanitised.
pub fn visible(text: &str) -> (Cow<'_, str>, Found) {
    let (text, hidden) = hidden::strip(text);
    (text, Found { hidden, ..Found::default() })
}

/// The text as a model may read it, and what was done to it.
pub fn sanitise(text: &str) -> (Cow<'_, str>, Found) {
    let (mut text, mut found) = visible(text);
    for _ in 0..ROUNDS_MAX {
        let Some((replaced, more)) = replace(&text) else { break };
        // A joiner beside what was replaced may have nothing to join any more.
        let (clean, hidden) = visible(&replaced);
        found = found.and(more).and(hidden);
        text = Cow::Owned(clean.into_owned());
    }
    (text, found)
}

/// Where tokens and markers stand in a text, and what a view of it adds.
#[derive(Default)]
struct Spans {
    markers: Vec<Range<usize>>,
    tokens: Vec<Range<usize>>,
}

impl Spans {
    fn of(text: &str) -> Self {
        let mut spans = Self::default();
        View::each(text, |view| {
            for (find, list) in
                [(markers::find as Find, &mut spans.markers), (tokens::find, &mut spans.tokens)]
            {
                let from = list.len();
                find(&view.bytes, list);
                let Some(new) = list.get_mut(from..) else { continue };
                new.sort_by_key(|span| span.start);
                view.in_text(new);
            }
        });
        for list in [&mut spans.markers, &mut spans.tokens] {
            list.sort_by_key(Self::order);
        }
        spans
    }

    fn order(span: &Range<usize>) -> (usize, std::cmp::Reverse<usize>) {
        (span.start, std::cmp::Reverse(span.end))
    }

    /// All in order, each with whether it is a marker: a marker before a token at the same place.
    fn merged(&self) -> impl Iterator<Item = (&Range<usize>, bool)> {
        let (mut markers, mut tokens) = (self.markers.iter().peekable(), self.tokens.iter().peekable());
        std::iter::from_fn(move || {
            let marker_first = match (markers.peek(), tokens.peek()) {
                (Some(marker), Some(token)) => Self::order(marker) <= Self::order(token),
                (marker, _) => marker.is_some(),
            };
            let next = if marker_first { markers.next() } else { tokens.next() };
            next.map(|span| (span, marker_first))
        })
    }
}

/// The text with words of ours for tokens and markers; `None` when it has none.
fn replace(text: &str) -> Option<(String, Found)> {
    let found = Spans::of(text);
    let mut spans = found.merged().peekable();
    spans.peek()?;
    let mut out = String::with_capacity(text.len());
    let mut counts = Found::default();
    let mut at = 0;
    while let Some((span, is_marker)) = spans.next() {
        let mut end = span.end;
        while let Some((more, _)) = spans.next_if(|(next, _)| next.start < end) {
            end = end.max(more.end);
        }
        out.push_str(text.get(at..span.start).unwrap_or_default());
        out.push_str(if is_marker { MARKER } else { TOKEN });
        at = end;
        *(if is_marker { &mut counts.markers } else { &mut counts.tokens }) += 1;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Some((out, counts))
}

#[cfg(test)]
mod tests;

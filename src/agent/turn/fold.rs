//! Makes the conversation of its entries. Whatever the entries are, and wherever they end, it comes out in a
//! form that every endpoint takes: it begins with the user, roles alternate, each call has exactly one
//! result right behind it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::Entry;
use crate::agent::chat::{Message, Part, Said, ToolCall, ToolResult};
use crate::agent::model::Usage;

/// What a model is told of a call of which nobody knows the end.
pub const UNFINISHED: &str =
    "not finished: the session ended before there was an answer; whether it ran is not known";
/// What stands where nothing was said.
const NOTHING: &str = "(no text)";
/// How a summary begins.
pub const SUMMARY: &str = "[Earlier parts of this conversation were left out to make room. Summary:]";

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    messages: Vec<Message>,
    /// The calls of the last message, with what came of them so far.
    open: Vec<(ToolCall, Option<ToolResult>)>,
    ids: BTreeSet<String>,
    /// What all answers used.
    pub usage: Usage,
    /// What the last answer used: its input is how long the conversation really was.
    pub last_usage: Option<Usage>,
    /// What was said by the user, in turns.
    pub turns: u32,
}

impl Conversation {
    /// The conversation of these entries.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut all = Self::default();
        for entry in entries {
            all.add(entry);
        }
        all
    }

    /// The messages as an endpoint is told them: calls that have no result yet have one that says so.
    pub fn messages(&self) -> Vec<Message> {
        let mut all = self.clone();
        all.close();
        all.messages
    }

    /// Calls that still have no result.
    pub fn unanswered(&self) -> Vec<&ToolCall> {
        self.open.iter().filter(|(_, result)| result.is_none()).map(|(call, _)| call).collect()
    }

    /// Whether a call of that id is in it.
    pub fn knows(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// The last words of the model.
    pub fn last_words(&self) -> Option<&str> {
        self.messages.iter().rev().find_map(|message| match message {
            Message::Model(said) if !said.text.is_empty() => Some(said.text.as_str()),
            _ => None,
        })
    }

    /// Adds what happened.
    pub fn add(&mut self, entry: &Entry) {
        match entry {
            Entry::User { text } => {
                self.turns += 1;
                self.user(text);
            }
            Entry::Context { text } => self.user(text),
            Entry::Said { said, usage, .. } => {
                if let Some(usage) = usage {
                    self.usage = self.usage.and(*usage);
                    self.last_usage = Some(*usage);
                }
                self.said(said.clone());
            }
            Entry::Result { result, .. } => self.result(result.clone()),
            Entry::Trimmed { calls } => self.trim(calls),
            Entry::Compacted { keep, summary } => self.compact(*keep, summary),
            Entry::Begun { .. }
            | Entry::Approval { .. }
            | Entry::Failed { .. }
            | Entry::Cancelled {}
            | Entry::Limit { .. } => {}
        }
    }

    fn user(&mut self, text: &str) {
        self.close();
        let text = if text.trim().is_empty() { NOTHING } else { text };
        match self.messages.last_mut() {
            Some(Message::User(before)) => {
                before.push_str("\n\n");
                before.push_str(text);
            }
            _ => self.messages.push(Message::User(text.to_owned())),
        }
    }

    fn said(&mut self, mut said: Said) {
        self.close();
        let ids = &mut self.ids;
        said.calls.retain(|call| !call.id.is_empty() && ids.insert(call.id.clone()));
        if said.is_empty() {
            return;
        }
        if self.messages.is_empty() {
            self.messages.push(Message::User(NOTHING.to_owned()));
        }
        self.open = said.calls.iter().map(|call| (call.clone(), None)).collect();
        match self.messages.last_mut() {
            // It was asked to go on.
            Some(Message::Model(before)) => {
                before.text.push_str(&said.text);
                before.reasoning.append(&mut said.reasoning);
                before.calls.append(&mut said.calls);
            }
            _ => self.messages.push(Message::Model(said)),
        }
    }

    fn result(&mut self, result: ToolResult) {
        let slot = self.open.iter_mut().find(|(call, known)| call.id == result.id && known.is_none());
        if let Some((call, known)) = slot {
            *known = Some(ToolResult { name: call.name.clone(), ..result });
        }
        if !self.open.is_empty() && self.open.iter().all(|(_, known)| known.is_some()) {
            self.close();
        }
    }

    /// The results of the last calls become a message; what has none is said to have none.
    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let results = std::mem::take(&mut self.open).into_iter();
        let results =
            results.map(|(call, known)| known.unwrap_or_else(|| ToolResult::ours(&call, UNFINISHED)));
        self.messages.push(Message::Results(results.collect()));
    }

    fn trim(&mut self, calls: &[String]) {
        let gone: BTreeSet<&str> = calls.iter().map(String::as_str).collect();
        for message in &mut self.messages {
            let Message::Results(results) = message else { continue };
            for result in results.iter_mut().filter(|result| gone.contains(result.id.as_str())) {
                let bytes: usize = result.parts.iter().map(size).sum();
                let text =
                    format!("[a result of {bytes} bytes, left out to make room; call again if it is needed]");
                result.parts = vec![Part::Text(text)];
            }
        }
    }

    fn compact(&mut self, keep: usize, summary: &str) {
        let open = std::mem::take(&mut self.open);
        let mut from = self.messages.len().saturating_sub(keep);
        // Results never stand without their calls.
        while from > 0 && matches!(self.messages.get(from), Some(Message::Results(_))) {
            from -= 1;
        }
        let kept = self.messages.split_off(from);
        self.messages = vec![Message::User(format!("{SUMMARY}\n{summary}"))];
        for message in kept {
            match message {
                Message::User(text) => {
                    let Some(Message::User(first)) = self.messages.last_mut() else {
                        self.messages.push(Message::User(text));
                        continue;
                    };
                    first.push_str("\n\n");
                    first.push_str(&text);
                }
                other => self.messages.push(other),
            }
        }
        // The calls that run belong to the last message: it stays if they do.
        if matches!(self.messages.last(), Some(Message::Model(said)) if !said.calls.is_empty()) {
            self.open = open;
        }
    }
}

/// Bytes of one part.
pub(super) fn size(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::Image { base64, .. } => base64.len(),
    }
}

/// What is wrong with messages, as the strictest endpoint would say; `None` when nothing is.
pub fn fault(messages: &[Message]) -> Option<String> {
    let mut ids = BTreeSet::new();
    let mut wanted: BTreeMap<&str, ()> = BTreeMap::new();
    for (at, message) in messages.iter().enumerate() {
        if at == 0 && !matches!(message, Message::User(_)) {
            return Some("the first message is not the user's".to_owned());
        }
        match message {
            Message::Results(results) => {
                for result in results {
                    if wanted.remove(result.id.as_str()).is_none() {
                        return Some(format!("message {at}: a result of no call: {}", result.id));
                    }
                }
                if !wanted.is_empty() || results.is_empty() {
                    return Some(format!("message {at}: calls without results"));
                }
            }
            _ if !wanted.is_empty() => return Some(format!("message {at}: calls without results")),
            Message::User(text) => {
                if text.trim().is_empty()
                    || matches!(messages.get(at.wrapping_sub(1)), Some(Message::User(_)))
                {
                    return Some(format!("message {at}: empty, or twice the user"));
                }
            }
            Message::Model(said) => {
                if said.is_empty() || matches!(messages.get(at.wrapping_sub(1)), Some(Message::Model(_))) {
                    return Some(format!("message {at}: empty, or twice the model"));
                }
                for call in &said.calls {
                    if !ids.insert(call.id.as_str()) {
                        return Some(format!("message {at}: the id {} twice", call.id));
                    }
                    wanted.insert(&call.id, ());
                }
            }
        }
    }
    (!wanted.is_empty()).then(|| "calls without results at the end".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "t".into(), arguments: "{}".into() }
    }

    fn said(text: &str, ids: &[&str]) -> Entry {
        let calls = ids.iter().map(|id| call(id)).collect();
        Entry::Said {
            said: Said { text: text.into(), calls, ..Said::default() },
            stop: "done".into(),
            usage: None,
        }
    }

    fn result(id: &str) -> Entry {
        let result = ToolResult {
            id: id.into(),
            name: "t".into(),
            parts: vec![Part::Text("r".into())],
            is_error: false,
        };
        Entry::Result { result, server: None, elapsed_ms: 0 }
    }

    fn user(text: &str) -> Entry {
        Entry::User { text: text.into() }
    }

    #[test]
    fn calls_that_nobody_answered_have_an_answer_that_says_so() {
        let entries = [user("hi"), said("", &["a", "b"]), result("b")];
        let open = Conversation::of(&entries);
        assert_eq!(open.unanswered(), [&call("a")]);
        let messages = open.messages();
        let Some(Message::Results(results)) = messages.last() else { panic!("{messages:?}") };
        assert_eq!((results[0].text(true).as_str(), results[1].text(true).as_str()), (UNFINISHED, "r"));
        let resumed = Conversation::of(entries.iter().chain(&[user("go on"), result("a"), result("b")]));
        assert_eq!(fault(&resumed.messages()), None);
        assert_eq!(resumed.messages().len(), 4, "late results change nothing");
    }

    #[test]
    fn room_is_made_without_parting_a_result_from_its_call() {
        let entries =
            [user("one"), said("", &["a"]), result("a"), said("done", &[]), user("two"), said("", &["b"])];
        for keep in 0..9 {
            let mut all = Conversation::of(&entries);
            all.add(&Entry::Compacted { keep, summary: "so far".into() });
            assert_eq!(fault(&all.messages()), None, "{keep}");
            all.add(&result("b"));
            all.add(&user("three"));
            assert_eq!(fault(&all.messages()), None, "{keep}");
            let Message::User(first) = &all.messages()[0] else { panic!() };
            assert!(first.starts_with(SUMMARY));
        }
        let mut all = Conversation::of(&entries);
        all.add(&Entry::Trimmed { calls: vec!["a".into()] });
        let Message::Results(results) = &all.messages()[2] else { panic!() };
        assert!(results[0].text(true).contains("1 bytes, left out"));
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        let id = prop::sample::select(vec!["", "a", "b", "c", "d"]);
        let text = prop::sample::select(vec!["", " ", "x", "yy"]);
        prop_oneof![
            text.clone().prop_map(user),
            text.clone().prop_map(|text| Entry::Context { text: text.into() }),
            (text.clone(), prop::collection::vec(id.clone(), 0..4)).prop_map(|(text, ids)| said(text, &ids)),
            (text, prop::collection::vec(id.clone(), 0..4)).prop_map(|(text, ids)| said(text, &ids)),
            id.clone().prop_map(result),
            id.clone().prop_map(result),
            id.prop_map(|id| Entry::Trimmed { calls: vec![id.into()] }),
            (0usize..6).prop_map(|keep| Entry::Compacted { keep, summary: "s".into() }),
            Just(Entry::Cancelled {}),
            Just(Entry::Failed { code: "x".into(), message: "y".into() }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]
        #[test]
        fn after_any_prefix_every_endpoint_takes_the_conversation(entries in prop::collection::vec(any_entry(), 0..24)) {
            for end in 0..=entries.len() {
                let messages = Conversation::of(&entries[..end]).messages();
                prop_assert_eq!(fault(&messages), None, "{:?}", messages);
            }
        }
    }
}

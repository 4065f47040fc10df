//! Demo server `notes`: keeps notes in memory; tools, a resource, a template, a prompt.
//! Called through `peer`.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::peer::{Answer, Call, Server};

/// Notes kept at most.
const NOTES_MAX: usize = 1000;

/// Longest note, in characters.
const NOTE_LEN_MAX: usize = 2000;

/// URI of all notes as one text; with `/N` behind it, of one note.
const ALL: &str = "notes://all";

#[derive(Default)]
pub(super) struct Notes {
    kept: Mutex<Vec<String>>,
}

impl Notes {
    fn with<T>(&self, f: impl FnOnce(&mut Vec<String>) -> T) -> T {
        f(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, arguments: &Map<String, Value>) -> Answer {
        let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default().trim();
        if text.is_empty() || text.chars().count() > NOTE_LEN_MAX {
            return Answer::refused(format!("text must have 1 to {NOTE_LEN_MAX} characters"));
        }
        self.with(|kept| {
            if kept.len() == NOTES_MAX {
                return Answer::refused(format!("there are {NOTES_MAX} notes already"));
            }
            kept.push(text.to_owned());
            Answer::text(format!("note {} kept", kept.len()), Some(json!({"number": kept.len()})))
        })
    }

    /// Notes that contain `query`, in any case; all when it is empty.
    fn find(&self, query: &str) -> Answer {
        let wanted = query.to_lowercase();
        let numbered: Vec<(usize, String)> = self.with(|kept| {
            let all = kept.iter().cloned().enumerate().map(|(i, text)| (i + 1, text));
            all.filter(|(_, text)| text.to_lowercase().contains(&wanted)).collect()
        });
        let structured = numbered.iter().map(|(number, text)| json!({"number": number, "text": text}));
        let notes = json!({"notes": structured.collect::<Vec<_>>()});
        Answer::text(lines(&numbered), Some(notes))
    }
}

fn lines(numbered: &[(usize, String)]) -> String {
    if numbered.is_empty() {
        return "no notes".to_owned();
    }
    numbered.iter().map(|(number, text)| format!("{number}. {text}")).collect::<Vec<_>>().join("\n")
}

impl Server for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn instructions(&self) -> &'static str {
        "Keeps short notes for as long as its process lives."
    }

    fn tools(&self) -> Vec<Value> {
        let found = json!({
            "type": "object",
            "properties": {"notes": {"type": "array", "items": {
                "type": "object",
                "properties": {"number": {"type": "integer"}, "text": {"type": "string"}},
                "required": ["number", "text"],
            }}},
            "required": ["notes"],
        });
        let reads = json!({"readOnlyHint": true, "openWorldHint": false});
        vec![
            json!({
                "name": "add_note",
                "title": "Add a note",
                "description": "Keeps one note and tells its number.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"text": {"type": "string", "minLength": 1, "maxLength": NOTE_LEN_MAX}},
                    "required": ["text"],
                    "additionalProperties": false,
                },
                "outputSchema": {
                    "type": "object",
                    "properties": {"number": {"type": "integer"}},
                    "required": ["number"],
                },
                "annotations": {"readOnlyHint": false, "destructiveHint": false, "openWorldHint": false},
            }),
            json!({
                "name": "list_notes",
                "title": "List notes",
                "description": "All notes with their numbers.",
                "inputSchema": {"type": "object", "additionalProperties": false},
                "outputSchema": found,
                "annotations": reads,
            }),
            json!({
                "name": "search_notes",
                "title": "Search notes",
                "description": "The notes that contain a text, in upper or lower case.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"query": {"type": "string", "minLength": 1}},
                    "required": ["query"],
                    "additionalProperties": false,
                },
                "outputSchema": found,
                "annotations": reads,
            }),
        ]
    }

    fn call(&self, tool: &str, arguments: &Map<String, Value>, _call: &Call) -> Answer {
        match (tool, arguments.get("query").and_then(Value::as_str)) {
            ("add_note", _) => self.add(arguments),
            ("list_notes", _) => self.find(""),
            (_, Some(query)) if !query.is_empty() => self.find(query),
            _ => Answer::refused("query is missing: the text to look for"),
        }
    }

    fn resources(&self) -> Option<(Vec<Value>, Vec<Value>)> {
        let all = json!({"uri": ALL, "name": "all-notes", "title": "All notes", "mimeType": "text/plain"});
        let one = json!({"uriTemplate": "notes://all/{number}", "name": "note", "mimeType": "text/plain"});
        Some((vec![all], vec![one]))
    }

    fn read(&self, uri: &str) -> Option<Value> {
        let rest = uri.strip_prefix(ALL)?;
        let text = self.with(|kept| {
            if rest.is_empty() {
                let numbered: Vec<_> = kept.iter().cloned().enumerate().map(|(i, t)| (i + 1, t)).collect();
                return Some(lines(&numbered));
            }
            let number: usize = rest.strip_prefix('/')?.parse().ok()?;
            kept.get(number.checked_sub(1)?).cloned()
        })?;
        Some(json!({"uri": uri, "mimeType": "text/plain", "text": text}))
    }

    fn prompts(&self) -> Option<Vec<Value>> {
        let style = json!({"name": "style", "description": "For example: one sentence, a haiku"});
        Some(vec![json!({
            "name": "summarise_notes",
            "title": "Summarise the notes",
            "description": "Asks for a summary of all notes.",
            "arguments": [style],
        })])
    }

    fn prompt(&self, name: &str, arguments: &Map<String, Value>) -> Option<Value> {
        if name != "summarise_notes" {
            return None;
        }
        let style = arguments.get("style").and_then(Value::as_str).unwrap_or("a few sentences");
        let notes = self.read(ALL)?;
        Some(json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": format!("Summarise these notes in {style}.")}},
            {"role": "user", "content": {"type": "resource", "resource": notes}},
        ]}))
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::tests::Piped;
    use super::*;

    fn filled() -> Piped {
        let mut peer = Piped::start("notes");
        for (i, text) in ["Buy tea", "call ÖBB", "tea for two"].iter().enumerate() {
            let result = peer.call("add_note", json!({"text": text}));
            assert_eq!(result["structuredContent"], json!({"number": i + 1}));
        }
        peer
    }

    #[test]
    fn notes_are_kept_in_order_and_found_in_any_case() {
        let mut peer = filled();
        let listed = peer.call("list_notes", json!({}));
        assert_eq!(listed["content"][0]["text"], "1. Buy tea\n2. call ÖBB\n3. tea for two");
        let numbers = |result: &Value| -> Vec<u64> {
            let notes = result["structuredContent"]["notes"].as_array().unwrap();
            notes.iter().map(|note| note["number"].as_u64().unwrap()).collect()
        };
        assert_eq!(numbers(&listed), [1, 2, 3]);
        assert_eq!(numbers(&peer.call("search_notes", json!({"query": "TEA"}))), [1, 3]);
        assert_eq!(numbers(&peer.call("search_notes", json!({"query": "öbb"}))), [2]);
        assert_eq!(peer.call("search_notes", json!({"query": "x"}))["content"][0]["text"], "no notes");
    }

    #[test]
    fn notes_are_bounded_in_number_and_length() {
        let mut peer = Piped::start("notes");
        for text in ["", "  ", &"x".repeat(NOTE_LEN_MAX + 1)] {
            assert_eq!(peer.call("add_note", json!({"text": text}))["isError"], true);
        }
        for _ in 0..NOTES_MAX {
            assert!(peer.call("add_note", json!({"text": "n"})).get("isError").is_none());
        }
        assert_eq!(peer.call("add_note", json!({"text": "one more"}))["isError"], true);
    }

    #[test]
    fn notes_are_read_as_a_resource_all_or_one() {
        let mut peer = filled();
        let listed = peer.ask("resources/list", json!({}))["result"].take();
        assert_eq!(listed["resources"][0]["uri"], ALL);
        assert_eq!(
            peer.ask("resources/templates/list", json!({}))["result"]["resourceTemplates"][0]["name"],
            "note"
        );
        let read = |peer: &mut Piped, uri: &str| peer.ask("resources/read", json!({"uri": uri}));
        assert!(read(&mut peer, ALL)["result"]["contents"][0]["text"].as_str().unwrap().contains("ÖBB"));
        assert_eq!(read(&mut peer, "notes://all/2")["result"]["contents"][0]["text"], "call ÖBB");
        for uri in ["notes://all/0", "notes://all/9", "notes://all/x", "notes://other", ""] {
            assert_eq!(read(&mut peer, uri)["error"]["code"], -32602, "{uri}");
        }
    }

    #[test]
    fn the_prompt_carries_the_notes() {
        let mut peer = filled();
        let params = json!({"name": "summarise_notes", "arguments": {"style": "a haiku"}});
        let got = peer.ask("prompts/get", params)["result"].take();
        assert!(got["messages"][0]["content"]["text"].as_str().unwrap().contains("a haiku"));
        assert!(got["messages"][1]["content"]["resource"]["text"].as_str().unwrap().contains("tea"));
        assert_eq!(peer.ask("prompts/get", json!({"name": "no"}))["error"]["code"], -32602);
    }
}

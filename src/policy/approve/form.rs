//! A request for approval as a form of the protocol (`elicitation/create`, revisions from 2025-06-18),
//! for a client that can ask its user; and its user's answer read back. What is unclear is a no.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Prompt};

/// The one field of the form.
const FIELD: &str = "answer";

/// `params` of `elicitation/create` for a request. The texts are those of the prompt: redacted, capped,
/// fit for a terminal. `with_mode`: revisions from 2025-11-25 name the mode.
pub fn form(prompt: &Prompt, with_mode: bool) -> Value {
    let mut answers = vec![(Answer::Once, "Once"), (Answer::Session, "This tool, for this session")];
    if prompt.can_keep {
        answers.push((Answer::Always, "This tool, always"));
    }
    answers.push((Answer::Deny, "No"));
    let words: Vec<&str> = answers.iter().map(|(answer, _)| answer.as_str()).collect();
    let names: Vec<&str> = answers.iter().map(|(_, name)| *name).collect();
    let message = format!(
        "Allow {} of {} with these arguments?\n{}\n(Callboard asks because of: {})",
        prompt.tool, prompt.server, prompt.arguments, prompt.rule
    );
    let mut params = json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                FIELD: {
                    "type": "string",
                    "title": "Run it?",
                    "description": "Covers exactly this call, or this tool as it is defined now",
                    "enum": words,
                    "enumNames": names,
                }
            },
            "required": [FIELD],
        },
    });
    if with_mode {
        params["mode"] = json!("form");
    }
    params
}

/// What a user answered, from the `result` of `elicitation/create`. `None`: it is no answer in the sense
/// of the protocol, or one that was not offered; the call is refused then, and the log may say so.
pub fn answer(result: &[u8], prompt: &Prompt) -> Option<Answer> {
    #[derive(Deserialize)]
    struct Elicited {
        action: String,
        #[serde(default)]
        content: Value,
    }
    let elicited: Elicited = serde_json::from_slice(result).ok()?;
    match elicited.action.as_str() {
        "accept" => match elicited.content.get(FIELD)?.as_str()? {
            "once" => Some(Answer::Once),
            "session" => Some(Answer::Session),
            "always" if prompt.can_keep => Some(Answer::Always),
            "no" => Some(Answer::Deny),
            _ => None,
        },
        "decline" | "cancel" => Some(Answer::Deny),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::id::{ServerId, SessionId};
    use crate::policy::approve::RequestId;

    fn prompt(can_keep: bool) -> Prompt {
        Prompt {
            id: RequestId(1),
            session: SessionId(7),
            server: ServerId::new("files"),
            tool: "delete".to_owned(),
            arguments: r#"{"path":"a"}"#.to_owned(),
            rule: "mode readonly".to_owned(),
            can_keep,
            expires_in: Duration::from_secs(300),
        }
    }

    fn read(result: &Value, can_keep: bool) -> Option<Answer> {
        answer(result.to_string().as_bytes(), &prompt(can_keep))
    }

    #[test]
    fn the_form_shows_server_tool_and_arguments_and_offers_only_what_can_be_kept() {
        for can_keep in [true, false] {
            let form = form(&prompt(can_keep), true);
            let message = form["message"].as_str().unwrap();
            for part in ["files", "delete", r#"{"path":"a"}"#, "mode readonly"] {
                assert!(message.contains(part), "{message}");
            }
            let field = &form["requestedSchema"]["properties"][FIELD];
            let words = field["enum"].as_array().unwrap();
            assert_eq!(words.contains(&json!("always")), can_keep);
            assert_eq!(words.len(), field["enumNames"].as_array().unwrap().len());
            assert_eq!(form["mode"], "form");
        }
        assert_eq!(super::form(&prompt(true), false).get("mode"), None, "2025-06-18 knows no mode");
    }

    #[test]
    fn every_offered_word_is_understood() {
        let form = form(&prompt(true), true);
        let words = form["requestedSchema"]["properties"][FIELD]["enum"].as_array().unwrap();
        let read: Vec<_> = words
            .iter()
            .map(|word| read(&json!({"action": "accept", "content": {FIELD: word}}), true))
            .collect();
        let all = [Answer::Once, Answer::Session, Answer::Always, Answer::Deny].map(Some);
        assert_eq!(read, all);
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for action in ["decline", "cancel"] {
            let sly = json!({"action": action, "content": {FIELD: "always"}});
            assert_eq!(read(&sly, true), Some(Answer::Deny));
        }
        for odd in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {FIELD: true}}),
            json!({"action": "accept", "content": {FIELD: "yes"}}),
            json!({"action": "ACCEPT", "content": {FIELD: "once"}}),
            json!({"action": 1}),
            json!([]),
            json!("accept"),
        ] {
            assert_eq!(read(&odd, true), None, "{odd}");
        }
        let kept = json!({"action": "accept", "content": {FIELD: "always"}});
        assert_eq!(read(&kept, false), None, "what was not offered is no answer");
        assert_eq!(answer(b"not json", &prompt(true)), None);
    }
}

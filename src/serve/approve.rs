//! Approvals in host mode: listens at the desk, asks the user of exactly the client that called, by
//! `elicitation/create`, and answers. A client that can't be asked gets a no; `serve.approval = "client"`
//! a yes to whatever asks: there the client asks its user by itself.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::asks::Answered;
use super::client::Client;
use super::host::{Host, locked};
use super::visitor::{self, Request};
use crate::actors::approvals::ApprovalsRef;
use crate::config::serve::ServeApproval;
use crate::policy::approve::{Answer, Notice, PENDING_MAX, Prompt, RequestId};
use crate::transport::task;
use crate::wire::envelope::{member, text};

/// How long the desk is left alone when it does not take us as a listener.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Answers the desk as long as the host lives.
pub(super) async fn attend(host: Weak<Host>, desk: ApprovalsRef) {
    loop {
        let mut listener = desk.listen();
        let (said, mut answers) = mpsc::channel(PENDING_MAX);
        let mut open: HashMap<RequestId, task::Owned> = HashMap::new();
        loop {
            tokio::select! {
                biased;
                Some((id, answer)) = answers.recv() => {
                    open.remove(&id);
                    listener.answer(id, answer);
                }
                notice = listener.next() => match notice {
                    Some(Notice::Asked(prompt)) => {
                        let Some(host) = host.upgrade() else { return };
                        match decide(&host, &prompt) {
                            Decide::At(answer) => listener.answer(prompt.id, answer),
                            Decide::Visitor(way) => {
                                let (id, said) = (prompt.id, said.clone());
                                let asking = async move {
                                    let _ = said.send((id, visitor::ask(way, prompt).await)).await;
                                };
                                open.insert(id, task::spawn(asking));
                            }
                            Decide::Ask(client) => {
                                let (id, said) = (prompt.id, said.clone());
                                let asking = async move {
                                    let answer = ask(&client, &prompt).await;
                                    let _ = said.send((prompt.id, answer)).await;
                                };
                                open.insert(id, task::spawn(asking));
                            }
                        }
                    }
                    Some(Notice::Settled(id)) => {
                        open.remove(&id);
                    }
                    None => break,
                },
            }
        }
        if host.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

enum Decide {
    At(Answer),
    Ask(Arc<Client>),
    /// The user at the terminal of a command.
    Visitor(mpsc::Sender<Request>),
}

fn decide(host: &Arc<Host>, prompt: &Prompt) -> Decide {
    // No program stands between a command and its user: what clients do themselves, nobody does here.
    if let Some(visit) = locked(&host.visits).get(&prompt.session) {
        return visit.way.clone().map_or(Decide::At(Answer::Deny), Decide::Visitor);
    }
    let client = host.client(prompt.session);
    let settings = client.as_ref().map_or_else(|| host.whole(), |client| client.pane());
    if settings.part.settings.approval == ServeApproval::Client {
        return Decide::At(Answer::Once);
    }
    match client {
        Some(client) if client.can_be_asked() => Decide::Ask(client),
        _ => Decide::At(Answer::Deny),
    }
}

/// Asks the client's user. Whatever is no clear yes is a no.
async fn ask(client: &Arc<Client>, prompt: &Prompt) -> Answer {
    let Some(to) = client.way_for(&prompt.server) else { return Answer::Deny };
    let mut choices = vec!["once", "session"];
    let mut names = vec!["Run it once", "Run this tool for the rest of the session"];
    if prompt.can_keep {
        choices.push("always");
        names.push("Always run this tool");
    }
    choices.push("no");
    names.push("Don't run it");
    let params = json!({
        "mode": "form",
        "message": format!(
            "{} of the server {} wants to run with these arguments:\n{}\nIt asks because: {}",
            prompt.tool, prompt.server, prompt.arguments, prompt.rule
        ),
        "requestedSchema": {
            "type": "object",
            "properties": {"decision": {
                "type": "string",
                "title": format!("Run {}?", prompt.tool),
                "enum": choices,
                "enumNames": names,
            }},
            "required": ["decision"],
        },
    });
    match client.ask("elicitation/create", params.to_string().as_bytes(), &to).await {
        Ok(Answered::Result(result)) => decision(&result),
        Ok(Answered::Error(_)) | Err(_) => Answer::Deny,
    }
}

fn decision(result: &[u8]) -> Answer {
    let word = |object: &[u8], key: &str| {
        let span = member(object, key)?;
        text(&object[span]).map(std::borrow::Cow::into_owned)
    };
    if word(result, "action").as_deref() != Some("accept") {
        return Answer::Deny;
    }
    let decision = member(result, "content").and_then(|span| word(&result[span], "decision"));
    match decision.as_deref() {
        Some("once") => Answer::Once,
        Some("session") => Answer::Session,
        Some("always") => Answer::Always,
        _ => Answer::Deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for (result, answer) in [
            (r#"{"action":"accept","content":{"decision":"once"}}"#, Answer::Once),
            (r#"{"action":"accept","content":{"decision":"session"}}"#, Answer::Session),
            (r#"{"action":"accept","content":{"decision":"always"}}"#, Answer::Always),
            (r#"{"action":"accept","content":{"decision":"no"}}"#, Answer::Deny),
            (r#"{"action":"accept","content":{}}"#, Answer::Deny),
            (r#"{"action":"accept"}"#, Answer::Deny),
            (r#"{"action":"decline","content":{"decision":"once"}}"#, Answer::Deny),
            (r#"{"content":{"decision":"once"}}"#, Answer::Deny),
            (r#"[]"#, Answer::Deny),
        ] {
            assert_eq!(decision(result.as_bytes()), answer, "{result}");
        }
    }
}

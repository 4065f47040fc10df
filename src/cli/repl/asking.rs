//! Floor 5. What a server asks of the person in the middle of a call: values for a form, a visit to an
//! address. Says who asks, types what is typed by the schema, and never opens anything by itself.
//! Decides nothing. Called by `invoke`.

use serde_json::{Map, Value};

use super::editor::{Editor, Typed};
use super::form::{Field, Request, accepted, read, refused};
use crate::call::{Asked, AskedAnswer};
use crate::cli::ask::is_yes;
use crate::cli::ctx::Ctx;
use crate::cli::out::{Style, Tone, write_stdout};
use crate::cli::text::indent;

/// Tries at one field, before the form is left.
const TRIES_MAX: usize = 5;
/// The code of JSON-RPC for a request that makes no sense.
const INVALID_PARAMS: i64 = -32602;

/// Whoever shows a text and brings what is typed.
pub trait Person: Send {
    /// Shows that.
    fn show(&mut self, text: &str);
    /// What is typed behind a question.
    fn answer(&mut self, question: &str) -> impl Future<Output = Typed> + Send;
}

impl Person for Editor {
    fn show(&mut self, text: &str) {
        let _ = write_stdout(&format!("{text}\n"));
    }

    fn answer(&mut self, question: &str) -> impl Future<Output = Typed> + Send {
        Self::answer(self, question)
    }
}

/// Answers a server that asks in the middle of a call that was typed. What no person can be asked for
/// is left unanswered: the server is told so.
pub async fn answer(ctx: &Ctx, asked: Asked) {
    let Some(house) = ctx.house.as_ref().filter(|_| asked.method == "elicitation/create") else { return };
    let clean = |text: &str| ctx.clean(text);
    let manners = Manners { style: ctx.style(), clean: &clean };
    let mut person = house.person().lock().await;
    let said = elicit(&mut *person, &manners, asked.server.as_str(), &asked.params).await;
    asked.answer(match said {
        Ok(result) => AskedAnswer::Result(result.to_string().into()),
        Err(why) => AskedAnswer::error(INVALID_PARAMS, &why),
    });
}

/// How texts are shown: fit for a screen, without what is secret.
pub struct Manners<'a> {
    /// What can be painted.
    pub style: Style,
    /// Cleans what others wrote.
    pub clean: &'a (dyn Fn(&str) -> String + Sync),
}

/// The `result` of an `elicitation/create` of that server.
///
/// # Errors
/// When it asks for nothing that a person can be asked for; in words for the server.
pub async fn elicit(
    person: &mut impl Person,
    manners: &Manners<'_>,
    server: &str,
    params: &[u8],
) -> Result<Value, String> {
    let request = read(params)?;
    let name = (manners.clean)(server);
    person.show(&manners.style.paint(Tone::Strong, &format!("{name} asks you:")));
    match request {
        Request::Form { message, fields } => {
            person.show(&indent(&(manners.clean)(&message), "  "));
            Ok(fill_in(person, manners, &name, &fields).await)
        }
        Request::Visit { message, url } => {
            person.show(&indent(&(manners.clean)(&message), "  "));
            let host = (manners.clean)(url.host_str().unwrap_or_default());
            let address = (manners.clean)(url.as_str());
            person.show(&format!(
                "  {address}\n  on {}; nothing is opened for you",
                manners.style.paint(Tone::Strong, &host)
            ));
            if url.scheme() == "http" {
                person.show(&manners.style.paint(Tone::Warn, "  look twice: it is not encrypted"));
            }
            Ok(match person.answer(&format!("Have you been there, and shall {name} go on? [y/N] ")).await {
                Typed::Line(line) if is_yes(&line) => refused("accept"),
                Typed::Line(_) => refused("decline"),
                Typed::Interrupted | Typed::End => refused("cancel"),
            })
        }
    }
}

async fn fill_in(person: &mut impl Person, manners: &Manners<'_>, name: &str, fields: &[Field]) -> Value {
    if fields.is_empty() {
        return match person.answer(&format!("Agree, for {name}? [y/N] ")).await {
            Typed::Line(line) if is_yes(&line) => accepted(Map::new()),
            Typed::Line(_) => refused("decline"),
            Typed::Interrupted | Typed::End => refused("cancel"),
        };
    }
    person.show(&manners.style.paint(Tone::Dim, "  Ctrl-C leaves the form, Ctrl-D says no to it"));
    let mut content = Map::new();
    for field in fields {
        match fill(person, manners, field).await {
            Ok(Some(value)) => _ = content.insert(field.key.clone(), value),
            Ok(None) => {}
            Err(action) => return refused(action),
        }
    }
    match person.answer(&format!("Send this to {name}? [Y/n] ")).await {
        Typed::Line(line) if line.trim().is_empty() || is_yes(&line) => accepted(content),
        Typed::Line(_) | Typed::End => refused("decline"),
        Typed::Interrupted => refused("cancel"),
    }
}

/// One field; the error is the action that ends the form.
async fn fill(
    person: &mut impl Person,
    manners: &Manners<'_>,
    field: &Field,
) -> Result<Option<Value>, &'static str> {
    let title = (manners.clean)(field.title.as_deref().unwrap_or(&field.key)).replace('\n', " ");
    let about = field.about.as_deref().map(|about| format!("  {}", (manners.clean)(about)));
    if let Some(about) = about {
        person.show(&manners.style.paint(Tone::Dim, &about));
    }
    if field.looks_secret() {
        let warning = "  look twice: no form may ask for a credential";
        person.show(&manners.style.paint(Tone::Warn, warning));
    }
    for (at, choice) in field.choices().iter().enumerate() {
        person.show(&format!("  {}: {}", at + 1, (manners.clean)(&choice.name)));
    }
    let hint = (manners.clean)(&field.hint());
    let hint = if hint.is_empty() { hint } else { format!(" ({hint})") };
    for _ in 0..TRIES_MAX {
        match person.answer(&format!("{title}{hint}: ")).await {
            Typed::Line(line) => match field.take(&line) {
                Ok(value) => return Ok(value),
                Err(told) => {
                    person.show(&manners.style.paint(Tone::Warn, &format!("  {}", (manners.clean)(&told))))
                }
            },
            Typed::Interrupted => return Err("cancel"),
            Typed::End => return Err("decline"),
        }
    }
    Err("cancel")
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use serde_json::json;

    use super::*;
    use crate::shaping::render::printable;

    struct Script {
        answers: VecDeque<Typed>,
        shown: String,
    }

    impl Person for Script {
        fn show(&mut self, text: &str) {
            self.shown.push_str(&format!("{text}\n"));
        }

        async fn answer(&mut self, question: &str) -> Typed {
            self.shown.push_str(question);
            self.answers.pop_front().unwrap_or(Typed::End)
        }
    }

    async fn asked(params: Value, answers: &[&str]) -> (Result<Value, String>, String) {
        let typed = |answer: &&str| match *answer {
            "^C" => Typed::Interrupted,
            "^D" => Typed::End,
            line => Typed::Line(line.to_owned()),
        };
        let mut person = Script { answers: answers.iter().map(typed).collect(), shown: String::new() };
        let clean = |text: &str| printable(text).into_owned();
        let manners = Manners { style: Style::PLAIN, clean: &clean };
        let result = elicit(&mut person, &manners, "shop", params.to_string().as_bytes()).await;
        (result, person.shown)
    }

    fn form() -> Value {
        json!({"message": "Your order\u{1b}[2J", "requestedSchema": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "string", "title": "Size", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
            "count": {"type": "integer", "minimum": 1, "default": 2},
            "note": {"type": "string"},
        }}})
    }

    #[tokio::test]
    async fn a_form_is_filled_in_by_its_schema_and_says_who_asks() {
        let (result, shown) = asked(form(), &["large", "2", "", "please", ""]).await;
        assert_eq!(
            result.unwrap(),
            json!({"action": "accept", "content": {"size": "m", "count": 2, "note": "please"}})
        );
        for part in
            ["shop asks you:", "Your order", "1: Small", "not in the list", "default 2", "Send this to shop?"]
        {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }

    #[tokio::test]
    async fn a_form_can_be_left_at_any_place() {
        for (answers, action) in [
            (&["^C"][..], "cancel"),
            (&["^D"], "decline"),
            (&["1", "^C"], "cancel"),
            (&["1", "", "", "n"], "decline"),
            (&["1", "", "", "^C"], "cancel"),
            (&["x", "x", "x", "x", "x", "x"], "cancel"),
        ] {
            assert_eq!(asked(form(), answers).await.0.unwrap(), json!({"action": action}), "{answers:?}");
        }
    }

    #[tokio::test]
    async fn an_address_is_shown_with_its_host_and_never_opened() {
        let visit = json!({"mode": "url", "message": "Log in", "url": "http://evil.example/x?good.example", "elicitationId": "1"});
        let (result, shown) = asked(visit.clone(), &["y"]).await;
        assert_eq!(result.unwrap(), json!({"action": "accept"}));
        assert!(
            shown.contains("on evil.example; nothing is opened") && shown.contains("not encrypted"),
            "{shown}"
        );
        assert_eq!(asked(visit.clone(), &[""]).await.0.unwrap(), json!({"action": "decline"}));
        assert_eq!(asked(visit, &["^C"]).await.0.unwrap(), json!({"action": "cancel"}));
        assert!(asked(json!({"mode": "url", "url": "file:///x"}), &["y"]).await.0.is_err());
    }

    #[tokio::test]
    async fn a_field_that_wants_a_credential_is_warned_of() {
        let params =
            json!({"message": "m", "requestedSchema": {"properties": {"password": {"type": "string"}}}});
        assert!(asked(params, &["^C"]).await.1.contains("no form may ask for a credential"));
    }
}

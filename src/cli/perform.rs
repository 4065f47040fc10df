//! Floor 5. One request to one server, up to its result: waits for the server, checks the arguments
//! against what it lists, sends. The same on a runtime of this process and on the host's. Used by `call`
//! and the use verbs.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::call;
use super::call_args::Arguments;
use super::course::Course;
use super::ctx::Ctx;
use super::exit::Exit;
use super::failure::Failure;
use super::far::{self, ms};
use super::invoke::{Invocation, Outcome, invoke};
use super::out::Answer;
use super::session::ready;
use super::use_verbs::check_prompt;
use crate::call::ItemKind;
use crate::id::ServerId;
use crate::runtime::Runtime;

const SCHEMA: &str = "callboard.result/1";

/// What is asked of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// The server.
    pub server: ServerId,
    /// The kind of item.
    pub kind: ItemKind,
    /// Its raw name or URI.
    pub name: String,
    /// What was typed, for tools and prompts.
    pub arguments: Option<Arguments>,
    /// Longest duration in all, in milliseconds.
    timeout_ms: Option<u64>,
}

impl Wanted {
    /// A request for an item of a server.
    pub fn new(server: &ServerId, kind: ItemKind, name: &str) -> Self {
        Self { server: server.clone(), kind, name: name.to_owned(), arguments: None, timeout_ms: None }
    }

    /// With these arguments.
    #[must_use]
    pub fn with(self, arguments: Arguments) -> Self {
        Self { arguments: Some(arguments), ..self }
    }

    /// Which may take so long.
    #[must_use]
    pub fn within(self, timeout: Option<Duration>) -> Self {
        Self { timeout_ms: ms(timeout), ..self }
    }
}

/// A result, and what was odd on the way.
#[derive(Debug)]
pub struct Performed {
    /// The result.
    pub outcome: Outcome,
    /// Doubts worth telling.
    pub warnings: Vec<String>,
}

/// Does it. A failure keeps the doubts.
pub async fn perform(
    ctx: &Ctx,
    runtime: &Runtime,
    wanted: &Wanted,
    course: &Course,
) -> Result<Performed, Failure> {
    let Wanted { server, kind, name, arguments, timeout_ms } = wanted.clone();
    let timeout = timeout_ms.map(Duration::from_millis);
    ready(ctx, runtime, &server, timeout).await?;
    let (arguments, warnings) = match (kind, arguments) {
        (ItemKind::Tool, Some(typed)) => {
            let found = call::find(ctx, &far::catalog(ctx, runtime), &server, &name)?;
            let (arguments, warnings) = call::arguments(ctx, &server, &found, typed)?;
            (Some(arguments), warnings)
        }
        (_, Some(Arguments::Object(raw))) => (Some(raw), Vec::new()),
        (_, Some(Arguments::Pairs(_)) | None) => (None, Vec::new()),
    };
    let call = Invocation { server, kind, name, arguments, timeout };
    if kind == ItemKind::Prompt {
        check_prompt(ctx, &far::catalog(ctx, runtime), &call)?;
    }
    match invoke(ctx, runtime, &call, course).await {
        Ok(outcome) => Ok(Performed { outcome, warnings }),
        Err(mut failure) => {
            failure.warnings.extend(warnings);
            Err(failure)
        }
    }
}

/// A result on its way to the process that asked.
#[derive(Serialize)]
struct Sent<'a> {
    elapsed_us: u64,
    result: &'a RawValue,
}

/// The same as it is read there.
#[derive(Deserialize)]
struct Read<'a> {
    elapsed_us: u64,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// A result, to be sent to the process that asked.
pub fn sent(performed: Performed) -> Result<Answer, Failure> {
    let Performed { outcome, warnings } = performed;
    let elapsed_us = u64::try_from(outcome.elapsed.as_micros()).unwrap_or(u64::MAX);
    Ok(Answer::new(SCHEMA, &Sent { elapsed_us, result: &outcome.result }, "")?.warn(warnings))
}

/// The result that the host sent, byte for byte.
pub fn received(answer: Answer) -> Result<Performed, Failure> {
    let read: Read<'_> = serde_json::from_str(answer.data.get()).map_err(|error| {
        let text = format!("the host's answer can't be read: {error}");
        Failure::new("internal", Exit::OutcomeUnknown, text)
    })?;
    let (result, elapsed) = (read.result.to_owned(), Duration::from_micros(read.elapsed_us));
    let body = bytes::Bytes::copy_from_slice(result.get().as_bytes());
    Ok(Performed { outcome: Outcome { body, result, elapsed }, warnings: answer.warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_comes_from_the_host_byte_for_byte() {
        let text = r#"{"n":1.00, "s":"\u00e9", "a":[ 1,2 ],"n":2e400}"#;
        let result = RawValue::from_string(text.to_owned()).unwrap();
        let (body, elapsed) = (bytes::Bytes::from_static(text.as_bytes()), Duration::from_micros(1_234_567));
        let outcome = Outcome { body, result, elapsed };
        let sent = sent(Performed { outcome, warnings: vec!["odd".to_owned()] }).unwrap();
        let read = received(sent).unwrap();
        assert_eq!((read.outcome.body.as_ref(), read.outcome.result.get()), (text.as_bytes(), text));
        assert_eq!((read.outcome.elapsed, read.warnings.as_slice()), (elapsed, &["odd".to_owned()][..]));
    }

    #[test]
    fn what_was_typed_goes_to_the_host_as_it_was_typed() {
        let typed = Arguments::Object(RawValue::from_string(r#"{"n":1.00}"#.to_owned()).unwrap());
        let wanted = Wanted::new(&ServerId::new("s"), ItemKind::Tool, "t").with(typed);
        let line = serde_json::to_string(&wanted.within(Some(Duration::from_secs(2)))).unwrap();
        assert!(line.contains(r#"{"n":1.00}"#), "{line}");
        let read: Wanted = serde_json::from_str(&line).unwrap();
        assert_eq!((read.name.as_str(), read.timeout_ms), ("t", Some(2000)));
        let Some(Arguments::Object(raw)) = read.arguments else { panic!("an object") };
        assert_eq!(raw.get(), r#"{"n":1.00}"#);
    }
}

//! One call of the model: finds where it leads, checks its arguments against the server's own schema, sends it
//! through the runtime, answers what its server asks meanwhile, and makes a result of whatever comes back.
//! Every failure is a result: a turn never ends by one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::sync::mpsc;

use super::ask::{Ask, Question};
use super::given::{Given, Kept};
use super::told::Told;
use crate::actors::frontend::CALL_EVENTS_MAX;
use crate::agent::chat::{Part, ToolCall, ToolResult};
use crate::agent::surface::bridge::{self, Own};
use crate::agent::surface::{Leads, Surface, Wanted, listing};
use crate::agent::turn::Event;
use crate::call::{
    AskedAnswer, CallError, CallEvent, CallLimits, CallReply, CallRequest, Delivery, Door, ErrorCode,
    ItemKind, Origin, Phase, Target,
};
use crate::catalog::items::ListKind;
use crate::catalog::merge::{Catalog, Resolution};
use crate::catalog::schema::{self, SchemaCache};
use crate::catalog::violation;
use crate::id::{BUILTINS, CallId, ServerId, SessionId};
use crate::runtime::Runtime;
use crate::shaping::fence::Source;
use crate::shaping::model::Said;
use crate::telemetry::Redaction;
use crate::time::Monotonic;
use crate::wire::rounds;

/// Rounds of one call whose server asks by its result.
const ROUNDS_MAX: usize = 10;
/// Look-alikes that a refusal names.
const SIMILAR_MAX: usize = 3;

/// What calls are made with.
pub(super) struct Hands {
    pub(super) runtime: Arc<Runtime>,
    pub(super) session: SessionId,
    pub(super) redaction: Redaction,
    kept: Kept,
    result_max: usize,
    schemas: Mutex<SchemaCache>,
}

/// Whom one turn tells and asks.
#[derive(Clone)]
pub(super) struct Around {
    pub(super) tell: mpsc::Sender<Told>,
    pub(super) ask: Arc<dyn Ask>,
}

/// What a call is made by: fixed when the model asked for it.
pub(super) struct Order {
    pub(super) call: ToolCall,
    pub(super) leads: Option<Leads>,
    /// The list that the bridge and the search answer from.
    pub(super) listed: Result<String, String>,
}

impl Hands {
    pub(super) fn new(
        runtime: Arc<Runtime>,
        session: SessionId,
        redaction: Redaction,
        home: Option<PathBuf>,
        result_max: usize,
    ) -> Self {
        Self { runtime, session, redaction, kept: Kept::new(home), result_max, schemas: Mutex::default() }
    }

    /// Makes the call, to its end.
    pub(super) async fn run(self: Arc<Self>, order: Order, around: Around) -> Event {
        let began = Monotonic::now();
        let call = order.call.clone();
        let mut server = None;
        let mut denied = false;
        let outcome = self.outcome(order, &around, &mut server).await;
        let given = match outcome {
            Ok(given) => given,
            Err(Refused::Words(text)) => Given {
                parts: vec![Part::Text(self.redaction.text(&text))],
                is_error: true,
                notes: Vec::new(),
            },
            Err(Refused::Call(error)) => {
                denied = matches!(error.code, ErrorCode::NeedsApproval | ErrorCode::Denied);
                self.failed(&error, &call).await
            }
        };
        let elapsed = Monotonic::now().since(began);
        let result =
            ToolResult { id: call.id, name: call.name, parts: given.parts, is_error: given.is_error };
        let ended = Told::Ended {
            id: result.id.clone(),
            is_error: result.is_error,
            text: result.text(false).chars().take(2000).collect(),
            notes: given.notes,
            elapsed,
        };
        let _ = around.tell.send(ended).await;
        Event::Answered { result, server: server.map(|server: ServerId| server.to_string()), elapsed, denied }
    }

    async fn outcome(
        &self,
        order: Order,
        around: &Around,
        at: &mut Option<ServerId>,
    ) -> Result<Given, Refused> {
        let call = &order.call;
        let catalog = self.runtime.catalog();
        let words = |text: String| Refused::Words(text);
        let (server, tool, arguments) = match order.leads {
            None => return Err(words(unknown(&catalog, &call.name))),
            Some(Leads::Tool(server, tool)) => {
                let json = call.json().filter(|json| json.get().starts_with('{'));
                let json =
                    json.ok_or_else(|| words(format!("the arguments of {} are no JSON object", call.name)))?;
                (server, tool, json)
            }
            Some(Leads::Own(own)) => match own.asks(&call.arguments).map_err(words)? {
                bridge::Ask::Call { server, name, arguments } if server == bridge::OWN_SERVER => {
                    let found = Own::ReadOutput;
                    if name != found.name() {
                        return Err(words(format!("callboard has only {}", found.name())));
                    }
                    let bridge::Ask::Output { id, offset } = found.asks(arguments.get()).map_err(words)?
                    else {
                        return Err(words("that is no page".to_owned()));
                    };
                    return self.kept.page(id, offset, self.result_max).await.map_err(words);
                }
                bridge::Ask::Call { server, name, arguments } => {
                    let (server, tool) = resolved(&catalog, &server, &name).map_err(words)?;
                    (server, tool, arguments)
                }
                bridge::Ask::Output { id, offset } => {
                    return self.kept.page(id, offset, self.result_max).await.map_err(words);
                }
                bridge::Ask::Resource { server, uri } => {
                    let server = ServerId::new(server);
                    *at = Some(server.clone());
                    let params = params(ItemKind::Resource, &uri, None);
                    return self.sent(call, (server, ItemKind::Resource, uri), params, around).await;
                }
                bridge::Ask::Prompt { server, name, arguments } => {
                    let server = ServerId::new(server);
                    *at = Some(server.clone());
                    let params = params(ItemKind::Prompt, &name, Some(arguments.get()));
                    return self.sent(call, (server, ItemKind::Prompt, name), params, around).await;
                }
                _ => {
                    let text = order.listed.map_err(words)?;
                    let source = Source::new("callboard", &call.name);
                    return Ok(self
                        .kept
                        .give(Said::Words(&text), &source, &self.redaction, self.result_max)
                        .await);
                }
            },
        };
        *at = Some(server.clone());
        self.check(&catalog, &server, &tool, arguments.get())?;
        let began = Told::Began {
            id: call.id.clone(),
            server: Some(server.to_string()),
            tool: tool.clone(),
            arguments: self.redaction.text(arguments.get()),
        };
        let _ = around.tell.send(began).await;
        let params = params(ItemKind::Tool, &tool, Some(arguments.get()));
        self.sent(call, (server, ItemKind::Tool, tool), params, around).await
    }

    /// Against the server's own schema, never the one that was adapted for the model.
    fn check(
        &self,
        catalog: &Catalog,
        server: &ServerId,
        tool: &str,
        arguments: &str,
    ) -> Result<(), Refused> {
        let item = catalog.find(server, ItemKind::Tool, tool);
        let compiled = item
            .and_then(|item| item.schema_bytes())
            .and_then(|raw| Some(self.schemas.lock().ok()?.get(raw)));
        let compiled = compiled.as_ref().and_then(|compiled| compiled.as_ref().as_ref().ok());
        schema::check(compiled, Some(arguments.as_bytes())).map_err(|violations| {
            let text = violation::sentence(tool, &violations);
            let error =
                CallError::refused(ErrorCode::InvalidArguments, Phase::Validate, Origin::Caller, text);
            Refused::Call(Box::new(error.on(server).about(tool)))
        })
    }

    async fn sent(
        &self,
        call: &ToolCall,
        (server, kind, name): (ServerId, ItemKind, String),
        params: Bytes,
        around: &Around,
    ) -> Result<Given, Refused> {
        let source = Source::new(server.as_str(), &name);
        let target = Target::Direct { server: server.clone(), kind, name };
        let mut next = params.clone();
        for _ in 0..ROUNDS_MAX {
            let reply = self.fly(&call.id, target.clone(), next, around).await;
            let reply = reply.map_err(|error| Refused::Call(Box::new(error)))?;
            let body = reply.body();
            let wants = (!reply.is_error).then(|| rounds::input_required(&body)).flatten();
            let Some(wants) = wants else {
                let said = match (reply.is_error, kind) {
                    (true, _) => Said::Error(&body),
                    (false, ItemKind::Resource) => Said::Resource(&body),
                    (false, ItemKind::Prompt) => Said::Prompt(&body),
                    (false, _) => Said::Result(&body),
                };
                let mut given = self.kept.give(said, &source, &self.redaction, self.result_max).await;
                given.is_error |= reply.is_error;
                return Ok(given);
            };
            let mut answers = Vec::new();
            for one in wants.requests {
                let question = Question { server: server.clone(), method: one.method, params: one.params };
                let AskedAnswer::Result(answer) = around.ask.asked(question).await else {
                    return Err(Refused::Words("the server asked something that nobody answered".to_owned()));
                };
                answers.push((one.key, answer));
            }
            next = rounds::again(&params, &answers, wants.state.as_ref());
        }
        Err(Refused::Words("the server asks without end; the call was given up".to_owned()))
    }

    /// One call, with what happens meanwhile.
    async fn fly(
        &self,
        id: &str,
        target: Target,
        params: Bytes,
        around: &Around,
    ) -> Result<CallReply, CallError> {
        let server = match &target {
            Target::Direct { server, .. } => server.clone(),
            Target::Exposed(name) => ServerId::new(name),
        };
        let (events, mut heard) = mpsc::channel(CALL_EVENTS_MAX);
        let request = CallRequest {
            id: CallId::fresh(),
            session: self.session,
            target,
            params,
            limits: CallLimits::default(),
            grant: None,
        };
        let reply = self.runtime.frontend().through(Door::Agent).call(request, Some(events));
        tokio::pin!(reply);
        let mut asking = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                reply = &mut reply => return reply,
                Some((asked, answer)) = asking.next() => {
                    let asked: crate::call::Asked = asked;
                    asked.answer(answer);
                }
                Some(event) = heard.recv() => match event {
                    CallEvent::Progress(params) => {
                        let text = self.redaction.piece(&progress(&params));
                        // A report that nobody has room for is lost: the next one says more.
                        let _ = around.tell.try_send(Told::Progress { id: id.to_owned(), text });
                    }
                    CallEvent::Waits { .. } => {
                        let why = self.waits_for(&server);
                        let _ = around.tell.try_send(Told::Waits { id: id.to_owned(), why });
                    }
                    CallEvent::Asked(asked) => {
                        let (method, params) = (asked.method.clone(), asked.params.clone());
                        let question = Question { server: asked.server.clone(), method, params };
                        asking.push(around.ask.asked(question).map(|answer| (asked, answer)).boxed());
                    }
                    CallEvent::Withdrawn(_) | CallEvent::Note { .. } | CallEvent::Sent => {}
                },
            }
        }
    }

    fn waits_for(&self, server: &ServerId) -> String {
        let view = self.runtime.status().into_iter().find(|view| view.id == *server);
        match view {
            Some(view) => format!("waits for {server}, which is {}", view.state.as_str()),
            None => format!("waits for {server}"),
        }
    }

    /// What the model is given of a call that failed: the words, and what is known of it.
    async fn failed(&self, error: &CallError, call: &ToolCall) -> Given {
        let known = match error.delivery {
            Delivery::NotSent => "it was not sent",
            Delivery::Unknown => "whether it ran is not known",
            Delivery::Executed => "it ran",
        };
        let again = error
            .retry_after
            .map(|wait| format!("; not before {} s", wait.as_secs().max(1)))
            .unwrap_or_default();
        let ours = format!("The call failed ({}): {known}{again}.", error.code);
        let server = error.server.as_ref().map_or("callboard", ServerId::as_str);
        // The words may quote the server.
        let source = Source::new(server, &call.name);
        let mut given =
            self.kept.give(Said::Words(&error.message), &source, &self.redaction, self.result_max).await;
        given.parts.insert(0, Part::Text(ours));
        given.is_error = true;
        given
    }

    /// A resource or a prompt, as a text for the conversation.
    pub(super) async fn fetch(
        &self,
        server: &ServerId,
        kind: ItemKind,
        name: &str,
        arguments: Option<&str>,
    ) -> Result<String, CallError> {
        let request = CallRequest {
            id: CallId::fresh(),
            session: self.session,
            target: Target::Direct { server: server.clone(), kind, name: name.to_owned() },
            params: params(kind, name, arguments),
            limits: CallLimits::default(),
            grant: None,
        };
        let reply = self.runtime.frontend().through(Door::Agent).call(request, None).await?;
        let body = reply.body();
        let said = match (reply.is_error, kind) {
            (true, _) => Said::Error(&body),
            (false, ItemKind::Resource) => Said::Resource(&body),
            (false, _) => Said::Prompt(&body),
        };
        let source = Source::new(server.as_str(), name);
        let given = self.kept.give(said, &source, &self.redaction, self.result_max).await;
        let text = ToolResult { id: String::new(), name: String::new(), parts: given.parts, is_error: false };
        Ok(text.text(false))
    }
}

/// Why there is no answer of a server.
enum Refused {
    Words(String),
    Call(Box<CallError>),
}

/// What the bridge and the search answer to this call, from the snapshot of now.
pub(super) fn listed(
    call: &ToolCall,
    surface: &Surface,
    wanted: &Wanted<'_>,
    runtime: &Runtime,
) -> Result<String, String> {
    let Some(Leads::Own(own)) = surface.leads(&call.name) else { return Ok(String::new()) };
    let known = |name: &str| {
        let server = ServerId::new(name);
        let exists = runtime.status().iter().any(|view| view.id == server);
        if exists {
            Ok(server)
        } else {
            Err(format!("there is no server {name}; mcp_list_servers lists them"))
        }
    };
    Ok(match own.asks(&call.arguments)? {
        bridge::Ask::Servers => {
            let mut views = runtime.status();
            views.retain(|view| view.id.as_str() != BUILTINS);
            listing::servers(wanted.catalog, &views)
        }
        bridge::Ask::Tools(server) => listing::tools(wanted, &known(&server)?),
        bridge::Ask::Resources(server) => {
            listing::items(wanted.catalog, &known(&server)?, ListKind::Resources)
        }
        bridge::Ask::Prompts(server) => listing::items(wanted.catalog, &known(&server)?, ListKind::Prompts),
        bridge::Ask::Search { query, limit } => listing::search(wanted, &query, limit),
        _ => String::new(),
    })
}

fn unknown(catalog: &Catalog, name: &str) -> String {
    let similar = catalog.similar(name, None, SIMILAR_MAX);
    let shown: String = name.chars().take(128).collect();
    match similar.as_slice() {
        [] => format!("there is no tool {shown}"),
        names => format!("there is no tool {shown}; did you mean {}?", names.join(" or ")),
    }
}

/// The tool that a model means by server and name: raw, or as it is exposed.
fn resolved(catalog: &Catalog, server: &str, name: &str) -> Result<(ServerId, String), String> {
    let id = ServerId::new(server);
    let routes = catalog.routes.get(&id);
    if let Some(tool) = catalog.exposed(name).filter(|tool| server.is_empty() || tool.route.server == id) {
        return Ok((tool.route.server.clone(), tool.route.item.name.clone()));
    }
    if !server.is_empty() {
        return match routes.is_some_and(|tools| tools.contains_key(name))
            || !catalog.servers.contains_key(&id)
        {
            // Of a server that nobody knows yet the front end says more.
            true => Ok((id, name.to_owned())),
            false => Err(format!("{server} has no tool {}", name.chars().take(128).collect::<String>())),
        };
    }
    match catalog.resolve(name) {
        Resolution::One(route) => Ok((route.server.clone(), route.item.name.clone())),
        Resolution::Ambiguous(names) => Err(format!("several servers have that tool: {}", names.join(", "))),
        Resolution::Unknown => Err(unknown(catalog, name)),
    }
}

/// `params` of a request: what the model wrote goes in byte for byte.
fn params(kind: ItemKind, name: &str, arguments: Option<&str>) -> Bytes {
    let key = kind.name_key().unwrap_or("name");
    let name = Value::from(name);
    Bytes::from(match arguments {
        Some(arguments) => format!("{{\"{key}\":{name},\"arguments\":{arguments}}}"),
        None => format!("{{\"{key}\":{name}}}"),
    })
}

/// A progress notification in few words.
fn progress(params: &[u8]) -> String {
    let value: Value = serde_json::from_slice(params).unwrap_or_default();
    let message = value.get("message").and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| value.get(key).and_then(Value::as_f64);
    match (number("progress"), number("total")) {
        (Some(done), Some(total)) if total > 0.0 => {
            format!("{:.0} % {message}", (done / total * 100.0).clamp(0.0, 100.0)).trim_end().to_owned()
        }
        (Some(done), _) => format!("{done} {message}").trim_end().to_owned(),
        _ => message.to_owned(),
    }
}

//! The loop of one turn: performs what the machine says, waits for whatever comes first, tells what happens.
//! The user's stop is looked at before everything else; what it drops is told to the servers by the runtime.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, watch};

use super::Agent;
use super::ask::Ask;
use super::call::{self, Around, Order};
use super::told::Told;
use crate::actors::approvals::ListenerRef;
use crate::agent::chat::{Chat, Message, Said, ToolCall};
use crate::agent::model::{Answer as ModelAnswer, ModelError, ModelEvent, Stop, Trouble, Usage};
use crate::agent::surface::{Surface, WINDOW_UNKNOWN, tokens};
use crate::agent::turn::compact::{self, REQUEST};
use crate::agent::turn::{Action, End, Entry, Event, Turn};
use crate::policy::approve::{Answer, Notice, RequestId};
use crate::time::Monotonic;

/// Ends a turn from anywhere. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Default for Stopper {
    fn default() -> Self {
        Self(watch::channel(false).0)
    }
}

impl Stopper {
    /// Ends the turn that runs with it, or the next one.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

type Asking = FuturesUnordered<BoxFuture<'static, (RequestId, Answer)>>;

/// An answer of the model in the making.
#[derive(Default)]
struct Hearing {
    answer: Option<ModelAnswer>,
    said: Said,
    usage: Option<Usage>,
}

/// What runs in one turn.
struct Course {
    around: Around,
    listener: Option<ListenerRef>,
    calls: FuturesUnordered<BoxFuture<'static, Event>>,
    hearing: Hearing,
    asking: Asking,
    stop: watch::Receiver<bool>,
}

impl Agent {
    /// One turn: what the user says, with `context` (resources and prompts, fenced) before it. Returns when it is
    /// over; within half a second of a stop. Whoever listens at `tell` must read, or drop it.
    pub async fn turn(
        &mut self,
        text: String,
        context: Vec<String>,
        ask: Arc<dyn Ask>,
        (tell, stopper): (mpsc::Sender<Told>, Stopper),
    ) -> End {
        let mut entries = self.instructions();
        entries.extend(context.into_iter().map(|text| Entry::Context { text }));
        entries.push(Entry::User { text });
        let (mut turn, first) = Turn::begin(self.settings.limits, entries, Monotonic::now());
        let mut course = Course {
            listener: ask.is_there().then(|| self.hands.runtime.approvals().listen()),
            around: Around { tell, ask },
            calls: FuturesUnordered::new(),
            hearing: Hearing::default(),
            asking: Asking::new(),
            stop: stopper.0.subscribe(),
        };
        let mut actions = VecDeque::from(first);
        loop {
            while let Some(action) = actions.pop_front() {
                if let Action::Over(end) = action {
                    stopper.0.send_replace(false);
                    if let Some(log) = &self.log {
                        let _ = log.sync();
                    }
                    return end;
                }
                if let Some(event) = self.perform(action, &mut course).await {
                    actions.extend(turn.on(event, Monotonic::now()));
                }
            }
            if let Some(event) = self.wait(&mut course, turn.until()).await {
                if !matches!(event, Event::Answered { .. }) {
                    course.hearing.answer = None;
                }
                actions.extend(turn.on(event, Monotonic::now()));
            }
        }
    }

    /// Does what the machine says; what came of it, if that is known at once.
    async fn perform(&mut self, action: Action, course: &mut Course) -> Option<Event> {
        let tell = &course.around.tell;
        match action {
            Action::Log(entry) => self.note(&entry, tell).await,
            Action::Ask => {
                // Room may have to be made by the model first.
                let chat = tokio::select! {
                    biased;
                    _ = course.stop.wait_for(|stop| *stop) => return Some(Event::Cancelled { partial: Said::default() }),
                    chat = self.prepare(tell) => chat,
                };
                course.hearing =
                    Hearing { answer: Some(self.model.answer(Arc::new(chat))), ..Hearing::default() };
            }
            Action::Compact => {
                let room = self.window() / 2;
                return Some(tokio::select! {
                    biased;
                    _ = course.stop.wait_for(|stop| *stop) => Event::Cancelled { partial: Said::default() },
                    made_room = self.make_room(room, tell) => Event::Compacted { made_room },
                });
            }
            Action::Call(call) => {
                let catalog = self.hands.runtime.catalog();
                let listed = call::listed(&call, &self.surface, &self.wanted(&catalog), &self.hands.runtime);
                let leads = self.surface.leads(&call.name).cloned();
                let order = Order { call, leads, listed };
                course.calls.push(self.hands.clone().run(order, course.around.clone()).boxed());
            }
            Action::DropCalls => course.calls = FuturesUnordered::new(),
            Action::Over(_) => {}
        }
        None
    }

    /// Waits for whatever comes first; the user's stop before everything else.
    async fn wait(&mut self, course: &mut Course, until: Monotonic) -> Option<Event> {
        let Course { around, listener, calls, hearing, asking, stop } = course;
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Some(Event::Cancelled { partial: std::mem::take(&mut hearing.said) }),
            () = tokio::time::sleep_until(until.into_tokio()) => Some(Event::TimePassed),
            Some((id, answer)) = asking.next() => {
                if let Some(listener) = listener {
                    listener.answer(id, answer);
                }
                None
            }
            Some(notice) = heard(listener) => {
                if let Notice::Asked(prompt) = notice
                    && prompt.session == self.hands.session
                {
                    let id = prompt.id;
                    asking.push(around.ask.approve(prompt).map(move |answer| (id, answer)).boxed());
                }
                None
            }
            Some(event) = calls.next() => Some(event),
            said = next(&mut hearing.answer) => self.hear(said, hearing, &around.tell).await,
        }
    }

    async fn note(&mut self, entry: &Entry, tell: &mpsc::Sender<Told>) {
        if let Some(warning) = self.write(entry) {
            let _ = tell.send(Told::Warning(warning)).await;
        }
        if let Entry::Said { usage: Some(last), .. } = entry {
            let all = self.conversation.usage;
            let cost = all.cost(&self.settings.prices);
            let _ = tell.send(Told::Used { last: *last, all, cost }).await;
        }
    }

    fn window(&self) -> u64 {
        self.model.about().window.unwrap_or(WINDOW_UNKNOWN)
    }

    /// All that the next answer depends on; makes room first where there is none.
    async fn prepare(&mut self, tell: &mpsc::Sender<Told>) -> Chat {
        let catalog = self.hands.runtime.catalog();
        if self.version != Some(catalog.version) {
            let surface = Surface::new(&self.wanted(&catalog), self.version.map(|_| &self.surface));
            if self.version.is_some() {
                let change = surface.change(&self.surface);
                if change != Default::default() {
                    let _ = tell.send(Told::Surface(change)).await;
                }
            }
            for warning in &surface.warnings {
                if self.warned.insert(warning.clone()) {
                    let _ = tell.send(Told::Warning(self.hands.redaction.text(warning))).await;
                }
            }
            (self.surface, self.version) = (surface, Some(catalog.version));
        }
        let fixed = self.surface.tokens + tokens(&self.system);
        let room = (self.window() * u64::from(self.settings.compact_at) / 100).saturating_sub(fixed);
        if compact::estimate(&self.conversation.messages()) > room {
            self.make_room(room, tell).await;
        }
        Chat {
            system: self.system.clone(),
            messages: self.conversation.messages(),
            tools: self.surface.tools.clone(),
        }
    }

    /// Shortens the conversation to so many tokens, and says so; whether it is shorter now.
    async fn make_room(&mut self, room: u64, tell: &mpsc::Sender<Told>) -> bool {
        let messages = self.conversation.messages();
        let before = compact::estimate(&messages);
        let (entry, how) = match compact::plan(&messages, room) {
            compact::Plan::Nothing => return false,
            compact::Plan::Trim(entry) => (entry, "results of earlier turns were left out"),
            compact::Plan::Summarise { keep } => {
                let earlier = &messages[..messages.len() - keep];
                let summary = match self.summary(earlier, room).await {
                    Some(summary) => summary,
                    None => compact::plain_summary(earlier),
                };
                (Entry::Compacted { keep, summary }, "earlier turns were summed up")
            }
        };
        self.note(&entry, tell).await;
        let after = compact::estimate(&self.conversation.messages());
        let _ = tell.send(Told::MadeRoom { how: how.to_owned(), before, after }).await;
        after < before
    }

    /// A summary by the model itself, if what is to be summed up fits.
    async fn summary(&self, earlier: &[Message], room: u64) -> Option<String> {
        let mut messages = earlier.to_vec();
        match messages.last() {
            Some(Message::Model(said)) if !said.calls.is_empty() => return None,
            Some(Message::User(_)) => {
                messages.push(Message::Model(Said { text: "…".into(), ..Said::default() }))
            }
            _ => {}
        }
        messages.push(Message::User(REQUEST.to_owned()));
        if compact::estimate(&messages) > room.max(self.window() * 9 / 10) {
            return None;
        }
        let chat = Chat { system: self.system.clone(), messages, tools: self.surface.tools.clone() };
        let mut answer = self.model.answer(Arc::new(chat));
        let mut text = String::new();
        while let Some(event) = answer.next().await {
            match event.ok()? {
                ModelEvent::Text(piece) => text.push_str(&piece),
                ModelEvent::Stop(_) => break,
                _ => {}
            }
        }
        Some(text).filter(|text| !text.trim().is_empty())
    }

    /// Takes one event of the model; what it means for the turn.
    async fn hear(
        &self,
        said: Option<Result<ModelEvent, ModelError>>,
        hearing: &mut Hearing,
        tell: &mpsc::Sender<Told>,
    ) -> Option<Event> {
        let told = match said {
            None => {
                let error = ModelError::new(Trouble::Network, "the model's answer ended before it was whole");
                return Some(Event::Failed { error, partial: std::mem::take(&mut hearing.said) });
            }
            Some(Err(error)) => {
                return Some(Event::Failed { error, partial: std::mem::take(&mut hearing.said) });
            }
            Some(Ok(event)) => match event {
                ModelEvent::Text(text) => {
                    hearing.said.text.push_str(&text);
                    Told::Text(text)
                }
                ModelEvent::Reasoning(text) => Told::Reasoning(text),
                ModelEvent::Calling(name) => Told::Calling(name),
                ModelEvent::Again { attempt, wait, why } => Told::Again { attempt, wait, why },
                ModelEvent::Reasoned(reasoning) => {
                    hearing.said.reasoning.push(reasoning);
                    return None;
                }
                ModelEvent::Call(call) => {
                    hearing.said.calls.push(call);
                    return None;
                }
                ModelEvent::Usage(usage) => {
                    hearing.usage = Some(usage);
                    return None;
                }
                ModelEvent::Stop(stop) => return Some(self.whole(hearing, stop)),
            },
        };
        let _ = tell.send(told).await;
        None
    }

    /// The answer is whole. Ids of calls that endpoints would refuse, or that were there before, are ours.
    fn whole(&self, hearing: &mut Hearing, stop: Stop) -> Event {
        let mut said = std::mem::take(&mut hearing.said);
        let mut here: BTreeSet<String> = BTreeSet::new();
        let mut count = 0u64;
        for call in &mut said.calls {
            while !is_id(call) || self.conversation.knows(&call.id) || here.contains(&call.id) {
                count += 1;
                call.id = format!("call_{}_{count}", self.conversation.messages().len());
            }
            here.insert(call.id.clone());
        }
        Event::Said { said, stop, usage: hearing.usage.take() }
    }
}

/// Whether every endpoint takes the id of a call.
fn is_id(call: &ToolCall) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    !call.id.is_empty() && call.id.len() <= 64 && call.id.bytes().all(plain)
}

/// The next notice; never, when nobody listens.
async fn heard(listener: &mut Option<ListenerRef>) -> Option<Notice> {
    let Some(known) = listener else { return std::future::pending().await };
    let notice = known.next().await;
    if notice.is_none() {
        *listener = None;
    }
    notice
}

/// The next event of the model; never, while it is not asked.
async fn next(answer: &mut Option<ModelAnswer>) -> Option<Result<ModelEvent, ModelError>> {
    match answer {
        Some(answer) => answer.next().await,
        None => std::future::pending().await,
    }
}

//! The actor of the desk: performs what `policy::approve` says. No handler waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::gate::Gate;
use super::held::{Asked, Decision, because, hold};
use super::minutes::Minutes;
use crate::actors::audit::Said;
use crate::actors::frontend::FrontendMsg;
use crate::actors::root::Seat;
use crate::actors::task::{self, TaskHandle};
use crate::call::{CallError, Grant};
use crate::config::rule_book::RuleKey;
use crate::config::rule_file;
use crate::config::rules::AllowRules;
use crate::config::spec::Scope;
use crate::id::{ListenerId, SessionId};
use crate::policy::approve::{
    Action, Answer, Approvals, CallKey, Denied, Event, Notice, Prompt, RequestId, arguments, fit,
};
use crate::time::Monotonic;

/// What the desk is told.
#[derive(Debug)]
pub(crate) enum ApprovalsMsg {
    /// The policy asks about this call.
    Ask(Box<Asked>),
    /// Show requests to this listener.
    Listen(ListenerId, mpsc::Sender<Notice>),
    /// A listener answered.
    Answer(ListenerId, RequestId, Answer),
    /// A listener went away.
    Left(ListenerId),
    /// A held call went back, was refused, or lost its caller.
    Ended(RequestId),
    /// A session ended.
    SessionOver(SessionId),
    /// Go by this from now on.
    SetGate(Box<Gate>),
    /// The file of rules says this now. Only who follows the file says so: one reader, so that what
    /// was read earlier never comes in later.
    Rules(AllowRules),
    /// A rule was written into the file.
    Kept,
    /// A rule could not be kept.
    NotKept(String),
    /// The next request expires.
    Woke,
    /// Fail, to see that it is mended.
    #[cfg(test)]
    Panic,
}

/// What the desk is made of.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalsArgs {
    /// Kept by the runtime, so that the front end keeps the last value.
    pub gate: watch::Sender<Arc<Gate>>,
    pub frontend: Seat<FrontendMsg>,
    /// Asks who follows the file of rules to read it now.
    pub reread: Arc<Notify>,
}

pub(crate) struct ApprovalsActor;

pub(crate) struct ApprovalsState {
    me: ActorRef<ApprovalsMsg>,
    args: ApprovalsArgs,
    machine: Approvals,
    next: u64,
    requests: BTreeMap<RequestId, Request>,
    listeners: BTreeMap<ListenerId, mpsc::Sender<Notice>>,
    wake: Option<(Monotonic, TaskHandle)>,
    /// The answer that is being looked at.
    said: Option<Said>,
    /// Rules that are being written.
    keeping: Vec<TaskHandle>,
}

struct Request {
    prompt: Prompt,
    key: CallKey,
    scope: Scope,
    refusal: CallError,
    /// `None` when calls are not audited.
    minutes: Option<Minutes>,
    decide: Option<oneshot::Sender<Decision>>,
    _holds: TaskHandle,
}

impl Actor for ApprovalsActor {
    type Msg = ApprovalsMsg;
    type State = ApprovalsState;
    type Arguments = ApprovalsArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ApprovalsMsg>,
        args: ApprovalsArgs,
    ) -> Result<ApprovalsState, ActorProcessingErr> {
        let machine = Approvals::new(args.gate.borrow().expires);
        Ok(ApprovalsState {
            me,
            args,
            machine,
            next: 0,
            requests: BTreeMap::new(),
            listeners: BTreeMap::new(),
            wake: None,
            said: None,
            keeping: Vec::new(),
        })
    }

    async fn handle(
        &self,
        _me: ActorRef<ApprovalsMsg>,
        message: ApprovalsMsg,
        state: &mut ApprovalsState,
    ) -> Result<(), ActorProcessingErr> {
        let now = Monotonic::now();
        match message {
            ApprovalsMsg::Ask(asked) => state.ask(*asked, now),
            ApprovalsMsg::Listen(id, notices) => {
                state.listeners.insert(id, notices);
                state.on(Event::Came(id), now);
                if !state.machine.is_listening(id) {
                    // Its end of the channel closes: it knows that it hears nothing.
                    state.listeners.remove(&id);
                }
            }
            ApprovalsMsg::Answer(by, id, answer) => {
                state.said = Some(Said { by, answer });
                state.on(Event::Answered(by, id, answer), now);
                state.said = None;
            }
            ApprovalsMsg::Left(id) => {
                state.listeners.remove(&id);
                state.on(Event::Left(id), now);
            }
            ApprovalsMsg::Ended(id) => {
                state.on(Event::Abandoned(id), now);
                state.requests.remove(&id);
            }
            ApprovalsMsg::SessionOver(session) => state.on(Event::SessionOver(session), now),
            ApprovalsMsg::SetGate(gate) => {
                state.machine.set_expiry(gate.expires);
                let _ = state.args.gate.send_replace(Arc::new(*gate));
            }
            ApprovalsMsg::Rules(rules) => {
                state.args.gate.send_modify(|gate| {
                    let next = Gate { rules: Arc::new(rules), ..Gate::clone(gate) };
                    *gate = Arc::new(next);
                });
            }
            ApprovalsMsg::Kept => state.args.reread.notify_one(),
            ApprovalsMsg::NotKept(error) => tracing::warn!(%error, "an allow rule could not be kept"),
            ApprovalsMsg::Woke => state.on(Event::Woke, now),
            #[cfg(test)]
            ApprovalsMsg::Panic => panic!("asked to"),
        }
        state.set_timer();
        Ok(())
    }
}

impl ApprovalsState {
    fn ask(&mut self, asked: Asked, now: Monotonic) {
        self.next += 1;
        let id = RequestId(self.next);
        let Asked { call, key, scope, rule, refusal } = asked;
        let gate = self.args.gate.borrow().clone();
        let Some(request) = call.request() else { return };
        let session = request.session;
        let prompt = Prompt {
            id,
            session,
            server: key.tool.server.clone(),
            tool: fit(&key.tool.tool, &gate.redaction.now()),
            arguments: arguments(&request.params, &gate.redaction.now()),
            rule,
            can_keep: gate.place.is_some(),
            expires_in: gate.expires,
        };
        let (decide, decided) = oneshot::channel();
        let minutes = call.minutes();
        let holding = hold(id, call, decided, self.args.frontend.clone());
        let request = Request {
            prompt,
            scope,
            key: key.clone(),
            refusal,
            minutes,
            decide: Some(decide),
            _holds: task::spawn(&self.me, holding, move |_| ApprovalsMsg::Ended(id)),
        };
        self.requests.insert(id, request);
        self.on(Event::Asked(id, session, key), now);
    }

    fn on(&mut self, event: Event, now: Monotonic) {
        let mut actions = self.machine.on(event, now);
        // What can't be shown changes what has to be done.
        while !actions.is_empty() {
            let mut more = Vec::new();
            for action in actions {
                if let Some(event) = self.perform(action) {
                    more.extend(self.machine.on(event, now));
                }
            }
            actions = more;
        }
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Show(to, id) => {
                let shown = self.requests.get(&id).map(|request| Notice::Asked(request.prompt.clone()));
                let sent = self.listeners.get(&to).zip(shown).is_some_and(|(to, n)| to.try_send(n).is_ok());
                return (!sent).then_some(Event::Unseen(to, id));
            }
            Action::Withdraw(from, id) => {
                if let Some(listener) = self.listeners.get(&from) {
                    // One that does not read finds out when it answers.
                    let _ = listener.try_send(Notice::Settled(id));
                }
            }
            Action::Grant(id) => {
                let request = self.requests.get(&id);
                if let Some((minutes, said)) = request.and_then(|r| r.minutes.as_ref()).zip(self.said) {
                    minutes.given(said);
                }
                let grant = request.map(|request| Grant::of(request.key.call));
                self.decide(id, grant.map(Decision::Run));
            }
            Action::Keep(id) => self.keep(id),
            Action::Deny(id, why) => {
                let refusal = self.requests.get(&id).map(|request| because(&request.refusal, why.why()));
                let said = self.said.filter(|_| why == Denied::ByPerson);
                self.decide(id, refusal.map(|error| Decision::Refuse(Box::new(error), said)));
            }
        }
        None
    }

    fn decide(&mut self, id: RequestId, decision: Option<Decision>) {
        let port = self.requests.get_mut(&id).and_then(|request| request.decide.take());
        if let (Some(port), Some(decision)) = (port, decision) {
            // The caller may have left meanwhile; the task reports that.
            let _ = port.send(decision);
        }
    }

    /// Writes an allow rule aside. The call itself runs whatever becomes of it.
    fn keep(&mut self, id: RequestId) {
        self.keeping.retain(|task| !task.is_finished());
        let Some(request) = self.requests.get(&id) else { return };
        let Some(place) = self.args.gate.borrow().place.clone() else { return };
        let key = RuleKey::of(request.scope, place.root_of(&request.prompt.server), &request.prompt.server);
        let (tool, minutes) = (request.key.tool.tool.clone(), request.minutes.clone());
        let work = async move {
            let written =
                tokio::task::spawn_blocking(move || rule_file::allow(&place.home, &key, &tool).map(|_| ()));
            match written.await {
                Ok(Ok(())) => {
                    if let Some(minutes) = minutes {
                        minutes.rule_made();
                    }
                    // Not what the file said then: it may say something else by now.
                    ApprovalsMsg::Kept
                }
                Ok(Err(error)) => ApprovalsMsg::NotKept(error.to_string()),
                Err(_) => ApprovalsMsg::NotKept("the writer was lost".to_owned()),
            }
        };
        let lost = |_| ApprovalsMsg::NotKept("the writer was lost".to_owned());
        self.keeping.push(task::spawn(&self.me, work, lost));
    }

    fn set_timer(&mut self) {
        let due = self.machine.next_expiry();
        if due != self.wake.as_ref().map(|(at, _)| *at) {
            self.wake = due.map(|at| (at, task::wake(&self.me, at, ApprovalsMsg::Woke)));
        }
    }
}

//! The tour of `callboard demo`: starts a runtime on the demo servers, calls them, has one die
//! and one hang, and checks each thing that it claims. Never reads a configuration. Called by
//! the command line.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::fleet;
use super::screen::{Look, Screen, human};
use crate::actors::frontend::{CALL_EVENTS_MAX, FrontendRef};
use crate::call::{CallError, CallEvent, CallLimits, CallRequest, Delivery, ErrorCode, ItemKind, Target};
use crate::id::{ServerId, SessionId};
use crate::runtime::Runtime;
use crate::time::Monotonic;
use crate::view::{LifeState, ServerView};

/// How often the table looks at the servers.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// Longest wait for servers to be ready, or to be back.
const READY_MAX: Duration = Duration::from_secs(20);

/// How long the hanging call may take before its limit ends it.
const HANG_LIMIT: Duration = Duration::from_secs(2);

/// Calls that are timed beside the hanging one.
const TIMED_CALLS: usize = 200;

/// Longest time that one of the timed calls may take: far below the limit of the hanging one.
const NEIGHBOUR_MAX: Duration = Duration::from_secs(1);

/// How the demo is shown.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The program that contains the demo servers; `None` means this one.
    pub program: Option<PathBuf>,
    /// How to write.
    pub look: Look,
}

impl DemoOptions {
    /// Redraws in place when stdout is a screen; colours there when `color` says so.
    pub fn detect(color: bool) -> Self {
        let live = io::stdout().is_terminal();
        Self { program: None, look: Look { live, color: color && live } }
    }
}

/// What a step did not see.
struct Failed(String);

type Step = Result<(), Failed>;

/// Runs the whole tour on stdout. Success only when every step really happened; else 1, after a
/// line that says what did not.
/// Fails when something of it could not be written.
pub async fn run(options: DemoOptions) -> io::Result<ExitCode> {
    let mut screen = Screen::new(io::stdout(), options.look);
    let code = shown_on(&mut screen, options.program).await;
    screen.lost().map_or(Ok(code), Err)
}

/// As [`run`], on any writer, whatever that makes of it.
pub async fn run_on(out: impl Write, options: DemoOptions) -> ExitCode {
    shown_on(&mut Screen::new(out, options.look), options.program).await
}

async fn shown_on(screen: &mut Screen<impl Write>, program: Option<PathBuf>) -> ExitCode {
    let program = match program.map_or_else(std::env::current_exe, Ok) {
        Ok(program) => program,
        Err(error) => {
            screen.line(&format!("FAILED: the path of this program is not known: {error}"));
            return ExitCode::FAILURE;
        }
    };
    screen.line(
        "Callboard demo: four MCP servers, each a process of its own, each supervised by its own actor.",
    );
    let started = Monotonic::now();
    let runtime = match Runtime::start(fleet::plan(&program)).await {
        Ok(runtime) => runtime,
        Err(error) => {
            screen.line(&format!("FAILED: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let mut tour = Tour { frontend: runtime.frontend(), runtime, screen };
    let went = tour.all().await;
    let pids: Vec<u32> = tour.runtime.status().iter().filter_map(|view| view.pid).collect();
    let Tour { runtime, screen, .. } = tour;
    runtime.shutdown().await;
    let went = went.and_then(|()| nothing_left(screen, &pids));
    match went {
        Ok(()) => {
            let took = human(Monotonic::now().since(started));
            screen.heading(&format!("All of this really happened, in {took}. Now with your servers:"));
            for line in NEXT {
                screen.line(line);
            }
            ExitCode::SUCCESS
        }
        Err(Failed(what)) => {
            screen.heading(&format!("FAILED: {what}"));
            ExitCode::FAILURE
        }
    }
}

/// What to do after the tour.
const NEXT: [&str; 7] = [
    "  cargo install --path .                                put `callboard` on your PATH",
    "  callboard mcp add files -- npx -y @modelcontextprotocol/server-filesystem .",
    "  callboard mcp add docs https://example.com/mcp        or a server behind a URL",
    "  callboard mcp status                                  start all, show the truth about each",
    "  callboard mcp tools files                             what it offers",
    "  callboard mcp call files list_directory path=.        use it",
    "  callboard mcp --help                                  everything else",
];

/// After the end, no process may be left.
fn nothing_left(screen: &mut Screen<impl Write>, pids: &[u32]) -> Step {
    let left: Vec<u32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
    check(left.is_empty(), || format!("processes {left:?} outlived the runtime"))?;
    screen.heading("5. The end");
    screen.seen(&format!("all {} processes ended, none is left", pids.len()));
    Ok(())
}

#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

#[cfg(not(unix))]
fn is_alive(_pid: u32) -> bool {
    false
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Step {
    if holds { Ok(()) } else { Err(Failed(otherwise())) }
}

/// What a call is for: server, kind, name, and the rest of `params`.
struct Ask {
    server: &'static str,
    kind: ItemKind,
    name: &'static str,
    arguments: Value,
    limits: CallLimits,
}

impl Ask {
    fn tool(server: &'static str, name: &'static str, arguments: Value) -> Self {
        Self { server, kind: ItemKind::Tool, name, arguments, limits: CallLimits::default() }
    }

    fn text(&self) -> String {
        match self.kind {
            ItemKind::Resource => format!("read {}", self.name),
            _ => format!("{} {}", self.name, self.arguments),
        }
    }

    fn request(&self, frontend: &FrontendRef) -> CallRequest {
        let mut params = json!({ self.kind.name_key().unwrap_or("name"): self.name });
        if self.kind != ItemKind::Resource {
            params["arguments"] = self.arguments.clone();
        }
        CallRequest {
            id: frontend.next_call_id(),
            session: SessionId(0),
            target: Target::Direct {
                server: ServerId::new(self.server),
                kind: self.kind,
                name: self.name.to_owned(),
            },
            params: Bytes::from(params.to_string()),
            limits: self.limits,
            grant: None,
        }
    }
}

/// The answer as text: the first text block, resource or prompt message; else the raw bytes.
fn text_of(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let places = ["/content/0/text", "/contents/0/text", "/messages/0/content/text", "/message"];
    let text = places.iter().find_map(|place| value.pointer(place)?.as_str());
    text.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}

/// What a call came back with, and how long it took.
struct Came {
    answer: Result<String, CallError>,
    took: Duration,
}

async fn send(frontend: &FrontendRef, ask: &Ask, events: Option<mpsc::Sender<CallEvent>>) -> Came {
    let from = Monotonic::now();
    let answer = frontend.call(ask.request(frontend), events).await;
    let took = Monotonic::now().since(from);
    Came { answer: answer.map(|reply| text_of(&reply.body())), took }
}

struct Tour<'a, W> {
    runtime: Runtime,
    frontend: FrontendRef,
    screen: &'a mut Screen<W>,
}

impl<W: Write> Tour<'_, W> {
    async fn all(&mut self) -> Step {
        self.start().await?;
        self.calls().await?;
        self.crash().await?;
        self.hang().await
    }

    fn view(&self, name: &str) -> Result<ServerView, Failed> {
        let views = self.runtime.status();
        let found = views.into_iter().find(|view| view.id.as_str() == name);
        found.ok_or_else(|| Failed(format!("no server {name} in the status")))
    }

    /// Shows the table until `done`, or fails after `READY_MAX`.
    async fn watch(&mut self, what: &str, done: impl Fn(&[ServerView]) -> bool) -> Step {
        let until = Monotonic::now() + READY_MAX;
        loop {
            let views = self.runtime.status();
            self.screen.servers(&views);
            if done(&views) {
                return Ok(());
            }
            let parked = views.iter().find(|view| matches!(view.state, LifeState::Parked(_)));
            if let Some(view) = parked {
                let why = view.why.as_deref().unwrap_or("no reason given");
                return Err(Failed(format!("{} was parked: {why}", view.id)));
            }
            check(Monotonic::now() < until, || format!("{what} within {READY_MAX:?}: it did not happen"))?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// One call that must be answered; shown, and its text given back.
    async fn call(&mut self, ask: Ask) -> Result<String, Failed> {
        self.screen.asked(ask.server, &ask.text());
        let came = send(&self.frontend, &ask, None).await;
        match came.answer {
            Ok(text) => {
                self.screen.answered(&text, came.took);
                Ok(text)
            }
            Err(error) => Err(Failed(format!("{} {}: {error}", ask.server, ask.name))),
        }
    }

    async fn start(&mut self) -> Step {
        self.screen.heading("1. All start at once, each on its own clock");
        self.watch("all servers ready", |views| {
            views.iter().all(|view| view.state == LifeState::Ready && view.counts.tools > 0)
        })
        .await?;
        self.runtime.settle(&[], READY_MAX).await;
        let tools = self.runtime.catalog().tools.len();
        check(tools == 7, || format!("the catalogue has {tools} tools, not 7"))?;
        self.screen.seen(&format!("{tools} tools in one catalogue, such as mcp__notes__add_note"));
        Ok(())
    }

    async fn calls(&mut self) -> Step {
        self.screen.heading("2. Calls: tools, a resource, a prompt, progress");
        self.call(Ask::tool("notes", "add_note", json!({"text": "water the plants"}))).await?;
        self.call(Ask::tool("notes", "add_note", json!({"text": "Plants like tea, too"}))).await?;
        let found = self.call(Ask::tool("notes", "search_notes", json!({"query": "PLANTS"}))).await?;
        check(found.lines().count() == 2, || format!("two notes were kept, and the search found {found:?}"))?;
        self.call(Ask { kind: ItemKind::Resource, ..Ask::tool("notes", "notes://all", json!({})) }).await?;
        let style = json!({"style": "a haiku"});
        self.call(Ask { kind: ItemKind::Prompt, ..Ask::tool("notes", "summarise_notes", style) }).await?;
        self.call(Ask::tool("clock", "now", json!({}))).await?;
        self.progress().await
    }

    async fn progress(&mut self) -> Step {
        let ask = Ask::tool("clock", "wait", json!({"seconds": 0.5}));
        self.screen.asked(ask.server, &ask.text());
        let (events, mut incoming) = mpsc::channel(CALL_EVENTS_MAX);
        let frontend = self.frontend.clone();
        let call = send(&frontend, &ask, Some(events));
        tokio::pin!(call);
        let mut reports = 0;
        let came = loop {
            tokio::select! {
                biased;
                Some(event) = incoming.recv() => reports += self.report(&event),
                came = &mut call => break came,
            }
        };
        while let Ok(event) = incoming.try_recv() {
            reports += self.report(&event);
        }
        let text = came.answer.map_err(|error| Failed(format!("clock wait: {error}")))?;
        self.screen.answered(&text, came.took);
        check(reports == 5, || format!("clock wait reports progress five times; {reports} came"))
    }

    /// Shows one progress report; counts as one. Other events count as none.
    fn report(&mut self, event: &CallEvent) -> usize {
        let CallEvent::Progress(params) = event else { return 0 };
        let params: Value = serde_json::from_slice(params).unwrap_or_default();
        self.screen.line(&format!("    … progress {} of {}", params["progress"], params["total"]));
        1
    }

    async fn crash(&mut self) -> Step {
        self.screen.heading("3. A server dies in mid-call, and comes back");
        let (before, neighbour) = (self.view("crashy")?, self.view("notes")?);
        let ask = Ask::tool("crashy", "divide", json!({"dividend": 84, "divisor": 0}));
        self.screen.asked(ask.server, &ask.text());
        let came = send(&self.frontend, &ask, None).await;
        let error = match came.answer {
            Ok(text) => return Err(Failed(format!("crashy answered {text:?} instead of dying"))),
            Err(error) => error,
        };
        self.screen.failed(&error.message, came.took);
        self.screen.line(&format!("    code {}, delivery: {}", error.code, delivery_text(error.delivery)));
        check(error.code == ErrorCode::ConnectionLost, || format!("a death was told as {}", error.code))?;
        check(error.delivery == Delivery::Unknown, || "a lost call was told as harmless".to_owned())?;
        // Asked at once: the call waits for the restart, within its own limit.
        let quotient =
            self.call(Ask::tool("crashy", "divide", json!({"dividend": 84, "divisor": 2}))).await?;
        check(quotient == "42", || format!("84 / 2 came back as {quotient}"))?;
        self.watch("crashy back", |views| views.iter().all(|view| view.state == LifeState::Ready)).await?;
        let after = self.view("crashy")?;
        check(after.pid != before.pid && after.restarts == before.restarts + 1, || {
            format!("crashy has pid {:?} and {} restarts: no restart was seen", after.pid, after.restarts)
        })?;
        let pid = |view: &ServerView| view.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        self.screen.seen(&format!("crashy died as pid {} and answers as pid {}", pid(&before), pid(&after)));
        let kept = self.call(Ask::tool("notes", "list_notes", json!({}))).await?;
        let same = self.view("notes")?;
        check(same.pid == neighbour.pid && same.restarts == 0 && kept.lines().count() == 2, || {
            "notes was disturbed by the death of crashy".to_owned()
        })?;
        self.screen.seen(&format!("notes is still pid {}, and its notes are still there", pid(&same)));
        Ok(())
    }

    async fn hang(&mut self) -> Step {
        self.screen.heading("4. A server hangs, and hurts nobody");
        let alone = self.timed("nobody hangs").await?;
        let mut ask = Ask::tool("hang", "think", json!({"question": "why?"}));
        ask.limits = CallLimits { idle: Some(HANG_LIMIT), total: Some(HANG_LIMIT) };
        self.screen.asked(ask.server, &format!("{} (limit {})", ask.text(), human(HANG_LIMIT)));
        let frontend = self.frontend.clone();
        let hanging = async { send(&frontend, &ask, None).await };
        let (beside, came) = tokio::join!(self.timed("hang hangs"), hanging);
        let beside = beside?;
        let error = match came.answer {
            Ok(text) => return Err(Failed(format!("hang answered {text:?}"))),
            Err(error) => error,
        };
        self.screen.failed(&error.message, came.took);
        self.screen.line(&format!("    code {}, delivery: {}", error.code, delivery_text(error.delivery)));
        let timed_out = matches!(error.code, ErrorCode::TimeoutIdle | ErrorCode::TimeoutTotal);
        check(timed_out, || format!("the hanging call ended as {}, not by its limit", error.code))?;
        check(beside.all < came.took, || "the timed calls were not over before the hanging one".to_owned())?;
        check(beside.max < NEIGHBOUR_MAX, || format!("a neighbour had to wait {}", human(beside.max)))?;
        self.screen.seen(&format!(
            "{TIMED_CALLS} calls to notes and clock: half within {} alone, within {} beside the hanging call",
            human(alone.p50),
            human(beside.p50)
        ));
        Ok(())
    }

    /// Calls notes and clock in turn and measures.
    async fn timed(&mut self, when: &str) -> Result<Latencies, Failed> {
        let asks = [Ask::tool("notes", "list_notes", json!({})), Ask::tool("clock", "now", json!({}))];
        let mut times = Vec::with_capacity(TIMED_CALLS);
        for ask in asks.iter().cycle().take(TIMED_CALLS) {
            let came = send(&self.frontend, ask, None).await;
            came.answer.map_err(|error| Failed(format!("{} while {when}: {error}", ask.server)))?;
            times.push(came.took);
        }
        let latencies = Latencies::of(times);
        self.screen.line(&format!(
            "    {when:<13} {TIMED_CALLS} calls to notes and clock: p50 {}, p99 {}, slowest {}",
            human(latencies.p50),
            human(latencies.p99),
            human(latencies.max)
        ));
        Ok(latencies)
    }
}

/// The words of `--json`, for people.
fn delivery_text(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::NotSent => "not sent, safe to try again",
        Delivery::Unknown => "outcome unknown, so never sent twice",
        Delivery::Executed => "executed",
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Latencies {
    p50: Duration,
    p99: Duration,
    max: Duration,
    all: Duration,
}

impl Latencies {
    /// Of at least one measurement; zeros of none.
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let rank = |percent: usize| {
            let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(at).copied().unwrap_or_default()
        };
        Self { p50: rank(50), p99: rank(99), max: rank(100), all: times.iter().sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let times = (1..=200).rev().map(Duration::from_millis).collect();
        let ms = Duration::from_millis;
        assert_eq!(
            Latencies::of(times),
            Latencies { p50: ms(100), p99: ms(198), max: ms(200), all: ms(20_100) }
        );
        assert_eq!(Latencies::of(Vec::new()).max, Duration::ZERO);
    }

    #[test]
    fn answers_of_every_kind_are_shown_as_text() {
        for (body, text) in [
            (r#"{"content":[{"type":"text","text":"a"}]}"#, "a"),
            (r#"{"contents":[{"uri":"x","text":"b"}]}"#, "b"),
            (r#"{"messages":[{"role":"user","content":{"type":"text","text":"c"}}]}"#, "c"),
            (r#"{"code":-32602,"message":"d"}"#, "d"),
            (r#"{"content":[]}"#, r#"{"content":[]}"#),
        ] {
            assert_eq!(text_of(body.as_bytes()), text);
        }
    }

    #[test]
    fn no_process_has_the_number_of_one_that_was_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(!is_alive(pid));
        assert!(is_alive(std::process::id()));
    }
}

//! The stdio transport: one reader, one writer, and what the framing flags do between messages.
//! Owns stdin and stdout, must never know what a method means. Called by `main`.

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::args::Flags;
use crate::life;
use crate::methods::{self, Ctx, Reply};
use crate::rpc::{self, Incoming, Request, RpcError};
use crate::server::{Cancel, Filter, Outlet, Server, Session, lock, pause};
use crate::values::{Maybe, Place, Size, at};
use crate::wire;

/// `--reorder` and `--batch` gather answers until none came for that long and no request is being worked on.
const WINDOW: Duration = Duration::from_millis(30);

/// How much of an endless line leaves together with the message before it.
const FIRST_BYTES: u64 = 1024;

/// The writing end.
struct Stdout {
    server: Arc<Server>,
    session: Arc<Session>,
    /// One message at a time.
    writing: Mutex<()>,
    /// Answers that wait for their window to close.
    held: Mutex<Vec<Answer>>,
    arrived: Condvar,
}

/// A whole answer on its way out.
struct Answer {
    /// Its request's place in the order of arrival.
    order: u64,
    bytes: Vec<u8>,
    method: String,
    code: Option<i64>,
}

/// A flag that is on at this place; alone it is on at `default`, or everywhere when there is none.
fn placed(flag: &Maybe<Place>, here: Option<Place>, default: Option<Place>) -> bool {
    flag.on() && flag.value().copied().or(default).is_none_or(|place| Some(place) == here)
}

impl Stdout {
    fn line_end(&self) -> &'static [u8] {
        if self.server.flags.crlf { b"\r\n" } else { b"\n" }
    }

    /// What stands before every message: byte order mark and banner.
    fn begin(&self) {
        let flags = &self.server.flags;
        let mut bytes = Vec::new();
        if flags.bom {
            bytes.extend_from_slice("\u{feff}".as_bytes());
        }
        for line in flags.banner.iter().flat_map(|text| text.split('\n')) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(self.line_end());
        }
        if !bytes.is_empty() {
            let _held = lock(&self.writing);
            let _ = wire::write_shaped(
                &mut std::io::stdout().lock(),
                Some(std::io::stdout().as_fd()),
                &bytes,
                flags,
            );
        }
    }

    /// Puts the line end and blank lines after a message.
    fn frame(&self, message: &[u8]) -> Vec<u8> {
        let flags = &self.server.flags;
        let end = self.line_end();
        let mut bytes = Vec::with_capacity(message.len() + 64);
        bytes.extend_from_slice(message);
        bytes.extend_from_slice(end);
        if flags.blank_lines {
            for blank in [b"".as_slice(), b"   ", b"\t"] {
                bytes.extend_from_slice(blank);
                bytes.extend_from_slice(end);
            }
        }
        bytes
    }

    fn write(&self, message: &[u8]) -> bool {
        self.write_as("out", message)
    }

    fn write_as(&self, ev: &str, message: &[u8]) -> bool {
        let bytes = self.frame(message);
        let _held = lock(&self.writing);
        self.server.trace.message(ev, message, "");
        wire::write_shaped(
            &mut std::io::stdout().lock(),
            Some(std::io::stdout().as_fd()),
            &bytes,
            &self.server.flags,
        )
        .is_ok()
    }

    /// An answer leaves, now or with its window.
    fn answer(&self, answer: Answer) {
        if self.server.flags.reorder || self.server.flags.batch {
            lock(&self.held).push(answer);
            self.arrived.notify_all();
        } else {
            self.leave(&answer);
        }
    }

    fn leave(&self, answer: &Answer) {
        let server = &self.server;
        let flags = &server.flags;
        let here = methods::place_of(&answer.method);
        self.noise(here);
        if placed(&flags.stdout_close, here, Some(Place::Call)) {
            life::close_stdout();
            return;
        }
        if placed(&flags.cut_answer, here, Some(Place::Call)) {
            let half = &answer.bytes[..answer.bytes.len() / 2];
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(half).and_then(|()| out.flush());
            server.exit(1, "cut-answer");
        }
        if let Some(Size(bytes)) = here.and_then(|here| at(&flags.endless_line, here, Place::Call)) {
            self.endless(*bytes);
        }
        self.write(&answer.bytes);
        if flags.answer_twice {
            self.write(&answer.bytes);
        }
        methods::after(server, &answer.method, answer.code);
    }

    /// Lines that are no messages.
    fn noise(&self, here: Option<Place>) {
        let flags = &self.server.flags;
        let nth = self.server.answers.fetch_add(1, Ordering::Relaxed) + 1;
        if flags.noise_every.is_some_and(|every| nth.is_multiple_of(every.max(1))) {
            self.write_as("noise", format!("debug: answer {nth} is about to leave").as_bytes());
        }
        if placed(&flags.json_noise, here, None) {
            for line in [r#"{"level":"info","msg":"not a message"}"#, "42", r#""text""#, "null", "[]", "true"]
            {
                self.write_as("noise", line.as_bytes());
            }
        }
    }

    /// A whole notification and then a line without end, in one go. Returns never.
    fn endless(&self, bytes: u64) -> ! {
        let whole =
            rpc::notification("notifications/message", &json!({"level": "info", "data": "before the flood"}));
        let begun = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":""#;
        let _held = lock(&self.writing);
        self.server.trace.message("out", whole.as_bytes(), "");
        let mut first = format!("{whole}\n{begun}").into_bytes();
        first.resize(first.len() + bytes.min(FIRST_BYTES) as usize, b'e');
        // Past std's line buffer, so that the whole message and the beginning of the line are one write.
        if let Ok(out) = std::io::stdout().as_fd().try_clone_to_owned() {
            let mut out = File::from(out);
            let rest = bytes.saturating_sub(FIRST_BYTES);
            let _ = out.write_all(&first).and_then(|()| wire::write_filler(&mut out, rest, b"endless "));
        }
        loop {
            std::thread::park();
        }
    }

    /// Lets gathered answers leave: reversed, packed, or both.
    fn gather(&self) {
        loop {
            let waiting = self
                .arrived
                .wait_while(lock(&self.held), |held| held.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            let mut gathered = waiting.len();
            drop(waiting);
            loop {
                pause(WINDOW);
                let now = lock(&self.held).len();
                if now == gathered && lock(&self.session.running).is_empty() {
                    break;
                }
                gathered = now;
            }
            let mut answers = std::mem::take(&mut *lock(&self.held));
            answers.sort_by_key(|answer| answer.order);
            if self.server.flags.reorder {
                answers.reverse();
            }
            if self.server.flags.batch {
                answers = vec![packed(answers)];
            }
            for answer in &answers {
                self.leave(answer);
            }
        }
    }
}

fn packed(answers: Vec<Answer>) -> Answer {
    let (order, method, code) =
        answers.first().map_or((0, String::new(), None), |a| (a.order, a.method.clone(), a.code));
    let mut bytes = vec![b'['];
    bytes.extend(answers.iter().map(|a| a.bytes.as_slice()).collect::<Vec<_>>().join(&b','));
    bytes.push(b']');
    Answer { order, bytes, method, code }
}

impl Outlet for Stdout {
    fn send(&self, message: &str) -> bool {
        self.write(message.as_bytes())
    }
}

/// The conversation on the pipe.
struct Pipe {
    server: Arc<Server>,
    session: Arc<Session>,
    out: Arc<Stdout>,
    subscribed: AtomicBool,
    /// Requests so far.
    arrived: AtomicU64,
}

/// Serves stdin until it ends. Returns never.
pub(crate) fn serve(server: Arc<Server>) -> ! {
    let session = Session::new("");
    let out = Arc::new(Stdout {
        server: Arc::clone(&server),
        session: Arc::clone(&session),
        writing: Mutex::default(),
        held: Mutex::default(),
        arrived: Condvar::new(),
    });
    if server.flags.reorder || server.flags.batch {
        let out = Arc::clone(&out);
        std::thread::spawn(move || out.gather());
    }
    out.begin();
    if server.flags.stdout_close.value() == Some(&Place::Start) {
        life::close_stdout();
    }
    let pipe = Arc::new(Pipe {
        server,
        session,
        out,
        subscribed: AtomicBool::new(false),
        arrived: AtomicU64::new(0),
    });
    let mut stdin = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match stdin.read_until(b'\n', &mut line) {
            Ok(0) => life::stdin_ended(&pipe.server),
            Ok(_) => pipe.take(line.trim_ascii()),
            Err(e) => pipe.server.exit(74, &format!("stdin: {e}")),
        }
    }
}

/// Whether answers take time or wait for something, so that they need a thread of their own.
fn slow(flags: &Flags, request: &Request) -> bool {
    if flags.request_roots_before_init || flags.request_wait {
        return true;
    }
    if flags.serial {
        return false;
    }
    let call = request.method == "tools/call";
    let starts = methods::place_of(&request.method) == Some(Place::Start);
    (call
        && (flags.slow.is_some()
            || flags.late_response.is_some()
            || flags.progress_forever
            || flags.flood_stderr.is_some()
            || flags.stderr_no_newline.is_some()
            || request.params.as_deref().is_some_and(|p| p.contains(r#""sleep""#))))
        || flags.endless_line.is_some()
        || (starts && flags.start_delay.is_some())
}

impl Pipe {
    fn take(self: &Arc<Self>, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        self.server.trace.message("in", line, "");
        match rpc::read(line) {
            Incoming::Request(request) if request.id.is_some() => self.request(request),
            Incoming::Request(request) => {
                let ctx = self.ctx(&request);
                methods::notice(&ctx, &request);
                if request.method == "notifications/initialized"
                    && !self.subscribed.swap(true, Ordering::SeqCst)
                {
                    self.server.hub.join(self.out.clone(), Filter::default());
                }
            }
            Incoming::Answer { id, code } => {
                self.server.replied(&self.session, &id, code);
            }
            Incoming::Bad(id, error) => self.refuse(id.as_deref().unwrap_or("null"), error),
        }
    }

    fn next(&self) -> u64 {
        self.arrived.fetch_add(1, Ordering::SeqCst)
    }

    fn refuse(&self, id: &str, error: RpcError) {
        let code = Some(error.code);
        let bytes = rpc::answer(id, &Err(error), None).into_bytes();
        self.out.answer(Answer { order: self.next(), bytes, method: String::new(), code });
    }

    fn ctx(&self, request: &Request) -> Ctx {
        Ctx {
            server: Arc::clone(&self.server),
            session: Arc::clone(&self.session),
            outlet: self.out.clone(),
            era: methods::era_of(&self.server, request),
            http: false,
            cancel: Arc::new(Cancel::default()),
        }
    }

    fn request(self: &Arc<Self>, request: Request) {
        let order = self.next();
        if slow(&self.server.flags, &request) || self.server.gate.is_stalled() {
            let pipe = Arc::clone(self);
            let ctx = self.ctx(&request);
            // Known before the thread runs, so that a cancellation right behind the request finds it.
            self.register(&request, &ctx);
            std::thread::spawn(move || pipe.run(order, &ctx, &request));
        } else {
            self.run(order, &self.ctx(&request), &request);
        }
    }

    fn register(&self, request: &Request, ctx: &Ctx) {
        if let Some(id) = &request.id {
            lock(&self.session.running).insert(id.clone(), Arc::clone(&ctx.cancel));
        }
    }

    fn run(&self, order: u64, ctx: &Ctx, request: &Request) {
        let (bytes, code) = match methods::answer(ctx, request) {
            Reply::Silent => return,
            Reply::Text { text, code } => (text.into_bytes(), code),
            Reply::Raw(bytes) => (bytes, None),
            Reply::Listen { ack, filter } => {
                self.out.send(&ack);
                self.server.hub.join(self.out.clone(), filter);
                return;
            }
        };
        self.out.answer(Answer { order, bytes, method: request.method.clone(), code });
    }
}

/// Notifications at a steady rate, for as long as somebody listens.
pub(crate) fn storm(server: &Arc<Server>) {
    let Some(rate) = server.flags.list_changed_storm else { return };
    let server = Arc::clone(server);
    std::thread::spawn(move || {
        let mut next = Instant::now();
        loop {
            next += rate.period();
            pause(next.saturating_duration_since(Instant::now()));
            if server.hub.len() > 0 {
                server.hub.tell("notifications/tools/list_changed", &json!({}));
            } else {
                next = Instant::now();
            }
        }
    });
}

//! The protocol side of the demo servers: a small blocking MCP peer over any pair of pipes,
//! both eras. Owns framing, envelopes and cancellation; knows no tool. Called by `serve`.

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Longest line taken from the client, in bytes.
const LINE_LEN_MAX: u64 = 1 << 20;

/// Slow calls that may run at once.
const SLOW_CALLS_MAX: usize = 32;

/// Revisions with `initialize`, oldest first.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The revision without `initialize`.
const MODERN: &str = "2026-07-28";

/// Keys of `_meta` in the modern era.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// What one demo server offers.
pub(super) trait Server: Send + Sync {
    /// The name that it gives itself.
    fn name(&self) -> &'static str;
    /// One sentence for the model.
    fn instructions(&self) -> &'static str;
    /// Tool definitions.
    fn tools(&self) -> Vec<Value>;
    /// Runs a tool of `tools`.
    fn call(&self, tool: &str, arguments: &Map<String, Value>, call: &Call) -> Answer;
    /// Whether a tool takes its time: it then runs beside the others.
    fn is_slow(&self, _tool: &str) -> bool {
        false
    }
    /// Resources and resource templates, when it has some.
    fn resources(&self) -> Option<(Vec<Value>, Vec<Value>)> {
        None
    }
    /// The contents of one resource.
    fn read(&self, _uri: &str) -> Option<Value> {
        None
    }
    /// Prompt definitions, when it has some.
    fn prompts(&self) -> Option<Vec<Value>> {
        None
    }
    /// The result of `prompts/get`.
    fn prompt(&self, _name: &str, _arguments: &Map<String, Value>) -> Option<Value> {
        None
    }
}

/// What a tool comes back with.
pub(super) enum Answer {
    /// The `result` object.
    Result(Value),
    /// Nothing, ever.
    Never,
    /// The process ends without an answer.
    Die {
        /// Exit code.
        code: u8,
        /// What it says on stderr.
        last_words: &'static str,
    },
}

impl Answer {
    /// Plain text, and the same as structured content where there is some.
    pub(super) fn text(text: impl Into<String>, structured: Option<Value>) -> Self {
        let mut result = json!({"content": [{"type": "text", "text": text.into()}]});
        if let Some(value) = structured {
            result["structuredContent"] = value;
        }
        Self::Result(result)
    }

    /// A tool error that a model can read and correct.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text.into()}], "isError": true}))
    }
}

/// Why the peer ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client closed our stdin.
    Eof,
    /// A tool ended the process.
    Died {
        /// Exit code.
        code: u8,
        /// What it says on stderr.
        last_words: &'static str,
    },
}

/// One running call, as its tool sees it.
pub(super) struct Call {
    token: Option<Value>,
    cancelled: Arc<Flag>,
    out: Out,
}

impl Call {
    /// Reports progress, if the client asked for it.
    pub(super) fn progress(&self, done: u32, total: u32, message: &str) {
        if let Some(token) = &self.token {
            let params =
                json!({"progressToken": token, "progress": done, "total": total, "message": message});
            self.out.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
    }

    /// Waits; true when the client cancelled meanwhile.
    pub(super) fn wait(&self, time: Duration) -> bool {
        self.cancelled.wait(time)
    }
}

/// A flag that can be waited for.
#[derive(Default)]
struct Flag {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    fn raise(&self) {
        *lock(&self.set) = true;
        self.changed.notify_all();
    }

    fn wait(&self, time: Duration) -> bool {
        let set = lock(&self.set);
        let waited = self.changed.wait_timeout_while(set, time, |set| !*set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where frames go. The first write error is kept; the reader ends on it.
#[derive(Clone)]
struct Out(Arc<Mutex<Sink>>);

struct Sink {
    pipe: Box<dyn Write + Send>,
    broken: Option<io::Error>,
}

impl Out {
    fn send(&self, frame: &Value) {
        let mut line = frame.to_string();
        line.push('\n');
        let mut sink = lock(&self.0);
        if sink.broken.is_none() {
            let written = sink.pipe.write_all(line.as_bytes()).and_then(|()| sink.pipe.flush());
            sink.broken = written.err();
        }
    }

    fn check(&self) -> io::Result<()> {
        lock(&self.0).broken.take().map_or(Ok(()), Err)
    }
}

/// Speaks MCP until the input ends, a pipe breaks, or a tool ends the process.
pub(super) fn run(
    server: Box<dyn Server>,
    input: &mut impl BufRead,
    output: impl Write + Send + 'static,
) -> io::Result<End> {
    let out = Out(Arc::new(Mutex::new(Sink { pipe: Box::new(output), broken: None })));
    let mut peer = Peer { server: Arc::from(server), out, slow: Arc::default() };
    let mut line = Vec::new();
    while read_line(input, &mut line)? {
        let step = match serde_json::from_slice::<Value>(&line) {
            Ok(frame) => peer.take(&frame),
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => Step::Quiet,
            Err(error) => Step::Answer(failure(&Value::Null, -32700, &format!("not JSON: {error}"), None)),
        };
        match step {
            Step::Quiet => {}
            Step::Answer(frame) => peer.out.send(&frame),
            Step::End(end) => return Ok(end),
        }
        peer.out.check()?;
    }
    Ok(End::Eof)
}

/// One line without its end; false at the end of input. The rest of a line over the cap is
/// skipped, and what is left of it is no JSON.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    if input.take(LINE_LEN_MAX).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    let mut rest = Vec::new();
    while line.len() as u64 == LINE_LEN_MAX && rest.last() != Some(&b'\n') {
        rest.clear();
        if input.take(LINE_LEN_MAX).read_until(b'\n', &mut rest)? == 0 {
            break;
        }
    }
    Ok(true)
}

enum Step {
    Quiet,
    Answer(Value),
    End(End),
}

/// Running slow calls by the JSON text of their id.
type Running = Arc<Mutex<HashMap<String, Arc<Flag>>>>;

struct Peer {
    server: Arc<dyn Server>,
    out: Out,
    slow: Running,
}

impl Peer {
    fn take(&mut self, frame: &Value) -> Step {
        let Some(method) = frame.get("method").and_then(Value::as_str) else {
            let is_answer = frame.get("result").is_some() || frame.get("error").is_some();
            let refusal = || failure(&Value::Null, -32600, "neither a request nor a notification", None);
            return if is_answer { Step::Quiet } else { Step::Answer(refusal()) };
        };
        let empty = Map::new();
        let params = frame.get("params").and_then(Value::as_object).unwrap_or(&empty);
        match frame.get("id") {
            None => {
                if method == "notifications/cancelled" {
                    self.cancel(params);
                }
                Step::Quiet
            }
            Some(id) if id.is_string() || id.is_i64() || id.is_u64() => self.request(id, method, params),
            Some(_) => Step::Answer(failure(&Value::Null, -32600, "an id is a string or an integer", None)),
        }
    }

    fn cancel(&self, params: &Map<String, Value>) {
        let id = params.get("requestId").map(Value::to_string).unwrap_or_default();
        if let Some(flag) = lock(&self.slow).get(&id) {
            flag.raise();
        }
    }

    fn request(&mut self, id: &Value, method: &str, params: &Map<String, Value>) -> Step {
        let meta = params.get("_meta").and_then(Value::as_object);
        let version = meta.and_then(|meta| meta.get(META_VERSION)).and_then(Value::as_str);
        let modern = version.is_some() || method == "server/discover";
        if let Some(wanted) = version.filter(|version| *version != MODERN) {
            let data = json!({"supported": [MODERN], "requested": wanted});
            return Step::Answer(failure(id, -32022, "Unsupported protocol version", Some(data)));
        }
        let result = match method {
            "tools/call" => return self.call(id, params, modern),
            "initialize" => Ok(self.initialize(params)),
            "server/discover" => Ok(self.discover()),
            "ping" if !modern => Ok(json!({})),
            _ => self.lookup(method, params),
        };
        Step::Answer(match result {
            Ok(result) => success(id, self.dress(result, method, modern)),
            Err((code, message)) => failure(id, code, &message, None),
        })
    }

    fn initialize(&self, params: &Map<String, Value>) -> Value {
        let wanted = params.get("protocolVersion").and_then(Value::as_str);
        let known = LEGACY.into_iter().find(|version| Some(*version) == wanted);
        json!({
            "protocolVersion": known.unwrap_or(LEGACY[LEGACY.len() - 1]),
            "capabilities": self.capabilities(),
            "serverInfo": self.info(),
            "instructions": self.server.instructions(),
        })
    }

    fn discover(&self) -> Value {
        json!({
            "supportedVersions": [MODERN],
            "capabilities": self.capabilities(),
            "instructions": self.server.instructions(),
        })
    }

    fn info(&self) -> Value {
        json!({"name": format!("callboard-demo-{}", self.server.name()), "version": env!("CARGO_PKG_VERSION")})
    }

    fn capabilities(&self) -> Value {
        let mut capabilities = json!({"tools": {}});
        if self.server.resources().is_some() {
            capabilities["resources"] = json!({});
        }
        if self.server.prompts().is_some() {
            capabilities["prompts"] = json!({});
        }
        capabilities
    }

    /// Everything that is answered from what the server has at hand.
    fn lookup(&self, method: &str, params: &Map<String, Value>) -> Result<Value, (i32, String)> {
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let absent = || (-32601, format!("Method not found: {method}"));
        match method {
            "tools/list" => Ok(json!({"tools": self.server.tools()})),
            "resources/list" => {
                self.server.resources().map(|(list, _)| json!({"resources": list})).ok_or_else(absent)
            }
            "resources/templates/list" => {
                self.server.resources().map(|(_, list)| json!({"resourceTemplates": list})).ok_or_else(absent)
            }
            "resources/read" => {
                let contents = self.server.read(text("uri"));
                let missing = || (-32602, format!("Resource not found: {}", text("uri")));
                contents.map(|contents| json!({"contents": [contents]})).ok_or_else(missing)
            }
            "prompts/list" => self.server.prompts().map(|list| json!({"prompts": list})).ok_or_else(absent),
            "prompts/get" => {
                let empty = Map::new();
                let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&empty);
                let missing = || (-32602, format!("Prompt not found: {}", text("name")));
                self.server.prompt(text("name"), arguments).ok_or_else(missing)
            }
            _ => Err(absent()),
        }
    }

    /// What the modern era wants in each result.
    fn dress(&self, mut result: Value, method: &str, modern: bool) -> Value {
        if modern {
            result["resultType"] = json!("complete");
            result["_meta"] = json!({META_SERVER: self.info()});
            if method.ends_with("/list") || method == "resources/read" || method == "server/discover" {
                result["ttlMs"] = json!(0);
                result["cacheScope"] = json!("private");
            }
        }
        result
    }

    fn call(&mut self, id: &Value, params: &Map<String, Value>, modern: bool) -> Step {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !self.server.tools().iter().any(|tool| tool["name"] == name.as_str()) {
            return Step::Answer(failure(id, -32602, &format!("Unknown tool: {name}"), None));
        }
        let arguments = match params.get("arguments") {
            None => Map::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => return Step::Answer(failure(id, -32602, "arguments must be an object", None)),
        };
        let token = params.get("_meta").and_then(|meta| meta.get("progressToken")).cloned();
        let call = Call { token, cancelled: Arc::default(), out: self.out.clone() };
        if self.server.is_slow(&name) {
            return self.call_beside(id.clone(), name, arguments, call, modern);
        }
        match self.server.call(&name, &arguments, &call) {
            Answer::Result(result) => Step::Answer(success(id, self.dress(result, "tools/call", modern))),
            Answer::Never => Step::Quiet,
            Answer::Die { code, last_words } => Step::End(End::Died { code, last_words }),
        }
    }

    /// Runs a slow call in a thread of its own, so that others are answered meanwhile.
    fn call_beside(
        &self,
        id: Value,
        name: String,
        arguments: Map<String, Value>,
        call: Call,
        modern: bool,
    ) -> Step {
        let key = id.to_string();
        {
            let mut running = lock(&self.slow);
            if running.len() >= SLOW_CALLS_MAX {
                return Step::Answer(failure(&id, -32000, "too many slow calls at once; try again", None));
            }
            running.insert(key.clone(), Arc::clone(&call.cancelled));
        }
        let peer =
            Self { server: Arc::clone(&self.server), out: self.out.clone(), slow: Arc::clone(&self.slow) };
        std::thread::spawn(move || {
            let answer = peer.server.call(&name, &arguments, &call);
            lock(&peer.slow).remove(&key);
            let cancelled = *lock(&call.cancelled.set);
            if let (Answer::Result(result), false) = (answer, cancelled) {
                peer.out.send(&success(&id, peer.dress(result, "tools/call", modern)));
            }
        });
        Step::Quiet
    }
}

fn success(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn failure(id: &Value, code: i32, message: &str, data: Option<Value>) -> Value {
    let mut error = json!({"code": code, "message": message});
    if let Some(data) = data {
        error["data"] = data;
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{BufReader, PipeReader, PipeWriter};
    use std::thread::JoinHandle;

    use super::*;
    use crate::demo;

    /// A demo server behind real pipes.
    pub(in crate::demo) struct Piped {
        input: Option<PipeWriter>,
        output: BufReader<PipeReader>,
        thread: JoinHandle<io::Result<End>>,
    }

    impl Piped {
        pub(in crate::demo) fn start(name: &str) -> Self {
            let (their_input, input) = io::pipe().unwrap();
            let (output, their_output) = io::pipe().unwrap();
            let server = demo::server(name).unwrap();
            let thread =
                std::thread::spawn(move || run(server, &mut BufReader::new(their_input), their_output));
            Self { input: Some(input), output: BufReader::new(output), thread }
        }

        pub(in crate::demo) fn send(&mut self, text: &str) {
            writeln!(self.input.as_mut().unwrap(), "{text}").unwrap();
        }

        pub(in crate::demo) fn receive(&mut self) -> Value {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            serde_json::from_str(&line).unwrap()
        }

        pub(in crate::demo) fn ask(&mut self, method: &str, params: Value) -> Value {
            self.send(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string());
            let answer = self.receive();
            assert_eq!(answer["id"], 7, "{answer}");
            answer
        }

        pub(in crate::demo) fn call(&mut self, tool: &str, arguments: Value) -> Value {
            self.ask("tools/call", json!({"name": tool, "arguments": arguments}))["result"].take()
        }

        /// Closes the input, and gives what else came and why the peer ended.
        pub(in crate::demo) fn end(mut self) -> (String, End) {
            drop(self.input.take());
            let mut rest = String::new();
            self.output.read_to_string(&mut rest).unwrap();
            (rest, self.thread.join().unwrap().unwrap())
        }
    }

    #[test]
    fn each_legacy_revision_is_answered_in_kind_and_an_unknown_one_by_the_newest() {
        let mut peer = Piped::start("notes");
        for version in LEGACY {
            let answer = peer.ask("initialize", json!({"protocolVersion": version, "capabilities": {}}));
            assert_eq!(answer["result"]["protocolVersion"], version);
            assert!(answer["result"].get("resultType").is_none());
        }
        let answer = peer.ask("initialize", json!({"protocolVersion": "2099-01-01"}));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        assert_eq!(answer["result"]["serverInfo"]["name"], "callboard-demo-notes");
        assert_eq!(answer["result"]["capabilities"], json!({"tools": {}, "resources": {}, "prompts": {}}));
        assert_eq!(peer.end(), (String::new(), End::Eof));
    }

    #[test]
    fn the_modern_era_is_spoken_without_a_handshake() {
        let mut peer = Piped::start("clock");
        let meta = json!({META_VERSION: MODERN});
        let found = peer.ask("server/discover", json!({"_meta": meta}))["result"].take();
        assert_eq!(found["supportedVersions"], json!([MODERN]));
        assert_eq!((&found["resultType"], &found["cacheScope"]), (&json!("complete"), &json!("private")));
        let listed = peer.ask("tools/list", json!({"_meta": meta}))["result"].take();
        assert_eq!((&listed["resultType"], &listed["ttlMs"]), (&json!("complete"), &json!(0)));
        assert_eq!(peer.ask("ping", json!({"_meta": meta}))["error"]["code"], -32601);
        let other = peer.ask("tools/list", json!({"_meta": {META_VERSION: "2031-01-01"}}))["error"].take();
        assert_eq!((&other["code"], &other["data"]["supported"]), (&json!(-32022), &json!([MODERN])));
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_the_next_request_is_answered() {
        let mut peer = Piped::start("hang");
        for (line, code) in [
            ("{not json", -32700),
            ("[]", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}", -32601),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}", -32601),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}", -32602),
        ] {
            peer.send(line);
            assert_eq!(peer.receive()["error"]["code"], code, "{line}");
        }
        peer.send("");
        peer.send("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}");
        peer.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        assert_eq!(peer.ask("ping", json!({}))["result"], json!({}));
    }

    #[test]
    fn a_line_over_the_cap_is_refused_alone() {
        let mut peer = Piped::start("notes");
        let size = usize::try_from(LINE_LEN_MAX).unwrap() * 2 + 5;
        peer.send(&format!("{{\"a\":\"{}\"}}", "x".repeat(size)));
        assert_eq!(peer.receive()["error"]["code"], -32700);
        assert_eq!(peer.ask("ping", json!({}))["result"], json!({}));
    }

    #[test]
    fn a_reader_that_left_ends_the_server() {
        let (their_input, mut input) = io::pipe().unwrap();
        let (output, their_output) = io::pipe().unwrap();
        drop(output);
        writeln!(input, "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}").unwrap();
        let ended = run(demo::server("notes").unwrap(), &mut BufReader::new(their_input), their_output);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

//! An in-process server at the wire: lines in, lines out, as a script says.

use std::sync::{Arc, Mutex};

use callboard::transport::DuplexPeer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

/// What a server does with one message: it may write lines through the wire, now or later.
pub trait Script: Fn(&Value, &Wire) + Send + Sync + 'static {}
impl<F: Fn(&Value, &Wire) + Send + Sync + 'static> Script for F {}

/// The server's side of one connection.
#[derive(Clone)]
pub struct Wire {
    out: mpsc::UnboundedSender<Option<Vec<u8>>>,
    /// Counts the connections, from 1.
    pub connection: usize,
}

impl Wire {
    /// Writes one line.
    pub fn line(&self, text: impl AsRef<[u8]>) {
        let mut bytes = text.as_ref().to_vec();
        bytes.push(b'\n');
        let _ = self.out.send(Some(bytes));
    }

    /// Writes bytes as they are.
    pub fn raw(&self, bytes: impl AsRef<[u8]>) {
        let _ = self.out.send(Some(bytes.as_ref().to_vec()));
    }

    /// Answers a request with a result, as text.
    pub fn result(&self, request: &Value, result: &str) {
        self.line(answer(request, result));
    }

    /// Ends the connection.
    pub fn hang_up(&self) {
        let _ = self.out.send(None);
    }
}

/// What a server received, in order, for the test to look at.
#[derive(Clone, Default)]
pub struct Tape(Arc<Mutex<Vec<Value>>>);

impl Tape {
    /// The same script, with everything it receives on the tape.
    pub fn of(&self, script: impl Script) -> impl Script {
        let tape = self.0.clone();
        move |message: &Value, wire: &Wire| {
            tape.lock().unwrap().push(message.clone());
            script(message, wire);
        }
    }

    /// The messages with that method so far.
    pub fn received(&self, method: &str) -> Vec<Value> {
        self.0.lock().unwrap().iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// The answers to what the server asked, so far.
    pub fn answers(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().filter(|message| message.get("method").is_none()).cloned().collect()
    }
}

/// The line of an answer.
pub fn answer(request: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"])
}

/// The id of a request.
pub fn id_of(request: &Value) -> u64 {
    request["id"].as_u64().expect("our ids are numbers")
}

/// The method of a message.
pub fn method_of(message: &Value) -> &str {
    message["method"].as_str().unwrap_or_default()
}

/// What a correct legacy server with the tools `echo` and `other` does, except for calls.
/// Returns whether it dealt with the message.
pub fn good(message: &Value, wire: &Wire) -> bool {
    match method_of(message) {
        "initialize" => {
            let result = json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "scripted", "version": "1"},
            });
            wire.result(message, &result.to_string());
        }
        "tools/list" => {
            let tools = json!({"tools": [
                {"name": "echo", "inputSchema": {"type": "object"}},
                {"name": "other", "inputSchema": {"type": "object"}},
            ]});
            wire.result(message, &tools.to_string());
        }
        "notifications/initialized" => {}
        _ => return false,
    }
    true
}

/// A connector that runs the script on every connection.
pub fn duplex(script: impl Script) -> DuplexPeer {
    let script = Arc::new(script);
    let connections = Arc::new(Mutex::new(0));
    DuplexPeer(Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let connection = {
            let mut count = connections.lock().unwrap();
            *count += 1;
            *count
        };
        tokio::spawn(serve(theirs, script.clone(), connection));
        ours
    }))
}

async fn serve(stream: tokio::io::DuplexStream, script: Arc<impl Script>, connection: usize) {
    let (input, mut output) = tokio::io::split(stream);
    let (out, mut to_write) = mpsc::unbounded_channel::<Option<Vec<u8>>>();
    let wire = Wire { out, connection };
    let reader = tokio::spawn(async move {
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).expect("we write JSON");
            script(&message, &wire);
        }
    });
    while let Some(Some(bytes)) = to_write.recv().await {
        if output.write_all(&bytes).await.is_err() {
            break;
        }
    }
    reader.abort();
    let _ = output.shutdown().await;
}

//! The server that the host itself is: JSON-RPC on a pair of pipes in memory, in both eras. Each call
//! runs in a task of its own, in bounded number; a cancelled one is ended.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::mpsc;

use super::tool::Tool;
use super::{Hands, Output};
use crate::id::SessionId;
use crate::transport::DuplexPeer;
use crate::transport::task::{self, Owned};
use crate::wire::splice::SESSION;

/// Room of the pipe, bytes.
const PIPE_LEN: usize = 64 * 1024;
/// Calls that run at once; the host's own limit for one server is lower or the same.
const CALLS_MAX: usize = 64;
/// Answers that wait to be written.
const ANSWERS_MAX: usize = CALLS_MAX * 2;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A peer that serves these tools anew on each connection.
pub(super) fn peer(hands: Arc<Hands>) -> DuplexPeer {
    DuplexPeer(Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(PIPE_LEN);
        task::spawn(serve(theirs, hands.clone())).detach();
        ours
    }))
}

/// Serves until the other end is dropped. What runs then is ended with it.
async fn serve(pipe: DuplexStream, hands: Arc<Hands>) {
    let (input, mut output) = tokio::io::split(pipe);
    let (answers, mut ready) = mpsc::channel::<(String, Value)>(ANSWERS_MAX);
    let mut lines = BufReader::new(input).lines();
    let mut running: HashMap<String, Owned> = HashMap::new();
    loop {
        let answer = tokio::select! {
            biased;
            Some((id, answer)) = ready.recv() => {
                // A call that was cancelled meanwhile is not answered.
                if running.remove(&id).is_none() { continue }
                Some(answer)
            }
            line = lines.next_line() => match line {
                Ok(Some(line)) => accept(&line, &hands, &mut running, &answers),
                Ok(None) | Err(_) => return,
            },
        };
        let Some(answer) = answer else { continue };
        if output.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Takes one message: an answer at once, or a task that will have one.
fn accept(
    line: &str,
    hands: &Arc<Hands>,
    running: &mut HashMap<String, Owned>,
    answers: &mpsc::Sender<(String, Value)>,
) -> Option<Value> {
    // Who speaks is our own link: a line that is no JSON does not come.
    let message: Value = serde_json::from_str(line).ok()?;
    let (method, params) = (message["method"].as_str()?, &message["params"]);
    if method == "notifications/cancelled" {
        running.remove(&params["requestId"].to_string());
    }
    let id = message.get("id")?.clone();
    let modern = params["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
    let result = match method {
        "initialize" => initialized(),
        "server/discover" => discovered(),
        "ping" => json!({}),
        "tools/list" => listed(hands, modern),
        "tools/call" => {
            let Some(tool) = params["name"].as_str().and_then(Tool::of).filter(|tool| hands.has(*tool))
            else {
                return Some(error(&id, -32602, "unknown tool"));
            };
            if running.len() >= CALLS_MAX {
                return Some(error(&id, -32000, "too many calls of the host's own tools at once"));
            }
            let session = params["_meta"][SESSION].as_u64().map(SessionId);
            let (hands, answers, key) = (hands.clone(), answers.clone(), id.to_string());
            let arguments = params["arguments"].clone();
            let name = key.clone();
            let work = async move {
                let outcome = hands.run(tool, session, arguments).await;
                let answer = success(&id, finished(outcome, modern));
                let _ = answers.send((name, answer)).await;
            };
            running.insert(key, task::spawn(work));
            return None;
        }
        _ => return Some(error(&id, -32601, "unknown method")),
    };
    Some(success(&id, result))
}

fn success(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i64, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
}

fn info() -> Value {
    json!({"name": "callboard", "title": "Callboard", "version": env!("CARGO_PKG_VERSION")})
}

fn initialized() -> Value {
    json!({"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": info()})
}

fn discovered() -> Value {
    json!({"supportedVersions": [MODERN, LEGACY], "capabilities": {"tools": {}}, "serverInfo": info(),
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
}

fn listed(hands: &Hands, modern: bool) -> Value {
    let tools: Vec<Value> = hands.tools().iter().map(|tool| tool.definition()).collect();
    let mut result = json!({"tools": tools});
    if modern {
        result["resultType"] = "complete".into();
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
    }
    result
}

/// The result of a call. What went wrong is for the model to read.
fn finished(outcome: Result<Output, String>, modern: bool) -> Value {
    let mut result = match outcome {
        Ok(Output { text, structured }) => {
            let text = text.unwrap_or_else(|| structured.to_string());
            json!({"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": false})
        }
        Err(text) => json!({"content": [{"type": "text", "text": text}], "isError": true}),
    };
    if modern {
        result["resultType"] = "complete".into();
    }
    result
}

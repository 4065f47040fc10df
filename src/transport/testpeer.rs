//! For tests: a peer in memory that shakes hands, lists tools, and answers calls of the first;
//! it never answers those of the others.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::DuplexPeer;

/// A peer with these tools.
pub(crate) fn peer(tools: &'static [&'static str]) -> DuplexPeer {
    DuplexPeer(Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let work = async move {
            let (input, mut output) = tokio::io::split(theirs);
            let mut lines = BufReader::new(input).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let Some(result) = result(&message, tools) else { continue };
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                if output.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        super::task::spawn(work).detach();
        ours
    }))
}

fn result(message: &Value, tools: &[&str]) -> Option<Value> {
    Some(match message["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"}}),
        "tools/list" => {
            let tools: Vec<_> = tools.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect();
            json!({ "tools": tools })
        }
        "tools/call" if message["params"]["name"] == tools[0] => json!({"ok": 1}),
        _ => return None,
    })
}

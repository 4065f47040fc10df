//! Floor 1. The entry that stands for Callboard in another client's file: how it is written and
//! how it is known again. The one place that names the flags of the host for others.

use serde_json::{Value, json};

use super::client::Client;

/// Name of the entry that serves everything.
pub const NAME: &str = "callboard";
/// Serves MCP on stdin and stdout.
const SERVE: &str = "--mcp-serve";
/// Serves one server alone; its name follows.
const ONLY: &str = "--only";
/// The client asks its user itself before a tool runs; asking twice helps nobody.
const APPROVAL: [&str; 2] = ["--approval", "client"];

/// The entry of a program for a client: of all servers, or `only` of one.
pub fn entry(client: Client, program: &str, only: Option<&str>) -> Value {
    let mut args = vec![SERVE];
    if let Some(server) = only {
        args.extend([ONLY, server]);
    }
    args.extend(APPROVAL);
    match client {
        Client::Vscode | Client::ClaudeCode => json!({"type": "stdio", "command": program, "args": args}),
        _ => json!({"command": program, "args": args}),
    }
}

/// Whether an entry starts Callboard as a host, whatever folder it lies in.
pub fn is_ours(value: &Value) -> bool {
    let command = value.get("command").map(|command| command.get("path").unwrap_or(command));
    let command = command.and_then(Value::as_str).unwrap_or_default();
    let file = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let args = value.get("args").or_else(|| value.get("command")?.get("args")).and_then(Value::as_array);
    let serves = args.is_some_and(|args| args.iter().any(|arg| arg == SERVE));
    file.trim_end_matches(".exe") == NAME && serves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_entry_is_known_again_and_a_namesake_is_not() {
        for client in Client::ALL {
            assert!(is_ours(&entry(client, "/opt/bin/callboard", None)));
            assert!(is_ours(&entry(client, "C:\\bin\\callboard.exe", Some("git"))));
        }
        assert!(!is_ours(&json!({"command": "callboard", "args": ["mcp", "list"]})));
        assert!(!is_ours(&json!({"command": "other", "args": ["--mcp-serve"]})));
        assert!(!is_ours(&json!("callboard")));
    }
}
